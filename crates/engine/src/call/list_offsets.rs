//! ListOffsets, to each partition's leader.

use std::sync::Arc;

use ottla_protocol::messages::ListOffsetsRequest;
use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use ottla_protocol::{ApiKey, ErrorCode};

use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::error::Error;

/// Requests the first offset of the log.
pub const EARLIEST: i64 = -2;
/// Requests the offset after the last record.
pub const LATEST: i64 = -1;

/// An offset as a leader returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset; -1 if no record is at or after the requested time.
    pub offset: i64,
    /// The record's time; -1 if the request had none.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
    /// There is no offset because all parts of the log are younger than the requested time: all
    /// records are at or after it. Only brokers before 0.10.1 return this.
    pub log_is_younger: bool,
}

/// Offsets by topic, partition and time ([`EARLIEST`], [`LATEST`] or ms since 1970 UTC). An item is one of them.
///
/// Brokers before 0.10.1 (version 0) know the times of their log's files only: the offset is that of the newest file that was
/// last written at the requested time or before, and so at or before the first record of that time.
#[derive(Clone, Debug)]
pub struct ListOffsets {
    /// The requested offsets.
    pub wanted: Vec<(Arc<str>, i32, i64)>,
}

impl Call for ListOffsets {
    type Found = FoundOffset;
    /// In the order of the request.
    type Answer = Vec<Result<FoundOffset, Error>>;
    const API: ApiKey = ApiKey::ListOffsets;

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
        let topics = partitions::by_topic(rows)
            .into_iter()
            .map(|(topic, partitions)| ListOffsetsTopic {
                name: (&**topic).into(),
                partitions,
                ..Default::default()
            })
            .collect();
        let timeout = about.config.request_timeout.as_millis();
        Request::ListOffsets(ListOffsetsRequest {
            replica_id: -1,
            isolation_level: i8::from(about.config.read_committed),
            topics,
            timeout_ms: i32::try_from(timeout).unwrap_or(i32::MAX),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<FoundOffset, Error>> {
        let Response::ListOffsets(answer) = response else {
            return Vec::new();
        };
        let is_old = items.first().is_some_and(|asked| asked.version == 0);
        let wanted = items.iter().filter_map(|asked| self.wanted.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        partitions::results(wanted, rows, |row| offset(row, is_old))
    }

    fn merge(self, found: Vec<Result<FoundOffset, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

fn offset(row: &ListOffsetsPartitionResponse, is_old: bool) -> Result<FoundOffset, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    // Version 0 has a list instead, of one offset here.
    let listed = row.old_style_offsets.first().copied();
    Ok(FoundOffset {
        offset: listed.unwrap_or(row.offset),
        log_is_younger: is_old && listed.is_none(),
        timestamp_ms: row.timestamp,
        leader_epoch: row.leader_epoch,
    })
}
