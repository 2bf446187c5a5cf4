//! Whether the transaction before is over in its partitions, so that the first batch of the next one does not come too early.
//!
//! A coordinator responds to EndTxn when the end is in its log. It writes the markers, and the note
//! that all are written, about a millisecond later. With the second protocol, a leader that
//! receives a batch of the next transaction before that retries after 20 ms
//! (`add.partitions.to.txn.retry.backoff.ms`); a producer of many small transactions would spend
//! most of its time there. So the batch waits here, and a DescribeTransactions to the coordinator
//! checks whether the end is complete (the owner of an id may send it). A producer that is never
//! early, as where the network latency is longer than the markers take, hardly ever needs the
//! check: once the unneeded checks in a row took as long as one early batch would wait, ever more
//! transactions skip it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{CallId, DescribeTransactions, TransactionDescription};
use crate::error::Error;
use crate::part::Core;

/// The result of DescribeTransactions.
type Answer = Result<Vec<Result<TransactionDescription, Error>>, Error>;

/// The states in which markers are being written.
const ENDING: [&str; 2] = ["PrepareCommit", "PrepareAbort"];

/// A batch waits no longer than a leader would make it wait.
const LONGEST: Duration = Duration::from_millis(20);
/// This many checks follow each other without a pause: a round trip to the coordinator is a pause.
const AT_ONCE: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// After an unneeded check 1, then 3, 7 and so on transactions skip it, as often as this; the
/// number stays at 63.
const DOUBLINGS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Markers {
    /// When the transaction before ended, while its markers may be missing.
    ended: Option<Instant>,
    /// The check in flight, and when it was sent.
    question: Option<(CallId, Instant)>,
    questions: u32,
    not_before: Option<Instant>,
    /// How long unneeded checks in a row took.
    unneeded: Duration,
    /// How many came since these took longer than an early batch waits.
    doublings: u32,
    /// This many of the next transactions skip the check.
    spared: u32,
}

impl Markers {
    /// A transaction has ended.
    pub(super) fn ended(&mut self, now: Instant, core: &mut Core) {
        if self.spared > 0 {
            self.spared -= 1;
            return;
        }
        self.ended = Some(now);
        self.questions = 0;
        self.not_before = None;
        core.cluster.set_alarm(now + LONGEST);
    }

    /// Whether batches wait.
    pub(super) fn are_missing(&self, now: Instant) -> bool {
        self.ended.is_some_and(|ended| now < ended + LONGEST)
    }

    /// Sends a check, if batches wait to be sent.
    pub(super) fn pump(&mut self, now: Instant, core: &mut Core, id: &Arc<str>, wanted: bool) {
        let Some(end) = self.ended.map(|ended| ended + LONGEST) else {
            return;
        };
        if now >= end {
            self.ended = None;
            return;
        }
        core.cluster.set_alarm(end);
        if !wanted || self.question.is_some() {
            return;
        }
        if let Some(at) = self.not_before.filter(|at| *at > now) {
            return core.cluster.set_alarm(at);
        }
        self.questions += 1;
        let ids = vec![Arc::clone(id)];
        self.question = Some((core.start(now, DescribeTransactions { ids }, end), now));
    }

    /// Whether this call is the check.
    pub(super) fn asked(&self, call: CallId) -> bool {
        self.question.is_some_and(|(question, _)| question == call)
    }

    /// Handles the result of the check.
    pub(super) fn answered(&mut self, now: Instant, result: Answer) {
        let asked = self.question.take().map_or(now, |(_, asked)| asked);
        let row = result.ok().and_then(|mut rows| rows.pop());
        if matches!(row, Some(Ok(row)) if ENDING.contains(&&*row.state)) {
            self.not_before = (self.questions >= AT_ONCE).then_some(now + PAUSE);
            return;
        }
        // All are written; or the coordinator does not return the state.
        if self.questions > 1 {
            (self.unneeded, self.doublings) = (Duration::ZERO, 0);
        } else {
            self.unneeded += now - asked;
        }
        if self.unneeded >= LONGEST {
            self.doublings = (self.doublings + 1).min(DOUBLINGS);
        }
        self.spared = (1 << self.doublings) - 1;
        self.ended = None;
    }
}
