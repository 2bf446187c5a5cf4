//! Kafka's wire protocol: bytes to values and back.
//!
//! * [`messages`]: every request, response, header and record of Kafka 0.8 to 4.4, generated from `schemas/`. One struct a
//!   message for all its versions; the version is an argument ([`Message`]).
//! * [`header`]: frames, as they go over a connection.
//! * `form` (a feature): every message by name, and the way through it that Kafka's JSON (`json`, a feature of its own) and
//!   Python's objects share.
//! * [`refusal`]: the response that says an error, for any request.
//! * [`internal`]: which message a record of an internal topic is.
//! * [`records`] and [`compression`]: record batches and the codecs in them.
//! * [`nearest`]: the name that was probably meant, for errors about unknown ones.
//! * [`wire`]: the primitives that the generated code is made of.
//!
//! Nothing here allocates by a length that the bytes do not back, and no bytes make it panic. Bytes and records of a
//! decoded message are slices of the received buffer; strings are copied, most of them into the message itself.
//!
//! Reference: <https://kafka.apache.org/protocol>, KIP-482 (flexible versions), KIP-511 (ApiVersions).

pub mod compression;
mod error;
#[cfg(feature = "forms")]
pub mod form;
pub mod header;
pub mod internal;
#[cfg(feature = "json")]
pub mod json;
pub mod messages;
pub mod nearest;
pub mod records;
pub mod refusal;
pub mod wire;

pub use error::ErrorCode;
pub use messages::ApiKey;
pub use wire::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Frame, Ints, Message, Reader,
    Request, Response, Size, Str, UnknownTag, UnknownTags, Uuid, Versions, Writer,
};
