//! Consumed records on their way to the application, one message or many at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::compat::message::Message;
use crate::records::batch::{Batch, Chunk, Record};
use crate::values::numbers::{Timeout, seconds};
use crate::values::partitions::Partition;

/// Messages that polls return, one each, before Python looks after callbacks and commits again.
const SERVE_EVERY: u32 = 100;

/// The offset after a partition's last returned record, and that record's leader epoch.
type Position = (i64, i32);

/// What a consumer's polls return: messages that are no records first, then records.
///
/// Args:
///     pause: Seconds without a poll of the client after which it is due, so that the group keeps the application.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct Inbox {
    pause: Duration,
    content: Mutex<Content>,
}

struct Content {
    notices: VecDeque<Notice>,
    chunks: VecDeque<Arc<Chunk>>,
    /// The first row of the first chunk that was not returned.
    row: usize,
    /// Positions that changed since the last `take_positions`, without that of the first chunk.
    positions: HashMap<Partition, Position>,
    /// Single messages that are returned without a look at Python's side.
    unserved: u32,
    due: Instant,
}

/// A message that is no record: the error of a partition, or that its end was reached.
struct Notice {
    topic: Option<String>,
    partition: i32,
    message: Py<Message>,
}

/// What is returned next.
enum Next {
    Notice(Py<Message>),
    Record(Record),
}

impl Next {
    fn into_message(self, py: Python<'_>) -> PyResult<Bound<'_, Message>> {
        match self {
            Next::Notice(message) => Ok(message.into_bound(py)),
            Next::Record(record) => Message::of_record(py, record),
        }
    }
}

impl Content {
    fn next(&mut self) -> Option<Next> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(Next::Notice(notice.message));
        }
        let chunk = self.chunks.front()?;
        let record = Record::new((Arc::clone(chunk), self.row));
        self.row += 1;
        if self.row == chunk.columns().len() {
            self.note_position();
            self.chunks.pop_front();
            self.row = 0;
        }
        Some(Next::Record(record))
    }

    /// Notes what was returned of the first chunk.
    fn note_position(&mut self) {
        let Some((chunk, last)) = self.chunks.front().zip(self.row.checked_sub(1)) else {
            return;
        };
        let columns = chunk.columns();
        let partition = (Arc::clone(columns.topic()), columns.partition());
        let position = (columns.offset(last) + 1, columns.leader_epoch(last));
        self.positions.insert(partition, position);
    }

    fn length(&self) -> usize {
        let records: usize = self.chunks.iter().map(|chunk| chunk.columns().len()).sum();
        self.notices.len() + records - self.row
    }
}

impl Inbox {
    /// The next message, if there is one and Python's side can wait.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Message>>> {
        let next = {
            let mut content = self.content.lock();
            if content.unserved == 0 || Instant::now() >= content.due {
                return Ok(None);
            }
            content.unserved -= 1;
            content.next()
        };
        next.map(|next| next.into_message(py)).transpose()
    }
}

#[pymethods]
impl Inbox {
    #[new]
    fn new(pause: Timeout) -> PyResult<Self> {
        let pause = seconds(Some(pause))?.unwrap_or_default();
        let content = Content {
            notices: VecDeque::new(),
            chunks: VecDeque::new(),
            row: 0,
            positions: HashMap::new(),
            unserved: 0,
            due: Instant::now() + pause,
        };
        Ok(Inbox {
            pause,
            content: Mutex::new(content),
        })
    }

    fn __len__(&self) -> usize {
        self.content.lock().length()
    }

    /// Return the next messages, at most `most`, as those of `consume`.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<Bound<'py, Message>>> {
        let found: Vec<_> = {
            let mut content = self.content.lock();
            content.unserved = SERVE_EVERY;
            let most = most.min(content.length());
            std::iter::from_fn(|| content.next()).take(most).collect()
        };
        found
            .into_iter()
            .map(|next| next.into_message(py))
            .collect()
    }

    /// The client is polled now.
    fn polled(&self) {
        self.content.lock().due = Instant::now() + self.pause;
    }

    /// Return whether the client has to be polled, even if there are messages.
    fn is_due(&self) -> bool {
        Instant::now() >= self.content.lock().due
    }

    /// Add the records of a poll.
    fn put(&self, batch: &Bound<'_, Batch>) {
        let chunks = batch.get().chunks().iter();
        let chunks = chunks.filter(|chunk| !chunk.columns().is_empty());
        self.content.lock().chunks.extend(chunks.cloned());
    }

    /// Add a message that is no record.
    fn put_notice(&self, topic: Option<String>, partition: i32, message: Py<Message>) {
        let notice = Notice {
            topic,
            partition,
            message,
        };
        self.content.lock().notices.push_back(notice);
    }

    /// Drop what was not returned of partitions.
    ///
    /// It returns the offset of the first such record of each.
    fn discard(&self, partitions: HashSet<(String, i32)>) -> Vec<(String, i32, i64)> {
        let is_gone = |topic: &str, partition: i32| {
            let mut gone = partitions.iter();
            gone.any(|(name, number)| name == topic && *number == partition)
        };
        let mut content = self.content.lock();
        content.note_position();
        let row = std::mem::take(&mut content.row);
        let chunks = std::mem::take(&mut content.chunks).into_iter();
        let mut firsts: Vec<(String, i32, i64)> = Vec::new();
        for (at, chunk) in chunks.enumerate() {
            let row = if at == 0 { row } else { 0 };
            let columns = chunk.columns();
            let (topic, partition) = (columns.topic(), columns.partition());
            if !is_gone(topic, partition) {
                // One that was begun is the first, and stays it.
                content.row += row;
                content.chunks.push_back(chunk);
            } else if !firsts
                .iter()
                .any(|(name, number, _)| **name == **topic && *number == partition)
            {
                firsts.push((topic.to_string(), partition, columns.offset(row)));
            }
        }
        let notices = std::mem::take(&mut content.notices).into_iter();
        let (dropped, kept): (Vec<_>, Vec<_>) = notices.partition(|notice| {
            notice
                .topic
                .as_deref()
                .is_some_and(|topic| is_gone(topic, notice.partition))
        });
        content.notices = kept.into();
        drop(content);
        drop(dropped);
        firsts
    }

    /// What changed since the last time, by partition: offset after the last returned record, leader epoch.
    fn take_positions(&self) -> Vec<(String, i32, i64, Option<i32>)> {
        let mut content = self.content.lock();
        content.note_position();
        let positions = content.positions.drain();
        positions
            .map(|((topic, partition), (offset, epoch))| {
                (
                    topic.to_string(),
                    partition,
                    offset,
                    (epoch >= 0).then_some(epoch),
                )
            })
            .collect()
    }

    /// Drop everything.
    fn clear(&self) {
        let mut content = self.content.lock();
        content.row = 0;
        content.unserved = 0;
        let gone = (
            std::mem::take(&mut content.notices),
            std::mem::take(&mut content.chunks),
        );
        drop(content);
        drop(gone);
    }
}
