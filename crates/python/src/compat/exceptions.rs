//! Exceptions of producers.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// The error of a call of a closed producer.
pub(crate) fn closed() -> PyErr {
    PyRuntimeError::new_err("Producer has been closed")
}

/// A KafkaException for a KafkaError.
pub(crate) fn exception(py: Python<'_>, error: Py<PyAny>) -> PyResult<Bound<'_, PyAny>> {
    static EXCEPTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(
        &EXCEPTION,
        py,
        "ottla.compat.confluent_kafka.errors",
        "KafkaException",
    )?;
    class.guarded_call((error,))
}
