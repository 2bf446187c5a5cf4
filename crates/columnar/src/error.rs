//! Errors between batches and columns.

use std::sync::Arc;

use ottla_protocol::records::RecordsError;

/// Why records cannot become columns, or columns cannot become records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnarError {
    /// A batch is damaged, has an unknown format, or decompresses to more than the limit.
    #[error("{topic} partition {partition}: {source}{}", skip(*.next_offset))]
    Records {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The offset after the batch, if its header is readable: a consumer can continue there.
        next_offset: Option<i64>,
        /// What is wrong.
        source: RecordsError,
    },
    /// The batches of one response are not in the order of a log.
    #[error(
        "{topic} partition {partition}: the record batch at offset {base_offset} is out of order: it should be at \
         offset {expected} or later"
    )]
    OutOfOrder {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The batch's first offset.
        base_offset: i64,
        /// The offset after the previous batch.
        expected: i64,
    },
    /// More bytes than an Arrow column of type binary can address.
    #[error(
        "{topic} partition {partition}: the records of one fetch take more than 2 GiB; lower max.partition.fetch.bytes"
    )]
    TooLarge {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
    },
    /// A table to send lacks a required column.
    #[error("the data to send has no column {name:?}; it has: {}", .found.join(", "))]
    MissingColumn {
        /// The column.
        name: &'static str,
        /// The columns there are.
        found: Vec<String>,
    },
    /// A column of a table to send has a name that stands for nothing.
    #[error("column {name:?} of the data to send has no meaning{}: rename it, or leave it out. The columns that are sent are {}",
        .near.map_or_else(String::new, |near| format!("; did you mean {near:?}?")), .known.join(", "))]
    UnknownColumn {
        /// The column.
        name: String,
        /// The one with the nearest name.
        near: Option<&'static str>,
        /// The columns that are sent.
        known: &'static [&'static str],
    },
    /// A column of a table to send has a type that cannot be sent.
    #[error("column {name:?} of the data to send has the type {found}; it must be {wanted}")]
    ColumnType {
        /// The column.
        name: &'static str,
        /// Its type.
        found: String,
        /// The types it could have.
        wanted: &'static str,
    },
    /// A table to send has two columns of one name.
    #[error("the data to send has two columns named {name:?}: one record takes only one")]
    DuplicateColumn {
        /// The name.
        name: &'static str,
    },
    /// A text of a table to send is not UTF-8, although its type is text.
    #[error("row {row} of the data to send: {what} is not UTF-8")]
    NotUtf8 {
        /// The row, counted from 0.
        row: usize,
        /// Which text.
        what: &'static str,
    },
    /// A timestamp of a table to send is out of the range of a record.
    #[error(
        "row {row} of the data to send: the timestamp {value}{unit} is before 1970 UTC, or has more milliseconds than 64 bits hold"
    )]
    Timestamp {
        /// The row, counted from 0.
        row: usize,
        /// The number in the column.
        value: i64,
        /// Its unit.
        unit: &'static str,
    },
    /// A header of a table to send is null, or its key is.
    #[error("a header in the data to send is null or has a null key; only its value can be null")]
    NullHeader,
    /// Arrow rejects the columns.
    #[error("Arrow rejects the columns: {0}")]
    Arrow(String),
}

impl From<arrow_schema::ArrowError> for ColumnarError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}

fn skip(next_offset: Option<i64>) -> String {
    next_offset.map_or_else(String::new, |offset| {
        format!("; seek to offset {offset} to skip it")
    })
}
