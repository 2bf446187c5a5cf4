//! What a rebalance means for callers: which listeners are called, and what a poll does meanwhile.

use ottla_engine::consumer::Rebalance;

/// The rebalances that callers want to be notified of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listeners {
    /// [`Rebalance::Assigned`].
    pub assigned: bool,
    /// [`Rebalance::Revoked`].
    pub revoked: bool,
    /// [`Rebalance::Lost`].
    pub lost: bool,
}

impl Listeners {
    pub(crate) fn want(self, change: &Rebalance) -> bool {
        match change {
            Rebalance::Assigned(_) => self.assigned,
            Rebalance::Revoked(_) => self.revoked,
            Rebalance::Lost(_) => self.lost,
        }
    }
}

/// What a consumer that leaves its group commits of what it returned, where polls commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastCommit {
    /// All records.
    #[default]
    Returned,
    /// What earlier polls returned, without the last one; in an iteration, the records before the last one.
    Earlier,
    /// Nothing.
    Nothing,
}

/// What a poll returned.
#[derive(Debug)]
pub enum Polled<T> {
    /// Records, or that there were none.
    Done(T),
    /// Listeners have to be called for a rebalance, or an assignor has to be called:
    /// `Consumer::take_rebalance` and `Consumer::take_question`.
    Rebalance,
}

impl<T> Polled<T> {
    /// What came; `None` if listeners have to be called first.
    pub fn done(self) -> Option<T> {
        match self {
            Polled::Done(found) => Some(found),
            Polled::Rebalance => None,
        }
    }
}

/// What a poll does next.
pub(crate) enum Turn {
    /// It gives out records.
    Go,
    /// A rebalance has to end first.
    Wait,
    /// Listeners or an assignor have to be called.
    Tell,
}
