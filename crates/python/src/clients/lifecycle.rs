//! What every client has: metrics, its id, its close; a warning for one that nobody closed, and a bounded close when the
//! interpreter exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ottla_client::metrics::{self, Metric};
use ottla_client::{Admin, Config, Consumer, Error, Producer, ShareConsumer};
use parking_lot::Mutex;
use pyo3::exceptions::{PyResourceWarning, PyRuntimeWarning};
use pyo3::prelude::*;

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::runtime::{self, Native};
use crate::bridge::{calls, errors, events, wait};
use crate::clients::app_metric::AppMetric;
use crate::clients::metrics::to_python;
use crate::records::decoder::Decoder;
use crate::sending::unobserved_failures;
use crate::values::numbers::{Timeout, seconds};
use crate::values::scalars;

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
    let client = Native::new(Producer::CLASS, producer.get()?.clone());
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
        let result = wait::block_on(py, <Producer>::close(client, Some(EXIT)))?;
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

/// What the cores of all clients need of the clients of `ottla_client`, which have these methods alike.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// The name of the class, for warnings and errors.
    const CLASS: &'static str;

    fn config(&self) -> &Config;
    fn metrics(&self) -> Vec<Metric>;
    fn register_metric(&self, metric: Arc<metrics::AppMetric>);
    fn unregister_metric(&self, metric: &metrics::AppMetric);
    fn instance_id(
        &self,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<[u8; 16], Error>> + Send;
    fn close(&self, timeout: Option<Duration>) -> impl Future<Output = Result<(), Error>> + Send;
    /// The close of a client that nobody closed.
    fn abandon(&self) -> impl Future<Output = Result<(), Error>> + Send;
}

macro_rules! client {
    ($client:ty, $class:literal, $abandon:ident) => {
        impl Client for $client {
            const CLASS: &'static str = $class;

            fn config(&self) -> &Config {
                <$client>::config(self)
            }

            fn metrics(&self) -> Vec<Metric> {
                <$client>::metrics(self)
            }

            fn register_metric(&self, metric: Arc<metrics::AppMetric>) {
                <$client>::register_metric(self, metric);
            }

            fn unregister_metric(&self, metric: &metrics::AppMetric) {
                <$client>::unregister_metric(self, metric);
            }

            async fn instance_id(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
                <$client>::instance_id(self, timeout).await
            }

            async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
                <$client>::close(self, timeout).await
            }

            async fn abandon(&self) -> Result<(), Error> {
                <$client>::$abandon(self, None).await
            }
        }
    };
}

client!(Admin, "Admin", close);
client!(Producer, "Producer", close);
client!(Consumer<Decoder>, "Consumer", abandon);
client!(ShareConsumer<Decoder>, "ShareConsumer", close);

/// A client, whether it was closed, and the warning if it never is.
pub(crate) struct Opened<T: Client> {
    client: Native<T>,
    closed: Arc<AtomicBool>,
}

impl<T: Client> Opened<T> {
    pub(crate) fn new(client: T) -> Self {
        Opened {
            client: Native::new(T::CLASS, client),
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

    /// Set when the client is closed.
    fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// Raises if the client can no longer be used.
    pub(crate) fn check(&self) -> PyResult<()> {
        self.get().map(|_| ())
    }

    /// All metrics at this moment.
    pub(crate) fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        let client = match even_closed {
            true => self.even_closed()?,
            false => self.get()?,
        };
        to_python(py, &py.detach(|| client.metrics()))
    }

    /// Pushes a metric of the program with the client's own. A warning that it cannot be is logged before this returns.
    pub(crate) fn register_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        let client = self.get()?;
        py.detach(|| client.register_metric(metric.shared()));
        events::log(py)
    }

    /// No longer pushes the metric of this name and these tags.
    pub(crate) fn unregister_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        let client = self.get()?;
        py.detach(|| client.unregister_metric(&metric.shared()));
        Ok(())
    }

    /// Seconds between two calls of `on_metrics`.
    pub(crate) fn metrics_interval(&self) -> PyResult<f64> {
        Ok(self.even_closed()?.config().metrics_interval.as_secs_f64())
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    pub(crate) fn interrupt_timeout(&self) -> PyResult<f64> {
        let config = self.even_closed()?.config();
        Ok(config.close_interrupt_timeout.as_secs_f64())
    }

    /// The id that brokers know this client by.
    pub(crate) fn instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.instance_id(timeout).await },
            scalars::uuid,
        ))
    }

    /// Closes the client. `report` turns the result into Python's, after everything that happened was logged.
    pub(crate) fn close<R>(&self, timeout: Option<Timeout>, report: R) -> PyResult<Operation>
    where
        R: FnOnce(Python<'_>, &T, Result<(), Error>) -> PyResult<()> + Send + 'static,
    {
        let (client, timeout) = (self.even_closed()?.clone(), seconds(timeout)?);
        let closed = self.closed();
        let close = async move {
            let result = client.close(timeout).await;
            closed.store(true, Ordering::Relaxed);
            Ok((client, result))
        };
        Ok(Operation::new(close, |py, (client, result)| {
            events::log(py)?;
            report(py, &client, result).map(|()| py.None())
        }))
    }
}

/// A client that nobody closed is closed in the background, with a warning.
impl<T: Client> Drop for Opened<T> {
    fn drop(&mut self) {
        let Ok(client) = self.client.get() else {
            return;
        };
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(handle) = runtime::handle() {
            let (client, closed) = (client.clone(), self.closed());
            handle.spawn(async move {
                // The warning below is all that a forgotten client gets.
                let _ = client.abandon().await;
                closed.store(true, Ordering::Relaxed);
            });
        }
        warn_unclosed(T::CLASS);
    }
}

/// The result of a close that has nothing else to report.
pub(crate) fn closed<T>(py: Python<'_>, _: &T, result: Result<(), Error>) -> PyResult<()> {
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
