//! When to look up, to ask, to wait and to give up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::messages::FetchResponse;
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::api::{Request, Response};
use crate::call::{Absence, Ended, why_no_leader};
use crate::cluster::{Cluster, Lane, LinkId, Orphan};
use crate::config::{Config, OffsetReset};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::fetch::answer::{self, Refused, Verdict, heals};
use crate::fetch::assignment::Assignment;
use crate::fetch::buffer::{Buffer, Taken};
use crate::fetch::lookup::{Lookups, Searched, time_of};
use crate::fetch::position::{Generation, Position, Start, check};
use crate::fetch::request::{self, SentFetch, Span};
use crate::part::Core;

/// Connections per broker that carry fetches. A broker answers a connection's requests one after the other, and a fetch for
/// partitions that have nothing new takes `fetch.max.wait.ms`; partitions that want something meanwhile use the next one,
/// which is dialled only then.
const LANES: u8 = 2;

/// The most bytes that are expected around the records of an answer.
const ENVELOPE: usize = 64 << 10;

/// Reads the assigned partitions.
#[derive(Debug)]
pub struct Fetcher {
    config: Arc<Config>,
    assignment: Assignment,
    lookups: Lookups,
    buffer: Buffer,
    sent: FxHashMap<u64, SentFetch>,
    busy: BTreeSet<LinkId>,
    leaders: usize,
    turn: u64,
}

impl Fetcher {
    pub(crate) fn new(config: Arc<Config>) -> Fetcher {
        Fetcher {
            assignment: Assignment::default(),
            lookups: Lookups::default(),
            buffer: Buffer::new(&config),
            sent: FxHashMap::default(),
            busy: BTreeSet::new(),
            leaders: 1,
            turn: 0,
            config,
        }
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
            check(topic, *partition, *start)?;
        }
        let mut before = std::mem::take(&mut self.assignment.topics);
        for (topic, partition, start) in wanted {
            let kept = before
                .get_mut(&topic)
                .and_then(|positions| positions.remove(&partition));
            let position = match kept {
                Some(position) if start == Start::Reset => position,
                _ => Position::new(self.assignment.fresh_generation(), start, now),
            };
            if !self.assignment.topics.contains_key(&topic) {
                cluster.want(now, &topic);
            }
            let positions = self.assignment.topics.entry(topic).or_default();
            positions.insert(partition, position);
        }
        for topic in before.keys() {
            cluster.unwant(topic);
        }
        self.drop_stale();
        Ok(())
    }

    pub(crate) fn seek(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        check(&topic.into(), partition, to)?;
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.get_mut(topic, partition)?;
        let paused = position.paused;
        *position = Position {
            paused,
            ..Position::new(generation, to, now)
        };
        self.drop_stale();
        Ok(())
    }

    pub(crate) fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let position = self.assignment.get(topic, partition)?;
        match (&position.next, &position.stuck) {
            (Some(next), _) => Ok(Some(*next)),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }

    pub(crate) fn set_paused(
        &mut self,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.get_mut(topic, partition)?;
        if position.paused == paused {
            return Ok(());
        }
        position.paused = paused;
        if paused && position.next.is_some() {
            // What is buffered would keep room from the others for as long as the pause lasts; it is fetched again.
            position.generation = generation;
            position.fetch_at = position.next;
            position.in_flight = false;
            self.drop_stale();
        }
        Ok(())
    }

    pub(crate) fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32, bool)> {
        let each = self.assignment.each();
        each.map(|(topic, partition, position)| (topic, partition, position.paused))
    }

    // --- what the caller gets

    pub(crate) fn take(&mut self, now: Instant, cluster: &mut Cluster) -> Option<Taken> {
        let was_full = self.buffer.is_full();
        let taken = self.buffer.pop()?;
        // Else there was room before, and whoever has something to ask for has asked.
        if was_full && !self.buffer.is_full() {
            self.wake_links(now, cluster);
        }
        Some(taken)
    }

    pub(crate) fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.assignment
            .find(topic, partition)
            .is_some_and(|position| position.generation == generation)
    }

    pub(crate) fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        let position = self.assignment.current(topic, partition, generation);
        match position {
            Some(position) => {
                position.next = Some(next_offset);
                true
            }
            None => false,
        }
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
        if let Some(position) = self.assignment.current(topic, partition, generation) {
            position.generation = fresh;
            position.next = Some(offset);
            position.fetch_at = Some(offset);
            position.stuck = Some(error);
            self.drop_stale();
        }
    }

    pub(crate) fn stuck(&self) -> Option<&Error> {
        self.assignment.each().find_map(|(_, _, position)| {
            let is_next = !position.paused && position.is_drained();
            position.stuck.as_ref().filter(|_| is_next)
        })
    }

    pub(crate) fn delay(&self, cluster: &Cluster) -> Option<Error> {
        self.assignment
            .each()
            .filter(|(_, _, position)| !position.paused)
            .find_map(|(topic, partition, position)| {
                if let Some((leader, _)) = cluster.view().leader(topic, partition) {
                    let cause = cluster
                        .failure_of(leader, Lane::Data(0))
                        .or(position.trouble.as_ref())?;
                    return Some(cause.clone().partition_is(topic, partition));
                }
                match why_no_leader(cluster, topic, partition, position.since) {
                    Absence::Proven(error) => Some(error),
                    Absence::SoFar(error) => error,
                }
            })
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
        self.busy.remove(&link);
        if let Response::Fetch(answer) = response {
            self.handle_fetch(now, cluster, sent, answer);
        }
    }

    fn handle_fetch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        sent: SentFetch,
        answer: FetchResponse,
    ) {
        let broker = cluster.address_of(sent.link);
        for (span, verdict) in answer::read(sent.spans, answer, broker.as_deref()) {
            let Some(position) =
                self.assignment
                    .current(&span.topic, span.partition, span.generation)
            else {
                continue;
            };
            position.in_flight = false;
            if !matches!(verdict, Verdict::Failed(_)) {
                position.failures = 0;
                position.retry_at = None;
                position.trouble = None;
            }
            match verdict {
                Verdict::Nothing => {}
                Verdict::Records(fetched) => {
                    position.fetch_at = Some(fetched.next_offset);
                    self.buffer.push(span.generation, fetched);
                }
                Verdict::Stuck(error) => position.stuck = Some(error),
                Verdict::Failed(refused) => self.handle_refused(now, cluster, &span, refused),
            }
        }
    }

    fn handle_refused(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        span: &Span,
        refused: Refused,
    ) {
        let Refused {
            code,
            error,
            leader,
        } = refused;
        if let Some((leader, epoch)) = leader {
            cluster.hint(&span.topic, span.partition, leader, epoch);
        }
        let policy = self.config.auto_offset_reset;
        let generation = self.assignment.fresh_generation();
        let Ok(position) = self.assignment.get_mut(&span.topic, span.partition) else {
            return;
        };
        let out_of_range = code == ErrorCode::OFFSET_OUT_OF_RANGE;
        if !(out_of_range && position.is_drained()) {
            if heals(&error) || out_of_range {
                fail(now, cluster, position, error);
            } else {
                position.stuck = Some(error);
            }
        } else if policy == OffsetReset::None {
            let text = format!(
                "offset {} is not in the log, and auto.offset.reset is none: seek",
                span.offset
            );
            position.stuck = Some(error.wrap(Kind::Broker, text));
        } else {
            // A broker may tell of a beginning that it then refuses: without a pause this would go round and round.
            let at = now + cluster.retry_pause(1);
            cluster.set_alarm(at);
            *position = Position {
                paused: position.paused,
                retry_at: Some(at),
                trouble: Some(error),
                ..Position::new(generation, Start::Reset, now)
            };
        }
    }

    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some(sent) = self.sent.remove(&orphan.token) else {
            return;
        };
        self.busy.remove(&sent.link);
        for span in &sent.spans {
            let position = self
                .assignment
                .current(&span.topic, span.partition, span.generation);
            let Some(position) = position else { continue };
            position.in_flight = false;
            let refused = Refused {
                code: ErrorCode::NONE,
                error: orphan
                    .error
                    .clone()
                    .partition_is(&span.topic, span.partition),
                leader: None,
            };
            self.handle_refused(now, cluster, span, refused);
        }
    }

    pub(crate) fn handle_ended(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        for (searched, found) in self.lookups.finish(ended) {
            let Searched {
                topic,
                partition,
                generation,
                ..
            } = searched;
            let Some(position) = self.assignment.current(&topic, partition, generation) else {
                continue;
            };
            position.looking_up = false;
            match found {
                Ok(offset) => {
                    position.fetch_at = Some(offset);
                    position.next = Some(offset);
                    position.failures = 0;
                    position.trouble = None;
                }
                Err(error) if heals(&error) => {
                    let error = error.partition_is(&topic, partition);
                    fail(now, cluster, position, error);
                }
                Err(error) => position.stuck = Some(error.partition_is(&topic, partition)),
            }
        }
        // What was found out can be fetched at once.
        self.wake_links(now, cluster);
    }

    pub(crate) fn pump(&mut self, now: Instant, core: &mut Core) {
        self.look_up(now, core);
        let cluster = &mut core.cluster;
        self.wake_links(now, cluster);
        for (_, _, position) in self.assignment.each() {
            if let Some(at) = position.retry_at.filter(|at| *at > now) {
                cluster.set_alarm(at);
            }
        }
    }

    pub(crate) fn abort(&mut self) {
        self.buffer.clear();
    }

    // --- what to do

    /// Looks up the offsets that are not known yet: a partition without leader, or whose leader is silent, keeps no other
    /// waiting.
    fn look_up(&mut self, now: Instant, core: &mut Core) {
        let cluster = &mut core.cluster;
        let policy = self.config.auto_offset_reset;
        let mut by_leader: BTreeMap<i32, Vec<Searched>> = BTreeMap::new();
        for (topic, positions) in &mut self.assignment.topics {
            for (partition, position) in positions {
                if position.fetch_at.is_some() || position.looking_up || position.stuck.is_some() {
                    continue;
                }
                if let Some(at) = position.retry_at.filter(|at| *at > now) {
                    cluster.set_alarm(at);
                    continue;
                }
                let time = match time_of(position.start, policy) {
                    Ok(Some(time)) => time,
                    Ok(None) => continue,
                    Err(error) => {
                        position.stuck = Some(error.partition_is(topic, *partition));
                        continue;
                    }
                };
                let Some((leader, _)) = cluster.view().leader(topic, *partition) else {
                    if let Absence::Proven(error) =
                        why_no_leader(cluster, topic, *partition, position.since)
                    {
                        position.stuck = Some(error);
                    }
                    continue;
                };
                position.looking_up = true;
                by_leader.entry(leader).or_default().push(Searched {
                    topic: Arc::clone(topic),
                    partition: *partition,
                    generation: position.generation,
                    time,
                });
            }
        }
        self.lookups.start(now, core, by_leader);
    }

    /// Wakes the links that have something to ask for, and dials those that are missing.
    fn wake_links(&mut self, now: Instant, cluster: &mut Cluster) {
        let mut leaders = BTreeSet::new();
        let mut idle = BTreeSet::new();
        let mut missing = false;
        for (topic, partition, position) in self.assignment.each() {
            let Some((leader, _)) = cluster.view().leader(topic, partition) else {
                missing |= position.stuck.is_none();
                continue;
            };
            leaders.insert(leader);
            if position.wants(now).is_some() {
                idle.insert(leader);
            }
        }
        self.leaders = leaders.len();
        if missing && cluster.view().nodes().next().is_some() {
            cluster.refresh(now);
        }
        for leader in idle {
            self.wake_lane(now, cluster, leader);
        }
    }

    fn wake_lane(&self, now: Instant, cluster: &mut Cluster, leader: i32) {
        for lane in 0..LANES {
            match cluster.node_link(now, leader, Lane::Data(lane)) {
                // Its fetch waits for other partitions.
                Some(link) if self.busy.contains(&link) => {}
                Some(link) => {
                    if !self.buffer.is_full() {
                        cluster.wake(link);
                    }
                    return;
                }
                None => return,
            }
        }
    }

    pub(crate) fn next_dispatch(
        &mut self,
        cluster: &mut Cluster,
        link: LinkId,
        now: Instant,
    ) -> Option<Outgoing> {
        let (node, Lane::Data(_)) = cluster.node_of(link)? else {
            return None;
        };
        let connections = self.leaders.max(1) * usize::from(LANES);
        let allowance = self.buffer.allowance(connections);
        if allowance == 0 || self.busy.contains(&link) {
            return None;
        }
        let spans = self.due(now, cluster, node);
        if spans.is_empty() {
            return None;
        }
        let has_ids = spans.iter().all(|span| span.topic_id != Uuid::ZERO);
        let cap = if has_ids { i16::MAX } else { 12 };
        let version = match cluster.version(link, ApiKey::Fetch, cap) {
            Ok(version) => version,
            Err(error) => {
                for span in spans {
                    if let Ok(position) = self.assignment.get_mut(&span.topic, span.partition) {
                        position.stuck = Some(error.clone());
                    }
                }
                return None;
            }
        };
        self.turn += 1;
        for span in &spans {
            if let Ok(position) = self.assignment.get_mut(&span.topic, span.partition) {
                position.in_flight = true;
                position.last_turn = self.turn;
            }
        }
        let request = Request::Fetch(request::fetch(&self.config, &spans, allowance));
        let token = cluster.token();
        self.busy.insert(link);
        self.sent.insert(token, SentFetch { link, spans });
        Some(Outgoing {
            token,
            request,
            version,
            timeout: self.config.request_timeout + self.config.fetch_max_wait,
            answered: true,
            expected_bytes: allowance + ENVELOPE,
        })
    }

    /// What may be asked of a broker now. It fills its answer in the order of the request: who was served longest ago comes
    /// first.
    fn due(&self, now: Instant, cluster: &Cluster, node: i32) -> Vec<Span> {
        let view = cluster.view();
        let mut due = Vec::new();
        for (topic, partition, position) in self.assignment.each() {
            let (Some(offset), Some((leader, leader_epoch))) =
                (position.wants(now), view.leader(topic, partition))
            else {
                continue;
            };
            if leader != node {
                continue;
            }
            let span = Span {
                topic: Arc::clone(topic),
                topic_id: view.topic(topic).map_or(Uuid::ZERO, |topic| topic.id),
                partition,
                generation: position.generation,
                offset,
                leader_epoch,
            };
            due.push((position.last_turn, span));
        }
        due.sort_by_key(|(turn, _)| *turn);
        due.into_iter().map(|(_, span)| span).collect()
    }

    /// Drops buffered records that no generation asks for any more.
    fn drop_stale(&mut self) {
        let assignment = &self.assignment;
        self.buffer.retain(|taken| {
            assignment
                .find(&taken.fetched.topic, taken.fetched.partition)
                .is_some_and(|position| position.generation == taken.generation)
        });
    }
}

/// Tries the partition again after a pause, with a new view of the cluster.
fn fail(now: Instant, cluster: &mut Cluster, position: &mut Position, error: Error) {
    position.failures = position.failures.saturating_add(1);
    position.trouble = Some(error);
    let at = now + cluster.retry_pause(position.failures);
    position.retry_at = Some(at);
    cluster.set_alarm(at);
    cluster.refresh(now);
}
