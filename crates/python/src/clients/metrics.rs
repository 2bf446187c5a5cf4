//! Metrics of clients as Python sees them, and the table of all that there are.

use std::sync::Arc;

use ottla_client::Role;
use ottla_client::metrics::{Described, Kind, Metric, describe};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// An `ottla.Metrics`: values by `ottla.MetricName`.
pub(crate) fn to_python(py: Python<'_>, metrics: &[Metric]) -> PyResult<Py<PyAny>> {
    static NAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static ALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&NAME, py, "ottla._metrics", "MetricName")?;
    let all = calls::class(&ALL, py, "ottla._metrics", "Metrics")?.guarded_call(())?;
    // Metrics of one thing stand together and share their tags.
    let mut shared: Option<(&Metric, Bound<'_, PyTuple>)> = None;
    for metric in metrics {
        let tags = match &shared {
            Some((before, tags)) if Arc::ptr_eq(&before.tags, &metric.tags) => tags.clone(),
            _ => PyTuple::new(
                py,
                metric.tags.iter().map(|(name, value)| (&**name, &**value)),
            )?,
        };
        let name = class.guarded_call((&*metric.name, &*metric.group, &tags))?;
        all.set_item(name, metric.value)?;
        shared = Some((metric, tags));
    }
    Ok(all.unbind())
}

/// Raises unless `on_metrics` can be called, or is not there.
pub(crate) fn check_callback(
    py: Python<'_>,
    on_metrics: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some(callback) = on_metrics {
        let check = calls::class(&CHECK, py, "ottla._metrics", "check_callback")?;
        check.guarded_call((callback,))?;
    }
    Ok(())
}

/// Has `on_metrics`, if there is one, called with the metrics of a client for threads again and again, as long as the caller keeps
/// what this returns.
pub(crate) fn report<'py>(
    core: &Bound<'py, PyAny>,
    on_metrics: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    static START: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(callback) = on_metrics else {
        return Ok(None);
    };
    let start = calls::class(&START, core.py(), "ottla._reporting", "start")?;
    Ok(Some(start.guarded_call((core, callback))?.unbind()))
}

/// The table of metrics, a dict for each: the client's role, group, name, names of tags, kind, unit, doc.
#[pyfunction]
pub(crate) fn metric_table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let roles = [
        Role::Producer,
        Role::Consumer,
        Role::ShareConsumer,
        Role::Admin,
    ];
    let roles = roles.into_iter();
    let rows = roles.flat_map(|role| describe(role).into_iter().map(move |row| (role, row)));
    rows.map(|(role, row)| described(py, role, &row)).collect()
}

fn described<'py>(py: Python<'py>, role: Role, row: &Described) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("role", role.name())?;
    dict.set_item("group", row.group)?;
    dict.set_item("name", row.name)?;
    dict.set_item("tags", row.tags.to_vec())?;
    let kind = match row.kind {
        Kind::Total => "total",
        Kind::Gauge => "gauge",
    };
    dict.set_item("kind", kind)?;
    dict.set_item("unit", row.unit)?;
    dict.set_item("doc", row.doc)?;
    Ok(dict)
}
