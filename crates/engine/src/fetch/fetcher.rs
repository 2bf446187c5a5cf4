//! When to look up offsets, to fetch, to wait and to give up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::messages::FetchResponse;
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::api::{Request, Response, TOPIC_IDS};
use crate::call::{Ended, EpochEnd};
use crate::change::Change;
use crate::cluster::{Cluster, Lane, LinkId, Orphan};
use crate::config::{Config, OffsetReset};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::fetch::answer::{self, Refused, Verdict, heals};
use crate::fetch::assignment::{Assignment, Key, Place};
use crate::fetch::buffer::{Buffer, Sharers, Taken};
use crate::fetch::checks::{Checked, Checks};
use crate::fetch::epochs::Epochs;
use crate::fetch::lanes::{self, Lanes, Wait};
use crate::fetch::leaders::Leaders;
use crate::fetch::lookup::{Found, Lookups, Searched, time_of};
use crate::fetch::position::{Generation, Leader, Need, Position, Start, absent, outdated};
use crate::fetch::replica::Replica;
use crate::fetch::request::{self, BOUNDED, DIVERGING, EPOCHS, SentFetch, Span};
use crate::fetch::reset::leave_log;
use crate::fetch::retries::Retries;
use crate::fetch::session::Session;
use crate::fetch::subscription::{Finding, Subscription};
use crate::fetch::truncation::{self, Truncated, judge};
use crate::observe::Observed;
use crate::part::Core;

/// The most bytes that are expected around the records of an answer.
const ENVELOPE: usize = 64 << 10;

/// Reads the assigned partitions.
#[derive(Debug)]
pub struct Fetcher {
    config: Arc<Config>,
    pub(super) assignment: Assignment,
    pub(super) subscription: Subscription,
    lookups: Lookups,
    checks: Checks,
    buffer: Buffer,
    sent: FxHashMap<u64, SentFetch>,
    /// Those of lanes that wait for no answer.
    sessions: FxHashMap<(i32, Lane), Session>,
    lanes: Lanes,
    turn: u64,
    /// The version of the view that was looked at last.
    seen_view: u64,
    /// Topics came or went since.
    must_look: bool,
    leaders: Leaders,
}

impl Fetcher {
    pub(crate) fn new(config: Arc<Config>) -> Fetcher {
        Fetcher {
            assignment: Assignment::default(),
            subscription: Subscription::default(),
            lookups: Lookups::default(),
            checks: Checks::default(),
            buffer: Buffer::new(&config),
            sent: FxHashMap::default(),
            sessions: FxHashMap::default(),
            lanes: Lanes::default(),
            turn: 0,
            seen_view: 0,
            must_look: false,
            leaders: Leaders::default(),
            config,
        }
    }

    pub(crate) fn share_prefetch(&mut self, sharers: &Sharers) {
        self.buffer.share(sharers);
    }

    // --- what the caller wants

    pub(crate) fn assign(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        let wanted: Vec<_> = partitions.into_iter().collect();
        for (topic, partition, start) in &wanted {
            start.check_in(topic, *partition)?;
        }
        let topics = wanted.iter().map(|(topic, _, _)| Arc::clone(topic));
        self.read_topics(now, cluster, topics, false);
        let named: BTreeSet<_> = wanted
            .iter()
            .map(|(topic, number, _)| (topic, *number))
            .collect();
        self.forget(cluster, |topic, partition| {
            !named.contains(&(topic, partition))
        });
        for (topic, partition, start) in &wanted {
            let is_kept = *start == Start::Reset && self.assignment.contains(topic, *partition);
            if !is_kept {
                let was_paused = self.is_paused(topic, *partition);
                self.add(cluster, topic, *partition, *start);
                self.assignment.touch(topic, *partition)?.paused = was_paused;
            }
        }
        Ok(())
    }

    pub(crate) fn follow(&mut self, now: Instant, cluster: &mut Cluster, topics: Vec<Arc<str>>) {
        let named: BTreeSet<_> = topics.iter().cloned().collect();
        self.read_topics(now, cluster, topics, true);
        self.forget(cluster, |topic, _| !named.contains(topic));
    }

    fn read_topics(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        topics: impl IntoIterator<Item = Arc<str>>,
        is_followed: bool,
    ) {
        let (new, gone) = self.subscription.replace(now, topics, is_followed);
        for topic in &new {
            cluster.want(now, topic);
        }
        for topic in &gone {
            cluster.unwant(topic);
        }
        self.must_look = true;
        // There may be nothing to read any more, or nothing is known of a topic that was waited for.
        raise(cluster);
    }

    fn forget(&mut self, cluster: &mut Cluster, is_gone: impl Fn(&Arc<str>, i32) -> bool) {
        let each = self.assignment.each();
        let gone: Vec<_> = each
            .filter(|(topic, partition, _)| is_gone(topic, *partition))
            .map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect();
        for (topic, partition) in gone {
            self.remove(cluster, &topic, partition);
        }
    }

    fn remove(&mut self, cluster: &mut Cluster, topic: &str, partition: i32) {
        if let Some(generation) = self.assignment.remove(topic, partition) {
            self.buffer.drop_all(generation);
            cluster.context.changes.tell(Change::Position);
        }
    }

    fn add(&mut self, cluster: &mut Cluster, topic: &Arc<str>, partition: i32, start: Start) {
        self.remove(cluster, topic, partition);
        tell_known(cluster, start);
        let position = Position::new(self.assignment.fresh_generation(), start);
        self.assignment.insert(topic, partition, position);
    }

    pub(crate) fn seek(
        &mut self,
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        to.check_in(&topic.into(), partition)?;
        if !self.assignment.contains(topic, partition) && self.subscription.is_awaited(topic) {
            self.add(cluster, &topic.into(), partition, to);
            return Ok(());
        }
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.touch(topic, partition)?;
        let old = position.generation;
        position.seek(generation, to);
        self.buffer.drop_all(old);
        tell_known(cluster, to);
        Ok(())
    }

    pub(crate) fn seek_all(&mut self, cluster: &mut Cluster, to: Start) -> Result<(), Error> {
        to.check()?;
        self.subscription.start_at(to);
        let each = self.assignment.each();
        let all: Vec<_> = each
            .map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect();
        all.iter()
            .try_for_each(|(topic, partition)| self.seek(cluster, topic, *partition, to))
    }

    pub(crate) fn set_paused(
        &mut self,
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.touch(topic, partition)?;
        if position.paused == paused {
            return Ok(());
        }
        position.paused = paused;
        if !paused {
            // An error that the pause hid is raised now.
            cluster.context.changes.tell(Change::Records);
        }
        if paused && position.next.is_some() {
            // Buffered records would take room from other partitions during the pause; they are fetched again after it.
            let old = position.generation;
            position.rewind(generation);
            self.buffer.drop_all(old);
        }
        Ok(())
    }

    // --- what the caller gets

    pub(crate) fn take(&mut self, now: Instant, cluster: &mut Cluster) -> Option<Taken> {
        let taken = self.buffer.pop()?;
        // There may be room now. Where there was before, every fetch that was due has been sent.
        self.wake_links(now, cluster);
        Some(taken)
    }

    pub(crate) fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.assignment
            .get(topic, partition)
            .is_ok_and(|position| position.generation == generation)
    }

    pub(crate) fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        let current = self.assignment.current(topic, partition, generation);
        let Some((key, position)) = current else {
            return false;
        };
        position.next = Some(next_offset);
        if position.is_outdated && position.is_drained() {
            self.assignment.touch_key(key);
        }
        true
    }

    pub(crate) fn reject(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        offset: i64,
        error: Error,
    ) {
        let fresh = self.assignment.fresh_generation();
        let current = self.assignment.current(topic, partition, generation);
        if let Some((key, position)) = current {
            position.reject(fresh, offset, error);
            self.assignment.touch_key(key);
            self.buffer.drop_all(generation);
        }
    }

    /// Whether [`Fetcher::pump`] has something to do since the caller moved on.
    pub(crate) fn must_pump(&self) -> bool {
        self.assignment.has_touched()
    }

    // --- what happened

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        token: u64,
        response: Response,
    ) {
        let Some(sent) = self.sent.remove(&token) else {
            return;
        };
        self.lanes.release(link);
        if let Response::Fetch(answer) = response {
            self.handle_fetch(now, cluster, sent, answer);
        }
    }

    fn handle_fetch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        mut sent: SentFetch,
        answer: FetchResponse,
    ) {
        let brokers = answer.node_endpoints.iter();
        cluster.meet(
            now,
            brokers.map(|node| (node.node_id, node.host.as_str(), node.port)),
        );
        let mut retries = Retries::default();
        let mut sizes: Vec<(Arc<str>, usize)> = Vec::new();
        let read_committed = self.config.read_committed;
        let session = &mut sent.session;
        for (span, bounds, verdict) in answer::read(sent.spans, answer, read_committed, session) {
            let latest_id = self.subscription.id_of(&span.topic);
            let Some(position) = self.assignment.touch_current(span.key, span.generation) else {
                continue;
            };
            position.in_flight = false;
            if matches!(
                verdict,
                Verdict::Nothing | Verdict::Nearer(_) | Verdict::Records(..) | Verdict::Stuck(_)
            ) {
                position.answered();
                position.evidence.confirm(span.leader.epoch);
                position.passed(span.leader);
                position.topic_id = span.topic_id;
                // The topic may have been made anew since the request.
                position.note_topic(latest_id);
                position.bounds = (bounds.begin, bounds.end);
            }
            match verdict {
                Verdict::Nothing | Verdict::Unsaid => {}
                Verdict::Nearer(node) => {
                    let until = now + self.config.metadata_max_age;
                    let is_known = cluster.view().node(node).is_some();
                    // Only a leader may send the client elsewhere, so that two brokers cannot send it to and fro.
                    let was_leader = position.replica.nearer().is_none();
                    position.replica = if is_known && was_leader && span.tells_rack {
                        cluster.context.observer.tell(Observed::ReplicaChosen {
                            topic: span.topic,
                            partition: span.partition,
                            node,
                        });
                        Replica::Nearer(node, until)
                    } else {
                        Replica::Untold(until)
                    };
                }
                Verdict::Records(fetched, epochs) => {
                    let next = position.next.unwrap_or(span.offset);
                    for (from, epoch) in epochs {
                        position.epochs.read(from, epoch, next);
                    }
                    position.fetch_at = Some(fetched.next_offset);
                    let bytes = fetched.records.len();
                    match sizes.last_mut() {
                        Some((topic, all)) if *topic == fetched.topic => *all += bytes,
                        _ => sizes.push((Arc::clone(&fetched.topic), bytes)),
                    }
                    self.buffer.push(span.generation, fetched);
                    cluster.context.changes.tell(Change::Records);
                }
                Verdict::Stuck(error) => position.stuck = Some(error),
                Verdict::Diverging(end) => {
                    // A broker that says it of what is the same log is not asked again at once.
                    position.retry_at = Some(now + cluster.retry_pause(1));
                    let told = (span.key, span.generation, span.leader);
                    self.compare(now, cluster, told, end, &mut retries);
                }
                Verdict::Failed(refused) => {
                    let refused = refused.by(cluster.address_of(sent.link));
                    self.handle_refused(now, cluster, &span, refused, &mut retries);
                }
            }
        }
        self.sessions.insert(sent.to, sent.session);
        cluster.context.meters.fetched(now, &sizes);
    }

    fn handle_refused(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        span: &Span,
        refused: Refused,
        retries: &mut Retries,
    ) {
        let Refused {
            code,
            error,
            leader,
        } = refused;
        if let Some((leader, epoch)) = leader {
            self.hint(cluster, span, leader, epoch);
        }
        let generation = self.assignment.fresh_generation();
        let Some(position) = self.assignment.touch_current(span.key, span.generation) else {
            return;
        };
        if position.replica.nearer().is_some() {
            // It may lag behind, or be one no more: the leader knows better.
            position.replica = Replica::Told;
            return retries.fail(now, cluster, position, error);
        }
        let out_of_range = code == ErrorCode::OFFSET_OUT_OF_RANGE;
        if out_of_range && position.is_lost(now, span.leader.epoch) {
            let policy = self.config.auto_offset_reset;
            leave_log(now, cluster, policy, position, generation, error);
        } else if out_of_range {
            // Whoever names a leader of the past has not heard of the present one either.
            cluster.doubt_view();
            retries.fail(now, cluster, position, error);
        } else if heals(&error) {
            retries.fail(now, cluster, position, error);
        } else {
            retries.deny(now, cluster, (&span.topic, span.partition), position, error);
        }
    }

    /// Takes in where a leader says that the epoch of what was read last ends.
    fn compare(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (key, asked, leader): (Key, Generation, Leader),
        end: EpochEnd,
        retries: &mut Retries,
    ) {
        let generation = self.assignment.fresh_generation();
        if self.assignment.touch_current(key, asked).is_none() {
            return;
        }
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        let (topic, partition) = (&entry.topic, entry.partition);
        let position = &mut entry.position;
        let offset = position.fetch_at.unwrap_or(0);
        let parting = match judge(&position.epochs, offset, end) {
            truncation::Finding::Same => return position.passed(leader),
            truncation::Finding::Unwritten(epoch) => {
                position.epochs = Epochs::said(offset, epoch);
                return position.passed(leader);
            }
            truncation::Finding::Truncated(parting) => parting,
        };
        let is_leader = position.replica.nearer().is_none();
        if is_leader && position.is_lost(now, leader.epoch) {
            let named = (topic, partition);
            let truncated = Truncated::at(named, &position.epochs, (parting, end), leader.epoch);
            let policy = self.config.auto_offset_reset;
            return truncated.leave(now, cluster, policy, position, generation);
        }
        // One that lags behind, or a leader of the past, has less than its leader; or the caller has not everything yet.
        position.replica = Replica::Told;
        cluster.doubt_view();
        let text = format!("its log is another one than was read before offset {offset}");
        let error = Error::from_code(ErrorCode::OFFSET_OUT_OF_RANGE, Some(&text));
        retries.fail(now, cluster, position, error.partition_is(topic, partition));
    }

    fn handle_checked(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        let mut retries = Retries::default();
        for (checked, found) in self.checks.finish(ended) {
            let (key, generation) = (checked.key, checked.generation);
            let Some(position) = self.assignment.touch_current(key, generation) else {
                continue;
            };
            position.looking_up = false;
            match found {
                Ok(end) => {
                    let told = (key, generation, checked.leader);
                    self.compare(now, cluster, told, end, &mut retries);
                }
                Err(error) if heals(&error) => retries.fail(now, cluster, position, error),
                // The broker does not know of epochs, or not for this client: a Fetch says what else is wrong.
                Err(_) => position.passed(checked.leader),
            }
        }
        self.review(now, cluster, false);
        self.wake_links(now, cluster);
    }

    /// Takes in a leader that a broker told of. Only this partition is looked at again.
    fn hint(&mut self, cluster: &mut Cluster, span: &Span, leader: i32, epoch: i32) {
        let is_seen = cluster.view_version() == self.seen_view;
        let topic = (&*span.topic, span.topic_id);
        cluster.hint(topic, span.partition, (leader, epoch));
        if is_seen {
            self.seen_view = cluster.view_version();
        }
    }

    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some(mut sent) = self.sent.remove(&orphan.token) else {
            return;
        };
        sent.session.lose();
        self.sessions.insert(sent.to, sent.session);
        self.lanes.release(sent.link);
        let mut retries = Retries::default();
        for span in &sent.spans {
            let current = self.assignment.touch_current(span.key, span.generation);
            let Some(position) = current else { continue };
            position.in_flight = false;
            let error = orphan.error.clone();
            let refused = Refused {
                code: ErrorCode::NONE,
                error: error.partition_is(&span.topic, span.partition),
                leader: None,
            };
            self.handle_refused(now, cluster, span, refused, &mut retries);
        }
        self.review(now, cluster, false);
    }

    pub(crate) fn handle_ended(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        if self.checks.is_one(&ended) {
            return self.handle_checked(now, cluster, ended);
        }
        let ended = self.lookups.finish(ended);
        if ended.is_empty() {
            // The client closes: it dials nobody any more.
            return;
        }
        let mut retries = Retries::default();
        for (searched, found) in ended {
            let Searched {
                key,
                topic,
                partition,
                generation,
                topic_id,
                ..
            } = searched;
            let latest_id = self.subscription.id_of(&topic);
            let fresh = self.assignment.fresh_generation();
            let Some(position) = self.assignment.touch_current(key, generation) else {
                continue;
            };
            position.looking_up = false;
            match found {
                Ok(Found::Offset((beginning, _))) if position.evidence.asks() => {
                    if position.begins_behind(beginning) {
                        let text = format!("the log begins at {beginning}");
                        let code = ErrorCode::OFFSET_OUT_OF_RANGE;
                        let error = Error::from_code(code, Some(&text));
                        let error = error.partition_is(&topic, partition);
                        let policy = self.config.auto_offset_reset;
                        leave_log(now, cluster, policy, position, fresh, error);
                    }
                }
                Ok(Found::Elsewhere(start)) => position.start = start,
                Ok(Found::Offset(at)) => {
                    position.found(at, topic_id);
                    position.note_topic(latest_id);
                    if position.is_outdated {
                        // The review looks up the beginning of the new topic.
                        continue;
                    }
                    cluster.context.changes.tell(Change::Position);
                    if let Some(reset) = position.reset.take() {
                        cluster.context.observer.tell(Observed::OffsetReset {
                            topic,
                            partition,
                            from: reset.from,
                            to: at.0,
                            reason: reset.reason,
                        });
                    }
                }
                // A topic that the call reports as absent for good may be created again: the view decides.
                Err(error) if heals(&error) || error.kind() == Kind::Argument => {
                    let error = error.partition_is(&topic, partition);
                    retries.fail(now, cluster, position, error);
                }
                Err(error) => retries.deny(now, cluster, (&topic, partition), position, error),
            }
        }
        // Partitions whose offset was found can be fetched at once.
        self.review(now, cluster, false);
        self.wake_links(now, cluster);
    }

    pub(crate) fn pump(&mut self, now: Instant, core: &mut Core) {
        let cluster = &mut core.cluster;
        let is_new = self.seen_view != cluster.view_version();
        if is_new || self.must_look {
            self.look(now, cluster, is_new);
        }
        self.assignment.touch_due(now);
        self.review(now, cluster, is_new);
        self.look_up(now, core);
        let cluster = &mut core.cluster;
        if let Some(lost) = self.assignment.leaderless() {
            self.leaders.seek(now, cluster, lost);
        }
        self.leave_unreachable(now, cluster);
        self.wake_links(now, cluster);
        if let Some(at) = self.assignment.next_due() {
            cluster.set_alarm(at);
        }
    }

    #[cfg(test)]
    pub(crate) fn looks(&self) -> &std::cell::Cell<usize> {
        &self.assignment.looks
    }

    /// The client closes: requests in flight end without a report.
    pub(crate) fn abort(&mut self) {
        self.buffer.close();
        self.sent.clear();
        self.sessions.clear();
        self.lookups = Lookups::default();
        self.checks = Checks::default();
    }

    // --- what follows

    /// Takes in the view of the cluster.
    fn look(&mut self, now: Instant, cluster: &mut Cluster, is_new: bool) {
        self.seen_view = cluster.view_version();
        self.must_look = false;
        let findings = self.subscription.look(now, cluster, is_new);
        for finding in findings {
            match finding {
                Finding::Partitions(topic, numbers, start) => {
                    for partition in numbers {
                        if !self.assignment.contains(&topic, partition) {
                            self.add(cluster, &topic, partition, start);
                        }
                    }
                }
                Finding::Recreated(topic) => self.start_anew(cluster, &topic),
                Finding::Refused => raise(cluster),
            }
        }
        self.assignment.touch_all();
    }

    /// The topic was deleted and made anew.
    fn start_anew(&mut self, cluster: &mut Cluster, topic: &str) {
        let id = self.subscription.id_of(topic);
        let is_followed = self.subscription.is_followed(topic);
        for partition in self.assignment.partitions(topic) {
            if is_followed && cluster.view().partition(topic, partition).is_none() {
                self.remove(cluster, topic, partition);
            } else if let Ok(position) = self.assignment.touch(topic, partition) {
                position.note_topic(id);
            }
        }
    }

    /// Finds out what each position needs that was touched. `is_new` if brokers answered for metadata since the last time.
    pub(super) fn review(&mut self, now: Instant, cluster: &mut Cluster, is_new: bool) {
        for key in self.assignment.take_touched() {
            self.leave_outdated(key);
            self.review_one(now, cluster, key, is_new);
        }
    }

    /// Goes on at the beginning of a topic that was made anew, once the caller has what came of the one before.
    fn leave_outdated(&mut self, key: Key) {
        let Some(entry) = self.assignment.entry(key) else {
            return;
        };
        if !entry.position.is_outdated || !entry.position.is_drained() {
            return;
        }
        let generation = self.assignment.fresh_generation();
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        if self.config.auto_offset_reset == OffsetReset::None {
            entry.position.leave_topic(generation, Start::Reset);
            entry.position.stuck = Some(outdated(&entry.topic, entry.partition));
        } else {
            entry.position.leave_topic(generation, Start::Beginning);
        }
    }

    fn review_one(&mut self, now: Instant, cluster: &mut Cluster, key: Key, is_new: bool) {
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        let (topic, partition) = (&entry.topic, entry.partition);
        let position = &mut entry.position;
        let view = cluster.view();
        let known = view.topic(topic);
        let found = known.and_then(|known| known.partitions.get(&partition));
        if let Some(known) = known {
            position.note_presence(now, found.is_some(), is_new, || {
                absent(topic, partition, known.partitions.len())
            });
        }
        let leader = found.map(|found| found.leader);
        let leader = leader.filter(|leader| view.node(*leader).is_some());
        if position.need(now) == Need::Offset
            && let Err(error) = time_of(position, self.config.auto_offset_reset)
        {
            position.stuck = Some(error.partition_is(topic, partition));
        }
        let mut source = leader;
        let place = match (position.need(now), leader) {
            (Need::Nothing, _) => Place::Idle,
            (Need::Help, _) => Place::Stuck,
            (Need::Pause(at), _) => Place::Pausing(at),
            (Need::Committed, _) => Place::Uncommitted,
            (Need::Offset | Need::Check | Need::Records(_), None) => Place::Leaderless,
            (Need::Offset | Need::Check, Some(leader)) => Place::Searching(leader),
            (Need::Records(_), Some(leader)) => {
                position.replica.pass(now, |node| view.node(node).is_some());
                source = position.replica.nearer().or(source);
                Place::Ready(source.unwrap_or(leader), position.last_turn)
            }
        };
        let told = position
            .stuck
            .as_ref()
            .map(|cause| Observed::PartitionStuck {
                topic: Arc::clone(topic),
                partition,
                cause: cause.clone(),
            });
        let is_elsewhere = self.assignment.settle(key, place, source);
        if let Some(event) = told.filter(|_| is_elsewhere) {
            cluster.context.observer.tell(event);
            raise(cluster);
        }
    }

    /// Looks up the offsets that are not known yet, and has positions checked: a partition without leader, or whose leader is
    /// silent, keeps no other waiting.
    fn look_up(&mut self, now: Instant, core: &mut Core) {
        let (mut lookups, mut checks) = (Vec::new(), Vec::new());
        for keys in self.assignment.searching() {
            let (mut searched, mut checked) = (Vec::new(), Vec::new());
            for key in keys {
                let Some(entry) = self.assignment.touch_key(key) else {
                    continue;
                };
                let position = &mut entry.position;
                let (topic, partition) = (Arc::clone(&entry.topic), entry.partition);
                let generation = position.generation;
                if let (Need::Check, Some(offset)) = (position.need(now), position.fetch_at) {
                    let Some((node, epoch)) = core.cluster.view().leader(&topic, partition) else {
                        continue;
                    };
                    position.looking_up = true;
                    checked.push(Checked {
                        key,
                        topic,
                        partition,
                        generation,
                        epoch: position.epochs.epoch_before(offset),
                        leader: Leader { node, epoch },
                    });
                    continue;
                }
                let time = time_of(position, self.config.auto_offset_reset);
                let Ok(Some(time)) = time else { continue };
                position.looking_up = true;
                let topic_id = self.subscription.id_of(&topic);
                searched.push(Searched {
                    key,
                    topic,
                    partition,
                    generation,
                    topic_id,
                    time,
                });
            }
            lookups.extend(Some(searched).filter(|all| !all.is_empty()));
            checks.extend(Some(checked).filter(|all| !all.is_empty()));
        }
        if !lookups.is_empty() || !checks.is_empty() {
            self.review(now, &mut core.cluster, false);
            self.lookups.start(now, core, lookups);
            self.checks.start(now, core, checks);
        }
    }

    /// Reads at the leader what should be read at another replica, if no connection to that one can be made.
    fn leave_unreachable(&mut self, now: Instant, cluster: &mut Cluster) {
        if self.config.client_rack.is_none() {
            return;
        }
        let until = now + self.config.metadata_max_age;
        for node in self.assignment.ready_leaders().collect::<Vec<_>>() {
            let failed = lanes::each().any(|lane| cluster.failure_of(node, lane).is_some());
            if !failed || self.lanes.free(cluster, node).is_some() {
                continue;
            }
            for key in self.assignment.ready(node).collect::<Vec<_>>() {
                let entry = self.assignment.entry(key);
                let is_nearer = |replica: Replica| replica.nearer() == Some(node);
                if !entry.is_some_and(|entry| is_nearer(entry.position.replica)) {
                    continue;
                }
                if let Some(entry) = self.assignment.touch_key(key) {
                    entry.position.replica = Replica::Untold(until);
                }
            }
        }
        self.review(now, cluster, false);
    }

    /// Wakes the links that have something to ask for, and dials those that are missing.
    fn wake_links(&self, now: Instant, cluster: &mut Cluster) {
        for leader in self.assignment.ready_leaders() {
            match self.lanes.free(cluster, leader) {
                Some(_) if self.buffer.is_full() => {}
                Some(link) => cluster.wake(link),
                None => lanes::dial(now, cluster, leader),
            }
        }
    }

    pub(crate) fn next_dispatch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
    ) -> Option<Outgoing> {
        let to @ (node, Lane::Data(_)) = cluster.node_of(link)? else {
            return None;
        };
        self.review(now, cluster, false);
        let connections = self.assignment.leaders().max(1) * lanes::COUNT;
        let allowance = self.buffer.allowance(connections);
        if allowance == 0 || self.lanes.is_busy(link) {
            return None;
        }
        let mut spans = self.spans(now, cluster, node);
        if spans.is_empty() {
            return None;
        }
        let has_ids = spans.iter().all(|span| span.topic_id != Uuid::ZERO);
        let cap = if has_ids { i16::MAX } else { TOPIC_IDS - 1 };
        let version = match cluster.version(link, ApiKey::Fetch, cap) {
            Ok(version) => version,
            Err(error) => {
                self.give_up(now, cluster, &spans, &error);
                return None;
            }
        };
        if version < DIVERGING {
            if version >= EPOCHS {
                self.leave_unchecked(now, cluster, &mut spans);
            }
            spans.iter_mut().for_each(|span| span.last_epoch = -1);
            if spans.is_empty() {
                return None;
            }
        }
        let longest = self.config.fetch_max_wait;
        let wait = match self.lanes.wait(now, cluster, node, longest) {
            Wait::AtMost(wait) => wait,
            Wait::Until(at) if spans.iter().all(Span::is_at_end) => {
                cluster.set_alarm(at);
                return None;
            }
            Wait::Until(_) => lanes::BRIEF,
        };
        if self.share(cluster, node, &mut spans) {
            // The others have the next free link, or one that is still to be dialled.
            cluster.set_alarm(now);
        }
        if version < EPOCHS {
            spans.iter_mut().for_each(|span| span.leader.epoch = -1);
        }
        if version < BOUNDED {
            let most = (allowance / per_partition(&self.config).max(1)).max(1);
            if spans.len() > most {
                spans.truncate(most);
                // The others have the next free link, or one that is still to be dialled.
                cluster.set_alarm(now);
            }
        }
        self.turn += 1;
        for span in &spans {
            self.assignment.request(span.key, self.turn);
        }
        let mut session = self.sessions.remove(&to).unwrap_or_default();
        let request = request::fetch(&self.config, &spans, &mut session, allowance, wait, version);
        let token = cluster.token();
        let waits = !spans.iter().any(Span::is_behind);
        self.lanes.occupy(link, waits.then(|| now + wait));
        let sent = SentFetch {
            link,
            to,
            spans,
            session,
        };
        self.sent.insert(token, sent);
        Some(Outgoing {
            token,
            request: Request::Fetch(request),
            version,
            timeout: self.config.request_timeout + wait,
            answered: true,
            expected_bytes: allowance + ENVELOPE,
        })
    }

    /// Leaves out the partitions whose leader must say first that it has what was read, since this Fetch cannot ask for that.
    fn leave_unchecked(&mut self, now: Instant, cluster: &mut Cluster, spans: &mut Vec<Span>) {
        spans.retain(|span| {
            let entry = self.assignment.entry(span.key);
            let is_due = entry.is_some_and(|it| it.position.is_unchecked(span.leader));
            if let Some(entry) = self.assignment.touch_key(span.key).filter(|_| is_due) {
                entry.position.must_check = true;
                cluster.set_alarm(now);
            }
            !is_due
        });
        self.review(now, cluster, false);
    }

    /// The partitions that may be requested from a broker now. It fills its answer in the order of the request.
    fn spans(&self, now: Instant, cluster: &Cluster, node: i32) -> Vec<Span> {
        let view = cluster.view();
        let keys = self.assignment.ready(node);
        keys.filter_map(|key| {
            let entry = self.assignment.entry(key)?;
            let (topic, partition) = (&entry.topic, entry.partition);
            let (Need::Records(offset), Some((leader, epoch))) =
                (entry.position.need(now), view.leader(topic, partition))
            else {
                return None;
            };
            let source = entry.position.replica.nearer().unwrap_or(leader);
            (source == node).then(|| Span {
                key,
                topic: Arc::clone(topic),
                // Not the view's: a broker that lags behind may tell an earlier one.
                topic_id: self.subscription.id_of(topic),
                partition,
                generation: entry.position.generation,
                offset,
                end: entry.position.bounds.1,
                leader: Leader {
                    node: leader,
                    epoch,
                },
                last_epoch: entry.position.epochs.epoch_before(offset),
                tells_rack: !matches!(entry.position.replica, Replica::Untold(_)),
            })
        })
        .collect()
    }

    /// Leaves half of the partitions to another connection, if the broker is known to have records of all of them: it then
    /// prepares one answer while the other one is received.
    fn share(&self, cluster: &Cluster, node: i32, spans: &mut Vec<Span>) -> bool {
        let is_due = spans.len() > 1 && spans.iter().all(Span::is_behind);
        if is_due && !self.lanes.is_any_busy(cluster, node) {
            spans.truncate(spans.len().div_ceil(lanes::COUNT));
            return true;
        }
        false
    }

    /// The broker does not speak a version that is needed.
    fn give_up(&mut self, now: Instant, cluster: &mut Cluster, spans: &[Span], error: &Error) {
        if heals(error) {
            return;
        }
        for span in spans {
            if let Some(entry) = self.assignment.touch_key(span.key) {
                let error = error.clone().partition_is(&span.topic, span.partition);
                entry.position.stuck = Some(error);
            }
        }
        self.review(now, cluster, false);
    }
}

/// The most bytes of one partition in an answer.
fn per_partition(config: &Config) -> usize {
    usize::try_from(config.max_partition_fetch_bytes).unwrap_or(1)
}

/// Wakes callers who wait for records or positions, since there may be an error to raise.
fn raise(cluster: &mut Cluster) {
    cluster.context.changes.tell(Change::Records);
    cluster.context.changes.tell(Change::Position);
}

/// Wakes callers who wait for a position, if it is known from the start.
fn tell_known(cluster: &mut Cluster, start: Start) {
    if matches!(start, Start::Offset(_) | Start::After(..)) {
        cluster.context.changes.tell(Change::Position);
    }
}
