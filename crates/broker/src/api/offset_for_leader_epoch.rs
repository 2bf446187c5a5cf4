//! OffsetForLeaderEpoch, versions 2 to 4 (KIP-101, KIP-320): with one leader and one epoch, all of the log is in it.

use ottla_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use ottla_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::fetch::check_epoch;
use super::{Api, Cx, Outcome};
use crate::storage::log::LEADER_EPOCH;

impl Api for OffsetForLeaderEpochRequest {
    const HANDLED: Versions = Versions { min: 2, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<OffsetForLeaderEpochResponse> {
        Outcome::Answer(respond(&self, |topic, asked| {
            check_epoch(asked.current_leader_epoch)?;
            let found = cx.core.topic(&topic.topic)?;
            let end = found.partition(asked.partition)?.lock().bounds().end;
            Ok(if asked.leader_epoch == LEADER_EPOCH {
                (LEADER_EPOCH, end)
            } else {
                (-1, -1)
            })
        }))
    }
}

fn respond(
    request: &OffsetForLeaderEpochRequest,
    look_up: impl Fn(&OffsetForLeaderTopic, &OffsetForLeaderPartition) -> Result<(i32, i64), ErrorCode>,
) -> OffsetForLeaderEpochResponse {
    let partition = |topic: &OffsetForLeaderTopic, asked: &OffsetForLeaderPartition| {
        let mut answer = EpochEndOffset {
            partition: asked.partition,
            ..Default::default()
        };
        match look_up(topic, asked) {
            Ok((epoch, end)) => (answer.leader_epoch, answer.end_offset) = (epoch, end),
            Err(code) => answer.error_code = code.0,
        }
        answer
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| partition(topic, asked))
                .collect(),
            ..Default::default()
        });
    OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}
