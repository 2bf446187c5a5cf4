//! Whether the transaction before is over in its partitions, so that the first batch of the next one does not come too early.
//!
//! A coordinator answers EndTxn when the end is in its log. The markers, and the note that all are written, follow about a
//! millisecond later. With the second protocol, a leader that gets a batch of the next transaction before that tries again after
//! 20 ms (`add.partitions.to.txn.retry.backoff.ms`); who sends many small transactions would spend most of the time there. So the
//! batch waits here, and the coordinator is asked how far it is (DescribeTransactions, which an id's owner may). Who is never early
//! is hardly ever asked: after some questions in a row that were not needed, ever more transactions go without one.

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
/// So many questions in a row may be unneeded before any transaction goes without one.
const UNNEEDED: u32 = 8;
/// Then 1, 3, 7 and so on go without one, as often as this; it stays at 63.
const DOUBLINGS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Markers {
    /// When the transaction before ended, while its markers may be missing.
    ended: Option<Instant>,
    question: Option<CallId>,
    questions: u32,
    not_before: Option<Instant>,
    /// Questions in a row that were not needed.
    unneeded: u32,
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
        self.question = Some(core.start(now, DescribeTransactions { ids }, end));
    }

    /// Whether this call is its question.
    pub(super) fn asked(&self, call: CallId) -> bool {
        self.question == Some(call)
    }

    /// Takes the answer to the question.
    pub(super) fn answered(&mut self, now: Instant, result: Answer) {
        self.question = None;
        let row = result.ok().and_then(|mut rows| rows.pop());
        if matches!(row, Some(Ok(row)) if ENDING.contains(&&*row.state)) {
            self.not_before = (self.questions >= AT_ONCE).then_some(now + PAUSE);
            return;
        }
        // All are written; or the coordinator does not tell.
        self.unneeded = match self.questions {
            1 => self.unneeded.saturating_add(1),
            _ => 0,
        };
        let doublings = self.unneeded.saturating_sub(UNNEEDED).min(DOUBLINGS);
        self.spared = (1 << doublings) - 1;
        self.ended = None;
    }
}
