//! OffsetForLeaderEpoch, versions 0 to 4 (KIP-101, KIP-320): where what a leader wrote ends.

use ottla_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use ottla_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for OffsetForLeaderEpochRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<OffsetForLeaderEpochResponse> {
        Outcome::Answer(respond(&self, |topic, asked| {
            cx.check(Operation::Describe, Resource::topic(&topic.topic))?;
            let found = cx.core.topic(&topic.topic)?;
            let replica = found.partition(asked.partition)?.lock();
            replica.check(asked.current_leader_epoch)?;
            Ok(replica.end_of_epoch(asked.leader_epoch).unwrap_or((-1, -1)))
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
