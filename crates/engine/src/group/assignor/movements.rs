//! Which partitions moved between which members during one assignment, so that two members do not swap partitions of a topic.

use rustc_hash::FxHashMap;

use super::java::Partitions;

/// From one member to another.
type Pair = (usize, usize);

/// The movements so far. A partition that moved on counts as moved from its first owner; one that moved back, as not moved.
#[derive(Debug, Default)]
pub(super) struct Movements {
    by_topic: FxHashMap<(usize, Pair), Partitions>,
    pairs: FxHashMap<usize, Pair>,
}

impl Movements {
    /// What is to move instead of a partition that `owner` gives to `to`: one that moved from `to` to the first owner of this one.
    pub(super) fn instead_of(
        &self,
        partition: usize,
        topic: usize,
        owner: usize,
        to: usize,
    ) -> usize {
        let from = self.pairs.get(&partition).map_or(owner, |(from, _)| *from);
        let back = self.by_topic.get(&(topic, (to, from)));
        back.and_then(Partitions::first).unwrap_or(partition)
    }

    /// Notes that a partition with this hash moves.
    pub(super) fn note(&mut self, partition: usize, topic: usize, hash: u32, (from, to): Pair) {
        let origin = match self.pairs.remove(&partition) {
            Some(pair) => {
                if let Some(moved) = self.by_topic.get_mut(&(topic, pair)) {
                    moved.remove(partition);
                    if moved.is_empty() {
                        self.by_topic.remove(&(topic, pair));
                    }
                }
                pair.0
            }
            None => from,
        };
        if origin != to {
            self.pairs.insert(partition, (origin, to));
            let moved = self.by_topic.entry((topic, (origin, to))).or_default();
            moved.insert(partition, hash);
        }
    }
}
