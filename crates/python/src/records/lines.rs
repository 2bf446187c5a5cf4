//! Values as the lines of a file, both ways: what `ottla produce` reads and `ottla consume` writes. There is no object per line.

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{Array, LargeBinaryArray};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::records::arrow;
use crate::records::batch::{Batch, Chunk};

/// Lines of a file, without their ends: a column of bytes for `send_many`.
///
/// A line ends with LF or CR LF; any other CR belongs to it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Lines {
    values: LargeBinaryArray,
    longest: usize,
}

#[pymethods]
impl Lines {
    /// Splits whole lines: the last byte is an LF.
    #[new]
    fn new(data: &[u8]) -> Lines {
        let ends = memchr::memchr_iter(b'\n', data);
        // Without their ends they take less than `data`; lines of fewer bytes than this are rare.
        let mut values = LargeBinaryBuilder::with_capacity(data.len() / 16, data.len());
        let (mut start, mut longest) = (0, 0);
        for end in ends {
            let line = data.get(start..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            longest = longest.max(line.len());
            values.append_value(line);
            start = end + 1;
        }
        Lines {
            values: values.finish(),
            longest,
        }
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    /// The bytes of the longest line.
    #[getter]
    fn longest(&self) -> usize {
        self.longest
    }

    /// The lines as a list of `bytes`.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let lines = (0..self.values.len()).map(|row| PyBytes::new(py, self.values.value(row)));
        PyList::new(py, lines)
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
}

/// The values of a batch, each with the separator after it. One that is null has no bytes.
///
/// Args:
///     batch: The records.
///     separator: What follows each value.
///     rows: Which of them, ascending; None for all.
#[pyfunction]
#[pyo3(signature = (batch, separator, rows = None))]
pub(crate) fn joined_values<'py>(
    py: Python<'py>,
    batch: &Batch,
    separator: &[u8],
    rows: Option<Vec<usize>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let rows = rows.as_deref();
    if let (Some(row), length) = (rows.and_then(<[usize]>::last), batch.length())
        && *row >= length
    {
        return Err(PyIndexError::new_err(format!(
            "record {row} of a batch of {length}"
        )));
    }
    let mut size = 0;
    each_value(batch, rows, |value| size += value.len() + separator.len());
    PyBytes::new_with(py, size, |mut room| {
        each_value(batch, rows, |value| {
            for part in [value, separator] {
                let (place, rest) = std::mem::take(&mut room).split_at_mut(part.len());
                place.copy_from_slice(part);
                room = rest;
            }
        });
        Ok(())
    })
}

fn each_value(batch: &Batch, rows: Option<&[usize]>, mut give: impl FnMut(&[u8])) {
    let mut rows = rows;
    let mut before = 0;
    for chunk in batch.chunks() {
        let columns = Chunk::columns(chunk);
        let after = before + columns.len();
        match &mut rows {
            None => (0..columns.len()).for_each(|row| give(columns.value(row).unwrap_or_default())),
            Some(rows) => {
                let here = rows.partition_point(|row| *row < after);
                let (chosen, rest) = rows.split_at(here);
                *rows = rest;
                for row in chosen {
                    give(columns.value(row - before).unwrap_or_default());
                }
            }
        }
        before = after;
    }
}
