//! The compiled half of confluent-kafka's `AIOProducer`: futures of records, made without a frame of Python's for each.

use std::thread::{self, ThreadId};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls::Guarded;
use crate::bridge::collector::untrack;
use crate::compat::exceptions::{closed, exception};
use crate::compat::outbox::{Outbox, Queued, Report};
use crate::compat::record_future::{RecordFuture, future_class};

/// Queues records for an outbox, with futures that the outbox settles.
///
/// Args:
///     outbox: The outbox, whose reports are served on this thread.
///     loop: The loop that runs on this thread.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct FutureOutbox {
    outbox: Py<Outbox>,
    thread: ThreadId,
    is_running: Py<PyAny>,
    /// The arguments of each future.
    named: Py<PyDict>,
}

#[pymethods]
impl FutureOutbox {
    #[new]
    #[pyo3(signature = (outbox, r#loop))]
    fn new(outbox: Py<Outbox>, r#loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = r#loop.py();
        let named = PyDict::new(py);
        named.set_item(intern!(py, "loop"), r#loop)?;
        Ok(FutureOutbox {
            outbox,
            thread: thread::current().id(),
            is_running: r#loop
                .guarded_attribute(intern!(py, "is_running"))?
                .unbind(),
            named: named.unbind(),
        })
    }

    /// Queue a record, if this is the loop.
    ///
    /// Returns:
    ///     The future of the delivered message, or of a KafkaException; None if another loop runs or the queue is full.
    fn add<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        partition: i32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.is_here(py)? {
            return Ok(None);
        }
        let future = future_class(py)?.guarded_call_by_name(self.named.bind(py))?;
        let is_queued = self.queue(&future, topic, value, key, partition, 0)?;
        Ok(is_queued.then_some(future))
    }

    /// Whether this is the thread of the loop, and it runs.
    fn is_here(&self, py: Python<'_>) -> PyResult<bool> {
        if thread::current().id() != self.thread {
            return Ok(false);
        }
        self.is_running.bind(py).guarded_call(())?.extract()
    }

    /// Queue a record that a future of the running loop is made for. If that fails, the future gets the exception.
    ///
    /// Returns:
    ///     False if the queue is full.
    fn queue<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        partition: i32,
        timestamp: i64,
    ) -> PyResult<bool> {
        let py = future.py();
        let outbox = self.outbox.get();
        if outbox.is_closed() {
            return Err(closed());
        }
        let report = Report::Future(RecordFuture::of(future.clone()));
        match outbox.queue(py, topic, value, key, partition, report, timestamp, None)? {
            Queued::Yes => {
                untrack(future);
                Ok(true)
            }
            Queued::Full => Ok(false),
            Queued::No(error) => {
                let error = exception(py, error)?;
                future.guarded_method(intern!(py, "set_exception"), (error,))?;
                Ok(true)
            }
        }
    }

    /// Shows the loop, which may have what holds this.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.outbox)?;
        visit.call(&self.is_running)?;
        visit.call(&self.named)
    }
}
