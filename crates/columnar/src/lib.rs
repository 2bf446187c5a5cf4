//! Record batches to Arrow columns, in one pass, and Arrow columns to rows for a producer.
//!
//! * [`decode`] turns what a Fetch response holds for one partition into [`Columns`]. No object is made per record: a key or
//!   value is copied once, from the response (or what it decompresses to) to the Arrow buffer.
//! * [`rows`] gives the records that an Arrow table holds, as slices of its buffers.
//!
//! Names and types of the columns are those of Spark's Kafka source ([`schema`]).

mod build;
mod columns;
mod decode;
mod error;
mod memory;
mod rows;
mod schema;

pub use columns::{Columns, RecordHeaders};
pub use decode::{FetchedPartition, decode};
pub use error::ColumnarError;
pub use memory::Memory;
pub use ottla_protocol::records::AbortedTransaction as Aborted;
pub use rows::{Row, RowHeaders, Rows, rows};
pub use schema::schema;

#[cfg(test)]
mod tests;
