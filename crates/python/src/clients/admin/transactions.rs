//! Transactions: listings, descriptions and fenced producers.

use ottla_client::admin::{Each, ProducerIdentity, TransactionDescription, TransactionListing};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::results::all;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::values::partitions::topic_partitions;

pub(super) fn listed(py: Python<'_>, found: Vec<TransactionListing>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "TransactionListing")?;
    let rows = found
        .into_iter()
        .map(|row| class.guarded_call((row.transactional_id, row.producer_id, row.state)));
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    Ok(rows.into_pyobject(py)?.into_any().unbind())
}

pub(super) fn described(
    py: Python<'_>,
    each: Each<String, TransactionDescription>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "TransactionDescription")?;
    let described = PyDict::new(py);
    for (id, found) in all(py, each)? {
        let transaction = class.guarded_call((
            found.transactional_id,
            found.state,
            found.producer_id,
            found.producer_epoch,
            found.timeout_ms,
            found.started_ms,
            topic_partitions(py, &found.partitions)?,
        ))?;
        described.set_item(id, transaction)?;
    }
    Ok(described.into_any().unbind())
}

pub(super) fn fenced(py: Python<'_>, each: Each<String, ProducerIdentity>) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "FencedProducer")?;
    let fenced = PyDict::new(py);
    for (id, now) in all(py, each)? {
        fenced.set_item(id, class.guarded_call((now.id, now.epoch))?)?;
    }
    Ok(fenced.into_any().unbind())
}
