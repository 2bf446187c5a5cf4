//! Bytes as Python gives and takes them.

use std::io::Write;

use bytes::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::bridge::calls::Guarded;

/// From this size on, work on bytes takes longer than letting other threads run.
const LONG: usize = 64 << 10;

/// The bytes of a bytes-like object: shared where it is `bytes`, which cannot change, else copied.
pub(super) fn given(what: &str, data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    match from_buffer(data)? {
        Some(bytes) => Ok(bytes),
        None => Err(PyTypeError::new_err(format!(
            "{what} must be bytes-like, not {}",
            data.get_type().name()?
        ))),
    }
}

/// As [`given`]; `None` for what is not bytes-like.
pub(super) fn from_buffer(data: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Some(shared(bytes.clone())));
    }
    if PyUntypedBuffer::get(data).is_err() {
        return Ok(None);
    }
    // Its owner may change it meanwhile.
    let copy = data.py().get_type::<PyBytes>().guarded_call((data,))?;
    Ok(Some(shared(copy.cast_into()?)))
}

fn shared(bytes: Bound<'_, PyBytes>) -> Bytes {
    Bytes::from_owner(PyBackedBytes::from(bytes))
}

/// Does work on `size` bytes; other threads run meanwhile if it takes long.
pub(super) fn work<T: Send>(py: Python<'_>, size: usize, work: impl FnOnce() -> T + Send) -> T {
    if size < LONG { work() } else { py.detach(work) }
}

/// `bytes` of segments, in one copy.
pub(super) fn joined<'py>(py: Python<'py>, segments: &[Bytes]) -> PyResult<Bound<'py, PyBytes>> {
    let size = segments.iter().map(Bytes::len).sum();
    PyBytes::new_with(py, size, |mut room| {
        for segment in segments {
            room.write_all(segment)?;
        }
        Ok(())
    })
}
