//! Waiting from a Python thread, so that Ctrl-C ends it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ottla_client::Error;
use pyo3::prelude::*;

use crate::bridge::errors;
use crate::bridge::runtime::{self, Native};

/// How long a wait goes on without a look at signals. Short enough for a person, long enough to cost nothing.
const SLICE: Duration = Duration::from_millis(50);

/// Waits for `future`, detached from the interpreter.
///
/// A signal handler that raises (Ctrl-C does) drops the future and ends the wait with what it raised.
pub(crate) fn block_on<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send,
) -> PyResult<T> {
    let handle = runtime::handle()?;
    let here = Native::new("call", ());
    let mut future = pin!(future);
    let waiting = Arc::new(Waiting {
        thread: thread::current(),
        woken: AtomicBool::new(true),
    });
    loop {
        let ready = py.detach(|| {
            let _context = handle.enter();
            waiting.poll(future.as_mut(), Instant::now() + SLICE)
        });
        match ready {
            Some(value) => return Ok(value),
            None => py.check_signals()?,
        }
        // A signal handler may fork, and the child return from it.
        here.get()?;
    }
}

/// [`block_on`] for a call of the client: its error is raised.
pub(crate) fn result<T: Send>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<T> {
    block_on(py, call)?.map_err(|error| errors::to_python(py, &error))
}

/// A thread that waits. It keeps the time of a slice itself: a timer of the runtime would wake an I/O thread for each wait.
struct Waiting {
    thread: Thread,
    woken: AtomicBool,
}

impl Waiting {
    /// What the future gives until then, if it does.
    fn poll<F: Future>(
        self: &Arc<Self>,
        mut future: Pin<&mut F>,
        end: Instant,
    ) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        loop {
            if self.woken.swap(false, Ordering::AcqRel) {
                if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                    return Some(value);
                }
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
