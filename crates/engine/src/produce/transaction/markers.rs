//! Whether the transaction before is over in its partitions, so that the first batch of the next one does not come too early.
//!
//! A coordinator answers EndTxn when the end is in its log. The markers, and the note that all are written, follow about a
//! millisecond later. With the second protocol, a leader that gets a batch of the next transaction before that tries again after
//! 20 ms (`add.partitions.to.txn.retry.backoff.ms`); who sends many small transactions would spend most of the time there. So the
//! batch waits here, and the coordinator is asked how far it is (DescribeTransactions, which an id's owner may). Who is never early,
//! as where the way to the broker takes longer than the markers do, hardly ever asks: once the questions in a row that were not
//! needed took as long as one early batch would wait, ever more transactions go without one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{CallId, DescribeTransactions, TransactionDescription};
use crate::error::Error;
use crate::part::Core;

/// What DescribeTransactions tells.
type Answer = Result<Vec<Result<TransactionDescription, Error>>, Error>;

/// The states in which markers are being written.
const ENDING: [&str; 2] = ["PrepareCommit", "PrepareAbort"];

/// A batch waits no longer than a leader would make it wait.
const LONGEST: Duration = Duration::from_millis(20);
/// So many questions follow each other without a pause: the way to the coordinator and back is one.
const AT_ONCE: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// After an unneeded question 1, then 3, 7 and so on go without one, as often as this; it stays at 63.
const DOUBLINGS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Markers {
    /// When the transaction before ended, while its markers may be missing.
    ended: Option<Instant>,
    /// The question without an answer, and when it was asked.
    question: Option<(CallId, Instant)>,
    questions: u32,
    not_before: Option<Instant>,
    /// How long questions in a row took that were not needed.
    unneeded: Duration,
    /// How many came since these took longer than an early batch waits.
    doublings: u32,
    /// So many of the next transactions go without one.
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

    /// Asks, if batches wait to be sent.
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

    /// Whether this call is its question.
    pub(super) fn asked(&self, call: CallId) -> bool {
        self.question.is_some_and(|(question, _)| question == call)
    }

    /// Takes the answer to the question.
    pub(super) fn answered(&mut self, now: Instant, result: Answer) {
        let asked = self.question.take().map_or(now, |(_, asked)| asked);
        let row = result.ok().and_then(|mut rows| rows.pop());
        if matches!(row, Some(Ok(row)) if ENDING.contains(&&*row.state)) {
            self.not_before = (self.questions >= AT_ONCE).then_some(now + PAUSE);
            return;
        }
        // All are written; or the coordinator does not tell.
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
