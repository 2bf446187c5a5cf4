//! Fetching: positions, a fetch in flight per broker, and a bounded buffer of what came.
//!
//! ```text
//!  assign, seek ──▶ no offset ── looked up ──▶ fetching ──▶ buffered ──▶ taken ──▶ position moves on
//!                      ▲                          │  ▲          │
//!                      │  out of range            │  └──────────┘ the next fetch starts at the buffer's end
//!                      └──────────────────────────┘
//!  any state ── error that waiting cannot heal ──▶ stuck, until seek or assign
//! ```
//!
//! Every seek, assignment and reset gives a partition a new generation. Answers, buffered records and positions that carry
//! an older one are dropped, so nothing fetched before a seek can appear after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::records;
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{Request, Response};
use crate::cluster::{Cluster, Lane, LinkId};
use crate::config::{Config, OffsetReset};
use crate::connection::Outgoing;
use crate::engine::{Core, Dispatch, Engine, Failed, Work, closed_error};
use crate::error::{Error, Kind};
use crate::fetched::{Aborted, Fetched};
use crate::operation::{
    Answer, Asker, EARLIEST, LATEST, OperationId, Question, Unknown, why_unknown,
};

/// Connections per broker that carry fetches. A broker answers a connection's requests one after the other, and a fetch for
/// partitions that have nothing new takes `fetch.max.wait.ms`; partitions that want something meanwhile use the next one,
/// which is dialled only then.
const LANES: u8 = 2;

/// The most bytes that are expected around the records of an answer.
const ENVELOPE: usize = 64 << 10;

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At the first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// Where `auto.offset.reset` says.
    Reset,
}

/// Which assignment or seek something belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation(u64);

/// Buffered records, taken out to be decoded.
#[derive(Debug)]
pub struct Taken {
    /// To be given back with [`Engine::advance`].
    pub generation: Generation,
    /// The records.
    pub fetched: Fetched,
}

#[derive(Debug)]
struct Part {
    generation: Generation,
    start: Start,
    /// The next offset to fetch; `None` until it was looked up.
    fetch_at: Option<i64>,
    /// The next offset that the caller gets.
    position: Option<i64>,
    looking_up: bool,
    in_flight: bool,
    paused: bool,
    retry_at: Option<Instant>,
    failures: u32,
    since: Instant,
    /// What keeps the partition from being read until a seek.
    stuck: Option<Error>,
    /// What went wrong last and may heal.
    trouble: Option<Error>,
    last_turn: u64,
}

#[derive(Debug)]
struct Asked {
    link: LinkId,
    parts: Vec<AskedPart>,
}

#[derive(Debug)]
struct AskedPart {
    topic: Arc<str>,
    id: Uuid,
    partition: i32,
    generation: Generation,
    offset: i64,
}

/// The consumer's part of an [`Engine`].
#[derive(Debug)]
pub struct Consumer {
    config: Arc<Config>,
    parts: BTreeMap<Arc<str>, BTreeMap<i32, Part>>,
    next_generation: u64,
    turn: u64,
    asked: FxHashMap<u64, Asked>,
    busy: BTreeSet<LinkId>,
    lookups: FxHashMap<OperationId, Vec<(Arc<str>, i32, Generation)>>,
    buffer: VecDeque<Taken>,
    buffered: usize,
    leaders: usize,
}

impl Engine<Consumer> {
    /// A consumer. `seed` drives everything that is left to chance.
    pub fn consumer(config: Arc<Config>, seed: u64) -> Engine<Consumer> {
        let work = Consumer {
            config: Arc::clone(&config),
            parts: BTreeMap::new(),
            next_generation: 0,
            turn: 0,
            asked: FxHashMap::default(),
            busy: BTreeSet::new(),
            lookups: FxHashMap::default(),
            buffer: VecDeque::new(),
            buffered: 0,
            leaders: 1,
        };
        Engine::with_work(config, seed, work)
    }

    /// Reads these partitions and no others. One that was assigned before and comes with [`Start::Reset`] goes on as it was.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative partition or offset; nothing was changed.
    pub fn assign(
        &mut self,
        now: Instant,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let wanted: Vec<_> = partitions.into_iter().collect();
        for (topic, partition, start) in &wanted {
            check(topic, *partition, *start)?;
        }
        let work = &mut self.work;
        let mut before = std::mem::take(&mut work.parts);
        for (topic, partition, start) in wanted {
            let kept = before
                .get_mut(&topic)
                .and_then(|parts| parts.remove(&partition));
            let part = match kept {
                Some(part) if start == Start::Reset => part,
                _ => Part::new(work.fresh_generation(), start, now),
            };
            if !work.parts.contains_key(&topic) {
                self.core.cluster.want(now, &topic);
            }
            work.parts.entry(topic).or_default().insert(partition, part);
        }
        for topic in before.keys() {
            self.core.cluster.unwant(topic);
        }
        work.drop_stale();
        self.settle(now);
        Ok(())
    }

    /// Goes on reading there; what was fetched and not taken is dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        check(&topic.into(), partition, to)?;
        let generation = self.work.fresh_generation();
        let part = self.work.part_mut(topic, partition)?;
        let paused = part.paused;
        *part = Part {
            paused,
            ..Part::new(generation, to, now)
        };
        self.work.drop_stale();
        self.settle(now);
        Ok(())
    }

    /// The offset of the next record that the caller gets; `None` until it was looked up.
    ///
    /// # Errors
    /// The partition is not assigned, or what keeps its offset from being known for good.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let part = self.work.part(topic, partition)?;
        match (&part.position, &part.stuck) {
            (Some(position), _) => Ok(Some(*position)),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }

    /// Stops or resumes giving out records of a partition.
    ///
    /// # Errors
    /// The partition is not assigned.
    pub fn set_paused(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        let generation = self.work.fresh_generation();
        let part = self.work.part_mut(topic, partition)?;
        if part.paused == paused {
            return Ok(());
        }
        part.paused = paused;
        if paused && part.position.is_some() {
            // What is buffered would keep room from the others for as long as the pause lasts; it is fetched again.
            part.generation = generation;
            part.fetch_at = part.position;
            part.in_flight = false;
            self.work.drop_stale();
        }
        self.settle(now);
        Ok(())
    }

    /// The assigned partitions, sorted, and whether each is paused.
    pub fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32, bool)> {
        let parts = self.work.parts.iter();
        parts.flat_map(|(topic, parts)| {
            parts
                .iter()
                .map(move |(partition, part)| (topic, *partition, part.paused))
        })
    }

    /// The oldest buffered records. Makes room for the next fetch.
    pub fn take(&mut self, now: Instant) -> Option<Taken> {
        let work = &mut self.work;
        let taken = work.buffer.pop_front()?;
        let was_full = work.allowance() == 0;
        work.buffered -= taken.fetched.records.len();
        // Else there was room before, and whoever has something to ask for has asked.
        if was_full && work.allowance() > 0 {
            work.wake_links(now, &mut self.core.cluster);
        }
        Some(taken)
    }

    /// Whether something of this generation may still be given to the caller.
    pub fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.work
            .part(topic, partition)
            .is_ok_and(|part| part.generation == generation)
    }

    /// The caller gets everything before `next_offset`; false if a seek came in between, then it must not.
    pub fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        match self.work.part_mut(topic, partition) {
            Ok(part) if part.generation == generation => {
                part.position = Some(next_offset);
                true
            }
            _ => false,
        }
    }

    /// The records at `offset` do not decode: the partition stays there, and says so, until a seek.
    pub fn reject(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        offset: i64,
        error: Error,
    ) {
        let fresh = self.work.fresh_generation();
        if let Ok(part) = self.work.part_mut(topic, partition) {
            if part.generation == generation {
                part.generation = fresh;
                part.position = Some(offset);
                part.fetch_at = Some(offset);
                part.stuck = Some(error);
                self.work.drop_stale();
            }
        }
    }

    /// An error that keeps a partition from being read until a seek or a new assignment; once the caller got everything
    /// that stands before it.
    pub fn stuck(&self) -> Option<&Error> {
        self.work.each().find_map(|(_, _, part)| {
            let is_next = !part.paused && part.position == part.fetch_at;
            part.stuck.as_ref().filter(|_| is_next)
        })
    }

    /// Why nothing comes, if it is not just that there is nothing: no broker, an unknown topic, no leader.
    pub fn delay(&self) -> Option<Error> {
        if let Some(trouble) = self.trouble() {
            return Some(trouble);
        }
        self.work
            .each()
            .filter(|(_, _, part)| !part.paused)
            .find_map(|(topic, partition, part)| {
                if let Some((leader, _)) = self.core.cluster.view().leader(topic, partition) {
                    let cause = self
                        .core
                        .cluster
                        .failure_of(leader, Lane::Data(0))
                        .or(part.trouble.as_ref())?;
                    return Some(cause.clone().partition_is(topic, partition));
                }
                match why_unknown(&self.core.cluster, topic, partition, part.since) {
                    Unknown::ForGood(error) => Some(error),
                    Unknown::SoFar(error) => error,
                }
            })
    }
}

fn check(topic: &Arc<str>, partition: i32, start: Start) -> Result<(), Error> {
    let problem = match start {
        _ if partition < 0 => "a partition's number is 0 or above".to_owned(),
        Start::Offset(offset) if offset < 0 => format!("an offset is 0 or above, and was {offset}"),
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Argument, problem).partition_is(topic, partition))
}

impl Part {
    fn new(generation: Generation, start: Start, now: Instant) -> Part {
        let offset = match start {
            Start::Offset(offset) => Some(offset),
            _ => None,
        };
        Part {
            generation,
            start,
            fetch_at: offset,
            position: offset,
            looking_up: false,
            in_flight: false,
            paused: false,
            retry_at: None,
            failures: 0,
            since: now,
            stuck: None,
            trouble: None,
            last_turn: 0,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// The offset to ask for now, if any.
    fn wants(&self, now: Instant) -> Option<i64> {
        let free = !self.paused && !self.in_flight && self.stuck.is_none() && self.is_due(now);
        self.fetch_at.filter(|_| free)
    }
}

impl Consumer {
    fn fresh_generation(&mut self) -> Generation {
        self.next_generation += 1;
        Generation(self.next_generation)
    }

    fn part(&self, topic: &str, partition: i32) -> Result<&Part, Error> {
        let part = self
            .parts
            .get(topic)
            .and_then(|parts| parts.get(&partition));
        part.ok_or_else(|| not_assigned(topic, partition))
    }

    fn part_mut(&mut self, topic: &str, partition: i32) -> Result<&mut Part, Error> {
        let part = self
            .parts
            .get_mut(topic)
            .and_then(|parts| parts.get_mut(&partition));
        part.ok_or_else(|| not_assigned(topic, partition))
    }

    fn each(&self) -> impl Iterator<Item = (&Arc<str>, i32, &Part)> {
        let parts = self.parts.iter();
        parts.flat_map(|(topic, parts)| {
            parts
                .iter()
                .map(move |(partition, part)| (topic, *partition, part))
        })
    }

    /// Drops buffered records that no generation asks for any more.
    fn drop_stale(&mut self) {
        let parts = &self.parts;
        self.buffer.retain(|taken| {
            let part = parts
                .get(&taken.fetched.topic)
                .and_then(|parts| parts.get(&taken.fetched.partition));
            part.is_some_and(|part| part.generation == taken.generation)
        });
        self.buffered = self
            .buffer
            .iter()
            .map(|taken| taken.fetched.records.len())
            .sum();
    }

    /// The most that one fetch may ask for now; 0 if enough is buffered. Half of the budget is for what is asked for,
    /// shared evenly by the connections, half for what waits.
    fn allowance(&self) -> usize {
        let half = (self.config.prefetch_max_bytes / 2).max(1);
        if self.buffered >= half {
            return 0;
        }
        let most = usize::try_from(self.config.fetch_max_bytes).unwrap_or(1);
        (half / (self.leaders.max(1) * usize::from(LANES))).clamp(1, most)
    }

    /// Wakes the links that have something to ask for, and dials those that are missing.
    fn wake_links(&mut self, now: Instant, cluster: &mut Cluster) {
        let mut leaders = BTreeSet::new();
        let mut idle = BTreeSet::new();
        let mut missing = false;
        for (topic, partition, part) in self.each() {
            let Some((leader, _)) = cluster.view().leader(topic, partition) else {
                missing |= part.stuck.is_none();
                continue;
            };
            leaders.insert(leader);
            if part.wants(now).is_some() {
                idle.insert(leader);
            }
        }
        self.leaders = leaders.len();
        if missing && cluster.view().nodes().next().is_some() {
            cluster.refresh(now);
        }
        let allowed = self.allowance() > 0;
        for leader in idle {
            for lane in 0..LANES {
                match cluster.node_link(now, leader, Lane::Data(lane)) {
                    // Its fetch waits for other partitions.
                    Some(link) if self.busy.contains(&link) => {}
                    Some(link) => {
                        if allowed {
                            cluster.wake(link);
                        }
                        break;
                    }
                    None => break,
                }
            }
        }
    }

    /// Looks up the offsets that are not known yet, with one question for each leader: a partition without one, or whose
    /// leader is silent, keeps no other waiting.
    fn look_up(&mut self, now: Instant, core: &mut Core) {
        let policy = self.config.auto_offset_reset;
        let mut by_leader: BTreeMap<i32, (Vec<_>, Vec<_>)> = BTreeMap::new();
        for (topic, parts) in &mut self.parts {
            for (partition, part) in parts {
                if part.fetch_at.is_some() || part.looking_up || part.stuck.is_some() {
                    continue;
                }
                if let Some(at) = part.retry_at.filter(|at| *at > now) {
                    core.cluster.set_alarm(at);
                    continue;
                }
                let time = match (part.start, policy) {
                    (Start::Beginning, _) | (Start::Reset, OffsetReset::Earliest) => EARLIEST,
                    (Start::End, _) | (Start::Reset, OffsetReset::Latest) => LATEST,
                    (Start::Offset(_), _) => continue,
                    (Start::Reset, OffsetReset::None) => {
                        let text = "no position, and auto.offset.reset is none: seek, or assign with an offset";
                        part.stuck =
                            Some(Error::new(Kind::Argument, text).partition_is(topic, *partition));
                        continue;
                    }
                };
                let Some((leader, _)) = core.cluster.view().leader(topic, *partition) else {
                    if let Unknown::ForGood(error) =
                        why_unknown(&core.cluster, topic, *partition, part.since)
                    {
                        part.stuck = Some(error);
                    }
                    continue;
                };
                part.looking_up = true;
                let (questions, waiting) = by_leader.entry(leader).or_default();
                questions.push((Arc::clone(topic), *partition, time));
                waiting.push((Arc::clone(topic), *partition, part.generation));
            }
        }
        if by_leader.is_empty() {
            return;
        }
        let deadline = now + self.config.default_api_timeout;
        let Core {
            cluster,
            operations,
        } = core;
        for (questions, waiting) in by_leader.into_values() {
            let question = Question::Offsets(questions);
            let id = operations.start(now, cluster, question, Asker::Work, deadline);
            self.lookups.insert(id, waiting);
        }
        operations.pump(now, cluster);
    }

    fn handle_fetch(
        &mut self,
        now: Instant,
        core: &mut Core,
        asked: &Asked,
        answer: FetchResponse,
    ) {
        let whole = ErrorCode(answer.error_code);
        let broker = core.cluster.address_of(asked.link);
        let named = |error: Error| {
            let error = error.calling("Fetch");
            broker
                .as_ref()
                .map_or(error.clone(), |address| error.at(address))
        };
        let mut rows = rows_of(&asked.parts, answer.responses);
        for part in &asked.parts {
            let row = rows.remove(&(&*part.topic, part.partition));
            let Some(entry) = self
                .parts
                .get_mut(&part.topic)
                .and_then(|parts| parts.get_mut(&part.partition))
            else {
                continue;
            };
            if entry.generation != part.generation {
                continue;
            }
            entry.in_flight = false;
            let code = row.as_ref().map_or(whole, |row| ErrorCode(row.error_code));
            match row {
                Some(row) if !code.is_error() => self.handle_records(part, row),
                _ => {
                    let leader = row.as_ref().map(|row| {
                        (
                            row.current_leader.leader_id,
                            row.current_leader.leader_epoch,
                        )
                    });
                    if let Some((leader, epoch)) = leader.filter(|(leader, _)| *leader >= 0) {
                        core.cluster
                            .hint(&part.topic, part.partition, leader, epoch);
                    }
                    let error = if code.is_error() {
                        Error::from_code(code, None)
                    } else {
                        Error::new(Kind::Protocol, "the answer leaves out a partition")
                    };
                    self.handle_error(now, core, part, code, named(error));
                }
            }
        }
    }

    /// Buffers the whole batches of an answer and moves the fetch on behind them.
    fn handle_records(&mut self, asked: &AskedPart, row: PartitionData) {
        let Ok(part) = self.part_mut(&asked.topic, asked.partition) else {
            return;
        };
        part.failures = 0;
        part.retry_at = None;
        part.trouble = None;
        let Some(records) = row.records.filter(|records| !records.is_empty()) else {
            return;
        };
        let stuck = |kind: Kind, text: String| {
            let text = format!(
                "at offset {}: {text}; seek to go on behind it",
                asked.offset
            );
            Some(Error::new(kind, text).partition_is(&asked.topic, asked.partition))
        };
        let (mut whole, mut next_offset, mut leader_epoch) = (0, asked.offset, -1);
        for entry in records::entries(records.clone()) {
            match entry {
                Ok(entry) => {
                    whole += entry.size();
                    next_offset = next_offset.max(entry.next_offset());
                    leader_epoch = entry.leader_epoch();
                }
                // What stands before it is given out first; the next fetch meets it again.
                Err(_) if whole > 0 => break,
                Err(cause) => {
                    part.stuck = stuck(Kind::Corrupt, cause.to_string());
                    return;
                }
            }
        }
        if whole == 0 {
            let text =
                "the broker sent only the beginning of a batch: raise max.partition.fetch.bytes";
            part.stuck = stuck(Kind::TooLarge, text.to_owned());
            return;
        }
        if next_offset <= asked.offset {
            part.stuck = stuck(
                Kind::Corrupt,
                format!("the batches sent end at {next_offset} already"),
            );
            return;
        }
        part.fetch_at = Some(next_offset);
        let aborted = row.aborted_transactions.unwrap_or_default();
        self.buffered += whole;
        self.buffer.push_back(Taken {
            generation: asked.generation,
            fetched: Fetched {
                topic: Arc::clone(&asked.topic),
                partition: asked.partition,
                fetch_offset: asked.offset,
                next_offset,
                leader_epoch,
                high_watermark: row.high_watermark,
                records: records.slice(..whole),
                aborted: aborted
                    .iter()
                    .map(|row| Aborted {
                        producer_id: row.producer_id,
                        first_offset: row.first_offset,
                    })
                    .collect(),
            },
        });
    }

    fn handle_error(
        &mut self,
        now: Instant,
        core: &mut Core,
        asked: &AskedPart,
        code: ErrorCode,
        error: Error,
    ) {
        let policy = self.config.auto_offset_reset;
        let generation = self.fresh_generation();
        let Ok(part) = self.part_mut(&asked.topic, asked.partition) else {
            return;
        };
        let error = error.partition_is(&asked.topic, asked.partition);
        if code == ErrorCode::OFFSET_OUT_OF_RANGE && part.position == part.fetch_at {
            if policy == OffsetReset::None {
                let text = format!(
                    "offset {} is not in the log, and auto.offset.reset is none: seek",
                    asked.offset
                );
                part.stuck = Some(error.wrap(Kind::Broker, text));
            } else {
                // A broker may tell of a beginning that it then refuses: without a pause this would go round and round.
                let at = now + core.cluster.retry_pause(1);
                core.cluster.set_alarm(at);
                *part = Part {
                    paused: part.paused,
                    retry_at: Some(at),
                    trouble: Some(error),
                    ..Part::new(generation, Start::Reset, now)
                };
            }
            return;
        }
        if !heals(&error) && code != ErrorCode::OFFSET_OUT_OF_RANGE {
            part.stuck = Some(error);
            return;
        }
        part.failures = part.failures.saturating_add(1);
        part.trouble = Some(error);
        let at = now + core.cluster.retry_pause(part.failures);
        part.retry_at = Some(at);
        core.cluster.set_alarm(at);
        core.cluster.refresh(now);
    }
}

/// What an answer says of each partition that was asked for, by topic and partition; where it says two things, the first.
fn rows_of(
    asked: &[AskedPart],
    answers: Vec<FetchableTopicResponse>,
) -> FxHashMap<(&str, i32), PartitionData> {
    let by_id: FxHashMap<_, &str> = asked.iter().map(|part| (part.id, &*part.topic)).collect();
    let by_name: FxHashSet<&str> = asked.iter().map(|part| &*part.topic).collect();
    let mut rows = FxHashMap::default();
    for topic in answers {
        let name = match topic.topic_id {
            Uuid::ZERO => by_name.get(&*topic.topic),
            id => by_id.get(&id),
        };
        let Some(name) = name else { continue };
        for row in topic.partitions {
            rows.entry((*name, row.partition_index)).or_insert(row);
        }
    }
    rows
}

/// Whether the same question may be answered later, or over another connection.
fn heals(error: &Error) -> bool {
    error.is_retriable()
        || matches!(
            error.kind(),
            Kind::Unreachable | Kind::Protocol | Kind::NotKafka
        )
}

fn not_assigned(topic: &str, partition: i32) -> Error {
    Error::new(
        Kind::Argument,
        "the partition is not assigned to this consumer",
    )
    .partition_is(&topic.into(), partition)
}

impl Work for Consumer {
    fn handle_answer(
        &mut self,
        now: Instant,
        core: &mut Core,
        link: LinkId,
        token: u64,
        response: Response,
    ) {
        let Some(asked) = self.asked.remove(&token) else {
            return;
        };
        self.busy.remove(&link);
        if let Response::Fetch(answer) = response {
            self.handle_fetch(now, core, &asked, answer);
        }
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, Failed(orphan): Failed) {
        let Some(asked) = self.asked.remove(&orphan.token) else {
            return;
        };
        self.busy.remove(&asked.link);
        for part in &asked.parts {
            let current = match self.part_mut(&part.topic, part.partition) {
                Ok(entry) if entry.generation == part.generation => {
                    entry.in_flight = false;
                    true
                }
                _ => false,
            };
            if current {
                self.handle_error(now, core, part, ErrorCode::NONE, orphan.error.clone());
            }
        }
    }

    fn handle_written(&mut self, _: Instant, _: &mut Core, _: u64) {}

    fn handle_operation(
        &mut self,
        now: Instant,
        core: &mut Core,
        id: OperationId,
        outcome: Result<Answer, Error>,
    ) {
        let Some(waiting) = self.lookups.remove(&id) else {
            return;
        };
        let results = match outcome {
            Ok(Answer::Offsets(results)) => results,
            Ok(_) => return,
            Err(error) => waiting.iter().map(|_| Err(error.clone())).collect(),
        };
        for ((topic, partition, generation), result) in waiting.into_iter().zip(results) {
            let Some(part) = self
                .parts
                .get_mut(&topic)
                .and_then(|parts| parts.get_mut(&partition))
            else {
                continue;
            };
            if part.generation != generation {
                continue;
            }
            part.looking_up = false;
            let offset = result.and_then(|found| match found.offset {
                0.. => Ok(found.offset),
                offset => {
                    let text = format!("the broker says that the log begins or ends at {offset}");
                    Err(Error::new(Kind::Protocol, text).calling("ListOffsets"))
                }
            });
            match offset {
                Ok(offset) => {
                    part.fetch_at = Some(offset);
                    part.position = Some(offset);
                    part.failures = 0;
                    part.trouble = None;
                }
                Err(error) if heals(&error) => {
                    part.failures = part.failures.saturating_add(1);
                    let at = now + core.cluster.retry_pause(part.failures);
                    part.retry_at = Some(at);
                    part.trouble = Some(error.partition_is(&topic, partition));
                    core.cluster.set_alarm(at);
                    core.cluster.refresh(now);
                }
                Err(error) => part.stuck = Some(error.partition_is(&topic, partition)),
            }
        }
        // What was found out can be fetched at once.
        self.wake_links(now, &mut core.cluster);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        self.look_up(now, core);
        self.wake_links(now, &mut core.cluster);
        for (_, _, part) in self.each() {
            if let Some(at) = part.retry_at.filter(|at| *at > now) {
                core.cluster.set_alarm(at);
            }
        }
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        let (node, Lane::Data(_)) = core.cluster.node_of(link)? else {
            return None;
        };
        let allowance = self.allowance();
        if allowance == 0 || self.busy.contains(&link) {
            return None;
        }
        let view = core.cluster.view();
        let mut due: Vec<(u64, AskedPart, i32)> = Vec::new();
        for (topic, partition, part) in self.each() {
            let (Some(offset), Some((leader, epoch))) =
                (part.wants(now), view.leader(topic, partition))
            else {
                continue;
            };
            if leader == node {
                let id = view.topic(topic).map_or(Uuid::ZERO, |topic| topic.id);
                let (topic, generation) = (Arc::clone(topic), part.generation);
                due.push((
                    part.last_turn,
                    AskedPart {
                        topic,
                        id,
                        partition,
                        generation,
                        offset,
                    },
                    epoch,
                ));
            }
        }
        if due.is_empty() {
            return None;
        }
        let has_ids = due.iter().all(|(_, part, _)| part.id != Uuid::ZERO);
        let version =
            match core
                .cluster
                .version(link, ApiKey::Fetch, if has_ids { i16::MAX } else { 12 })
            {
                Ok(version) => version,
                Err(error) => {
                    for (_, part, _) in due {
                        if let Ok(entry) = self.part_mut(&part.topic, part.partition) {
                            entry.stuck = Some(error.clone());
                        }
                    }
                    return None;
                }
            };
        // A broker fills its answer in the order of the request: who was served longest ago comes first.
        due.sort_by_key(|(turn, _, _)| *turn);
        self.turn += 1;
        let max_bytes = i32::try_from(allowance).unwrap_or(i32::MAX);
        let partition_max_bytes = self.config.max_partition_fetch_bytes.min(max_bytes);
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut parts = Vec::with_capacity(due.len());
        for (_, part, epoch) in due {
            let row = FetchPartition {
                partition: part.partition,
                current_leader_epoch: epoch,
                fetch_offset: part.offset,
                partition_max_bytes,
                ..Default::default()
            };
            match topics.iter_mut().find(|topic| *topic.topic == *part.topic) {
                Some(topic) => topic.partitions.push(row),
                None => topics.push(FetchTopic {
                    topic: (&*part.topic).into(),
                    topic_id: part.id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
            parts.push(part);
        }
        let turn = self.turn;
        for part in &parts {
            if let Ok(entry) = self.part_mut(&part.topic, part.partition) {
                entry.in_flight = true;
                entry.last_turn = turn;
            }
        }
        let wait = self.config.fetch_max_wait;
        let request = Request::Fetch(FetchRequest {
            max_wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.config.fetch_min_bytes,
            max_bytes,
            isolation_level: i8::from(self.config.read_committed),
            topics,
            ..Default::default()
        });
        let token = core.cluster.token();
        self.busy.insert(link);
        self.asked.insert(token, Asked { link, parts });
        Some(Dispatch::Ready(Outgoing {
            token,
            request,
            version,
            timeout: self.config.request_timeout + wait,
            answered: true,
            expected_bytes: allowance + ENVELOPE,
        }))
    }

    fn abort(&mut self, _: Instant, _: &mut Core, _: &Error) {
        self.buffer.clear();
        self.buffered = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use ottla_protocol::compression::Compression;
    use ottla_protocol::messages::ListOffsetsResponse;
    use ottla_protocol::messages::fetch_response::FetchableTopicResponse;
    use ottla_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use ottla_protocol::records::{
        BatchBuilder, MessageSetBuilder, OldMagic, ProducerState, assign_offsets,
    };

    use super::*;
    use crate::config::Role;
    use crate::script::{Asked, Script, config};

    type Reader = Script<Consumer>;

    fn reader(pairs: &[(&'static str, &'static str)], start: Start) -> Reader {
        let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
        let now = script.now;
        script
            .engine
            .assign(now, [("t".into(), 0, start), ("t".into(), 1, start)])
            .unwrap();
        script
    }

    fn batch(base: i64, count: i64) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None, None);
        for _ in 0..count {
            builder
                .append(1, None, Some(b"value"), std::iter::empty())
                .unwrap();
        }
        let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
        assign_offsets(&mut bytes, base, 4).unwrap();
        bytes.into()
    }

    /// Partitions and offsets of a Fetch request.
    fn wanted(asked: &Asked) -> Vec<(i32, i64)> {
        let Request::Fetch(request) = &asked.request else {
            panic!("not a Fetch: {asked:?}")
        };
        let parts = request.topics.iter().flat_map(|topic| &topic.partitions);
        parts
            .map(|part| (part.partition, part.fetch_offset))
            .collect()
    }

    /// As a broker before 0.11 wrote it, and its cluster's newer ones still send it.
    fn old_set(base: i64, count: i64) -> Bytes {
        let mut builder =
            MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, base).unwrap();
        for _ in 0..count {
            builder.append(1, None, Some(b"value")).unwrap();
        }
        builder.finish().unwrap()
    }

    fn reply(script: &mut Reader, asked: &Asked, code: ErrorCode, records: &[Bytes]) {
        let Request::Fetch(request) = &asked.request else {
            panic!("not a Fetch")
        };
        let responses = request
            .topics
            .iter()
            .map(|topic| FetchableTopicResponse {
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|part| PartitionData {
                        partition_index: part.partition,
                        error_code: code.0,
                        high_watermark: 100,
                        records: Some(records.concat().into()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        script.answer(
            asked,
            Response::Fetch(FetchResponse {
                responses,
                ..Default::default()
            }),
        );
    }

    fn reply_offsets(script: &mut Reader, asked: &Asked, code: ErrorCode, offset: i64) {
        let Request::ListOffsets(request) = &asked.request else {
            panic!("not a ListOffsets: {asked:?}")
        };
        let topics = request
            .topics
            .iter()
            .map(|topic| ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|part| ListOffsetsPartitionResponse {
                        partition_index: part.partition_index,
                        error_code: code.0,
                        offset,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        script.answer(
            asked,
            Response::ListOffsets(ListOffsetsResponse {
                topics,
                ..Default::default()
            }),
        );
    }

    fn to(asked: &[Asked], script: &Reader, address: &str) -> usize {
        asked
            .iter()
            .position(|asked| script.address(asked.link) == address)
            .unwrap()
    }

    #[test]
    fn fetches_each_broker_and_goes_on_behind_what_came() {
        let mut script = reader(&[], Start::Offset(10));
        let asked = script.run();
        assert_eq!(asked.len(), 2);
        let first = to(&asked, &script, "b1");
        assert_eq!(wanted(&asked[first]), [(0, 10)]);
        let whole = [batch(8, 5), batch(13, 2)];
        let cut = batch(15, 9).slice(..30);
        reply(
            &mut script,
            &asked[first],
            ErrorCode::NONE,
            &[whole[0].clone(), whole[1].clone(), cut],
        );
        let again = script.run();
        assert_eq!(wanted(&again[0]), [(0, 15)]);
        let Taken {
            generation,
            fetched,
        } = script.engine.take(script.now).unwrap();
        assert_eq!(
            (
                fetched.fetch_offset,
                fetched.next_offset,
                fetched.leader_epoch
            ),
            (10, 15, 4)
        );
        assert_eq!(fetched.records, whole.concat());
        assert_eq!(
            fetched
                .split()
                .iter()
                .map(|part| (part.fetch_offset, part.next_offset))
                .collect::<Vec<_>>(),
            [(10, 13), (13, 15)]
        );
        assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
        assert!(script.engine.advance("t", 0, generation, 15));
        assert_eq!(script.engine.position("t", 0), Ok(Some(15)));
    }

    #[test]
    fn message_sets_of_an_old_log_are_taken_as_batches_are() {
        let mut script = reader(&[], Start::Offset(10));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        let whole = [old_set(8, 5), batch(13, 2), old_set(15, 1)];
        let cut = old_set(16, 2).slice(..40);
        let records = [&whole[..], &[cut]].concat();
        reply(&mut script, &asked[first], ErrorCode::NONE, &records);
        let again = script.run();
        assert_eq!(wanted(&again[0]), [(0, 16)]);
        let Taken { fetched, .. } = script.engine.take(script.now).unwrap();
        assert_eq!(
            (fetched.next_offset, fetched.leader_epoch),
            (16, -1),
            "message sets know no epoch"
        );
        assert_eq!(fetched.records, whole.concat());
        assert_eq!(
            fetched
                .split()
                .iter()
                .map(|part| (part.next_offset, part.records.clone()))
                .collect::<Vec<_>>(),
            [13, 15, 16].into_iter().zip(whole).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_seek_drops_what_was_buffered_and_what_is_under_way() {
        let mut script = reader(&[], Start::Offset(0));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
        let stale = script.run();
        script
            .engine
            .seek(script.now, "t", 0, Start::Offset(50))
            .unwrap();
        assert!(script.engine.take(script.now).is_none());
        let fresh = script.run();
        assert_eq!(
            wanted(&fresh[0]),
            [(0, 50)],
            "it does not wait for the fetch under way"
        );
        assert_ne!(fresh[0].link, stale[0].link);
        reply(&mut script, &stale[0], ErrorCode::NONE, &[batch(3, 3)]);
        assert!(script.engine.take(script.now).is_none());
        reply(&mut script, &fresh[0], ErrorCode::NONE, &[batch(50, 3)]);
        assert_eq!(
            script.engine.take(script.now).unwrap().fetched.fetch_offset,
            50
        );
        assert!(script.engine.seek(script.now, "t", 7, Start::End).is_err());
        assert!(
            script
                .engine
                .seek(script.now, "t", 0, Start::Offset(-1))
                .is_err()
        );
    }

    #[test]
    fn a_paused_partition_is_not_asked_for_and_comes_back_where_it_was() {
        let mut script = reader(&[], Start::Offset(0));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        script.engine.set_paused(script.now, "t", 0, true).unwrap();
        reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
        assert!(script.engine.take(script.now).is_none());
        assert!(script.run().is_empty());
        script.engine.set_paused(script.now, "t", 0, false).unwrap();
        assert_eq!(wanted(&script.run()[0]), [(0, 0)]);
    }

    #[test]
    fn looks_up_where_to_begin() {
        let mut script = reader(&[("auto.offset.reset", "earliest")], Start::Reset);
        let asked = script.run();
        assert_eq!(asked.len(), 2);
        let Request::ListOffsets(request) = &asked[0].request else {
            panic!()
        };
        assert_eq!(
            (
                request.replica_id,
                request.topics[0].partitions[0].timestamp
            ),
            (-1, EARLIEST)
        );
        reply_offsets(
            &mut script,
            &asked[0],
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            -1,
        );
        reply_offsets(&mut script, &asked[1], ErrorCode::NONE, 33);
        let offsets = |asked: &[Asked]| -> Vec<i64> {
            let rows = asked.iter().flat_map(wanted);
            rows.map(|(_, offset)| offset).collect()
        };
        assert_eq!(offsets(&script.run()), [33]);
        let asked = script.pass(Duration::from_secs(2));
        assert_eq!(asked.len(), 1, "what failed is asked again: {asked:?}");
        reply_offsets(&mut script, &asked[0], ErrorCode::NONE, 44);
        assert_eq!(offsets(&script.run()), [44]);
    }

    #[test]
    fn a_partition_whose_offset_is_not_told_keeps_no_other_waiting() {
        let mut script = reader(&[], Start::Beginning);
        script.topics = vec![("t", vec![1, -1])];
        let asked = script.run();
        assert_eq!(asked.len(), 1);
        reply_offsets(&mut script, &asked[0], ErrorCode::NONE, 3);
        assert_eq!(wanted(&script.run()[0]), [(0, 3)], "t-1 has no leader");

        let mut script = reader(&[], Start::Beginning);
        script.topics = vec![("t", vec![1, 1])];
        let asked = script.run();
        let Request::ListOffsets(request) = &asked[0].request else {
            panic!("{asked:?}")
        };
        let partitions = [(0, ErrorCode::NONE), (1, ErrorCode::OFFSET_NOT_AVAILABLE)]
            .map(|(partition_index, code)| ListOffsetsPartitionResponse {
                partition_index,
                error_code: code.0,
                offset: 3,
                ..Default::default()
            })
            .to_vec();
        let topics = vec![ListOffsetsTopicResponse {
            name: request.topics[0].name.clone(),
            partitions,
            ..Default::default()
        }];
        let answer = ListOffsetsResponse {
            topics,
            ..Default::default()
        };
        script.answer(&asked[0], Response::ListOffsets(answer));
        assert_eq!(wanted(&script.run()[0]), [(0, 3)], "t-1 is asked again");
    }

    #[test]
    fn a_negative_offset_is_not_read_from() {
        let mut script = reader(&[], Start::End);
        let asked = script.run();
        for asked in &asked {
            reply_offsets(&mut script, asked, ErrorCode::NONE, -1);
        }
        assert!(script.run().is_empty());
        assert_eq!(script.engine.position("t", 0), Ok(None));
        let error = script.engine.delay().unwrap();
        assert!(error.message().contains("ends at -1"), "{error}");
        assert_eq!(script.pass(Duration::from_secs(1)).len(), 2, "asked again");
    }

    #[test]
    fn an_offset_out_of_range_is_reset_or_said() {
        let mut script = reader(&[("auto.offset.reset", "none")], Start::Offset(5));
        let asked = script.run();
        reply(&mut script, &asked[0], ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
        let error = script.engine.stuck().unwrap();
        assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
        assert!(
            error.message().contains("offset 5 is not in the log"),
            "{error}"
        );

        let mut script = reader(&[("auto.offset.reset", "latest")], Start::Offset(5));
        let asked = script.run();
        reply(&mut script, &asked[0], ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
        assert!(script.run().is_empty(), "not in a circle without a pause");
        let again = script.pass(Duration::from_secs(1));
        let Request::ListOffsets(request) = &again[0].request else {
            panic!("{again:?}")
        };
        assert_eq!(request.topics[0].partitions[0].timestamp, LATEST);
    }

    #[test]
    fn fetching_pauses_when_enough_is_buffered() {
        let mut script = reader(&[("prefetch.max.bytes", "200")], Start::Offset(0));
        let asked = script.run();
        let Request::Fetch(request) = &asked[0].request else {
            panic!()
        };
        assert_eq!(
            request.max_bytes, 25,
            "half of the budget, shared by two brokers with two connections each"
        );
        let first = to(&asked, &script, "b1");
        reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 10)]);
        assert!(script.run().is_empty());
        script.engine.take(script.now).unwrap();
        assert_eq!(wanted(&script.run()[0]), [(0, 10)]);
    }

    #[test]
    fn a_broken_connection_or_a_moved_leader_is_asked_again() {
        let mut script = reader(&[], Start::Offset(0));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        let other = to(&asked, &script, "b2");
        script.cut(asked[first].link);
        let again = script.pass(Duration::from_secs(2));
        assert_eq!(wanted(&again[0]), [(0, 0)]);
        script.topics = vec![("t", vec![2, 2])];
        reply(&mut script, &again[0], ErrorCode::FENCED_LEADER_EPOCH, &[]);
        let moved = script.pass(Duration::from_secs(2));
        assert_eq!(script.address(moved[0].link), "b2");
        assert_eq!(wanted(&moved[0]), [(0, 0)]);
        assert_ne!(moved[0].link, asked[other].link);
    }

    #[test]
    fn what_does_not_decode_stays_until_a_seek() {
        let mut script = reader(&[], Start::Offset(0));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(
            &mut script,
            &asked[first],
            ErrorCode::NONE,
            &[batch(0, 3), batch(3, 3)],
        );
        script.run();
        let Taken {
            generation,
            fetched,
        } = script.engine.take(script.now).unwrap();
        assert!(script.engine.advance("t", 0, generation, 3));
        let error = fetched.split()[1].corrupt("bad sum");
        script.engine.reject("t", 0, generation, 3, error);
        assert_eq!(script.engine.position("t", 0), Ok(Some(3)));
        let error = script.engine.stuck().unwrap().clone();
        assert!(
            error.message().contains("from offset 3") && error.message().contains("seek to 6"),
            "{error}"
        );
        script
            .engine
            .seek(script.now, "t", 0, Start::Offset(6))
            .unwrap();
        assert!(script.engine.stuck().is_none());
    }

    #[test]
    fn what_stands_before_a_broken_batch_is_given_out_first() {
        let mut script = reader(&[], Start::Offset(0));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
        let asked = script.run();
        let broken = Bytes::from(vec![0xff; 100]);
        reply(&mut script, &asked[0], ErrorCode::NONE, &[broken]);
        assert_eq!(script.engine.stuck(), None);
        let generation = script.engine.take(script.now).unwrap().generation;
        assert!(script.engine.advance("t", 0, generation, 3));
        let error = script.engine.stuck().unwrap();
        assert!(error.message().contains("at offset 3"), "{error}");
    }

    #[test]
    fn an_unknown_topic_or_partition_is_the_reason_for_silence() {
        let mut script = Script::new(Engine::consumer(config(Role::Consumer, &[]), 7));
        script
            .engine
            .assign(script.now, [("nope".into(), 0, Start::Beginning)])
            .unwrap();
        script.pass(Duration::from_secs(1));
        assert_eq!(
            script.engine.delay().unwrap().code(),
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        );
        script
            .engine
            .assign(script.now, [("t".into(), 9, Start::Offset(0))])
            .unwrap();
        script.pass(Duration::from_secs(1));
        assert!(
            script
                .engine
                .delay()
                .unwrap()
                .message()
                .contains("the topic has 2")
        );
    }

    #[test]
    fn an_assignment_that_stays_keeps_its_position() {
        let mut script = reader(&[], Start::Offset(5));
        script.run();
        script
            .engine
            .assign(script.now, [("t".into(), 0, Start::Reset)])
            .unwrap();
        assert_eq!(script.engine.position("t", 0), Ok(Some(5)));
        assert_eq!(
            script.engine.position("t", 1).unwrap_err().kind(),
            Kind::Argument
        );
        assert_eq!(script.engine.assignment().count(), 1);
    }
}
