//! One partition's state: where it is read, and what keeps it from being read.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use crate::denials::Denials;
use crate::error::{Error, Kind};
use crate::fetch::denial::Evidence;
use crate::fetch::epochs::Epochs;
use crate::fetch::reads::Reads;
use crate::fetch::replica::Replica;
use crate::metrics::Progress;

/// How long brokers must return that a partition does not exist.
const ABSENT: Duration = Duration::from_millis(300);

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At this offset, before which stands a record of this leader epoch: if it does not, the log was truncated (KIP-320).
    After(i64, i32),
    /// At the first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// At the offset that `auto.offset.reset` selects.
    Reset,
    /// At the committed offset of the group, else at the offset that `auto.offset.reset` selects.
    Committed,
}

impl Start {
    /// Refuses an offset that cannot be.
    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            Start::Offset(offset) | Start::After(offset, _) if offset < 0 => {
                let text = format!("an offset must be 0 or above, and was {offset}");
                Err(Error::new(Kind::Argument, text))
            }
            _ => Ok(()),
        }
    }

    /// As [`Start::check`], and refuses a partition that cannot be.
    pub(super) fn check_in(self, topic: &Arc<str>, partition: i32) -> Result<(), Error> {
        let checked = match partition {
            0.. => self.check(),
            _ => Err(Error::new(
                Kind::Argument,
                "a partition's number is 0 or above",
            )),
        };
        checked.map_err(|error| error.with_partition(topic, partition))
    }
}

/// Which assignment or seek something belongs to. No two partitions ever have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub(super) u64);

impl Generation {
    /// Its number, for comparisons.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// The leader of a partition, and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) node: i32,
    /// -1 if it is not known, or was not reported.
    pub(super) epoch: i32,
}

/// How far one partition was read.
#[derive(Debug)]
pub(super) struct Position {
    pub(super) generation: Generation,
    pub(super) start: Start,
    /// The next offset to fetch; `None` until it was looked up.
    pub(super) fetch_at: Option<i64>,
    /// The next offset that the caller gets.
    pub(super) next: Option<i64>,
    pub(super) looking_up: bool,
    pub(super) in_flight: bool,
    pub(super) paused: bool,
    pub(super) retry_at: Option<Instant>,
    pub(super) failures: u32,
    /// The error that keeps the partition from being read until a seek.
    pub(super) stuck: Option<Error>,
    /// The last error of a broker that a retry may not heal, such as a denied permission. The client retries it with
    /// back-off, since an administrator may grant the permission at any time.
    pub(super) denied: Option<Error>,
    /// How often polls have raised `stuck` or `denied`.
    pub(super) raised: u32,
    /// The last transient error.
    pub(super) trouble: Option<Error>,
    /// When it was last requested, counted in requests.
    pub(super) last_turn: u64,
    /// The topic that the offset belongs to, once a broker has confirmed it; zero before.
    pub(super) topic_id: Uuid,
    /// What was read under the topic's name before the offset was set.
    pub(super) former: Reads,
    /// That topic was deleted: the new one is read from its beginning as soon as the caller has what was fetched.
    pub(super) is_outdated: bool,
    /// Where it was before a reset, until the new offset is known.
    pub(super) reset: Option<Reset>,
    /// Whether it is known to have existed.
    pub(super) was_seen: bool,
    /// The log's first offset and its end in the last response; -1 if unknown.
    pub(super) bounds: (i64, i64),
    /// Whether the offset is in the log, as far as brokers have said it.
    pub(super) evidence: Evidence,
    /// The leader epochs of what was read.
    pub(super) epochs: Epochs,
    /// The last leader that has what was read, and its epoch.
    pub(super) checked_by: Option<Leader>,
    /// Its leader must confirm that it has what was read before more is requested.
    pub(super) must_check: bool,
    /// The topic is known and the partition is not.
    pub(super) absent: Option<Denials>,
    /// Which replica is read.
    pub(super) replica: Replica,
}

/// Where a position was when it was reset, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    /// -1 if it had no offset.
    pub(super) from: i64,
    pub(super) reason: &'static str,
}

/// The next need of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing until a response, the caller or new metadata changes that.
    Nothing,
    /// A seek.
    Help,
    /// Time.
    Pause(Instant),
    /// A lookup of its offset, or of where the log begins.
    Offset,
    /// The offset that the group committed.
    Committed,
    /// Its leader's word that it has what was read.
    Check,
    /// Records from this offset on.
    Records(i64),
}

impl Position {
    pub(super) fn new(generation: Generation, start: Start) -> Position {
        let mut evidence = Evidence::default();
        let (offset, epochs) = match start {
            Start::Offset(offset) => (Some(offset), Epochs::default()),
            Start::After(offset, epoch) => {
                evidence.found(epoch);
                (Some(offset), Epochs::said(offset, epoch))
            }
            _ => (None, Epochs::default()),
        };
        Position {
            generation,
            start,
            fetch_at: offset,
            next: offset,
            looking_up: false,
            in_flight: false,
            paused: false,
            retry_at: None,
            failures: 0,
            stuck: None,
            denied: None,
            raised: 0,
            trouble: None,
            last_turn: 0,
            topic_id: Uuid::ZERO,
            former: Reads::default(),
            is_outdated: false,
            reset: None,
            was_seen: false,
            bounds: (-1, -1),
            evidence,
            epochs,
            checked_by: None,
            must_check: false,
            absent: None,
            replica: Replica::Told,
        }
    }

    /// Starts again at the caller's request, and keeps what does not depend on the offset.
    pub(super) fn seek(&mut self, generation: Generation, start: Start) {
        *self = Position {
            paused: self.paused,
            last_turn: self.last_turn,
            was_seen: self.was_seen,
            bounds: self.bounds,
            replica: self.replica,
            former: self.reads(),
            ..Position::new(generation, start)
        };
    }

    /// Starts again because there is nothing to read at the offset.
    pub(super) fn reset(&mut self, generation: Generation, start: Start, reason: &'static str) {
        let before = self.reset.map(|reset| reset.from);
        let from = self.next.or(before).unwrap_or(-1);
        let topic_id = self.topic_id;
        self.seek(generation, start);
        self.topic_id = topic_id;
        self.reset = Some(Reset { from, reason });
    }

    /// Goes back to where the log was truncated: to an offset, and the epoch of the record before
    /// it. `leader_epoch` is the epoch of the leader that reported it, -1 if it is not known.
    pub(super) fn go_back(&mut self, generation: Generation, at: (i64, i32), leader_epoch: i32) {
        let topic_id = self.topic_id;
        let mut epochs = mem::take(&mut self.epochs);
        self.seek(generation, Start::After(at.0, at.1));
        self.topic_id = topic_id;
        // Earlier records are compared with the log again.
        epochs.cut(at.0);
        if epochs.before(at.0).is_some() {
            self.epochs = epochs;
        }
        self.evidence.found(leader_epoch);
    }

    /// Goes back to what the caller gets next, which is fetched again, with all later records.
    pub(super) fn rewind(&mut self, generation: Generation) {
        self.generation = generation;
        self.in_flight = false;
        self.looking_up = false;
        self.evidence.set_asked();
        if !self.is_drained() {
            self.fetch_at = self.next;
            self.epochs.cut(self.next.unwrap_or(0));
            // The fetch meets it again, after the records before it.
            self.stuck = None;
        }
    }

    /// The records at `offset` are of no use.
    pub(super) fn reject(&mut self, generation: Generation, offset: i64, error: Error) {
        self.generation = generation;
        self.in_flight = false;
        self.next = Some(offset);
        self.fetch_at = Some(offset);
        self.epochs.cut(offset);
        self.stuck = Some(error);
    }

    /// A broker responded for it.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
        self.retry_at = None;
        self.trouble = None;
        if self.denied.take().is_some() {
            self.raised = 0;
        }
    }

    /// A broker denied a request for it. Returns whether polls have to raise the error: the first one, or another code.
    pub(super) fn deny(&mut self, error: Error) -> bool {
        let is_known = self
            .denied
            .as_ref()
            .is_some_and(|known| known.code() == error.code());
        if !is_known {
            self.raised = 0;
            self.denied = Some(error);
        }
        !is_known
    }

    /// A broker returned the offset to read at, and the leader epoch of the record there, or -1.
    pub(super) fn found(&mut self, (offset, leader_epoch): (i64, i32), topic_id: Uuid) {
        self.answered();
        self.fetch_at = Some(offset);
        self.next = Some(offset);
        self.topic_id = topic_id;
        self.epochs = Epochs::said(offset, leader_epoch);
        self.evidence.found(leader_epoch);
    }

    /// This leader has what was read.
    pub(super) fn passed(&mut self, leader: Leader) {
        self.must_check = false;
        if leader.epoch >= 0 {
            self.checked_by = Some(leader);
        }
    }

    /// Whether this leader must confirm that it has what was read, before a Fetch that cannot do
    /// that itself.
    pub(super) fn is_unchecked(&self, leader: Leader) -> bool {
        let read_epoch = self.fetch_at.map(|at| self.epochs.epoch_before(at));
        let is_known = leader.epoch >= 0 && read_epoch.is_some_and(|epoch| epoch >= 0);
        is_known && self.replica.nearer().is_none() && self.checked_by != Some(leader)
    }

    /// A broker that received this leader epoch reports that the offset is not in the log. Returns
    /// whether that result counts, and no earlier records remain to be returned.
    pub(super) fn is_lost(&mut self, now: Instant, leader_epoch: i32) -> bool {
        self.is_drained() && self.evidence.deny(now, leader_epoch)
    }

    /// The log begins there; returns whether that is after the offset.
    pub(super) fn begins_behind(&mut self, beginning: i64) -> bool {
        self.evidence.set_asked();
        self.fetch_at.is_some_and(|offset| beginning > offset)
    }

    /// Continues in a topic that was recreated under the name.
    pub(super) fn leave_topic(&mut self, generation: Generation, start: Start) {
        self.reset(generation, start, "the topic was deleted and created again");
        self.topic_id = Uuid::ZERO;
    }

    /// The id of the topic that the caller read this offset of; zero if it is not known. An offset that was reached only in a
    /// topic before is that topic's.
    pub(super) fn topic_read(&self, offset: i64) -> Uuid {
        let is_ahead = self.next.is_none_or(|next| offset > next);
        let former = self.former.topic_of(offset).filter(|_| is_ahead);
        former.unwrap_or(self.topic_id)
    }

    /// The topics that the caller read under the name.
    pub(super) fn reads(&self) -> Reads {
        let mut reads = self.former.clone();
        if let Some(next) = self.next {
            reads.note(self.topic_id, next);
        }
        reads
    }

    /// The topic has this id now; zero if it is not known.
    pub(super) fn note_topic(&mut self, id: Uuid) {
        let is_known = self.topic_id != Uuid::ZERO && id != Uuid::ZERO;
        self.is_outdated = is_known && self.topic_id != id;
    }

    /// The topic is known, and the partition exists or not; `is_new` if a broker said so since the last time.
    pub(super) fn note_presence(
        &mut self,
        now: Instant,
        is_there: bool,
        is_new: bool,
        error: impl FnOnce() -> Error,
    ) {
        if is_there {
            self.was_seen = true;
            if self.absent.take().is_some() {
                self.stuck = None;
                self.raised = 0;
            }
        } else if is_new && !self.was_seen && self.stuck.is_none() {
            let reports = self.absent.get_or_insert_with(|| Denials::new(now));
            if reports.are_final(now, ABSENT) {
                self.stuck = Some(error());
            }
        }
    }

    /// Where the caller is in the log, once it is known.
    pub(super) fn progress(&self) -> Option<Progress> {
        let (begin, end) = self.bounds;
        self.next.map(|next| Progress {
            next,
            begin,
            end,
            replica: self.replica.nearer(),
        })
    }

    /// Whether the caller got everything that was fetched.
    pub(super) fn is_drained(&self) -> bool {
        self.next == self.fetch_at
    }

    /// The error that keeps it from being read, once the caller has received all earlier records.
    pub(super) fn obstacle(&self) -> Option<&Error> {
        let is_next = !self.paused && self.is_drained();
        self.stuck
            .as_ref()
            .or(self.unreported())
            .filter(|_| is_next)
    }

    /// The error of a denied request, until a poll has raised it.
    pub(super) fn unreported(&self) -> Option<&Error> {
        self.denied.as_ref().filter(|_| self.raised == 0)
    }

    /// Whether records of it may come, as far as it is known.
    pub(super) fn is_readable(&self) -> bool {
        !self.paused && self.obstacle().is_none()
    }

    pub(super) fn need(&self, now: Instant) -> Need {
        if self.stuck.is_some() {
            return Need::Help;
        }
        if self.in_flight || self.looking_up || self.is_outdated {
            return Need::Nothing;
        }
        if self.paused && self.fetch_at.is_some() {
            return Need::Nothing;
        }
        match (self.retry_at, self.fetch_at) {
            (Some(at), _) if at > now => Need::Pause(at),
            (_, Some(_)) if self.evidence.asks() => Need::Offset,
            (_, Some(_)) if self.must_check => Need::Check,
            (_, Some(offset)) => Need::Records(offset),
            (_, None) if self.start == Start::Committed => Need::Committed,
            (_, None) => Need::Offset,
        }
    }
}

/// The error of a position whose partition is not among the topic's.
pub(super) fn absent(topic: &Arc<str>, partition: i32, count: usize) -> Error {
    let text = format!("there is no such partition: the topic has {count}");
    Error::new(Kind::Argument, text).with_partition(topic, partition)
}

/// The error of a position whose topic was deleted, under `auto.offset.reset=none`.
pub(super) fn outdated(topic: &Arc<str>, partition: i32) -> Error {
    let text = "the topic was deleted and created again, and auto.offset.reset=none: seek";
    Error::from_code(ErrorCode::OFFSET_OUT_OF_RANGE, Some(text)).with_partition(topic, partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Uuid = Uuid([1; 16]);
    const NEW: Uuid = Uuid([2; 16]);

    /// A position whose caller got everything before `next` of the first topic.
    fn read_to(next: i64) -> Position {
        let mut position = Position::new(Generation(1), Start::Reset);
        position.found((0, -1), OLD);
        position.next = Some(next);
        position
    }

    fn reads(position: &Position) -> Vec<(Uuid, i64)> {
        position.reads().each().collect()
    }

    #[test]
    fn offsets_are_those_of_the_topic_that_was_read() {
        let position = read_to(100);
        for offset in [0, 100, 101] {
            assert_eq!(position.topic_read(offset), OLD);
        }
        assert_eq!(reads(&position), [(OLD, 100)]);
    }

    #[test]
    fn what_was_read_of_a_deleted_topic_is_not_taken_for_the_new_one() {
        let mut position = read_to(100);
        position.leave_topic(Generation(2), Start::Beginning);
        assert_eq!(position.topic_read(100), OLD);
        assert_eq!(reads(&position), [(OLD, 100)]);
        position.found((0, -1), NEW);
        position.next = Some(3);
        assert_eq!(position.topic_read(3), NEW);
        assert_eq!(position.topic_read(100), OLD);
        // It was reached in neither.
        assert_eq!(position.topic_read(101), NEW);
        assert_eq!(reads(&position), [(NEW, 3), (OLD, 100)]);
    }

    #[test]
    fn a_reset_keeps_the_topics() {
        let mut position = read_to(100);
        position.leave_topic(Generation(2), Start::Beginning);
        position.reset(Generation(3), Start::Beginning, "out of range");
        assert_eq!(position.topic_read(100), OLD);
        position.found((0, -1), NEW);
        position.next = Some(7);
        position.go_back(Generation(4), (5, 0), 1);
        assert_eq!(reads(&position), [(NEW, 7), (OLD, 100)]);
    }

    #[test]
    fn a_position_found_by_old_metadata_forgets_nothing_that_was_read() {
        // The partition was taken away and given back while the metadata still had the deleted topic.
        let mut position = Position::new(Generation(2), Start::Reset);
        position.former = read_to(100).reads();
        position.found((0, -1), OLD);
        position.leave_topic(Generation(3), Start::Beginning);
        assert_eq!(position.topic_read(100), OLD);
        assert_eq!(reads(&position), [(OLD, 100)]);
    }

    #[test]
    fn a_seek_keeps_the_topic_of_what_was_read_before_it() {
        let mut position = read_to(100);
        position.seek(Generation(2), Start::Offset(10));
        // Whoever names the offset of a seek means the topic of today.
        assert_eq!(position.topic_read(10), Uuid::ZERO);
        assert_eq!(position.topic_read(100), OLD);
        assert_eq!(reads(&position), [(OLD, 100)]);
    }
}
