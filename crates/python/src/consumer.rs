//! `Consumer`: for each verb the call that waits and, with a leading underscore, the one that `ottla.aio` awaits.

use std::sync::Arc;
use std::time::Duration;

use ottla_client::consumer::OffsetAndTimestamp;
use ottla_client::{Chunk, Consumer as Client, Decode, Error, Fetched, Kind, Role, Start};
use ottla_columnar::{Columns, FetchedPartition, Memory};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyString};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use crate::batch::{Batch, Cursor, Record};
use crate::open::Closing;
use crate::operation::Operation;
use crate::runtime::{self, Native};
use crate::values::seconds;
use crate::{errors, memory, options, wait};

type Partition = (Arc<str>, i32);

/// The least time to find the partitions of the constructor's topics, once, however short the first poll is meant to be.
const LOOKUP: Duration = Duration::from_secs(1);

/// Decodes to Arrow columns, with what the consumer's settings say about it.
struct Decoder {
    read_committed: bool,
    check_crcs: bool,
    decompress_limit: usize,
    memory: Memory,
}

/// Columns, as the client hands them out.
struct Decoded(Columns);

impl Decode for Decoder {
    type Chunk = Decoded;

    fn decode(&self, fetched: &Fetched) -> Result<Decoded, Error> {
        let source = FetchedPartition {
            topic: Arc::clone(&fetched.topic),
            partition: fetched.partition,
            fetch_offset: fetched.fetch_offset,
            aborted: fetched.aborted.to_vec(),
            read_committed: self.read_committed,
            check_crcs: self.check_crcs,
            decompress_limit: self.decompress_limit,
        };
        ottla_columnar::decode(fetched.records.clone(), &source, &self.memory)
            .map(Decoded)
            .map_err(|error| fetched.corrupt(error))
    }

    fn rest(&self) {
        self.memory.clear();
    }
}

impl Chunk for Decoded {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn split_to(&mut self, n: usize) -> Self {
        Decoded(self.0.split_to(n))
    }

    fn next_offset(&self) -> i64 {
        self.0.next_offset()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// What the calls of one consumer share. Cloned into those that `ottla.aio` awaits.
#[derive(Clone)]
struct Reader {
    client: Client<Decoder>,
    /// Topics given to the constructor: their partitions are found out by the first call that waits.
    topics: Arc<Mutex<Vec<String>>>,
    /// Where iteration over records stands.
    iteration: Arc<Mutex<Option<Cursor>>>,
    /// Held from before a poll until its records are where they belong, so that no other poll comes between.
    turn: Turn,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// What an iteration polled, and the turn to put it where the next records are taken from.
type Polled = Option<(OwnedMutexGuard<()>, Vec<Decoded>)>;

impl Reader {
    /// Assigns all partitions of the topics given to the constructor, unless that was done.
    async fn assign_topics(&self, timeout: Duration) -> Result<(), Error> {
        let topics = self.topics.lock().clone();
        if topics.is_empty() {
            return Ok(());
        }
        let mut partitions = Vec::new();
        for topic in &topics {
            let name: Arc<str> = topic.as_str().into();
            let found = self.client.partitions_for(topic, Some(timeout)).await?;
            partitions.extend(
                found
                    .iter()
                    .map(|info| (Arc::clone(&name), info.partition, Start::Reset)),
            );
        }
        let mut pending = self.topics.lock();
        // A call to assign() meanwhile has replaced them.
        if *pending == topics {
            self.client.assign(partitions)?;
            pending.clear();
        }
        Ok(())
    }

    /// Goes back to the first record that an iteration over records took from the client and did not hand out.
    fn give_back(&self) -> Result<(), Error> {
        let Some(iteration) = self.iteration.lock().take() else {
            return Ok(());
        };
        // Backwards, so that of several runs of a partition the first one is what stays.
        for (topic, partition, offset) in iteration.unread().into_iter().rev() {
            match self.client.seek(&topic, partition, Start::Offset(offset)) {
                // No longer assigned, so there is nothing to go back to.
                Err(error) if error.kind() == Kind::Argument => {}
                result => result?,
            }
        }
        Ok(())
    }

    async fn poll(
        &self,
        timeout: Option<Duration>,
        max_records: Option<usize>,
    ) -> Result<Vec<Decoded>, Error> {
        let deadline = Instant::now() + self.limit(timeout);
        let Ok(_turn) = timeout_at(deadline, self.turn.lock()).await else {
            return Ok(Vec::new());
        };
        self.poll_in_turn(deadline, max_records).await
    }

    async fn poll_in_turn(
        &self,
        deadline: Instant,
        max_records: Option<usize>,
    ) -> Result<Vec<Decoded>, Error> {
        self.give_back()?;
        let left = || deadline.saturating_duration_since(Instant::now());
        self.assign_topics(left().max(LOOKUP)).await?;
        self.client.poll(left(), max_records).await
    }

    /// Polls for an iteration over records, unless another that shares it did so meanwhile.
    async fn poll_to_iterate(&self) -> Result<Polled, Error> {
        let deadline = Instant::now() + self.limit(None);
        let turn = Arc::clone(&self.turn).lock_owned();
        let Ok(turn) = timeout_at(deadline, turn).await else {
            return Ok(None);
        };
        let unread = |iteration: &Cursor| !iteration.unread().is_empty();
        if self.iteration.lock().as_ref().is_some_and(unread) {
            return Ok(None);
        }
        Ok(Some((turn, self.poll_in_turn(deadline, None).await?)))
    }

    /// Puts polled records where iterations take the next one from.
    fn keep(&self, py: Python<'_>, polled: Polled) {
        if let Some((_turn, chunks)) = polled {
            *self.iteration.lock() = Some(Cursor::new(&batch(py, chunks)));
        }
    }

    async fn position(
        &self,
        (topic, partition): Partition,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        self.give_back()?;
        self.assign_topics(self.limit(timeout)).await?;
        self.client.position(&topic, partition, timeout).await
    }

    fn limit(&self, timeout: Option<Duration>) -> Duration {
        timeout.unwrap_or_else(|| self.client.config().default_api_timeout)
    }

    /// Records between the position and the end of each assigned partition.
    async fn lag(&self, timeout: Option<Duration>) -> Result<Vec<(Partition, i64)>, Error> {
        self.give_back()?;
        self.assign_topics(self.limit(timeout)).await?;
        let partitions = self.client.assignment();
        let ends = self.client.end_offsets(&partitions, timeout).await?;
        let mut lags = Vec::with_capacity(partitions.len());
        for (partition, end) in partitions.into_iter().zip(ends) {
            let position = self
                .client
                .position(&partition.0, partition.1, timeout)
                .await?;
            lags.push((partition, (end - position).max(0)));
        }
        Ok(lags)
    }

    async fn offsets(
        &self,
        partitions: Vec<Partition>,
        end: bool,
        timeout: Option<Duration>,
    ) -> Result<Vec<(Partition, i64)>, Error> {
        let offsets = match end {
            false => self.client.beginning_offsets(&partitions, timeout).await?,
            true => self.client.end_offsets(&partitions, timeout).await?,
        };
        Ok(partitions.into_iter().zip(offsets).collect())
    }

    async fn offsets_for_times(
        &self,
        times: Vec<(Arc<str>, i32, i64)>,
        timeout: Option<Duration>,
    ) -> Result<Vec<(Partition, Option<OffsetAndTimestamp>)>, Error> {
        let offsets = self.client.offsets_for_times(&times, timeout).await?;
        Ok(times
            .into_iter()
            .map(|(topic, partition, _)| (topic, partition))
            .zip(offsets)
            .collect())
    }
}

/// A partition as Python names it: a TopicPartition or a pair, with an offset where it has one.
struct Named {
    topic: Arc<str>,
    partition: i32,
    offset: Option<i64>,
}

impl FromPyObject<'_, '_> for Named {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wrong = || -> PyResult<PyErr> {
            let found = object.get_type();
            Ok(PyTypeError::new_err(format!(
                "a partition is a TopicPartition or a (topic, partition) pair, not {}",
                found.qualname()?
            )))
        };
        let (topic, partition, offset) = match object.extract::<(Bound<'_, PyString>, i32)>() {
            Ok((topic, partition)) => (topic, partition, None),
            Err(_) if object.hasattr("partition")? && object.hasattr("topic")? => {
                let topic = object.getattr("topic")?.cast_into::<PyString>()?;
                let offset = if object.hasattr("offset")? {
                    object.getattr("offset")?.extract()?
                } else {
                    None
                };
                (topic, object.getattr("partition")?.extract()?, offset)
            }
            Err(_) => return Err(wrong()?),
        };
        Ok(Named {
            topic: topic.to_str()?.into(),
            partition,
            offset,
        })
    }
}

impl Named {
    fn partition(self) -> Partition {
        (self.topic, self.partition)
    }
}

/// One partition, or many.
fn partitions(object: &Bound<'_, PyAny>) -> PyResult<Vec<Named>> {
    object
        .try_iter()?
        .map(|partition| partition?.extract())
        .collect()
}

fn pairs(object: &Bound<'_, PyAny>) -> PyResult<Vec<Partition>> {
    Ok(partitions(object)?
        .into_iter()
        .map(Named::partition)
        .collect())
}

fn topic_partition<'py>(
    py: Python<'py>,
    (topic, partition): &Partition,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS
        .import(py, "ottla._types", "TopicPartition")?
        .call1((&**topic, *partition))
}

/// A dict by TopicPartition.
fn by_partition<T>(
    py: Python<'_>,
    values: Vec<(Partition, T)>,
    convert: impl Fn(T) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    for (partition, value) in values {
        dict.set_item(topic_partition(py, &partition)?, convert(value)?)?;
    }
    Ok(dict.into_any().unbind())
}

fn offsets(py: Python<'_>, values: Vec<(Partition, i64)>) -> PyResult<Py<PyAny>> {
    by_partition(py, values, |offset| {
        Ok(offset.into_pyobject(py)?.into_any().unbind())
    })
}

fn times(
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

fn batch(py: Python<'_>, chunks: Vec<Decoded>) -> Batch {
    Batch::new(py, chunks.into_iter().map(|decoded| decoded.0))
}

/// Reads records. Threads may share it: their polls wait for each other.
///
/// Args:
///     bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
///     topics: A topic, or several, of which all partitions are read, from where `auto.offset.reset` says. Their partitions
///         are found by the first poll.
///     config: Properties by Kafka's names, such as `{"auto.offset.reset": "earliest"}`.
///     **properties: The same with underscores, such as `auto_offset_reset="earliest"`. `ottla config consumer` lists them.
///
/// Raises:
///     ConfigError: A property is unknown or has a value that is not allowed.
///
/// Nothing connects before the first call that needs a broker. Close it, or use it in a `with` statement, which does.
/// Consumer groups are not there yet: choose partitions with `topics` or `assign`.
///
/// Iterating over it gives records without end, one fetch of a batch for many. Where a loop is left, nothing is lost: the
/// next poll or loop goes on with the next record.
///
/// Example:
///     ```python
///     with ottla.Consumer("localhost:9092", topics=["flights"], auto_offset_reset="earliest") as consumer:
///         for record in consumer:
///             print(record.offset, record.value)
///     ```
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Consumer {
    reader: Native<Reader>,
    closing: Closing,
}

impl Consumer {
    fn reader(&self) -> PyResult<Reader> {
        self.reader.get().cloned()
    }

    fn seek_all(
        &self,
        py: Python<'_>,
        partitions: Option<&Bound<'_, PyAny>>,
        to: Start,
    ) -> PyResult<()> {
        let reader = self.reader.get()?;
        let partitions = match partitions {
            Some(partitions) => pairs(partitions)?,
            None => reader.client.assignment(),
        };
        let raise = |error: Error| errors::to_python(py, &error);
        reader.give_back().map_err(raise)?;
        partitions
            .iter()
            .try_for_each(|(topic, partition)| reader.client.seek(topic, *partition, to))
            .map_err(raise)
    }
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, topics = None, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        topics: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Consumer, bootstrap_servers, config, properties)?;
        let topics = match topics {
            None => Vec::new(),
            Some(topics) => match topics.cast::<PyString>() {
                Ok(topic) => vec![topic.to_str()?.to_owned()],
                Err(_) => topics
                    .try_iter()?
                    .map(|topic| topic?.extract())
                    .collect::<PyResult<_>>()?,
            },
        };
        let decoder = Decoder {
            read_committed: config.read_committed,
            check_crcs: config.check_crcs,
            decompress_limit: config.decompress_max_bytes,
            memory: Memory::new(config.prefetch_max_bytes, memory::fresh),
        };
        let client = Client::new(config, decoder, runtime::handle()?, None)
            .map_err(|error| errors::to_python(py, &error))?;
        let reader = Reader {
            client,
            topics: Arc::new(Mutex::new(topics)),
            iteration: Arc::default(),
            turn: Arc::default(),
        };
        Ok(Consumer {
            reader: Native::new("Consumer", reader),
            closing: Closing::new("Consumer"),
        })
    }

    /// Reads these partitions and no others.
    ///
    /// Args:
    ///     partitions: `TopicPartition`s or `(topic, partition)` pairs. One with an offset is read from there, one without from
    ///         where it stands if it was assigned before, else from where `auto.offset.reset` says.
    fn assign(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let reader = self.reader.get()?;
        let start = |named: Named| {
            (
                named.topic,
                named.partition,
                named.offset.map_or(Start::Reset, Start::Offset),
            )
        };
        let wanted: Vec<_> = self::partitions(partitions)?
            .into_iter()
            .map(start)
            .collect();
        let raise = |error: Error| errors::to_python(py, &error);
        reader.give_back().map_err(raise)?;
        let mut topics = reader.topics.lock();
        reader.client.assign(wanted).map_err(raise)?;
        topics.clear();
        Ok(())
    }

    /// The partitions that are read, sorted. Those of `topics` in the constructor are known after the first poll.
    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let assigned = self.reader.get()?.client.assignment();
        assigned
            .iter()
            .map(|partition| Ok(topic_partition(py, partition)?.unbind()))
            .collect()
    }

    /// The partitions that are paused, sorted.
    fn paused(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let paused = self.reader.get()?.client.paused();
        paused
            .iter()
            .map(|partition| Ok(topic_partition(py, partition)?.unbind()))
            .collect()
    }

    /// Goes on reading a partition at an offset.
    ///
    /// Args:
    ///     partition: A partition that is assigned.
    ///     offset: The offset of the next record; without it, that of the `TopicPartition`.
    ///
    /// Raises:
    ///     ArgumentError: The partition is not assigned, or the offset is negative.
    #[pyo3(signature = (partition, offset = None))]
    fn seek(&self, py: Python<'_>, partition: Named, offset: Option<i64>) -> PyResult<()> {
        let Some(offset) = offset.or(partition.offset) else {
            return Err(PyTypeError::new_err(
                "seek needs an offset: seek(TopicPartition(topic, partition), offset)",
            ));
        };
        let reader = self.reader.get()?;
        let raise = |error: Error| errors::to_python(py, &error);
        reader.give_back().map_err(raise)?;
        reader
            .client
            .seek(&partition.topic, partition.partition, Start::Offset(offset))
            .map_err(raise)
    }

    /// Goes on reading at the first record there is.
    ///
    /// Args:
    ///     partitions: Partitions that are assigned; without them, all that are.
    #[pyo3(signature = (partitions = None))]
    fn seek_to_beginning(
        &self,
        py: Python<'_>,
        partitions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.seek_all(py, partitions, Start::Beginning)
    }

    /// Goes on reading after the last record there is.
    ///
    /// Args:
    ///     partitions: Partitions that are assigned; without them, all that are.
    #[pyo3(signature = (partitions = None))]
    fn seek_to_end(&self, py: Python<'_>, partitions: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.seek_all(py, partitions, Start::End)
    }

    /// The offset of the next record that is read.
    ///
    /// Args:
    ///     partition: A partition that is assigned.
    ///     timeout: Seconds to wait at most, where it must be asked for; without it, `default.api.timeout.ms`.
    ///
    /// Raises:
    ///     ArgumentError: The partition is not assigned.
    ///     KafkaError: No broker could be asked in time.
    #[pyo3(signature = (partition, timeout = None))]
    fn position(&self, py: Python<'_>, partition: Named, timeout: Option<f64>) -> PyResult<i64> {
        wait::result(
            py,
            self.reader
                .get()?
                .position(partition.partition(), seconds(timeout)?),
        )
    }

    fn _position(&self, partition: Named, timeout: Option<f64>) -> PyResult<Operation> {
        let (reader, timeout) = (self.reader()?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.position(partition.partition(), timeout).await },
            |py, offset| Ok(offset.into_pyobject(py)?.into_any().unbind()),
        ))
    }

    /// Returns no more records of these partitions until `resume`. Others go on.
    fn pause(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let reader = self.reader.get()?;
        let partitions = pairs(partitions)?;
        reader
            .give_back()
            .and_then(|()| reader.client.pause(&partitions))
            .map_err(|error| errors::to_python(py, &error))
    }

    /// Returns records of these partitions again.
    fn resume(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let partitions = pairs(partitions)?;
        self.reader
            .get()?
            .client
            .resume(&partitions)
            .map_err(|error| errors::to_python(py, &error))
    }

    /// Waits for records, and returns as soon as there is one.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; None takes `default.api.timeout.ms`. The first poll of a consumer that was given
    ///         `topics` takes up to a second more to find their partitions.
    ///     max_records: Records to return at most; without it, `max.poll.records`.
    ///
    /// Returns:
    ///     The records, as columns. An empty batch when there was nothing, though brokers could be asked.
    ///
    /// Raises:
    ///     UnreachableError: No broker could be reached in time.
    ///     OffsetOutOfRangeError: A position is not in the log, and `auto.offset.reset` is `none`.
    ///     NotFoundError: A topic does not exist.
    ///     CorruptRecordError: Records do not decode; so says each poll until a seek goes past them.
    #[pyo3(
        signature = (timeout = Some(1.0), *, max_records = None),
        text_signature = "($self, timeout=1.0, *, max_records=None)"
    )]
    fn poll(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        max_records: Option<usize>,
    ) -> PyResult<Batch> {
        let chunks = wait::result(py, self.reader.get()?.poll(seconds(timeout)?, max_records))?;
        Ok(batch(py, chunks))
    }

    fn _poll(&self, timeout: Option<f64>, max_records: Option<usize>) -> PyResult<Operation> {
        let (reader, timeout) = (self.reader()?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.poll(timeout, max_records).await },
            |py, chunks| Ok(Py::new(py, batch(py, chunks))?.into_any()),
        ))
    }

    /// The next record that the last `_iterate` brought, if there is one.
    fn _next_record(&self) -> PyResult<Option<Record>> {
        Ok(self
            .reader
            .get()?
            .iteration
            .lock()
            .as_mut()
            .and_then(Cursor::next))
    }

    /// Polls and keeps the records for `_next_record`.
    fn _iterate(&self) -> PyResult<Operation> {
        let (reader, keeper) = (self.reader()?, self.reader()?);
        Ok(Operation::new(
            async move { reader.poll_to_iterate().await },
            move |py, polled| {
                keeper.keep(py, polled);
                Ok(py.None())
            },
        ))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Records {
        Records {
            consumer: slf.unbind(),
        }
    }

    /// Iterates over batches without end, none of them empty. It waits where there are no records yet.
    fn batches(slf: Bound<'_, Self>) -> Batches {
        Batches {
            consumer: slf.unbind(),
        }
    }

    /// The first offset that each partition still holds.
    ///
    /// Args:
    ///     partitions: `TopicPartition`s or `(topic, partition)` pairs; they need not be assigned.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    #[pyo3(signature = (partitions, timeout = None))]
    fn beginning_offsets(
        &self,
        py: Python<'_>,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        offsets(
            py,
            wait::result(
                py,
                self.reader
                    .get()?
                    .offsets(pairs(partitions)?, false, seconds(timeout)?),
            )?,
        )
    }

    fn _beginning_offsets(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (reader, partitions, timeout) = (self.reader()?, pairs(partitions)?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.offsets(partitions, false, timeout).await },
            offsets,
        ))
    }

    /// The offset after the last record of each partition; with `isolation.level=read_committed`, after the last that is
    /// decided.
    ///
    /// Args:
    ///     partitions: `TopicPartition`s or `(topic, partition)` pairs; they need not be assigned.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    #[pyo3(signature = (partitions, timeout = None))]
    fn end_offsets(
        &self,
        py: Python<'_>,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        offsets(
            py,
            wait::result(
                py,
                self.reader
                    .get()?
                    .offsets(pairs(partitions)?, true, seconds(timeout)?),
            )?,
        )
    }

    fn _end_offsets(
        &self,
        partitions: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (reader, partitions, timeout) = (self.reader()?, pairs(partitions)?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.offsets(partitions, true, timeout).await },
            offsets,
        ))
    }

    /// The first record of each partition at or after a time.
    ///
    /// Args:
    ///     timestamps: Milliseconds since 1970 UTC by partition.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    ///
    /// Returns:
    ///     Offset and time by partition; None where no record is as late.
    #[pyo3(signature = (timestamps, timeout = None))]
    fn offsets_for_times(
        &self,
        py: Python<'_>,
        timestamps: &Bound<'_, PyMapping>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let wanted = timestamped(timestamps)?;
        times(
            py,
            wait::result(
                py,
                self.reader
                    .get()?
                    .offsets_for_times(wanted, seconds(timeout)?),
            )?,
        )
    }

    fn _offsets_for_times(
        &self,
        timestamps: &Bound<'_, PyMapping>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (reader, wanted, timeout) =
            (self.reader()?, timestamped(timestamps)?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.offsets_for_times(wanted, timeout).await },
            times,
        ))
    }

    /// The numbers of a topic's partitions, in order.
    ///
    /// Args:
    ///     topic: The topic's name.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    ///
    /// Raises:
    ///     KafkaError: The topic is not known, or no broker could be asked in time.
    #[pyo3(signature = (topic, timeout = None))]
    fn partitions_for(
        &self,
        py: Python<'_>,
        topic: &str,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i32>> {
        let partitions = wait::result(
            py,
            self.reader
                .get()?
                .client
                .partitions_for(topic, seconds(timeout)?),
        )?;
        Ok(partitions.iter().map(|info| info.partition).collect())
    }

    fn _partitions_for(&self, topic: String, timeout: Option<f64>) -> PyResult<Operation> {
        let (reader, timeout) = (self.reader()?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.client.partitions_for(&topic, timeout).await },
            |py, partitions| {
                let partitions: Vec<i32> = partitions.iter().map(|info| info.partition).collect();
                Ok(partitions.into_pyobject(py)?.into_any().unbind())
            },
        ))
    }

    /// How many offsets lie between the position and the end of each assigned partition.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    #[pyo3(signature = (timeout = None))]
    fn lag(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        offsets(
            py,
            wait::result(py, self.reader.get()?.lag(seconds(timeout)?))?,
        )
    }

    fn _lag(&self, timeout: Option<f64>) -> PyResult<Operation> {
        let (reader, timeout) = (self.reader()?, seconds(timeout)?);
        Ok(Operation::new(
            async move { reader.lag(timeout).await },
            offsets,
        ))
    }

    /// Disconnects. Closing twice does no harm.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most.
    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let result = wait::block_on(py, self.reader.get()?.client.close(seconds(timeout)?))?;
        self.closing.done();
        result.map_err(|error| errors::to_python(py, &error))
    }

    fn _close(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Operation> {
        let (reader, timeout) = (slf.get().reader()?, seconds(timeout)?);
        let this = slf.clone().unbind();
        let close = async move { Ok(reader.client.close(timeout).await) };
        Ok(Operation::new(
            close,
            move |py, result: Result<(), Error>| {
                this.get().closing.done();
                result
                    .map(|()| py.None())
                    .map_err(|error| errors::to_python(py, &error))
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
            "a Consumer holds connections and cannot be pickled: send its options, and make the consumer where it is used",
        ))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Ok(reader) = self.reader.get() {
            let client = reader.client.clone();
            self.closing
                .on_drop(async move { client.close(None).await });
        }
    }
}

fn timestamped(timestamps: &Bound<'_, PyMapping>) -> PyResult<Vec<(Arc<str>, i32, i64)>> {
    let entries = timestamps.items()?.into_iter().map(|entry| {
        let (partition, time) = entry.extract::<(Named, i64)>()?;
        Ok((partition.topic, partition.partition, time))
    });
    entries.collect()
}

/// Records without end; it waits where there is none yet.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Records {
    consumer: Py<Consumer>,
}

#[pymethods]
impl Records {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Record> {
        let consumer = self.consumer.get();
        loop {
            if let Some(record) = consumer._next_record()? {
                return Ok(record);
            }
            let reader = consumer.reader.get()?;
            reader.keep(py, wait::result(py, reader.poll_to_iterate())?);
        }
    }
}

/// Batches without end, none of them empty; it waits where there is none yet.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Batches {
    consumer: Py<Consumer>,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Batch> {
        loop {
            let batch = self.consumer.get().poll(py, None, None)?;
            if batch.length() > 0 {
                return Ok(batch);
            }
        }
    }
}
