//! Finds every message by name, and walks its fields once for all its forms.
//!
//! A form is a notation for messages outside Rust: Kafka's JSON ([`crate::json`], a separate feature), or Python's objects.
//! [`Sink`] writes a form and [`FormValue`] reads one. The generated code that walks a struct ([`Form`]) calls both through a
//! pointer, so that it is compiled once for all forms.
//!
//! Field names are Kafka's JSON names, which begin with a small letter; errors use them too.

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

/// The name under which a form lists unknown tagged fields.
pub const UNKNOWN: &str = "_unknownTaggedFields";

/// The name of a field, as an index into the names of all fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(u16);

impl Name {
    /// Every name, in the order of [`Self::index`].
    pub fn all() -> impl ExactSizeIterator<Item = &'static str> {
        generated::FIELDS.iter().copied()
    }

    /// Its index in [`Self::all`].
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

/// Writes a form of a message, value by value.
pub trait Sink {
    /// Null.
    fn null(&mut self);
    /// A boolean.
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
    /// Begins an array; its elements follow.
    fn begin_array(&mut self, length: usize);
    /// Ends the innermost array.
    fn end_array(&mut self);
    /// Begins a struct; its names follow, each with its value.
    fn begin_object(&mut self);
    /// The name of the next value.
    fn name(&mut self, name: Name);
    /// The unknown tagged fields of the struct, at least one.
    fn unknown(&mut self, fields: &UnknownTags);
    /// Ends the innermost struct.
    fn end_object(&mut self);
    /// Does the form show tagged fields with their default value, which the wire leaves out?
    fn shows_defaults(&self) -> bool;
}

/// A value in a form that is being read. Every error is [`FormError::Value`], without a path at first.
pub trait FormValue {
    /// Is it null?
    fn is_null(&self) -> bool;
    /// The value as a boolean.
    fn bool(&self) -> Result<bool, FormError>;
    /// The value as an integer within `range`.
    fn int(&self, range: IntRange) -> Result<i64, FormError>;
    /// The value as a float.
    fn float(&self) -> Result<f64, FormError>;
    /// The value as a string.
    fn string(&self) -> Result<Str, FormError>;
    /// The value as bytes.
    fn bytes(&self) -> Result<Bytes, FormError>;
    /// The value as a uuid.
    fn uuid(&self) -> Result<Uuid, FormError>;
    /// Calls `each` for every element of the array.
    fn elements(&self, each: Each<'_>) -> Result<(), FormError>;
    /// The number of names in the object.
    fn object(&self) -> Result<usize, FormError>;
    /// Calls `one` with the value of a name, if the object has it, and returns whether it does.
    fn field(&self, name: Name, one: Each<'_>) -> Result<bool, FormError>;
    /// The unknown tagged fields; `None` if the object does not list them.
    fn unknown(&self) -> Result<Option<Vec<UnknownTag>>, FormError>;
    /// A name in the object that is neither one of these nor [`UNKNOWN`].
    fn stranger(&self, known: &[Name]) -> Option<String>;
    /// Is a missing field an error, not a default?
    fn is_complete(&self) -> bool;
}

/// A callback for values of a form.
pub type Each<'a> = &'a mut dyn FnMut(&dyn FormValue) -> Result<(), FormError>;

/// The range of an integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntRange {
    /// Kafka's name of the type.
    pub name: &'static str,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
}

impl IntRange {
    /// Checks that the type can hold a number.
    ///
    /// # Errors
    /// The type cannot hold it.
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

/// A value with a form: a field, a struct or a message.
///
/// A value is filled in place and behind a pointer, so that the fields of all structs are read by the same code. There are thousands of
/// them: code for each would be a tenth of the extension.
pub trait Form {
    /// Writes the parts of the value that the version has.
    fn show(&self, version: i16, out: &mut dyn Sink);

    /// Replaces the value, which is the default, by that of a form.
    ///
    /// # Errors
    /// A value that does not fit its field, a name without a field, or a missing field where the form must be complete.
    fn fill(&mut self, version: i16, from: &dyn FormValue) -> Result<(), FormError>;

    /// Reads the value from a form.
    ///
    /// # Errors
    /// As for [`Form::fill`].
    fn take(version: i16, from: &dyn FormValue) -> Result<Self, FormError>
    where
        Self: Sized + Default,
    {
        let mut value = Self::default();
        value.fill(version, from)?;
        Ok(value)
    }
}

/// The fields of an object while they are read. After an error nothing more is read.
pub(crate) struct Fields<'a> {
    from: &'a dyn FormValue,
    version: i16,
    /// How many names are not read yet.
    left: Result<usize, FormError>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(from: &'a dyn FormValue, version: i16) -> Self {
        Self {
            from,
            version,
            left: from.object(),
        }
    }

    /// Replaces the default of a field by its value.
    pub(crate) fn take(&mut self, name: Name, needed: bool, slot: &mut dyn Form) {
        let Ok(left) = &mut self.left else {
            return;
        };
        if *left == 0 && !self.from.is_complete() {
            return;
        }
        let version = self.version;
        let found = self
            .from
            .field(name, &mut |value| slot.fill(version, value));
        let error = match found {
            Ok(true) => {
                *left = left.saturating_sub(1);
                return;
            }
            Ok(false) if needed && self.from.is_complete() => {
                FormError::value(format!("missing in version {version}"))
            }
            Ok(false) => return,
            Err(error) => error,
        };
        self.left = Err(error.at(name.as_str()));
    }

    pub(crate) fn take_unknown(&mut self, slot: &mut UnknownTags) {
        let Ok(left @ 1..) = &mut self.left else {
            return;
        };
        match self.from.unknown() {
            Ok(Some(fields)) => {
                *left -= 1;
                *slot = fields.into_iter().collect();
            }
            Ok(None) => {}
            Err(error) => self.left = Err(error.at(UNKNOWN)),
        }
    }

    /// Checks that every name was read as a field.
    pub(crate) fn end(self, known: &[Name]) -> Result<(), FormError> {
        if self.left? == 0 {
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
