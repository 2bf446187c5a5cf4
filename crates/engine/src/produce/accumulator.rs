//! The state of all batches, and the methods that several of their steps share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ApiKey, ErrorCode};
use rustc_hash::FxHashMap;

use crate::call::TransactionProtocol;
use crate::cluster::{Cluster, Lane, LinkId};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::produce::batch::Done;
use crate::produce::lanes::Lanes;
use crate::produce::outcomes::Outcomes;
use crate::produce::queue::Queue;
use crate::produce::request::SentRequest;
use crate::produce::scope::Scope;
use crate::produce::stalls::Stalls;
use crate::produce::stamp::Identity;
use crate::produce::topics::Topics;
use crate::produce::transaction::Facts;

/// The first version of Produce with record batches, and so with headers and idempotence (KIP-82, KIP-98).
pub(super) const BATCHES: i16 = 3;
/// The version of Produce that came with the memory of five batches.
const FIVE: i16 = 5;

/// Batches from their first record to their delivery result. Each is opened with a `T`, which is
/// returned with its delivery result.
#[derive(Debug)]
pub struct Accumulator<T> {
    pub(super) config: Arc<Config>,
    pub(super) topics: Topics,
    pub(super) queues: Vec<Queue<T>>,
    pub(super) by_partition: FxHashMap<(Arc<str>, i32), usize>,
    /// The queues with something to do, in the order of their turns.
    pub(super) listed: VecDeque<usize>,
    pub(super) outcomes: Outcomes<T>,
    pub(super) requests: FxHashMap<u64, SentRequest>,
    pub(super) lanes: Lanes,
    pub(super) stalls: Stalls,
    pub(super) next_number: u64,
    /// Whether batches are numbered: as set, unless the brokers do not support it.
    pub(super) is_idempotent: bool,
    /// A broker was seen that cannot keep headers.
    pub(super) checks_headers: bool,
    pub(super) identity: Option<Identity>,
    /// An identity that can number no more batches, until it is taken.
    pub(super) spent: Option<Identity>,
    /// Why there is no identity.
    identity_trouble: Option<Error>,
    /// The transaction that batches belong to; none without a transactional id.
    pub(super) scope: Option<Scope>,
}

impl<T: Clone> Accumulator<T> {
    pub(crate) fn new(config: Arc<Config>) -> Accumulator<T> {
        Accumulator {
            is_idempotent: config.idempotence,
            checks_headers: false,
            stalls: Stalls::new(config.availability_timeout),
            lanes: Lanes::new(&config),
            scope: config.transactional_id.as_deref().map(Scope::new),
            config,
            topics: Topics::default(),
            queues: Vec::new(),
            by_partition: FxHashMap::default(),
            listed: VecDeque::new(),
            outcomes: Outcomes::default(),
            requests: FxHashMap::default(),
            next_number: 0,
            identity: None,
            spent: None,
            identity_trouble: None,
        }
    }

    // --- identity: the facts that the composition carries between this and `identity`

    /// Whether a batch that needs an identity first waits to be sent.
    pub(crate) fn wants_identity(&self) -> bool {
        !self.is_identified() && !self.listed.is_empty()
    }

    /// The identity that new batches get. Those that have one keep theirs.
    pub(crate) fn set_identity(&mut self, identity: Option<Identity>) {
        self.identity = identity;
    }

    /// No broker gives identities: batches go without.
    pub(crate) fn do_without_identity(&mut self) {
        self.is_idempotent = false;
        self.identity = None;
    }

    /// Notes why there is no identity, as the reason of batches that wait for it.
    pub(crate) fn set_identity_trouble(&mut self, trouble: Option<&Error>) {
        self.identity_trouble = trouble.cloned();
    }

    /// The identity that can number no more batches, once.
    pub(crate) fn take_spent_identity(&mut self) -> Option<Identity> {
        self.spent.take()
    }

    // --- transactions: the facts that the composition carries between this and `transaction`

    /// The number and the protocol of the open transaction.
    pub(crate) fn set_scope(&mut self, (number, protocol): (u64, TransactionProtocol)) {
        let Some(scope) = &mut self.scope else {
            return;
        };
        if scope.number != number {
            (scope.number, scope.protocol, scope.sent) = (number, protocol, false);
            self.outcomes.begin();
        }
    }

    /// The state of the transaction's batches.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            undecided: !self.outcomes.is_decided(u64::MAX),
            under_way: !self.requests.is_empty(),
            sent: self.scope.as_ref().is_some_and(|scope| scope.sent),
            gap: self.outcomes.has_gap(),
        }
    }

    /// The first failure in the transaction, once.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.outcomes.take_failure()
    }

    /// The partitions with batches that must join the transaction first; each once.
    pub(crate) fn partitions_to_join(&mut self) -> Vec<(Arc<str>, i32)> {
        let Some(scope) = &self.scope else {
            return Vec::new();
        };
        let mut wishes = Vec::new();
        for index in &self.listed {
            let Some(queue) = self.queues.get_mut(*index) else {
                continue;
            };
            if queue.asked_to_join < scope.number && !queue.is_empty() {
                queue.asked_to_join = scope.number;
                wishes.push((Arc::clone(&queue.topic), queue.partition));
            }
        }
        wishes
    }

    /// A partition is part of the open transaction.
    pub(crate) fn set_joined(&mut self, partition: &(Arc<str>, i32)) {
        let number = self.scope.as_ref().map_or(0, |scope| scope.number);
        let index = self.by_partition.get(partition);
        if let Some(queue) = index.and_then(|index| self.queues.get_mut(*index)) {
            queue.joined = number;
        }
    }

    /// Whether batches of a queue may be sent: its partition is part of the transaction, if there are transactions.
    pub(super) fn admits(&self, queue: &Queue<T>) -> bool {
        let mut scope = self.scope.iter();
        scope.all(|scope| scope.admits(queue.joined))
    }

    pub(super) fn is_identified(&self) -> bool {
        !self.is_idempotent || self.identity.is_some()
    }

    // --- queries of callers

    /// The next delivery result.
    pub(crate) fn poll_done(&mut self) -> Option<Done<T>> {
        self.outcomes.poll()
    }

    /// Bytes of records that have no delivery result yet, or that a request still owns.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.outcomes.used()
    }

    /// Closes every open batch. The mark stands for all records appended so far.
    pub(crate) fn close_all(&mut self) -> u64 {
        for queue in &mut self.queues {
            queue.close_open();
        }
        self.next_number
    }

    /// Whether all records up to a mark have their delivery result.
    pub(crate) fn is_decided(&self, mark: u64) -> bool {
        self.outcomes.is_decided(mark)
    }

    /// Why records still have no delivery result, as far as known; else an error that names the
    /// first partition with such records.
    pub(crate) fn delay(&self, cluster: &Cluster) -> Option<Error> {
        if let Some(trouble) = cluster.trouble() {
            return Some(trouble);
        }
        let mut waiting = self
            .queues
            .iter()
            .filter(|queue| queue.oldest_undecided().is_some());
        let first = waiting.clone().next()?;
        let known = waiting.find_map(|queue| {
            let cause = self.why_waiting(cluster, queue)?;
            Some(queue.name(cause))
        });
        Some(known.unwrap_or_else(|| {
            first.name(Error::new(
                Kind::Timeout,
                "the broker has not responded yet",
            ))
        }))
    }

    pub(super) fn why_waiting(&self, cluster: &Cluster, queue: &Queue<T>) -> Option<Error> {
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
            .or(self.identity_trouble.as_ref())
            .cloned()
    }

    // --- what several steps share

    /// Notes that a queue has something to do.
    pub(super) fn list(&mut self, index: usize) {
        if let Some(queue) = self.queues.get_mut(index)
            && !queue.listed
        {
            queue.listed = true;
            self.listed.push_back(index);
        }
    }

    /// The connection to a queue's leader that its next batch goes over.
    pub(super) fn link_for(&self, cluster: &Cluster, queue: &Queue<T>) -> Option<LinkId> {
        let leader = queue.leader?;
        if queue.sent.is_empty() {
            return self.lanes.freest(cluster, leader);
        }
        let is_to = |(node, _)| node == leader;
        queue
            .link
            .filter(|link| cluster.node_of(*link).is_some_and(is_to))
    }

    /// Whether several batches of a partition may be in flight over `link`: its broker remembers
    /// five of each producer, as brokers since 1.0 do (KAFKA-5494), or their order does not matter.
    /// Otherwise a failed batch could not be distinguished from a repeated one, so later batches
    /// wait.
    pub(super) fn remembers_five(&self, cluster: &Cluster, link: LinkId) -> bool {
        let version = || cluster.version(link, ApiKey::Produce, i16::MAX);
        !self.config.idempotence || version().is_ok_and(|version| version >= FIVE)
    }

    /// Wakes the queue's connection to its leader if there is something for it now, or sets the alarm for when there will be.
    pub(super) fn nudge(&mut self, now: Instant, cluster: &mut Cluster, leader: i32, index: usize) {
        let Some(queue) = self.queues.get(index) else {
            return;
        };
        if queue.sent.is_empty() && !queue.ready.is_empty() {
            self.lanes.extend(now, cluster, leader);
        }
        let can_take = |link: &LinkId| {
            self.lanes.requests(*link) < self.config.max_in_flight
                && self.admits(queue)
                && queue.may_send_on(*link, || self.remembers_five(cluster, *link))
        };
        let Some(link) = self.link_for(cluster, queue).filter(can_take) else {
            self.stalls.note(now, leader);
            return;
        };
        match queue.due(&self.config, self.lanes.is_idle(cluster, leader)) {
            Some(at) if at > now => cluster.set_alarm(at),
            Some(_) => cluster.wake(link),
            None => {}
        }
    }

    /// Fails everything that was not sent yet.
    pub(crate) fn fail_all_unsent(&mut self, cluster: &mut Cluster, error: &Error) {
        for index in self.listed.clone() {
            self.fail_unsent(cluster, index, error);
        }
    }

    /// Continues under another identity where a numbered batch was abandoned and no other batch has
    /// numbers: the numbers of the next batch would follow numbers that the broker may never see.
    /// If the request of the abandoned batch arrives later, the broker refuses it because of its
    /// stale epoch.
    pub(super) fn leave_gap(&mut self, index: usize) {
        let gone = |queue: &Queue<T>| queue.numbering.has_gap() && queue.is_settled();
        // The epoch of a transaction is its coordinator's.
        if self.scope.is_none() && self.queues.get(index).is_some_and(gone) {
            self.end_numbers(index);
        }
    }

    /// The next batch of a partition begins with another identity. Until it is known none is sent, since its numbers would be those
    /// of the first ones of this identity.
    pub(super) fn end_numbers(&mut self, index: usize) {
        let queue = self.queues.get_mut(index);
        let ended = queue.and_then(|queue| queue.numbering.end());
        if ended.is_some() && ended == self.identity {
            self.spent = self.identity.take();
        }
    }

    /// Fails what a queue has not sent yet.
    pub(super) fn fail_unsent(&mut self, cluster: &mut Cluster, index: usize, error: &Error) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        queue.close_open();
        for batch in std::mem::take(&mut queue.ready) {
            let error = queue.name(error.clone());
            self.outcomes.failed(&mut cluster.context, &batch, error);
        }
    }
}

/// Why the broker of `link`, or where it is not up the one that was connected to last, cannot keep headers, if it cannot.
pub(super) fn no_headers(cluster: &Cluster, link: Option<LinkId>) -> Option<Error> {
    let (address, versions) = cluster.speaks(link)?;
    let version = versions.choose(ApiKey::Produce, i16::MAX).ok()?;
    let lacks = || {
        versions
            .lacks("a record with headers", Some("0.11"))
            .at(address)
    };
    (version < BATCHES).then(lacks)
}

/// The error for what the broker of `link` cannot do: `what` needs the release `needed`.
pub(super) fn lacks(cluster: &Cluster, link: LinkId, what: &str, needed: &str) -> Error {
    match cluster.speaks(Some(link)) {
        Some((address, versions)) => versions.lacks(what, Some(needed)).at(address),
        None => Error::new(Kind::Unreachable, "the connection is not up"),
    }
}
