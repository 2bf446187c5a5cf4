//! Partitions: added, emptied from their beginning, and the offsets of their logs.

use std::sync::Arc;

use ottla_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use ottla_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use ottla_protocol::messages::{CreatePartitionsRequest, DeleteRecordsRequest, ListOffsetsRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::controller;
use crate::call::interface::results;
use crate::call::partitions::{self, by_topic};
use crate::call::{About, Asked, ByItem, Call, Retry, Target, TopicKey};
use crate::error::Error;

verbs! {
    create_partitions: CreatePartitions,
    delete_records: DeleteRecords,
    list_offsets: ListOffsets,
}

/// The partitions that a topic is to have.
#[derive(Clone, Debug, Deserialize)]
pub struct NewPartitions {
    /// The topic.
    pub topic: String,
    /// Its number of partitions, with those that it has.
    pub total: i32,
    /// The brokers of each new partition; `None` lets the controller choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Adds partitions to topics. An item is a topic.
#[derive(Clone, Debug, Deserialize)]
pub struct CreatePartitions {
    /// The topics.
    pub partitions: Vec<NewPartitions>,
    /// Whether nothing is changed.
    pub validate_only: bool,
}

impl Call for CreatePartitions {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::CreatePartitions;

    fn items(&self) -> usize {
        self.partitions.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.partitions.get(*item));
        let topics = wanted.map(|row| CreatePartitionsTopic {
            name: row.topic.as_str().into(),
            count: row.total,
            assignments: row.assignments.as_ref().map(|assignments| {
                let rows = assignments
                    .iter()
                    .map(|brokers| CreatePartitionsAssignment {
                        broker_ids: brokers.iter().copied().collect(),
                        ..Default::default()
                    });
                rows.collect()
            }),
            ..Default::default()
        });
        Request::CreatePartitions(CreatePartitionsRequest {
            topics: topics.collect(),
            timeout_ms: about.timeout_ms,
            validate_only: self.validate_only,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::CreatePartitions(answer) = response else {
            return Vec::new();
        };
        results(items, "a topic", |asked| {
            let topic = &self.partitions.get(asked.item)?.topic;
            let row = answer.results.iter().find(|row| *row.name == **topic)?;
            let code = ErrorCode(row.error_code);
            // The topic has as many partitions as were requested.
            let may_be_ours = asked.repeated && !self.validate_only;
            let explains = may_be_ours && code == ErrorCode::INVALID_PARTITIONS;
            let text = row.error_message.as_deref();
            let done = explains.then_some("added partitions to");
            let topic = TopicKey::Name(topic.clone());
            Some(controller::result(&topic, code, text, done))
        })
    }

    fn changes(&self) -> bool {
        !self.validate_only
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let topics = self.partitions.into_iter().map(|row| row.topic);
        ByItem::new(topics.collect(), found)
    }
}

/// Where the log of a partition is to begin.
#[derive(Clone, Debug, Deserialize)]
pub struct DeletedRecords {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Records before this offset are deleted; -1 deletes all.
    pub offset: i64,
}

/// Deletes records. An item is a partition; the request goes to its leader.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "DeleteRecordsArguments")]
pub struct DeleteRecords {
    wanted: Vec<(Arc<str>, i32, i64)>,
}

#[derive(Deserialize)]
struct DeleteRecordsArguments {
    records: Vec<DeletedRecords>,
}

impl From<DeleteRecordsArguments> for DeleteRecords {
    fn from(arguments: DeleteRecordsArguments) -> DeleteRecords {
        let rows = arguments.records.into_iter();
        DeleteRecords {
            wanted: rows
                .map(|row| (row.topic.into(), row.partition, row.offset))
                .collect(),
        }
    }
}

impl Call for DeleteRecords {
    type Found = i64;
    /// The first offset of each partition's log by then.
    type Answer = ByItem<i64>;
    const API: ApiKey = ApiKey::DeleteRecords;

    fn items(&self) -> usize {
        self.wanted.len()
    }

    fn target(&self, item: usize) -> Target {
        let wanted = self.wanted.get(item);
        partitions::target(wanted.map(|(topic, partition, _)| (topic, *partition)))
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.wanted.get(*item));
        let rows = wanted.map(|(topic, partition, offset)| {
            let row = DeleteRecordsPartition {
                partition_index: *partition,
                offset: *offset,
                ..Default::default()
            };
            (topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| DeleteRecordsTopic {
            name: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::DeleteRecords(DeleteRecordsRequest {
            topics: topics.collect(),
            timeout_ms: about.timeout_ms,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<i64, Error>> {
        let Response::DeleteRecords(answer) = response else {
            return Vec::new();
        };
        let wanted = items.iter().filter_map(|asked| self.wanted.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        partitions::results(wanted, rows, |row| match ErrorCode(row.error_code) {
            code if code.is_error() => Err(Error::from_code(code, None)),
            _ => Ok(row.low_watermark),
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn merge(self, found: Vec<Result<i64, Error>>) -> Result<Self::Answer, Error> {
        let wanted = self.wanted.into_iter();
        let partitions = wanted.map(|(topic, partition, _)| (topic, partition));
        ByItem::new(partitions.collect(), found)
    }
}

/// An offset of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ListedOffset {
    /// The offset; `None` if there is no such record.
    pub offset: Option<i64>,
    /// The record's time, in ms since 1970 UTC, if the request was about one.
    pub timestamp: Option<i64>,
    /// The epoch of the leader that wrote it, where brokers return it.
    pub leader_epoch: Option<i32>,
}

/// An offset that is looked for.
#[derive(Clone, Debug, Deserialize)]
pub struct OffsetQuery {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// A time in ms since 1970 UTC, or a negative number: see [`first_with`].
    pub timestamp: i64,
}

/// The first version of ListOffsets that has a timestamp with this meaning.
fn first_with(timestamp: i64) -> i16 {
    match timestamp {
        // The record with the highest time (KIP-734).
        -3 => 7,
        // The first offset on the leader's disk (KIP-405).
        -4 => 8,
        // The last offset in tiered storage (KIP-1005).
        -5 => 9,
        // The first offset that is not in tiered storage yet (KIP-1023).
        -6 => 11,
        // Version 0 knows only the times of files.
        0.. => 1,
        _ => 0,
    }
}

/// Offsets of partitions' logs. An item is a partition; the request goes to its leader.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ListOffsetsArguments")]
pub struct ListOffsets {
    wanted: Vec<(Arc<str>, i32, i64)>,
    read_committed: bool,
}

#[derive(Deserialize)]
struct ListOffsetsArguments {
    offsets: Vec<OffsetQuery>,
    read_committed: bool,
}

impl From<ListOffsetsArguments> for ListOffsets {
    fn from(arguments: ListOffsetsArguments) -> ListOffsets {
        let rows = arguments.offsets.into_iter();
        ListOffsets {
            wanted: rows
                .map(|row| (row.topic.into(), row.partition, row.timestamp))
                .collect(),
            read_committed: arguments.read_committed,
        }
    }
}

impl ListOffsets {
    /// Offsets by topic, partition and time.
    pub(super) fn new(wanted: Vec<(Arc<str>, i32, i64)>, read_committed: bool) -> ListOffsets {
        ListOffsets {
            wanted,
            read_committed,
        }
    }
}

impl Call for ListOffsets {
    type Found = ListedOffset;
    type Answer = ByItem<ListedOffset>;
    const API: ApiKey = ApiKey::ListOffsets;

    fn versions(&self) -> (i16, i16) {
        let needed = self.wanted.iter().map(|(_, _, time)| first_with(*time));
        // Before version 2 there are no transactions whose records could be left out.
        (needed.max().unwrap_or(0), i16::MAX)
    }

    fn items(&self) -> usize {
        self.wanted.len()
    }

    fn target(&self, item: usize) -> Target {
        let wanted = self.wanted.get(item);
        partitions::target(wanted.map(|(topic, partition, _)| (topic, *partition)))
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.wanted.get(*item));
        let rows = wanted.map(|(topic, partition, timestamp)| {
            let leader = about.view.leader(topic, *partition);
            let row = ListOffsetsPartition {
                partition_index: *partition,
                current_leader_epoch: leader.map_or(-1, |(_, epoch)| epoch),
                timestamp: *timestamp,
                ..Default::default()
            };
            (topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| ListOffsetsTopic {
            name: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::ListOffsets(ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(self.read_committed),
            topics: topics.collect(),
            timeout_ms: about.timeout_ms,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<ListedOffset, Error>> {
        let Response::ListOffsets(answer) = response else {
            return Vec::new();
        };
        let wanted = items.iter().filter_map(|asked| self.wanted.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        partitions::results(wanted, rows, |row| listed(row))
    }

    fn merge(self, found: Vec<Result<ListedOffset, Error>>) -> Result<Self::Answer, Error> {
        let wanted = self.wanted.into_iter();
        let partitions = wanted.map(|(topic, partition, _)| (topic, partition));
        ByItem::new(partitions.collect(), found)
    }
}

fn listed(row: &ListOffsetsPartitionResponse) -> Result<ListedOffset, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    // Version 0 has a list instead.
    let offset = row.old_style_offsets.first().copied().unwrap_or(row.offset);
    Ok(ListedOffset {
        offset: Some(offset).filter(|offset| *offset >= 0),
        timestamp: Some(row.timestamp).filter(|time| *time >= 0),
        leader_epoch: Some(row.leader_epoch).filter(|epoch| *epoch >= 0),
    })
}
