//! Values as the lines of a file, both ways: what `ottla produce` reads and `ottla consume` writes. There is no object per line.

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{Array, LargeBinaryArray};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::records::arrow;
use crate::records::batch::Batch;

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

/// Bytes of a piece of [`JoinedValues`], unless one value has more: they stay in the cache of a core until they are written.
const PIECE: usize = 256 << 10;

/// The values of a batch in pieces of bytes, each with the separator after it. A value that is null has no bytes.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct JoinedValues {
    batch: Py<Batch>,
    separator: Vec<u8>,
    rows: Option<Vec<usize>>,
    /// How many rows are in the pieces before.
    done: Mutex<usize>,
}

#[pymethods]
impl JoinedValues {
    /// Of all rows of the batch, or of some.
    #[new]
    #[pyo3(signature = (batch, separator, rows = None))]
    fn new(batch: Py<Batch>, separator: &[u8], rows: Option<Vec<usize>>) -> JoinedValues {
        // Each value is copied here, once, and nothing is kept.
        batch.get().like_views();
        JoinedValues {
            batch,
            separator: separator.to_vec(),
            rows,
            done: Mutex::new(0),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut done = self.done.lock();
        let (mut count, mut size) = (0, 0);
        self.visit(*done, |value| {
            let more = value.len() + self.separator.len();
            let fits = count == 0 || size + more <= PIECE;
            if fits {
                count += 1;
                size += more;
            }
            fits
        });
        let piece = PyBytes::new_with(py, size, |mut space| {
            let mut left = count;
            self.visit(*done, |value| {
                if left == 0 {
                    return false;
                }
                left -= 1;
                for part in [value, &self.separator] {
                    let (place, rest) = std::mem::take(&mut space).split_at_mut(part.len());
                    place.copy_from_slice(part);
                    space = rest;
                }
                true
            });
            Ok(())
        })?;
        *done += count;
        Ok((count > 0).then_some(piece))
    }
}

impl JoinedValues {
    /// Visits the values that are to be joined, but for the first `done`, until `visit` returns false.
    fn visit(&self, done: usize, mut visit: impl FnMut(&[u8]) -> bool) {
        let batch = self.batch.get();
        let Some(rows) = &self.rows else {
            return batch.visit_values(done, visit);
        };
        let mut goes_on = true;
        for row in rows.iter().skip(done) {
            batch.visit_values(*row, |value| {
                goes_on = visit(value);
                false
            });
            if !goes_on {
                return;
            }
        }
    }
}
