//! Typed columns as keys and values: an encoder, and the column of bytes that it makes. Which schema a registry has is the business
//! of `ottla._encoding`.

use arrow_array::{Array, ArrayRef, LargeBinaryArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use ottla_typed::{EncodeError, Encoder, SchemaError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyString};

use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::records::arrow;
use crate::records::typed::fields_of;

/// An encoder of keys or values for one schema. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct TypedEncoder {
    encoder: Encoder,
}

#[pymethods]
impl TypedEncoder {
    #[new]
    #[pyo3(signature = (
        kind, *, text = None, references = vec![], descriptors = vec![], message = None, schema_id = None
    ))]
    fn new(
        kind: &str,
        text: Option<&str>,
        references: Vec<String>,
        descriptors: Vec<Vec<u8>>,
        message: Option<&str>,
        schema_id: Option<u32>,
    ) -> PyResult<Self> {
        let encoder = match (kind, text) {
            ("json", None) => Ok(Encoder::json()),
            ("avro", Some(text)) => Encoder::avro(text, &references),
            ("protobuf", None) => Encoder::protobuf(&descriptors, message),
            _ => Err(SchemaError(format!(
                "format {kind:?} does not take this schema"
            ))),
        };
        let encoder = encoder.and_then(|encoder| match schema_id {
            Some(id) => encoder.with_schema_id(id),
            None => Ok(encoder),
        });
        Ok(Self {
            encoder: encoder.map_err(invalid)?,
        })
    }

    /// What follows a schema's id: for Protobuf where the message stands in its file, for other formats nothing.
    fn message_indexes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let indexes = self.encoder.message_indexes().map_err(invalid)?;
        Ok(PyBytes::new(py, &indexes))
    }

    /// The last of some Protobuf files as a `FileDescriptorProto`, and the names of those that it imports.
    #[staticmethod]
    fn registered_file<'py>(
        py: Python<'py>,
        descriptors: Vec<Vec<u8>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<String>)> {
        let (file, imports) = ottla_typed::last_file(&descriptors).map_err(invalid)?;
        Ok((PyBytes::new(py, file), imports))
    }

    /// The text of an Avro schema for columns, declared in Spark's SQL or by an Arrow schema.
    #[staticmethod]
    fn avro_schema(columns: &Bound<'_, PyAny>) -> PyResult<String> {
        let fields = match columns.cast::<PyString>() {
            Ok(text) => ottla_typed::ddl_fields(text.to_str()?).map_err(invalid)?,
            Err(_) => fields_of(columns)?,
        };
        ottla_typed::avro_schema(&fields).map_err(invalid)
    }

    /// Encodes each row of a table, or of a column of structs, on this thread and without the interpreter. `settle` is called once
    /// the columns are known to fit, and gives the encoder of the same schema that writes them.
    #[pyo3(signature = (data, settle = None))]
    fn encode(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        settle: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Encoded> {
        let mut data = arrow::import(data)?;
        if !matches!(data.data_type, DataType::Struct(_)) {
            return Err(errors::argument(&format!(
                "a table or a column of structs is encoded, not a column of {}: put the column into a table, which gives \
                 it a name",
                data.data_type
            )));
        }
        // A column that does not fit the schema is reported without rows, too.
        let no_rows = arrow_array::new_empty_array(&data.data_type);
        let of_none = || self.chunk(&no_rows).map_err(|error| raised(error, 0));
        let settled: Option<Py<Self>> = match settle {
            Some(settle) => {
                of_none()?;
                Some(settle.guarded_call(())?.cast_into::<Self>()?.unbind())
            }
            None => None,
        };
        let encoder = settled.as_ref().map_or(self, Py::get);
        let mut found = Vec::new();
        let mut first = 0;
        while let Some(chunk) = data.next(py)? {
            let length = chunk.len();
            found.push(
                py.detach(|| encoder.chunk(&chunk))
                    .map_err(|error| raised(error, first))?,
            );
            first += length;
        }
        if found.is_empty() {
            found.push(of_none()?);
        }
        Ok(Encoded {
            values: py.detach(|| joined(found))?,
        })
    }
}

impl TypedEncoder {
    fn chunk(&self, chunk: &ArrayRef) -> Result<LargeBinaryArray, EncodeError> {
        let rows = chunk.as_any().downcast_ref::<StructArray>();
        let rows = rows.ok_or_else(|| SchemaError("the rows are no structs".to_owned()))?;
        self.encoder.encode(rows)
    }
}

/// Chunks as one column.
fn joined(mut chunks: Vec<LargeBinaryArray>) -> PyResult<LargeBinaryArray> {
    if chunks.len() == 1 {
        return Ok(chunks.remove(0));
    }
    let rows = chunks.iter().map(Array::len).sum();
    let mut data = Vec::with_capacity(chunks.iter().map(|chunk| chunk.value_data().len()).sum());
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0_i64);
    let mut valid = BooleanBufferBuilder::new(rows);
    for chunk in &chunks {
        // An encoder's column begins where its bytes do.
        let before = data.len() as i64;
        data.extend_from_slice(chunk.value_data());
        ends.extend(chunk.value_offsets().iter().skip(1).map(|end| before + end));
        match chunk.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(chunk.len(), true),
        }
    }
    let nulls = NullBuffer::new(valid.finish());
    LargeBinaryArray::try_new(
        OffsetBuffer::new(ScalarBuffer::from(ends)),
        data.into(),
        Some(nulls),
    )
    .map_err(arrow::invalid)
}

fn raised(error: EncodeError, first: usize) -> PyErr {
    match error {
        EncodeError::Row(bad) => errors::unencodable(first + bad.row, &bad.column, &bad),
        EncodeError::Schema(error) => invalid(error),
    }
}

fn invalid(error: SchemaError) -> PyErr {
    errors::argument(&error.to_string())
}

/// Encoded rows: a column of bytes for any Arrow library, as in `pyarrow.array(encoded)`. Any thread may use it.
///
/// `len()` counts the rows.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Encoded {
    values: LargeBinaryArray,
}

#[pymethods]
impl Encoded {
    fn __len__(&self) -> usize {
        self.values.len()
    }

    /// The bytes of a row, or None where it has no value.
    fn __getitem__(&self, row: isize) -> PyResult<Option<&[u8]>> {
        let length = self.values.len();
        let place = if row < 0 {
            row.checked_add_unsigned(length)
        } else {
            Some(row)
        };
        let place = place.and_then(|place| usize::try_from(place).ok());
        match place.filter(|place| *place < length) {
            Some(place) => Ok(self
                .values
                .is_valid(place)
                .then(|| self.values.value(place))),
            None => Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "row {row} is not one of {length}"
            ))),
        }
    }

    #[pyo3(signature = (requested_schema = None))]
    #[expect(
        unused_variables,
        reason = "the interface lets a request for another type be ignored"
    )]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        arrow::export_array(py, &self.values)
    }

    fn __repr__(&self) -> String {
        format!("Encoded({} rows)", self.values.len())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "Encoded cannot be pickled: send pyarrow.array(encoded), which can",
        ))
    }
}
