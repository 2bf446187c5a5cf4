//! Topics: those to create, listings and descriptions.

use std::collections::BTreeMap;

use ottla_client::admin::{Each, NewTopic, TopicDescription, TopicListing};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::results::all;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::clients::options;
use crate::values::numbers::whole;
use crate::values::scalars;

pub(super) fn create(object: &Bound<'_, PyAny>) -> PyResult<Vec<NewTopic>> {
    let one = object.is_instance_of::<PyString>()
        || object.guarded_has(intern!(object.py(), "replication"))?;
    if one {
        Ok(vec![new_topic(object)?])
    } else {
        object
            .guarded_items()?
            .map(|topic| new_topic(&topic?))
            .collect()
    }
}

fn new_topic(object: &Bound<'_, PyAny>) -> PyResult<NewTopic> {
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(NewTopic {
            name: name.to_str()?.to_owned(),
            partitions: 1,
            replication: -1,
            config: BTreeMap::new(),
        });
    }
    let py = object.py();
    if !object.guarded_has(intern!(py, "replication"))? {
        let found = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "a topic to create is a NewTopic or its name, not {}",
            found.qualname()?
        )));
    }
    let mut config = Vec::new();
    let given = object.guarded_attribute(intern!(py, "config"))?;
    if !given.is_none() {
        options::texts(None, given.cast()?, &mut config)?;
    }
    Ok(NewTopic {
        name: object.guarded_attribute(intern!(py, "name"))?.extract()?,
        partitions: whole(
            "partitions of a NewTopic",
            "an int that fits 32 bits",
            &object.guarded_attribute(intern!(py, "partitions"))?,
        )?,
        replication: whole(
            "replication of a NewTopic",
            "an int that fits 16 bits",
            &object.guarded_attribute(intern!(py, "replication"))?,
        )?,
        config: config.into_iter().collect(),
    })
}

pub(super) fn listed(py: Python<'_>, topics: Vec<TopicListing>) -> PyResult<Py<PyAny>> {
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    Ok(names.into_pyobject(py)?.into_any().unbind())
}

pub(super) fn described(
    py: Python<'_>,
    each: Each<String, TopicDescription>,
) -> PyResult<Py<PyAny>> {
    static TOPIC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static PARTITION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let topic = calls::class(&TOPIC, py, "ottla._types", "TopicDescription")?;
    let partition = calls::class(&PARTITION, py, "ottla._types", "PartitionInfo")?;
    let described = PyDict::new(py);
    for (name, found) in all(py, each)? {
        let partitions = found
            .partitions
            .iter()
            .map(|info| {
                partition.guarded_call((
                    info.partition,
                    info.leader,
                    info.replicas.clone(),
                    info.in_sync.clone(),
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let id = topic_id(py, found.listing.id)?;
        described.set_item(
            &name,
            topic.guarded_call((&name, id, found.listing.internal, partitions))?,
        )?;
    }
    Ok(described.into_any().unbind())
}

/// A topic's id; None for that of brokers that have none.
fn topic_id(py: Python<'_>, id: [u8; 16]) -> PyResult<Option<Py<PyAny>>> {
    (id != [0; 16]).then(|| scalars::uuid(py, id)).transpose()
}
