//! Waiting from a Python thread, so that Ctrl-C ends it.

use std::pin::pin;
use std::time::Duration;

use ottla_client::Error;
use pyo3::prelude::*;

use crate::{errors, runtime};

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
    let mut future = pin!(future);
    loop {
        let slice = py.detach(|| {
            handle.block_on(async { tokio::time::timeout(SLICE, future.as_mut()).await })
        });
        match slice {
            Ok(value) => return Ok(value),
            Err(_) => py.check_signals()?,
        }
    }
}

/// [`block_on`] for a call of the client: its error is raised.
pub(crate) fn result<T: Send>(
    py: Python<'_>,
    call: impl Future<Output = Result<T, Error>> + Send,
) -> PyResult<T> {
    block_on(py, call)?.map_err(|error| errors::to_python(py, &error))
}
