//! What metadata says of a cluster, as callers see it.

use ottla_engine::messages::metadata_response::MetadataResponseTopic;

/// A partition as metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The partition's number.
    pub partition: i32,
    /// The leader's broker id; -1 if there is none at the moment.
    pub leader: i32,
    /// Ids of the brokers that hold a replica.
    pub replicas: Vec<i32>,
    /// Ids of the brokers whose replica is in sync.
    pub in_sync: Vec<i32>,
}

impl PartitionInfo {
    /// The partitions of a topic, by their numbers.
    pub(crate) fn of(topic: &MetadataResponseTopic) -> Vec<PartitionInfo> {
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|row| PartitionInfo {
                partition: row.partition_index,
                leader: row.leader_id,
                replicas: row.replica_nodes.to_vec(),
                in_sync: row.isr_nodes.to_vec(),
            })
            .collect();
        partitions.sort_by_key(|row| row.partition);
        partitions
    }
}
