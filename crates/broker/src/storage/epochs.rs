//! Which leader wrote which part of a log (KIP-101): where each leader epoch began.

/// Leader epochs and their first offsets, both rising.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Epochs(Vec<(i32, i64)>);

impl Epochs {
    /// The leader of `epoch` wrote at `offset`, or began there.
    pub(crate) fn wrote(&mut self, epoch: i32, offset: i64) {
        let is_new = self.0.last().is_none_or(|(last, _)| *last < epoch);
        if epoch >= 0 && is_new {
            // An epoch that wrote nothing has no part of the log.
            while self.0.last().is_some_and(|(_, start)| *start >= offset) {
                self.0.pop();
            }
            self.0.push((epoch, offset));
        }
    }

    /// The log ends at `end`: what began there or later is not known any more.
    pub(crate) fn cut(&mut self, end: i64) {
        self.0.retain(|(_, start)| *start < end);
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<i32> {
        self.0.last().map(|(epoch, _)| *epoch)
    }

    /// The epoch that `offset` was written in.
    pub(crate) fn at(&self, offset: i64) -> Option<i32> {
        let after = self.0.partition_point(|(_, start)| *start <= offset);
        self.0.get(after.checked_sub(1)?).map(|(epoch, _)| *epoch)
    }

    /// The largest epoch up to `asked`, and where it ends in a log that ends at `end`; one older than all ends where the
    /// first begins. `None`: the log knows none so new.
    pub(crate) fn end_of(&self, asked: i32, end: i64) -> Option<(i32, i64)> {
        if asked < 0 {
            return None;
        }
        let after = self.0.partition_point(|(epoch, _)| *epoch <= asked);
        let floor = after.checked_sub(1).and_then(|index| self.0.get(index));
        let epoch = floor.map_or(asked, |(epoch, _)| *epoch);
        match self.0.get(after) {
            Some((_, next_start)) => Some((epoch, *next_start)),
            None => floor.filter(|_| epoch == asked).map(|_| (epoch, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let mut epochs = Epochs::default();
        for (epoch, offset) in [(1, 0), (1, 5), (3, 10), (4, 20), (6, 20)] {
            epochs.wrote(epoch, offset);
        }
        assert_eq!(epochs.last(), Some(6));
        let mut shorter = epochs.clone();
        shorter.cut(20);
        assert_eq!(shorter.last(), Some(3));
        let ends = [0, 1, 2, 3, 4, 5, 6, 7].map(|epoch| epochs.end_of(epoch, 30));
        assert_eq!(
            ends,
            [
                Some((0, 0)),
                Some((1, 10)),
                Some((1, 10)),
                Some((3, 20)),
                Some((3, 20)),
                Some((3, 20)),
                Some((6, 30)),
                None,
            ]
        );
    }
}
