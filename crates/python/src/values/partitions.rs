//! Partitions as Python names them, and what is known by partition.

use std::sync::Arc;

use ottla_client::{GroupOffset, OffsetAndTimestamp, PartitionInfo};
use ottla_protocol::Uuid;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::values::numbers::refused;
use crate::values::scalars::timestamp_ms;

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
        if object.guarded_has(topic)? && object.guarded_has(partition)? {
            let offset = object.guarded_optional(intern!(py, "offset"))?;
            return Named::new(
                &object.guarded_attribute(topic)?,
                &object.guarded_attribute(partition)?,
                offset.filter(|offset| !offset.is_none()),
            );
        }
        Err(PyTypeError::new_err(match object.cast::<PyTuple>() {
            Ok(tuple) => format!(
                "a partition is a TopicPartition or a (topic, partition) pair, and this tuple has {} items: {}; with an offset, \
                 write TopicPartition(topic, partition, offset)",
                tuple.len(),
                tuple.guarded_repr()?
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
    if !object.is_instance_of::<PyInt>()
        && !object.guarded_has(intern!(object.py(), "__index__"))?
    {
        let found = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "{what} of topic {topic:?} must be an int, not {}",
            found.qualname()?
        )));
    }
    object.guarded_int().map_err(|error| {
        let wanted = format!("an int from 0 up that fits {} bits", 8 * size_of::<T>());
        refused(
            &format!("{what} of topic {topic:?}"),
            &wanted,
            object,
            error,
        )
    })
}

/// The items of an iterable of partitions.
pub(crate) fn all_named(object: &Bound<'_, PyAny>) -> PyResult<Vec<Named>> {
    object
        .guarded_items()?
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
pub(crate) fn timestamped(timestamps: &Bound<'_, PyAny>) -> PyResult<Vec<(Arc<str>, i32, i64)>> {
    let Some(timestamps) = timestamps.guarded_mapping()? else {
        let found = timestamps.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "timestamps are a mapping from partitions to times, such as {{(\"t\", 0): datetime.now(timezone.utc)}}, not a {found}"
        )));
    };
    let entries = calls::entries(timestamps)?.map(|entry| {
        let (partition, time) = entry?.extract::<(Named, Bound<'_, PyAny>)>()?;
        Ok((partition.topic, partition.partition, timestamp_ms(&time)?))
    });
    entries.collect()
}

/// The entries of a mapping from partitions to offsets of a group: an int each, or an `OffsetAndMetadata`.
pub(crate) fn group_offsets(offsets: &Bound<'_, PyAny>) -> PyResult<Vec<GroupOffset>> {
    let py = offsets.py();
    let Some(offsets) = offsets.guarded_mapping()? else {
        let found = offsets.get_type().name()?;
        let instead = if offsets.guarded_has(intern!(py, "next_offsets"))? {
            ". Of a batch they are batch.next_offsets"
        } else if offsets.guarded_has(intern!(py, "offset"))? {
            ". Behind a record it is {(record.topic, record.partition): record.offset + 1}"
        } else {
            ""
        };
        return Err(PyTypeError::new_err(format!(
            "offsets are a mapping from partitions to the next offset to read, such as {{(\"t\", 0): 42}}, not a {found}{instead}"
        )));
    };
    let entries = calls::entries(offsets)?.map(|entry| {
        let (partition, given) = entry?.extract::<(Named, Bound<'_, PyAny>)>()?;
        let topic = partition.topic;
        let (offset, leader_epoch) = offset_and_epoch(&topic, &given)?;
        let metadata = match given.guarded_optional(intern!(py, "metadata"))? {
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
    if !given.guarded_has(intern!(py, "metadata"))? {
        return Ok((int("offset", topic, given)?, -1));
    }
    let epoch: Option<i32> = given
        .guarded_attribute(intern!(py, "leader_epoch"))?
        .extract()?;
    let offset = given.guarded_attribute(intern!(py, "offset"))?;
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
    calls::class(&CLASS, py, "ottla._types", "TopicPartition")?.guarded_call((topic, partition))
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
    let class = calls::class(&CLASS, py, "ottla._types", "OffsetAndTimestamp")?;
    by_partition(py, values, |found| match found {
        Some(found) => Ok(class
            .guarded_call((found.offset, found.timestamp_ms))?
            .unbind()),
        None => Ok(py.None()),
    })
}

/// A dict of committed offsets by TopicPartition.
pub(crate) fn committed(
    py: Python<'_>,
    values: Vec<(Partition, Option<GroupOffset>)>,
) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "ottla._types", "OffsetAndMetadata")?;
    by_partition(py, values, |found| match found {
        Some(found) => {
            let epoch = Some(found.leader_epoch).filter(|epoch| *epoch >= 0);
            let made = class.guarded_call((found.offset, &*found.metadata, epoch))?;
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
