//! OffsetForLeaderEpoch, to each partition's leader (KIP-320): where the records of an earlier
//! leader end in its log.

use std::sync::Arc;

use ottla_protocol::messages::OffsetForLeaderEpochRequest;
use ottla_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_protocol::{ApiKey, ErrorCode};

use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::error::Error;

/// The first version that a client may use that cannot alter the cluster.
const FOR_CLIENTS: i16 = 3;
/// How consumers call themselves in place of a replica.
const CONSUMER: i32 = -1;

/// The end of an epoch, as the leader reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochEnd {
    /// The newest epoch in its log that is not newer than the requested one; -1 if it knows none.
    pub(crate) epoch: i32,
    /// The offset after the last record of that epoch; -1 if it knows none.
    pub(crate) offset: i64,
}

/// The ends of leader epochs, by topic, partition and epoch. An item is one of them.
#[derive(Clone, Debug)]
pub(crate) struct EpochEnds {
    pub(crate) wanted: Vec<(Arc<str>, i32, i32)>,
}

impl Call for EpochEnds {
    type Found = EpochEnd;
    /// In the order of the request.
    type Answer = Vec<Result<EpochEnd, Error>>;
    const API: ApiKey = ApiKey::OffsetForLeaderEpoch;

    fn items(&self) -> usize {
        self.wanted.len()
    }

    fn versions(&self) -> (i16, i16) {
        (FOR_CLIENTS, i16::MAX)
    }

    fn target(&self, item: usize) -> Target {
        let wanted = self.wanted.get(item);
        partitions::target(wanted.map(|(topic, partition, _)| (topic, *partition)))
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.wanted.get(*item));
        let rows = wanted.map(|(topic, partition, epoch)| {
            let leader = about.view.leader(topic, *partition);
            let row = OffsetForLeaderPartition {
                partition: *partition,
                current_leader_epoch: leader.map_or(-1, |(_, epoch)| epoch),
                leader_epoch: *epoch,
                ..Default::default()
            };
            (topic, row)
        });
        let topics = partitions::by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| OffsetForLeaderTopic {
            topic: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest {
            replica_id: CONSUMER,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<EpochEnd, Error>> {
        let Response::OffsetForLeaderEpoch(answer) = response else {
            return Vec::new();
        };
        let wanted = items.iter().filter_map(|asked| self.wanted.get(asked.item));
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.topic, row.partition), row))
        });
        partitions::results(wanted, rows, |row| {
            let code = ErrorCode(row.error_code);
            match code.is_error() {
                true => Err(Error::from_code(code, None)),
                false => Ok(EpochEnd {
                    epoch: row.leader_epoch,
                    offset: row.end_offset,
                }),
            }
        })
    }

    fn merge(self, found: Vec<Result<EpochEnd, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}
