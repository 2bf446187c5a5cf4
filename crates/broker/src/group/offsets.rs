//! Committed offsets: the map of one group, and the records of `__consumer_offsets` that make it last.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_protocol::messages::{OffsetCommitKey, OffsetCommitValue};
use ottla_protocol::{EncodeError, Message, Reader};

use super::record::versioned;

/// Type of an offset commit's key, and the version of its value that every Kafka since 2.1 reads.
const KEY_TYPE: i16 = 1;
const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 3;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// The committed offsets of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    committed: ByPartition<Committed>,
    /// Those of open transactions, by their producers, each with its place in the order of all.
    pending: BTreeMap<i64, ByPartition<(u64, Committed)>>,
    /// The places of what was committed while a transaction was open.
    places: ByPartition<u64>,
    next_place: u64,
}

type ByPartition<V> = BTreeMap<String, BTreeMap<i32, V>>;

fn put<V>(map: &mut ByPartition<V>, topic: &str, partition: i32, value: V) {
    if let Some(partitions) = map.get_mut(topic) {
        partitions.insert(partition, value);
    } else {
        map.insert(topic.to_owned(), BTreeMap::from([(partition, value)]));
    }
}

impl Offsets {
    pub(super) fn set(&mut self, topic: &str, partition: i32, committed: Committed) {
        put(&mut self.committed, topic, partition, committed);
        if !self.pending.is_empty() {
            put(&mut self.places, topic, partition, self.next_place);
            self.next_place += 1;
        }
    }

    pub(super) fn set_in_transaction(
        &mut self,
        topic: &str,
        partition: i32,
        producer_id: i64,
        committed: Committed,
    ) {
        let pending = self.pending.entry(producer_id).or_default();
        put(pending, topic, partition, (self.next_place, committed));
        self.next_place += 1;
    }

    /// Takes or drops what a producer's transaction held. What was committed after it stays.
    pub(super) fn end_transaction(&mut self, producer_id: i64, commits: bool) {
        let Some(pending) = self.pending.remove(&producer_id) else {
            return;
        };
        for (topic, partitions) in pending.into_iter().filter(|_| commits) {
            for (partition, (place, committed)) in partitions {
                let places = self.places.get(&topic);
                let newest = places.and_then(|places| places.get(&partition));
                if newest.is_none_or(|newest| *newest < place) {
                    put(&mut self.places, &topic, partition, place);
                    put(&mut self.committed, &topic, partition, committed);
                }
            }
        }
        if self.pending.is_empty() {
            self.places.clear();
        }
    }

    /// Whether an open transaction may yet change the offset (KIP-447).
    pub(crate) fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        self.pending.values().any(|pending| {
            let partitions = pending.get(topic);
            partitions.is_some_and(|it| it.contains_key(&partition))
        })
    }

    pub(super) fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.committed.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.committed.remove(topic);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    pub(super) fn partitions(&self, topic: &str) -> impl Iterator<Item = i32> + '_ {
        self.committed
            .get(topic)
            .into_iter()
            .flat_map(|partitions| partitions.keys().copied())
    }

    pub(crate) fn committed(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.committed.get(topic)?.get(&partition)
    }

    /// Each topic with its partitions' offsets, in order.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, Committed>)> {
        self.committed
            .iter()
            .map(|(topic, partitions)| (topic.as_str(), partitions))
    }
}

/// One record of `__consumer_offsets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// `None`: the offset was forgotten.
    pub(crate) committed: Option<Committed>,
}

impl Stored {
    /// The record's key and value.
    pub(crate) fn encode(&self) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let key = OffsetCommitKey {
            group: self.group.as_str().into(),
            topic: self.topic.as_str().into(),
            partition: self.partition,
        };
        let value = self.committed.as_ref().map(|committed| OffsetCommitValue {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.as_str().into(),
            commit_timestamp: committed.at,
            ..OffsetCommitValue::default()
        });
        let value = value
            .map(|value| versioned(VALUE_VERSION, &value, VALUE_VERSION))
            .transpose()?;
        Ok((versioned(KEY_TYPE, &key, KEY_VERSION)?, value))
    }

    /// Reads a record back; `None` if it is of another kind (group metadata, newer Kafka's), which is left alone.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let mut key = Reader::new(Bytes::copy_from_slice(key));
        if key.i16().ok()? != KEY_TYPE {
            return None;
        }
        let key = OffsetCommitKey::decode(KEY_VERSION, &mut key).ok()?;
        let committed = match value {
            None => None,
            Some(value) => {
                let mut value = Reader::new(Bytes::copy_from_slice(value));
                let version = value.i16().ok()?;
                let value = OffsetCommitValue::decode(version, &mut value).ok()?;
                Some(Committed {
                    offset: value.offset,
                    leader_epoch: value.leader_epoch,
                    metadata: value.metadata.to_string(),
                    at: value.commit_timestamp,
                })
            }
        };
        Some(Self {
            group: key.group.to_string(),
            topic: key.topic.to_string(),
            partition: key.partition,
            committed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(committed: Option<Committed>) -> Stored {
        Stored {
            group: "g".to_owned(),
            topic: "t".to_owned(),
            partition: 3,
            committed,
        }
    }

    #[test]
    fn records_are_kafkas_and_come_back() {
        let committed = Committed {
            offset: 5,
            leader_epoch: 0,
            metadata: "m".to_owned(),
            at: 9,
        };
        let (key, value) = stored(Some(committed.clone())).encode().unwrap();
        assert_eq!(key[..], [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
        let value = value.unwrap();
        assert_eq!(
            value[..],
            [
                0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1, b'm', 0, 0, 0, 0, 0, 0, 0, 9
            ]
        );
        assert_eq!(
            Stored::decode(&key, Some(&value)),
            Some(stored(Some(committed)))
        );
        assert_eq!(Stored::decode(&key, None), Some(stored(None)));
    }

    fn at(offset: i64) -> Committed {
        Committed {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
            at: 0,
        }
    }

    #[test]
    fn offsets_of_a_transaction_count_when_it_is_committed() {
        let mut offsets = Offsets::default();
        offsets.set("t", 0, at(1));
        offsets.set_in_transaction("t", 0, 7, at(2));
        offsets.set_in_transaction("t", 0, 8, at(3));
        assert!(offsets.is_unstable("t", 0) && !offsets.is_unstable("t", 1));
        assert_eq!(offsets.committed("t", 0), Some(&at(1)));
        offsets.end_transaction(7, false);
        assert_eq!(offsets.committed("t", 0), Some(&at(1)));
        offsets.end_transaction(8, true);
        assert_eq!(offsets.committed("t", 0), Some(&at(3)));
        assert!(!offsets.is_unstable("t", 0));
    }

    #[test]
    fn what_was_committed_after_a_transactions_offset_stays() {
        let mut offsets = Offsets::default();
        offsets.set_in_transaction("t", 0, 7, at(2));
        offsets.set_in_transaction("t", 1, 7, at(2));
        offsets.set("t", 0, at(9));
        offsets.end_transaction(7, true);
        assert_eq!(offsets.committed("t", 0), Some(&at(9)));
        assert_eq!(offsets.committed("t", 1), Some(&at(2)));
    }

    #[test]
    fn records_of_another_kind_are_left_alone() {
        assert_eq!(Stored::decode(&[0, 2, 0, 1, b'g'], None), None);
        assert_eq!(Stored::decode(&[0, 1, 0], None), None);
        assert_eq!(Stored::decode(&[], None), None);
    }
}
