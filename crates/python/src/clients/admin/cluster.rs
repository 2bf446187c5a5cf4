//! The description of the cluster.

use ottla_client::admin::ClusterDescription;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyFrozenSet;

use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// Kafka's operations of ACLs by their codes, from 3 on.
const OPERATIONS: [&str; 13] = [
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
];

fn operations<'py>(py: Python<'py>, bits: i32) -> PyResult<Bound<'py, PyFrozenSet>> {
    let named = (3..).zip(OPERATIONS);
    let allowed = named.filter(|(code, _)| bits & (1 << code) != 0);
    PyFrozenSet::new(py, allowed.map(|(_, name)| name))
}

pub(super) fn described(py: Python<'_>, found: ClusterDescription) -> PyResult<Py<PyAny>> {
    static CLUSTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static NODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&NODE, py, "ottla._types", "Node")?;
    let mut controller = None;
    let mut nodes = Vec::with_capacity(found.nodes.len());
    for node in found.nodes {
        let made = class.guarded_call((node.id, node.host, node.port, node.rack, node.fenced))?;
        if found.controller == Some(node.id) {
            controller = Some(made.clone());
        }
        nodes.push(made);
    }
    let operations = found.operations.map(|bits| operations(py, bits));
    let class = calls::class(&CLUSTER, py, "ottla._types", "ClusterDescription")?;
    let operations = operations.transpose()?;
    let described = class.guarded_call((found.cluster_id, controller, nodes, operations))?;
    Ok(described.unbind())
}
