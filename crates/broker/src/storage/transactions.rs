//! The transactions of one partition: where the last stable offset is, and which transactions were aborted (KIP-98).
//!
//! A transaction is open from its first record to its marker, and counts as open until the marker is below the high watermark.
//! The aborted ones are what read_committed clients get; in a folder they are also written out as
//! Kafka's `.txnindex`, one entry after the other, and rebuilt from the log at the start.

use std::collections::BTreeMap;

/// Version of an entry of `.txnindex`.
const INDEX_VERSION: i16 = 0;

/// An aborted transaction, or its part in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first: i64,
    /// The offset of its marker.
    pub(crate) last: i64,
    /// The last stable offset after it.
    pub(crate) last_stable: i64,
}

impl Aborted {
    /// The entry of `.txnindex`: its version and four numbers.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&INDEX_VERSION.to_be_bytes());
        for number in [self.producer_id, self.first, self.last, self.last_stable] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Open ones, by first offset.
    open: BTreeMap<i64, i64>,
    /// Ended ones by first offset, with the offset of the marker, until that is below the high watermark.
    ended: BTreeMap<i64, i64>,
    /// By the offset of the marker.
    aborted: Vec<Aborted>,
}

impl Transactions {
    /// A producer's transaction begins at `first`.
    pub(crate) fn begin(&mut self, producer_id: i64, first: i64) {
        self.open.insert(first, producer_id);
    }

    /// The transaction that began at `first` ends with the marker at `last`.
    pub(crate) fn end(&mut self, producer_id: i64, first: i64, last: i64, commits: bool) {
        self.open.remove(&first);
        self.ended.insert(first, last);
        if !commits {
            let last_stable = self.open.keys().next().copied().unwrap_or(last + 1);
            self.aborted.push(Aborted {
                producer_id,
                first,
                last,
                last_stable,
            });
        }
    }

    /// The offset before which every transaction has ended, and visibly so.
    pub(crate) fn last_stable(&self, high_watermark: i64) -> i64 {
        let open = self.open.keys().next().copied();
        let mut ended = self.ended.iter();
        let ended = ended.find(|(_, marker)| **marker >= high_watermark);
        let unstable = open.into_iter().chain(ended.map(|(first, _)| *first)).min();
        unstable.map_or(high_watermark, |first| first.min(high_watermark))
    }

    /// The high watermark has come this far: ended transactions before it are done with.
    pub(crate) fn settle(&mut self, high_watermark: i64) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// The aborted transactions that have records from `from` on and before `end`.
    pub(crate) fn aborted(&self, from: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        let reaching = self.aborted.partition_point(|aborted| aborted.last < from);
        let rest = self.aborted.get(reaching..).unwrap_or_default().iter();
        rest.filter(move |aborted| aborted.first < end)
    }

    /// Those whose marker is from `base` on and before `end`: of one segment.
    pub(crate) fn index(&self, base: i64, end: i64) -> &[Aborted] {
        let begin = self.aborted.partition_point(|aborted| aborted.last < base);
        let end = self.aborted.partition_point(|aborted| aborted.last < end);
        self.aborted.get(begin..end).unwrap_or_default()
    }

    /// The log begins here from now on, or was compacted up to here: clients get no transactions
    /// that were aborted before it.
    pub(crate) fn forget_before(&mut self, start: i64) {
        let gone = self.aborted.partition_point(|aborted| aborted.last < start);
        self.aborted.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stable_offset_waits_for_the_first_open_transaction_and_for_its_marker() {
        let mut transactions = Transactions::default();
        assert_eq!(transactions.last_stable(5), 5);
        transactions.begin(1, 10);
        transactions.begin(2, 20);
        assert_eq!(transactions.last_stable(5), 5);
        assert_eq!(transactions.last_stable(30), 10);
        transactions.end(1, 10, 30, true);
        assert_eq!(
            transactions.last_stable(30),
            10,
            "the marker is not below the high watermark"
        );
        assert_eq!(transactions.last_stable(31), 20);
        transactions.settle(31);
        assert_eq!(transactions.last_stable(31), 20);
        transactions.end(2, 20, 31, false);
        assert_eq!(transactions.last_stable(32), 32);
    }

    #[test]
    fn aborted_transactions_are_those_that_overlap() {
        let mut transactions = Transactions::default();
        transactions.begin(1, 10);
        transactions.begin(2, 12);
        transactions.end(2, 12, 20, false);
        transactions.end(1, 10, 25, false);
        let found = |from, end| {
            let found = transactions.aborted(from, end);
            found.map(|it| it.producer_id).collect::<Vec<_>>()
        };
        assert_eq!(found(0, 10), [] as [i64; 0]);
        assert_eq!(found(0, 11), [1]);
        assert_eq!(found(0, 13), [2, 1]);
        assert_eq!(found(20, 21), [2, 1]);
        assert_eq!(found(21, 22), [1]);
        assert_eq!(found(26, 99), [] as [i64; 0]);
        let stable = transactions.aborted(0, 99).map(|it| it.last_stable);
        assert_eq!(stable.collect::<Vec<_>>(), [10, 26]);
        assert_eq!(transactions.index(20, 25).len(), 1);
        transactions.forget_before(21);
        assert_eq!(transactions.aborted(0, 99).count(), 1);
    }

    #[test]
    fn entries_are_kafkas() {
        let aborted = Aborted {
            producer_id: 1,
            first: 2,
            last: 3,
            last_stable: 4,
        };
        let mut bytes = Vec::new();
        aborted.encode(&mut bytes);
        let expected = [0_i64, 1, 2, 3, 4].map(i64::to_be_bytes).concat();
        assert_eq!(bytes, expected[6..]);
    }
}
