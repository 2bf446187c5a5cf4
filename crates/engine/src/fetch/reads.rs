//! Which topics were read under one name: a topic that was deleted and created again has the name of the one before, and an
//! offset of the one before must not be committed for it.

use ottla_protocol::Uuid;

/// The topics that a caller read of one partition, each with the offset after the last record of it.
///
/// The latest comes first. An offset is of the latest topic that was read as far, so each one before it was read further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads(Vec<(Uuid, i64)>);

impl Reads {
    /// The caller reads the topic now, and has its records before `end`.
    pub(super) fn note(&mut self, topic: Uuid, end: i64) {
        if topic == Uuid::ZERO {
            return;
        }
        let known = self.0.iter().filter(|(known, _)| *known == topic);
        // A seek goes back to records that the caller has already.
        let end = known.fold(end, |end, (_, before)| end.max(*before));
        self.0
            .retain(|(known, before)| *known != topic && *before > end);
        self.0.insert(0, (topic, end));
    }

    /// The latest topic that was read up to this offset.
    pub(super) fn topic_of(&self, offset: i64) -> Option<Uuid> {
        let found = self.0.iter().find(|(_, end)| offset <= *end);
        found.map(|(topic, _)| *topic)
    }

    /// Each topic and its offset, the latest first.
    pub(super) fn each(&self) -> impl Iterator<Item = (Uuid, i64)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Uuid = Uuid([1; 16]);
    const NEW: Uuid = Uuid([2; 16]);

    fn noted(each: &[(Uuid, i64)]) -> Reads {
        let mut reads = Reads::default();
        for (topic, end) in each {
            reads.note(*topic, *end);
        }
        reads
    }

    #[test]
    fn an_offset_is_of_the_latest_topic_that_was_read_as_far() {
        let reads = noted(&[(OLD, 100), (NEW, 3)]);
        assert_eq!(reads.topic_of(3), Some(NEW));
        assert_eq!(reads.topic_of(4), Some(OLD));
        assert_eq!(reads.topic_of(100), Some(OLD));
        assert_eq!(reads.topic_of(101), None);
    }

    #[test]
    fn going_back_in_a_topic_forgets_nothing() {
        assert_eq!(noted(&[(OLD, 100), (OLD, 0)]), noted(&[(OLD, 100)]));
    }

    #[test]
    fn a_topic_of_which_nothing_was_read_forgets_nothing() {
        let reads = noted(&[(OLD, 100), (NEW, 0), (Uuid::ZERO, 200), (NEW, 0)]);
        assert_eq!(reads, noted(&[(OLD, 100), (NEW, 0)]));
    }

    #[test]
    fn a_topic_that_no_offset_can_mean_is_forgotten() {
        assert_eq!(noted(&[(OLD, 100), (NEW, 100)]), noted(&[(NEW, 100)]));
    }
}
