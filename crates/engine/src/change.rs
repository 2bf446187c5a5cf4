//! What a waiting call can wait for, so that only its own change wakes it.

use std::collections::VecDeque;

/// Names one call of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

/// A change that a waiting caller can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The result of this call is available.
    Call(CallId),
    /// Records were fetched, or a partition cannot be read any further.
    Records,
    /// The position of a partition became known, or will never be.
    Position,
    /// The producer's buffer has more space.
    Room,
    /// Records that were sent have a delivery result.
    Fate,
    /// The metadata of the cluster was refreshed.
    Topics,
    /// The id by which brokers know the client became known, or never will be; or the last metrics were pushed.
    Telemetry,
    /// What was asked of the producer's transactions has ended.
    Transaction,
    /// Something about the consumer's group waits for a poll, or a commit has ended.
    Group,
    /// The client was closed, or no address that it was given can ever respond: waiting is useless.
    Closed,
}

impl Change {
    /// The bit of a change that names no call, for sets of changes.
    pub fn bit(self) -> u16 {
        match self {
            Change::Call(_) => 0,
            Change::Records => 1,
            Change::Position => 1 << 1,
            Change::Room => 1 << 2,
            Change::Fate => 1 << 3,
            Change::Topics => 1 << 4,
            Change::Closed => 1 << 5,
            Change::Telemetry => 1 << 6,
            Change::Transaction => 1 << 7,
            Change::Group => 1 << 8,
        }
    }
}

const KINDS: [Change; 9] = [
    Change::Records,
    Change::Position,
    Change::Room,
    Change::Fate,
    Change::Topics,
    Change::Telemetry,
    Change::Transaction,
    Change::Group,
    Change::Closed,
];

/// Changes that nobody has taken yet, each once.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    kinds: u16,
    calls: VecDeque<CallId>,
}

impl Changes {
    pub(crate) fn tell(&mut self, change: Change) {
        match change {
            Change::Call(id) => self.calls.push_back(id),
            other => self.kinds |= other.bit(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds == 0 && self.calls.is_empty()
    }

    pub(crate) fn poll(&mut self) -> Option<Change> {
        if let Some(id) = self.calls.pop_front() {
            return Some(Change::Call(id));
        }
        if self.kinds == 0 {
            return None;
        }
        let change = KINDS
            .into_iter()
            .find(|kind| self.kinds & kind.bit() != 0)?;
        self.kinds &= !change.bit();
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let mut changes = Changes::default();
        for change in [
            Change::Room,
            Change::Call(CallId(7)),
            Change::Records,
            Change::Room,
        ] {
            changes.tell(change);
        }
        let told: Vec<_> = std::iter::from_fn(|| changes.poll()).collect();
        assert_eq!(
            told,
            [Change::Call(CallId(7)), Change::Records, Change::Room]
        );
    }
}
