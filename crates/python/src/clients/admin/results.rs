//! Results of calls about many names: values, or the first error with all of them.

use ottla_client::admin::Each;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bridge::errors;

/// The results by name or partition: values if all went well, else the first error, with all errors in its `failures`.
pub(super) fn all<'py, K, T>(py: Python<'py>, each: Each<K, T>) -> PyResult<Vec<(K, T)>>
where
    K: IntoPyObject<'py>,
{
    let mut values = Vec::with_capacity(each.len());
    let mut failures = Vec::new();
    for (name, result) in each {
        match result {
            Ok(value) => values.push((name, value)),
            Err(error) => failures.push((name, errors::to_python(py, &error))),
        }
    }
    let Some((_, first)) = failures.first() else {
        return Ok(values);
    };
    let raised = first.clone_ref(py);
    let errors = PyDict::new(py);
    for (name, error) in failures {
        errors.set_item(name, error.into_value(py))?;
    }
    raised.value(py).setattr("failures", errors)?;
    Err(raised)
}

pub(super) fn nothing(py: Python<'_>, each: Each<String, ()>) -> PyResult<Py<PyAny>> {
    all(py, each)?;
    Ok(py.None())
}
