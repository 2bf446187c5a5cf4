//! Clients that nobody closed: a warning when they are forgotten, and a bounded close when the interpreter exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ottla_client::{Error, Producer};
use parking_lot::Mutex;
use pyo3::exceptions::{PyResourceWarning, PyRuntimeWarning};
use pyo3::prelude::*;

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::runtime::{self, Native};
use crate::bridge::{calls, errors, events, wait};
use crate::sending::unobserved_failures;

/// How long the interpreter's exit waits for records of producers that were not closed.
const EXIT: Duration = Duration::from_secs(5);

/// Producers that are not closed yet. Locked only while attached, so that no other thread holds the lock at a fork.
static PRODUCERS: Mutex<Vec<Open>> = Mutex::new(Vec::new());

struct Open {
    client: Native<Producer>,
    closed: Arc<AtomicBool>,
}

/// Remembers a producer until it is closed.
pub(crate) fn remember(producer: &Opened<Producer>) -> PyResult<()> {
    let client = Native::new("Producer", producer.get()?.clone());
    let mut producers = PRODUCERS.lock();
    producers.retain(|open| !open.closed.load(Ordering::Relaxed));
    producers.push(Open {
        client,
        closed: producer.closed(),
    });
    Ok(())
}

/// Closes all producers that are still open, and logs what was not logged yet; the interpreter calls it when it exits.
#[pyfunction]
pub(crate) fn close_at_exit(py: Python<'_>) -> PyResult<()> {
    let producers = std::mem::take(&mut *PRODUCERS.lock());
    for open in producers {
        let Ok(client) = open.client.get() else {
            continue;
        };
        if open.closed.load(Ordering::Relaxed) {
            continue;
        }
        let result = wait::block_on(py, client.close(Some(EXIT)))?;
        open.closed.store(true, Ordering::Relaxed);
        if let Err(error) = unobserved_failures::after_close(py, client, result) {
            let text = format!(
                "a Producer was not closed before exit, and not all of its records were delivered: {}",
                error.value(py).guarded_str()?
            );
            calls::warn(py, &py.get_type::<PyRuntimeWarning>(), text)?;
        }
    }
    events::log(py)
}

/// A client, whether it was closed, and the warning if it never is.
pub(crate) struct Opened<T> {
    what: &'static str,
    client: Native<T>,
    closed: Arc<AtomicBool>,
}

impl<T> Opened<T> {
    /// `what` is the name of the class, for warnings and errors.
    pub(crate) fn new(what: &'static str, client: T) -> Self {
        Opened {
            what,
            client: Native::new(what, client),
            closed: Arc::default(),
        }
    }

    /// The client.
    ///
    /// # Errors
    /// It was closed, or made before this process was forked.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        let client = self.client.get()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(errors::closed());
        }
        Ok(client)
    }

    /// The client, even if it was closed: for calls that do no harm then.
    pub(crate) fn even_closed(&self) -> PyResult<&T> {
        self.client.get()
    }

    /// [`Opened::even_closed`] or [`Opened::get`].
    pub(crate) fn get_or_closed(&self, even_closed: bool) -> PyResult<&T> {
        if even_closed {
            self.even_closed()
        } else {
            self.get()
        }
    }

    /// Set when the client is closed.
    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// For a client that is being dropped: warns and closes it in the background, unless it is closed.
    pub(crate) fn on_drop<F>(&self, close: impl FnOnce(&T) -> F)
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let Ok(client) = self.client.get() else {
            return;
        };
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(handle) = runtime::handle() {
            let (close, closed) = (close(client), self.closed());
            handle.spawn(async move {
                // The warning below is all that a forgotten client gets.
                let _ = close.await;
                closed.store(true, Ordering::Relaxed);
            });
        }
        warn_unclosed(self.what);
    }
}

/// An operation that closes a client and marks it as closed. `tell` gives the result, after everything that happened
/// was logged.
pub(crate) fn closing<F, T>(closed: Arc<AtomicBool>, close: F, tell: T) -> Operation
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
    T: FnOnce(Python<'_>, Result<(), Error>) -> PyResult<()> + Send + 'static,
{
    let close = async move {
        let result = close.await;
        closed.store(true, Ordering::Relaxed);
        Ok(result)
    };
    Operation::new(close, |py, result| {
        events::log(py)?;
        tell(py, result).map(|()| py.None())
    })
}

/// The result of a close that has nothing else to report.
pub(crate) fn closed(py: Python<'_>, result: Result<(), Error>) -> PyResult<()> {
    result.map_err(|error| errors::to_python(py, &error))
}

fn warn_unclosed(what: &str) {
    Python::try_attach(|py| {
        // Objects go at any moment, also while an exception is on its way.
        let on_its_way = PyErr::take(py);
        let text = format!("unclosed {what}: close it, or use it in a with statement");
        if let Err(error) = calls::warn(py, &py.get_type::<PyResourceWarning>(), text) {
            calls::write_unraisable(py, error);
        }
        if let Some(error) = on_its_way {
            error.restore(py);
        }
    });
}
