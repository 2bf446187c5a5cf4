//! Encodes and decodes Kafka's wire protocol.
//!
//! * [`messages`]: every request, response, header and record of Kafka 0.8 to 4.4, generated from `schemas/`. One struct a
//!   message for all its versions; the version is an argument ([`Message`]).
//! * [`header`]: the frames of a connection.
//! * [`form`]: every message by name, and one walk over its fields for Kafka's JSON ([`json`]) and Python's objects.
//! * [`refusal`]: the error response to any request.
//! * [`internal`]: the messages in the records of internal topics.
//! * [`records`] and [`compression`]: record batches and their codecs, from `ottla-records`.
//! * [`nearest`]: a known name for an unknown one, for errors.
//! * [`wire`]: the primitives of the generated code.
//!
//! No length on the wire makes the codec allocate more than the received bytes can hold, and no bytes make it panic. Bytes and
//! records of a decoded message are slices of the received buffer; strings are copied, most of them into the message itself.
//!
//! Reference: <https://kafka.apache.org/protocol>, KIP-482 (flexible versions), KIP-511 (ApiVersions).

mod error;
pub mod form;
pub mod header;
pub mod internal;
pub mod json;
pub mod messages;
pub mod nearest;
pub mod refusal;
pub mod wire;

pub use error::ErrorCode;
pub use messages::ApiKey;
pub use ottla_records as records;
pub use ottla_records::compression;
pub use wire::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Frame, Ints, Message, Reader,
    Request, Response, Size, Str, UnknownTag, UnknownTags, Uuid, Versions, Writer,
};
