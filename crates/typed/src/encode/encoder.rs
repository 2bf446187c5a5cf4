//! An encoder: a format, its schema, and the loop over rows.

use std::sync::Arc;

use arrow_array::{Array, LargeBinaryArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use super::column::columns;
use super::{avro, json, protobuf};
use crate::avro::Schema;
use crate::error::{BadRow, Filled, SchemaError};
use crate::protobuf::File;

/// Bytes that are reserved in advance for each row.
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
    Avro(Arc<Schema>),
    Protobuf { file: Arc<File>, message: String },
}

impl Encoder {
    /// JSON objects with the names of the columns, as Spark's `to_json` writes them.
    #[must_use]
    pub fn json() -> Self {
        Self::of(Format::Json)
    }

    /// Avro data of a schema in Avro's JSON. `references` are schemas that it names.
    ///
    /// # Errors
    /// [`SchemaError`] for a text that is no Avro schema.
    pub fn avro(schema: &str, references: &[String]) -> Result<Self, SchemaError> {
        let schema = Schema::parse(schema, references)?;
        Ok(Self::of(Format::Avro(Arc::new(schema))))
    }

    /// Protobuf messages. `descriptors` are each a `FileDescriptorSet` or a `FileDescriptorProto`, those that are imported first;
    /// `message` is a name, full or without its package, and without it the first message of the last file is meant.
    ///
    /// # Errors
    /// [`SchemaError`] for bytes that are no descriptors, and a message that they do not have.
    pub fn protobuf(descriptors: &[Vec<u8>], message: Option<&str>) -> Result<Self, SchemaError> {
        let file = File::parse(descriptors)?;
        let message = file.message_named(message)?;
        Ok(Self::of(Format::Protobuf {
            file: Arc::new(file),
            message,
        }))
    }

    fn of(format: Format) -> Self {
        Self {
            format,
            front: Vec::new(),
        }
    }

    /// Writes the id of a registry's schema before each value, as Confluent's serializers do: magic 0 and 4 bytes, and for Protobuf
    /// where the message stands in its file.
    ///
    /// # Errors
    /// [`SchemaError`] for a message of a file that is imported.
    pub fn with_schema_id(mut self, id: u32) -> Result<Self, SchemaError> {
        let indexes = self.message_indexes()?;
        self.front = [&[0], id.to_be_bytes().as_slice(), indexes.as_slice()].concat();
        Ok(self)
    }

    /// What follows a schema's id: for Protobuf where the message stands in its file, for other formats nothing.
    ///
    /// # Errors
    /// [`SchemaError`] for a message of a file that is imported.
    pub fn message_indexes(&self) -> Result<Vec<u8>, SchemaError> {
        let mut out = Vec::new();
        if let Format::Protobuf { file, message } = &self.format {
            let path = file.path(message).ok_or_else(|| {
                SchemaError(format!(
                    "the message {message} is not of the file that is registered, but of one that it imports"
                ))
            })?;
            protobuf::indexes(&path, &mut out);
        }
        Ok(out)
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
            Format::Protobuf { file, message } => {
                let plan = protobuf::Message::new(file, message, columns)?;
                self.write(rows, |row, out| plan.write(row, out))
            }
            Format::Avro(schema) => {
                let plan = avro::Plan::new(schema, columns)?;
                if self.front.is_empty() {
                    self.write(rows, |row, out| plan.write(row, out))
                } else {
                    self.write(rows, |row, out| plan.write_framed(row, out))
                }
            }
        }
    }

    fn write(
        &self,
        rows: &StructArray,
        mut value: impl FnMut(usize, &mut Vec<u8>) -> Filled,
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
