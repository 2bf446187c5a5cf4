//! What a partition remembers of its idempotent and transactional producers (KIP-98, KIP-360): enough to know a batch again,
//! to refuse one that skips, and to know who has a transaction open here.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

/// A client keeps at most this many produce requests in flight, so no older batch can come again.
pub(crate) const REMEMBERED: usize = 5;

/// Producer ids are counted from 0, so none comes here: a client made it up, and must not use up what is to be given out.
const NEVER_GIVEN: i64 = 1 << 62;

/// The producer's part of a batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    pub(crate) count: i32,
    pub(crate) is_transactional: bool,
}

/// The end of a transaction, from a control batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) commits: bool,
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
    /// Its producer has a transaction open here, and it is not of it.
    OutsideTransaction,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Stored>,
    /// Of the last marker, -1 before the first.
    coordinator_epoch: i32,
    /// Where its open transaction begins.
    transaction: Option<i64>,
    /// The highest timestamp of its last batch, or that of its last marker.
    last_timestamp: i64,
}

impl Producer {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            batches: VecDeque::new(),
            coordinator_epoch: -1,
            transaction: None,
            last_timestamp: -1,
        }
    }

    /// Another epoch begins its sequences again.
    fn enter(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// A producer, as DescribeProducers shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) last_sequence: Option<i32>,
    pub(crate) last_timestamp: i64,
    pub(crate) coordinator_epoch: i32,
    pub(crate) transaction: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    first: i32,
    last: i32,
    base_offset: i64,
    append_time: i64,
}

/// Why a marker is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmarked {
    /// A newer epoch of this producer has written here.
    StaleEpoch { current: i16 },
    /// A newer coordinator has written a marker here.
    StaleCoordinator { current: i32 },
}

/// Whether a producer of this epoch may write here, as its coordinator is asked.
#[derive(Debug)]
struct Question {
    number: u64,
    epoch: i16,
}

#[derive(Debug, Default)]
pub(crate) struct Producers {
    known: FxHashMap<i64, Producer>,
    /// Producers whose coordinator is asked whether they may write here.
    verifying: FxHashMap<i64, Question>,
    questions: u64,
}

impl Producers {
    /// What is to be done with a batch by a broker that knows the last `remembered` ones of a producer again.
    pub(crate) fn check(&self, batch: Sequenced, remembered: usize) -> Verdict {
        // A producer never seen may begin anywhere: its earlier batches can have been deleted.
        let Some(producer) = self.known.get(&batch.producer_id) else {
            return Verdict::Next;
        };
        match Self::check_sequence(producer, batch, remembered) {
            Verdict::Next if producer.transaction.is_some() && !batch.is_transactional => {
                Verdict::OutsideTransaction
            }
            verdict => verdict,
        }
    }

    fn check_sequence(producer: &Producer, batch: Sequenced, remembered: usize) -> Verdict {
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
            .rev()
            .take(remembered)
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

    /// May a coordinator's batch of this producer's epoch come here? It has no sequence of the producer's.
    pub(crate) fn check_epoch(&self, producer_id: i64, epoch: i16) -> Verdict {
        match self.known.get(&producer_id) {
            Some(producer) if epoch < producer.epoch => Verdict::StaleEpoch {
                current: producer.epoch,
            },
            _ => Verdict::Next,
        }
    }

    /// May this marker come here?
    pub(crate) fn check_marker(&self, marker: Marker) -> Result<(), Unmarked> {
        match self.known.get(&marker.producer_id) {
            Some(producer) if marker.epoch < producer.epoch => Err(Unmarked::StaleEpoch {
                current: producer.epoch,
            }),
            Some(producer) if marker.coordinator_epoch < producer.coordinator_epoch => {
                Err(Unmarked::StaleCoordinator {
                    current: producer.coordinator_epoch,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the producer has a transaction of this epoch open here.
    pub(crate) fn is_in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        let producer = self.known.get(&producer_id);
        producer.is_some_and(|it| it.epoch == epoch && it.transaction.is_some())
    }

    /// Begins a verification by the coordinator that the producer may write here; returns its
    /// number.
    pub(crate) fn verify(&mut self, producer_id: i64, epoch: i16) -> u64 {
        self.questions += 1;
        let number = self.questions;
        self.verifying
            .insert(producer_id, Question { number, epoch });
        number
    }

    /// Whether the verification with this number still holds: no transaction of the producer has
    /// ended here since.
    pub(crate) fn is_verified(&self, producer_id: i64, question: u64) -> bool {
        let asked = self.verifying.get(&producer_id);
        asked.is_some_and(|asked| asked.number == question)
    }

    /// Remembers an appended batch. `append_time` is -1 where the client's time stands. Returns
    /// whether a transaction begins with it.
    pub(crate) fn appended(
        &mut self,
        batch: Sequenced,
        base_offset: i64,
        append_time: i64,
        timestamp: i64,
    ) -> bool {
        self.verifying.remove(&batch.producer_id);
        let fresh = || Producer::new(batch.epoch);
        let producer = self.known.entry(batch.producer_id).or_insert_with(fresh);
        producer.enter(batch.epoch);
        let begins = batch.is_transactional && producer.transaction.is_none();
        if begins {
            producer.transaction = Some(base_offset);
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
        begins
    }

    /// Takes note of a marker; gives the first offset of the transaction that it ends, if there was one.
    pub(crate) fn ended(&mut self, marker: Marker, timestamp: i64) -> Option<i64> {
        let fresh = || Producer::new(marker.epoch);
        let producer = self.known.entry(marker.producer_id).or_insert_with(fresh);
        // With KIP-890 the marker of one transaction has the epoch of the next, of which the coordinator may have been asked
        // before the marker came here.
        let is_of_earlier = producer.transaction.is_some() && producer.epoch < marker.epoch;
        self.verifying.retain(|id, asked| {
            *id != marker.producer_id || is_of_earlier && asked.epoch == marker.epoch
        });
        producer.enter(marker.epoch);
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_timestamp = timestamp;
        producer.transaction.take()
    }

    /// All producers, by id.
    pub(crate) fn active(&self) -> Vec<Active> {
        let active = |(id, producer): (&i64, &Producer)| Active {
            producer_id: *id,
            epoch: producer.epoch,
            last_sequence: producer.batches.back().map(|batch| batch.last),
            last_timestamp: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction: producer.transaction,
        };
        let mut all: Vec<_> = self.known.iter().map(active).collect();
        all.sort_unstable_by_key(|producer| producer.producer_id);
        all
    }

    /// Forgets who wrote last at this time, by its records' timestamps, or before (`producer.id.expiration.ms`, KIP-854). The next batch
    /// of such a producer may begin anywhere. Whose transaction is open stays, since its marker is to come.
    pub(crate) fn expire(&mut self, until: i64) {
        self.known.retain(|_, producer| {
            producer.transaction.is_some() || producer.last_timestamp > until
        });
    }

    /// The offset of the last record of each producer, with its id.
    pub(crate) fn last_offsets(&self) -> FxHashSet<(i64, i64)> {
        let newest = self.known.iter().filter_map(|(id, producer)| {
            let batch = producer.batches.back()?;
            let steps = batch.last.wrapping_sub(batch.first) & i32::MAX;
            Some((*id, batch.base_offset + i64::from(steps)))
        });
        newest.collect()
    }

    /// The highest producer id seen that a broker can have given out.
    pub(crate) fn highest_id(&self) -> Option<i64> {
        self.known
            .keys()
            .copied()
            .filter(|id| *id < NEVER_GIVEN)
            .max()
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
            is_transactional: false,
        }
    }

    fn marker(epoch: i16, coordinator_epoch: i32) -> Marker {
        Marker {
            producer_id: 7,
            epoch,
            coordinator_epoch,
            commits: true,
        }
    }

    fn in_transaction(epoch: i16, first: i32) -> Sequenced {
        Sequenced {
            is_transactional: true,
            ..batch(epoch, first, 1)
        }
    }

    #[test]
    fn an_old_broker_knows_only_the_last_batch_again() {
        let mut producers = Producers::default();
        for sequence in 0..3 {
            producers.appended(batch(0, sequence, 1), i64::from(sequence), -1, 5);
        }
        let known = |sequence, remembered| producers.check(batch(0, sequence, 1), remembered);
        let duplicate = |base_offset| Verdict::Duplicate {
            base_offset,
            append_time: -1,
        };
        assert_eq!((known(2, 1), known(3, 1)), (duplicate(2), Verdict::Next));
        assert_eq!(known(1, 1), Verdict::OutOfOrder { wanted: 3 });
        assert_eq!(known(1, REMEMBERED), duplicate(1));
    }

    #[test]
    fn a_transaction_is_open_until_its_marker() {
        let mut producers = Producers::default();
        assert!(!producers.is_in_transaction(7, 0));
        assert!(producers.appended(in_transaction(0, 0), 100, -1, 5));
        assert!(!producers.appended(in_transaction(0, 1), 101, -1, 6));
        assert!(producers.is_in_transaction(7, 0) && !producers.is_in_transaction(7, 1));
        assert_eq!(
            producers.check(batch(0, 2, 1), REMEMBERED),
            Verdict::OutsideTransaction
        );
        assert_eq!(
            producers.check(in_transaction(0, 2), REMEMBERED),
            Verdict::Next
        );
        assert_eq!(producers.ended(marker(0, 3), 7), Some(100));
        assert_eq!(producers.ended(marker(0, 3), 7), None, "nothing was open");
        assert_eq!(producers.check(batch(0, 2, 1), REMEMBERED), Verdict::Next);
        let shown = producers.active();
        assert_eq!(
            shown,
            [Active {
                producer_id: 7,
                epoch: 0,
                last_sequence: Some(1),
                last_timestamp: 7,
                coordinator_epoch: 3,
                transaction: None,
            }]
        );
    }

    #[test]
    fn a_marker_of_a_newer_epoch_fences_its_producer() {
        let mut producers = Producers::default();
        producers.appended(in_transaction(0, 0), 100, -1, 5);
        assert_eq!(producers.ended(marker(1, 3), 7), Some(100));
        assert_eq!(
            producers.check(in_transaction(0, 1), REMEMBERED),
            Verdict::StaleEpoch { current: 1 }
        );
        assert_eq!(
            producers.check(in_transaction(1, 1), REMEMBERED),
            Verdict::OutOfOrder { wanted: 0 },
            "the new epoch counts anew"
        );
        assert_eq!(
            producers.check(in_transaction(1, 0), REMEMBERED),
            Verdict::Next
        );
        assert_eq!(producers.active()[0].last_sequence, None);
        assert_eq!(
            producers.check_marker(marker(0, 3)),
            Err(Unmarked::StaleEpoch { current: 1 })
        );
        assert_eq!(
            producers.check_marker(marker(1, 2)),
            Err(Unmarked::StaleCoordinator { current: 3 })
        );
        assert_eq!(producers.check_marker(marker(1, 3)), Ok(()));
    }

    #[test]
    fn an_answer_of_the_coordinator_does_not_hold_beyond_a_marker() {
        let mut producers = Producers::default();
        let question = producers.verify(7, 0);
        assert!(producers.is_verified(7, question));
        producers.ended(marker(0, 0), 7);
        assert!(!producers.is_verified(7, question));
        let question = producers.verify(7, 0);
        assert!(producers.is_verified(7, question) && !producers.is_verified(8, question));
        producers.verify(7, 0);
        assert!(!producers.is_verified(7, question), "it was asked again");
    }

    #[test]
    fn the_marker_of_the_transaction_before_leaves_the_answer_for_the_next() {
        let mut producers = Producers::default();
        producers.appended(in_transaction(0, 0), 100, -1, 5);
        let next = producers.verify(7, 1);
        assert_eq!(producers.ended(marker(1, 3), 7), Some(100));
        assert!(producers.is_verified(7, next));
        producers.ended(marker(1, 3), 7);
        assert!(!producers.is_verified(7, next), "nothing earlier was open");
        producers.appended(in_transaction(1, 0), 102, -1, 8);
        let same = producers.verify(7, 1);
        producers.ended(marker(2, 3), 9);
        assert!(!producers.is_verified(7, same), "its transaction has ended");
    }

    #[test]
    fn sequences_follow_each_other_and_duplicates_are_known() {
        let mut producers = Producers::default();
        assert_eq!(
            producers.check(batch(0, 40, 2), REMEMBERED),
            Verdict::Next,
            "never seen: may begin anywhere"
        );
        producers.appended(batch(0, 0, 3), 100, -1, 0);
        producers.appended(batch(0, 3, 1), 103, -1, 0);
        assert_eq!(producers.check(batch(0, 4, 1), REMEMBERED), Verdict::Next);
        assert_eq!(
            producers.check(batch(0, 0, 3), REMEMBERED),
            Verdict::Duplicate {
                base_offset: 100,
                append_time: -1
            }
        );
        assert_eq!(
            producers.check(batch(0, 0, 2), REMEMBERED),
            Verdict::OutOfOrder { wanted: 4 },
            "another length is another batch"
        );
        assert_eq!(
            producers.check(batch(0, 5, 1), REMEMBERED),
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
                producers.check(made_up, REMEMBERED),
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
            producers.check(batch(0, 0, 1), REMEMBERED),
            Verdict::OutOfOrder { wanted: 6 }
        );
        assert_eq!(
            producers.check(batch(0, 1, 1), REMEMBERED),
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
            producers.check(batch(4, 9, 1), REMEMBERED),
            Verdict::OutOfOrder { wanted: 0 }
        );
        assert_eq!(producers.check(batch(4, 0, 9), REMEMBERED), Verdict::Next);
        producers.appended(batch(4, 0, 1), 9, -1, 0);
        assert_eq!(
            producers.check(batch(3, 9, 1), REMEMBERED),
            Verdict::StaleEpoch { current: 4 }
        );
        assert_eq!(
            producers.check(batch(4, 0, 9), REMEMBERED),
            Verdict::OutOfOrder { wanted: 1 }
        );
    }

    #[test]
    fn sequences_wrap() {
        let mut producers = Producers::default();
        producers.appended(batch(0, i32::MAX - 1, 2), 0, -1, 0);
        assert_eq!(producers.check(batch(0, 0, 1), REMEMBERED), Verdict::Next);
        producers.appended(batch(0, 0, 1), 2, -1, 0);
        assert_eq!(
            producers.check(batch(0, i32::MAX - 1, 2), REMEMBERED),
            Verdict::Duplicate {
                base_offset: 0,
                append_time: -1
            }
        );
    }

    /// KIP-854.
    #[test]
    fn who_wrote_nothing_for_long_is_forgotten() {
        let mut producers = Producers::default();
        producers.appended(batch(0, 0, 1), 0, -1, 100);
        producers.appended(batch(0, 1, 1), 1, -1, 200);
        producers.expire(199);
        assert_eq!(
            producers.check(batch(0, 9, 1), REMEMBERED),
            Verdict::OutOfOrder { wanted: 2 }
        );
        producers.expire(200);
        assert_eq!(producers.check(batch(0, 9, 1), REMEMBERED), Verdict::Next);
    }

    #[test]
    fn whose_transaction_is_open_is_not_forgotten() {
        let mut producers = Producers::default();
        producers.appended(in_transaction(0, 0), 100, -1, 5);
        producers.expire(1000);
        assert!(producers.is_in_transaction(7, 0));
        assert_eq!(producers.ended(marker(0, 3), 6), Some(100));
        producers.expire(1000);
        assert_eq!(producers.active(), []);
    }
}
