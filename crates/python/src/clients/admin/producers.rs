//! The states of producers by partition.

use ottla_client::admin::{Each, ProducerState};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::results::all;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::values::partitions::{Partition, topic_partitions};

pub(super) fn described(
    py: Python<'_>,
    each: Each<Partition, Vec<ProducerState>>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "ProducerState")?;
    let (partitions, found): (Vec<_>, Vec<_>) = each.into_iter().unzip();
    let each = topic_partitions(py, &partitions)?.into_iter().zip(found);
    let described = PyDict::new(py);
    for (partition, states) in all(py, each.collect())? {
        let states = states
            .iter()
            .map(|state| {
                class.guarded_call((
                    state.producer_id,
                    state.producer_epoch,
                    state.last_sequence,
                    state.last_timestamp_ms,
                    state.coordinator_epoch,
                    state.transaction_start,
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        described.set_item(partition, states)?;
    }
    Ok(described.into_any().unbind())
}
