//! `Producer`: for each verb the call that waits and, with a leading underscore, the one that `ottla.aio` awaits.

use std::time::Instant;

use ottla_client::{Delivery as Fate, Error, Producer as Client, Role, TrySendError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::delivery::{AsyncDeliveries, AsyncDelivery, Deliveries, Delivery, settle_callbacks};
use crate::open::{self, Closing};
use crate::operation::Operation;
use crate::outgoing::{Outgoing, Table};
use crate::runtime::{self, Native};
use crate::unasked::Asked;
use crate::values::seconds;
use crate::{errors, options, unasked, wait};

/// Sends records. Threads may share it.
///
/// Args:
///     bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
///     config: Properties by Kafka's names, such as `{"linger.ms": 5}`.
///     **properties: The same with underscores, such as `linger_ms=5`. `ottla config producer` lists them all.
///
/// Raises:
///     ConfigError: A property is unknown or has a value that is not allowed.
///
/// Nothing connects before the first call that needs a broker. Close it, or use it in a `with` statement, which does.
///
/// Example:
///     ```python
///     with ottla.Producer("localhost:9092", compression_type="zstd") as producer:
///         delivery = producer.send("flights", b"N123", key=b"JFK")
///         print(delivery.result().offset)
///     ```
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Producer {
    client: Native<Client>,
    closing: Closing,
}

impl Producer {
    /// Encodes the record into its batch, if there is room now.
    fn offer(&self, py: Python<'_>, topic: &str, record: &Outgoing) -> PyResult<Option<Fate>> {
        match self.client.get()?.try_send(topic, &record.row()) {
            Ok(fate) => Ok(Some(fate)),
            Err(TrySendError::NotReady) => Ok(None),
            Err(TrySendError::Failed(error)) => Err(errors::to_python(py, &error)),
        }
    }

    fn sending(&self, table: Table) -> PyResult<Operation> {
        let client = self.client.get()?.clone();
        Ok(Operation::new(
            async move { table.send(&client).await },
            |py, fates| Ok(Py::new(py, AsyncDeliveries::new(fates))?.into_any()),
        ))
    }
}

#[pymethods]
impl Producer {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Producer, bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::handle()?, None)
            .map_err(|error| errors::to_python(py, &error))?;
        let closing = Closing::new("Producer");
        open::remember(&client, &closing);
        Ok(Producer {
            client: Native::new("Producer", client),
            closing,
        })
    }

    /// Puts a record into its batch and returns at once; it waits only where there is no room, or the topic is not known
    /// yet, up to `max.block.ms`.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     value: bytes, a bytes-like object, or a str, which is sent as UTF-8; None is a tombstone.
    ///     key: As `value`. Records of one key go to one partition, the one that Java's client would choose.
    ///     partition: The partition's number, where neither the key nor the partitioner is to choose it.
    ///     timestamp: Milliseconds since 1970 UTC; now, if not given.
    ///     headers: Pairs of a str and a value, or a dict of them.
    ///
    /// Returns:
    ///     The record's delivery: ask it for where the record was written, or why it was not.
    ///
    /// Raises:
    ///     TypeError: A value is of another type.
    ///     ArgumentError: The topic's name is empty or longer than 249 characters.
    ///     TooLargeError: The record is larger than `max.request.size`.
    ///     KafkaError: There was no room in time; the cause is what kept the buffer full or the topic unknown.
    #[pyo3(signature = (topic, value = None, *, key = None, partition = None, timestamp = None, headers = None))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn send<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<i32>,
        timestamp: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let record = Outgoing::new(topic, value, key, partition, timestamp, headers)?;
        if let Some(fate) = self.offer(py, topic, &record)? {
            return Delivery::new(py, fate);
        }
        let fate = wait::result(py, self.client.get()?.send(topic, &record.row(), None))?;
        Delivery::new(py, fate)
    }

    /// The delivery at once where there is room, else the operation that waits for room.
    #[pyo3(signature = (topic, value, key, partition, timestamp, headers))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn _send<'py>(
        &self,
        py: Python<'py>,
        topic: String,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<i32>,
        timestamp: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let record = Outgoing::new(&topic, value, key, partition, timestamp, headers)?;
        if let Some(fate) = self.offer(py, &topic, &record)? {
            return Ok(AsyncDelivery::new(py, Asked::new(fate))?.into_any());
        }
        let client = self.client.get()?.clone();
        let operation = Operation::new(
            async move {
                let fate = client.send(&topic, &record.row(), None).await;
                fate.map(Asked::new)
            },
            |py, fate| Ok(AsyncDelivery::new(py, fate)?.into_any().unbind()),
        );
        Ok(Bound::new(py, operation)?.into_any())
    }

    /// Sends many records in one call, which costs far less than as many calls of `send`.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     values: An iterable of what `send` takes as a value, or an Arrow column of binary or text values.
    ///     keys: As many keys, each as in `send`.
    ///     partitions: As many numbers of partitions, or None where the key or the partitioner is to choose.
    ///     timestamps: As many times, in milliseconds since 1970 UTC.
    ///     headers: As many headers, each as in `send`.
    ///
    /// Returns:
    ///     The deliveries of all, in columns.
    ///
    /// Raises:
    ///     TypeError: A value is of another type; nothing was sent.
    ///     ArgumentError: A column is longer or shorter than the values, or the topic's name is empty or longer than 249
    ///         characters; nothing was sent.
    ///     KafkaError: There was no room in time for any of them.
    #[pyo3(signature = (topic, values, *, keys = None, partitions = None, timestamps = None, headers = None))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn send_many(
        &self,
        py: Python<'_>,
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Deliveries> {
        let table = Table::new(topic, values, keys, partitions, timestamps, headers)?;
        let fates = wait::result(py, table.send(self.client.get()?))?;
        Ok(Deliveries::new(fates))
    }

    #[pyo3(signature = (topic, values, keys, partitions, timestamps, headers))]
    fn _send_many(
        &self,
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let table = Table::new(topic, values, keys, partitions, timestamps, headers)?;
        self.sending(table)
    }

    /// Sends the rows of a table.
    ///
    /// Args:
    ///     topic: The topic's name; None takes each row's from the column `topic`.
    ///     data: Anything with `__arrow_c_stream__` or `__arrow_c_array__`: a pyarrow or polars table, a `Batch`. Its columns
    ///         are found by name: `value` is needed, `key`, `partition`, `timestamp` and `headers` are optional, with the types
    ///         that a `Batch` has; others are ignored.
    ///
    /// Returns:
    ///     The deliveries of all rows, in columns.
    ///
    /// Raises:
    ///     TypeError: The data is not Arrow data, or not a table.
    ///     ArgumentError: A column is missing or has another type, or a topic's name is empty or longer than 249 characters;
    ///         nothing was sent.
    ///     KafkaError: There was no room in time for any of them.
    #[pyo3(signature = (topic, data))]
    fn send_arrow(
        &self,
        py: Python<'_>,
        topic: Option<&str>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Deliveries> {
        let table = Table::from_arrow(topic, data)?;
        let fates = wait::result(py, table.send(self.client.get()?))?;
        Ok(Deliveries::new(fates))
    }

    fn _send_arrow(&self, topic: Option<&str>, data: &Bound<'_, PyAny>) -> PyResult<Operation> {
        self.sending(Table::from_arrow(topic, data)?)
    }

    /// Sends everything without lingering, and waits until each record sent so far is delivered or has failed and its
    /// callbacks have returned.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; without it, until `delivery.timeout.ms` has decided about each record.
    ///
    /// Raises:
    ///     KafkaError: Some records are undecided when the time is up; the cause is what keeps them. Or one of the records
    ///         failed whose deliveries were let go unasked; failures of others are told by their deliveries.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (timeout, begun) = (seconds(timeout)?, Instant::now());
        let client = self.client.get()?;
        wait::result(py, client.flush(timeout))?;
        settle_callbacks(py, timeout, begun)?;
        unasked::raise(py, client)
    }

    fn _flush(&self, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.flush(timeout).await.map(|()| client) },
            |py, client| unasked::raise(py, &client).map(|()| py.None()),
        ))
    }

    /// Flushes, then disconnects. Records that are left when the time is up fail. Closing twice does no harm.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; without it, `delivery.timeout.ms`.
    ///
    /// Raises:
    ///     KafkaError: Not all records were decided in time, or as with `flush`. The producer is closed all the same.
    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (timeout, begun) = (seconds(timeout)?, Instant::now());
        let client = self.client.get()?;
        let result = wait::block_on(py, client.close(timeout))?;
        self.closing.done();
        settle_callbacks(py, timeout, begun)?;
        unasked::after_close(py, client, result)
    }

    fn _close(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (slf.get().client.get()?.clone(), seconds(timeout)?);
        let this = slf.clone().unbind();
        let close = async move { Ok((client.close(timeout).await, client)) };
        Ok(Operation::new(
            close,
            move |py, (result, client): (Result<(), Error>, Client)| {
                this.get().closing.done();
                unasked::after_close(py, &client, result).map(|()| py.None())
            },
        ))
    }

    /// The numbers of a topic's partitions, in order.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     timeout: Seconds to wait at most; without it, `max.block.ms`.
    ///
    /// Raises:
    ///     KafkaError: The topic is not there, or no broker could be asked in time.
    #[pyo3(signature = (topic, timeout = None))]
    fn partitions_for(
        &self,
        py: Python<'_>,
        topic: &str,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i32>> {
        let partitions = wait::result(
            py,
            self.client.get()?.partitions_for(topic, seconds(timeout)?),
        )?;
        Ok(partitions.iter().map(|info| info.partition).collect())
    }

    fn _partitions_for(&self, topic: String, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.partitions_for(&topic, timeout).await },
            |py, partitions| {
                let partitions: Vec<i32> = partitions.iter().map(|info| info.partition).collect();
                Ok(partitions.into_pyobject(py)?.into_any().unbind())
            },
        ))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _exc_type: &Bound<'_, PyAny>,
        _exc: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py, None)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a Producer holds connections and cannot be pickled: send its options, and make the producer where it is used",
        ))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Ok(client) = self.client.get() {
            let client = client.clone();
            self.closing
                .on_drop(async move { client.close(None).await });
        }
    }
}
