//! Typed Arrow columns to the bytes of keys and values: the way back of a decoder.
//!
//! Columns are taken apart once a batch (`column`), a format decides once a batch how each is written, and then the rows are walked,
//! each into the one buffer that becomes the column of bytes. Types are those that the decoder makes, and those that Spark has.

mod avro;
mod column;
mod encoder;
mod json;
mod protobuf;
mod text;

pub use encoder::{EncodeError, Encoder};
