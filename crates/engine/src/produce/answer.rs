//! The meaning of a Produce response for each batch of the request, and what happens to the batch
//! then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::ProduceResponse;
use ottla_protocol::messages::produce_response::PartitionProduceResponse;

use crate::cluster::{Cluster, Orphan};
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::produce::accumulator::Accumulator;
use crate::produce::batch::{Batch, BatchId, Stored};
use crate::produce::denial::Denial;
use crate::produce::may_be_written::may_be_written;
use crate::produce::queue::Renumber;
use crate::produce::request::SentRequest;

/// The pause before a batch is sent again that came while the markers of the transaction before were still written.
const EARLY: Duration = Duration::from_millis(20);

/// The meaning of a broker's code for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It is in the log.
    Delivered,
    /// It is larger than the topic allows, and has records enough for two.
    Split,
    /// Its only record is larger than the topic allows.
    RecordTooLarge,
    /// A batch before it failed, so this one could not be next.
    Behind,
    /// This leader does not have it, but another replica may have it.
    Missing,
    /// It is surely not in the log, but it and all later batches need new sequence numbers.
    Renumber,
    /// Its sequence number can no longer be used, and an earlier attempt may have written it.
    Forgotten,
    /// It is larger than the topic allows now, and an earlier attempt may have written it: its
    /// parts have numbers that the broker does not recognize.
    Outgrown,
    /// It can be sent again; `unsure` is whether this attempt may have written it.
    Retry { unsure: bool },
    /// It is not sent again; `unsure` is whether this attempt may have written it.
    Refused { unsure: bool },
}

/// The state of a batch when its response comes.
#[derive(Clone, Copy, Debug)]
struct Standing {
    records: u32,
    /// No earlier batch is without a result at the broker.
    first: bool,
    /// An earlier attempt may have written it.
    maybe_written: bool,
    /// Another broker may have written it, and the leader has not reported long enough that it is missing.
    may_be_elsewhere: bool,
    /// An earlier attempt may still wait at the broker for the batch that is missing.
    cut_off: bool,
    /// An earlier attempt may have written it, and a later batch was acknowledged, or may be the
    /// only one that this broker remembers.
    outlived: bool,
    /// It has a sequence number, by which the broker knows it again.
    numbered: bool,
    /// The leader responds when followers have it too.
    awaits_followers: bool,
}

fn meaning(code: ErrorCode, batch: Standing) -> Meaning {
    match code {
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Meaning::Delivered,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE if batch.records > 1 => {
            if batch.numbered && batch.maybe_written {
                Meaning::Outgrown
            } else {
                Meaning::Split
            }
        }
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Meaning::RecordTooLarge,
        code if reports_missing(code) && !batch.first => Meaning::Behind,
        code if reports_missing(code) && batch.may_be_elsewhere => Meaning::Missing,
        // It is not written yet. But what the broker still has of a connection that ended may bring the missing batch, and then
        // this one.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if batch.cut_off => Meaning::Forgotten,
        // Either it is written and the broker has forgotten it, or the log lost it together with
        // the later batch. Or it went out with others to a leader of 1.0 or newer, and the next
        // leader is one before that.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if batch.outlived => Meaning::Forgotten,
        // The broker remembers the last five batches and this is not one of them: it is surely not written.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Meaning::Renumber,
        // Brokers forget a producer that has been idle for producer.id.expiration.ms (KIP-854).
        // Those since 2.5 then accept any number; older ones return this error.
        ErrorCode::UNKNOWN_PRODUCER_ID
        | ErrorCode::INVALID_PRODUCER_EPOCH
        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
        | ErrorCode::PRODUCER_FENCED
            if batch.maybe_written =>
        {
            Meaning::Forgotten
        }
        ErrorCode::UNKNOWN_PRODUCER_ID
        | ErrorCode::INVALID_PRODUCER_EPOCH
        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
        | ErrorCode::PRODUCER_FENCED => Meaning::Renumber,
        _ => {
            let unsure = may_be_written(code).is_unsure(batch.awaits_followers);
            if code.is_retriable() {
                Meaning::Retry { unsure }
            } else {
                Meaning::Refused { unsure }
            }
        }
    }
}

/// Whether a leader reports that it lacks a batch, or those before it.
fn reports_missing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode::UNKNOWN_PRODUCER_ID
    )
}

/// Whether an error means that the view's leader is out of date.
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

/// The batches of a request that its response has not decided yet, by the index of their queue.
struct Open(Vec<(usize, Option<BatchId>)>);

impl Open {
    fn new(batches: &[(usize, BatchId)]) -> Open {
        let open = batches.iter().map(|(index, id)| (*index, Some(*id)));
        let mut open: Vec<_> = open.collect();
        open.sort_unstable_by_key(|(index, _)| *index);
        Open(open)
    }

    /// The batch of this queue, once.
    fn take(&mut self, index: usize) -> Option<(usize, BatchId)> {
        let at = self.0.binary_search_by_key(&index, |(index, _)| *index);
        let (_, id) = self.0.get_mut(at.ok()?)?;
        Some((index, id.take()?))
    }

    /// The batches that were not taken.
    fn rest(self) -> impl Iterator<Item = (usize, BatchId)> {
        let open = self.0.into_iter();
        open.filter_map(|(index, id)| Some((index, id?)))
    }
}

impl<T: Clone> Accumulator<T> {
    /// A request got its response.
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        answer: &ProduceResponse,
    ) {
        let Some(sent) = self.finish_request(token) else {
            return;
        };
        let brokers = answer.node_endpoints.iter();
        cluster.meet(
            now,
            brokers.map(|node| (node.node_id, node.host.as_str(), node.port)),
        );
        let mut open = Open::new(&sent.batches);
        for topic in &answer.responses {
            let name = match sent.topic(topic.topic_id) {
                Some(name) => Arc::clone(name),
                None => Arc::from(&*topic.name),
            };
            let mut partition = (name, 0);
            for row in &topic.partition_responses {
                partition.1 = row.index;
                let index = self.by_partition.get(&partition).copied();
                let Some((index, id)) = index.and_then(|index| open.take(index)) else {
                    continue;
                };
                let leader = (
                    row.current_leader.leader_id,
                    row.current_leader.leader_epoch,
                );
                let queue = self.queues.get(index).filter(|_| leader.0 >= 0);
                if let Some(id) = queue.and_then(|queue| queue.topic_of(id)) {
                    cluster.hint((&partition.0, id), row.index, leader);
                }
                self.decide(now, cluster, &sent, index, id, row);
            }
        }
        for (index, id) in open.rest() {
            if self.fail_unencoded(cluster, index, id) {
                continue;
            }
            let error = Error::new(Kind::Protocol, "the response does not contain a partition")
                .calling("Produce");
            self.retry(now, cluster, index, id, error, true);
        }
    }

    /// A request will get no response.
    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some(sent) = self.finish_request(orphan.token) else {
            return;
        };
        for (index, id) in sent.batches {
            if self.fail_unencoded(cluster, index, id) {
                continue;
            }
            let error = orphan.error.clone();
            if orphan.sent {
                let queue = self.queues.get_mut(index);
                if let Some(batch) = queue.and_then(|queue| queue.sent_batch(id)) {
                    batch.cut_off = true;
                }
            }
            if orphan.may_be_repeated() {
                self.retry(now, cluster, index, id, error, orphan.sent);
                continue;
            }
            let queue = self.queues.get_mut(index);
            let batch = queue.and_then(|queue| queue.sent_batch(id));
            if let Some(batch) = batch.filter(|_| orphan.sent) {
                batch.set_may_be_written();
            }
            self.fail(cluster, index, id, error);
        }
    }

    /// A request that gets no response was written to the socket: its batches count as delivered.
    pub(crate) fn handle_written(&mut self, now: Instant, cluster: &mut Cluster, token: u64) {
        let Some(sent) = self.finish_request(token) else {
            return;
        };
        let row = PartitionProduceResponse {
            base_offset: -1,
            ..Default::default()
        };
        for (index, id) in &sent.batches {
            self.decide(now, cluster, &sent, *index, *id, &row);
        }
        cluster.wake(sent.link);
    }

    /// Removes a request from those in flight.
    fn finish_request(&mut self, token: u64) -> Option<SentRequest> {
        let sent = self.requests.remove(&token)?;
        self.lanes.done(sent.link, sent.bytes);
        Some(sent)
    }

    /// The response for one partition.
    fn decide(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        sent: &SentRequest,
        index: usize,
        id: BatchId,
        row: &PartitionProduceResponse,
    ) {
        if self.fail_unencoded(cluster, index, id) {
            return;
        }
        let code = ErrorCode(row.error_code);
        let remembers_five = self.remembers_five(cluster, sent.link);
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let first = queue.is_first(id);
        let Some(batch) = queue.sent.iter().find(|batch| batch.id == id) else {
            return;
        };
        let is_last = queue.is_last_numbered(batch);
        let follows_gap = queue.follows_gap(batch);
        let is_overtaken = queue.is_overtaken(batch);
        let topic = Arc::clone(&queue.topic);
        let Some(batch) = queue.sent_batch(id) else {
            return;
        };
        if let Some(size) = batch.size() {
            let meters = &mut cluster.context.meters;
            meters.batch_answered(&topic, size);
        }
        let may_be_elsewhere = reports_missing(code)
            && first
            && batch.may_be_elsewhere()
            && !Denial::is_final(&mut batch.denial, now, batch.leader);
        let standing = Standing {
            records: batch.count,
            first,
            maybe_written: batch.may_be_written(),
            may_be_elsewhere,
            cut_off: batch.cut_off && follows_gap,
            outlived: batch.may_be_written() && (is_overtaken || !is_last && !remembers_five),
            numbered: batch.stamp.is_some(),
            awaits_followers: self.config.acks == -1,
        };
        let meaning = meaning(code, standing);
        // The epoch of a transaction is its coordinator's: numbers start again only after an abort.
        let keeps_epoch = self.scope.is_some();
        if meaning == Meaning::Delivered {
            return self.delivered(cluster, sent, index, id, row);
        }
        let mut error = Error::from_code(code, row.error_message.as_deref()).calling("Produce");
        if let Some(address) = cluster.address_of(sent.link) {
            error = error.at(address);
        }
        match meaning {
            Meaning::Delivered => {}
            Meaning::Split => self.split(cluster, index, id, error),
            Meaning::RecordTooLarge => {
                let text = "the broker's limit for the topic (max.message.bytes) is smaller than this record";
                self.fail(cluster, index, id, error.wrap(Kind::TooLarge, text));
            }
            Meaning::Behind => self.retry(now, cluster, index, id, error, false),
            Meaning::Missing => {
                cluster.refresh(now);
                self.retry(now, cluster, index, id, error, false);
            }
            Meaning::Renumber if keeps_epoch => {
                batch.set_unwritten();
                self.fail(cluster, index, id, error);
            }
            Meaning::Renumber => {
                batch.set_unwritten();
                queue.renumber_all();
                self.retry(now, cluster, index, id, error, false);
            }
            Meaning::Forgotten if keeps_epoch => self.fail(cluster, index, id, error),
            Meaning::Forgotten => self.give_up_numbers(cluster, index, id, error),
            Meaning::Outgrown => {
                let text = "the broker's limit for the topic (max.message.bytes) became smaller after an attempt that may \
                            have written these records";
                let error = error.wrap(Kind::TooLarge, text);
                if keeps_epoch {
                    self.fail(cluster, index, id, error);
                } else {
                    self.give_up_numbers(cluster, index, id, error);
                }
            }
            Meaning::Retry { .. } if code == ErrorCode::CONCURRENT_TRANSACTIONS => {
                self.retry(now, cluster, index, id, error, false);
            }
            Meaning::Retry { unsure } => {
                if is_about_leader(code) {
                    batch.denial = None;
                    // It waits until the next view names the leader.
                    queue.leader = None;
                }
                cluster.refresh(now);
                self.retry(now, cluster, index, id, error, unsure);
            }
            Meaning::Refused { unsure } => {
                if unsure {
                    batch.set_may_be_written();
                }
                self.fail(cluster, index, id, error);
            }
        }
    }

    fn delivered(
        &mut self,
        cluster: &mut Cluster,
        sent: &SentRequest,
        index: usize,
        id: BatchId,
        row: &PartitionProduceResponse,
    ) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let Some(batch) = queue.remove_sent(id) else {
            return;
        };
        queue.failures = 0;
        queue.retry_at = None;
        queue.last_error = None;
        let is_its_log = batch.topic_id == queue.topic_id;
        let numbering = &mut queue.numbering;
        numbering.acknowledged(batch.stamp, batch.count, is_its_log);
        let stored = Stored {
            base_offset: row.base_offset,
            log_append_time_ms: match row.log_append_time_ms {
                _ if !sent.format.has_timestamps() => Some(-1),
                time => (time >= 0).then_some(time),
            },
        };
        self.outcomes
            .delivered(&mut cluster.context, &batch, stored);
        self.sent_shrank(cluster, index);
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
        let Some(batch) = queue.sent_batch(id) else {
            return;
        };
        if unsure {
            batch.set_may_be_written();
        }
        let records = batch.count;
        let spent = batch.attempts > self.config.retries;
        if batch.decided || spent || batch.created + self.config.delivery_timeout <= now {
            return self.fail(cluster, index, id, error);
        }
        let attempts = batch.attempts;
        let meters = &mut cluster.context.meters;
        meters.batch_retried(&queue.topic, records);
        if let Some(batch) = queue.remove_sent(id) {
            queue.put_back(batch);
        }
        queue.hold = true;
        queue.failures = queue.failures.saturating_add(1);
        queue.last_error = Some(error.clone());
        let is_early = error.code() == Some(ErrorCode::CONCURRENT_TRANSACTIONS);
        let pause = if is_early {
            EARLY.min(self.config.retry_backoff)
        } else {
            cluster.retry_pause(queue.failures)
        };
        cluster.context.observer.tell(Observed::Retried {
            cause: queue.name(error),
            attempts,
            pause,
        });
        let at = now + pause;
        queue.retry_at = Some(at);
        cluster.set_alarm(at);
        self.list(index);
        self.sent_shrank(cluster, index);
    }

    fn fail(&mut self, cluster: &mut Cluster, index: usize, id: BatchId, error: Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if let Some(batch) = queue.remove_sent(id) {
            let error = queue.name(error);
            self.outcomes.failed(&mut cluster.context, &batch, error);
        }
        self.sent_shrank(cluster, index);
    }

    /// Fails a batch that was left out of its request, as it does not encode; returns whether it is
    /// such a batch.
    fn fail_unencoded(&mut self, cluster: &mut Cluster, index: usize, id: BatchId) -> bool {
        let queue = self.queues.get_mut(index);
        let batch = queue.and_then(|queue| queue.sent_batch(id));
        let Some(error) = batch.and_then(|batch| batch.unencoded().cloned()) else {
            return false;
        };
        self.fail(cluster, index, id, error);
        true
    }

    /// Fails a batch whose sequence number can no longer be used. The delivery result of later
    /// batches that were already sent is unknown too.
    fn give_up_numbers(&mut self, cluster: &mut Cluster, index: usize, id: BatchId, error: Error) {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.renumber = Renumber::Unwritten(error.clone());
        }
        self.fail(cluster, index, id, error);
    }

    /// Makes two batches of one that the broker found too large, and smaller ones from now on.
    fn split(&mut self, cluster: &mut Cluster, index: usize, id: BatchId, error: Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let Some(batch) = queue.remove_sent(id) else {
            return;
        };
        if batch.decided {
            self.outcomes.failed(&mut cluster.context, &batch, error);
            return self.sent_shrank(cluster, index);
        }
        queue.batch_limit = queue.batch_limit.min(batch.bytes / 2).max(1);
        match batch.halves(&self.config) {
            Ok(halves) => {
                cluster.context.meters.batch_split();
                self.outcomes.split(&mut cluster.context, &batch, &halves);
                for half in halves {
                    queue.put_back(half);
                }
                queue.hold = true;
                cluster.context.observer.tell(Observed::Retried {
                    cause: queue.name(error),
                    attempts: batch.attempts,
                    pause: Duration::ZERO,
                });
                self.list(index);
            }
            Err(cause) => {
                let error = queue.name(error.wrap(Kind::TooLarge, cause));
                self.outcomes.failed(&mut cluster.context, &batch, error);
            }
        }
        self.sent_shrank(cluster, index);
    }

    /// Once no batch of a partition is in flight, failed batches may be sent again, with new
    /// numbers if needed.
    fn sent_shrank(&mut self, cluster: &mut Cluster, index: usize) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if !queue.sent.is_empty() {
            return;
        }
        queue.hold = false;
        queue.link = None;
        match std::mem::replace(&mut queue.renumber, Renumber::None) {
            Renumber::None => return self.leave_gap(index),
            Renumber::All => {}
            Renumber::Unwritten(error) => {
                let (unsure, unwritten) = std::mem::take(&mut queue.ready)
                    .into_iter()
                    .partition::<VecDeque<_>, _>(Batch::may_be_written);
                queue.ready = unwritten;
                for batch in unsure {
                    let error = queue.name(error.clone());
                    self.outcomes.failed(&mut cluster.context, &batch, error);
                }
            }
        }
        for batch in &mut queue.ready {
            batch.begin_again();
        }
        self.end_numbers(index);
    }
}
