//! Records on their way: from a call of `produce` to the delivery report that a poll calls.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ottla_client::{Delivery, Error, Producer, RecordMetadata, TrySendError};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use pyo3::{PyTraverseError, PyVisit};

use crate::bridge::calls::Guarded;
use crate::bridge::doorbell::Descriptor;
use crate::bridge::operation::CompletionQueue;
use crate::bridge::runtime::{self, Native};
use crate::bridge::{calls, errors};
use crate::clients::producer::ProducerCore;
use crate::compat::message::{CREATE_TIME, Fields, Message, NO_OFFSET};
use crate::compat::record_future::RecordFuture;
use crate::sending::outgoing::Outgoing;
use crate::values::numbers::{PartitionNumber, Timeout, seconds};

/// Records of a topic that became known which are sent while the lock is held.
const ROWS_AT_ONCE: usize = 256;
/// The token of results that are there already. No batch has this address.
const LOOK: u64 = 0;

/// All records of a producer that have no delivery report, and the reports that no poll has called.
///
/// A record of a topic that is not known yet waits in a queue of its topic, and later records of the topic behind it.
/// A task of the runtime sends them. Topics do not wait for each other.
///
/// Args:
///     core: The producer, or None without brokers.
///     max_messages: The most records that have no report.
///     max_bytes: The most bytes of their keys and values.
///     max_message_bytes: The most bytes of one record's key and value.
///     timeout: Seconds until a record that cannot be sent expires.
///     on_delivery: The callback of records that have none of their own.
///     errors_only: Whether only failures are reported.
///     is_watched: Whether each poll has events to look for besides the reports.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Outbox {
    shared: Native<Arc<Shared>>,
    queue: CompletionQueue,
    max_messages: usize,
    max_bytes: usize,
    max_message_bytes: usize,
    on_delivery: Option<Py<PyAny>>,
    errors_only: bool,
    is_watched: bool,
    is_closed: AtomicBool,
}

struct Shared {
    client: Option<Producer>,
    timeout: Duration,
    /// Makes polls look for reports, with the batch that has them.
    ring: Arc<dyn Fn(u64) + Send + Sync>,
    content: Mutex<Content>,
}

/// No object of Python's goes while this is locked: its end might run code that produces.
#[derive(Default)]
struct Content {
    /// Records without a report, and the bytes of their keys and values.
    count: usize,
    bytes: usize,
    /// By batch, in the order of the records. One hook reports all records of a batch.
    sent: HashMap<usize, VecDeque<(Entry, Delivery)>>,
    unsent: HashMap<Arc<str>, VecDeque<Entry>>,
    results: VecDeque<(Entry, Outcome)>,
}

struct Entry {
    topic: Py<PyString>,
    record: Outgoing,
    report: Report,
    made: Instant,
    size: usize,
}

/// What gets the report of a record.
pub(crate) enum Report {
    Nobody,
    /// Called as f(error, message).
    Callback(Py<PyAny>),
    Future(RecordFuture),
}

impl Report {
    pub(crate) fn to_callback(callback: Option<Py<PyAny>>) -> Self {
        callback.map_or(Report::Nobody, Report::Callback)
    }

    /// No report comes.
    fn leave(&self, py: Python<'_>) {
        if let Report::Future(future) = self {
            future.leave(py);
        }
    }
}

enum Outcome {
    Delivered(Result<RecordMetadata, Error>),
    /// One of librdkafka's own errors, by its name.
    Ended(&'static str),
}

/// What became of a record that was to be queued.
pub(crate) enum Queued {
    Yes,
    Full,
    /// A KafkaError.
    No(Py<PyAny>),
}

enum Appended {
    Yes,
    NotReady(Entry),
    Failed(Entry, Error),
}

/// A KafkaError for an error of ottla.
fn refusal(py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = calls::class(
        &FUNCTION,
        py,
        "ottla.compat.confluent_kafka.errors",
        "to_kafka_error",
    )?;
    Ok(function.guarded_call((error.into_value(py),))?.unbind())
}

impl Outcome {
    /// A KafkaError for a record that was not delivered.
    fn error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let found = match self {
            Outcome::Delivered(Ok(_)) => return Ok(None),
            Outcome::Delivered(Err(error)) => {
                errors::to_python(py, error).into_value(py).into_any()
            }
            Outcome::Ended(name) => PyString::new(py, name).into_any().unbind(),
        };
        let function = calls::class(
            &FUNCTION,
            py,
            "ottla.compat.confluent_kafka.outbox",
            "delivery_error",
        )?;
        Ok(Some(function.guarded_call((found,))?.unbind()))
    }
}

impl Entry {
    /// What the callback gets. As with librdkafka, it has no headers.
    fn into_message<'py>(
        self,
        py: Python<'py>,
        outcome: &Outcome,
        error: Option<Py<PyAny>>,
        now: Instant,
    ) -> PyResult<Bound<'py, Message>> {
        let (partition, offset, timestamp) = match outcome {
            Outcome::Delivered(Ok(written)) => {
                (written.partition, written.offset, written.timestamp_ms)
            }
            _ => (
                self.record.partition().unwrap_or(-1),
                NO_OFFSET,
                self.record.timestamp().unwrap_or(0),
            ),
        };
        let (key, value) = self.record.into_key_and_value(py);
        let fields = Fields {
            topic: Some(self.topic.into_any()),
            partition,
            offset: if offset < 0 { NO_OFFSET } else { offset },
            key,
            value,
            headers: None,
            error,
            timestamp: (if timestamp == 0 { 0 } else { CREATE_TIME }, timestamp),
            latency: now.saturating_duration_since(self.made).as_secs_f64(),
            leader_epoch: -1,
            delivery_count: -1,
        };
        Message::of_fields(py, fields)
    }
}

impl Content {
    fn end(&mut self, entry: Entry, outcome: Outcome) {
        self.results.push_back((entry, outcome));
    }

    fn wait(&mut self, topic: &str, entry: Entry) -> bool {
        if let Some(waiting) = self.unsent.get_mut(topic) {
            waiting.push_back(entry);
            return false;
        }
        self.unsent.insert(topic.into(), VecDeque::from([entry]));
        true
    }

    fn take_result(&mut self) -> Option<(Entry, Outcome)> {
        let (entry, outcome) = self.results.pop_front()?;
        self.count -= 1;
        self.bytes -= entry.size;
        Some((entry, outcome))
    }
}

impl Shared {
    /// Encodes a record into its batch, if that is possible now.
    fn append(&self, content: &mut Content, topic: &str, entry: Entry) -> Appended {
        let Some(client) = &self.client else {
            return Appended::NotReady(entry);
        };
        let sent = client.try_send(topic, &entry.record.row());
        let delivery = match sent {
            Ok(delivery) => delivery,
            Err(TrySendError::NotReady) => return Appended::NotReady(entry),
            Err(TrySendError::Failed(error)) => return Appended::Failed(entry, error),
        };
        let batch = content.sent.entry(delivery.batch()).or_default();
        if batch.is_empty() {
            self.watch(&delivery);
        }
        batch.push_back((entry, delivery));
        Appended::Yes
    }

    /// Rings with the batch as the token, once this record of it has its result.
    fn watch(&self, delivery: &Delivery) {
        let (ring, batch) = (Arc::clone(&self.ring), delivery.batch() as u64);
        delivery.on_done(move || ring(batch));
    }

    /// Takes in the results of a batch. They come all together, unless the batch was split.
    fn collect(&self, content: &mut Content, batch: usize) {
        let Some(entries) = content.sent.get_mut(&batch) else {
            return;
        };
        while let Some((_, delivery)) = entries.front() {
            let Some(result) = delivery.result() else {
                self.watch(delivery);
                return;
            };
            if let Some((entry, _)) = entries.pop_front() {
                content
                    .results
                    .push_back((entry, Outcome::Delivered(result)));
            }
        }
        content.sent.remove(&batch);
    }

    /// What the first waiting record of a topic needs, and until when. None without a waiting
    /// record: the topic's records go out at once from now on.
    fn first_unsent(&self, topic: &str) -> Option<(Instant, Option<i32>, usize)> {
        let mut content = self.content.lock();
        let first = content.unsent.get(topic).and_then(VecDeque::front);
        let needs = first.map(|entry| {
            (
                entry.made,
                entry.record.partition(),
                entry.record.row().size(),
            )
        });
        if needs.is_none() {
            content.unsent.remove(topic);
        }
        needs
    }

    /// Sends waiting records of a topic that is known now.
    fn send_unsent(&self, topic: &str) {
        let mut content = self.content.lock();
        for _ in 0..ROWS_AT_ONCE {
            let first = content.unsent.get_mut(topic).and_then(VecDeque::pop_front);
            let Some(entry) = first else {
                return;
            };
            match self.append(&mut content, topic, entry) {
                Appended::Yes => {}
                Appended::NotReady(entry) => {
                    if let Some(waiting) = content.unsent.get_mut(topic) {
                        waiting.push_front(entry);
                    }
                    return;
                }
                Appended::Failed(entry, error) => {
                    content.end(entry, Outcome::Delivered(Err(error)));
                    (self.ring)(LOOK);
                }
            }
        }
    }

    /// Ends the first waiting record of a topic, unless a purge did and it is another one.
    fn fail_unsent(&self, topic: &str, made: Instant, error: Error) {
        let mut content = self.content.lock();
        let waiting = content.unsent.get_mut(topic);
        let first = waiting.and_then(|waiting| pop_if(waiting, |entry| entry.made == made));
        if let Some(entry) = first {
            content.end(entry, Outcome::Delivered(Err(error)));
            (self.ring)(LOOK);
        }
    }

    /// Ends records that have no broker to go to.
    fn expire(&self, content: &mut Content) {
        let now = Instant::now();
        let Content {
            unsent, results, ..
        } = content;
        for waiting in unsent.values_mut() {
            while let Some(entry) = pop_if(waiting, |entry| now - entry.made >= self.timeout) {
                results.push_back((entry, Outcome::Ended("_MSG_TIMED_OUT")));
            }
        }
        unsent.retain(|_, waiting| !waiting.is_empty());
    }
}

/// The first entry, if it is such a one.
fn pop_if(waiting: &mut VecDeque<Entry>, is_wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
    waiting
        .front()
        .is_some_and(is_wanted)
        .then(|| waiting.pop_front())?
}

/// Sends the pending records of a topic, until there are none.
async fn send_when_known(shared: Weak<Shared>, client: Producer, topic: Arc<str>) {
    loop {
        let Some(this) = shared.upgrade() else {
            return;
        };
        let Some((made, partition, size)) = this.first_unsent(&topic) else {
            return;
        };
        let left = this.timeout.saturating_sub(made.elapsed());
        drop(this);
        let ready = client.ready(&topic, partition, size, Some(left)).await;
        let Some(this) = shared.upgrade() else {
            return;
        };
        match ready {
            Ok(()) => this.send_unsent(&topic),
            Err(error) => this.fail_unsent(&topic, made, error),
        }
    }
}

impl Outbox {
    /// Whether each poll has events to look for besides the reports.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Records that have no report yet.
    pub(crate) fn count(&self) -> usize {
        let shared = self.shared.get();
        shared.map_or(0, |shared| shared.content.lock().count)
    }

    /// Queues a record.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    pub(crate) fn queue<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        partition: i32,
        report: Report,
        timestamp: i64,
        headers: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Queued> {
        let Ok(topic) = topic.cast::<PyString>() else {
            let found = topic.get_type();
            let text = format!("argument 'topic' must be str, not {}", found.qualname()?);
            return Err(PyTypeError::new_err(text));
        };
        let name = topic.to_str()?;
        let partition = (partition >= 0).then_some(PartitionNumber(partition));
        let mut record = Outgoing::new(name, value, key, partition, None, headers)?;
        if timestamp < 0 {
            let text = format!(
                "a timestamp is a number of milliseconds since 1970 UTC, from 0 up, and was {timestamp}"
            );
            return refusal(py, errors::argument(&text)).map(Queued::No);
        }
        record.set_timestamp((timestamp > 0).then_some(timestamp));
        let size = record.payload_size();
        if size > self.max_message_bytes {
            return Outcome::Ended("MSG_SIZE_TOO_LARGE")
                .error(py)
                .map(Self::refused);
        }
        let report = match report {
            Report::Nobody => {
                Report::to_callback(self.on_delivery.as_ref().map(|it| it.clone_ref(py)))
            }
            own => own,
        };
        let entry = Entry {
            topic: topic.clone().unbind(),
            record,
            report,
            made: Instant::now(),
            size,
        };
        let shared = match self.shared.get() {
            Ok(shared) => shared,
            Err(error) => return refusal(py, error).map(Queued::No),
        };
        let mut content = shared.content.lock();
        if content.count >= self.max_messages || content.bytes + size > self.max_bytes {
            drop(content);
            return Ok(Queued::Full);
        }
        let must_wait = !content.unsent.is_empty() && content.unsent.contains_key(name);
        let appended = match must_wait {
            true => Appended::NotReady(entry),
            false => shared.append(&mut content, name, entry),
        };
        let is_first = match appended {
            Appended::Yes => false,
            Appended::NotReady(entry) => content.wait(name, entry),
            Appended::Failed(entry, error) => {
                drop(content);
                drop(entry);
                return refusal(py, errors::to_python(py, &error)).map(Queued::No);
            }
        };
        content.count += 1;
        content.bytes += size;
        drop(content);
        if let Some(client) = shared.client.as_ref().filter(|_| is_first) {
            let task = send_when_known(Arc::downgrade(shared), client.clone(), name.into());
            runtime::handle()?.spawn(task);
        }
        Ok(Queued::Yes)
    }

    fn refused(error: Option<Py<PyAny>>) -> Queued {
        error.map_or(Queued::Full, Queued::No)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is gone.
        let Ok(shared) = self.shared.get() else {
            return;
        };
        Python::attach(|py| {
            let content = shared.content.lock();
            let sent = content.sent.values().flatten().map(|(entry, _)| entry);
            let results = content.results.iter().map(|(entry, _)| entry);
            let left = sent.chain(content.unsent.values().flatten()).chain(results);
            left.for_each(|entry| entry.report.leave(py));
        });
    }
}

#[pymethods]
impl Outbox {
    #[new]
    #[pyo3(signature = (core, *, max_messages, max_bytes, max_message_bytes, timeout, on_delivery, errors_only, is_watched))]
    #[expect(clippy::too_many_arguments, reason = "each is named")]
    fn new(
        core: Option<&Bound<'_, ProducerCore>>,
        max_messages: usize,
        max_bytes: usize,
        max_message_bytes: usize,
        timeout: Timeout,
        on_delivery: Option<Py<PyAny>>,
        errors_only: bool,
        is_watched: bool,
    ) -> PyResult<Self> {
        let queue = CompletionQueue::new()?;
        let shared = Shared {
            client: core.map(|core| core.get().client()).transpose()?,
            timeout: seconds(Some(timeout))?.unwrap_or_default(),
            ring: Arc::new(queue.sender()?),
            content: Mutex::default(),
        };
        Ok(Outbox {
            shared: Native::new("Producer", Arc::new(shared)),
            queue,
            max_messages,
            max_bytes,
            max_message_bytes,
            on_delivery,
            errors_only,
            is_watched,
            is_closed: AtomicBool::new(false),
        })
    }

    fn __len__(&self) -> usize {
        self.count()
    }

    /// Whether records wait until their topic is known: a flush that begins now does not send them.
    fn has_unsent(&self) -> PyResult<bool> {
        let shared = self.shared.get()?;
        Ok(!shared.content.lock().unsent.is_empty())
    }

    /// Queue a record.
    ///
    /// It returns the KafkaError of one that cannot be queued.
    #[pyo3(signature = (topic, value, key, partition, on_delivery, headers))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn add<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        partition: i32,
        on_delivery: Option<Bound<'py, PyAny>>,
        headers: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        match self.queue(
            py,
            topic,
            value,
            key,
            partition,
            Report::to_callback(on_delivery.map(Bound::unbind)),
            0,
            headers.as_ref(),
        )? {
            Queued::Yes => Ok(None),
            Queued::Full => Outcome::Ended("_QUEUE_FULL").error(py),
            Queued::No(error) => Ok(Some(error)),
        }
    }

    /// Call the callbacks of reports that came in.
    ///
    /// What one raises is raised, and the others wait for the next call.
    ///
    /// Returns:
    ///     The number of reports.
    pub(crate) fn serve(&self, py: Python<'_>) -> PyResult<usize> {
        let shared = self.shared.get()?;
        if self.queue.pending()? {
            let tokens = self.queue.drain()?;
            let mut content = shared.content.lock();
            for token in tokens.into_iter().filter(|token| *token != LOOK) {
                shared.collect(&mut content, usize::try_from(token)?);
            }
        }
        if shared.client.is_none() {
            shared.expire(&mut shared.content.lock());
        }
        let (mut served, now) = (0, Instant::now());
        loop {
            // The guard goes before the callback is called.
            let taken = shared.content.lock().take_result();
            let Some((mut entry, outcome)) = taken else {
                return Ok(served);
            };
            served += 1;
            let report = std::mem::replace(&mut entry.report, Report::Nobody);
            if matches!(report, Report::Nobody) {
                continue;
            }
            let error = outcome.error(py)?;
            if error.is_none() && self.errors_only {
                report.leave(py);
                continue;
            }
            let reported = error.as_ref().map(|error| error.clone_ref(py));
            let message = entry.into_message(py, &outcome, error, now)?;
            match report {
                Report::Nobody => {}
                Report::Callback(callback) => {
                    callback.bind(py).guarded_call((reported, message))?;
                }
                Report::Future(future) => future.settle(py, reported, message)?,
            }
        }
    }

    /// Return the descriptor that becomes readable when there are reports.
    fn fileno(&self) -> Descriptor {
        self.queue.fileno()
    }

    /// Seconds until the next record without brokers expires, if there is one.
    fn next_expiry(&self) -> PyResult<Option<f64>> {
        let shared = self.shared.get()?;
        let content = shared.content.lock();
        let firsts = content.unsent.values().filter_map(VecDeque::front);
        let first = firsts
            .map(|entry| entry.made)
            .min()
            .filter(|_| shared.client.is_none());
        Ok(first.map(|made| shared.timeout.saturating_sub(made.elapsed()).as_secs_f64()))
    }

    /// Drop records: those that wait for their topic, and those that were handed to the client.
    fn purge(&self, in_queue: bool, in_flight: bool) -> PyResult<()> {
        let shared = self.shared.get()?;
        let mut content = shared.content.lock();
        let Content {
            sent,
            unsent,
            results,
            ..
        } = &mut *content;
        if in_queue {
            let gone = unsent.values_mut().flat_map(|waiting| waiting.drain(..));
            results.extend(gone.map(|entry| (entry, Outcome::Ended("_PURGE_QUEUE"))));
        }
        if in_flight {
            let gone = sent.drain().flat_map(|(_, batch)| batch);
            results.extend(gone.map(|(entry, _)| (entry, Outcome::Ended("_PURGE_INFLIGHT"))));
        }
        (shared.ring)(LOOK);
        Ok(())
    }

    /// Queue no further record.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Shows the callback of all records. Those of single records go with their reports, so no cycle lasts.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.on_delivery)
    }
}
