//! What a partition remembers of its idempotent producers (KIP-98, KIP-360): enough to know a batch again and to refuse
//! one that skips.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

/// A client keeps at most this many produce requests in flight, so no older batch can come again.
const REMEMBERED: usize = 5;

/// Producer ids are counted from 0, so none comes here: a client made it up, and must not use up what is to be given out.
const NEVER_GIVEN: i64 = 1 << 62;

/// The producer's part of a batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    pub(crate) count: i32,
}

impl Sequenced {
    fn last(self) -> i32 {
        following(self.first, self.count - 1)
    }
}

/// Sequence `steps` after `sequence`; they wrap from 2^31 - 1 to 0.
fn following(sequence: i32, steps: i32) -> i32 {
    ((i64::from(sequence) + i64::from(steps)) & i64::from(i32::MAX)) as i32
}

/// What is to be done with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Append it.
    Next,
    /// It is in the log already, from this offset on and with this append time.
    Duplicate { base_offset: i64, append_time: i64 },
    /// A newer epoch of this producer has written here.
    StaleEpoch { current: i16 },
    /// A batch before it is missing.
    OutOfOrder { wanted: i32 },
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// The highest timestamp of its last batch.
    last_timestamp: i64,
    batches: VecDeque<Stored>,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    first: i32,
    last: i32,
    base_offset: i64,
    append_time: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Producers(FxHashMap<i64, Producer>);

impl Producers {
    pub(crate) fn check(&self, batch: Sequenced) -> Verdict {
        // A producer never seen may begin anywhere: its earlier batches can have been deleted.
        let Some(producer) = self.0.get(&batch.producer_id) else {
            return Verdict::Next;
        };
        if batch.epoch < producer.epoch {
            return Verdict::StaleEpoch {
                current: producer.epoch,
            };
        }
        if batch.epoch > producer.epoch {
            return if batch.first == 0 {
                Verdict::Next
            } else {
                Verdict::OutOfOrder { wanted: 0 }
            };
        }
        let last = batch.last();
        if let Some(known) = producer
            .batches
            .iter()
            .find(|known| known.first == batch.first && known.last == last)
        {
            return Verdict::Duplicate {
                base_offset: known.base_offset,
                append_time: known.append_time,
            };
        }
        let wanted = producer
            .batches
            .back()
            .map_or(0, |newest| following(newest.last, 1));
        if batch.first == wanted {
            Verdict::Next
        } else {
            Verdict::OutOfOrder { wanted }
        }
    }

    /// Remembers an appended batch. `append_time` is -1 where the client's time stands.
    pub(crate) fn appended(
        &mut self,
        batch: Sequenced,
        base_offset: i64,
        append_time: i64,
        timestamp: i64,
    ) {
        let fresh = || Producer {
            epoch: batch.epoch,
            last_timestamp: timestamp,
            batches: VecDeque::with_capacity(REMEMBERED),
        };
        let producer = self.0.entry(batch.producer_id).or_insert_with(fresh);
        if producer.epoch != batch.epoch {
            *producer = fresh();
        }
        producer.last_timestamp = timestamp;
        if producer.batches.len() == REMEMBERED {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Stored {
            first: batch.first,
            last: batch.last(),
            base_offset,
            append_time,
        });
    }

    /// Forgets who wrote last at this time, by its records' timestamps, or before (`producer.id.expiration.ms`). The next batch
    /// of such a producer may begin anywhere.
    pub(crate) fn expire(&mut self, until: i64) {
        self.0.retain(|_, producer| producer.last_timestamp > until);
    }

    /// The offset of the last record of each producer, with its id.
    pub(crate) fn last_offsets(&self) -> FxHashSet<(i64, i64)> {
        let newest = self.0.iter().filter_map(|(id, producer)| {
            let batch = producer.batches.back()?;
            let steps = batch.last.wrapping_sub(batch.first) & i32::MAX;
            Some((*id, batch.base_offset + i64::from(steps)))
        });
        newest.collect()
    }

    /// The highest producer id seen that a broker can have given out.
    pub(crate) fn highest_id(&self) -> Option<i64> {
        self.0.keys().copied().filter(|id| *id < NEVER_GIVEN).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: i16, first: i32, count: i32) -> Sequenced {
        Sequenced {
            producer_id: 7,
            epoch,
            first,
            count,
        }
    }

    #[test]
    fn sequences_follow_each_other_and_duplicates_are_known() {
        let mut producers = Producers::default();
        assert_eq!(
            producers.check(batch(0, 40, 2)),
            Verdict::Next,
            "never seen: may begin anywhere"
        );
        producers.appended(batch(0, 0, 3), 100, -1, 0);
        producers.appended(batch(0, 3, 1), 103, -1, 0);
        assert_eq!(producers.check(batch(0, 4, 1)), Verdict::Next);
        assert_eq!(
            producers.check(batch(0, 0, 3)),
            Verdict::Duplicate {
                base_offset: 100,
                append_time: -1
            }
        );
        assert_eq!(
            producers.check(batch(0, 0, 2)),
            Verdict::OutOfOrder { wanted: 4 },
            "another length is another batch"
        );
        assert_eq!(
            producers.check(batch(0, 5, 1)),
            Verdict::OutOfOrder { wanted: 4 }
        );
        assert_eq!(producers.highest_id(), Some(7));
    }

    #[test]
    fn ids_that_clients_made_up_are_not_counted_from() {
        let mut producers = Producers::default();
        for producer_id in [i64::MAX, 7, NEVER_GIVEN] {
            let made_up = Sequenced {
                producer_id,
                ..batch(0, 0, 1)
            };
            producers.appended(made_up, 0, -1, 0);
            assert!(matches!(
                producers.check(made_up),
                Verdict::Duplicate { .. }
            ));
        }
        assert_eq!(producers.highest_id(), Some(7));
    }

    #[test]
    fn only_the_newest_batches_are_known_again() {
        let mut producers = Producers::default();
        for i in 0..6 {
            producers.appended(batch(0, i, 1), i64::from(i), -1, 0);
        }
        assert_eq!(
            producers.check(batch(0, 0, 1)),
            Verdict::OutOfOrder { wanted: 6 }
        );
        assert_eq!(
            producers.check(batch(0, 1, 1)),
            Verdict::Duplicate {
                base_offset: 1,
                append_time: -1
            }
        );
    }

    #[test]
    fn a_new_epoch_begins_at_zero_and_ends_the_old() {
        let mut producers = Producers::default();
        producers.appended(batch(3, 0, 9), 0, -1, 0);
        assert_eq!(
            producers.check(batch(4, 9, 1)),
            Verdict::OutOfOrder { wanted: 0 }
        );
        assert_eq!(producers.check(batch(4, 0, 9)), Verdict::Next);
        producers.appended(batch(4, 0, 1), 9, -1, 0);
        assert_eq!(
            producers.check(batch(3, 9, 1)),
            Verdict::StaleEpoch { current: 4 }
        );
        assert_eq!(
            producers.check(batch(4, 0, 9)),
            Verdict::OutOfOrder { wanted: 1 }
        );
    }

    #[test]
    fn sequences_wrap() {
        let mut producers = Producers::default();
        producers.appended(batch(0, i32::MAX - 1, 2), 0, -1, 0);
        assert_eq!(producers.check(batch(0, 0, 1)), Verdict::Next);
        producers.appended(batch(0, 0, 1), 2, -1, 0);
        assert_eq!(
            producers.check(batch(0, i32::MAX - 1, 2)),
            Verdict::Duplicate {
                base_offset: 0,
                append_time: -1
            }
        );
    }

    #[test]
    fn who_wrote_nothing_for_long_is_forgotten() {
        let mut producers = Producers::default();
        producers.appended(batch(0, 0, 1), 0, -1, 100);
        producers.appended(batch(0, 1, 1), 1, -1, 200);
        producers.expire(199);
        assert_eq!(
            producers.check(batch(0, 9, 1)),
            Verdict::OutOfOrder { wanted: 2 }
        );
        producers.expire(200);
        assert_eq!(producers.check(batch(0, 9, 1)), Verdict::Next);
    }
}
