//! How a batch is numbered, so that a broker can recognize a repeat (KIP-98).
//!
//! The sequence numbers of a partition continue from batch to batch under one identity, and start
//! with 0 under the next one. A partition changes its identity only when none of its batches
//! carries the old one.

use ottla_protocol::records::ProducerState;

/// A producer id and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

impl Identity {
    /// The same id in the next epoch (KIP-360); `None` after the last epoch.
    pub(super) fn bumped(self) -> Option<Identity> {
        let epoch = self.epoch.checked_add(1)?;
        Some(Identity { epoch, ..self })
    }
}

/// Producer id, epoch and first sequence number of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    pub(super) sequence: i32,
}

impl Stamp {
    /// The stamp of the record that comes `records` later.
    pub(super) fn after(self, records: u32) -> Stamp {
        Stamp {
            sequence: plus(self.sequence, records),
            ..self
        }
    }

    /// The fields of a batch's header.
    pub(super) fn state(self) -> ProducerState {
        ProducerState {
            producer_id: self.identity.id,
            epoch: self.identity.epoch,
            base_sequence: self.sequence,
        }
    }
}

/// How far the numbers of one partition are.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    identity: Option<Identity>,
    /// The broker has acknowledged a batch under this identity.
    established: bool,
    next_sequence: i32,
    /// The number after the highest one that the broker acknowledged.
    seen: i32,
}

impl Numbering {
    /// Numbers the next `records` records. `settled` is whether no batch of the partition carries a
    /// number.
    pub(super) fn stamp(&mut self, identity: Identity, records: u32, settled: bool) -> Stamp {
        if self.identity.is_none() || (settled && self.identity != Some(identity)) {
            *self = Numbering {
                identity: Some(identity),
                established: false,
                next_sequence: 0,
                seen: 0,
            };
        }
        let stamp = Stamp {
            identity: self.identity.unwrap_or(identity),
            sequence: self.next_sequence,
        };
        self.next_sequence = plus(self.next_sequence, records);
        stamp
    }

    /// Whether the next number would follow numbers of another identity.
    pub(super) fn is_of_another(&self, identity: Identity) -> bool {
        self.identity.is_some_and(|own| own != identity)
    }

    /// The broker acknowledged a batch of this many records with this stamp. `is_its_log` is
    /// whether the batch is in the log of the present topic, not in that of a topic of this name
    /// that was deleted.
    pub(super) fn acknowledged(&mut self, stamp: Option<Stamp>, records: u32, is_its_log: bool) {
        let is_known = stamp.map(|stamp| stamp.identity) == self.identity && is_its_log;
        self.established = self.identity.is_none() || is_known;
        if let Some(stamp) = stamp.filter(|stamp| Some(stamp.identity) == self.identity) {
            let end = stamp.after(records).sequence;
            if is_after(end, self.seen) {
                self.seen = end;
            }
        }
    }

    /// Whether these numbers are the last that were given.
    pub(super) fn is_last(&self, stamp: Stamp, records: u32) -> bool {
        stamp.after(records).sequence == self.next_sequence
    }

    /// Whether the broker acknowledged the numbers right before these. If it did not, their batch
    /// was abandoned, and may still arrive.
    pub(super) fn follows_acknowledged(&self, stamp: Stamp) -> bool {
        Some(stamp.identity) == self.identity && stamp.sequence == self.seen
    }

    /// Whether the broker acknowledged numbers after these.
    pub(super) fn is_overtaken(&self, stamp: Stamp) -> bool {
        Some(stamp.identity) == self.identity && is_after(self.seen, stamp.sequence)
    }

    /// Whether the broker may miss numbers, when no batch carries any: a batch that did was
    /// abandoned.
    pub(super) fn has_gap(&self) -> bool {
        self.identity.is_some() && self.seen != self.next_sequence
    }

    /// Whether several batches may be in flight: a broker that has no record of a producer takes
    /// any sequence number, so the first batch goes alone.
    pub(super) fn is_established(&self) -> bool {
        self.established || self.identity.is_none()
    }

    /// The topic was recreated: its log knows nothing of the producer, and takes any sequence number first.
    pub(super) fn log_is_new(&mut self) {
        self.established = false;
    }

    /// Ends the use of an identity and returns it: the next batch begins with another one.
    pub(super) fn end(&mut self) -> Option<Identity> {
        self.identity.take()
    }
}

/// Whether a sequence number comes after another one, where they wrap.
fn is_after(sequence: i32, other: i32) -> bool {
    let ahead = (i64::from(sequence) - i64::from(other)).rem_euclid(i64::from(i32::MAX) + 1);
    (1..=i64::from(i32::MAX) / 2).contains(&ahead)
}

/// Sequence numbers go from 0 to the largest int32, and then from 0 again.
fn plus(sequence: i32, records: u32) -> i32 {
    let sum = (i64::from(sequence) + i64::from(records)) % (i64::from(i32::MAX) + 1);
    i32::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!(plus(i32::MAX, 1), 0);
        assert_eq!(plus(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(plus(i32::MAX - 1, 5), 3);
    }

    #[test]
    fn a_number_is_overtaken_by_what_is_acknowledged_after_it() {
        let identity = Identity { id: 1, epoch: 0 };
        let mut numbering = Numbering::default();
        let first = numbering.stamp(identity, 3, true);
        let second = numbering.stamp(identity, 2, false);
        assert!(numbering.follows_acknowledged(first) && !numbering.follows_acknowledged(second));
        numbering.acknowledged(Some(second), 2, true);
        assert!(numbering.is_overtaken(first));
        let third = numbering.stamp(identity, 1, false);
        assert!(!numbering.is_overtaken(third));
        // The first one is acknowledged late: nothing is missing before the third.
        numbering.acknowledged(Some(first), 3, true);
        assert!(numbering.follows_acknowledged(third));
        assert!(is_after(0, i32::MAX) && !is_after(i32::MAX, 0) && !is_after(7, 7));
    }

    #[test]
    fn an_identity_changes_only_when_nothing_carries_the_old_one() {
        let old = Identity { id: 1, epoch: 0 };
        let new = Identity { id: 1, epoch: 1 };
        let mut numbering = Numbering::default();
        assert_eq!(numbering.stamp(old, 3, true).sequence, 0);
        let kept = numbering.stamp(new, 2, false);
        assert_eq!((kept.identity, kept.sequence), (old, 3));
        let begun = numbering.stamp(new, 2, true);
        assert_eq!((begun.identity, begun.sequence), (new, 0));
    }
}
