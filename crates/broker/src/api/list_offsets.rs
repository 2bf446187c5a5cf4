//! ListOffsets, versions 1 to 11: the first offset, the next one, or the first record at or after a time.
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

use super::fetch::check_epoch;
use super::{Api, Cx, Outcome};
use crate::storage::batch;
use crate::storage::log::{LEADER_EPOCH, Log};

const FIRST_WITH_EPOCH: i16 = 4;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

impl Api for ListOffsetsRequest {
    const HANDLED: Versions = Versions { min: 1, max: 11 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListOffsetsResponse> {
        Outcome::Answer(respond(&self, cx.version, |topic, asked| {
            look_up(cx, topic, asked)
        }))
    }
}

/// A timestamp and the offset found for it; -1 and -1 where there is none.
type Found = (i64, i64);

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
            Ok((timestamp, offset)) => {
                answer.timestamp = timestamp;
                answer.offset = offset;
                answer.leader_epoch = if version >= FIRST_WITH_EPOCH && offset >= 0 {
                    LEADER_EPOCH
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
    topic: &ListOffsetsTopic,
    asked: &ListOffsetsPartition,
) -> Result<Found, ErrorCode> {
    check_epoch(asked.current_leader_epoch)?;
    let found = cx.core.topic(&topic.name)?;
    let log = found.partition(asked.partition_index)?;
    let lowest = match cx.version {
        ..7 => EARLIEST,
        7 => MAX_TIMESTAMP,
        8 => EARLIEST_LOCAL,
        9..11 => LATEST_TIERED,
        _ => EARLIEST_PENDING_UPLOAD,
    };
    match asked.timestamp {
        timestamp if timestamp < lowest => Err(ErrorCode::UNSUPPORTED_VERSION),
        LATEST => Ok((-1, log.lock().bounds().end)),
        EARLIEST | EARLIEST_LOCAL => Ok((-1, log.lock().bounds().start)),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok((-1, -1)),
        MAX_TIMESTAMP => {
            let newest = log.lock().newest_timestamp();
            newest.map_or(Ok((-1, -1)), |timestamp| at_time(cx, log, timestamp))
        }
        timestamp => at_time(cx, log, timestamp),
    }
}

fn at_time(cx: &Cx<'_>, log: &Mutex<Log>, timestamp: i64) -> Result<Found, ErrorCode> {
    let failed = |cause: String| {
        cx.core
            .events
            .say(format_args!("no offset could be found for a time: {cause}"));
        ErrorCode::KAFKA_STORAGE_ERROR
    };
    let batch = log
        .lock()
        .batch_at_time(timestamp)
        .map_err(|cause| failed(cause.to_string()))?;
    let Some(batch) = batch else {
        return Ok((-1, -1));
    };
    let bytes = batch.load().map_err(|cause| failed(cause.to_string()))?;
    Ok(batch::record_at_time(bytes, timestamp)
        .map_err(failed)?
        .unwrap_or((-1, -1)))
}
