//! What callers own, and the pending changes for listeners.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use crate::group::assignor::TopicPartition;

/// A change of what a caller owns, which its listeners receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// These partitions were added; none if the assignment has no new ones.
    Assigned(Vec<TopicPartition>),
    /// These are about to go to other members: their offsets can still be committed.
    Revoked(Vec<TopicPartition>),
    /// These belong to other members already: the group continued without this one.
    Lost(Vec<TopicPartition>),
}

/// It changes only while a caller polls.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    owned: BTreeSet<TopicPartition>,
    untold: VecDeque<Rebalance>,
    /// The change that a listener handles now, and since when.
    telling: Option<(Instant, Rebalance)>,
    /// The fetcher does not know yet what is owned now.
    is_news: bool,
}

impl Ownership {
    pub(super) fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    /// Whether listeners know everything.
    pub(super) fn is_told(&self) -> bool {
        self.untold.is_empty() && self.telling.is_none()
    }

    pub(super) fn tell(&mut self, change: Rebalance) {
        self.untold.push_back(change);
    }

    /// The change that [`Ownership::take`] would return.
    pub(super) fn next(&self) -> Option<&Rebalance> {
        self.untold.front().filter(|_| self.telling.is_none())
    }

    /// The next change for listeners; [`Ownership::told`] follows.
    pub(super) fn take(&mut self, now: Instant) -> Option<Rebalance> {
        if self.telling.is_some() {
            return None;
        }
        let change = self.untold.pop_front()?;
        if let Rebalance::Assigned(added) = &change {
            self.owned.extend(added.iter().cloned());
            self.is_news = true;
        }
        self.telling = Some((now, change.clone()));
        Some(change)
    }

    /// Listeners were notified of the change from [`Ownership::take`]: returns the change, and when
    /// its handling began.
    pub(super) fn told(&mut self) -> Option<(Instant, Rebalance)> {
        let told = self.telling.take()?;
        if let Rebalance::Revoked(gone) | Rebalance::Lost(gone) = &told.1 {
            for partition in gone {
                self.owned.remove(partition);
            }
            self.is_news = true;
        }
        Some(told)
    }

    /// The owned partitions, if they changed since the last call.
    pub(super) fn take_news(&mut self) -> Option<Vec<TopicPartition>> {
        std::mem::take(&mut self.is_news).then(|| self.owned.iter().cloned().collect())
    }

    /// Whether the only pending change is an addition that no listener handles yet.
    pub(super) fn only_adds(&self) -> bool {
        let mut untold = self.untold.iter();
        self.telling.is_none() && untold.all(|told| matches!(told, Rebalance::Assigned(_)))
    }

    /// Pending additions are dropped.
    pub(super) fn drop_added(&mut self) {
        self.untold
            .retain(|told| !matches!(told, Rebalance::Assigned(_)));
    }

    /// Drops the pending changes: they are no longer true.
    pub(super) fn drop_untold(&mut self) {
        self.untold.clear();
    }

    /// Callers own nothing any more, and nobody is notified.
    pub(super) fn clear(&mut self) {
        *self = Ownership {
            is_news: true,
            ..Ownership::default()
        };
    }
}
