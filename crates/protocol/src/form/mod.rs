//! Every message by name, and the one way through it that all its forms share.
//!
//! A form is a notation for messages outside Rust: Kafka's JSON ([`crate::json`], a feature of its own), Python's objects.
//! To write one, implement [`Sink`]; to read one, [`FormValue`]. The generated code that walks a struct ([`Form`]) calls them
//! through a pointer, so it is built once, whatever forms there are.
//!
//! Field names are Kafka's JSON names, which begin small; every error has them too.

mod error;
pub mod frame;
mod generated;
mod kind;
pub mod text;
mod values;

pub use error::{FormError, ValueError};
pub use generated::{MESSAGES, NAMES, visit};
pub use kind::{Body, MessageKind, Visitor, find};

use crate::nearest::nearest;
use crate::wire::{Bytes, Str, UnknownTag, UnknownTags, Uuid};

/// Where the tagged fields stand that are not known here.
pub const UNKNOWN: &str = "_unknownTaggedFields";

/// The name of a field, as a place among the names of all fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(u16);

impl Name {
    /// Every name, in the order of [`Self::index`].
    pub fn all() -> impl ExactSizeIterator<Item = &'static str> {
        generated::FIELDS.iter().copied()
    }

    /// Its place among [`Self::all`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        generated::FIELDS
            .get(self.index())
            .copied()
            .unwrap_or_default()
    }
}

/// What a form makes of a message's values, which come one after the other.
pub trait Sink {
    /// Null.
    fn null(&mut self);
    /// A truth value.
    fn bool(&mut self, value: bool);
    /// An integer of any type of the protocol.
    fn int(&mut self, value: i64);
    /// A float.
    fn float(&mut self, value: f64);
    /// Text.
    fn string(&mut self, value: &Str);
    /// Bytes, or records.
    fn bytes(&mut self, value: &Bytes);
    /// A uuid.
    fn uuid(&mut self, value: Uuid);
    /// An array begins; its elements follow.
    fn begin_array(&mut self, length: usize);
    /// The array that began last ends.
    fn end_array(&mut self);
    /// A struct begins; each of its values follows after its name.
    fn begin_object(&mut self);
    /// What the next value is called.
    fn name(&mut self, name: Name);
    /// Tagged fields of the struct that are not known here; there are some.
    fn unknown(&mut self, fields: &UnknownTags);
    /// The struct that began last ends.
    fn end_object(&mut self);
    /// Are tagged fields wanted that hold their default, which the wire leaves out?
    fn shows_defaults(&self) -> bool;
}

/// A value in a form. Every error is [`FormError::Value`] and begins without a path.
pub trait FormValue {
    /// Is it null?
    fn is_null(&self) -> bool;
    /// The truth value that it is.
    fn bool(&self) -> Result<bool, FormError>;
    /// The integer that it is, which `range` holds.
    fn int(&self, range: IntRange) -> Result<i64, FormError>;
    /// The float that it is.
    fn float(&self) -> Result<f64, FormError>;
    /// The text that it is.
    fn string(&self) -> Result<Str, FormError>;
    /// The bytes that it is.
    fn bytes(&self) -> Result<Bytes, FormError>;
    /// The uuid that it is.
    fn uuid(&self) -> Result<Uuid, FormError>;
    /// Gives each element of the array that it is.
    fn elements(&self, each: Each<'_>) -> Result<(), FormError>;
    /// How many names the object has that it is.
    fn object(&self) -> Result<usize, FormError>;
    /// Gives the value that stands under a name, if there is one, and says whether there is.
    fn field(&self, name: Name, one: Each<'_>) -> Result<bool, FormError>;
    /// The tagged fields that are not known here; `None` where the object does not have the name.
    fn unknown(&self) -> Result<Option<Vec<UnknownTag>>, FormError>;
    /// A name of the object that is not among these, nor [`UNKNOWN`].
    fn stranger(&self, known: &[Name]) -> Option<String>;
    /// Is a missing field an error, not a default?
    fn is_complete(&self) -> bool;
}

/// What is done with values of a form.
pub type Each<'a> = &'a mut dyn FnMut(&dyn FormValue) -> Result<(), FormError>;

/// What an integer type can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntRange {
    /// Kafka's name of the type.
    pub name: &'static str,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
}

impl IntRange {
    /// The number, if the type can hold it.
    ///
    /// # Errors
    /// It cannot.
    pub fn holds(self, value: i64) -> Result<i64, FormError> {
        if self.min <= value && value <= self.max {
            Ok(value)
        } else {
            Err(self.misses(value))
        }
    }

    /// The error for a number that the type cannot hold.
    pub fn misses(self, value: impl std::fmt::Display) -> FormError {
        let Self { name, min, max } = self;
        FormError::value(format!("{value} is not an {name}, from {min} to {max}"))
    }
}

/// A value that forms have: fields, structs, messages.
pub trait Form: Sized {
    /// Gives a form what the version has of the value.
    fn show(&self, version: i16, out: &mut dyn Sink);

    /// The value from what a form has of it.
    ///
    /// # Errors
    /// A value that does not fit its field, a name that is no field's, or a missing field where the form leaves none out.
    fn take(version: i16, from: &dyn FormValue) -> Result<Self, FormError>;
}

/// The fields of an object, as they are taken.
pub(crate) struct Fields<'a> {
    from: &'a dyn FormValue,
    /// Names that were not asked for yet.
    left: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(from: &'a dyn FormValue) -> Result<Self, FormError> {
        let left = from.object()?;
        Ok(Self { from, left })
    }

    /// Puts a field where its default stands.
    pub(crate) fn take<T: Form>(
        &mut self,
        name: Name,
        version: i16,
        needed: bool,
        slot: &mut T,
    ) -> Result<(), FormError> {
        if self.left == 0 && !self.from.is_complete() {
            return Ok(());
        }
        let found = self.from.field(name, &mut |value| {
            *slot = T::take(version, value)?;
            Ok(())
        });
        match found {
            Ok(true) => {
                self.left = self.left.saturating_sub(1);
                Ok(())
            }
            Ok(false) if needed && self.from.is_complete() => {
                Err(FormError::value(format!("missing in version {version}")).at(name.as_str()))
            }
            Ok(false) => Ok(()),
            Err(error) => Err(error.at(name.as_str())),
        }
    }

    pub(crate) fn take_unknown(&mut self, slot: &mut UnknownTags) -> Result<(), FormError> {
        if self.left > 0 {
            if let Some(fields) = self.from.unknown().map_err(|error| error.at(UNKNOWN))? {
                self.left -= 1;
                *slot = fields.into_iter().collect();
            }
        }
        Ok(())
    }

    /// Every name must have been a field's.
    pub(crate) fn end(self, known: &[Name]) -> Result<(), FormError> {
        if self.left == 0 {
            return Ok(());
        }
        match self.from.stranger(known) {
            Some(name) => Err(no_field(&name, known)),
            None => Err(FormError::value(format!(
                "{UNKNOWN} stands here, and no version of the message has tagged fields"
            ))),
        }
    }
}

#[cold]
fn no_field(name: &str, known: &[Name]) -> FormError {
    let known = known.iter().map(|name| name.as_str());
    FormError::value(match nearest(name, known) {
        Some(nearest) => format!("no field is named {name:?}; the nearest is {nearest:?}"),
        None => format!("no field is named {name:?}; the struct has none"),
    })
}

pub(crate) fn show_unknown(fields: &UnknownTags, out: &mut dyn Sink) {
    if !fields.is_empty() {
        out.unknown(fields);
    }
}
