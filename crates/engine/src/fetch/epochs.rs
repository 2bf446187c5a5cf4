//! Which leaders wrote what was read of a partition: the leader epochs of its records, by offset (KIP-101, KIP-320).

use std::collections::VecDeque;

/// This many runs that end before the caller's next offset are kept: an iteration may still have
/// records of them.
const PAST: usize = 16;

/// Records of one epoch, from an offset up to the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from: i64,
    /// -1 if it is not known.
    pub(super) epoch: i32,
    /// Records of it were read. Else a broker or a group only said that the log is of this epoch there, and it may have none.
    pub(super) is_read: bool,
}

/// The epochs of one partition's records, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    runs: VecDeque<Run>,
}

impl Epochs {
    /// Nothing was read, and the record before `offset` is reported to be of this epoch; -1 if that
    /// is unknown.
    pub(super) fn said(offset: i64, epoch: i32) -> Epochs {
        let run = Run {
            from: offset.saturating_sub(1),
            epoch,
            is_read: false,
        };
        Epochs {
            runs: (epoch >= 0).then_some(run).into_iter().collect(),
        }
    }

    /// The run that the record before `offset` belongs to, if its epoch is known.
    pub(super) fn before(&self, offset: i64) -> Option<Run> {
        let run = self.runs.iter().rev().find(|run| run.from < offset)?;
        (run.epoch >= 0).then_some(*run)
    }

    /// Where records before `offset` begin that were read and are of a later epoch than this.
    pub(super) fn read_above(&self, epoch: i32, offset: i64) -> Option<i64> {
        let is_above = |run: &&Run| run.is_read && run.epoch > epoch && run.from < offset;
        self.runs.iter().find(is_above).map(|run| run.from)
    }

    /// The epoch of the record before `offset`; -1 if it is not known.
    pub(super) fn epoch_before(&self, offset: i64) -> i32 {
        self.before(offset).map_or(-1, |run| run.epoch)
    }

    /// Records from `from` on are of this epoch, -1 if they have none. The caller gets `next` next.
    pub(super) fn read(&mut self, from: i64, epoch: i32, next: i64) {
        let goes_on = |last: &Run| last.is_read && last.epoch == epoch;
        if self.runs.back().is_some_and(goes_on) {
            return;
        }
        self.runs.push_back(Run {
            from,
            epoch,
            is_read: true,
        });
        let ended = |run: Option<&Run>| run.is_some_and(|run| run.from < next);
        while self.runs.len() > PAST && ended(self.runs.get(PAST)) {
            self.runs.pop_front();
        }
    }

    /// Records from `offset` on are read again.
    pub(super) fn cut(&mut self, offset: i64) {
        while self.runs.back().is_some_and(|run| run.from >= offset) {
            self.runs.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offset_has_the_epoch_of_the_record_before_it() {
        let mut epochs = Epochs::said(10, 3);
        assert_eq!((epochs.epoch_before(9), epochs.epoch_before(10)), (-1, 3));
        epochs.read(10, 3, 10);
        epochs.read(15, 5, 10);
        epochs.read(20, 5, 10);
        let at = |epochs: &Epochs| [10, 11, 15, 16, 99].map(|offset| epochs.epoch_before(offset));
        assert_eq!(at(&epochs), [3, 3, 3, 5, 5]);
        assert_eq!(
            [10, 12, 99].map(|offset| epochs.before(offset).map(|run| (run.from, run.is_read))),
            [Some((9, false)), Some((10, true)), Some((15, true))]
        );
        epochs.cut(15);
        assert_eq!(at(&epochs), [3; 5]);
        epochs.read(15, -1, 15);
        assert_eq!(at(&epochs), [3, 3, 3, -1, -1]);
        assert_eq!(Epochs::said(10, -1).epoch_before(10), -1);
    }

    #[test]
    fn only_what_the_caller_may_still_have_is_kept() {
        let mut epochs = Epochs::default();
        for epoch in 0..100 {
            epochs.read(i64::from(epoch), epoch, 0);
        }
        assert_eq!(epochs.epoch_before(1), 0, "nothing was given out");
        for epoch in 100..200 {
            epochs.read(i64::from(epoch), epoch, i64::from(epoch));
        }
        assert_eq!(epochs.runs.len(), PAST + 1);
        assert_eq!(
            (epochs.epoch_before(1), epochs.epoch_before(199)),
            (-1, 198)
        );
    }
}
