//! Decodes keys and values of records into typed Arrow columns, and puts the rows that do not decode apart. Encodes such columns again.
//!
//! A [`Decoder`] is made once from a schema and decodes any number of batches. Every format fills the same columns, and a row that
//! turns out to be bad in its last byte is taken back from all of them: that is what neither arrow-json nor arrow-avro can do,
//! whose builders are lost with the row.

mod avro;
mod column;
mod csv;
mod ddl;
mod decoder;
mod encode;
mod error;
mod frame;
mod json;
mod number;
mod protobuf;
mod text;
mod time;
mod varint;

pub use avro::avro_schema;
pub use ddl::{ddl_fields, is_ddl};
pub use decoder::{Decoded, Decoder, MOST_NEW_IDS, Missing, Mode, Row, rows_of};
pub use encode::{EncodeError, Encoder};
pub use error::{BadRow, DecodeError, SchemaError};
pub use frame::{Framing, SchemaId};
pub use protobuf::last_file;

#[cfg(test)]
mod tests;
