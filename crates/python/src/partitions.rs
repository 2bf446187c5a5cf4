//! Partitions as Python names them, and what is known by partition.

use std::sync::Arc;

use ottla_client::{GroupOffset, OffsetAndTimestamp, PartitionInfo};
use ottla_protocol::Uuid;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyMapping, PyString, PyTuple};

use crate::errors;
use crate::values::timestamp_ms;

pub(crate) type Partition = (Arc<str>, i32);

/// A partition: a TopicPartition or a pair, with an offset where it has one.
pub(crate) struct Named {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: Option<i64>,
}

impl FromPyObject<'_, '_> for Named {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if object.is_exact_instance_of::<PyTuple>()
            && let Ok((topic, partition)) = object.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
        {
            return Named::new(&topic, &partition, None);
        }
        let (topic, partition) = (intern!(py, "topic"), intern!(py, "partition"));
        if object.hasattr(topic)? && object.hasattr(partition)? {
            let offset = object.getattr_opt(intern!(py, "offset"))?;
            return Named::new(
                &object.getattr(topic)?,
                &object.getattr(partition)?,
                offset.filter(|offset| !offset.is_none()),
            );
        }
        Err(PyTypeError::new_err(match object.cast::<PyTuple>() {
            Ok(tuple) => format!(
                "a partition is a TopicPartition or a (topic, partition) pair, and this tuple has {} items: {}; with an offset, \
                 write TopicPartition(topic, partition, offset)",
                tuple.len(),
                tuple.repr()?
            ),
            Err(_) => format!(
                "a partition is a TopicPartition or a (topic, partition) pair, not {}",
                object.get_type().qualname()?
            ),
        }))
    }
}

impl Named {
    fn new(
        topic: &Bound<'_, PyAny>,
        partition: &Bound<'_, PyAny>,
        offset: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Ok(topic) = topic.cast::<PyString>() else {
            let found = topic.get_type();
            return Err(PyTypeError::new_err(format!(
                "topic of a partition must be a str, not {}",
                found.qualname()?
            )));
        };
        let topic: Arc<str> = topic.to_str()?.into();
        Ok(Named {
            partition: int("partition", &topic, partition)?,
            offset: offset
                .map(|offset| int("offset", &topic, &offset))
                .transpose()?,
            topic,
        })
    }

    pub(crate) fn partition(self) -> Partition {
        (self.topic, self.partition)
    }
}

/// An int, or the error that names its field.
fn int<'py, T>(what: &str, topic: &str, object: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    if !object.is_instance_of::<PyInt>() && !object.hasattr(intern!(object.py(), "__index__"))? {
        let found = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "{what} of topic {topic:?} must be an int, not {}",
            found.qualname()?
        )));
    }
    object.extract()
}

/// The items of an iterable of partitions.
pub(crate) fn all_named(object: &Bound<'_, PyAny>) -> PyResult<Vec<Named>> {
    object
        .try_iter()?
        .map(|partition| partition?.extract())
        .collect()
}

pub(crate) fn pairs(object: &Bound<'_, PyAny>) -> PyResult<Vec<Partition>> {
    Ok(all_named(object)?
        .into_iter()
        .map(Named::partition)
        .collect())
}

/// The entries of a mapping from partitions to points in time.
pub(crate) fn timestamped(
    timestamps: &Bound<'_, PyMapping>,
) -> PyResult<Vec<(Arc<str>, i32, i64)>> {
    let entries = timestamps.items()?.into_iter().map(|entry| {
        let (partition, time) = entry.extract::<(Named, Bound<'_, PyAny>)>()?;
        Ok((partition.topic, partition.partition, timestamp_ms(&time)?))
    });
    entries.collect()
}

/// The entries of a mapping from partitions to offsets of a group: an int each, or an `OffsetAndMetadata`.
pub(crate) fn group_offsets(offsets: &Bound<'_, PyAny>) -> PyResult<Vec<GroupOffset>> {
    let py = offsets.py();
    let Ok(offsets) = offsets.cast::<PyMapping>() else {
        let found = offsets.get_type().name()?;
        let instead = if offsets.hasattr(intern!(py, "next_offsets"))? {
            ". Of a batch they are batch.next_offsets"
        } else if offsets.hasattr(intern!(py, "offset"))? {
            ". Behind a record it is {(record.topic, record.partition): record.offset + 1}"
        } else {
            ""
        };
        return Err(PyTypeError::new_err(format!(
            "offsets are a mapping from partitions to the next offset to read, such as {{(\"t\", 0): 42}}, not a {found}{instead}"
        )));
    };
    let entries = offsets.items()?.into_iter().map(|entry| {
        let (partition, given) = entry.extract::<(Named, Bound<'_, PyAny>)>()?;
        let topic = partition.topic;
        let (offset, leader_epoch) = offset_and_epoch(&topic, &given)?;
        let metadata = match given.getattr_opt(intern!(py, "metadata"))? {
            Some(metadata) => metadata.extract()?,
            None => String::new(),
        };
        if offset < 0 {
            let text = format!(
                "the offset of {topic}-{} is {offset}: it must be 0 or more",
                partition.partition
            );
            return Err(errors::argument(&text));
        }
        Ok(GroupOffset {
            partition: partition.partition,
            offset,
            leader_epoch,
            metadata: metadata.into(),
            topic,
            topic_id: Uuid::ZERO,
        })
    });
    entries.collect()
}

/// An offset and the leader epoch of the record before it, or -1: of an int or an `OffsetAndMetadata`.
pub(crate) fn offset_and_epoch(topic: &str, given: &Bound<'_, PyAny>) -> PyResult<(i64, i32)> {
    let py = given.py();
    if !given.hasattr(intern!(py, "metadata"))? {
        return Ok((int("offset", topic, given)?, -1));
    }
    let epoch: Option<i32> = given.getattr(intern!(py, "leader_epoch"))?.extract()?;
    let offset = given.getattr(intern!(py, "offset"))?;
    Ok((int("offset", topic, &offset)?, epoch.unwrap_or(-1)))
}

/// A list of TopicPartitions.
pub(crate) fn topic_partitions(
    py: Python<'_>,
    partitions: &[Partition],
) -> PyResult<Vec<Py<PyAny>>> {
    partitions
        .iter()
        .map(|(topic, partition)| Ok(topic_partition(py, topic, *partition)?.unbind()))
        .collect()
}

pub(crate) fn topic_partition<'py>(
    py: Python<'py>,
    topic: &str,
    partition: i32,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS
        .import(py, "ottla._types", "TopicPartition")?
        .call1((topic, partition))
}

/// A dict of offsets by TopicPartition.
pub(crate) fn offsets(py: Python<'_>, values: Vec<(Partition, i64)>) -> PyResult<Py<PyAny>> {
    by_partition(py, values, |offset| {
        Ok(offset.into_pyobject(py)?.into_any().unbind())
    })
}

/// A dict of offsets with their times by TopicPartition.
pub(crate) fn times(
    py: Python<'_>,
    values: Vec<(Partition, Option<OffsetAndTimestamp>)>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "ottla._types", "OffsetAndTimestamp")?;
    by_partition(py, values, |found| match found {
        Some(found) => Ok(class.call1((found.offset, found.timestamp_ms))?.unbind()),
        None => Ok(py.None()),
    })
}

/// A dict of committed offsets by TopicPartition.
pub(crate) fn committed(
    py: Python<'_>,
    values: Vec<(Partition, Option<GroupOffset>)>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "ottla._types", "OffsetAndMetadata")?;
    by_partition(py, values, |found| match found {
        Some(found) => {
            let epoch = Some(found.leader_epoch).filter(|epoch| *epoch >= 0);
            let made = class.call1((found.offset, &*found.metadata, epoch))?;
            Ok(made.unbind())
        }
        None => Ok(py.None()),
    })
}

fn by_partition<T>(
    py: Python<'_>,
    values: Vec<(Partition, T)>,
    convert: impl Fn(T) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    for (partition, value) in values {
        dict.set_item(
            topic_partition(py, &partition.0, partition.1)?,
            convert(value)?,
        )?;
    }
    Ok(dict.into_any().unbind())
}

/// The numbers of a topic's partitions.
#[expect(clippy::needless_pass_by_value, reason = "what an operation brought")]
pub(crate) fn numbers(py: Python<'_>, partitions: Vec<PartitionInfo>) -> PyResult<Py<PyAny>> {
    let numbers: Vec<i32> = partitions.iter().map(|info| info.partition).collect();
    Ok(numbers.into_pyobject(py)?.into_any().unbind())
}
