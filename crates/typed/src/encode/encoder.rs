//! An encoder: a format, its schema, and the loop over rows.

use arrow_array::{Array, LargeBinaryArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use super::column::columns;
use super::json;
use crate::error::{BadRow, SchemaError};

/// Bytes that room is made for in advance, of each row.
const GUESS: usize = 64;

/// Why an encode ended without bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The columns can never become values of the schema.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// A row does not fit the schema.
    #[error("row {}: {}", .0.row, .0)]
    Row(BadRow),
}

/// Encodes rows of typed columns to bytes, a value for each row.
#[derive(Debug, Clone)]
pub struct Encoder {
    format: Format,
    /// What stands before each value.
    front: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Format {
    Json,
}

impl Encoder {
    /// JSON objects with the names of the columns, as Spark's `to_json` writes them.
    #[must_use]
    pub fn json() -> Self {
        Self::of(Format::Json)
    }

    fn of(format: Format) -> Self {
        Self {
            format,
            front: Vec::new(),
        }
    }

    /// Writes the id of a registry's schema before each value, as Confluent's serializers do: magic 0 and 4 bytes.
    #[must_use]
    pub fn with_schema_id(mut self, id: u32) -> Self {
        self.front = [&[0], id.to_be_bytes().as_slice()].concat();
        self
    }

    /// Encodes each row; one that is null as a whole has no value, as a tombstone.
    ///
    /// # Errors
    /// [`EncodeError::Schema`] for columns that do not fit the schema, [`EncodeError::Row`] for the first row that does not. Rows are
    /// counted from 0.
    pub fn encode(&self, rows: &StructArray) -> Result<LargeBinaryArray, EncodeError> {
        let columns = columns(rows, 0)?;
        match &self.format {
            Format::Json => {
                let plan = json::Plan::new(columns)?;
                self.write(rows, |row, out| plan.write(row, out))
            }
        }
    }

    fn write(
        &self,
        rows: &StructArray,
        mut value: impl FnMut(usize, &mut Vec<u8>) -> crate::error::Filled,
    ) -> Result<LargeBinaryArray, EncodeError> {
        let mut out = Vec::with_capacity(rows.len() * (self.front.len() + GUESS));
        let mut ends = Vec::with_capacity(rows.len() + 1);
        ends.push(0);
        for row in 0..rows.len() {
            if rows.is_valid(row) {
                out.extend_from_slice(&self.front);
                value(row, &mut out).map_err(|bad| EncodeError::Row(bad.named(row)))?;
            }
            // A buffer never holds more than fits.
            ends.push(out.len() as i64);
        }
        let nulls: Option<NullBuffer> = rows.nulls().cloned();
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        LargeBinaryArray::try_new(ends, out.into(), nulls)
            .map_err(|error| SchemaError(error.to_string()).into())
    }
}
