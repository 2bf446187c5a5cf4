//! WriteTxnMarkers (KIP-664), to a partition's leader: the end of a transaction that its
//! coordinator has forgotten.

use std::sync::Arc;

use ottla_protocol::messages::WriteTxnMarkersRequest;
use ottla_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::Deserialize;

use super::interface::only;
use super::values::TopicPartition;
use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::error::Error;

/// Aborts the open transaction of a producer in one partition.
#[derive(Clone, Debug, Deserialize)]
pub struct AbortTransaction {
    /// The partition.
    pub partition: TopicPartition,
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch in the transaction.
    pub producer_epoch: i16,
    /// The epoch of the coordinator of its last transaction; -1 if it had none.
    pub coordinator_epoch: i32,
}

impl Call for AbortTransaction {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::WriteTxnMarkers;

    fn changes(&self) -> bool {
        true
    }

    fn target(&self, _: usize) -> Target {
        Target::Leader(Arc::clone(&self.partition.topic), self.partition.partition)
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let topic = WritableTxnMarkerTopic {
            name: (&*self.partition.topic).into(),
            partition_indexes: [self.partition.partition].into_iter().collect(),
            ..Default::default()
        };
        let marker = WritableTxnMarker {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            transaction_result: false,
            topics: vec![topic],
            // Coordinators begin with 0.
            coordinator_epoch: self.coordinator_epoch.max(0),
            ..Default::default()
        };
        Request::WriteTxnMarkers(WriteTxnMarkersRequest {
            markers: vec![marker],
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::WriteTxnMarkers(answer) = response else {
            return Vec::new();
        };
        let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
        let rows = topics.flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| {
                (
                    (&*topic.name, row.partition_index),
                    ErrorCode(row.error_code),
                )
            })
        });
        let wanted = std::iter::once((&self.partition.topic, self.partition.partition));
        partitions::results(wanted, rows, |code| match code.is_error() {
            true => Err(Error::from_code(*code, None)),
            false => Ok(()),
        })
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the partition")
    }
}
