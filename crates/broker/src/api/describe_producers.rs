//! DescribeProducers, version 0 (KIP-664): the idempotent producers that have written to partitions that this node has.

use ottla_protocol::messages::describe_producers_request::TopicRequest;
use ottla_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use ottla_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::storage::producers::Active;

impl Api for DescribeProducersRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeProducersResponse> {
        let partition = |topic: &TopicRequest, index: i32| match find(cx, &topic.name, index) {
            Ok(active) => PartitionResponse {
                partition_index: index,
                active_producers: active.iter().map(state).collect(),
                ..Default::default()
            },
            Err(code) => PartitionResponse {
                partition_index: index,
                error_code: code.0,
                error_message: Some(Str::from_static(code.name())),
                ..Default::default()
            },
        };
        let topics = self.topics.iter().map(|topic| {
            let indexes = topic.partition_indexes.iter();
            TopicResponse {
                name: topic.name.clone(),
                partitions: indexes.map(|index| partition(topic, *index)).collect(),
                ..Default::default()
            }
        });
        Outcome::Answer(DescribeProducersResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

fn find(cx: &Cx<'_>, topic: &str, index: i32) -> Result<Vec<Active>, ErrorCode> {
    cx.check(Operation::Read, Resource::topic(topic))?;
    let topic = cx.core.topic(topic)?;
    let mut replica = topic.partition(index)?.lock();
    // Followers know them too, and tools look there for what differs.
    if !replica.standing().replicas.contains(&cx.core.node) {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    Ok(replica.log().active_producers())
}

fn state(active: &Active) -> ProducerState {
    ProducerState {
        producer_id: active.producer_id,
        producer_epoch: i32::from(active.epoch),
        last_sequence: active.last_sequence.unwrap_or(-1),
        last_timestamp: active.last_timestamp,
        coordinator_epoch: active.coordinator_epoch,
        current_txn_start_offset: active.transaction.unwrap_or(-1),
        ..Default::default()
    }
}
