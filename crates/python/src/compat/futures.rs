//! The compiled half of confluent-kafka's `AIOProducer`: futures of records, made and settled without a frame of Python's for each.

use std::thread::{self, ThreadId};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::collector::{track, untrack};
use crate::compat::message::Message;
use crate::compat::outbox::{Outbox, Queued, Report};
use crate::compat::producer::{closed, exception};

fn future_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    calls::class(&CLASS, py, "asyncio", "Future")
}

/// A method of the class of futures, to call with the future as its first argument: no bound method is made.
fn future_method<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyAny>>,
    py: Python<'py>,
    name: &Bound<'py, PyString>,
) -> PyResult<&'a Bound<'py, PyAny>> {
    if let Some(found) = cell.get(py) {
        return Ok(found.bind(py));
    }
    let found = future_class(py)?.guarded_attribute(name)?;
    Ok(cell.get_or_init(py, || found.unbind()).bind(py))
}

/// The future of a record, and the thread of its loop.
///
/// The cycle collector does not look at the future while the outbox has it: it does not see what the outbox refers to either,
/// so the future is alive for it anyway. A delivered message refers to nothing that could be part of a cycle, and the future's
/// callbacks have left it. So only futures of other results, and those that get none, need the collector again.
pub(crate) struct RecordFuture {
    future: Py<PyAny>,
    thread: ThreadId,
}

impl RecordFuture {
    /// A future of the loop that runs on this thread.
    fn of(future: Bound<'_, PyAny>) -> Self {
        RecordFuture {
            future: future.unbind(),
            thread: thread::current().id(),
        }
    }

    /// Gives the future its message, or the exception of its KafkaError.
    pub(crate) fn settle(
        self,
        py: Python<'_>,
        error: Option<Py<PyAny>>,
        message: Bound<'_, Message>,
    ) -> PyResult<()> {
        static LATER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let future = self.future.bind(py);
        let is_here = thread::current().id() == self.thread;
        if error.is_some() || !is_here {
            track(future);
        }
        let error = error.map(|error| exception(py, error)).transpose()?;
        if is_here {
            return settle(future, error, message);
        }
        // A call that waits on another thread, such as commit_transaction, serves reports there.
        let reports = "ottla.compat.confluent_kafka.aio.reports";
        let later = calls::class(&LATER, py, reports, "settle_on_loop")?;
        later.guarded_call((future, error, message)).map(drop)
    }

    /// Leaves the future without a result.
    pub(crate) fn leave(&self, py: Python<'_>) {
        track(self.future.bind(py));
    }
}

/// Sets the result or the exception, on the thread of the future's loop. A future that the program cancelled keeps that.
fn settle<'py>(
    future: &Bound<'py, PyAny>,
    error: Option<Bound<'py, PyAny>>,
    message: Bound<'py, Message>,
) -> PyResult<()> {
    static SET_RESULT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static SET_EXCEPTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static INVALID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = future.py();
    let settled = match error {
        None => future_method(&SET_RESULT, py, intern!(py, "set_result"))?
            .guarded_call((future, message)),
        Some(error) => future_method(&SET_EXCEPTION, py, intern!(py, "set_exception"))?
            .guarded_call((future, error)),
    };
    let Err(error) = settled else {
        return Ok(());
    };
    track(future);
    let invalid = calls::class(&INVALID, py, "asyncio", "InvalidStateError")?;
    match error.matches(py, invalid)? {
        true => Ok(()),
        false => Err(error),
    }
}

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
    ///     The future of the delivered message, or of a KafkaException; None if another loop runs, or the queue is full.
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
