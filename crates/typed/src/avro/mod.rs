//! Avro's binary encoding to columns, from the schema that wrote a value to the one that reads it.
//!
//! Resolution is that of Avro's specification (1.12): fields by name or alias, defaults of the reader, numbers and texts promoted,
//! symbols of enums with the reader's default. Where the specification leaves a choice, such as in unions, it is that of Avro's Java
//! library.
//! Types are those of Spark's `from_avro`, but for times, which keep their unit: an enum is a string, `fixed` is binary, a union of
//! several types a struct of `member0`, `member1`...

mod columns;
mod input;
mod reader;
mod resolve;
mod schema;
mod writer;

pub use columns::avro_schema;
pub(crate) use input::put_long;
pub(crate) use reader::Avro;
pub(crate) use schema::{Kind, Logical, Node, Place, Schema};
pub(crate) use writer::Writer;
