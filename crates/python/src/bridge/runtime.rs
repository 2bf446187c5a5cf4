//! One tokio runtime per process, made when the first client needs it.
//!
//! Its threads never attach to Python: they would freeze on a held GIL and crash at interpreter exit. Results wait in
//! queues until a Python thread comes for them (see `wait` and `operation`).
//!
//! `fork` copies memory but not threads, so in the child the parent's runtime is dead, and any of its locks may be held for
//! ever. The child therefore leaves that runtime alone (neither used nor dropped) and builds its own when it needs one;
//! everything that lived on the parent's is wrapped in [`Native`], which refuses to be used, or dropped, in the child.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bridge::errors;

/// More threads than this only help with more traffic than one Python process makes.
const MAX_WORKERS: usize = 4;

/// How many forks lie between the process that loaded this module and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The runtime of this process or, right after a fork, still that of the parent.
static CURRENT: AtomicPtr<ProcessRuntime> = AtomicPtr::new(std::ptr::null_mut());

struct ProcessRuntime {
    forks: u64,
    runtime: Runtime,
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

/// The handle of this process's runtime.
pub(crate) fn handle() -> PyResult<&'static Handle> {
    let forks = FORKS.load(Ordering::Relaxed);
    let seen = CURRENT.load(Ordering::Acquire);
    // SAFETY: a pointer stored in CURRENT comes from `Box::into_raw` below and is never freed.
    if let Some(process) = unsafe { seen.as_ref() }
        && process.forks == forks
    {
        return Ok(process.runtime.handle());
    }
    let runtime = start().map_err(|error| {
        PyRuntimeError::new_err(format!("the I/O threads could not be started: {error}"))
    })?;
    let fresh = Box::into_raw(Box::new(ProcessRuntime { forks, runtime }));
    match CURRENT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => Ok(unsafe { (*fresh).runtime.handle() }),
        Err(_) => {
            // Another thread was first: use its runtime, and end ours, which nobody has seen.
            // SAFETY: `fresh` came from `Box::into_raw` and was not published.
            let unused = unsafe { Box::from_raw(fresh) };
            unused.runtime.shutdown_background();
            handle()
        }
    }
}

fn start() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, MAX_WORKERS))
        .thread_name("ottla")
        .enable_all()
        .build()
}

/// Something that lives on the runtime of the process that made it.
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
