//! Events of clients, on their way to Python's `logging`.
//!
//! Threads of the runtime never attach to Python: they put events into one queue of the process and, if it was empty, ring a
//! descriptor. `ottla._logging` owns the queue, watches the descriptor and takes the events.

use std::sync::Arc;

use ottla_client::{Error, Events, Level, Logged, Observed};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::doorbell::{Descriptor, Doorbell};
use crate::bridge::runtime::Native;

/// The levels of `logging`.
const LEVELS: [(Level, u8); 3] = [(Level::Debug, 10), (Level::Info, 20), (Level::Warning, 30)];

/// The events of all clients of this process. Drained by one thread at a time.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct EventQueue {
    events: Native<Arc<Events>>,
    watched: Doorbell,
}

#[pymethods]
impl EventQueue {
    #[new]
    fn new() -> PyResult<Self> {
        let (watched, doorbell) = Doorbell::pair()?;
        let events = Events::new(Level::Warning, move || doorbell.ring());
        Ok(EventQueue {
            events: Native::new("queue of events", events),
            watched,
        })
    }

    /// The descriptor that becomes readable when there is something to drain.
    fn fileno(&self) -> Descriptor {
        self.watched.descriptor()
    }

    /// From now on, only events of a level of `logging` or above it are made at all.
    fn listen(&self, level: u8) -> PyResult<()> {
        let least = LEVELS.iter().find(|(_, known)| *known >= level);
        let least = least.map_or(Level::Warning, |(level, _)| *level);
        self.events.get()?.listen(least);
        Ok(())
    }

    /// The events since the last drain: level and logger, text, fields. Then how many were dropped, for want of a drain.
    #[expect(clippy::type_complexity, reason = "a tuple for each event")]
    fn drain<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Vec<(u8, &'static str, String, Bound<'py, PyDict>)>, u64)> {
        let events = self.events.get()?;
        self.watched.silence();
        let logged = events.drain();
        let rows = logged.iter().map(|logged| {
            let event = &logged.event;
            let level = LEVELS.iter().find(|(level, _)| *level == event.level());
            Ok((
                level.map_or(30, |(_, level)| *level),
                event.logger(),
                event.to_string(),
                fields(py, logged)?,
            ))
        });
        Ok((rows.collect::<PyResult<_>>()?, events.take_dropped()))
    }
}

/// The queue of this process, for a client that is being made.
pub(crate) fn queue(py: Python<'_>) -> PyResult<Option<Arc<Events>>> {
    static QUEUE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let queue = calls::class(&QUEUE, py, "ottla._logging", "queue")?.guarded_call(())?;
    let events = Arc::clone(queue.cast::<EventQueue>()?.get().events.get()?);
    Ok(Some(events))
}

/// Logs what there is, on this thread: before a call returns after which nobody may listen any more.
pub(crate) fn log(py: Python<'_>) -> PyResult<()> {
    // While the interpreter ends, modules are removed, and a close in `__del__` has nobody to log to.
    let Ok(sys) = calls::module(py, "sys") else {
        return Ok(());
    };
    // Where no client was made there is nothing to log, and the module would only be imported for it.
    let modules = sys.guarded_attribute(intern!(py, "modules"))?;
    match modules.get_item("ottla._logging") {
        Ok(logging) if !logging.is_none() => {
            let drain = logging.guarded_attribute(intern!(py, "drain"))?;
            drain.guarded_call(()).map(drop)
        }
        _ => Ok(()),
    }
}

/// What a handler of `logging` may want to look at without reading the text.
fn fields<'py>(py: Python<'py>, logged: &Logged) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let name = format!("{:?}", logged.event);
    let name = name.split([' ', '{', '(']).next().unwrap_or_default();
    fields.set_item(intern!(py, "kind"), PyString::new(py, name))?;
    fields.set_item(intern!(py, "client"), &*logged.client)?;
    fields.set_item(intern!(py, "role"), logged.role.name())?;
    let (broker, place, cause) = about(&logged.event);
    let broker = broker.or_else(|| cause.and_then(Error::broker));
    if let Some(broker) = broker {
        fields.set_item(intern!(py, "broker"), broker)?;
    }
    let topic = place
        .map(|(topic, _)| topic)
        .or_else(|| cause.and_then(Error::topic));
    if let Some(topic) = topic {
        fields.set_item(intern!(py, "topic"), topic)?;
    }
    let partition = place
        .and_then(|(_, partition)| partition)
        .or_else(|| cause.and_then(Error::partition));
    if let Some(partition) = partition {
        fields.set_item(intern!(py, "partition"), partition)?;
    }
    if let Some(code) = cause.and_then(Error::code) {
        fields.set_item(intern!(py, "code"), code.0)?;
    }
    Ok(fields)
}

type About<'a> = (
    Option<&'a str>,
    Option<(&'a str, Option<i32>)>,
    Option<&'a Error>,
);

/// The broker, the topic with its partition, and the error that an event names.
fn about(event: &Observed) -> About<'_> {
    match event {
        Observed::Connected { broker, .. }
        | Observed::VersionsAssumed { broker, .. }
        | Observed::Answered { broker, .. }
        | Observed::Throttled { broker, .. } => (Some(broker), None, None),
        Observed::ConnectFailed { broker, cause, .. }
        | Observed::Disconnected { broker, cause } => (Some(broker), None, Some(cause)),
        Observed::Retried { cause, .. }
        | Observed::Refused { cause, .. }
        | Observed::CertificatesKept { cause }
        | Observed::BatchFailed { cause, .. }
        | Observed::CommitFailed { cause }
        | Observed::MemberUnreadable { cause, .. }
        | Observed::Rebootstrapped { cause }
        | Observed::IdempotenceOff { cause } => (None, None, Some(cause)),
        Observed::LeaderMoved {
            topic, partition, ..
        }
        | Observed::OffsetReset {
            topic, partition, ..
        }
        | Observed::ReplicaChosen {
            topic, partition, ..
        }
        | Observed::BatchSent {
            topic, partition, ..
        } => (None, Some((topic, Some(*partition))), None),
        Observed::PartitionStuck {
            topic,
            partition,
            cause,
        }
        | Observed::PartitionDenied {
            topic,
            partition,
            cause,
        } => (None, Some((topic, Some(*partition))), Some(cause)),
        Observed::PartitionsAdded { topic, .. } | Observed::TopicRecreated { topic } => {
            (None, Some((topic, None)), None)
        }
        Observed::TopicMissing { topic, cause } => (None, Some((topic, None)), Some(cause)),
        // Events without any of them, and new events.
        _ => (None, None, None),
    }
}
