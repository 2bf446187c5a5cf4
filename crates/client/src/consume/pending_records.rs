//! Records that an iteration took from its consumer and did not hand out yet, and where the records begin that the caller
//! works on.
//!
//! To the engine the unread records are given out. To the caller they are still to come: positions count from the first of them,
//! the next poll returns them, and a seek drops those of its partition.
//!
//! The caller works on what the last poll returned, or on the last record of an iteration, until it
//! requests more.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::consume::decode::Chunk;

/// Decoded records of one partition, and the row of the next one.
struct Begun<C> {
    number: u64,
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

pub(crate) struct Unread<C> {
    /// Runs in the order in which they are handed out. Those of paused partitions are held until the pause ends.
    runs: VecDeque<Begun<C>>,
    /// The number of the newest run. The first is 1.
    newest: u64,
    /// The run of the record that an iteration handed out last; 0 if the caller is done with it.
    current: u64,
    /// The first offset of each chunk that the last poll returned.
    returned: Vec<(Arc<str>, i32, i64)>,
}

impl<C> Default for Unread<C> {
    fn default() -> Self {
        Unread {
            runs: VecDeque::new(),
            newest: 0,
            current: 0,
            returned: Vec::new(),
        }
    }
}

impl<C: Chunk> Unread<C> {
    pub(crate) fn push(&mut self, topic: Arc<str>, partition: i32, chunk: C, is_held: bool) {
        self.newest += 1;
        self.runs.push_back(Begun {
            number: self.newest,
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
        let runs = self.runs.iter_mut();
        for begun in runs.filter(|begun| begun.is(topic, partition)) {
            begun.is_held = is_held;
        }
    }

    /// Where the next run stands that is not held.
    fn first(&self) -> Option<usize> {
        self.runs.iter().position(|begun| !begun.is_held)
    }

    /// Hands out the next record: its chunk, and its row there.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Arc<C>, usize)> {
        if !self.returned.is_empty() {
            self.returned.clear();
        }
        // Nearly always there is one here.
        match self.runs.front_mut() {
            Some(begun) if !begun.is_held && begun.left() > 0 => {
                self.current = begun.number;
                Some(begun.next())
            }
            _ => self.next_of_any(),
        }
    }

    fn next_of_any(&mut self) -> Option<(Arc<C>, usize)> {
        loop {
            let first = self.first()?;
            let begun = self.runs.get_mut(first)?;
            if begun.left() > 0 {
                self.current = begun.number;
                return Some(begun.next());
            }
            self.runs.remove(first);
        }
    }

    /// The caller requests more: it is done with the records that it was given.
    pub(crate) fn done(&mut self) {
        self.current = 0;
        self.returned.clear();
    }

    /// Notes that the caller gets a chunk of this partition that begins at `offset`.
    pub(crate) fn returned(&mut self, topic: &Arc<str>, partition: i32, offset: i64) {
        self.returned.push((Arc::clone(topic), partition, offset));
    }

    /// The offset of the partition's first record that the caller is not done with, if there is one here.
    pub(crate) fn undone(&self, topic: &str, partition: i32) -> Option<i64> {
        let mut returned = self.returned.iter();
        if let Some((_, _, offset)) = returned.find(|it| *it.0 == *topic && it.1 == partition) {
            return Some(*offset);
        }
        let mut runs = self.runs.iter();
        let current = runs.find(|it| it.number == self.current && it.is(topic, partition));
        let row = current.and_then(|it| Some((it, it.row.checked_sub(1)?)));
        row.map(|(begun, row)| begun.chunk.offset(row))
            .or_else(|| self.position(topic, partition))
    }

    /// Whether nothing can be handed out now.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs
            .iter()
            .all(|begun| begun.is_held || begun.left() == 0)
    }

    /// Hands out as many records as this at once.
    pub(crate) fn take(&mut self, mut records: usize) -> Vec<C> {
        let mut chunks = Vec::new();
        while records > 0 {
            let first = self.first();
            let Some((first, begun)) = first.and_then(|at| Some((at, self.runs.get_mut(at)?)))
            else {
                break;
            };
            let count = begun.left().min(records);
            if count > 0 {
                let offset = begun.chunk.offset(begun.row);
                let topic = Arc::clone(&begun.topic);
                self.returned.push((topic, begun.partition, offset));
                chunks.push(begun.chunk.slice(begun.row, count));
                begun.row += count;
                records -= count;
            }
            if begun.left() == 0 {
                self.runs.remove(first);
            }
        }
        chunks
    }

    /// The offset of the partition's next record, if there is one here.
    pub(crate) fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        let begun = self
            .runs
            .iter()
            .find(|begun| begun.is(topic, partition) && begun.left() > 0)?;
        Some(begun.chunk.offset(begun.row))
    }

    /// Drops the records of partitions that `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, i32) -> bool) {
        self.runs
            .retain(|begun| keep(&begun.topic, begun.partition));
        self.returned
            .retain(|(topic, partition, _)| keep(topic, *partition));
    }

    /// Drops the records of one partition.
    pub(crate) fn forget(&mut self, topic: &str, partition: i32) {
        self.retain(|name, number| !(*name == *topic && number == partition));
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.returned.clear();
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
    fn what_the_caller_works_on_is_undone_until_it_asks_for_more() {
        let mut unread = unread(&[(0, 5, 7), (1, 20, 22)]);
        assert_eq!(unread.undone("t", 0), Some(5), "not handed out yet");
        unread.next();
        unread.next();
        assert_eq!(unread.undone("t", 0), Some(6));
        assert_eq!(unread.position("t", 0), None);
        assert_eq!(unread.undone("t", 1), Some(20));
        unread.next();
        assert_eq!(
            (unread.undone("t", 0), unread.undone("t", 1)),
            (None, Some(20))
        );
        unread.done();
        assert_eq!(unread.undone("t", 1), Some(21));
        assert_eq!(unread.take(9), [Offsets(21, 22)]);
        unread.returned(&"t".into(), 1, 22);
        unread.returned(&"t".into(), 2, 3);
        assert_eq!(unread.undone("t", 1), Some(21), "the first of its chunks");
        unread.forget("t", 2);
        assert_eq!(
            unread.undone("t", 2),
            None,
            "the caller chose another position"
        );
        unread.next();
        let undone = unread.undone("t", 1);
        assert_eq!(undone, None, "a loop after a poll asks for more, too");
        unread.returned(&"t".into(), 1, 21);
        unread.done();
        assert_eq!(unread.undone("t", 1), None);
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
