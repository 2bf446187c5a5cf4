//! Offsets as they were committed before Kafka kept them itself: by version 0 of OffsetCommit, into ZooKeeper.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Offsets by group, topic and partition, as under ZooKeeper's `/consumers`: no coordinator, no metadata, and no other version
/// of the APIs sees them. All nodes of a cluster share them. They are in memory only.
#[derive(Debug, Default)]
pub(crate) struct ZooKeeperOffsets(Mutex<BTreeMap<(String, String, i32), i64>>);

impl ZooKeeperOffsets {
    pub(crate) fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let key = (group.to_owned(), topic.to_owned(), partition);
        self.0.lock().insert(key, offset);
    }

    pub(crate) fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let key = (group.to_owned(), topic.to_owned(), partition);
        self.0.lock().get(&key).copied()
    }
}
