//! The batches of one partition, in the order of their first append.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::Uuid;

use crate::cluster::LinkId;
use crate::config::Config;
use crate::error::Error;
use crate::observe::Observed;
use crate::produce::batch::{Batch, BatchId, Open};
use crate::produce::stamp::{Identity, Numbering};

/// How long a batch waits for more records while its broker is busy, if `linger.ms` is not given.
const ADAPTIVE_LINGER: Duration = Duration::from_millis(5);

/// The batches that must be renumbered once no batch of a partition is in flight.
#[derive(Debug)]
pub(super) enum Renumber {
    None,
    /// All waiting batches: they are surely not in the log.
    All,
    /// The batches that were surely not written; the rest fails with this error.
    Unwritten(Error),
}

/// The state of one partition.
#[derive(Debug)]
pub(super) struct Queue<T> {
    pub(super) topic: Arc<str>,
    /// Zero if the broker does not return it.
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    pub(super) leader: Option<i32>,
    pub(super) open: Option<Open<T>>,
    pub(super) ready: VecDeque<Batch<T>>,
    pub(super) sent: VecDeque<Batch<T>>,
    /// The connection that carries what is in `sent`.
    pub(super) link: Option<LinkId>,
    /// A sent batch failed: nothing more is sent until `sent` is empty.
    pub(super) hold: bool,
    pub(super) renumber: Renumber,
    pub(super) retry_at: Option<Instant>,
    pub(super) failures: u32,
    pub(super) last_error: Option<Error>,
    pub(super) numbering: Numbering,
    /// Smaller than `batch.size` after the broker found a batch too large.
    pub(super) batch_limit: usize,
    /// The number of the last transaction that the partition joined.
    pub(super) joined: u64,
    /// The number of the last transaction that it requested to join.
    pub(super) asked_to_join: u64,
    /// Whether it is in the list of queues with something to do.
    pub(super) listed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(topic: Arc<str>, partition: i32, batch_limit: usize) -> Queue<T> {
        Queue {
            topic,
            topic_id: Uuid::ZERO,
            partition,
            leader: None,
            open: None,
            ready: VecDeque::new(),
            sent: VecDeque::new(),
            link: None,
            hold: false,
            renumber: Renumber::None,
            retry_at: None,
            failures: 0,
            last_error: None,
            numbering: Numbering::default(),
            batch_limit,
            joined: 0,
            asked_to_join: 0,
            listed: false,
        }
    }

    /// The error with the partition's name.
    pub(super) fn name(&self, error: Error) -> Error {
        error.with_partition(&self.topic, self.partition)
    }

    /// The event of a batch that is given to a connection.
    pub(super) fn sending(&self, batch: &Batch<T>) -> Observed {
        Observed::BatchSent {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            records: batch.count,
            bytes: batch.bytes,
            attempt: batch.attempts,
        }
    }

    /// Whether no batch is here, not even one that a request still owns.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.ready.is_empty() && self.sent.is_empty()
    }

    /// How many batches were not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len() + usize::from(self.open.is_some())
    }

    /// Whether none of its batches carries a number.
    pub(super) fn is_settled(&self) -> bool {
        self.sent.is_empty() && self.ready.iter().all(|batch| batch.stamp.is_none())
    }

    pub(super) fn renumber_all(&mut self) {
        if let Renumber::None = self.renumber {
            self.renumber = Renumber::All;
        }
    }

    pub(super) fn close_if_full(&mut self, more: usize) -> bool {
        let full = self
            .open
            .as_ref()
            .is_some_and(|open| open.builder.size() + more > self.batch_limit);
        if full {
            self.close_open();
        }
        full
    }

    pub(super) fn close_open(&mut self) {
        if let Some(open) = self.open.take() {
            self.ready.push_back(open.close());
        }
    }

    /// Whether a batch sent over `link` now would keep its place, alone or, if that may be, `beside` others.
    pub(super) fn may_send_on(&self, link: LinkId, beside: impl FnOnce() -> bool) -> bool {
        let alone = self.sent.is_empty();
        let follows = || {
            self.numbering.is_established()
                && self.link == Some(link)
                && !self.sent.iter().any(|batch| self.is_overtaken(batch))
                && beside()
        };
        !self.hold && (alone || follows())
    }

    /// Whether a later batch was acknowledged before this one. It is sent alone: the broker
    /// remembers five batches of a producer, and after more later batches, it would no longer
    /// recognize this one (simulation, `deposed` seed 15730255).
    pub(super) fn is_overtaken(&self, batch: &Batch<T>) -> bool {
        batch
            .stamp
            .is_some_and(|stamp| self.numbering.is_overtaken(stamp))
    }

    /// When the next batch may go; `idle` is whether no response of its broker is outstanding.
    pub(super) fn due(&self, config: &Config, idle: bool) -> Option<Instant> {
        if let Some(batch) = self.ready.front() {
            return Some(self.retry_at.unwrap_or(batch.created));
        }
        let open = self.open.as_ref()?;
        Some(match config.linger {
            Some(linger) => open.created + linger,
            None if idle => open.created,
            None => open.created + ADAPTIVE_LINGER,
        })
    }

    pub(super) fn oldest_undecided(&self) -> Option<Instant> {
        let sent = self
            .sent
            .iter()
            .find(|batch| !batch.decided)
            .map(|batch| batch.created);
        let ready = self.ready.front().map(|batch| batch.created);
        let open = self.open.as_ref().map(|open| open.created);
        [sent, ready, open].into_iter().flatten().min()
    }

    /// Whether no batch before this one is without a result at the broker.
    pub(super) fn is_first(&self, id: BatchId) -> bool {
        self.sent.front().is_some_and(|batch| batch.id == id)
            && self.ready.front().is_none_or(|batch| batch.id > id)
    }

    /// Whether a batch in flight follows one that was abandoned and may still arrive.
    pub(super) fn follows_gap(&self, batch: &Batch<T>) -> bool {
        let stamp = batch.stamp;
        stamp.is_some_and(|stamp| !self.numbering.follows_acknowledged(stamp))
    }

    /// Whether no number was given after those of this batch.
    pub(super) fn is_last_numbered(&self, batch: &Batch<T>) -> bool {
        let stamp = batch.stamp;
        stamp.is_none_or(|stamp| self.numbering.is_last(stamp, batch.count))
    }

    pub(super) fn sent_batch(&mut self, id: BatchId) -> Option<&mut Batch<T>> {
        self.sent.iter_mut().find(|batch| batch.id == id)
    }

    /// The id of the topic that a batch in flight was sent to.
    pub(super) fn topic_of(&self, id: BatchId) -> Option<Uuid> {
        let batch = self.sent.iter().find(|batch| batch.id == id)?;
        Some(batch.topic_id)
    }

    /// Takes over the topic's id. A topic that was recreated has a log that knows nothing of the producer.
    pub(super) fn belongs_to(&mut self, topic_id: Uuid) {
        if self.topic_id != topic_id && self.topic_id != Uuid::ZERO {
            self.numbering.log_is_new();
        }
        self.topic_id = topic_id;
    }

    /// Removes a batch from those in flight.
    pub(super) fn remove_sent(&mut self, id: BatchId) -> Option<Batch<T>> {
        let at = self.sent.iter().position(|batch| batch.id == id)?;
        self.sent.remove(at)
    }

    /// Puts a batch that was in flight back among the waiting ones, in its place.
    pub(super) fn put_back(&mut self, batch: Batch<T>) {
        let at = self.ready.partition_point(|other| other.id < batch.id);
        self.ready.insert(at, batch);
    }

    /// The first batch that waits, with its number, counted as one more attempt.
    pub(super) fn next_attempt(&mut self, identity: Option<Identity>) -> Option<Batch<T>> {
        let mut batch = self.ready.pop_front()?;
        if let (None, Some(identity)) = (batch.stamp, identity) {
            // `is_settled` looks at every waiting batch, which may be a hundred thousand.
            let settled = self.numbering.is_of_another(identity) && self.is_settled();
            batch.stamp = Some(self.numbering.stamp(identity, batch.count, settled));
        }
        batch.attempts += 1;
        batch.topic_id = self.topic_id;
        batch.leader = self.leader.unwrap_or(-1);
        Some(batch)
    }
}
