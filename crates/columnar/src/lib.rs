//! Decodes record batches into Arrow columns in one pass, and reads Arrow columns as rows for a producer.
//!
//! * [`decode`] decodes the records of one partition in a Fetch response into [`Columns`]. It creates no object per record and
//!   copies a key or value once, from the response (or its decompressed bytes) to the Arrow buffer.
//!   [`decode_shown`] ends before a record that columns cannot show.
//! * [`decode_in_place`] does without that copy: keys and values are views of the response, which stays in memory as long.
//! * [`LogPart`] decodes a part of a log segment, with the place of what is damaged.
//! * [`rows`] reads the records in an Arrow table as slices of its buffers.
//!
//! Names and types of the columns are those of Spark's Kafka source ([`schema`]).

mod build;
mod columns;
mod decode;
mod error;
mod integers;
mod log;
mod memory;
mod rows;
mod schema;
mod values;

pub use columns::{Columns, RecordHeaders};
pub use decode::{FetchedPartition, decode, decode_in_place, decode_shown};
pub use error::ColumnarError;
pub use integers::Integers;
pub use log::{AbortedSpan, LogDamage, LogPart, LogRange};
pub use memory::Memory;
pub use ottla_protocol::records::AbortedTransaction as Aborted;
pub use rows::{Row, RowHeaders, Rows, check_schema, rows};
pub use schema::{schema, view_schema};

#[cfg(test)]
mod tests;
