//! What can go wrong between batches and columns.

use std::sync::Arc;

use ottla_protocol::records::RecordsError;

/// Why records do not become columns, or columns not records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnarError {
    /// A batch is damaged, of a format that is not read, or decompresses to more than the limit.
    #[error("{topic} partition {partition}: {source}{}", skip(*.next_offset))]
    Records {
        /// Where it came from.
        topic: Arc<str>,
        /// Where it came from.
        partition: i32,
        /// The offset after the batch, if its header could be read: reading can go on there.
        next_offset: Option<i64>,
        /// What is wrong.
        source: RecordsError,
    },
    /// The batches of one answer are not in the order of a log.
    #[error(
        "{topic} partition {partition}: a record batch at offset {base_offset} follows where offset {expected} or more was due"
    )]
    OutOfOrder {
        /// Where it came from.
        topic: Arc<str>,
        /// Where it came from.
        partition: i32,
        /// The batch's first offset.
        base_offset: i64,
        /// The offset after the batch before.
        expected: i64,
    },
    /// More bytes than an Arrow column of type binary can address.
    #[error(
        "{topic} partition {partition}: the records of one fetch take more than 2 GiB; lower max.partition.fetch.bytes"
    )]
    TooLarge {
        /// Where it came from.
        topic: Arc<str>,
        /// Where it came from.
        partition: i32,
    },
    /// A table to send has no such column.
    #[error("the data to send has no column {name:?}; it has: {}", .found.join(", "))]
    MissingColumn {
        /// The column.
        name: &'static str,
        /// The columns there are.
        found: Vec<String>,
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
    /// A header of a table to send is null, or its key is.
    #[error("a header in the data to send is null or has a null key; only its value can be null")]
    NullHeader,
    /// Arrow refuses what was made.
    #[error("the columns cannot be put together: {0}")]
    Arrow(String),
}

impl From<arrow_schema::ArrowError> for ColumnarError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}

fn skip(next_offset: Option<i64>) -> String {
    next_offset.map_or_else(String::new, |offset| {
        format!("; seek to offset {offset} to go on without it")
    })
}
