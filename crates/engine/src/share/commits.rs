//! Callers who wait until what was said of records is settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::error::Error;

/// Names a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(u64);

/// A partition with acknowledgements in a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Why acknowledgements of its records do not count, or are not known to: the first cause.
    pub error: Option<Error>,
}

#[derive(Debug)]
struct Commit {
    /// It waits for acknowledgements of this turn and earlier ones.
    turn: u64,
    deadline: Instant,
    found: BTreeMap<(Arc<str>, i32), Option<Error>>,
    is_done: bool,
}

#[derive(Debug, Default)]
pub(super) struct Commits {
    next: u64,
    all: BTreeMap<CommitId, Commit>,
}

impl Commits {
    pub(super) fn add(&mut self, turn: u64, deadline: Instant) -> CommitId {
        self.next += 1;
        let id = CommitId(self.next);
        self.all.insert(
            id,
            Commit {
                turn,
                deadline,
                found: BTreeMap::new(),
                is_done: false,
            },
        );
        id
    }

    /// Notes the result of an acknowledgement of `turn`. False if no caller waits for it.
    pub(super) fn note(
        &mut self,
        turn: u64,
        (topic, partition): (&Arc<str>, i32),
        error: Option<&Error>,
    ) -> bool {
        let mut is_awaited = false;
        let waiting = self.all.values_mut();
        for commit in waiting.filter(|it| !it.is_done && it.turn >= turn) {
            is_awaited = true;
            let found = commit.found.entry((Arc::clone(topic), partition));
            let known = found.or_default();
            if known.is_none() {
                *known = error.cloned();
            }
        }
        is_awaited
    }

    /// Ends the commits without pending acknowledgements; `earliest` is the first turn with any.
    /// True if a commit ended.
    pub(super) fn end_settled(&mut self, earliest: Option<u64>) -> bool {
        let mut any = false;
        for commit in self.all.values_mut().filter(|it| !it.is_done) {
            if earliest.is_none_or(|earliest| earliest > commit.turn) {
                commit.is_done = true;
                any = true;
            }
        }
        any
    }

    /// The deadlines of those that wait.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.all.values().filter(|it| !it.is_done);
        waiting.map(|it| it.deadline).min()
    }

    /// The latest turn of those whose deadline has come.
    pub(super) fn late(&self, now: Instant) -> Vec<CommitId> {
        let all = self.all.iter();
        let late = all.filter(|(_, it)| !it.is_done && it.deadline <= now);
        late.map(|(id, _)| *id).collect()
    }

    /// Ends one whose deadline has come; these partitions are not settled, each with its turn.
    pub(super) fn end_late(&mut self, id: CommitId, open: Vec<(u64, Arc<str>, i32, Error)>) {
        let Some(commit) = self.all.get_mut(&id) else {
            return;
        };
        commit.is_done = true;
        for (turn, topic, partition, error) in open {
            if turn <= commit.turn {
                let found = commit.found.entry((topic, partition)).or_default();
                found.get_or_insert(error);
            }
        }
    }

    pub(super) fn take(&mut self, id: CommitId) -> Option<Vec<Committed>> {
        self.all.get(&id).filter(|it| it.is_done)?;
        let found = self.all.remove(&id)?.found;
        let found = found
            .into_iter()
            .map(|((topic, partition), error)| Committed {
                topic,
                partition,
                error,
            });
        Some(found.collect())
    }

    pub(super) fn give_up(&mut self, id: CommitId) {
        self.all.remove(&id);
    }
}
