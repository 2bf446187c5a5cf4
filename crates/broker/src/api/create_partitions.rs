//! CreatePartitions, versions 0 to 3 (KIP-195).

use ottla_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use ottla_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::core::TopicError;

impl Api for CreatePartitionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<CreatePartitionsResponse> {
        let results = self.topics.iter().map(|topic| {
            let node = cx.core.node.id;
            let added = check_assignments(
                topic,
                node,
                cx.core
                    .topic(&topic.name)
                    .map_or(0, |topic| topic.partitions.len()),
            )
            .and_then(|()| {
                cx.core
                    .add_partitions(&topic.name, topic.count, self.validate_only)
            });
            result(topic, added)
        });
        Outcome::Answer(CreatePartitionsResponse {
            results: results.collect(),
            ..Default::default()
        })
    }
}

fn check_assignments(
    asked: &CreatePartitionsTopic,
    node: i32,
    present: usize,
) -> Result<(), TopicError> {
    let Some(assignments) = &asked.assignments else {
        return Ok(());
    };
    let added = usize::try_from(asked.count)
        .unwrap_or(0)
        .saturating_sub(present);
    if added > 0 && assignments.len() != added {
        let message = format!(
            "{added} partitions are added and {} assigned",
            assignments.len()
        );
        return Err(TopicError::new(
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            message,
        ));
    }
    if assignments
        .iter()
        .any(|assigned| *assigned.broker_ids != [node])
    {
        let message = format!(
            "each partition must be assigned to broker {node} alone, the only one there is"
        );
        return Err(TopicError::new(
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            message,
        ));
    }
    Ok(())
}

fn result(
    asked: &CreatePartitionsTopic,
    added: Result<(), TopicError>,
) -> CreatePartitionsTopicResult {
    let error = added.err();
    CreatePartitionsTopicResult {
        name: asked.name.clone(),
        error_code: error.as_ref().map_or(0, |error| error.code.0),
        error_message: error.map(|error| error.message.into()),
        ..Default::default()
    }
}
