//! Messages that are only known by their names.

use super::{Form, FormError, FormValue, MESSAGES, NAMES, Sink};
use crate::nearest::nearest;
use crate::wire::{Bytes, DecodeError, EncodeError, Frame, Message, Reader, Versions, Writer};

/// Something to do with a message type that is only known by its name.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<M: Message + Form>(self) -> Self::Output;
}

/// A message of a type that is not known where it is used.
pub trait Body: Send + Sync {
    /// Gives a form what the version has of the message.
    fn show(&self, version: i16, out: &mut dyn Sink);

    /// As [`Message::encode`].
    ///
    /// # Errors
    /// As there.
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
    /// Kafka's name of it, as `FetchRequest`.
    pub name: &'static str,
    /// The versions that can be encoded and decoded.
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
            take: |version, from| match M::take(version, from) {
                Ok(message) => Ok(Box::new(message)),
                Err(error) => Err(error.at(M::NAME)),
            },
        }
    }

    /// As [`Message::decode`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(&self, version: i16, input: &mut Reader) -> Result<Box<dyn Body>, DecodeError> {
        (self.decode)(version, input)
    }

    /// The message that the bytes are, to the last.
    ///
    /// # Errors
    /// As for [`Message::decode`], and bytes left over.
    pub fn decode_whole(&self, version: i16, bytes: Bytes) -> Result<Box<dyn Body>, DecodeError> {
        let mut input = Reader::new(bytes);
        let message = self.decode(version, &mut input)?;
        input.finish().map_err(|error| error.at(self.name))?;
        Ok(message)
    }

    /// The message from what a form has of it.
    ///
    /// # Errors
    /// The version is not there, or as for [`Form::take`].
    pub fn take(&self, version: i16, from: &dyn FormValue) -> Result<Box<dyn Body>, FormError> {
        if !self.versions.contains(version) {
            return Err(crate::wire::encode_version(self.name, version, self.versions).into());
        }
        (self.take)(version, from)
    }
}

/// The message of this name.
///
/// # Errors
/// [`FormError::UnknownMessage`], which says the nearest name.
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
