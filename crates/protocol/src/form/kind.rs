//! Messages that are known only by name.

use super::{Form, FormError, FormValue, MESSAGES, NAMES, Sink};
use crate::nearest::nearest;
use crate::wire::{Bytes, DecodeError, EncodeError, Frame, Message, Reader, Versions, Writer};

/// A generic operation on a message type that is known only by name.
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs the operation for a message type.
    fn visit<M: Message + Form>(self) -> Self::Output;
}

/// A message behind a pointer, for callers that do not know its type.
pub trait Body: Send + Sync {
    /// Writes the fields that the version has to a form.
    fn show(&self, version: i16, out: &mut dyn Sink);

    /// As [`Message::encode`].
    ///
    /// # Errors
    /// As for that function.
    fn encode(&self, version: i16) -> Result<Frame, EncodeError>;
}

impl<M: Message + Form> Body for M {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        Form::show(self, version, out);
    }

    fn encode(&self, version: i16) -> Result<Frame, EncodeError> {
        let mut out = Writer::new();
        Message::encode(self, version, &mut out)?;
        Ok(out.finish())
    }
}

type Decode = fn(i16, &mut Reader) -> Result<Box<dyn Body>, DecodeError>;
type Take = fn(i16, &dyn FormValue) -> Result<Box<dyn Body>, FormError>;

/// A kind of message: a request, a response, a header, a record of an internal topic.
#[derive(Debug)]
pub struct MessageKind {
    /// Kafka's name, such as `FetchRequest`.
    pub name: &'static str,
    /// The known versions.
    pub versions: Versions,
    /// The first version with compact lengths and tags (KIP-482).
    pub flexible_from: Option<i16>,
    decode: Decode,
    take: Take,
}

impl MessageKind {
    pub(super) const fn of<M: Message + Form>() -> Self {
        Self {
            name: M::NAME,
            versions: M::VERSIONS,
            flexible_from: M::FLEXIBLE_FROM,
            decode: |version, input| Ok(Box::new(M::decode(version, input)?)),
            take: |version, from| {
                let mut message = Box::<M>::default();
                match message.fill(version, from) {
                    Ok(()) => Ok(message),
                    Err(error) => Err(error.at(M::NAME)),
                }
            },
        }
    }

    /// As [`Message::decode`].
    ///
    /// # Errors
    /// As for that function.
    pub fn decode(&self, version: i16, input: &mut Reader) -> Result<Box<dyn Body>, DecodeError> {
        (self.decode)(version, input)
    }

    /// Decodes a message that must fill all of the bytes.
    ///
    /// # Errors
    /// As for [`Message::decode`], and bytes left over.
    pub fn decode_whole(&self, version: i16, bytes: Bytes) -> Result<Box<dyn Body>, DecodeError> {
        let mut input = Reader::new(bytes);
        let message = self.decode(version, &mut input)?;
        input.finish().map_err(|error| error.at(self.name))?;
        Ok(message)
    }

    /// Reads the message from a form.
    ///
    /// # Errors
    /// The version is unknown, or as for [`Form::take`].
    pub fn take(&self, version: i16, from: &dyn FormValue) -> Result<Box<dyn Body>, FormError> {
        if !self.versions.contains(version) {
            return Err(crate::wire::encode_version(self.name, version, self.versions).into());
        }
        (self.take)(version, from)
    }
}

/// Finds the message with this name.
///
/// # Errors
/// [`FormError::UnknownMessage`], which suggests the nearest name.
pub fn find(name: &str) -> Result<&'static MessageKind, FormError> {
    let place = MESSAGES.binary_search_by_key(&name, |kind| kind.name);
    match place.ok().and_then(|place| MESSAGES.get(place)) {
        Some(kind) => Ok(kind),
        None => Err(FormError::UnknownMessage {
            name: name.to_owned(),
            nearest: nearest(name, NAMES.iter().copied()).unwrap_or_default(),
        }),
    }
}
