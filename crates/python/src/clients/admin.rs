//! `AdminCore`: the calls are the engine's verbs, by their names.

mod arguments;
mod results;

use std::pin::Pin;
use std::time::Duration;

use ottla_client::verbs::{self, Verb, Visitor};
use ottla_client::{Admin as Client, Error, Role};
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use serde::Serialize;

use crate::bridge::operation::Operation;
use crate::bridge::{errors, events, runtime};
use crate::clients::app_metric::AppMetric;
use crate::clients::lifecycle::{self, Opened};
use crate::clients::options;
use crate::values::numbers::{Timeout, seconds};

/// The core of both facades of an admin client. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct AdminCore {
    client: Opened<Client>,
}

#[pymethods]
impl AdminCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Admin, bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::threads()?, events::queue(py)?)
            .map_err(|error| errors::to_python(py, &error))?;
        Ok(AdminCore {
            client: Opened::new(client),
        })
    }

    /// Begins the call of this name.
    #[pyo3(signature = (name, timeout, /, **arguments))]
    fn call(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: Option<Timeout>,
        arguments: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Operation> {
        let begun = Begin {
            client: self.client.get()?.clone(),
            timeout: seconds(timeout)?,
            arguments: arguments.unwrap_or_else(|| PyDict::new(py)),
        };
        let found = verbs::find(name, begun);
        found.unwrap_or_else(|| Err(PyLookupError::new_err(format!("there is no call {name}"))))
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.close(timeout, lifecycle::closed)
    }

    /// All metrics at this moment. `even_closed` is for whoever reports the last ones.
    #[pyo3(signature = (*, even_closed = false))]
    fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        self.client.metrics(py, even_closed)
    }

    /// Pushes a metric of the program with the client's own.
    #[pyo3(signature = (metric, /))]
    fn register_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.register_metric(py, metric)
    }

    /// No longer pushes the metric of this name and these tags.
    #[pyo3(signature = (metric, /))]
    fn unregister_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.unregister_metric(py, metric)
    }

    /// The id that brokers know this client by.
    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.instance_id(timeout)
    }

    /// Seconds between two calls of `on_metrics`.
    fn metrics_interval(&self) -> PyResult<f64> {
        self.client.metrics_interval()
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    fn interrupt_timeout(&self) -> PyResult<f64> {
        self.client.interrupt_timeout()
    }

    /// Raises if the client can no longer be used.
    fn check(&self) -> PyResult<()> {
        self.client.check()
    }
}

/// Begins a call of the verb that it is shown.
struct Begin<'py> {
    client: Client,
    timeout: Option<Duration>,
    arguments: Bound<'py, PyDict>,
}

impl Visitor for Begin<'_> {
    type Value = PyResult<Operation>;

    fn visit<V: Verb>(self) -> PyResult<Operation> {
        let verb: V = arguments::verb(&self.arguments)?;
        let (client, timeout) = (self.client, self.timeout);
        Ok(operation(Box::pin(async move {
            let outcome: Box<dyn Outcome> = Box::new(client.run(verb, timeout).await);
            outcome
        })))
    }
}

/// What a verb returned, whatever its type.
trait Outcome: Send {
    fn convert(self: Box<Self>, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl<T: Serialize + Send + 'static> Outcome for Result<T, Error> {
    fn convert(self: Box<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        results::to_python(py, *self)
    }
}

/// The operation of any verb: it is compiled once, and not for each of them.
fn operation(run: Pin<Box<dyn Future<Output = Box<dyn Outcome>> + Send>>) -> Operation {
    Operation::new(async move { Ok(run.await) }, |py, outcome| {
        outcome.convert(py)
    })
}
