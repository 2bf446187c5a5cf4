//! The records of one partition as one share group has them (KIP-932), as a state machine without clock or sockets.
//!
//! ```text
//!                      acquired                accepted
//!   ┌───────────┐ ─────────────────▶ ┌──────────┐ ─────▶ ┌──────────────┐
//!   │ Available │                    │ Acquired │        │ Acknowledged │
//!   └───────────┘ ◀───────────────── └──────────┘        └──────────────┘
//!                  released, or         │   ▲ │
//!                  the lock ended    renewed  │ rejected, a gap; or released after the last delivery     ┌──────────┐
//!                                             └────────────────────────────────────────────────────────▶ │ Archived │
//!                                                                                                        └──────────┘
//! ```
//!
//! Before `start` all is done with; from `end` on nothing was acquired yet. In between each offset
//! is in one run of offsets with the same state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;

use super::states::{KeptBatch, KeptRecords};

const GAP: i8 = 0;
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// The numbers of states that are kept.
const AVAILABLE: i8 = 0;
const ACKNOWLEDGED: i8 = 2;
const ARCHIVED: i8 = 4;

/// An error code, and its text for the client.
pub(crate) type Refusal = (ErrorCode, &'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharePartition {
    start: i64,
    end: i64,
    /// By their first offsets.
    runs: BTreeMap<i64, Run>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    last: i64,
    fate: Fate,
    /// How often they were delivered.
    deliveries: i16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Available,
    Acquired { member: Arc<str>, until: Instant },
    Acknowledged,
    Archived,
}

impl Fate {
    fn is_final(&self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// A batch of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Nobody gets its records: it is a marker, or of a transaction that was aborted.
    pub(crate) is_hidden: bool,
}

/// Who wants records, and how many.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) member: Arc<str>,
    pub(crate) until: Instant,
    pub(crate) most: usize,
    /// Whether `most` may cut a batch (KIP-1206).
    pub(crate) is_exact: bool,
    /// How many records may be under way at once.
    pub(crate) most_locks: i64,
}

/// Records that a member got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquired {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) deliveries: i16,
}

/// A member's acknowledgement of a range of records: one type for all, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) kinds: Vec<i8>,
}

impl SharePartition {
    pub(super) fn new(start: i64) -> Self {
        Self {
            start,
            end: start,
            runs: BTreeMap::new(),
        }
    }

    /// As another leader left it. Its locks are gone.
    pub(super) fn restored(start: i64, batches: &[KeptBatch]) -> Self {
        let mut partition = Self::new(start);
        for batch in batches {
            // What was written down may be damaged: a range that is invalid, or overlaps another,
            // is ignored.
            if batch.first < partition.end || batch.last < batch.first || batch.last == i64::MAX {
                continue;
            }
            partition.extend(batch.first - 1, Fate::Available);
            let fate = match batch.state {
                ACKNOWLEDGED => Fate::Acknowledged,
                ARCHIVED => Fate::Archived,
                _ => Fate::Available,
            };
            partition.push(batch.last, fate, batch.deliveries.max(0));
        }
        partition.tidy();
        partition
    }

    /// What outlives a leader. What is acquired counts as not delivered: nobody can say what becomes of it.
    pub(super) fn kept(&self) -> KeptRecords {
        let batch = |(first, run): (&i64, &Run)| {
            let (state, deliveries) = match run.fate {
                Fate::Available => (AVAILABLE, run.deliveries),
                Fate::Acquired { .. } => (AVAILABLE, run.deliveries - 1),
                Fate::Acknowledged => (ACKNOWLEDGED, run.deliveries),
                Fate::Archived => (ARCHIVED, run.deliveries),
            };
            KeptBatch {
                first: *first,
                last: run.last,
                state,
                deliveries,
            }
        };
        let batches = self.runs.iter().map(batch);
        // What is available for the first time is as if nobody had seen it.
        let batches = batches.filter(|it| it.state != AVAILABLE || it.deliveries > 0);
        KeptRecords {
            start: self.start,
            batches: batches.collect(),
        }
    }

    /// Where there is something to be read; `None` if too much is under way.
    pub(super) fn next_offset(&self, most_locks: i64) -> Option<i64> {
        let mut runs = self.runs.iter();
        let free = runs.find(|(_, run)| run.fate == Fate::Available);
        let is_full = self.under_way() >= most_locks;
        let new = (!is_full).then_some(self.end);
        free.map(|(first, _)| *first).or(new)
    }

    pub(super) fn has_available(&self) -> bool {
        self.runs.values().any(|run| run.fate == Fate::Available)
    }

    /// The log begins here: what was before is gone. Returns whether that changed anything.
    pub(super) fn begin_at(&mut self, log_start: i64) -> bool {
        if log_start <= self.start {
            return false;
        }
        self.split(log_start);
        self.runs = self.runs.split_off(&log_start);
        self.start = log_start;
        self.end = self.end.max(log_start);
        self.tidy();
        true
    }

    /// Gives records to a member, as many as it wants, of these batches that were read from an offset on.
    pub(super) fn acquire(&mut self, from: i64, batches: &[Batch], claim: &Claim) -> Vec<Acquired> {
        let mut acquired = Vec::new();
        let (mut count, start) = (0, self.start);
        let mut next = from.max(start);
        let wanted = i64::try_from(claim.most).unwrap_or(i64::MAX);
        let most = match claim.most_locks - self.under_way() {
            // As with Kafka, the rest of a batch that was cut is given out though too much is under way.
            ..=0 => wanted,
            room if claim.is_exact => wanted.min(room),
            _ => wanted,
        };
        for batch in batches.iter().filter(|batch| batch.last >= start) {
            if count >= most {
                break;
            }
            // What is between batches was compacted away, also what a member had and gave back.
            self.extend(batch.first - 1, Fate::Archived);
            if next < batch.first {
                let is_free = |run: &Run| run.fate == Fate::Available;
                self.change(next, batch.first - 1, is_free, |run| {
                    run.fate = Fate::Archived;
                });
            }
            next = batch.last.saturating_add(1);
            if batch.is_hidden {
                self.extend(batch.last, Fate::Available);
                let is_free = |run: &Run| run.fate == Fate::Available;
                self.change(batch.first, batch.last, is_free, |run| {
                    run.fate = Fate::Archived;
                });
                continue;
            }
            if self.under_way() < claim.most_locks {
                self.extend(batch.last, Fate::Available);
            }
            let left = match claim.is_exact {
                true => most - count,
                false => i64::MAX,
            };
            for (first, last) in self.available(batch.first, batch.last, left) {
                let fate = Fate::Acquired {
                    member: Arc::clone(&claim.member),
                    until: claim.until,
                };
                self.change(
                    first,
                    last,
                    |_| true,
                    |run| {
                        run.fate = fate.clone();
                        run.deliveries = run.deliveries.saturating_add(1);
                        count += last - first + 1;
                        acquired.push(Acquired {
                            first,
                            last,
                            deliveries: run.deliveries,
                        });
                    },
                );
            }
            if self.end <= batch.last {
                // The rest of it is for later, and so is all behind it.
                break;
            }
        }
        self.tidy();
        merged(acquired)
    }

    /// Takes a member's acknowledgements: all of them or, with an error, none. Returns whether
    /// records are free now. `renewed_until` is where renewed locks end; `None`: they may not be
    /// renewed.
    pub(super) fn acknowledge(
        &mut self,
        member: &str,
        said: &[Said],
        renewed_until: Option<Instant>,
        most_deliveries: i16,
    ) -> Result<bool, Refusal> {
        let mut next = self.clone();
        for said in said {
            for (first, last, kind) in said.pieces(renewed_until.is_some())? {
                next.take(member, (first, last), kind, renewed_until, most_deliveries)?;
            }
        }
        next.tidy();
        let frees = next.has_available();
        *self = next;
        Ok(frees)
    }

    fn take(
        &mut self,
        member: &str,
        (first, last): (i64, i64),
        kind: i8,
        renewed_until: Option<Instant>,
        most_deliveries: i16,
    ) -> Result<(), Refusal> {
        if last < self.start {
            // It is done with, whatever is said of it.
            return Ok(());
        }
        let first = first.max(self.start);
        if last >= self.end {
            let message = "The offset is past those that are acquired.";
            return Err((ErrorCode::INVALID_REQUEST, message));
        }
        let is_its_own = |run: &Run| match &run.fate {
            Fate::Acquired { member: owner, .. } => **owner == *member,
            _ => false,
        };
        if !self
            .overlapping(first, last)
            .all(|(_, run)| is_its_own(run))
        {
            let message = "The record is not acquired by this member.";
            return Err((ErrorCode::INVALID_RECORD_STATE, message));
        }
        self.change(
            first,
            last,
            |_| true,
            |run| match (kind, renewed_until) {
                (ACCEPT, _) => run.fate = Fate::Acknowledged,
                (RELEASE, _) => run.free(most_deliveries),
                (RENEW, Some(renewed)) => {
                    if let Fate::Acquired { until, .. } = &mut run.fate {
                        *until = renewed;
                    }
                }
                _ => run.fate = Fate::Archived,
            },
        );
        Ok(())
    }

    /// Frees all that a member has. Returns whether there was anything.
    pub(super) fn release(&mut self, member: &str, most_deliveries: i16) -> bool {
        self.free(
            |fate| matches!(fate, Fate::Acquired { member: owner, .. } if **owner == *member),
            most_deliveries,
        )
    }

    /// Frees the records whose locks have ended. Returns whether there were any.
    pub(super) fn expire(&mut self, now: Instant, most_deliveries: i16) -> bool {
        self.free(
            |fate| matches!(fate, Fate::Acquired { until, .. } if *until <= now),
            most_deliveries,
        )
    }

    fn free(&mut self, is_meant: impl Fn(&Fate) -> bool, most_deliveries: i16) -> bool {
        let mut runs = self.runs.values_mut();
        let mut found = false;
        for run in runs.by_ref().filter(|run| is_meant(&run.fate)) {
            run.free(most_deliveries);
            found = true;
        }
        if found {
            self.tidy();
        }
        found
    }

    /// When the first lock ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ends = self.runs.values().filter_map(|run| match run.fate {
            Fate::Acquired { until, .. } => Some(until),
            _ => None,
        });
        ends.min()
    }

    /// How many records are given to somebody, or to be given again.
    fn under_way(&self) -> i64 {
        let runs = self.runs.iter().filter(|(_, run)| !run.fate.is_final());
        runs.map(|(first, run)| run.last - first + 1).sum()
    }

    fn overlapping(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, &Run)> {
        let before = self.runs.range(..=first).next_back().map(|(at, _)| *at);
        let runs = self.runs.range(before.unwrap_or(first)..=last);
        runs.map(|(at, run)| (*at, run))
            .filter(move |(_, run)| run.last >= first)
    }

    /// The available offsets of a range, up to `most`.
    fn available(&self, first: i64, last: i64, most: i64) -> Vec<(i64, i64)> {
        let mut left = most;
        let mut found = Vec::new();
        for (at, run) in self.overlapping(first, last) {
            if run.fate == Fate::Available && left > 0 {
                let begin = at.max(first);
                let end = run.last.min(last).min(begin.saturating_add(left - 1));
                left -= end - begin + 1;
                found.push((begin, end));
            }
        }
        found
    }

    /// Has the runs go on up to `last`, if they do not.
    fn extend(&mut self, last: i64, fate: Fate) {
        if last >= self.end {
            self.push(last, fate, 0);
        }
    }

    fn push(&mut self, last: i64, fate: Fate, deliveries: i16) {
        let run = Run {
            last,
            fate,
            deliveries,
        };
        self.runs.insert(self.end, run);
        self.end = last + 1;
    }

    /// Changes the runs of a range, which are cut at its ends.
    fn change(
        &mut self,
        first: i64,
        last: i64,
        is_meant: impl Fn(&Run) -> bool,
        mut change: impl FnMut(&mut Run),
    ) {
        self.split(first);
        self.split(last + 1);
        for (_, run) in self.runs.range_mut(first..=last) {
            if is_meant(run) {
                change(run);
            }
        }
    }

    /// Has a run begin at this offset, if there is one that goes over it.
    fn split(&mut self, at: i64) {
        let Some((_, run)) = self.runs.range_mut(..at).next_back() else {
            return;
        };
        if run.last >= at {
            let rest = run.clone();
            run.last = at - 1;
            self.runs.insert(at, rest);
        }
    }

    /// Joins runs that are alike, and lets go of those at the beginning that are done with.
    fn tidy(&mut self) {
        let mut tidied: BTreeMap<i64, Run> = BTreeMap::new();
        for (first, run) in std::mem::take(&mut self.runs) {
            if tidied.is_empty() && run.fate.is_final() {
                self.start = run.last + 1;
                continue;
            }
            match tidied.values_mut().next_back() {
                Some(before)
                    if (&before.fate, before.deliveries) == (&run.fate, run.deliveries) =>
                {
                    before.last = run.last;
                }
                _ => {
                    tidied.insert(first, run);
                }
            }
        }
        self.runs = tidied;
    }
}

impl Run {
    /// Makes it available again, unless that was the last delivery.
    fn free(&mut self, most_deliveries: i16) {
        self.fate = if self.deliveries >= most_deliveries {
            Fate::Archived
        } else {
            Fate::Available
        };
    }
}

impl Said {
    /// The ranges of it with one kind each.
    fn pieces(&self, renews: bool) -> Result<Vec<(i64, i64, i8)>, Refusal> {
        let invalid = |message| Err((ErrorCode::INVALID_REQUEST, message));
        if self.last < self.first || self.first < 0 {
            return invalid("The last offset is before the first.");
        }
        let most = if renews { RENEW } else { REJECT };
        if !self.kinds.iter().all(|kind| (GAP..=most).contains(kind)) {
            return invalid("There is no such acknowledgement.");
        }
        let count = (self.last - self.first).saturating_add(1);
        match self.kinds.as_slice() {
            [kind] => Ok(vec![(self.first, self.last, *kind)]),
            kinds if i64::try_from(kinds.len()) == Ok(count) => {
                let each = (self.first..).zip(kinds);
                Ok(each.map(|(at, kind)| (at, at, *kind)).collect())
            }
            _ => invalid("The acknowledgements are as many as neither one nor the records."),
        }
    }
}

/// Ranges that go on from each other are one.
fn merged(acquired: Vec<Acquired>) -> Vec<Acquired> {
    let mut merged: Vec<Acquired> = Vec::new();
    for range in acquired {
        match merged.last_mut() {
            Some(before)
                if before.last + 1 == range.first && before.deliveries == range.deliveries =>
            {
                before.last = range.last;
            }
            _ => merged.push(range),
        }
    }
    merged
}
