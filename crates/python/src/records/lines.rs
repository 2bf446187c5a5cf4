//! Values as the lines of a file, both ways: what `ottla produce` reads and `ottla consume` writes. There is no object per line.

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{Array, BinaryViewArray};
use arrow_buffer::Buffer;
use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::records::arrow;
use crate::records::batch::Batch;

/// About the bytes of a line, to reserve space; lines of fewer bytes take more of it.
const USUAL: usize = 64;

/// Splits what is read of a file into lines. A line ends with LF or CR LF; any other CR belongs to it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct LineSplitter {
    /// The begin of a line whose end was not read yet.
    rest: Mutex<Vec<u8>>,
}

#[pymethods]
impl LineSplitter {
    #[new]
    fn new() -> LineSplitter {
        LineSplitter {
            rest: Mutex::default(),
        }
    }

    /// The lines that end in the bytes that were read next; none if no line does.
    fn split(&self, data: PyBackedBytes) -> PyResult<Option<Lines>> {
        let mut rest = self.rest.lock();
        let Some(last) = memchr::memrchr(b'\n', &data) else {
            rest.extend_from_slice(&data);
            return Ok(None);
        };
        let data = Bytes::from_owner(data);
        let lines = Lines::of(&rest, data.slice(..=last))?;
        rest.clear();
        rest.extend_from_slice(data.slice(last + 1..).as_ref());
        Ok(Some(lines))
    }

    /// The last line, if the file does not end with LF. A CR at its end is its own.
    fn finish(&self) -> PyResult<Option<Lines>> {
        let rest = std::mem::take(&mut *self.rest.lock());
        let is_any = !rest.is_empty();
        is_any
            .then(|| Lines::of(&rest, Bytes::from_static(b"\r\n")))
            .transpose()
    }
}

/// Lines of a file, without their ends: a column of bytes for `send_many`.
///
/// But for the first one they are views of what was read.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Lines {
    values: BinaryViewArray,
    longest: usize,
}

impl Lines {
    /// Splits `data`, whose last byte is an LF. The first line begins with `rest`.
    fn of(rest: &[u8], data: Bytes) -> PyResult<Lines> {
        let mut values = BinaryViewBuilder::with_capacity(data.len() / USUAL);
        let (mut longest, mut start) = (0, 0);
        let mut ends = memchr::memchr_iter(b'\n', &data);
        if !rest.is_empty() {
            let end = ends.next().unwrap_or_default();
            let first = [rest, data.get(..end).unwrap_or_default()].concat();
            let first = first.strip_suffix(b"\r").unwrap_or(&first);
            longest = first.len();
            values.append_value(first);
            start = end + 1;
        }
        let block = values.append_block(Buffer::from(data.clone()));
        for end in ends {
            let line = data.get(start..end).unwrap_or_default();
            let length = line.strip_suffix(b"\r").unwrap_or(line).len();
            longest = longest.max(length);
            values
                .try_append_view(block, start as u32, length as u32)
                .map_err(arrow::invalid)?;
            start = end + 1;
        }
        Ok(Lines {
            values: values.finish(),
            longest,
        })
    }
}

#[pymethods]
impl Lines {
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

/// Bytes of a piece of [`JoinedValues`], unless one value has more: they stay in the cache of a core until they are written, and fit
/// into a pipe.
const PIECE: usize = 64 << 10;

/// The values of a batch in pieces of bytes, each with the separator after it. A value that is null has no bytes.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct JoinedValues {
    batch: Py<Batch>,
    separator: Vec<u8>,
    rows: Option<Vec<usize>>,
    joined: Mutex<Joined>,
}

/// How far the values are joined.
#[derive(Default)]
struct Joined {
    /// How many rows are in the pieces so far.
    rows: usize,
    /// The last piece, whose memory the next one uses again.
    piece: Vec<u8>,
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
            joined: Mutex::default(),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let joined = &mut *self.joined.lock();
        joined.piece.clear();
        let before = joined.rows;
        self.visit(before, |value| {
            let more = value.len() + self.separator.len();
            let fits = joined.rows == before || joined.piece.len() + more <= PIECE;
            if fits {
                joined.rows += 1;
                joined.piece.extend_from_slice(value);
                joined.piece.extend_from_slice(&self.separator);
            }
            fits
        });
        (joined.rows > before).then(|| PyBytes::new(py, &joined.piece))
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
