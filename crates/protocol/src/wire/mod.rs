//! The primitives of the wire format: what the generated code is made of.
//!
//! A [`Message`] is encoded in two passes: `measure` finds the exact size and everything that cannot be written, `write`
//! then fills one buffer of that size and cannot fail. Decoding is one pass over a [`Reader`], with every length checked
//! against the bytes that are there.

mod errors;
mod group;
mod message;
mod reader;
mod size;
mod values;
mod versions;
mod writer;

pub use bytes::Bytes;
pub use errors::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};
pub use message::{Message, Request, Response};
pub use reader::Reader;
pub use size::Size;
pub use values::{Ints, Str, UnknownTag, UnknownTags, Uuid};
pub use versions::Versions;
pub use writer::{Frame, Writer};

#[cfg(feature = "forms")]
pub(crate) use errors::{Path, decode_version, encode_version};
pub(crate) use errors::{
    at, not_in_version, null_in_version, tag_not_in_version, tags_in_version, too_large, within,
    within_element,
};
pub(crate) use size::{
    measure_bytes, measure_count, measure_string, measure_tag, measure_tags, measured,
};

/// The most bytes that a string may have, in both encodings.
pub const MAX_STRING: usize = i16::MAX as usize;
