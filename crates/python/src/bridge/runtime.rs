//! The I/O threads of the process, made when the first client needs them.
//!
//! They never attach to Python: they would freeze on a held GIL and crash at interpreter exit. Results wait in
//! queues until a Python thread comes for them (see `wait` and `operation`).
//!
//! `fork` copies memory but not threads, so in the child the parent's are dead, and any of their locks may be held for
//! ever. The child therefore leaves them alone (neither used nor dropped) and starts its own when it needs some;
//! everything that lived on the parent's is wrapped in [`Native`], which refuses to be used, or dropped, in the child.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ottla_client::Threads;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::bridge::errors;

/// More threads than this only help with more traffic than one Python process makes.
const MOST: usize = 4;

/// How many forks lie between the process that loaded this module and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The threads of this process or, right after a fork, still those of the parent.
static CURRENT: AtomicPtr<ProcessThreads> = AtomicPtr::new(std::ptr::null_mut());

struct ProcessThreads {
    forks: u64,
    threads: Arc<Threads>,
}

/// Starts to count forks. Idempotent.
#[cfg(unix)]
pub(crate) fn watch_forks() {
    static WATCH: OnceLock<()> = OnceLock::new();
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    WATCH.get_or_init(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Windows has no fork.
#[cfg(not(unix))]
pub(crate) fn watch_forks() {}

/// The runtime for what has to do with no connection.
pub(crate) fn handle() -> PyResult<&'static Handle> {
    threads().map(|threads| threads.first())
}

/// The threads of this process.
pub(crate) fn threads() -> PyResult<&'static Arc<Threads>> {
    let forks = FORKS.load(Ordering::Relaxed);
    let seen = CURRENT.load(Ordering::Acquire);
    // SAFETY: a pointer stored in CURRENT comes from `Box::into_raw` below and is never freed.
    if let Some(process) = unsafe { seen.as_ref() }
        && process.forks == forks
    {
        return Ok(&process.threads);
    }
    let started = start().map_err(|error| {
        PyRuntimeError::new_err(format!("the I/O threads could not be started: {error}"))
    })?;
    let fresh = Box::into_raw(Box::new(ProcessThreads {
        forks,
        threads: started,
    }));
    match CURRENT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => Ok(unsafe { &(*fresh).threads }),
        Err(_) => {
            // Another thread was first: use its threads. Ours end, which nobody has seen.
            // SAFETY: `fresh` came from `Box::into_raw` and was not published.
            drop(unsafe { Box::from_raw(fresh) });
            threads()
        }
    }
}

fn start() -> std::io::Result<Arc<Threads>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Threads::start(cores.min(MOST), "ottla")
}

/// Something that lives on the threads of the process that made it.
pub(crate) struct Native<T> {
    /// Always there until drop, which in a forked child must leak it: its locks may be held by threads that are gone.
    value: Option<T>,
    what: &'static str,
    forks: u64,
}

impl<T> Native<T> {
    /// `what` is the name of the class, for the error.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Native {
            value: Some(value),
            what,
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// The value, or the error that explains what to do in a forked child.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.forks == FORKS.load(Ordering::Relaxed) => Ok(value),
            _ => Err(errors::forked(self.what)),
        }
    }
}

impl<T> Drop for Native<T> {
    fn drop(&mut self) {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            std::mem::forget(self.value.take());
        }
    }
}
