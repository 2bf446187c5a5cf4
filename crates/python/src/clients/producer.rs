//! `ProducerCore`, whose methods return operations, and what the sync facade inherits for the sake of speed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_client::{
    Delivery as Fate, Finished, PreparedTransaction, Producer as Client, TopicRead, TrySendError,
};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyTuple};

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::{calls, errors, events, runtime, wait};
use crate::clients::app_metric::AppMetric;
use crate::clients::arguments::Arguments;
use crate::clients::initialized::Initialized;
use crate::clients::lifecycle::{self, Opened};
use crate::clients::rebalances::{member, reads};
use crate::clients::{metrics, options};
use crate::sending::delivery::{AsyncDelivery, Delivery};
use crate::sending::outgoing::Outgoing;
use crate::sending::partitioner::Partitioner;
use crate::sending::portions::{Sending, Source};
use crate::sending::unobserved_failures;
use crate::sending::unobserved_failures::Asked;
use crate::values::numbers::{PartitionNumber, Timeout, seconds};
use crate::values::partitions::{group_offsets, numbers};

/// The core of both facades of a producer. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct ProducerCore {
    client: Opened<Client>,
    partitioner: Option<Arc<Partitioner>>,
}

impl ProducerCore {
    /// A handle to the client.
    pub(crate) fn client(&self) -> PyResult<Client> {
        self.client.get().cloned()
    }

    /// Encodes the record into its batch, if there is space now.
    fn offer(&self, py: Python<'_>, topic: &str, record: &Outgoing) -> PyResult<Option<Fate>> {
        match self.client.get()?.try_send(topic, &record.row()) {
            Ok(fate) => Ok(Some(fate)),
            Err(TrySendError::NotReady) => Ok(None),
            Err(TrySendError::Failed(error)) => Err(errors::to_python(py, &error)),
        }
    }

    fn sending(&self, py: Python<'_>, source: Source) -> PyResult<Operation> {
        let client = self.client.get()?.clone();
        Sending::start(py, client, self.partitioner.clone(), source)
    }

    /// Lets the caller's partitioner place a record that names no partition. False if the topic's partitions are not known.
    fn place(&self, py: Python<'_>, topic: &str, record: &mut Outgoing) -> PyResult<bool> {
        let partitioner = self.partitioner.as_ref();
        let Some(partitioner) = partitioner.filter(|_| record.partition().is_none()) else {
            return Ok(true);
        };
        let Some(count) = self.client.get()?.partition_count(topic) else {
            return Ok(false);
        };
        let key = std::iter::once(record.key());
        let placed = partitioner.place(py, topic, key, count)?;
        record.set_partition(placed.first().copied().flatten());
        Ok(true)
    }

    /// Lets the caller's partitioner place a record, once the topic is known. Gives the time that is left for other waits.
    fn place_in_time(
        &self,
        py: Python<'_>,
        topic: &str,
        record: &mut Outgoing,
    ) -> PyResult<Duration> {
        let client = self.client.get()?;
        let deadline = Instant::now() + client.config().max_block;
        let left = || deadline.saturating_duration_since(Instant::now());
        while !self.place(py, topic, record)? {
            wait::result(py, client.ready(topic, None, 0, Some(left())))?;
        }
        Ok(left())
    }

    /// The delivery at once where there is space, else the operation that waits for what is
    /// missing; its value may be another one. All waits end with `deadline`, if there was one
    /// before.
    fn send_by(
        slf: &Bound<'_, Self>,
        topic: String,
        mut record: Outgoing,
        deadline: Option<Instant>,
    ) -> PyResult<Py<PyAny>> {
        let (py, core) = (slf.py(), slf.get());
        let client = core.client.get()?.clone();
        if !core.place(py, &topic, &mut record)? {
            let again = slf.clone().unbind();
            let deadline = deadline.unwrap_or_else(|| Instant::now() + client.config().max_block);
            let operation = Operation::new(
                async move {
                    let left = deadline.saturating_duration_since(Instant::now());
                    client.ready(&topic, None, 0, Some(left)).await?;
                    Ok((topic, record))
                },
                move |py, (topic, record)| {
                    Self::send_by(again.bind(py), topic, record, Some(deadline))
                },
            );
            return Ok(Py::new(py, operation)?.into_any());
        }
        if let Some(fate) = core.offer(py, &topic, &record)? {
            let delivery = AsyncDelivery::new(py, Asked::new(fate))?;
            return Ok(delivery.into_any().unbind());
        }
        let operation = Operation::new(
            async move {
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let fate = client.send(&topic, &record.row(), left).await;
                fate.map(Asked::new)
            },
            |py, fate| Ok(AsyncDelivery::new(py, fate)?.into_any().unbind()),
        );
        Ok(Py::new(py, operation)?.into_any())
    }
}

#[pymethods]
impl ProducerCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (config, partitioner) = options::parse_producer(bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::threads()?, events::queue(py)?)
            .map_err(|error| errors::to_python(py, &error))?;
        let client = Opened::new(client);
        lifecycle::remember(&client)?;
        Ok(ProducerCore {
            client,
            partitioner: partitioner.map(Partitioner::new),
        })
    }

    /// The delivery at once where there is space, else an operation whose value is the delivery or
    /// the next operation.
    #[pyo3(signature = (topic, value, key, partition, timestamp, headers))]
    fn send(
        slf: &Bound<'_, Self>,
        topic: String,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<PartitionNumber>,
        timestamp: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let record = Outgoing::new(&topic, value, key, partition, timestamp, headers)?;
        Self::send_by(slf, topic, record, None)
    }

    /// An operation whose value is the deliveries or the next operation.
    #[pyo3(signature = (topic, values, keys, partitions, timestamps, headers))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of records")]
    fn send_many(
        &self,
        py: Python<'_>,
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let source = Source::many(topic, values, keys, partitions, timestamps, headers)?;
        self.sending(py, source)
    }

    /// As `send_many`.
    #[pyo3(signature = (topic, data))]
    fn send_arrow(
        &self,
        py: Python<'_>,
        topic: Option<&str>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Operation> {
        self.sending(py, Source::arrow(topic, data)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.partitioner
            .as_ref()
            .map_or(Ok(()), |partitioner| partitioner.traverse(&visit))
    }

    /// Allowed when closed too, since there is nothing left then.
    #[pyo3(signature = (timeout))]
    fn flush(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.even_closed()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.flush(timeout).await.map(|()| client) },
            |py, client| unobserved_failures::raise(py, &client).map(|()| py.None()),
        ))
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.close(timeout, unobserved_failures::after_close)
    }

    #[pyo3(signature = (timeout, keep_prepared))]
    fn init_transactions(
        &self,
        timeout: Option<Timeout>,
        keep_prepared: bool,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move {
                if keep_prepared {
                    client.init_keeping_prepared(timeout).await
                } else {
                    client.init_transactions(timeout).await
                }
            },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (timeout))]
    fn prepare_transaction(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.prepare_transaction(timeout).await },
            |py, prepared| {
                static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let class = calls::class(&CLASS, py, "ottla._two_phase", "PreparedTransaction")?;
                let token = class.guarded_call((prepared.producer_id(), prepared.epoch()))?;
                Ok(token.unbind())
            },
        ))
    }

    /// True: it was committed; false: what was prepared was aborted; none: nothing was open.
    #[pyo3(signature = (producer_id, epoch, commit, timeout))]
    fn complete_transaction(
        &self,
        py: Python<'_>,
        producer_id: i64,
        epoch: i16,
        commit: bool,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let prepared = PreparedTransaction::new(producer_id, epoch)
            .map_err(|error| errors::to_python(py, &error))?;
        Ok(Operation::new(
            async move { client.complete_transaction(prepared, commit, timeout).await },
            |py, finished| {
                let committed = match finished {
                    Finished::Committed => Some(true),
                    Finished::Aborted => Some(false),
                    _ => None,
                };
                Ok(committed.into_pyobject(py)?.to_owned().into_any().unbind())
            },
        ))
    }

    #[pyo3(signature = (timeout))]
    fn begin_transaction(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.begin_transaction(timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    fn is_transaction_settled(&self) -> PyResult<bool> {
        Ok(self.client.get()?.is_transaction_settled())
    }

    #[pyo3(signature = (offsets, group, timeout))]
    fn send_offsets(
        &self,
        offsets: &Bound<'_, PyAny>,
        group: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let mut offsets = group_offsets(offsets)?;
        TopicRead::note_in(&mut offsets, &reads(group)?);
        let group = member(group)?;
        Ok(Operation::new(
            async move { client.send_offsets(group, offsets, timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (timeout))]
    fn commit_transaction(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.commit_transaction(timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (timeout))]
    fn abort_transaction(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.abort_transaction(timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, topic: String, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.partitions_for(&topic, timeout).await },
            numbers,
        ))
    }

    /// All metrics at this moment. `even_closed` is for whoever reports the last ones.
    #[pyo3(signature = (*, even_closed = false))]
    fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        self.client.metrics(py, even_closed)
    }

    /// Pushes a metric of the program with the client's own.
    #[pyo3(signature = (metric, /))]
    fn register_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.register_metric(py, metric)
    }

    /// No longer pushes the metric of this name and these tags.
    #[pyo3(signature = (metric, /))]
    fn unregister_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.unregister_metric(py, metric)
    }

    /// The id that brokers know this client by.
    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.instance_id(timeout)
    }

    /// Seconds between two calls of `on_metrics`.
    fn metrics_interval(&self) -> PyResult<f64> {
        self.client.metrics_interval()
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    fn interrupt_timeout(&self) -> PyResult<f64> {
        self.client.interrupt_timeout()
    }

    /// Raises if the client can no longer be used.
    fn check(&self) -> PyResult<()> {
        self.client.check()
    }
}

/// The compiled half of `ottla.Producer`: what is called for each record.
#[pyclass(frozen, subclass, module = "ottla._ottla", weakref)]
pub(crate) struct SyncProducer {
    core: Initialized<ProducerCore>,
}

#[pymethods]
impl SyncProducer {
    #[new]
    #[pyo3(
        signature = (*_args, **_properties),
        text_signature = "(bootstrap_servers=None, *, config=None, on_metrics=None, **properties)"
    )]
    fn new(_args: &Bound<'_, PyTuple>, _properties: Option<&Bound<'_, PyDict>>) -> Self {
        SyncProducer {
            core: Initialized::default(),
        }
    }

    #[pyo3(signature = (*positional, **properties))]
    fn __init__<'py>(
        &self,
        py: Python<'py>,
        positional: &Bound<'py, PyTuple>,
        properties: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let example = "Producer(\"host:9092\"), and the topic in send(topic, value)";
        let given = Arguments::new("Producer", example, positional, properties)?;
        let on_metrics = given.take("on_metrics")?;
        metrics::check_callback(py, on_metrics.as_ref())?;
        let servers = given.bootstrap_servers.as_ref();
        let config = given.config()?;
        let core = ProducerCore::new(py, servers, config.as_ref(), Some(&given.properties))?;
        let core = Bound::new(py, core)?;
        let reports = metrics::report(&core, on_metrics.as_ref())?;
        self.core.set(core, reports)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    #[getter]
    fn _core(&self, py: Python<'_>) -> PyResult<Py<ProducerCore>> {
        Ok(self.core.get()?.clone_ref(py))
    }

    /// Put a record into its batch and return at once.
    ///
    /// It waits only while the buffer is full, or the topic or the partition is not known yet, up to `max.block.ms`.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     value: bytes, a bytes-like object, or a str, which is sent as UTF-8; None is a tombstone.
    ///     key: As `value`. Records with the same key go to the same partition; unless `partitioner` is set, the one
    ///         that Java's client chooses.
    ///     partition: The partition's number; without it, the key or the partitioner chooses.
    ///     timestamp: Milliseconds since 1970 UTC, or a datetime with a time zone; without it, the current time.
    ///     headers: Pairs of a str and a value, or a dict of them.
    ///
    /// Returns:
    ///     The record's delivery, a handle to its outcome.
    ///
    /// Raises:
    ///     TypeError: A value is of another type.
    ///     ArgumentError: The topic's name is empty or longer than 249 characters, or the timestamp is negative or a
    ///         datetime without a time zone.
    ///     TooLargeError: The record is larger than `max.request.size`.
    ///     ClosedError: The producer is closed.
    ///     KafkaError: The buffer stayed full or the topic unknown until the time was up; the cause names the reason.
    #[pyo3(
        signature = (topic, value = None, *positional, key = None, partition = None, timestamp = None, headers = None),
        text_signature = "($self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn send<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        value: Option<Bound<'_, PyAny>>,
        positional: &Bound<'_, PyTuple>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<PartitionNumber>,
        timestamp: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        if !positional.is_empty() {
            return Err(PyTypeError::new_err(
                "send takes only the topic and the value by position; name the others: send(topic, value, key=..., \
                 partition=...)",
            ));
        }
        let mut record = Outgoing::new(topic, value, key, partition, timestamp, headers)?;
        let core = self.core.get()?.get();
        let left = match &core.partitioner {
            Some(_) => Some(core.place_in_time(py, topic, &mut record)?),
            None => None,
        };
        if let Some(fate) = core.offer(py, topic, &record)? {
            return Delivery::new(py, fate);
        }
        let fate = wait::result(py, core.client.get()?.send(topic, &record.row(), left))?;
        Delivery::new(py, fate)
    }
}
