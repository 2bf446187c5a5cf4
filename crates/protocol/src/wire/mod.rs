//! The primitives of the wire format, which the generated code uses.
//!
//! Encoding a [`Message`] takes two passes: `measure` computes the exact size and finds every error, and `write` fills one
//! buffer of that size and cannot fail. Decoding is one pass over a [`Reader`], which checks every length against the bytes
//! that are left.

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

pub(crate) use errors::{
    Path, at, decode_version, encode_version, not_in_version, null_in_version, tag_not_in_version,
    tags_in_version, too_large, within, within_element,
};
pub(crate) use size::{
    measure_bytes, measure_count, measure_string, measure_tag, measure_tags, measured,
};

/// Maximum bytes of a string, in both encodings.
pub const MAX_STRING: usize = i16::MAX as usize;
