//! The compiled half of confluent-kafka's `Producer`: `produce`, and the `poll` that finds nothing to do.

use std::sync::OnceLock;

use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls::Guarded;
use crate::compat::exceptions::{closed, exception};
use crate::compat::outbox::{Outbox, Queued, Report};

/// The compiled half of `Producer`: what is called for each record.
#[pyclass(frozen, subclass, module = "ottla._ottla", weakref)]
pub(crate) struct ReportingProducer {
    outbox: OnceLock<Py<Outbox>>,
}

impl ReportingProducer {
    fn outbox(&self) -> PyResult<&Outbox> {
        let found = self.outbox.get().map(Py::get);
        let open = found.filter(|outbox| !outbox.is_closed());
        open.ok_or_else(closed)
    }
}

#[pymethods]
impl ReportingProducer {
    #[new]
    #[pyo3(signature = (*_args, **_named), text_signature = "(*args, **config)")]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        ReportingProducer {
            outbox: OnceLock::new(),
        }
    }

    /// Let `produce` use an outbox.
    fn _ottla_write(&self, outbox: Py<Outbox>) -> PyResult<()> {
        let text = "Producer already initialized";
        let set = self.outbox.set(outbox);
        set.map_err(|_| PyRuntimeError::new_err(text))
    }

    /// Queue a record.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     value: bytes, str or None.
    ///     key: bytes, str or None.
    ///     partition: The partition; -1 lets the partitioner choose.
    ///     callback: The same as on_delivery.
    ///     on_delivery: Called by a poll as f(error, message).
    ///     timestamp: Milliseconds since 1970 UTC; 0 is the current time.
    ///     headers: A dict, or a list of pairs.
    ///
    /// Raises:
    ///     BufferError: The queue is full: poll, and produce again.
    ///     KafkaException: The record is too large.
    #[pyo3(signature = (
        topic, value = None, key = None, partition = -1, callback = None, on_delivery = None, timestamp = 0, headers = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are confluent-kafka's")]
    fn produce<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        partition: i32,
        callback: Option<Bound<'py, PyAny>>,
        on_delivery: Option<Bound<'py, PyAny>>,
        timestamp: i64,
        headers: Option<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let outbox = self.outbox()?;
        let report = Report::to_callback(on_delivery.or(callback).map(Bound::unbind));
        match outbox.queue(
            py,
            topic,
            value,
            key,
            partition,
            report,
            timestamp,
            headers.as_ref(),
        )? {
            Queued::Yes => Ok(()),
            Queued::Full => Err(PyBufferError::new_err("Local: Queue full")),
            Queued::No(error) => Err(PyErr::from_value(exception(py, error)?)),
        }
    }

    /// Call callbacks of what happened.
    ///
    /// Args:
    ///     timeout: Seconds to wait for the first event; negative or None waits without end.
    ///
    /// Returns:
    ///     The number of callbacks that were called.
    #[pyo3(signature = (timeout = None), text_signature = "($self, timeout=None)")]
    fn poll<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let outbox = slf.get().outbox()?;
        if !outbox.is_watched() {
            let served = outbox.serve(py)?;
            if served > 0 || timeout.as_ref().is_some_and(is_zero) {
                return Ok(served.into_pyobject(py)?.into_any());
            }
        }
        slf.guarded_method(intern!(py, "_ottla_poll"), (timeout,))
    }

    fn __len__(&self) -> usize {
        self.outbox().map_or(0, Outbox::count)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.outbox.get())
    }

    #[expect(clippy::unused_self, reason = "Python calls it on an object")]
    fn __bool__(&self) -> bool {
        true
    }
}

fn is_zero(timeout: &Bound<'_, PyAny>) -> bool {
    let is_number =
        timeout.is_exact_instance_of::<PyInt>() || timeout.is_exact_instance_of::<PyFloat>();
    is_number && timeout.extract::<f64>().is_ok_and(|seconds| seconds == 0.0)
}
