//! What a verb returns: an [`Operation`], which a sync facade waits for and an asyncio one awaits.
//!
//! It is a Rust future. `wait` polls it on the caller's thread, detached, in slices that look for
//! signals. `await` polls it once, so a result that is already there never touches the loop.
//! Otherwise its waker has a token and the [`CompletionQueue`] of the loop. Waking puts the token
//! into the queue and, only if the queue was empty, a byte into a socket pair that the loop
//! watches. The loop drains the tokens and resumes the tasks that wait for them, and these poll
//! again.
//!
//! So runtime threads never attach to Python, and a result is taken by the very task that awaits it: cancelling the task
//! drops the Rust future, which loses nothing as long as that future is cancel-safe.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bridge::calls::Guarded;
use crate::bridge::doorbell::{Descriptor, Doorbell};
use crate::bridge::runtime::{self, Native};
use crate::bridge::{calls, errors, wait};

/// Who takes an operation's value. Few values differ between the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Facade {
    /// A thread that waited.
    Sync,
    /// A task that awaited.
    Asyncio,
}

/// What a finished operation knows: how to make its Python value, once attached.
type Outcome = Box<dyn FnOnce(Python<'_>, Facade) -> PyResult<Py<PyAny>> + Send>;
type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

enum State {
    Pending(Pending),
    Ready(Outcome),
    Taken,
}

impl State {
    /// Polls a pending future; true when an outcome is there.
    fn poll(&mut self, waker: &Waker) -> PyResult<bool> {
        let State::Pending(future) = self else {
            return Ok(true);
        };
        let _context = runtime::handle()?.enter();
        match future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(outcome) => {
                *self = State::Ready(outcome);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }
}

/// A call under way: wait for it or await it, once. Any thread may hold it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Operation {
    state: Native<Mutex<State>>,
}

impl Operation {
    /// An operation that ends with `convert(value)` or raises the error of `future`.
    pub(crate) fn new<T, F, C>(future: F, convert: C) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ottla_client::Error>> + Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        Self::for_either(future, |py, _, value| convert(py, value))
    }

    /// An operation whose value depends on who takes it.
    pub(crate) fn for_either<T, F, C>(future: F, convert: C) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ottla_client::Error>> + Send + 'static,
        C: FnOnce(Python<'_>, Facade, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let pending: Pending = Box::pin(async move {
            let result = future.await;
            let outcome: Outcome = Box::new(move |py, facade| match result {
                Ok(value) => convert(py, facade, value),
                Err(error) => Err(errors::to_python(py, &error)),
            });
            outcome
        });
        Operation {
            state: Native::new("operation", Mutex::new(State::Pending(pending))),
        }
    }

    fn take(&self, py: Python<'_>, facade: Facade) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *self.state.get()?.lock(), State::Taken);
        match state {
            State::Ready(outcome) => outcome(py, facade),
            State::Pending(_) | State::Taken => Err(PyRuntimeError::new_err(
                "this call was awaited already; await each call once",
            )),
        }
    }
}

#[pymethods]
impl Operation {
    /// Waits on this thread, and returns the result. A signal handler that raises, as Ctrl-C does, ends the wait.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = self.state.get()?;
        wait::block_on(
            py,
            poll_fn(|context| match state.lock().poll(context.waker()) {
                Ok(false) => Poll::Pending,
                Ok(true) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(error)),
            }),
        )??;
        self.take(py, Facade::Sync)
    }

    pub(crate) fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static WAIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let state = slf.get().state.get()?;
        // Detached, since the poll may decode.
        if slf.py().detach(|| state.lock().poll(Waker::noop()))? {
            return Ok(slf.into_any());
        }
        let wait = calls::class(&WAIT, slf.py(), "ottla.aio._completions", "wait")?;
        wait.guarded_call((slf,))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// For an operation that is done: ends the `await` with the value.
    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = self.take(py, Facade::Asyncio)?;
        // A tuple as the argument, for a value that is itself a tuple or an exception would be unpacked.
        Err(PyStopIteration::new_err((value,)))
    }

    /// True when the result is there; otherwise `token` is put into `queue` when it is worth polling again.
    fn poll(&self, py: Python<'_>, queue: &CompletionQueue, token: u64) -> PyResult<bool> {
        let waker = Waker::from(Arc::new(Bell {
            token,
            queue: Arc::clone(queue.shared.get()?),
        }));
        let state = self.state.get()?;
        py.detach(|| state.lock().poll(&waker))
    }

    /// The result of an operation that is done.
    #[pyo3(name = "take")]
    fn py_take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.take(py, Facade::Asyncio)
    }
}

struct Bell {
    token: u64,
    queue: Arc<Shared>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.token);
    }
}

struct Shared {
    tokens: Mutex<Vec<u64>>,
    doorbell: Doorbell,
}

impl Shared {
    fn push(&self, token: u64) {
        let was_empty = {
            let mut tokens = self.tokens.lock();
            tokens.push(token);
            tokens.len() == 1
        };
        if was_empty {
            self.doorbell.ring();
        }
    }
}

/// Tokens of operations that are worth polling again. Each thread that watches a descriptor has a queue, and drains it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct CompletionQueue {
    shared: Native<Arc<Shared>>,
    watched: Doorbell,
}

impl CompletionQueue {
    /// Something that puts tokens into the queue, from any thread.
    pub(crate) fn sender(&self) -> PyResult<impl Fn(u64) + Send + Sync + use<>> {
        let shared = Arc::clone(self.shared.get()?);
        Ok(move |token| shared.push(token))
    }

    /// Something that puts `token` into the queue when it is called, from any thread.
    pub(crate) fn pusher(&self, token: u64) -> PyResult<impl FnOnce() + Send + Sync + use<>> {
        let send = self.sender()?;
        Ok(move || send(token))
    }
}

#[pymethods]
impl CompletionQueue {
    #[new]
    pub(crate) fn new() -> PyResult<Self> {
        let (watched, doorbell) = Doorbell::pair()?;
        let shared = Arc::new(Shared {
            tokens: Mutex::new(Vec::new()),
            doorbell,
        });
        Ok(CompletionQueue {
            shared: Native::new("event loop's queue", shared),
            watched,
        })
    }

    /// The descriptor that becomes readable when there is something to drain.
    pub(crate) fn fileno(&self) -> Descriptor {
        self.watched.descriptor()
    }

    /// Whether there is something to drain.
    pub(crate) fn pending(&self) -> PyResult<bool> {
        Ok(!self.shared.get()?.tokens.lock().is_empty())
    }

    /// All tokens that came since the last drain, in the order in which they came.
    pub(crate) fn drain(&self) -> PyResult<Vec<u64>> {
        let shared = self.shared.get()?;
        self.watched.silence();
        Ok(std::mem::take(&mut *shared.tokens.lock()))
    }
}
