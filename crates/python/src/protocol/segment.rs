//! Log segments, a part at a time.

use bytes::Bytes;
use ottla_protocol::records::{self, Found, RecordsError};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyTuple;

use super::records::{Contents, payload};

/// A part of a log segment: gives its batches, and the damage between them, as tuples: where it
/// stands, its size, the batch or None, and the damage.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct SegmentWindow {
    walk: Mutex<records::Segment>,
    check_crcs: bool,
    limit: usize,
}

type Item<'py> = (usize, usize, Option<Bound<'py, PyTuple>>, Option<String>);

#[pymethods]
impl SegmentWindow {
    #[new]
    fn new(data: PyBackedBytes, check_crcs: bool, limit: usize) -> Self {
        let walk = records::segment(Bytes::from_owner(data));
        Self {
            walk: Mutex::new(if check_crcs {
                walk
            } else {
                walk.without_crcs()
            }),
            check_crcs,
            limit,
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Item<'py>>> {
        let next = py.detach(|| {
            let found = self.walk.lock().next()?;
            let payload = match &found {
                Found::Entry { entry, .. } => Some(payload(entry, &mut self.limit.clone())),
                Found::Damage(_) => None,
            };
            Some((found, payload))
        });
        let Some(next) = next else {
            return Ok(None);
        };
        Ok(Some(match next {
            (Found::Entry { position, entry }, payload) => {
                let payload = payload.transpose().map(Option::unwrap_or_default);
                let read = payload.as_ref().map_err(RecordsError::clone);
                let read = read.and_then(|read| Contents::read(&entry, read, self.check_crcs));
                let (fields, cause) = match read {
                    Ok(contents) => (Some(contents.fields(py, &entry)), None),
                    // The checksum is right, and what it is of is not.
                    Err(error) => (None, Some(error.to_string())),
                };
                (position, entry.size(), fields.transpose()?, cause)
            }
            (Found::Damage(damage), _) => {
                let cause = Some(damage.cause.to_string());
                (damage.position, damage.size, None, cause)
            }
        }))
    }
}
