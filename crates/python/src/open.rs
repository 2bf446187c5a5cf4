//! Clients that nobody closed: a warning when they are forgotten, and a bounded close when the interpreter exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ottla_client::{Error, Producer};
use parking_lot::Mutex;
use pyo3::exceptions::{PyResourceWarning, PyRuntimeWarning};
use pyo3::prelude::*;

use crate::runtime::{self, Native};
use crate::{unasked, wait};

/// How long the interpreter's exit waits for records of producers that were not closed.
const EXIT: Duration = Duration::from_secs(5);

/// Producers that are not closed yet. Locked only while attached, so that no other thread holds the lock at a fork.
static PRODUCERS: Mutex<Vec<Open>> = Mutex::new(Vec::new());

struct Open {
    client: Native<Producer>,
    closed: Arc<AtomicBool>,
}

/// Remembers a producer until the flag of its `closing` is set.
pub(crate) fn remember(producer: &Producer, closing: &Closing) {
    let mut producers = PRODUCERS.lock();
    producers.retain(|open| !open.closed.load(Ordering::Relaxed));
    producers.push(Open {
        client: Native::new("Producer", producer.clone()),
        closed: Arc::clone(&closing.closed),
    });
}

/// Closes all producers that are still open; the interpreter calls it when it exits.
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
        if let Err(error) = unasked::after_close(py, client, result) {
            let text = format!(
                "a Producer was not closed before exit, and not all of its records were delivered: {}",
                error.value(py)
            );
            PyErr::warn(
                py,
                &py.get_type::<PyRuntimeWarning>(),
                &std::ffi::CString::new(text)?,
                1,
            )?;
        }
    }
    Ok(())
}

/// Whether a client was closed, and the warning if it never is.
pub(crate) struct Closing {
    what: &'static str,
    closed: Arc<AtomicBool>,
}

impl Closing {
    pub(crate) fn new(what: &'static str) -> Self {
        Closing {
            what,
            closed: Arc::default(),
        }
    }

    pub(crate) fn done(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// For a client that is being dropped: unless it was closed, warns and closes it in the background.
    pub(crate) fn on_drop(&self, close: impl Future<Output = Result<(), Error>> + Send + 'static) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(handle) = runtime::handle() {
            let closed = Arc::clone(&self.closed);
            handle.spawn(async move {
                // The warning below is all that a forgotten client gets.
                let _ = close.await;
                closed.store(true, Ordering::Relaxed);
            });
        }
        Python::try_attach(|py| {
            // Objects go at any moment, also while an exception is on its way.
            let on_its_way = PyErr::take(py);
            let text = format!(
                "unclosed {}: close it, or use it in a with statement",
                self.what
            );
            let warned = std::ffi::CString::new(text)
                .map_err(PyErr::from)
                .and_then(|text| PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1));
            if let Err(error) = warned {
                error.write_unraisable(py, None);
            }
            if let Some(error) = on_its_way {
                error.restore(py);
            }
        });
    }
}
