//! Records that an iteration took from its consumer and did not hand out yet.
//!
//! To the engine they are given out. To the caller they are still to come: positions count from the first of them, the next
//! poll returns them, and a seek drops those of its partition.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::consumer::Chunk;

/// Decoded records of one partition, and the row of the next one.
struct Begun<C> {
    topic: Arc<str>,
    partition: i32,
    chunk: Arc<C>,
    row: usize,
    /// The row after the last.
    end: usize,
    /// The partition is paused.
    is_held: bool,
}

impl<C: Chunk> Begun<C> {
    fn is(&self, topic: &str, partition: i32) -> bool {
        *self.topic == *topic && self.partition == partition
    }

    fn next(&mut self) -> (Arc<C>, usize) {
        let row = self.row;
        self.row += 1;
        (Arc::clone(&self.chunk), row)
    }

    fn left(&self) -> usize {
        self.end.saturating_sub(self.row)
    }
}

/// Runs in the order in which they are handed out. Those of paused partitions are held until the pause ends.
pub(crate) struct Unread<C>(VecDeque<Begun<C>>);

impl<C> Default for Unread<C> {
    fn default() -> Self {
        Unread(VecDeque::new())
    }
}

impl<C: Chunk> Unread<C> {
    pub(crate) fn push(&mut self, topic: Arc<str>, partition: i32, chunk: C, is_held: bool) {
        self.0.push_back(Begun {
            topic,
            partition,
            row: 0,
            end: chunk.len(),
            chunk: Arc::new(chunk),
            is_held,
        });
    }

    /// Holds the records of one partition, or no longer.
    pub(crate) fn hold(&mut self, topic: &str, partition: i32, is_held: bool) {
        let runs = self.0.iter_mut();
        for begun in runs.filter(|begun| begun.is(topic, partition)) {
            begun.is_held = is_held;
        }
    }

    /// Where the next run stands that is not held.
    fn first(&self) -> Option<usize> {
        self.0.iter().position(|begun| !begun.is_held)
    }

    /// Hands out the next record: its chunk, and its row there.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Arc<C>, usize)> {
        // Nearly always there is one here.
        match self.0.front_mut() {
            Some(begun) if !begun.is_held && begun.left() > 0 => Some(begun.next()),
            _ => self.next_of_any(),
        }
    }

    fn next_of_any(&mut self) -> Option<(Arc<C>, usize)> {
        loop {
            let first = self.first()?;
            let begun = self.0.get_mut(first)?;
            if begun.left() > 0 {
                return Some(begun.next());
            }
            self.0.remove(first);
        }
    }

    /// Whether nothing can be handed out now.
    pub(crate) fn is_empty(&self) -> bool {
        self.0
            .iter()
            .all(|begun| begun.is_held || begun.left() == 0)
    }

    /// Hands out as many records as this at once.
    pub(crate) fn take(&mut self, mut records: usize) -> Vec<C> {
        let mut chunks = Vec::new();
        while records > 0 {
            let first = self.first();
            let Some((first, begun)) = first.and_then(|at| Some((at, self.0.get_mut(at)?))) else {
                break;
            };
            let count = begun.left().min(records);
            if count > 0 {
                chunks.push(begun.chunk.slice(begun.row, count));
                begun.row += count;
                records -= count;
            }
            if begun.left() == 0 {
                self.0.remove(first);
            }
        }
        chunks
    }

    /// The offset of the partition's next record, if there is one here.
    pub(crate) fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        let begun = self
            .0
            .iter()
            .find(|begun| begun.is(topic, partition) && begun.left() > 0)?;
        Some(begun.chunk.offset(begun.row))
    }

    /// Drops the records of partitions that `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, i32) -> bool) {
        self.0.retain(|begun| keep(&begun.topic, begun.partition));
    }

    /// Drops the records of one partition.
    pub(crate) fn forget(&mut self, topic: &str, partition: i32) {
        self.0.retain(|begun| !begun.is(topic, partition));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets from the first to the one before the last.
    #[derive(Debug, PartialEq)]
    struct Offsets(i64, i64);

    impl Chunk for Offsets {
        fn len(&self) -> usize {
            usize::try_from(self.1 - self.0).unwrap()
        }
        fn split_to(&mut self, _: usize) -> Self {
            unreachable!("nothing here splits a chunk")
        }
        fn slice(&self, start: usize, length: usize) -> Self {
            let start = self.0 + i64::try_from(start).unwrap();
            Offsets(start, start + i64::try_from(length).unwrap())
        }
        fn offset(&self, row: usize) -> i64 {
            self.0 + i64::try_from(row).unwrap()
        }
        fn next_offset(&self) -> i64 {
            self.1
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    fn unread(runs: &[(i32, i64, i64)]) -> Unread<Offsets> {
        let mut unread = Unread::default();
        for (partition, first, end) in runs {
            unread.push("t".into(), *partition, Offsets(*first, *end), false);
        }
        unread
    }

    fn offsets(unread: &mut Unread<Offsets>) -> Vec<i64> {
        std::iter::from_fn(|| unread.next().map(|(chunk, row)| chunk.offset(row))).collect()
    }

    #[test]
    fn hands_out_one_after_the_other_and_knows_each_position() {
        let mut unread = unread(&[(0, 5, 7), (1, 9, 9), (1, 20, 21), (0, 8, 9)]);
        assert_eq!(unread.position("t", 0), Some(5));
        assert_eq!(unread.position("t", 1), Some(20), "an empty run has none");
        unread.next();
        unread.next();
        assert_eq!(unread.position("t", 0), Some(8));
        assert_eq!(unread.position("u", 0), None);
        assert_eq!(offsets(&mut unread), [20, 8]);
        assert!(unread.is_empty());
        assert_eq!(unread.position("t", 0), None);
    }

    #[test]
    fn forgets_one_partition_and_keeps_the_others() {
        let mut unread = unread(&[(0, 5, 7), (1, 20, 22), (0, 7, 9)]);
        unread.next();
        unread.forget("t", 0);
        assert_eq!(unread.position("t", 0), None);
        assert_eq!(offsets(&mut unread), [20, 21]);
    }

    #[test]
    fn those_of_a_paused_partition_wait_for_the_end_of_the_pause() {
        let mut unread = unread(&[(0, 5, 7), (1, 20, 22), (0, 7, 9)]);
        unread.next();
        unread.hold("t", 0, true);
        unread.push("t".into(), 0, Offsets(9, 10), true);
        assert_eq!(unread.position("t", 0), Some(6));
        assert_eq!(unread.take(1), [Offsets(20, 21)]);
        assert!(!unread.is_empty());
        assert_eq!(offsets(&mut unread), [21]);
        assert!(unread.is_empty());
        assert_eq!(unread.take(9), []);
        unread.hold("t", 0, false);
        assert!(!unread.is_empty());
        assert_eq!(unread.take(2), [Offsets(6, 7), Offsets(7, 8)]);
        assert_eq!(offsets(&mut unread), [8, 9]);
    }

    #[test]
    fn many_are_taken_at_once_from_where_the_iteration_stands() {
        let mut unread = unread(&[(0, 5, 9), (1, 20, 22)]);
        unread.next();
        assert_eq!(unread.take(2), [Offsets(6, 8)]);
        assert_eq!(unread.take(0), []);
        assert_eq!(unread.take(9), [Offsets(8, 9), Offsets(20, 22)]);
        assert!(unread.is_empty());
    }
}
