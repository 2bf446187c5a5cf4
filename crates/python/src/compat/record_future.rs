//! The future of a record, settled without a frame of Python's.

use std::thread::{self, ThreadId};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::collector::track;
use crate::compat::exceptions::exception;
use crate::compat::message::Message;

pub(crate) fn future_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
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
    pub(crate) fn of(future: Bound<'_, PyAny>) -> Self {
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
        let later = calls::class(
            &LATER,
            py,
            "ottla.compat.confluent_kafka.aio.reports",
            "settle_on_loop",
        )?;
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
