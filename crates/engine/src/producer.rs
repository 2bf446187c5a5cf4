//! Batches on their way to the partitions' leaders.
//!
//! ```text
//!            full, lingered, or its broker is idle          an answer is awaited
//!  append ─▶ open ─────────────────────────▶ ready ───────────────▶ sent ──▶ delivered
//!                                              ▲                     │ └────▶ failed
//!                                              └── in order, after ◀─┘
//!                                                  a pause: retry
//! ```
//!
//! Rules that keep records in order and single:
//! * A partition's batches are sent in the order of their first append, over one connection at a time. After a failure
//!   nothing more of the partition is sent until every batch under way has its answer; then all go again in order.
//! * With idempotence (KIP-98) a batch gets producer id, epoch and sequence when it is first sent and keeps them in every
//!   retry, so the broker can tell a repeat. Five requests in flight are what it remembers.
//! * A broker that has no record of a producer in a partition takes any sequence number. So until the first batch under an
//!   identity is acknowledged there, no second one is sent: were the first refused, the second would overtake it.
//! * A batch that was given up leaves a gap in the sequence. The broker answers the next one with
//!   OUT_OF_ORDER_SEQUENCE_NUMBER, which proves that it is not in the log; then the epoch is bumped (KIP-360) and what waits
//!   is numbered anew from 0. Nothing is ever numbered anew without such a proof.
//! * A request owns its batches' bytes until its answer or its connection's end, even if the batches were given up before.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::produce_response::PartitionProduceResponse;
use ottla_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};
use ottla_protocol::records::{self, BatchBuilder, BatchHeader, ProducerState};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::api::{Request, Response};
use crate::cluster::{Cluster, Lane, LinkId, Owner};
use crate::config::{Config, Partitioner};
use crate::connection::Outgoing;
use crate::engine::{Core, Dispatch, Engine, Failed, Work, closed_error};
use crate::error::{Error, Kind, Written};
use crate::operation::{Answer, OperationId};
use crate::partitioner;

/// How long a batch waits for more records while its broker is busy, if `linger.ms` is not given.
const ADAPTIVE_LINGER: Duration = Duration::from_millis(5);

/// Why a record was not appended.
#[derive(Debug)]
pub enum Refusal {
    /// The topic's partitions are not known yet: see [`Engine::want_topic`].
    UnknownTopic,
    /// The buffer is full until batches are delivered.
    Full,
    /// The record can never be sent.
    Failed(Error),
}

/// Where an appended record stands.
#[derive(Debug)]
pub struct Appended<'a, T> {
    /// What the batch was opened with.
    pub batch: &'a T,
    /// The record's index in the batch.
    pub index: u32,
}

/// The longest name that a topic can have.
const LONGEST_NAME: usize = 249;

/// Refuses a name that no topic can have because of its length.
///
/// # Errors
/// `Kind::Argument`, with the rule.
pub fn check_topic(name: &str) -> Result<(), Error> {
    match name.chars().count() {
        1..=LONGEST_NAME => Ok(()),
        length => {
            let text = format!(
                "a topic's name has 1 to {LONGEST_NAME} characters, and this one has {length}"
            );
            Err(Error::new(Kind::Argument, text)
                .topic_is(&name.into())
                .written_is(Written::No))
        }
    }
}

/// The fate of records of one batch.
#[derive(Debug)]
pub struct Done<T> {
    /// What the batch was opened with.
    pub batch: T,
    /// The first record's index in the batch.
    pub first: u32,
    /// How many records share this fate.
    pub count: u32,
    /// Where they are, or why not.
    pub result: Result<Stored, Error>,
}

/// Where a run of records was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The first record's offset; -1 if the broker did not say.
    pub base_offset: i64,
    /// The broker's time if the topic stamps records on append.
    pub log_append_time_ms: Option<i64>,
}

/// Producer id, epoch and first sequence number of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    identity: Identity,
    sequence: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    id: i64,
    epoch: i16,
}

/// How far the producer is with getting an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentityState {
    /// None yet, or the last one is of no use any more; `after` is when to ask.
    Wanted {
        after: Option<Instant>,
        failures: u32,
    },
    Asked {
        token: u64,
        failures: u32,
    },
    Known(Identity),
}

/// Orders the batches of a partition: the pieces of a split batch share its number and differ in their first record.
type BatchId = (u64, u32);

#[derive(Debug)]
struct Open<T> {
    number: u64,
    builder: BatchBuilder,
    user: T,
    created: Instant,
    bytes: usize,
    count: u32,
}

#[derive(Debug)]
struct Batch<T> {
    id: BatchId,
    data: Data,
    user: T,
    count: u32,
    created: Instant,
    /// Counted against `buffer.memory` until no request holds the batch any more.
    bytes: usize,
    attempts: u32,
    stamp: Option<Stamp>,
    /// An attempt was made whose outcome is not known.
    maybe_written: bool,
    /// The fate was reported already; what is left is the request that owns the bytes.
    decided: bool,
}

#[derive(Debug)]
enum Data {
    Building(BatchBuilder),
    /// Bytes with the stamp they were made with; set once the request was encoded.
    Built(Arc<OnceLock<Bytes>>, Option<Stamp>),
}

/// What must be numbered anew once nothing of a partition is under way.
#[derive(Debug)]
enum Renumber {
    None,
    /// All that waits: it is surely not in the log.
    All,
    /// What was surely not written; the rest fails with this.
    Unwritten(Error),
}

/// What is kept for one partition.
#[derive(Debug)]
struct Queue<T> {
    topic: Arc<str>,
    partition: i32,
    leader: Option<i32>,
    open: Option<Open<T>>,
    ready: VecDeque<Batch<T>>,
    sent: VecDeque<Batch<T>>,
    /// The connection that carries what is in `sent`.
    link: Option<LinkId>,
    /// A sent batch failed: nothing more is sent until `sent` is empty.
    hold: bool,
    renumber: Renumber,
    retry_at: Option<Instant>,
    failures: u32,
    last_error: Option<Error>,
    identity: Option<Identity>,
    /// The broker has acknowledged a batch under this identity.
    established: bool,
    next_sequence: i32,
    /// Smaller than `batch.size` after the broker found a batch too large.
    batch_limit: usize,
    /// Whether it is in the list of queues with something to do.
    listed: bool,
}

#[derive(Debug)]
struct TopicState {
    id: Uuid,
    /// Queues by partition number.
    queues: Vec<usize>,
    /// The partition that takes unkeyed records at the moment.
    current: usize,
}

#[derive(Debug)]
struct SentRequest {
    link: LinkId,
    batches: Vec<(usize, BatchId)>,
}

/// The producer's part of an [`Engine`]. `T` is what each batch is opened with, and comes back with its fate.
#[derive(Debug)]
pub struct Producer<T> {
    config: Arc<Config>,
    topics: FxHashMap<Arc<str>, TopicState>,
    wanted: FxHashMap<Arc<str>, ()>,
    queues: Vec<Queue<T>>,
    by_partition: FxHashMap<(Arc<str>, i32), usize>,
    listed: VecDeque<usize>,
    used: usize,
    identity: IdentityState,
    /// Why the last question for an identity failed.
    identity_error: Option<Error>,
    requests: FxHashMap<u64, SentRequest>,
    in_flight: FxHashMap<LinkId, usize>,
    next_number: u64,
    undecided: BTreeSet<BatchId>,
    done: VecDeque<Done<T>>,
    view_version: u64,
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Engine<Producer<T>> {
    /// A producer. `seed` drives everything that is left to chance.
    pub fn producer(config: Arc<Config>, seed: u64) -> Engine<Producer<T>> {
        let work = Producer {
            config: Arc::clone(&config),
            topics: FxHashMap::default(),
            wanted: FxHashMap::default(),
            queues: Vec::new(),
            by_partition: FxHashMap::default(),
            listed: VecDeque::new(),
            used: 0,
            identity: IdentityState::Wanted {
                after: None,
                failures: 0,
            },
            identity_error: None,
            requests: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            next_number: 0,
            undecided: BTreeSet::new(),
            done: VecDeque::new(),
            view_version: 0,
        };
        Engine::with_work(config, seed, work)
    }

    /// Makes the topic known; [`Engine::topic`] says when it is.
    pub fn want_topic(&mut self, now: Instant, name: &str) {
        if !self.work.wanted.contains_key(name) {
            let topic: Arc<str> = name.into();
            self.core.cluster.want(now, &topic);
            self.work.wanted.insert(topic, ());
        }
        self.settle(now);
    }

    /// Forgets a topic that never became known.
    pub fn give_up_topic(&mut self, name: &str) {
        if !self.work.topics.contains_key(name) && self.work.wanted.remove(name).is_some() {
            self.core.cluster.unwant(name);
        }
    }

    /// Encodes a record into the open batch of its partition. `make` gives what a new batch is opened with; `clock` is
    /// asked only then.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing was changed.
    #[allow(
        clippy::too_many_arguments,
        reason = "a record's parts, and two ways to make what is rarely needed"
    )]
    pub fn append<'a>(
        &mut self,
        clock: impl FnOnce() -> Instant,
        topic: &str,
        partition: Option<i32>,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Appended<'_, T>, Refusal> {
        if self.closed().is_some() {
            return Err(Refusal::Failed(closed_error()));
        }
        let work = &mut self.work;
        let Some(topic) = work.topics.get_mut(topic) else {
            return Err(Refusal::UnknownTopic);
        };
        let mut index = topic
            .choose(&work.queues, partition, key)
            .map_err(Refusal::Failed)?;

        let size = BatchBuilder::record_size_bound(key, value, headers.clone());
        let alone = size + BatchHeader::SIZE;
        let limit = work.config.max_request_size.min(work.config.buffer_memory);
        if alone > limit {
            let error = too_large(alone, limit, limit == work.config.max_request_size);
            return Err(Refusal::Failed(
                work.queues
                    .get(index)
                    .map_or(error.clone(), |queue| queue.name(error)),
            ));
        }
        if work.used + alone > work.config.buffer_memory {
            return Err(Refusal::Full);
        }

        let unkeyed = partition.is_none() && key.is_none();
        let mut closed = None;
        if work
            .queues
            .get_mut(index)
            .is_some_and(|queue| queue.close_if_full(size))
        {
            closed = Some(index);
            if unkeyed {
                index = topic.advance(&work.queues);
                if let Some(queue) = work.queues.get_mut(index) {
                    queue.close_if_full(size);
                }
            }
        }
        if unkeyed && work.config.partitioner == Partitioner::RoundRobin {
            topic.advance(&work.queues);
        }
        let Some(queue) = work.queues.get_mut(index) else {
            return Err(Refusal::UnknownTopic);
        };
        let fresh = queue.open.is_none();
        let now = (fresh || closed.is_some()).then(clock);
        if let (None, Some(now)) = (&queue.open, now) {
            work.next_number += 1;
            work.undecided.insert((work.next_number, 0));
            work.used += BatchHeader::SIZE;
            queue.open = Some(Open {
                number: work.next_number,
                builder: BatchBuilder::new(work.config.compression, work.config.compression_level),
                user: make(&queue.topic, queue.partition),
                created: now,
                bytes: BatchHeader::SIZE,
                count: 0,
            });
        }
        let Some(open) = &mut queue.open else {
            return Err(Refusal::Full);
        };
        open.builder
            .append(timestamp_ms, key, value, headers)
            .map_err(|cause| Refusal::Failed(Error::new(Kind::Argument, cause.to_string())))?;
        open.bytes += size;
        open.count += 1;
        work.used += size;
        if let Some(now) = now {
            for index in closed.into_iter().chain([index]) {
                self.stir(now, index);
            }
        }
        let open = self
            .work
            .queues
            .get(index)
            .and_then(|queue| queue.open.as_ref());
        open.map(|open| Appended {
            batch: &open.user,
            index: open.count - 1,
        })
        .ok_or(Refusal::Full)
    }

    /// The next fate that became known.
    pub fn poll_done(&mut self) -> Option<Done<T>> {
        self.work.done.pop_front()
    }

    /// Bytes of records that have no fate yet, or that a request still owns.
    pub fn buffered_bytes(&self) -> usize {
        self.work.used
    }

    /// Whether a record of `bytes` would be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.work.used == 0
            || self.work.used + bytes + BatchHeader::SIZE <= self.work.config.buffer_memory
    }

    /// Whether records of this topic can be appended.
    pub fn knows_topic(&self, name: &str) -> bool {
        self.work.topics.contains_key(name)
    }

    /// Lets everything go that lingers. The mark stands for all records appended so far.
    pub fn flush(&mut self, now: Instant) -> u64 {
        for queue in &mut self.work.queues {
            queue.close_open();
        }
        self.settle(now);
        self.work.next_number
    }

    /// Whether all records up to a mark have their fate.
    pub fn is_flushed(&self, mark: u64) -> bool {
        self.work
            .undecided
            .first()
            .is_none_or(|(number, _)| *number > mark)
    }

    /// Why records are still without a fate, as far as known; else whose they are.
    pub fn delay(&self) -> Option<Error> {
        if let Some(trouble) = self.trouble() {
            return Some(trouble);
        }
        let mut waiting = self
            .work
            .queues
            .iter()
            .filter(|queue| queue.oldest_undecided().is_some());
        let first = waiting.clone().next()?;
        let known = waiting.find_map(|queue| {
            let cause = self.work.why_waiting(&self.core.cluster, queue)?;
            Some(cause.partition_is(&queue.topic, queue.partition))
        });
        Some(known.unwrap_or_else(|| {
            Error::new(Kind::Timeout, "the broker has not answered yet")
                .partition_is(&first.topic, first.partition)
        }))
    }

    /// A batch was opened or closed: makes sure that somebody sends it.
    fn stir(&mut self, now: Instant, index: usize) {
        self.work.list(index);
        let Some(queue) = self.work.queues.get(index) else {
            return;
        };
        let cluster = &mut self.core.cluster;
        match queue
            .leader
            .and_then(|leader| cluster.up_link(leader, Lane::Control))
        {
            Some(link) if self.work.is_identified() => self.work.nudge(now, cluster, link, index),
            _ => self.settle(now),
        }
    }
}

impl<T: Clone> Producer<T> {
    fn list(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index) {
            if !queue.listed {
                queue.listed = true;
                self.listed.push_back(index);
            }
        }
    }

    fn is_identified(&self) -> bool {
        !self.config.idempotence || matches!(self.identity, IdentityState::Known(_))
    }

    fn in_flight_on(&self, link: LinkId) -> usize {
        self.in_flight.get(&link).copied().unwrap_or(0)
    }

    /// Wakes the link if this queue has something for it now, or sets the alarm for when it will have.
    fn nudge(&self, now: Instant, cluster: &mut Cluster, link: LinkId, index: usize) {
        let Some(queue) = self.queues.get(index) else {
            return;
        };
        let in_flight = self.in_flight_on(link);
        if in_flight >= self.config.max_in_flight || !queue.may_send_on(link) {
            return;
        }
        match queue.due(&self.config, in_flight == 0) {
            Some(at) if at > now => cluster.set_alarm(at),
            Some(_) => cluster.wake(link),
            None => {}
        }
    }

    /// Takes over what the view says about the topics in use.
    fn follow_view(&mut self, cluster: &mut Cluster) {
        if self.view_version == cluster.view_version() {
            return;
        }
        self.view_version = cluster.view_version();
        for name in self.wanted.keys() {
            let Some(known) = cluster.view().topic(name) else {
                if let Some(topic) = self.topics.get(name) {
                    for index in &topic.queues {
                        if let Some(queue) = self.queues.get_mut(*index) {
                            queue.leader = None;
                        }
                    }
                }
                continue;
            };
            let mut indexes = Vec::with_capacity(known.partitions.len());
            for (partition, _) in (0..).zip(&known.partitions) {
                let index = *self
                    .by_partition
                    .entry((Arc::clone(name), partition))
                    .or_insert_with(|| {
                        self.queues.push(Queue::new(
                            Arc::clone(name),
                            partition,
                            self.config.batch_size,
                        ));
                        self.queues.len() - 1
                    });
                if let Some(queue) = self.queues.get_mut(index) {
                    queue.leader = cluster
                        .view()
                        .leader(name, partition)
                        .map(|(leader, _)| leader);
                }
                indexes.push(index);
            }
            if indexes.is_empty() {
                continue;
            }
            match self.topics.get_mut(name) {
                Some(topic) => {
                    topic.id = known.id;
                    topic.queues = indexes;
                }
                None => {
                    let id = known.id;
                    let current = cluster.random.below(indexes.len());
                    let topic = TopicState {
                        id,
                        queues: indexes,
                        current,
                    };
                    self.topics.insert(Arc::clone(name), topic);
                }
            }
        }
    }

    /// Gets a producer id if one is needed and there is something to send.
    fn pump_identity(&mut self, now: Instant, cluster: &mut Cluster) {
        let IdentityState::Wanted { after, failures } = self.identity else {
            return;
        };
        if !self.config.idempotence || self.listed.is_empty() {
            return;
        }
        if let Some(after) = after.filter(|after| *after > now) {
            cluster.set_alarm(after);
            return;
        }
        let Some(link) = cluster.any_link(now) else {
            return;
        };
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        };
        let timeout = self.config.request_timeout;
        let token = cluster.ask(link, Owner::Work, Request::InitProducerId(request), timeout);
        self.identity = IdentityState::Asked { token, failures };
    }

    fn handle_identity(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        failures: u32,
        answer: &InitProducerIdResponse,
    ) {
        let code = ErrorCode(answer.error_code);
        if !code.is_error() {
            let identity = Identity {
                id: answer.producer_id,
                epoch: answer.producer_epoch,
            };
            self.identity = IdentityState::Known(identity);
            self.identity_error = None;
            return;
        }
        let mut error = Error::from_code(code, None).calling("InitProducerId");
        if let Some(address) = cluster.address_of(link) {
            error = error.at(address);
        }
        self.identity_failed(now, cluster, failures, &error);
    }

    fn identity_failed(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        failures: u32,
        error: &Error,
    ) {
        let failures = failures.saturating_add(1);
        let after = now + cluster.retry_pause(failures);
        cluster.set_alarm(after);
        self.identity = IdentityState::Wanted {
            after: Some(after),
            failures,
        };
        if !error.is_retriable() {
            let advice = if error.kind() == Kind::Unsupported {
                "no producer id for idempotence (the broker is too old for it: set enable.idempotence=false)"
            } else {
                "no producer id for idempotence"
            };
            let error = error.clone().wrap(error.kind(), advice);
            for index in self.listed.clone() {
                self.fail_waiting(index, &error);
            }
        }
        self.identity_error = Some(error.clone());
    }

    /// Fails what was not sent yet.
    fn fail_waiting(&mut self, index: usize, error: &Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        queue.close_open();
        for batch in std::mem::take(&mut queue.ready) {
            self.used -= batch.bytes;
            self.undecided.remove(&batch.id);
            self.done.push_back(batch.failed(queue.name(error.clone())));
        }
    }

    /// Fails batches that are older than `delivery.timeout.ms`, and asks to be called when the next one is.
    fn expire(&mut self, now: Instant, cluster: &mut Cluster, index: usize) {
        let timeout = self.config.delivery_timeout;
        let Some(queue) = self.queues.get(index) else {
            return;
        };
        let Some(oldest) = queue.oldest_undecided() else {
            return;
        };
        if oldest + timeout > now {
            cluster.set_alarm(oldest + timeout);
            return;
        }
        let text = format!(
            "not delivered within delivery.timeout.ms ({} ms)",
            timeout.as_millis()
        );
        let error = match self.why_waiting(cluster, queue) {
            Some(cause) => {
                let kind = if cause.kind() == Kind::Broker {
                    Kind::Broker
                } else {
                    Kind::Timeout
                };
                cause.wrap(kind, text)
            }
            None => Error::new(Kind::Timeout, text),
        };
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if queue
            .open
            .as_ref()
            .is_some_and(|open| open.created + timeout <= now)
        {
            queue.close_open();
        }
        while queue
            .ready
            .front()
            .is_some_and(|batch| batch.created + timeout <= now)
        {
            if let Some(batch) = queue.ready.pop_front() {
                self.used -= batch.bytes;
                self.undecided.remove(&batch.id);
                self.done.push_back(batch.failed(queue.name(error.clone())));
            }
        }
        for batch in &mut queue.sent {
            if !batch.decided && batch.created + timeout <= now {
                batch.decided = true;
                batch.maybe_written = true;
                self.undecided.remove(&batch.id);
                let error = Error::clone(&error).partition_is(&queue.topic, queue.partition);
                self.done.push_back(batch.fate(Err(
                    error.after(batch.attempts).written_is(Written::Unknown),
                )));
            }
        }
        if let Some(oldest) = queue.oldest_undecided() {
            cluster.set_alarm(oldest + timeout);
        }
    }

    fn why_waiting(&self, cluster: &Cluster, queue: &Queue<T>) -> Option<Error> {
        if let Some(trouble) = cluster.trouble() {
            return Some(trouble);
        }
        let Some(leader) = queue.leader else {
            let text = "the partition has no leader";
            let code = cluster
                .view()
                .problem(&queue.topic)
                .unwrap_or(ErrorCode::LEADER_NOT_AVAILABLE);
            return Some(Error::from_code(code, Some(text)));
        };
        cluster
            .failure_of(leader, Lane::Control)
            .or(queue.last_error.as_ref())
            .or(self.identity_error.as_ref())
            .cloned()
    }

    fn take_sent(&mut self, link: LinkId) {
        if let Some(count) = self.in_flight.get_mut(&link) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(&link);
            }
        }
    }

    fn handle_produce(
        &mut self,
        now: Instant,
        core: &mut Core,
        sent: &SentRequest,
        answer: &ProduceResponse,
    ) {
        let mut open: FxHashMap<usize, BatchId> = sent.batches.iter().copied().collect();
        let by_id: FxHashMap<Uuid, Arc<str>> = open
            .keys()
            .filter_map(|index| {
                let name = &self.queues.get(*index)?.topic;
                Some((self.topics.get(name)?.id, Arc::clone(name)))
            })
            .collect();
        for topic in &answer.responses {
            let name = match topic.topic_id {
                Uuid::ZERO => Some(Arc::from(&*topic.name)),
                id => by_id
                    .get(&id)
                    .or_else(|| core.cluster.view().name_of(id))
                    .cloned(),
            };
            let Some(name) = name else { continue };
            for row in &topic.partition_responses {
                let index = self.by_partition.get(&(Arc::clone(&name), row.index));
                let Some((index, id)) = index.and_then(|index| open.remove_entry(index)) else {
                    continue;
                };
                let leader = &row.current_leader;
                if leader.leader_id >= 0 {
                    core.cluster
                        .hint(&name, row.index, leader.leader_id, leader.leader_epoch);
                }
                self.decide(now, &mut core.cluster, sent.link, index, id, row);
            }
        }
        for (index, id) in open {
            let error =
                Error::new(Kind::Protocol, "the answer leaves out a partition").calling("Produce");
            self.retry(now, &mut core.cluster, index, id, error, true);
        }
    }

    /// One partition's answer.
    fn decide(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        index: usize,
        id: BatchId,
        row: &PartitionProduceResponse,
    ) {
        let code = ErrorCode(row.error_code);
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let first = queue.is_first(id);
        if !code.is_error() || code == ErrorCode::DUPLICATE_SEQUENCE_NUMBER {
            let Some(batch) = queue.take_sent(id) else {
                return;
            };
            queue.failures = 0;
            queue.retry_at = None;
            queue.last_error = None;
            queue.established = queue.identity.is_none()
                || batch.stamp.map(|stamp| stamp.identity) == queue.identity;
            let log_append_time_ms =
                (row.log_append_time_ms >= 0).then_some(row.log_append_time_ms);
            self.release(&batch);
            if !batch.decided {
                self.done.push_back(batch.fate(Ok(Stored {
                    base_offset: row.base_offset,
                    log_append_time_ms,
                })));
            }
            return self.sent_shrank(index);
        }
        let mut error = Error::from_code(code, row.error_message.as_deref()).calling("Produce");
        if let Some(address) = cluster.address_of(link) {
            error = error.at(address);
        }
        let count = queue
            .sent
            .iter()
            .find(|batch| batch.id == id)
            .map_or(0, |batch| batch.count);
        match code {
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE if count > 1 => {
                self.split(index, id, &error)
            }
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => {
                let text = "the broker's limit for the topic (max.message.bytes) is smaller than this record";
                self.fail(index, id, &error.wrap(Kind::TooLarge, text));
            }
            // A batch before this one failed, so this one cannot be next.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if !first => {
                self.retry(now, cluster, index, id, error, false)
            }
            // The broker remembers the last five batches and this is not one of them: it is surely not written.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => {
                if let Some(batch) = queue.sent.iter_mut().find(|batch| batch.id == id) {
                    batch.maybe_written = false;
                }
                queue.renumber_all();
                self.retry(now, cluster, index, id, error, false);
            }
            ErrorCode::UNKNOWN_PRODUCER_ID
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            | ErrorCode::PRODUCER_FENCED => {
                let unsure = queue
                    .sent
                    .iter()
                    .any(|batch| batch.id == id && batch.maybe_written);
                if unsure {
                    // Nor is anything known of the batches behind it that were sent before.
                    queue.renumber = Renumber::Unwritten(error.clone());
                    return self.fail(index, id, &error);
                }
                queue.renumber_all();
                self.retry(now, cluster, index, id, error, false);
            }
            _ if code.is_retriable() => {
                let unsure = matches!(
                    code,
                    ErrorCode::REQUEST_TIMED_OUT
                        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
                        | ErrorCode::NETWORK_EXCEPTION
                );
                if is_about_leader(code) {
                    // Not before the next view says who leads.
                    queue.leader = None;
                }
                cluster.refresh(now);
                self.retry(now, cluster, index, id, error, unsure);
            }
            _ => self.fail(index, id, &error),
        }
    }

    /// Puts a sent batch back in its place, or fails it if it has no attempt left.
    fn retry(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        index: usize,
        id: BatchId,
        error: Error,
        unsure: bool,
    ) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let Some(batch) = queue.sent.iter_mut().find(|batch| batch.id == id) else {
            return;
        };
        batch.maybe_written |= unsure;
        let spent = batch.attempts > self.config.retries;
        if batch.decided || spent || batch.created + self.config.delivery_timeout <= now {
            return self.fail(index, id, &error);
        }
        if let Some(batch) = queue.take_sent(id) {
            let at = queue.ready.partition_point(|other| other.id < id);
            queue.ready.insert(at, batch);
        }
        queue.hold = true;
        queue.failures = queue.failures.saturating_add(1);
        queue.last_error = Some(error);
        let at = now + cluster.retry_pause(queue.failures);
        queue.retry_at = Some(at);
        cluster.set_alarm(at);
        self.list(index);
        self.sent_shrank(index);
    }

    fn fail(&mut self, index: usize, id: BatchId, error: &Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if let Some(batch) = queue.take_sent(id) {
            let error = queue.name(error.clone());
            self.release(&batch);
            if !batch.decided {
                self.done.push_back(batch.failed(error));
            }
        }
        self.sent_shrank(index);
    }

    fn release(&mut self, batch: &Batch<T>) {
        self.used -= batch.bytes;
        self.undecided.remove(&batch.id);
    }

    /// Once no batch of a partition is under way, what failed may be sent again, with new numbers if need be.
    fn sent_shrank(&mut self, index: usize) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if !queue.sent.is_empty() {
            return;
        }
        queue.hold = false;
        queue.link = None;
        match std::mem::replace(&mut queue.renumber, Renumber::None) {
            Renumber::None => return,
            Renumber::All => {}
            Renumber::Unwritten(error) => {
                let (unsure, unwritten) = std::mem::take(&mut queue.ready)
                    .into_iter()
                    .partition::<VecDeque<_>, _>(|batch| batch.maybe_written);
                queue.ready = unwritten;
                for batch in unsure {
                    self.used -= batch.bytes;
                    self.undecided.remove(&batch.id);
                    self.done.push_back(batch.failed(queue.name(error.clone())));
                }
            }
        }
        for batch in &mut queue.ready {
            batch.stamp = None;
        }
        let used = queue.identity.take();
        if let IdentityState::Known(identity) = self.identity {
            if used == Some(identity) {
                self.identity = match identity.epoch.checked_add(1) {
                    Some(epoch) => IdentityState::Known(Identity { epoch, ..identity }),
                    None => IdentityState::Wanted {
                        after: None,
                        failures: 0,
                    },
                };
            }
        }
    }

    /// Makes two batches of one that the broker found too large, and smaller ones from now on.
    fn split(&mut self, index: usize, id: BatchId, error: &Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let Some(batch) = queue.take_sent(id) else {
            return;
        };
        if batch.decided {
            self.used -= batch.bytes;
            return self.sent_shrank(index);
        }
        queue.batch_limit = queue.batch_limit.min(batch.bytes / 2).max(1);
        self.used -= batch.bytes;
        self.undecided.remove(&batch.id);
        match batch.halves(&self.config) {
            Ok(halves) => {
                let at = queue.ready.partition_point(|other| other.id < id);
                for half in halves.into_iter().rev() {
                    self.used += half.bytes;
                    self.undecided.insert(half.id);
                    queue.ready.insert(at, half);
                }
                queue.hold = true;
                self.list(index);
            }
            Err(cause) => {
                let error = queue.name(error.clone().wrap(Kind::TooLarge, cause));
                self.done.push_back(batch.failed(error));
            }
        }
        self.sent_shrank(index);
    }
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Work for Producer<T> {
    fn handle_answer(
        &mut self,
        now: Instant,
        core: &mut Core,
        link: LinkId,
        token: u64,
        response: Response,
    ) {
        match response {
            Response::InitProducerId(answer) => {
                if let IdentityState::Asked {
                    token: asked,
                    failures,
                } = self.identity
                {
                    if asked == token {
                        self.handle_identity(now, &mut core.cluster, link, failures, &answer);
                    }
                }
            }
            Response::Produce(answer) => {
                if let Some(sent) = self.requests.remove(&token) {
                    self.take_sent(link);
                    self.handle_produce(now, core, &sent, &answer);
                }
            }
            _ => {}
        }
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, Failed(orphan): Failed) {
        if let IdentityState::Asked { token, failures } = self.identity {
            if token == orphan.token {
                let repeat = orphan.may_be_repeated();
                let error = orphan.error.retriable_is(repeat);
                self.identity_failed(now, &mut core.cluster, failures, &error);
                return;
            }
        }
        let Some(sent) = self.requests.remove(&orphan.token) else {
            return;
        };
        self.take_sent(sent.link);
        for (index, id) in sent.batches {
            if orphan.may_be_repeated() {
                self.retry(
                    now,
                    &mut core.cluster,
                    index,
                    id,
                    orphan.error.clone(),
                    orphan.sent,
                );
            } else {
                let queue = self.queues.get_mut(index);
                if let Some(batch) =
                    queue.and_then(|queue| queue.sent.iter_mut().find(|batch| batch.id == id))
                {
                    batch.maybe_written |= orphan.sent;
                }
                self.fail(index, id, &orphan.error);
            }
        }
    }

    fn handle_written(&mut self, now: Instant, core: &mut Core, token: u64) {
        let Some(sent) = self.requests.remove(&token) else {
            return;
        };
        self.take_sent(sent.link);
        for (index, id) in &sent.batches {
            let row = PartitionProduceResponse {
                base_offset: -1,
                ..Default::default()
            };
            self.decide(now, &mut core.cluster, sent.link, *index, *id, &row);
        }
        core.cluster.wake(sent.link);
    }

    fn handle_operation(
        &mut self,
        _: Instant,
        _: &mut Core,
        _: OperationId,
        _: Result<Answer, Error>,
    ) {
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        self.follow_view(&mut core.cluster);
        for _ in 0..self.listed.len() {
            let Some(index) = self.listed.pop_front() else {
                break;
            };
            self.expire(now, &mut core.cluster, index);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            if queue.open.is_none() && queue.ready.is_empty() && queue.sent.is_empty() {
                queue.listed = false;
                continue;
            }
            self.listed.push_back(index);
            let Some(leader) = queue.leader else {
                core.cluster.refresh(now);
                continue;
            };
            if let Some(link) = core.cluster.node_link(now, leader, Lane::Control) {
                if self.is_identified() {
                    self.nudge(now, &mut core.cluster, link, index);
                }
            }
        }
        self.pump_identity(now, &mut core.cluster);
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        let (node, Lane::Control) = core.cluster.node_of(link)? else {
            return None;
        };
        let in_flight = self.in_flight_on(link);
        if in_flight >= self.config.max_in_flight || !self.is_identified() {
            return None;
        }
        let mut chosen = Vec::new();
        let mut bytes = 0;
        let mut rest = self.listed.len();
        while rest > 0 && bytes < self.config.max_request_size {
            rest -= 1;
            let Some(index) = self.listed.pop_front() else {
                break;
            };
            self.listed.push_back(index);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            if queue.leader != Some(node) || !queue.may_send_on(link) {
                continue;
            }
            match queue.due(&self.config, in_flight == 0) {
                Some(at) if at <= now => {}
                Some(at) => {
                    core.cluster.set_alarm(at);
                    continue;
                }
                None => continue,
            }
            if queue.ready.is_empty() {
                queue.close_open();
                if let Some(topic) = self.topics.get_mut(&queue.topic) {
                    if topic.queues.get(topic.current) == Some(&index) {
                        topic.advance(&self.queues);
                    }
                }
            }
            let Some(size) = self
                .queues
                .get(index)
                .and_then(|queue| queue.ready.front())
                .map(|batch| batch.bytes)
            else {
                continue;
            };
            if bytes > 0 && bytes + size > self.config.max_request_size {
                // It was this one's turn: it keeps it.
                self.listed.pop_back();
                self.listed.push_front(index);
                break;
            }
            bytes += size;
            chosen.push(index);
        }
        if chosen.is_empty() {
            return None;
        }
        self.parcel(core, link, &chosen).map(Dispatch::Produce)
    }

    fn abort(&mut self, _: Instant, _: &mut Core, cause: &Error) {
        for index in 0..self.queues.len() {
            self.fail_waiting(index, cause);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            for batch in queue.sent.iter_mut().filter(|batch| !batch.decided) {
                batch.decided = true;
                batch.maybe_written = true;
                self.undecided.remove(&batch.id);
                let error = cause.clone().partition_is(&queue.topic, queue.partition);
                self.done.push_back(batch.fate(Err(
                    error.after(batch.attempts).written_is(Written::Unknown),
                )));
            }
        }
    }
}

impl<T: Clone> Producer<T> {
    /// Takes the first ready batch of each queue into one request.
    fn parcel(&mut self, core: &mut Core, link: LinkId, chosen: &[usize]) -> Option<Parcel> {
        let has_ids = chosen.iter().all(|index| {
            let topic = self
                .queues
                .get(*index)
                .and_then(|queue| self.topics.get(&queue.topic));
            topic.is_some_and(|topic| topic.id != Uuid::ZERO)
        });
        let version = match core.cluster.version(
            link,
            ApiKey::Produce,
            if has_ids { i16::MAX } else { 12 },
        ) {
            Ok(version) if version < 7 && self.config.compression == Compression::Zstd => {
                Err(Error::new(
                    Kind::Unsupported,
                    format!(
                        "compression.type=zstd needs a broker of 2.1 or newer (Produce 7; it speaks {version})"
                    ),
                ))
            }
            other => other,
        };
        let version = match version {
            Ok(version) => version,
            Err(error) => {
                for index in chosen {
                    self.fail_waiting(*index, &error);
                }
                return None;
            }
        };
        let token = core.cluster.token();
        let identity = match self.identity {
            IdentityState::Known(identity) if self.config.idempotence => Some(identity),
            _ => None,
        };
        let mut topics: Vec<ParcelTopic> = Vec::new();
        let mut batches = Vec::with_capacity(chosen.len());
        for index in chosen {
            let Some(queue) = self.queues.get_mut(*index) else {
                continue;
            };
            let Some(mut batch) = queue.ready.pop_front() else {
                continue;
            };
            if batch.stamp.is_none() {
                batch.stamp = identity.map(|identity| queue.stamp(identity, batch.count));
            }
            batch.attempts += 1;
            let load = batch.load();
            batches.push((*index, batch.id));
            queue.sent.push_back(batch);
            queue.link = Some(link);
            let part = (queue.partition, load);
            match topics.iter_mut().find(|topic| topic.name == queue.topic) {
                Some(topic) => topic.partitions.push(part),
                None => {
                    let id = self
                        .topics
                        .get(&queue.topic)
                        .map_or(Uuid::ZERO, |topic| topic.id);
                    topics.push(ParcelTopic {
                        name: Arc::clone(&queue.topic),
                        id,
                        partitions: vec![part],
                    });
                }
            }
        }
        self.requests.insert(token, SentRequest { link, batches });
        *self.in_flight.entry(link).or_insert(0) += 1;
        let (acks, timeout) = (self.config.acks, self.config.request_timeout);
        Some(Parcel {
            token,
            version,
            acks,
            timeout,
            topics,
        })
    }
}

impl TopicState {
    /// The queue of a record.
    fn choose<T>(
        &mut self,
        queues: &[Queue<T>],
        partition: Option<i32>,
        key: Option<&[u8]>,
    ) -> Result<usize, Error> {
        let count = self.queues.len();
        let position = match (partition, key) {
            (Some(partition), _) => {
                let position = usize::try_from(partition).unwrap_or(usize::MAX);
                if position >= count {
                    let text = format!(
                        "there is no partition {partition}: the topic has {count}, numbered from 0"
                    );
                    let error = Error::new(Kind::Argument, text).written_is(Written::No);
                    let topic = self
                        .queues
                        .first()
                        .and_then(|index| queues.get(*index))
                        .map(|queue| &queue.topic);
                    return Err(
                        topic.map_or(error.clone(), |topic| error.partition_is(topic, partition))
                    );
                }
                position
            }
            (None, Some(key)) => partitioner::of_key(key, count),
            (None, None) => self.current % count.max(1),
        };
        self.queues
            .get(position)
            .copied()
            .ok_or_else(|| Error::new(Kind::Argument, "the topic has no partitions"))
    }

    /// Lets unkeyed records go to the next partition that has a leader.
    fn advance<T>(&mut self, queues: &[Queue<T>]) -> usize {
        let count = self.queues.len().max(1);
        let has_leader = |position: &usize| {
            let queue = self
                .queues
                .get(*position)
                .and_then(|index| queues.get(*index));
            queue.is_some_and(|queue| queue.leader.is_some())
        };
        let next = (self.current + 1) % count;
        self.current = (0..count)
            .map(|step| (next + step) % count)
            .find(has_leader)
            .unwrap_or(next);
        self.queues.get(self.current).copied().unwrap_or(usize::MAX)
    }
}

impl<T> Queue<T> {
    fn new(topic: Arc<str>, partition: i32, batch_limit: usize) -> Queue<T> {
        Queue {
            topic,
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
            identity: None,
            established: false,
            next_sequence: 0,
            batch_limit,
            listed: false,
        }
    }

    fn name(&self, error: Error) -> Error {
        error.partition_is(&self.topic, self.partition)
    }

    fn renumber_all(&mut self) {
        if let Renumber::None = self.renumber {
            self.renumber = Renumber::All;
        }
    }

    fn close_if_full(&mut self, more: usize) -> bool {
        let full = self
            .open
            .as_ref()
            .is_some_and(|open| open.builder.size() + more > self.batch_limit);
        if full {
            self.close_open();
        }
        full
    }

    fn close_open(&mut self) {
        if let Some(open) = self.open.take() {
            self.ready.push_back(Batch {
                id: (open.number, 0),
                data: Data::Building(open.builder),
                user: open.user,
                count: open.count,
                created: open.created,
                bytes: open.bytes,
                attempts: 0,
                stamp: None,
                maybe_written: false,
                decided: false,
            });
        }
    }

    /// Whether a batch sent over `link` now would keep its place.
    fn may_send_on(&self, link: LinkId) -> bool {
        let alone = self.sent.is_empty();
        let established = self.established || self.identity.is_none();
        !self.hold && (alone || (established && self.link == Some(link)))
    }

    /// When the next batch may go; `idle` says that its broker owes no answer.
    fn due(&self, config: &Config, idle: bool) -> Option<Instant> {
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

    fn oldest_undecided(&self) -> Option<Instant> {
        let sent = self
            .sent
            .iter()
            .find(|batch| !batch.decided)
            .map(|batch| batch.created);
        let ready = self.ready.front().map(|batch| batch.created);
        let open = self.open.as_ref().map(|open| open.created);
        [sent, ready, open].into_iter().flatten().min()
    }

    /// Whether no batch before this one is without a fate at the broker.
    fn is_first(&self, id: BatchId) -> bool {
        self.sent.front().is_some_and(|batch| batch.id == id)
            && self.ready.front().is_none_or(|batch| batch.id > id)
    }

    fn take_sent(&mut self, id: BatchId) -> Option<Batch<T>> {
        let at = self.sent.iter().position(|batch| batch.id == id)?;
        self.sent.remove(at)
    }

    /// Numbers the next `count` records.
    fn stamp(&mut self, identity: Identity, count: u32) -> Stamp {
        // An identity is taken over only when nothing that carries the old one is left.
        let settled = self.sent.is_empty() && self.ready.iter().all(|batch| batch.stamp.is_none());
        if self.identity.is_none() || (settled && self.identity != Some(identity)) {
            self.identity = Some(identity);
            self.established = false;
            self.next_sequence = 0;
        }
        let stamp = Stamp {
            identity: self.identity.unwrap_or(identity),
            sequence: self.next_sequence,
        };
        self.next_sequence = plus(self.next_sequence, count);
        stamp
    }
}

/// Sequence numbers go from 0 to the largest int32, and then from 0 again.
fn plus(sequence: i32, count: u32) -> i32 {
    let sum = (i64::from(sequence) + i64::from(count)) % (i64::from(i32::MAX) + 1);
    i32::try_from(sum).unwrap_or(0)
}

/// Whether an error means that the view of who leads is old.
fn is_about_leader(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::KAFKA_STORAGE_ERROR
    )
}

fn too_large(size: usize, limit: usize, by_request: bool) -> Error {
    let name = if by_request {
        "max.request.size"
    } else {
        "buffer.memory"
    };
    let text = format!(
        "a record of {size} bytes is larger than {name} ({limit}): raise it, or send less at once"
    );
    Error::new(Kind::TooLarge, text).written_is(Written::No)
}

impl<T: Clone> Batch<T> {
    fn fate(&self, result: Result<Stored, Error>) -> Done<T> {
        Done {
            batch: self.user.clone(),
            first: self.id.1,
            count: self.count,
            result,
        }
    }

    fn failed(&self, error: Error) -> Done<T> {
        let written = if self.maybe_written {
            Written::Unknown
        } else {
            Written::No
        };
        self.fate(Err(error.after(self.attempts).written_is(written)))
    }

    /// The bytes to send, or how to make them; from now on they are kept for a repeat.
    fn load(&mut self) -> Load {
        let cell = Arc::new(OnceLock::new());
        let built = Data::Built(Arc::clone(&cell), self.stamp);
        let source = match std::mem::replace(&mut self.data, built) {
            Data::Building(builder) => Source::Builder(builder),
            Data::Built(before, stamp) if stamp == self.stamp => {
                self.data = Data::Built(Arc::clone(&before), stamp);
                return Load {
                    source: Source::Bytes(before.get().cloned()),
                    cell: before,
                    stamp: self.stamp,
                };
            }
            Data::Built(before, _) => Source::Renumber(before.get().cloned()),
        };
        Load {
            source,
            cell,
            stamp: self.stamp,
        }
    }

    /// Two batches with half of the records each.
    fn halves(&self, config: &Config) -> Result<[Batch<T>; 2], String> {
        let Data::Built(cell, _) = &self.data else {
            return Err("the batch was never sent".to_owned());
        };
        let bytes = cell.get().cloned().ok_or("the batch was never sent")?;
        let batch = records::batches(bytes)
            .next()
            .ok_or("the batch is empty")?
            .map_err(|cause| cause.to_string())?;
        let new_builder = || BatchBuilder::new(config.compression, config.compression_level);
        let mut builders = [new_builder(), new_builder()];
        let half = self.count / 2;
        let payload = batch
            .payload(usize::MAX)
            .map_err(|cause| cause.to_string())?;
        for (record, index) in batch
            .records(&payload)
            .map_err(|cause| cause.to_string())?
            .zip(0..)
        {
            let record = record.map_err(|cause| cause.to_string())?;
            let [first, second] = &mut builders;
            let builder = if index < half { first } else { second };
            builder
                .append(record.timestamp, record.key, record.value, record.headers())
                .map_err(|cause| cause.to_string())?;
        }
        let piece = |builder: BatchBuilder, skip: u32, count: u32| Batch {
            id: (self.id.0, self.id.1 + skip),
            bytes: builder.size(),
            data: Data::Building(builder),
            user: self.user.clone(),
            count,
            created: self.created,
            attempts: self.attempts,
            // The records keep their numbers.
            stamp: self.stamp.map(|stamp| Stamp {
                sequence: plus(stamp.sequence, skip),
                ..stamp
            }),
            maybe_written: self.maybe_written,
            decided: false,
        };
        let [first, second] = builders;
        Ok([
            piece(first, 0, half),
            piece(second, half, self.count - half),
        ])
    }
}

/// A Produce request whose batches still have to be finished, which takes time and needs no engine.
#[derive(Debug)]
pub struct Parcel {
    token: u64,
    version: i16,
    acks: i16,
    timeout: Duration,
    topics: Vec<ParcelTopic>,
}

#[derive(Debug)]
struct ParcelTopic {
    name: Arc<str>,
    id: Uuid,
    partitions: Vec<(i32, Load)>,
}

#[derive(Debug)]
struct Load {
    source: Source,
    cell: Arc<OnceLock<Bytes>>,
    stamp: Option<Stamp>,
}

#[derive(Debug)]
enum Source {
    Builder(BatchBuilder),
    Bytes(Option<Bytes>),
    Renumber(Option<Bytes>),
}

impl Parcel {
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Compresses and sums what is new, and makes the request.
    pub(crate) fn finish(self) -> Result<Outgoing, Error> {
        let Parcel {
            token,
            version,
            acks,
            timeout,
            topics,
        } = self;
        let topic_data = topics
            .into_iter()
            .map(|topic| {
                let partition_data = topic
                    .partitions
                    .into_iter()
                    .map(|(index, load)| {
                        let records = load
                            .finish()
                            .map_err(|error| error.partition_is(&topic.name, index))?;
                        Ok(PartitionProduceData {
                            index,
                            records: Some(records),
                            ..Default::default()
                        })
                    })
                    .collect::<Result<_, Error>>()?;
                let name = (&*topic.name).into();
                Ok(TopicProduceData {
                    name,
                    topic_id: topic.id,
                    partition_data,
                    ..Default::default()
                })
            })
            .collect::<Result<_, Error>>()?;
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let request = Request::Produce(ProduceRequest {
            acks,
            timeout_ms,
            topic_data,
            ..Default::default()
        });
        Ok(Outgoing {
            token,
            request,
            version,
            timeout,
            answered: acks != 0,
            expected_bytes: 0,
        })
    }
}

impl Load {
    fn finish(self) -> Result<Bytes, Error> {
        let state = self
            .stamp
            .map_or(ProducerState::NONE, |stamp| ProducerState {
                producer_id: stamp.identity.id,
                epoch: stamp.identity.epoch,
                base_sequence: stamp.sequence,
            });
        let lost = || {
            Error::new(
                Kind::Argument,
                "an earlier attempt to encode the batch failed",
            )
        };
        let bytes = match self.source {
            Source::Builder(mut builder) => builder.finish(state).map_err(|cause| {
                Error::new(
                    Kind::Argument,
                    format!("the batch does not encode: {cause}"),
                )
            })?,
            Source::Bytes(bytes) => return bytes.ok_or_else(lost),
            Source::Renumber(bytes) => {
                let mut bytes = bytes::BytesMut::from(&bytes.ok_or_else(lost)?[..]);
                records::set_producer_state(&mut bytes, state).map_err(|cause| {
                    Error::new(
                        Kind::Argument,
                        format!("the batch does not encode: {cause}"),
                    )
                })?;
                bytes.freeze()
            }
        };
        // The cell is fresh: nobody else has set it.
        Ok(self.cell.get_or_init(|| bytes).clone())
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::produce_response::{LeaderIdAndEpoch, TopicProduceResponse};
    use ottla_protocol::records::batches;

    use super::*;
    use crate::config::Role;
    use crate::script::{Asked, Script, config};

    type Sender = Script<Producer<i32>>;

    /// One partition of a Produce request, as a broker sees it.
    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        partition: i32,
        epoch: i16,
        sequence: i32,
        values: Vec<String>,
    }

    fn sender(pairs: &[(&'static str, &'static str)]) -> Sender {
        let mut script = Script::new(Engine::producer(config(Role::Producer, pairs), 7));
        script.engine.want_topic(script.now, "t");
        script.run();
        assert!(script.engine.knows_topic("t"));
        script
    }

    /// A producer whose first record of each partition was acknowledged.
    fn established(pairs: &[(&'static str, &'static str)]) -> Sender {
        let mut script = sender(pairs);
        for partition in 0..2 {
            send(&mut script, partition, "0");
            let first = one(script.pass(Duration::from_millis(5)));
            reply(&mut script, &first, ErrorCode::NONE, 0);
        }
        fates(&mut script);
        script
    }

    fn try_send(script: &mut Sender, partition: i32, value: &str) -> Result<u32, Refusal> {
        let now = script.now;
        let headers = std::iter::empty();
        let (value, make) = (Some(value.as_bytes()), |_: &Arc<str>, partition| partition);
        let appended =
            script
                .engine
                .append(|| now, "t", Some(partition), 1, None, value, headers, make);
        appended.map(|appended| appended.index)
    }

    fn send(script: &mut Sender, partition: i32, value: &str) {
        try_send(script, partition, value).unwrap();
    }

    fn seen(asked: &Asked) -> Vec<Seen> {
        let Request::Produce(request) = &asked.request else {
            panic!("not a Produce")
        };
        let parts = request
            .topic_data
            .iter()
            .flat_map(|topic| &topic.partition_data);
        parts
            .map(|part| {
                let batch = batches(part.records.clone().unwrap())
                    .next()
                    .unwrap()
                    .unwrap();
                batch.verify_crc().unwrap();
                let payload = batch.payload(1 << 20).unwrap();
                let records = batch
                    .records(&payload)
                    .unwrap()
                    .map(|record| record.unwrap().value.unwrap().to_vec());
                Seen {
                    partition: part.index,
                    epoch: batch.header.producer_epoch,
                    sequence: batch.header.base_sequence,
                    values: records
                        .map(|value| String::from_utf8(value).unwrap())
                        .collect(),
                }
            })
            .collect()
    }

    fn values(asked: &[Asked]) -> Vec<Vec<String>> {
        asked
            .iter()
            .flat_map(seen)
            .map(|seen| seen.values)
            .collect()
    }

    fn reply(script: &mut Sender, asked: &Asked, code: ErrorCode, base_offset: i64) {
        let Request::Produce(request) = &asked.request else {
            panic!("not a Produce")
        };
        let responses = request
            .topic_data
            .iter()
            .map(|topic| TopicProduceResponse {
                topic_id: topic.topic_id,
                partition_responses: topic
                    .partition_data
                    .iter()
                    .map(|part| PartitionProduceResponse {
                        index: part.index,
                        error_code: code.0,
                        base_offset,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        script.answer(
            asked,
            Response::Produce(ProduceResponse {
                responses,
                ..Default::default()
            }),
        );
    }

    fn fates(script: &mut Sender) -> Vec<(i32, u32, u32, Result<i64, Error>)> {
        std::iter::from_fn(|| script.engine.poll_done())
            .map(|done| {
                (
                    done.batch,
                    done.first,
                    done.count,
                    done.result.map(|stored| stored.base_offset),
                )
            })
            .collect()
    }

    fn one(asked: Vec<Asked>) -> Asked {
        let mut asked = asked;
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }

    #[test]
    fn the_first_record_leaves_at_once_and_the_next_ones_together() {
        let mut script = sender(&[]);
        send(&mut script, 0, "a");
        let first = one(script.run());
        assert_eq!(script.address(first.link), "b1");
        assert_eq!(
            seen(&first),
            [Seen {
                partition: 0,
                epoch: 0,
                sequence: 0,
                values: vec!["a".into()]
            }]
        );
        for value in ["b", "c"] {
            send(&mut script, 0, value);
        }
        assert!(script.run().is_empty());
        reply(&mut script, &first, ErrorCode::NONE, 40);
        assert_eq!(fates(&mut script), [(0, 0, 1, Ok(40))]);
        let second = one(script.run());
        assert_eq!(
            seen(&second),
            [Seen {
                partition: 0,
                epoch: 0,
                sequence: 1,
                values: vec!["b".into(), "c".into()]
            }]
        );
        reply(&mut script, &second, ErrorCode::NONE, 41);
        assert_eq!(fates(&mut script), [(0, 0, 2, Ok(41))]);
        assert_eq!(script.engine.buffered_bytes(), 0);
    }

    #[test]
    fn a_busy_broker_gets_the_next_batch_after_five_milliseconds() {
        let mut script = established(&[]);
        send(&mut script, 0, "a");
        one(script.run());
        send(&mut script, 0, "b");
        assert!(script.pass(Duration::from_millis(4)).is_empty());
        assert_eq!(values(&script.pass(Duration::from_millis(1))), [["b"]]);
    }

    #[test]
    fn linger_is_waited_for_when_it_is_given() {
        let mut script = sender(&[("linger.ms", "50")]);
        send(&mut script, 0, "a");
        assert!(script.pass(Duration::from_millis(49)).is_empty());
        send(&mut script, 0, "b");
        assert_eq!(values(&script.pass(Duration::from_millis(1))), [["a", "b"]]);
    }

    #[test]
    fn a_full_batch_does_not_wait_and_in_flight_is_bounded() {
        let mut script = established(&[
            ("batch.size", "100"),
            ("max.in.flight.requests.per.connection", "2"),
        ]);
        for value in ["a", "b", "c", "d"] {
            send(&mut script, 0, &value.repeat(60));
        }
        let sent = script.run();
        assert_eq!(sent.len(), 2);
        reply(&mut script, &sent[0], ErrorCode::NONE, 0);
        assert_eq!(script.run().len(), 1);
    }

    #[test]
    fn batches_of_one_broker_share_a_request() {
        let mut script = sender(&[("linger.ms", "5")]);
        script.topics = vec![("t", vec![1, 1, 2])];
        script.engine.core.cluster.refresh(script.now);
        script.pass(Duration::from_secs(1));
        for partition in 0..3 {
            send(&mut script, partition, "x");
        }
        let sent = script.pass(Duration::from_millis(5));
        let mut shape: Vec<_> = sent.iter().map(|asked| seen(asked).len()).collect();
        shape.sort_unstable();
        assert_eq!(shape, [1, 2]);
    }

    #[test]
    fn a_retry_keeps_order_and_sequence() {
        let mut script = established(&[("batch.size", "100")]);
        for value in ["a", "b", "c"] {
            send(&mut script, 0, &value.repeat(60));
        }
        script.engine.flush(script.now);
        let sent = script.run();
        let first_try: Vec<_> = sent.iter().flat_map(seen).collect();
        assert_eq!(
            first_try
                .iter()
                .map(|seen| seen.sequence)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
        reply(&mut script, &sent[0], ErrorCode::NOT_ENOUGH_REPLICAS, -1);
        assert!(
            script.pass(Duration::from_secs(5)).is_empty(),
            "nothing goes before the others are answered"
        );
        for asked in &sent[1..] {
            reply(
                &mut script,
                asked,
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
                -1,
            );
        }
        let again = script.pass(Duration::from_secs(5));
        assert_eq!(again.iter().flat_map(seen).collect::<Vec<_>>(), first_try);
        for (asked, offset) in again.iter().zip(0..) {
            reply(&mut script, asked, ErrorCode::NONE, offset);
        }
        assert_eq!(
            fates(&mut script),
            [(0, 0, 1, Ok(0)), (0, 0, 1, Ok(1)), (0, 0, 1, Ok(2))]
        );
    }

    #[test]
    fn nothing_overtakes_the_first_batch_of_a_partition() {
        let mut script = sender(&[("batch.size", "100")]);
        for value in ["a", "b"] {
            send(&mut script, 0, &value.repeat(60));
        }
        script.engine.flush(script.now);
        let first = one(script.run());
        reply(
            &mut script,
            &first,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            -1,
        );
        let again = one(script.pass(Duration::from_secs(3)));
        assert_eq!(seen(&again), seen(&first));
        reply(&mut script, &again, ErrorCode::NONE, 0);
        assert_eq!(seen(&one(script.run()))[0].sequence, 1);
    }

    #[test]
    fn a_broken_connection_is_a_retry_and_a_repeat_is_a_success() {
        let mut script = sender(&[]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        script.cut(asked.link);
        let again = one(script.pass(Duration::from_secs(3)));
        assert_eq!(seen(&again), seen(&asked));
        reply(
            &mut script,
            &again,
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
            -1,
        );
        assert_eq!(fates(&mut script), [(0, 0, 1, Ok(-1))]);
    }

    #[test]
    fn a_moved_leader_gets_the_batch() {
        let mut script = sender(&[]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        script.topics = vec![("t", vec![2, 2])];
        reply(&mut script, &asked, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
        let again = one(script.pass(Duration::from_secs(3)));
        assert_eq!(script.address(again.link), "b2");
        assert_eq!(seen(&again), seen(&asked));
    }

    #[test]
    fn a_hint_names_the_new_leader_without_a_question() {
        let mut script = sender(&[]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        let row = PartitionProduceResponse {
            index: 0,
            error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
            current_leader: LeaderIdAndEpoch {
                leader_id: 2,
                leader_epoch: 9,
                ..Default::default()
            },
            ..Default::default()
        };
        let Request::Produce(request) = &asked.request else {
            panic!()
        };
        let topic_id = request.topic_data[0].topic_id;
        let responses = vec![TopicProduceResponse {
            topic_id,
            partition_responses: vec![row],
            ..Default::default()
        }];
        script.answer(
            &asked,
            Response::Produce(ProduceResponse {
                responses,
                ..Default::default()
            }),
        );
        assert_eq!(script.engine.metadata().leader("t", 0), Some((2, 9)));
        let again = one(script.pass(Duration::from_secs(1)));
        assert_eq!(script.address(again.link), "b2");
    }

    #[test]
    fn after_a_gap_the_epoch_is_bumped_and_numbers_begin_anew() {
        let mut script = established(&[("batch.size", "100")]);
        for value in ["a", "b"] {
            send(&mut script, 0, &value.repeat(60));
        }
        script.engine.flush(script.now);
        let sent = script.run();
        reply(&mut script, &sent[0], ErrorCode::INVALID_RECORD, -1);
        reply(
            &mut script,
            &sent[1],
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            -1,
        );
        let again = one(script.pass(Duration::from_secs(3)));
        assert_eq!((seen(&again)[0].epoch, seen(&again)[0].sequence), (1, 0));
        reply(&mut script, &again, ErrorCode::NONE, 9);
        let fates = fates(&mut script);
        assert_eq!(
            fates[0].3.as_ref().unwrap_err().code(),
            Some(ErrorCode::INVALID_RECORD)
        );
        assert_eq!(
            fates[0].3.as_ref().unwrap_err().written(),
            Some(Written::No)
        );
        assert_eq!(fates[1].3, Ok(9));
        send(&mut script, 0, "c");
        assert_eq!(seen(&one(script.run()))[0].sequence, 1);
    }

    #[test]
    fn why_there_is_no_producer_id_is_said() {
        let mut script = sender(&[]);
        script.producer_id_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
        send(&mut script, 0, "a");
        assert!(script.pass(Duration::from_secs(120)).is_empty());
        let error = fates(&mut script).remove(0).3.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
        assert_eq!(error.api(), Some("InitProducerId"));
        assert!(error.broker().is_some() && error.partition() == Some(0));
        assert_eq!(error.written(), Some(Written::No));
    }

    #[test]
    fn what_may_be_written_is_never_numbered_anew_without_proof() {
        let mut script = established(&[("linger.ms", "0")]);
        for value in ["a", "b"] {
            send(&mut script, 0, value);
            let asked = one(script.run());
            if value == "b" {
                script.cut(asked.link);
            }
        }
        let again = script.pass(Duration::from_secs(1));
        assert_eq!(values(&again), [["a"], ["b"]]);
        reply(&mut script, &again[0], ErrorCode::UNKNOWN_PRODUCER_ID, -1);
        send(&mut script, 0, "c");
        script.cut(again[1].link);
        let rest = one(script.pass(Duration::from_secs(2)));
        assert_eq!(
            seen(&rest),
            [Seen {
                partition: 0,
                epoch: 1,
                sequence: 0,
                values: vec!["c".into()]
            }]
        );
        let written: Vec<_> = fates(&mut script)
            .into_iter()
            .map(|(_, _, _, result)| result.unwrap_err().written())
            .collect();
        assert_eq!(written, [Some(Written::Unknown), Some(Written::Unknown)]);
    }

    #[test]
    fn a_batch_is_given_up_in_time_and_says_what_is_known() {
        let mut script = sender(&[
            ("delivery.timeout.ms", "40000"),
            ("request.timeout.ms", "30000"),
        ]);
        send(&mut script, 0, "sent");
        one(script.run());
        send(&mut script, 1, "kept");
        let other = one(script.run());
        reply(&mut script, &other, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
        script.dead.push("b2".to_owned());
        script.cut(other.link);
        script.pass(Duration::from_secs(39));
        assert!(fates(&mut script).is_empty());
        script.pass(Duration::from_secs(1));
        let fates = fates(&mut script);
        assert_eq!(fates.len(), 2);
        for (partition, _, _, result) in fates {
            let error = result.unwrap_err();
            let written = if partition == 0 {
                Written::Unknown
            } else {
                Written::No
            };
            assert_eq!(
                (error.written(), error.partition()),
                (Some(written), Some(partition)),
                "{error}"
            );
            assert!(
                error.message().contains("delivery.timeout.ms (40000 ms)"),
                "{error}"
            );
        }
        assert!(script.engine.is_flushed(u64::MAX));
        assert!(
            script.engine.buffered_bytes() > 0,
            "the request still owns its bytes"
        );
    }

    #[test]
    fn a_late_answer_to_a_batch_that_was_given_up_changes_nothing() {
        let mut script = sender(&[("delivery.timeout.ms", "30000")]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        script.pass(Duration::from_secs(30));
        assert_eq!(fates(&mut script).len(), 1);
        reply(&mut script, &asked, ErrorCode::NONE, 3);
        assert!(fates(&mut script).is_empty());
        assert_eq!(script.engine.buffered_bytes(), 0);
    }

    #[test]
    fn a_batch_too_large_is_halved_and_later_ones_are_smaller() {
        let mut script = established(&[("linger.ms", "5")]);
        for value in ["a", "b", "c"] {
            send(&mut script, 0, &value.repeat(200));
        }
        let asked = one(script.pass(Duration::from_millis(5)));
        reply(&mut script, &asked, ErrorCode::MESSAGE_TOO_LARGE, -1);
        let halves = script.pass(Duration::from_secs(1));
        let parts: Vec<_> = halves.iter().flat_map(seen).collect();
        assert_eq!(
            parts
                .iter()
                .map(|part| (part.sequence, part.values.len()))
                .collect::<Vec<_>>(),
            [(1, 1), (2, 2)]
        );
        for (asked, offset) in halves.iter().zip([10, 11]) {
            reply(&mut script, asked, ErrorCode::NONE, offset);
        }
        assert_eq!(fates(&mut script), [(0, 0, 1, Ok(10)), (0, 1, 2, Ok(11))]);
        for value in ["d", "e", "f"] {
            send(&mut script, 0, &value.repeat(200));
        }
        assert!(
            script.pass(Duration::from_millis(5)).len() > 1,
            "batches are smaller now"
        );
        assert!(script.engine.is_flushed(0));
    }

    #[test]
    fn a_single_record_too_large_for_the_broker_fails() {
        let mut script = sender(&[]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        reply(&mut script, &asked, ErrorCode::MESSAGE_TOO_LARGE, -1);
        let error = fates(&mut script).remove(0).3.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (Kind::TooLarge, Some(ErrorCode::MESSAGE_TOO_LARGE))
        );
        assert!(error.message().contains("max.message.bytes"), "{error}");
    }

    #[test]
    fn a_record_too_large_is_refused_before_the_wire() {
        let mut script = sender(&[("max.request.size", "1000"), ("batch.size", "500")]);
        let Err(Refusal::Failed(error)) = try_send(&mut script, 0, &"x".repeat(1000)) else {
            panic!("taken")
        };
        assert_eq!(
            (error.kind(), error.written()),
            (Kind::TooLarge, Some(Written::No))
        );
        assert!(
            error.message().contains("max.request.size (1000)"),
            "{error}"
        );
        assert_eq!(script.engine.buffered_bytes(), 0);
        let Err(Refusal::Failed(error)) = try_send(&mut script, 2, "x") else {
            panic!("taken")
        };
        assert!(error.message().contains("the topic has 2"), "{error}");
    }

    #[test]
    fn the_buffer_is_bounded_and_frees_itself() {
        let mut script = sender(&[("buffer.memory", "1000"), ("batch.size", "900")]);
        send(&mut script, 0, &"x".repeat(700));
        assert!(matches!(
            try_send(&mut script, 0, &"x".repeat(300)),
            Err(Refusal::Full)
        ));
        assert!(!script.engine.has_room(300));
        let asked = one(script.run());
        reply(&mut script, &asked, ErrorCode::NONE, 0);
        send(&mut script, 0, &"x".repeat(300));
    }

    #[test]
    fn without_acknowledgement_a_record_is_done_when_it_is_written() {
        let mut script = sender(&[("acks", "0")]);
        send(&mut script, 0, "a");
        let asked = one(script.run());
        assert_eq!(seen(&asked)[0].sequence, -1);
        script.engine.handle(
            script.now,
            asked.link,
            crate::engine::Event::Written { token: asked.token },
        );
        assert_eq!(fates(&mut script), [(0, 0, 1, Ok(-1))]);
        send(&mut script, 0, "b");
        assert_eq!(values(&script.run()), [["b"]]);
    }

    #[test]
    fn unkeyed_records_stay_together_and_then_move_on() {
        let mut script = sender(&[("linger.ms", "5")]);
        let append = |script: &mut Sender, key: Option<&[u8]>| {
            let now = script.now;
            let headers = std::iter::empty();
            let make = |_: &Arc<str>, partition| partition;
            *script
                .engine
                .append(|| now, "t", None, 1, key, Some(b"v"), headers, make)
                .unwrap()
                .batch
        };
        let first = append(&mut script, None);
        assert_eq!(append(&mut script, None), first);
        script.pass(Duration::from_millis(5));
        assert_eq!(append(&mut script, None), 1 - first);
        // Java puts "foobar" where murmur2 says: -790332482 made positive is odd or even as the hash is.
        assert_eq!(
            append(&mut script, Some(b"foobar")),
            (-790_332_482_i32 & 0x7fff_ffff) % 2
        );
    }

    #[test]
    fn an_unknown_topic_says_so() {
        let mut script = sender(&[]);
        script.engine.want_topic(script.now, "nope");
        script.pass(Duration::from_secs(2));
        let error = script.engine.topic("nope").unwrap_err().unwrap();
        assert_eq!(
            (error.code(), error.topic()),
            (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), Some("nope"))
        );
        script.topics.push(("nope", vec![1]));
        script.pass(Duration::from_secs(2));
        assert!(script.engine.knows_topic("nope"));
    }

    #[test]
    fn closing_fails_what_is_left() {
        let mut script = sender(&[("linger.ms", "1000")]);
        send(&mut script, 0, "a");
        script.engine.close(script.now, &closed_error());
        let error = fates(&mut script).remove(0).3.unwrap_err();
        assert_eq!(
            (error.kind(), error.written()),
            (Kind::Closed, Some(Written::No))
        );
        assert!(
            matches!(try_send(&mut script, 0, "b"), Err(Refusal::Failed(error)) if error.kind() == Kind::Closed)
        );
    }

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!(plus(i32::MAX, 1), 0);
        assert_eq!(plus(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(plus(i32::MAX - 1, 5), 3);
    }
}
