//! ListOffsets, versions 0 to 11: the first offset, the next one, or the first record at or after a time.
//!
//! Version 0 requests the beginnings of segments that were written to before a time, and gets them
//! as if the log were one.
//!
//! Nothing here is tiered to remote storage (KIP-405): the earliest local offset (version 8) is the earliest, and there is
//! neither a latest tiered one (version 9) nor one waiting to be uploaded (version 11).

use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use ottla_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use ottla_protocol::{ErrorCode, Versions};
use parking_lot::Mutex;

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::storage::batch;
use crate::storage::replica::{Isolation, Replica};

const FIRST_WITH_TIMES: i16 = 1;
const FIRST_WITH_EPOCH: i16 = 4;
const FIRST_WITH_NOT_AVAILABLE: i16 = 5;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

impl Api for ListOffsetsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 11 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListOffsetsResponse> {
        let isolation = Isolation::of(self.isolation_level);
        Outcome::Answer(respond(&self, cx.version, |topic, asked| {
            look_up(cx, isolation, topic, asked)
        }))
    }
}

/// A timestamp, the offset found for it, and the leader epoch of that; all -1 if no offset was
/// found.
type Found = (i64, i64, i32);

const NOTHING: Found = (-1, -1, -1);

fn respond(
    request: &ListOffsetsRequest,
    version: i16,
    look_up: impl Fn(&ListOffsetsTopic, &ListOffsetsPartition) -> Result<Found, ErrorCode>,
) -> ListOffsetsResponse {
    let partition = |topic: &ListOffsetsTopic, asked: &ListOffsetsPartition| {
        let mut answer = ListOffsetsPartitionResponse {
            partition_index: asked.partition_index,
            ..Default::default()
        };
        match look_up(topic, asked) {
            Ok((_, offset, _)) if version < FIRST_WITH_TIMES => {
                let found = (offset >= 0 && asked.max_num_offsets > 0).then_some(offset);
                answer.old_style_offsets = found.into_iter().collect();
            }
            Ok((timestamp, offset, epoch)) => {
                answer.timestamp = timestamp;
                answer.offset = offset;
                answer.leader_epoch = if version >= FIRST_WITH_EPOCH {
                    epoch
                } else {
                    -1
                };
            }
            Err(code) => answer.error_code = code.0,
        }
        answer
    };
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| partition(topic, asked))
            .collect(),
        ..Default::default()
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn look_up(
    cx: &Cx<'_>,
    isolation: Isolation,
    topic: &ListOffsetsTopic,
    asked: &ListOffsetsPartition,
) -> Result<Found, ErrorCode> {
    cx.check(Operation::Describe, Resource::topic(&topic.name))?;
    let found = cx.core.topic(&topic.name)?;
    let replica = found.partition(asked.partition_index)?;
    replica.lock().check(asked.current_leader_epoch)?;
    let lowest = match cx.version {
        ..7 => EARLIEST,
        7 => MAX_TIMESTAMP,
        8 => EARLIEST_LOCAL,
        9..11 => LATEST_TIERED,
        _ => EARLIEST_PENDING_UPLOAD,
    };
    match asked.timestamp {
        timestamp if timestamp < lowest => Err(ErrorCode::UNSUPPORTED_VERSION),
        LATEST => {
            let replica = replica.lock();
            // A new leader does not know yet how far its predecessor had come.
            let end = replica.end(isolation).ok_or(match cx.version {
                ..FIRST_WITH_NOT_AVAILABLE => ErrorCode::LEADER_NOT_AVAILABLE,
                _ => ErrorCode::OFFSET_NOT_AVAILABLE,
            })?;
            Ok((-1, end, replica.standing().epoch))
        }
        EARLIEST | EARLIEST_LOCAL => {
            let replica = replica.lock();
            let start = replica.visible().start;
            Ok((-1, start, replica.epoch_at(start)))
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(NOTHING),
        MAX_TIMESTAMP => {
            let newest = replica.lock().log().newest_timestamp();
            newest.map_or(Ok(NOTHING), |timestamp| {
                at_time(cx, isolation, replica, timestamp)
            })
        }
        timestamp if cx.version < FIRST_WITH_TIMES => {
            let mut replica = replica.lock();
            let newest = replica.log().newest_timestamp();
            let is_before = newest.is_some_and(|newest| newest <= timestamp);
            let start = is_before.then(|| replica.visible().start);
            Ok(start.map_or(NOTHING, |start| (-1, start, -1)))
        }
        timestamp => at_time(cx, isolation, replica, timestamp),
    }
}

fn at_time(
    cx: &Cx<'_>,
    isolation: Isolation,
    replica: &Mutex<Replica>,
    timestamp: i64,
) -> Result<Found, ErrorCode> {
    let failed = |cause: String| {
        cx.core
            .events
            .say(format_args!("no offset could be found for a time: {cause}"));
        ErrorCode::KAFKA_STORAGE_ERROR
    };
    let batch = replica
        .lock()
        .log()
        .batch_at_time(timestamp)
        .map_err(|cause| failed(cause.to_string()))?;
    let Some(batch) = batch else {
        return Ok(NOTHING);
    };
    let bytes = batch.load().map_err(|cause| failed(cause.to_string()))?;
    let found = batch::record_at_time(bytes, timestamp).map_err(failed)?;
    let replica = replica.lock();
    let visible = found.filter(|(_, offset)| *offset < replica.visible().end(isolation));
    Ok(visible.map_or(NOTHING, |(timestamp, offset)| {
        (timestamp, offset, replica.epoch_at(offset))
    }))
}
