//! Of which topics a consumer has read: by that, a commit in a transaction of another client names the topic of each offset.

use std::sync::Arc;

use ottla_protocol::Uuid;

use super::transactional::GroupOffset;

/// A topic of which a consumer has read a partition. Of two topics that had the name the later one comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRead {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The offset of the next record: those up to it belong to the topic.
    pub end: i64,
}

impl TopicRead {
    /// Notes the topic of each offset that has none. An offset that the consumer had not reached may belong to any topic of the
    /// name: it keeps none.
    pub fn note_in(offsets: &mut [GroupOffset], reads: &[TopicRead]) {
        for it in offsets.iter_mut().filter(|it| it.topic_id == Uuid::ZERO) {
            let is_its = |read: &&TopicRead| {
                read.topic == it.topic && read.partition == it.partition && it.offset <= read.end
            };
            if let Some(read) = reads.iter().find(is_its) {
                it.topic_id = read.topic_id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(partition: i32, id: u8, end: i64) -> TopicRead {
        TopicRead {
            topic: "t".into(),
            partition,
            topic_id: Uuid([id; 16]),
            end,
        }
    }

    fn noted(topic: &str, partition: i32, offset: i64, topic_id: Uuid) -> Uuid {
        let mut offsets = [GroupOffset {
            topic: topic.into(),
            partition,
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            topic_id,
        }];
        TopicRead::note_in(
            &mut offsets,
            &[read(0, 2, 3), read(0, 1, 100), read(1, 2, 9)],
        );
        offsets[0].topic_id
    }

    #[test]
    fn an_offset_belongs_to_the_latest_topic_that_was_read_as_far() {
        assert_eq!(noted("t", 0, 3, Uuid::ZERO), Uuid([2; 16]));
        assert_eq!(noted("t", 0, 4, Uuid::ZERO), Uuid([1; 16]));
        assert_eq!(noted("t", 1, 9, Uuid::ZERO), Uuid([2; 16]));
    }

    #[test]
    fn what_was_not_read_and_what_is_known_stay() {
        assert_eq!(noted("t", 0, 101, Uuid::ZERO), Uuid::ZERO);
        assert_eq!(noted("t", 2, 1, Uuid::ZERO), Uuid::ZERO);
        assert_eq!(noted("u", 0, 1, Uuid::ZERO), Uuid::ZERO);
        assert_eq!(noted("t", 0, 1, Uuid([5; 16])), Uuid([5; 16]));
    }
}
