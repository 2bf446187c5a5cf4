//! `ottla.AppMetric`: a metric of the program, which clients push to brokers with their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_client::metrics::{self, Kind};
use pyo3::prelude::*;

use crate::bridge::errors;

/// A metric of your program, which clients push to brokers with their own (KIP-1076). Threads may share it.
///
/// Brokers get it as `org.apache.kafka.<group>.<name>`, in lower case, with dots for hyphens and without the group's
/// `-metrics`. Its tags are attributes, with underscores for hyphens. An operator's subscription selects metrics by the
/// beginning of that name.
///
/// Args:
///     name: Such as `"orders-open"`.
///     group: What it is a part of, such as `"shop"`.
///     tags: Tags and their values, such as `{"region": "eu"}`. `client-id` is left out, since brokers know it.
///     kind: `"gauge"`, a current value; or `"counter"`, a total that never shrinks. Brokers may request how much a
///         counter grew since the last push.
///
/// Raises:
///     ArgumentError: `kind` is unknown; the name, the group or a tag is empty; or two tags are the same for brokers.
///
/// Example:
///     ```python
///     orders = ottla.AppMetric("orders-total", "shop", tags={"region": "eu"}, kind="counter")
///     producer.register_metric_for_subscription(orders)
///     orders.add(1)
///     ```
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct AppMetric {
    metric: Arc<metrics::AppMetric>,
}

#[pymethods]
impl AppMetric {
    #[new]
    #[pyo3(signature = (name, group, *, tags = None, kind = "gauge"))]
    fn new(
        py: Python<'_>,
        name: &str,
        group: &str,
        tags: Option<BTreeMap<String, String>>,
        kind: &str,
    ) -> PyResult<Self> {
        let kind = match kind {
            "gauge" => Kind::Gauge,
            "counter" => Kind::Total,
            _ => {
                let text = format!("kind={kind:?} is unknown: it is \"gauge\" or \"counter\"");
                return Err(errors::argument(&text));
            }
        };
        let made = metrics::AppMetric::new(name, group, tags.unwrap_or_default(), kind);
        let metric = made.map_err(|error| errors::to_python(py, &error))?;
        Ok(AppMetric {
            metric: Arc::new(metric),
        })
    }

    /// The current value; 0 at first.
    #[getter]
    fn value(&self) -> f64 {
        self.metric.value()
    }

    /// Set the value. Clients push the value that it has then.
    ///
    /// Args:
    ///     value: The value. A gauge that is NaN or infinite is not pushed.
    ///
    /// Raises:
    ///     ArgumentError: A counter would shrink, or the value is not a finite number.
    #[pyo3(signature = (value, /))]
    fn set(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        let set = self.metric.set(value);
        set.map_err(|error| errors::to_python(py, &error))
    }

    /// Add to the value. No amount is lost if several threads do it at the same time.
    ///
    /// Args:
    ///     amount: The amount; less than 0 only for a gauge.
    ///
    /// Raises:
    ///     ArgumentError: A counter would shrink, or the sum is not a finite number.
    #[pyo3(signature = (amount = 1.0, /))]
    fn add(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        let added = self.metric.add(amount);
        added.map_err(|error| errors::to_python(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("<AppMetric {}>", self.metric)
    }
}

impl AppMetric {
    /// The metric, for a client.
    pub(crate) fn shared(&self) -> Arc<metrics::AppMetric> {
        Arc::clone(&self.metric)
    }
}
