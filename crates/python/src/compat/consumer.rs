//! The compiled half of confluent-kafka's `Consumer`: `poll`.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bridge::calls::Guarded;
use crate::compat::inbox::Inbox;

/// The compiled half of `Consumer`: what is called for each message.
#[pyclass(frozen, subclass, module = "ottla._ottla", weakref)]
pub(crate) struct PollingConsumer {
    inbox: OnceLock<Py<Inbox>>,
}

#[pymethods]
impl PollingConsumer {
    #[new]
    #[pyo3(signature = (*_args, **_named), text_signature = "(*args, **config)")]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        PollingConsumer {
            inbox: OnceLock::new(),
        }
    }

    /// Let polls return what an inbox holds.
    fn _ottla_read(&self, inbox: Py<Inbox>) -> PyResult<()> {
        let text = "the consumer has an inbox already";
        let set = self.inbox.set(inbox);
        set.map_err(|_| PyRuntimeError::new_err(text))
    }

    /// Return the next record or error, and call callbacks.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; negative or None waits without end.
    ///
    /// Returns:
    ///     A Message, or None when the time is up.
    #[pyo3(signature = (timeout = None), text_signature = "($self, timeout=None)")]
    fn poll<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(inbox) = slf.get().inbox.get()
            && let Some(message) = inbox.get().next(py)?
        {
            return Ok(message.into_any());
        }
        slf.guarded_method(intern!(py, "_ottla_poll"), (timeout,))
    }
}
