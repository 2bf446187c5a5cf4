//! `ConsumerCore`, whose methods return operations, and what the sync facade inherits for the sake of speed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ottla_client::{Consumer as Client, LastCommit, Polled, Selection, Start};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::{calls, errors, events, runtime, wait};
use crate::clients::app_metric::AppMetric;
use crate::clients::arguments::Arguments;
use crate::clients::assignors::{AssignorQuestion, Assignors};
use crate::clients::initialized::Initialized;
use crate::clients::lifecycle::{self, Opened};
use crate::clients::rebalances::{Callables, Kind, Listener};
use crate::clients::{metrics, options, rebalances};
use crate::records::batch::{Batch, Record};
use crate::records::decoder::Decoder;
use crate::values::numbers::{MaxRecords, Timeout, seconds};
use crate::values::partitions::{
    Named, Partition, all_named, committed, group_offsets, numbers, offset_and_epoch, offsets,
    pairs, times, timestamped, topic_partitions,
};
use crate::values::scalars::names;

/// The core of both facades of a consumer. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct ConsumerCore {
    client: Opened<Client<Decoder>>,
    listeners: Mutex<Callables>,
    assignors: Mutex<Assignors>,
    /// The thread that calls a listener.
    telling: Mutex<Option<ThreadId>>,
}

impl ConsumerCore {
    /// The next record that the last poll of an iteration brought, if there is one.
    fn next(&self) -> PyResult<Option<Record>> {
        Ok(self.client.get()?.next_record().map(Record::new))
    }

    /// How long a poll waits.
    fn limit(&self, timeout: Option<Timeout>) -> PyResult<Duration> {
        let default = self.client.get()?.config().default_api_timeout;
        Ok(seconds(timeout)?.unwrap_or(default))
    }

    fn offsets(
        &self,
        partitions: &Bound<'_, PyAny>,
        end: bool,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let partitions = pairs(partitions)?;
        let find = async move {
            let found = if end {
                client.end_offsets(&partitions, timeout).await?
            } else {
                client.beginning_offsets(&partitions, timeout).await?
            };
            Ok(partitions.into_iter().zip(found).collect())
        };
        Ok(Operation::new(find, offsets))
    }
}

#[pymethods]
impl ConsumerCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, topics = None, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        topics: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (config, assignors) = options::parse_consumer(bootstrap_servers, config, properties)?;
        let is_pattern = topics.map_or(Ok(false), rebalances::is_for_coordinator)?;
        if is_pattern {
            return Err(errors::argument(
                "topics takes names: call subscribe(SubscriptionPattern(...)) instead",
            ));
        }
        let topics = topics.map_or(Ok(Vec::new()), names)?;
        let decoder = Decoder::new(&config);
        let client = Client::new(config, decoder, runtime::threads()?, events::queue(py)?)
            .map_err(|error| errors::to_python(py, &error))?;
        let topics = topics.iter().map(|topic| topic.as_str().into());
        if client.config().group_id.is_none() {
            client.follow(topics.collect());
        } else if topics.len() > 0 {
            let selection = Selection::Names(topics.collect());
            client
                .subscribe(selection, ottla_client::Listeners::default())
                .map_err(|error| errors::to_python(py, &error))?;
        }
        Ok(ConsumerCore {
            client: Opened::new(client),
            listeners: Mutex::default(),
            assignors: Mutex::new(assignors),
            telling: Mutex::default(),
        })
    }

    /// Keeps polls brief, for a thread that serves an event loop, too: large records are decoded by another one.
    fn poll_briefly(&self) -> PyResult<()> {
        self.client.get()?.poll_briefly();
        Ok(())
    }

    #[pyo3(signature = (topics, *, on_assign, on_revoke, on_lost))]
    fn subscribe(
        &self,
        py: Python<'_>,
        topics: &Bound<'_, PyAny>,
        on_assign: Option<&Bound<'_, PyAny>>,
        on_revoke: Option<&Bound<'_, PyAny>>,
        on_lost: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let client = self.client.get()?;
        let callables = Callables::new(on_assign, on_revoke, on_lost)?;
        client
            .subscribe(rebalances::selection(topics)?, callables.wanted())
            .map_err(|error| errors::to_python(py, &error))?;
        let before = std::mem::replace(&mut *self.listeners.lock(), callables);
        drop(before);
        Ok(())
    }

    /// Whether listeners have to be called for a rebalance, and this is to be called again.
    #[pyo3(signature = (timeout))]
    fn unsubscribe(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let unsubscribe = async move { client.unsubscribe(timeout).await };
        Ok(Operation::new(unsubscribe, rebalances::must_tell))
    }

    /// Whether listeners have to be called for a rebalance, and this is to be called again.
    /// `commit` selects the last commit: of what was returned, or of what earlier polls returned,
    /// or none.
    #[pyo3(signature = (timeout, commit))]
    fn leave(&self, timeout: Option<Timeout>, commit: &str) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let last_commit = match commit {
            "returned" => LastCommit::Returned,
            "earlier" => LastCommit::Earlier,
            _ => LastCommit::Nothing,
        };
        let leave = async move { client.leave(timeout, last_commit).await };
        Ok(Operation::new(leave, rebalances::must_tell))
    }

    /// What assignors have to be asked, and the assignors by their names.
    fn take_question<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(AssignorQuestion, Bound<'py, PyDict>)>> {
        let client = self.client.get()?;
        let Some(question) = client.take_question() else {
            return Ok(None);
        };
        let question = AssignorQuestion::new(client.clone(), question);
        let assignors = self.assignors.lock().by_name(py)?;
        Ok(Some((question, assignors)))
    }

    /// The listener that has to be called, and its partitions; `told_rebalance` is to follow.
    fn take_rebalance(&self, py: Python<'_>) -> PyResult<Option<Listener>> {
        let Some(change) = self.client.get()?.take_rebalance() else {
            return Ok(None);
        };
        let (kind, partitions) = Kind::of(change);
        let callable = self.listeners.lock().get(py, kind);
        match (callable, topic_partitions(py, &partitions)) {
            (Some(callable), Ok(partitions)) => Ok(Some((callable, partitions))),
            (_, result) => {
                self.told_rebalance()?;
                result.map(|_| None)
            }
        }
    }

    /// The listener of `take_rebalance` was called.
    fn told_rebalance(&self) -> PyResult<()> {
        self.client.even_closed()?.told_rebalance();
        Ok(())
    }

    #[pyo3(signature = (offsets, timeout))]
    fn commit(
        &self,
        offsets: Option<&Bound<'_, PyAny>>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let offsets = offsets.map(group_offsets).transpose()?;
        Ok(Operation::new(
            async move { client.commit(offsets, timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (offsets))]
    fn commit_later(&self, py: Python<'_>, offsets: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let client = self.client.get()?;
        client
            .commit_later(offsets.map(group_offsets).transpose()?)
            .map_err(|error| errors::to_python(py, &error))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn committed(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let partitions = pairs(partitions)?;
        let find = async move {
            let found = client.committed(partitions.clone(), timeout).await?;
            Ok(partitions.into_iter().zip(found).collect())
        };
        Ok(Operation::new(find, committed))
    }

    /// The offsets, each with the leader epoch of the record before it as far as it is known.
    fn with_epochs(&self, py: Python<'_>, offsets: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mut offsets = group_offsets(offsets)?;
        self.client.get()?.note_epochs(&mut offsets);
        let offsets = offsets.into_iter();
        let named = offsets.map(|it| ((it.topic.clone(), it.partition), Some(it)));
        committed(py, named.collect())
    }

    /// The consumer's id in its group.
    fn member_id(&self) -> PyResult<Option<String>> {
        Ok(self.client.get()?.member_id().map(|id| id.to_string()))
    }

    /// Who the consumer is in its group.
    fn group_metadata(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let client = self.client.get()?;
        let found = client.group_metadata();
        found
            .map(|found| rebalances::metadata(py, &found, &client.topics_read()))
            .transpose()
    }

    /// Seconds that a call may take without a timeout of its own.
    fn api_timeout(&self) -> PyResult<f64> {
        let client = self.client.even_closed()?;
        Ok(client.config().default_api_timeout.as_secs_f64())
    }

    /// Seconds that a listener may take.
    fn listener_timeout(&self) -> PyResult<f64> {
        let client = self.client.even_closed()?;
        Ok(client.config().max_poll_interval.as_secs_f64())
    }

    /// Seconds that an assignor may take: the group waits for its result as for a member that
    /// joins.
    fn assignor_timeout(&self) -> PyResult<f64> {
        Ok(self.listener_timeout()? / 2.0)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(listeners) = self.listeners.try_lock() {
            listeners.traverse(&visit)?;
        }
        match self.assignors.try_lock() {
            Some(assignors) => assignors.traverse(&visit),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let listeners = self
            .listeners
            .try_lock()
            .map(|mut it| std::mem::take(&mut *it));
        drop(listeners);
        let assignors = self
            .assignors
            .try_lock()
            .map(|mut it| std::mem::take(&mut *it));
        drop(assignors);
    }

    fn assign(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let client = self.client.get()?;
        let start = |named: Named| {
            let start = named.offset.map_or(Start::Reset, Start::Offset);
            (named.topic, named.partition, start)
        };
        client
            .assign(all_named(partitions)?.into_iter().map(start))
            .map_err(|error| errors::to_python(py, &error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        topic_partitions(py, &self.client.get()?.assignment())
    }

    fn paused(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        topic_partitions(py, &self.client.get()?.paused())
    }

    #[pyo3(signature = (partition, offset))]
    fn seek(
        &self,
        py: Python<'_>,
        partition: Named,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let client = self.client.get()?;
        let given = offset.map(|given| offset_and_epoch(&partition.topic, given));
        let start = match (given.transpose()?, partition.offset) {
            (Some((offset, epoch @ 0..)), _) => Start::After(offset, epoch),
            (Some((offset, _)), _) | (None, Some(offset)) => Start::Offset(offset),
            (None, None) => {
                return Err(PyTypeError::new_err(
                    "seek needs an offset: seek(TopicPartition(topic, partition), offset)",
                ));
            }
        };
        client
            .seek(&partition.topic, partition.partition, start)
            .map_err(|error| errors::to_python(py, &error))
    }

    /// Goes to the first or after the last record; without partitions, in all.
    #[pyo3(signature = (partitions, *, end))]
    fn seek_to(
        &self,
        py: Python<'_>,
        partitions: Option<&Bound<'_, PyAny>>,
        end: bool,
    ) -> PyResult<()> {
        let client = self.client.get()?;
        let to = if end { Start::End } else { Start::Beginning };
        let sought = match partitions.map(pairs).transpose()? {
            None => client.seek_all(to),
            Some(partitions) => partitions
                .iter()
                .try_for_each(|(topic, partition)| client.seek(topic, *partition, to)),
        };
        sought.map_err(|error| errors::to_python(py, &error))
    }

    fn pause(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let client = self.client.get()?;
        client
            .pause(&pairs(partitions)?)
            .map_err(|error| errors::to_python(py, &error))
    }

    fn resume(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let client = self.client.get()?;
        client
            .resume(&pairs(partitions)?)
            .map_err(|error| errors::to_python(py, &error))
    }

    /// A batch; None if listeners have to be called for a rebalance first.
    #[pyo3(signature = (timeout, max_records))]
    fn poll(
        &self,
        timeout: Option<Timeout>,
        max_records: Option<MaxRecords>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), self.limit(timeout)?);
        let most = max_records.map(|MaxRecords(most)| most);
        Ok(Operation::new(
            async move { client.poll(timeout, most).await },
            |py, polled| match polled {
                Polled::Done(chunks) => Ok(Py::new(py, Batch::new(chunks))?.into_any()),
                Polled::Rebalance => Ok(py.None()),
            },
        ))
    }

    /// The next records that the last `poll_to_iterate` brought, at most `most`.
    fn run(slf: Bound<'_, Self>, most: usize) -> Run {
        Run {
            core: slf.unbind(),
            left: AtomicUsize::new(most),
        }
    }

    /// Polls for `run`. Whether listeners have to be called for a rebalance first.
    #[pyo3(signature = (timeout))]
    fn poll_to_iterate(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), self.limit(timeout)?);
        Ok(Operation::new(
            async move { client.poll_to_iterate(timeout).await },
            rebalances::must_tell,
        ))
    }

    #[pyo3(signature = (partition, timeout))]
    fn position(&self, partition: Named, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let (topic, partition) = partition.partition();
        Ok(Operation::new(
            async move { client.position(&topic, partition, timeout).await },
            |py, offset| Ok(offset.into_pyobject(py)?.into_any().unbind()),
        ))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn beginning_offsets(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        self.offsets(partitions, false, timeout)
    }

    #[pyo3(signature = (partitions, timeout))]
    fn end_offsets(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        self.offsets(partitions, true, timeout)
    }

    #[pyo3(signature = (timestamps, timeout))]
    fn offsets_for_times(
        &self,
        timestamps: &Bound<'_, PyAny>,
        timeout: Option<Timeout>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        let wanted = timestamped(timestamps)?;
        let find = async move {
            let found = client.offsets_for_times(&wanted, timeout).await?;
            let partitions = wanted
                .into_iter()
                .map(|(topic, partition, _)| (topic, partition));
            Ok(partitions.zip(found).collect::<Vec<(Partition, _)>>())
        };
        Ok(Operation::new(find, times))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, topic: String, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.partitions_for(&topic, timeout).await },
            numbers,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn lag(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.lag(timeout).await },
            offsets,
        ))
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.close(timeout, lifecycle::closed)
    }

    /// Whether this thread calls a listener at the moment.
    fn is_telling(&self) -> bool {
        *self.telling.lock() == Some(thread::current().id())
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

/// The compiled half of `ottla.Consumer`: what is called for each batch, and iteration.
#[pyclass(frozen, subclass, module = "ottla._ottla", weakref)]
pub(crate) struct SyncConsumer {
    core: Initialized<ConsumerCore>,
}

#[pymethods]
impl SyncConsumer {
    #[new]
    #[pyo3(
        signature = (*_args, **_properties),
        text_signature = "(bootstrap_servers=None, *, topics=None, config=None, on_metrics=None, **properties)"
    )]
    fn new(_args: &Bound<'_, PyTuple>, _properties: Option<&Bound<'_, PyDict>>) -> Self {
        SyncConsumer {
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
        let example = "Consumer(\"host:9092\", topics=[\"flights\"])";
        let given = Arguments::new("Consumer", example, positional, properties)?;
        let on_metrics = given.take("on_metrics")?;
        metrics::check_callback(py, on_metrics.as_ref())?;
        let core = ConsumerCore::new(
            py,
            given.bootstrap_servers.as_ref(),
            given.take("topics")?.as_ref(),
            given.config()?.as_ref(),
            Some(&given.properties),
        )?;
        let core = Bound::new(py, core)?;
        let reports = metrics::report(&core, on_metrics.as_ref())?;
        self.core.set(core, reports)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    #[getter]
    fn _core(&self, py: Python<'_>) -> PyResult<Py<ConsumerCore>> {
        Ok(self.core.get()?.clone_ref(py))
    }

    /// Wait for records, and return as soon as there is one.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.
    ///     max_records: The most records to return; without it, `max.poll.records`.
    ///
    /// Returns:
    ///     The records, as columns; an empty batch if there were none. During an outage it is empty, too.
    ///
    /// Raises:
    ///     UnreachableError: No broker of the cluster was ever reached, and each address failed or timed out.
    ///     AuthenticationError: A broker does not accept the client: the leader of a partition, if not all of them.
    ///     AuthorizationError: The client may not read a topic, or not join the group.
    ///     FencedError: Another member of the group has the same `group.instance.id`.
    ///     OffsetOutOfRangeError: A position is not in the log, and `auto.offset.reset` is `none`; a
    ///         `LogTruncatedError` if records were read there that are lost.
    ///     NotFoundError: A topic does not exist.
    ///     CorruptRecordError: Records do not decode. The records before them were returned first. The partition stays
    ///         there until a seek to the error's `next_offset`; other partitions are read on. It is raised again when
    ///         no other partition has records in time.
    ///     ClosedError: The consumer is closed.
    #[pyo3(
        signature = (timeout = Some(Timeout(1.0)), *, max_records = None),
        text_signature = "($self, timeout=1.0, *, max_records=None)"
    )]
    fn poll(
        &self,
        py: Python<'_>,
        timeout: Option<Timeout>,
        max_records: Option<MaxRecords>,
    ) -> PyResult<Batch> {
        poll(py, self.core.get()?.get(), timeout, max_records)
    }

    /// Calls the listener that a rebalance waits for.
    fn _tell(&self, py: Python<'_>) -> PyResult<()> {
        tell(py, self.core.get()?.get())
    }

    /// Iterate over batches without end; none of them is empty.
    ///
    /// It waits while there are no records.
    ///
    /// Yields:
    ///     Batches of at least one record and at most `max.poll.records`.
    ///
    /// Raises:
    ///     KafkaError: As `poll` raises it; the next loop continues.
    fn batches(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches {
            core: self.core.get()?.clone_ref(py),
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Records> {
        Ok(Records {
            core: self.core.get()?.clone_ref(py),
        })
    }
}

fn poll(
    py: Python<'_>,
    core: &ConsumerCore,
    timeout: Option<Timeout>,
    max_records: Option<MaxRecords>,
) -> PyResult<Batch> {
    let client = core.client.get()?;
    let (limit, most) = (
        core.limit(timeout)?,
        max_records.map(|MaxRecords(most)| most),
    );
    let mut left = limit;
    let begun = Instant::now();
    loop {
        match wait::result(py, client.poll(left, most))? {
            Polled::Done(chunks) => return Ok(Batch::new(chunks)),
            Polled::Rebalance => {
                tell(py, core)?;
                left = limit.saturating_sub(begun.elapsed());
            }
        }
    }
}

/// Calls the listener that a rebalance waits for, or an assignor. What it raises is raised here,
/// once, and the rebalance goes on.
fn tell(py: Python<'_>, core: &ConsumerCore) -> PyResult<()> {
    static ANSWER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some((question, assignors)) = core.take_question(py)? {
        let answer = calls::class(&ANSWER, py, "ottla._assignors", "answer")?;
        let limit = core.assignor_timeout()?;
        return answer.guarded_call((question, assignors, limit)).map(drop);
    }
    let Some((listener, partitions)) = core.take_rebalance(py)? else {
        return Ok(());
    };
    *core.telling.lock() = Some(thread::current().id());
    let result = listener.bind(py).guarded_call((partitions,));
    *core.telling.lock() = None;
    core.told_rebalance()?;
    result.map(drop)
}

/// Records that are there, up to a maximum. It counts them here, since Python would take longer to
/// count than to get them.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Run {
    core: Py<ConsumerCore>,
    left: AtomicUsize,
}

#[pymethods]
impl Run {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<Record>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Ok(None);
        }
        let record = self.core.get().next()?;
        if record.is_some() {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        Ok(record)
    }

    /// Whether as many records came as were requested.
    fn is_full(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Records without end; it waits while there are no records.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Records {
    core: Py<ConsumerCore>,
}

#[pymethods]
impl Records {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Record> {
        let core = self.core.get();
        loop {
            if let Some(record) = core.next()? {
                return Ok(record);
            }
            let client = core.client.get()?;
            let polled = wait::result(py, client.poll_to_iterate(core.limit(None)?))?;
            if let Polled::Rebalance = polled {
                tell(py, core)?;
            }
        }
    }
}

/// Batches without end, none of them empty; it waits while there are no records.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Batches {
    core: Py<ConsumerCore>,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Batch> {
        loop {
            let batch = poll(py, self.core.get(), None, None)?;
            if batch.length() > 0 {
                return Ok(batch);
            }
        }
    }
}
