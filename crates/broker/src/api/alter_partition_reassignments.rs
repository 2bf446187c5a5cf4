//! AlterPartitionReassignments, versions 0 and 1 (KIP-455, KIP-860). Replicas stay on the brokers
//! that have them: the broker accepts the present assignment, and refuses what Kafka refuses.
//! ListPartitionReassignments is here too: nothing is ever under way.

use ottla_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use ottla_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for AlterPartitionReassignmentsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterPartitionReassignmentsResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let topics = self.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().map(|row| {
                let index = row.partition_index;
                let altered = alter(cx, &topic.name, index, row.replicas.as_deref());
                let (code, text) = match altered {
                    Ok(()) => (ErrorCode::NONE, None),
                    Err((code, text)) => (code, Some(text.into())),
                };
                ReassignablePartitionResponse {
                    partition_index: index,
                    error_code: code.0,
                    error_message: text,
                    ..Default::default()
                }
            });
            ReassignableTopicResponse {
                name: topic.name.clone(),
                partitions: rows.collect(),
                ..Default::default()
            }
        });
        Outcome::Answer(AlterPartitionReassignmentsResponse {
            allow_replication_factor_change: self.allow_replication_factor_change,
            responses: topics.collect(),
            ..Default::default()
        })
    }
}

fn alter(
    cx: &Cx<'_>,
    topic: &str,
    index: i32,
    wanted: Option<&[i32]>,
) -> Result<(), (ErrorCode, String)> {
    let unknown = |_| {
        let text = format!("there is no partition {index} of topic \"{topic}\"");
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text)
    };
    let found = cx.core.topic(topic).map_err(unknown)?;
    let present = found
        .partition(index)
        .map_err(unknown)?
        .lock()
        .standing()
        .replicas
        .clone();
    let Some(wanted) = wanted else {
        let text = "nothing is under way";
        return Err((ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, text.to_owned()));
    };
    let nodes: Vec<i32> = cx.core.hosts().into_iter().map(|(id, _)| id).collect();
    if let Some(wrong) = super::create_topics::wrong_replicas(wanted, &nodes) {
        return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, wrong));
    }
    if wanted == present.as_slice() {
        return Ok(());
    }
    let text = format!("this broker moves no replicas: {topic}-{index} stays on {present:?}");
    Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text))
}

impl Api for ListPartitionReassignmentsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListPartitionReassignmentsResponse> {
        if let Err(code) = cx.check(Operation::Describe, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        Outcome::Answer(ListPartitionReassignmentsResponse::default())
    }
}
