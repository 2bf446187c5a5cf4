//! Columns of a batch as tables of the libraries that people use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use ottla_columnar::{ColumnarError, Columns};
use ottla_protocol::nearest::near;
use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use crate::bridge::calls::Guarded;
use crate::bridge::{calls, errors};
use crate::records::arrow;

/// Records, and where whoever decodes the next ones learns whether keys and values are read as views.
pub(crate) type Part = (Columns, Option<Arc<AtomicBool>>);

/// Some columns of records: what libraries read by the Arrow PyCapsule interface.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Table {
    parts: Vec<Part>,
    /// Their indexes in the schema, in the order wanted.
    columns: Vec<usize>,
    /// Whether keys and values are views.
    view: bool,
}

impl Table {
    /// All columns, unless the caller names some.
    pub(crate) fn new(
        parts: Vec<Part>,
        columns: Option<&Bound<'_, PyAny>>,
        view: bool,
    ) -> PyResult<Self> {
        let columns = match columns {
            Some(names) => chosen(names)?,
            None => (0..ottla_columnar::schema().fields().len()).collect(),
        };
        Ok(Table {
            parts,
            columns,
            view,
        })
    }

    /// The columns that a reader requested. By the interface, this is best effort: a reader that
    /// requests a missing column gets all.
    pub(crate) fn requested(
        parts: Vec<Part>,
        schema: Option<&Bound<'_, PyCapsule>>,
    ) -> PyResult<Self> {
        let ours = ottla_columnar::schema();
        let requested = schema.map(arrow::import_schema).transpose()?;
        let Some(requested) = requested else {
            return Self::new(parts, None, false);
        };
        let fields = requested.fields().iter();
        let columns = fields.map(|field| ours.index_of(field.name()).ok());
        match columns.collect() {
            Some(columns) => Ok(Table {
                parts,
                columns,
                view: wants_views(&requested),
            }),
            None => Self::new(parts, None, false),
        }
    }

    pub(crate) fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Result<Vec<_>, _> = py.detach(|| self.record_batches().collect());
        let batches = batches.map_err(|error| errors::argument(&error.to_string()))?;
        let schema = match self.view {
            true => ottla_columnar::view_schema(),
            false => ottla_columnar::schema(),
        };
        let schema = schema.project(&self.columns).map_err(arrow::invalid)?;
        if types(&schema).next().is_some() {
            for liked in self.parts.iter().filter_map(|(_, liked)| liked.as_ref()) {
                liked.store(self.view, Ordering::Relaxed);
            }
        }
        arrow::export_stream(py, schema.into(), batches)
    }

    fn record_batches(&self) -> impl Iterator<Item = Result<RecordBatch, ColumnarError>> {
        self.parts.iter().map(|(records, _)| match self.view {
            true => records.view_batch_of(&self.columns),
            false => records.record_batch_of(&self.columns),
        })
    }
}

/// The types of those of the columns key and value that a schema has.
fn types(schema: &Schema) -> impl Iterator<Item = &DataType> {
    let fields = ["key", "value"].map(|name| schema.field_with_name(name));
    fields.into_iter().flatten().map(Field::data_type)
}

/// Whether the keys and values of a schema are views.
fn wants_views(schema: &Schema) -> bool {
    types(schema).next().is_some() && types(schema).all(|of| *of == DataType::BinaryView)
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The caller of `to_arrow` and its like chose already.
        let _ = requested_schema;
        self.stream(py)
    }
}

/// The indexes of columns with these names.
fn chosen(names: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    if names.is_instance_of::<PyString>() {
        return Err(errors::argument(&format!(
            "columns is a list of names: write columns=[{}]",
            names.guarded_repr()?
        )));
    }
    let schema = ottla_columnar::schema();
    let known = || schema.fields().iter().map(|field| field.name().as_str());
    let index = |name: PyResult<Bound<'_, PyAny>>| {
        let name: String = name?.extract()?;
        known().position(|known| known == name).ok_or_else(|| {
            let near = near(&name, known());
            let guess = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            let known: Vec<_> = known().collect();
            errors::argument(&format!(
                "a batch has no column {name:?}{guess} (its columns are {})",
                known.join(", ")
            ))
        })
    };
    names.guarded_items()?.map(index).collect()
}

/// A `pyarrow.Table` of what speaks the PyCapsule interface, without a copy.
pub(crate) fn pyarrow_table<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let advice = "to_arrow() makes a pyarrow.Table and needs pyarrow: pip install 'ottla[arrow]'. Other Arrow libraries take \
                  the data as it is, such as polars.DataFrame(batch)";
    // pyarrow.table() would import pandas to see whether it was given a frame of it: a third of a second, and 50 MB.
    let py = data.py();
    library(py, "pyarrow", advice)?
        .guarded_attribute(intern!(py, "RecordBatchReader"))?
        .guarded_method(intern!(py, "from_stream"), (data,))?
        .guarded_method(intern!(py, "read_all"), ())
}

/// A `polars.DataFrame`, likewise.
pub(crate) fn polars_frame<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let advice = "to_polars() makes a polars.DataFrame and needs polars: pip install polars";
    let py = data.py();
    library(py, "polars", advice)?.guarded_method(intern!(py, "DataFrame"), (data,))
}

/// A `pandas.DataFrame`, which pyarrow makes.
pub(crate) fn pandas_frame<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let advice = "to_pandas() makes a pandas.DataFrame and needs pandas and pyarrow: pip install pandas 'ottla[arrow]'";
    for needed in ["pandas", "pyarrow"] {
        library(data.py(), needed, advice)?;
    }
    pyarrow_table(data)?.guarded_method(intern!(data.py(), "to_pandas"), ())
}

fn library<'py>(
    py: Python<'py>,
    name: &str,
    advice: &'static str,
) -> PyResult<Bound<'py, PyModule>> {
    calls::module(py, name).map_err(|error| {
        let needed = PyImportError::new_err(advice);
        needed.set_cause(py, Some(error));
        needed
    })
}
