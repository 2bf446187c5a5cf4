//! Which batches the next request to a broker takes.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::compression::Compression;
use ottla_protocol::{ApiKey, Uuid};
use rustc_hash::FxHashMap;

use crate::api::TOPIC_IDS;
use crate::cluster::{Cluster, Lane, LinkId};
use crate::error::Error;
use crate::observe::{Level, Observed};
use crate::produce::accumulator::{Accumulator, BATCHES, lacks, no_headers};
use crate::produce::batch::Format;
use crate::produce::request::{Parcel, ParcelTopic, SentRequest};

/// The first version of Produce that takes zstd (KIP-110).
const ZSTD: i16 = 7;

impl<T: Clone> Accumulator<T> {
    /// The request to send on `link` now, if there is something to send and its broker may have one more.
    pub(crate) fn next_request(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
    ) -> Option<Parcel> {
        let (node, Lane::Control | Lane::Data(_)) = cluster.node_of(link)? else {
            return None;
        };
        if self.listed.is_empty() || !self.is_identified() {
            return None;
        }
        if self.lanes.requests(link) >= self.config.max_in_flight {
            return None;
        }
        let chosen = self.choose(now, cluster, link, node);
        if chosen.is_empty() {
            return None;
        }
        match self.version(cluster, link, &chosen) {
            Ok(version) => {
                let chosen = if version < BATCHES {
                    self.do_without_numbers(cluster, link);
                    self.without_headers(cluster, link, chosen)
                } else {
                    chosen
                };
                if chosen.is_empty() {
                    return None;
                }
                self.stalls.clear(node);
                Some(self.parcel(cluster, link, version, &chosen))
            }
            Err(error) => {
                for index in chosen {
                    self.fail_unsent(cluster, index, &error);
                }
                None
            }
        }
    }

    /// Other brokers gave an identity, and this one cannot make use of it: what the producer promises it promises for all of them.
    fn do_without_numbers(&mut self, cluster: &mut Cluster, link: LinkId) {
        if self.is_idempotent {
            let cause = lacks(cluster, link, "idempotence", "0.11");
            let observer = &mut cluster.context.observer;
            observer.tell(Observed::IdempotenceOff { cause });
            self.do_without_identity();
        }
    }

    /// Fails batches whose headers the broker cannot keep; the queues that are left. Few records come here: those whose broker
    /// was known when they were sent were refused then.
    fn without_headers(
        &mut self,
        cluster: &mut Cluster,
        link: LinkId,
        chosen: Vec<usize>,
    ) -> Vec<usize> {
        let Some(error) = no_headers(cluster, Some(link)) else {
            return chosen;
        };
        self.checks_headers = true;
        let mut kept = chosen;
        kept.retain(|index| {
            let Some(queue) = self.queues.get_mut(*index) else {
                return false;
            };
            let first = queue.ready.front();
            if !first.is_some_and(|batch| batch.has_headers) {
                return true;
            }
            let Some(batch) = queue.ready.pop_front() else {
                return false;
            };
            let error = queue.name(error.clone());
            self.outcomes.failed(&mut cluster.context, &batch, error);
            false
        });
        kept
    }

    /// The queues whose first batch goes into the next request, as many as it holds, each in its turn.
    fn choose(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        node: i32,
    ) -> Vec<usize> {
        let idle = self.lanes.is_idle(cluster, node);
        let most = self.config.max_request_size;
        let mut chosen = Vec::new();
        let mut bytes = 0;
        let mut rest = self.listed.len();
        while rest > 0 && bytes < most {
            rest -= 1;
            let Some(index) = self.listed.pop_front() else {
                break;
            };
            self.listed.push_back(index);
            let Some(size) = self.size_due(now, cluster, (link, node), idle, index) else {
                continue;
            };
            if bytes > 0 && bytes + size > most {
                // It was this queue's turn, and it keeps the turn.
                self.listed.pop_back();
                self.listed.push_front(index);
                break;
            }
            bytes += size;
            chosen.push(index);
        }
        chosen
    }

    /// The size of the batch that a queue has to send now over `link`; an open batch is closed for it.
    fn size_due(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (link, node): (LinkId, i32),
        idle: bool,
        index: usize,
    ) -> Option<usize> {
        let queue = self.queues.get(index)?;
        let at = queue.due(&self.config, idle)?;
        let beside = || self.remembers_five(cluster, link);
        if !self.admits(queue) {
            return None;
        }
        if queue.leader != Some(node) || !queue.may_send_on(link, beside) {
            return None;
        }
        if at > now {
            cluster.set_alarm(at);
            return None;
        }
        let own = self.link_for(cluster, queue)?;
        if own != link {
            // Since this one was woken for the batch, it got more to do than another.
            cluster.wake(own);
            return None;
        }
        let queue = self.queues.get_mut(index)?;
        if queue.ready.is_empty() {
            queue.close_open();
        }
        Some(queue.ready.front()?.bytes)
    }

    /// The version for a request with a batch of each queue.
    fn version(&self, cluster: &Cluster, link: LinkId, chosen: &[usize]) -> Result<i16, Error> {
        let has_ids = chosen.iter().all(|index| {
            let queue = self.queues.get(*index);
            queue.is_some_and(|queue| queue.topic_id != Uuid::ZERO)
        });
        let cap = if has_ids { i16::MAX } else { TOPIC_IDS - 1 };
        let scope = self.scope.as_ref();
        let cap = scope.map_or(cap, |scope| scope.highest_produce().min(cap));
        let version = cluster.version(link, ApiKey::Produce, cap)?;
        if scope.is_some_and(|scope| !scope.can_use(version)) {
            return Err(lacks(cluster, link, "transaction.version=2", "4.0"));
        }
        if version < ZSTD && self.config.compression == Compression::Zstd {
            return Err(lacks(cluster, link, "compression.type=zstd", "2.1"));
        }
        if version < BATCHES && self.config.requires_idempotence {
            return Err(lacks(cluster, link, "enable.idempotence=true", "0.11"));
        }
        Ok(version)
    }

    /// Takes the first ready batch of each queue into one request.
    fn parcel(
        &mut self,
        cluster: &mut Cluster,
        link: LinkId,
        version: i16,
        chosen: &[usize],
    ) -> Parcel {
        let token = cluster.token();
        let tells = cluster.context.observer.wants(Level::Debug);
        let identity = self
            .identity
            .filter(|_| self.is_idempotent && version >= BATCHES);
        let mut topics: Vec<ParcelTopic> = Vec::new();
        let mut places: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        let mut batches = Vec::with_capacity(chosen.len());
        let (mut records, mut bytes) = (0, 0);
        for index in chosen {
            let Some(queue) = self.queues.get_mut(*index) else {
                continue;
            };
            let Some(mut batch) = queue.next_attempt(identity) else {
                continue;
            };
            if tells {
                cluster.context.observer.tell(queue.sending(&batch));
            }
            records += batch.count;
            bytes += batch.bytes;
            let first = (batch.attempts == 1).then_some(batch.created);
            let meters = &mut cluster.context.meters;
            meters.batch_sent(&queue.topic, batch.count, first);
            let part = (queue.partition, batch.load());
            batches.push((*index, batch.id));
            queue.sent.push_back(batch);
            queue.link = Some(link);
            let place = *places.entry(Arc::clone(&queue.topic)).or_insert_with(|| {
                topics.push(ParcelTopic {
                    name: Arc::clone(&queue.topic),
                    id: queue.topic_id,
                    partitions: Vec::new(),
                });
                topics.len() - 1
            });
            if let Some(topic) = topics.get_mut(place) {
                topic.partitions.push(part);
            }
        }
        cluster.context.meters.produce_sent(records);
        if let Some(scope) = &mut self.scope {
            scope.sent = true;
        }
        let format = Format::of(version, &self.config);
        let request = SentRequest {
            link,
            bytes,
            format,
            batches,
            topics: ids_of(version, &topics),
        };
        self.requests.insert(token, request);
        self.lanes.sent(link, bytes);
        Parcel {
            token,
            version,
            format,
            transactional_id: self.scope.as_ref().map(|scope| Arc::clone(&scope.id)),
            acks: self.config.acks,
            timeout: self.config.request_timeout,
            topics,
        }
    }
}

/// The topics of a request by their ids, if it has ids.
fn ids_of(version: i16, topics: &[ParcelTopic]) -> Vec<(Uuid, Arc<str>)> {
    if version < TOPIC_IDS {
        return Vec::new();
    }
    let ids = topics.iter();
    let mut ids: Vec<_> = ids
        .map(|topic| (topic.id, Arc::clone(&topic.name)))
        .collect();
    ids.sort_unstable_by_key(|(id, _)| *id);
    ids
}
