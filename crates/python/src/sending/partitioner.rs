//! A partitioner of the caller's: a Python function that places many records by their keys at once.

use std::sync::Arc;

use arrow_array::{Array, LargeBinaryArray};
use ottla_columnar::Integers;
use pyo3::exceptions::PyIndexError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::records::arrow;

/// The keys of records to place, as a partitioner gets them: a sequence, and an Arrow array of type large_binary.
///
/// `numpy.array(keys, object)` and `pyarrow.array(keys)` take all of them at once.
#[pyclass(frozen, sequence, module = "ottla")]
pub(crate) struct Keys {
    keys: LargeBinaryArray,
}

#[pymethods]
impl Keys {
    fn __len__(&self) -> usize {
        self.keys.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let row = usize::try_from(index)
            .ok()
            .or_else(|| self.keys.len().checked_sub(index.unsigned_abs()))
            .filter(|row| *row < self.keys.len())
            .ok_or_else(|| PyIndexError::new_err("there is no such key"))?;
        let is_there = self.keys.is_valid(row);
        Ok(is_there.then(|| PyBytes::new(py, self.keys.value(row))))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.keys.iter();
        let keys = keys.map(|key| key.map(|key| PyBytes::new(py, key)));
        PyList::new(py, keys.collect::<Vec<_>>())?.guarded_method(intern!(py, "__iter__"), ())
    }

    fn __repr__(&self) -> String {
        format!("Keys({} keys)", self.keys.len())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface leaves it to the producer whether another type can be had.
        let _ = requested_schema;
        arrow::export_array(py, &self.keys)
    }
}

/// The function that the caller gave.
pub(crate) struct Partitioner(Py<PyAny>);

impl Partitioner {
    pub(crate) fn new(function: Bound<'_, PyAny>) -> Arc<Self> {
        Arc::new(Partitioner(function.unbind()))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    /// A partition for each key; `None` leaves the record to the producer.
    pub(crate) fn place<'k>(
        &self,
        py: Python<'_>,
        topic: &str,
        keys: impl Iterator<Item = Option<&'k [u8]>>,
        partitions: usize,
    ) -> PyResult<Vec<Option<i32>>> {
        let keys: LargeBinaryArray = keys.collect();
        let count = keys.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let answer = self
            .0
            .bind(py)
            .guarded_call((topic, Keys { keys }, partitions));
        let answer = answer.inspect_err(|error| {
            // Where a note cannot be added, the error is raised without it.
            let _ = errors::note(
                py,
                error,
                &format!("the partitioner failed for topic {topic:?}"),
            );
        })?;
        let refuse = |problem: String| {
            errors::argument(&format!(
                "the partitioner {problem}, for topic {topic:?}: return for each key a partition from 0 to {}, or None to \
                 leave the record to the producer",
                partitions.saturating_sub(1)
            ))
        };
        let numbers = numbers(&answer, &refuse)?;
        if numbers.len() != count {
            return Err(refuse(format!(
                "gave {} partitions for {count} keys",
                numbers.len()
            )));
        }
        let checked = |(row, number): (usize, Option<i64>)| {
            let Some(number) = number else {
                return Ok(None);
            };
            let inside = i32::try_from(number)
                .ok()
                .filter(|it| usize::try_from(*it).is_ok_and(|it| it < partitions));
            match inside {
                Some(partition) => Ok(Some(partition)),
                None => Err(refuse(format!("gave partition {number} for key {row}"))),
            }
        };
        numbers.into_iter().enumerate().map(checked).collect()
    }
}

/// The numbers in an Arrow array, a numpy array or any iterable.
fn numbers(
    answer: &Bound<'_, PyAny>,
    refuse: &impl Fn(String) -> PyErr,
) -> PyResult<Vec<Option<i64>>> {
    let py = answer.py();
    if arrow::is_arrow(answer)? {
        let mut imported = arrow::import(answer)?;
        let mut numbers = Vec::new();
        while let Some(chunk) = imported.next(py)? {
            let column = Integers::new(&chunk)
                .ok_or_else(|| refuse(format!("gave an Arrow array of {}", chunk.data_type())))?;
            numbers.extend((0..chunk.len()).map(|row| column.get(row)));
        }
        return Ok(numbers);
    }
    // Those of numpy go over all at once.
    let list = match answer.guarded_optional(intern!(py, "tolist"))? {
        Some(method) => method.guarded_call(())?,
        None => answer.clone(),
    };
    let name = |object: &Bound<'_, PyAny>| {
        let name = object.get_type().name();
        name.map_or_else(|_| "something".to_owned(), |name| name.to_string())
    };
    let Ok(items) = list.guarded_items() else {
        return Err(refuse(format!("gave {}", name(answer))));
    };
    let number = |(row, item): (usize, PyResult<Bound<'_, PyAny>>)| {
        let item = item?;
        let number = match item.is_none() {
            true => Ok(None),
            false => item.guarded_int().map(Some),
        };
        number.map_err(|_| refuse(format!("gave {} for key {row}", name(&item))))
    };
    items.enumerate().map(number).collect()
}
