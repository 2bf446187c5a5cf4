//! Arrow data across the language border, by the Arrow PyCapsule interface: no copy, and no pyarrow needed.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::bridge::calls::{Guarded, guarded};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

pub(crate) fn invalid(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow data could not be exchanged: {error}"))
}

/// A capsule named `arrow_schema`.
pub(crate) fn export_schema<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(
        py,
        FFI_ArrowSchema::try_from(schema).map_err(invalid)?,
        SCHEMA,
    )
}

/// A capsule named `arrow_array_stream` of these record batches.
pub(crate) fn export_stream(
    py: Python<'_>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> PyResult<Bound<'_, PyCapsule>> {
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// Capsules named `arrow_schema` and `arrow_array` of this array.
pub(crate) fn export_array<'py>(
    py: Python<'py>,
    array: &dyn Array,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(invalid)?;
    Ok((
        PyCapsule::new_with_value(py, schema, SCHEMA)?,
        PyCapsule::new_with_value(py, array, ARRAY)?,
    ))
}

/// The schema in a capsule that a consumer passed as `requested_schema`.
pub(crate) fn import_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let pointer = capsule
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    // SAFETY: by the interface, a capsule of this name holds an initialised schema; it stays the
    // capsule's.
    Schema::try_from(unread(unsafe { pointer.as_ref() })?).map_err(invalid)
}

fn read_already() -> PyErr {
    PyValueError::new_err("the Arrow data was read already; pass it once")
}

/// A schema that its owner has not released: what a released one points to is gone.
fn unread(schema: &FFI_ArrowSchema) -> PyResult<&FFI_ArrowSchema> {
    schema
        .release
        .is_some()
        .then_some(schema)
        .ok_or_else(read_already)
}

/// What was found behind `__arrow_c_stream__` or `__arrow_c_array__`: chunks of one type, which are taken one by one.
pub(crate) struct Imported {
    pub(crate) data_type: DataType,
    chunks: Chunks,
}

enum Chunks {
    One(Option<ArrayRef>),
    Stream(FFI_ArrowArrayStream),
}

impl Imported {
    /// The next chunk. A stream may compute it now, and may need the interpreter for that.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<ArrayRef>> {
        match &mut self.chunks {
            Chunks::One(chunk) => Ok(chunk.take()),
            Chunks::Stream(stream) => {
                let data_type = &self.data_type;
                py.detach(|| next_chunk(stream, data_type))
                    .map_err(PyValueError::new_err)
            }
        }
    }

    /// The schema of data whose elements are structs, as those of tables and record batches are.
    pub(crate) fn schema(&self) -> PyResult<Schema> {
        match &self.data_type {
            DataType::Struct(fields) => Ok(Schema::new(fields.clone())),
            other => Err(PyTypeError::new_err(format!(
                "a table is wanted, with columns such as key and value, but the Arrow data is one column of {other}"
            ))),
        }
    }
}

/// A chunk of a table as a record batch.
pub(crate) fn record_batch(chunk: &ArrayRef) -> PyResult<RecordBatch> {
    match chunk.as_any().downcast_ref::<StructArray>() {
        Some(rows) if rows.null_count() == 0 => Ok(RecordBatch::from(rows)),
        _ => Err(PyValueError::new_err(
            "a row of the Arrow data is null as a whole; put nulls into its columns instead",
        )),
    }
}

/// True when `data` offers one of the two methods.
pub(crate) fn is_arrow(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = data.py();
    // Python makes an error for each attribute that is not there, which is a fifth of the time of a short `send_many`.
    if data.is_exact_instance_of::<PyList>() {
        return Ok(false);
    }
    Ok(data.guarded_has(intern!(py, "__arrow_c_stream__"))?
        || data.guarded_has(intern!(py, "__arrow_c_array__"))?)
}

/// Takes over the data of any object that speaks the PyCapsule interface.
pub(crate) fn import(data: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let py = data.py();
    if data.guarded_has(intern!(py, "__arrow_c_array__"))? {
        let pair = data
            .guarded_method(intern!(py, "__arrow_c_array__"), ())?
            .cast_into::<PyTuple>()?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
        return import_array(&schema, &array);
    }
    if data.guarded_has(intern!(py, "__arrow_c_stream__"))? {
        let capsule = data
            .guarded_method(intern!(py, "__arrow_c_stream__"), ())?
            .cast_into::<PyCapsule>()?;
        return import_stream(&capsule);
    }
    Err(PyTypeError::new_err(format!(
        "{} is not Arrow data: it has neither __arrow_c_stream__ nor __arrow_c_array__; pass a pyarrow Table, RecordBatch or \
         Array, a polars DataFrame, or another object with one of these methods",
        data.get_type().name()?
    )))
}

fn import_array(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Imported> {
    let schema = schema
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: by the interface, a capsule of this name holds an initialised schema; it stays the
    // capsule's.
    let data_type = DataType::try_from(unread(unsafe { schema.as_ref() })?).map_err(invalid)?;
    // SAFETY: likewise for the array, which is moved out; this marks the one in the capsule as released.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    if array.is_released() {
        return Err(read_already());
    }
    // SAFETY: the two came together, and neither was released.
    let chunk = unsafe { chunk(array, &data_type) }.map_err(invalid)?;
    Ok(Imported {
        data_type,
        chunks: Chunks::One(Some(chunk)),
    })
}

fn import_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<Imported> {
    let stream = capsule
        .pointer_checked(Some(STREAM))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: by the interface, a capsule of this name holds an initialised stream. It is moved
    // out, which marks the one in the capsule as released.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    if stream.release.is_none() {
        return Err(read_already());
    }
    let data_type = type_of(&mut stream).map_err(PyValueError::new_err)?;
    Ok(Imported {
        data_type,
        chunks: Chunks::Stream(stream),
    })
}

const LACKS: &str = "the Arrow stream lacks functions that the interface requires";

fn type_of(stream: &mut FFI_ArrowArrayStream) -> Result<DataType, String> {
    let schema_of = stream.get_schema.ok_or(LACKS)?;
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: an initialised stream's own function, called with that stream and a place for the
    // result.
    let failed = guarded!(
        schema_of,
        (stream => *mut FFI_ArrowArrayStream, &raw mut schema => *mut FFI_ArrowSchema) -> c_int
    );
    if failed != 0 {
        return Err(failure(stream));
    }
    DataType::try_from(&schema).map_err(|error| error.to_string())
}

fn next_chunk(
    stream: &mut FFI_ArrowArrayStream,
    data_type: &DataType,
) -> Result<Option<ArrayRef>, String> {
    let next = stream.get_next.ok_or(LACKS)?;
    let mut array = FFI_ArrowArray::empty();
    // SAFETY: an initialised stream's own function, called with that stream and a place for the
    // result.
    let failed = guarded!(
        next,
        (stream => *mut FFI_ArrowArrayStream, &raw mut array => *mut FFI_ArrowArray) -> c_int
    );
    if failed != 0 {
        return Err(failure(stream));
    }
    if array.is_released() {
        return Ok(None);
    }
    // SAFETY: the stream promises arrays of the type in its schema.
    let chunk = unsafe { chunk(array, data_type) };
    chunk.map(Some).map_err(|error| error.to_string())
}

/// The stream's own text about its failure.
fn failure(stream: &mut FFI_ArrowArrayStream) -> String {
    let reason = stream.get_last_error.and_then(|last_error| {
        // SAFETY: the stream's own function, called with that stream; the text is valid until the next call and copied.
        let text = unsafe { last_error(stream) };
        // SAFETY: a text that is not null ends with a null byte.
        (!text.is_null()).then(|| {
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        })
    });
    format!(
        "the Arrow stream ended with an error: {}",
        reason.as_deref().unwrap_or("it gave no reason")
    )
}

/// # Safety
/// `array` must be of `data_type`, as the interface guarantees for what comes together.
unsafe fn chunk(array: FFI_ArrowArray, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    // SAFETY: the caller's promise.
    let mut data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
    // The interface only recommends alignment; what is aligned is not copied.
    data.align_buffers();
    Ok(make_array(without_offsets(data)))
}

/// The same data, in which no struct has an offset: its columns have them. Of a slice of a struct, arrow-rs cuts the structs in it
/// twice, once with their parent and once with the offset that they take over from it.
fn without_offsets(data: ArrayData) -> ArrayData {
    if data.child_data().is_empty() {
        return data;
    }
    let is_struct = matches!(data.data_type(), DataType::Struct(_));
    let (start, length) = (data.offset(), data.len());
    let children = data.child_data().iter().cloned().map(without_offsets);
    let children = children
        .map(|child| {
            if is_struct {
                slice(&child, start, length)
            } else {
                child
            }
        })
        .collect();
    let offset = if is_struct { 0 } else { start };
    rebuilt(data, children, offset)
}

/// Rows of data in which no struct has an offset, and none has one then.
fn slice(data: &ArrayData, start: usize, length: usize) -> ArrayData {
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return data.slice(start, length);
    }
    let children = data.child_data().iter();
    let children = children.map(|child| slice(child, start, length)).collect();
    let nulls = data.nulls().map(|nulls| nulls.slice(start, length));
    let whole = data.clone().into_builder().len(length).nulls(nulls);
    // SAFETY: these are rows of what is valid already.
    unsafe { whole.child_data(children).build_unchecked() }
}

fn rebuilt(data: ArrayData, children: Vec<ArrayData>, offset: usize) -> ArrayData {
    let whole = data.into_builder().child_data(children).offset(offset);
    // SAFETY: of data that is as valid as it came, an offset was moved into the children.
    unsafe { whole.build_unchecked() }
}
