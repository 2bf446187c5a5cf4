//! `Message`: a record that was consumed or whose delivery ended, or an error of a consumer.

use parking_lot::Mutex;
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls::Guarded;
use crate::bridge::collector::{track, untracked};
use crate::records::batch::{Batch, Record};

/// What stands for an offset that is not known, in librdkafka.
pub(crate) const NO_OFFSET: i64 = -1001;
/// The types of timestamps, in librdkafka: not available, and set by the producer. The broker's is one more.
const NO_TIMESTAMP: i32 = 0;
pub(crate) const CREATE_TIME: i32 = 1;

type Object = Option<Py<PyAny>>;

/// A record: consumed, or produced with its delivery's result; or the error of a consumer.
///
/// The type of its timestamp is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.
///
/// Args:
///     topic: The topic's name.
///     partition: The partition's number.
///     offset: The offset.
///     key: The key.
///     value: The value.
///     headers: The headers.
///     error: The error, if the message is one.
///     timestamp: The timestamp's type and the timestamp in milliseconds.
///     latency: Seconds from the call of produce to the delivery.
///     leader_epoch: The epoch of the leader that wrote the record.
///     delivery_count: How often a share group delivered the record.
#[pyclass(frozen, subclass, module = "confluent_kafka.cimpl")]
pub(crate) struct Message {
    content: Mutex<Content>,
}

enum Content {
    /// A consumed record. The objects of its fields are made when they are read.
    Record(Record),
    Fields(Fields),
}

/// The fields as `__init__` takes them.
pub(crate) struct Fields {
    pub(crate) topic: Object,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Object,
    pub(crate) value: Object,
    pub(crate) headers: Object,
    pub(crate) error: Object,
    pub(crate) timestamp: (i32, i64),
    pub(crate) latency: f64,
    pub(crate) leader_epoch: i32,
    pub(crate) delivery_count: i16,
}

impl Fields {
    fn empty() -> Self {
        Fields {
            topic: None,
            partition: 0,
            offset: 0,
            key: None,
            value: None,
            headers: None,
            error: None,
            timestamp: (NO_TIMESTAMP, 0),
            latency: 0.0,
            leader_epoch: 0,
            delivery_count: 0,
        }
    }

    fn of(py: Python<'_>, record: &Record) -> PyResult<Self> {
        Ok(Fields {
            topic: Some(record.topic(py).into_any()),
            partition: record.partition(),
            offset: record.offset(),
            key: record.key(py).map(|key| key.into_any().unbind()),
            value: record.value(py).map(|value| value.into_any().unbind()),
            headers: headers(py, record)?,
            error: None,
            timestamp: timestamp(record),
            latency: -1.0,
            leader_epoch: record.leader_epoch().unwrap_or(-1),
            delivery_count: record.delivery_count().unwrap_or(-1),
        })
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        let object = |object: &Object| object.as_ref().map(|object| object.clone_ref(py));
        Fields {
            topic: object(&self.topic),
            key: object(&self.key),
            value: object(&self.value),
            headers: object(&self.headers),
            error: object(&self.error),
            ..*self
        }
    }

    fn into_tuple(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let parts = (
            self.topic,
            self.partition,
            self.offset,
            self.key,
            self.value,
            self.headers,
            self.error,
            self.timestamp,
            self.latency,
            self.leader_epoch,
            self.delivery_count,
        );
        parts.into_pyobject(py)
    }
}

fn headers(py: Python<'_>, record: &Record) -> PyResult<Object> {
    let headers = record.headers(py)?;
    Ok((!headers.is_empty()).then(|| headers.into_any().unbind()))
}

fn timestamp(record: &Record) -> (i32, i64) {
    match record.timestamp_type() {
        kind @ 0.. => (kind + 1, record.timestamp()),
        _ => (NO_TIMESTAMP, -1),
    }
}

impl Message {
    /// The message of a consumed record.
    pub(crate) fn of_record(py: Python<'_>, record: Record) -> PyResult<Bound<'_, Self>> {
        let content = Mutex::new(Content::Record(record));
        untracked(py, Message { content })
    }

    /// The message of a record whose delivery ended.
    pub(crate) fn of_fields(py: Python<'_>, fields: Fields) -> PyResult<Bound<'_, Self>> {
        let has_error = fields.error.is_some();
        let content = Mutex::new(Content::Fields(fields));
        let message = untracked(py, Message { content })?;
        if has_error {
            track(&message);
        }
        Ok(message)
    }

    /// Looks at the fields. Nothing that may run Python's code is called meanwhile: it might read the same message.
    fn read<T>(&self, record: impl FnOnce(&Record) -> T, fields: impl FnOnce(&Fields) -> T) -> T {
        match &*self.content.lock() {
            Content::Record(found) => record(found),
            Content::Fields(found) => fields(found),
        }
    }

    fn object(&self, py: Python<'_>, of: fn(&Fields) -> &Object) -> Object {
        self.read(
            |_| None,
            |fields| of(fields).as_ref().map(|it| it.clone_ref(py)),
        )
    }

    fn fields(&self, py: Python<'_>) -> PyResult<Fields> {
        let record = match &*self.content.lock() {
            Content::Record(record) => record.again(),
            Content::Fields(fields) => return Ok(fields.clone_ref(py)),
        };
        Fields::of(py, &record)
    }

    /// Replaces a field. The cycle collector has to know from now on what the message holds.
    fn set(
        slf: &Bound<'_, Self>,
        value: Object,
        of: fn(&mut Fields) -> &mut Object,
    ) -> PyResult<()> {
        let mut fields = slf.get().fields(slf.py())?;
        *of(&mut fields) = value;
        slf.get().put(fields);
        track(slf);
        Ok(())
    }

    fn put(&self, fields: Fields) {
        // What was there may run Python's code when it goes: not under the lock.
        let before = std::mem::replace(&mut *self.content.lock(), Content::Fields(fields));
        drop(before);
    }
}

fn not_negative<T: PartialOrd + Default>(number: T) -> Option<T> {
    (number >= T::default()).then_some(number)
}

#[pymethods]
impl Message {
    /// A message that is usable before its `__init__`.
    #[new]
    #[pyo3(
        signature = (*_args, **_named),
        text_signature = "(topic=None, partition=-1, offset=-1001, key=None, value=None, headers=None, error=None, timestamp=None, latency=-1.0, leader_epoch=-1, delivery_count=-1)"
    )]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        Message {
            content: Mutex::new(Content::Fields(Fields::empty())),
        }
    }

    #[pyo3(signature = (
        topic = None, partition = -1, offset = NO_OFFSET, key = None, value = None, headers = None, error = None,
        timestamp = None, latency = -1.0, leader_epoch = -1, delivery_count = -1
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are confluent-kafka's")]
    fn __init__(
        &self,
        topic: Object,
        partition: i32,
        offset: i64,
        key: Object,
        value: Object,
        headers: Object,
        error: Object,
        timestamp: Option<(i32, i64)>,
        latency: f64,
        leader_epoch: i32,
        delivery_count: i64,
    ) -> PyResult<()> {
        let count = i16::try_from(delivery_count).map_err(|_| {
            PyOverflowError::new_err(format!(
                "delivery_count does not fit into 16 bits: {delivery_count}"
            ))
        })?;
        self.put(Fields {
            topic,
            partition: partition.max(-1),
            offset: not_negative(offset).unwrap_or(NO_OFFSET),
            key,
            value,
            headers,
            error,
            timestamp: timestamp.unwrap_or((NO_TIMESTAMP, 0)),
            latency: not_negative(latency).unwrap_or(-1.0),
            leader_epoch: leader_epoch.max(-1),
            delivery_count: if count <= 0 { -1 } else { count },
        });
        Ok(())
    }

    /// Return the topic.
    ///
    /// Returns: The name, or None.
    fn topic(&self, py: Python<'_>) -> Object {
        self.read(
            |record| Some(record.topic(py).into_any()),
            |fields| fields.topic.as_ref().map(|it| it.clone_ref(py)),
        )
    }

    /// Return the partition.
    ///
    /// Returns: The number, or None.
    fn partition(&self) -> Option<i32> {
        not_negative(self.read(Record::partition, |fields| fields.partition))
    }

    /// Return the offset.
    ///
    /// Returns: The offset, or None.
    fn offset(&self) -> Option<i64> {
        not_negative(self.read(Record::offset, |fields| fields.offset))
    }

    /// Return the key.
    ///
    /// Returns: The key, or None.
    fn key(&self, py: Python<'_>) -> Object {
        self.read(
            |record| record.key(py).map(|key| key.into_any().unbind()),
            |fields| fields.key.as_ref().map(|it| it.clone_ref(py)),
        )
    }

    /// Return the value.
    ///
    /// Returns: The value, the text of an error, or None.
    fn value(&self, py: Python<'_>) -> Object {
        self.read(
            |record| record.value(py).map(|value| value.into_any().unbind()),
            |fields| fields.value.as_ref().map(|it| it.clone_ref(py)),
        )
    }

    /// Return the key as a deserializing consumer set it.
    ///
    /// Returns: The key, or None.
    fn deserialized_key(&self, py: Python<'_>) -> Object {
        self.key(py)
    }

    /// Return the value as a deserializing consumer set it.
    ///
    /// Returns: The value, or None.
    fn deserialized_value(&self, py: Python<'_>) -> Object {
        self.value(py)
    }

    /// Return the headers: a list of names and values, or None.
    fn headers(&self, py: Python<'_>) -> PyResult<Object> {
        // A list may start the cycle collector, and that other code: not under the lock.
        let record = match &*self.content.lock() {
            Content::Record(record) => record.again(),
            Content::Fields(fields) => {
                return Ok(fields.headers.as_ref().map(|it| it.clone_ref(py)));
            }
        };
        headers(py, &record)
    }

    /// Return the error.
    ///
    /// Returns: A KafkaError, or None for a record.
    fn error(&self, py: Python<'_>) -> Object {
        self.object(py, |fields| &fields.error)
    }

    /// Return the timestamp.
    ///
    /// Returns: The type of the timestamp, and the timestamp in milliseconds since 1970 UTC.
    fn timestamp(&self) -> (i32, i64) {
        self.read(timestamp, |fields| fields.timestamp)
    }

    /// Return the latency.
    ///
    /// Returns: Seconds from the call of produce to the delivery, or None.
    fn latency(&self) -> Option<f64> {
        not_negative(self.read(|_| -1.0, |fields| fields.latency))
    }

    /// Return the leader epoch.
    ///
    /// Returns: The epoch of the leader that wrote the record, or None.
    fn leader_epoch(&self) -> Option<i32> {
        let epoch = self.read(
            |record| record.leader_epoch().unwrap_or(-1),
            |fields| fields.leader_epoch,
        );
        not_negative(epoch)
    }

    /// Return the delivery count.
    ///
    /// Returns: How often a share group delivered the record, or None.
    fn delivery_count(&self) -> Option<i16> {
        let count = self.read(
            |record| record.delivery_count().unwrap_or(-1),
            |fields| fields.delivery_count,
        );
        Some(count).filter(|count| *count > 0)
    }

    /// Set the topic.
    ///
    /// Args:
    ///     topic: The name.
    fn set_topic(slf: &Bound<'_, Self>, topic: Object) -> PyResult<()> {
        Self::set(slf, topic, |fields| &mut fields.topic)
    }

    /// Set the key.
    ///
    /// Args:
    ///     key: Any object.
    fn set_key(slf: &Bound<'_, Self>, key: Object) -> PyResult<()> {
        Self::set(slf, key, |fields| &mut fields.key)
    }

    /// Set the value.
    ///
    /// Args:
    ///     value: Any object.
    fn set_value(slf: &Bound<'_, Self>, value: Object) -> PyResult<()> {
        Self::set(slf, value, |fields| &mut fields.value)
    }

    /// Set the headers.
    ///
    /// Args:
    ///     headers: A list of names and values.
    fn set_headers(slf: &Bound<'_, Self>, headers: Object) -> PyResult<()> {
        Self::set(slf, headers, |fields| &mut fields.headers)
    }

    /// Set the error.
    ///
    /// Args:
    ///     error: A KafkaError.
    fn set_error(slf: &Bound<'_, Self>, error: Object) -> PyResult<()> {
        Self::set(slf, error, |fields| &mut fields.error)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.value(py) {
            Some(value) => value.bind(py).guarded_length(),
            None => Ok(0),
        }
    }

    fn __eq__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, Self>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ours = self.fields(py)?.into_tuple(py)?;
        let theirs = other.get().fields(py)?.into_tuple(py)?;
        ours.guarded_method(intern!(py, "__eq__"), (theirs,))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        Ok((py.get_type::<Message>(), self.fields(py)?.into_tuple(py)?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(content) = self.content.try_lock() else {
            return Ok(());
        };
        if let Content::Fields(fields) = &*content {
            visit.call(&fields.topic)?;
            visit.call(&fields.key)?;
            visit.call(&fields.value)?;
            visit.call(&fields.headers)?;
            visit.call(&fields.error)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.put(Fields::empty());
    }
}

/// The messages of a batch.
#[pyfunction]
pub(crate) fn messages_of<'py>(
    py: Python<'py>,
    batch: &Bound<'py, Batch>,
) -> PyResult<Vec<Bound<'py, Message>>> {
    let records = batch.get().records();
    records
        .map(|record| Message::of_record(py, record))
        .collect()
}
