//! CreatePartitions, versions 0 to 3 (KIP-195).

use ottla_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use ottla_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use ottla_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::create_topics::wrong_replicas;
use super::{Api, Cx, Outcome};
use crate::cluster::image::Layout;
use crate::core::TopicError;
use crate::security::acl::{Operation, Resource};

impl Api for CreatePartitionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<CreatePartitionsResponse> {
        let nodes: Vec<i32> = cx.core.hosts().into_iter().map(|(id, _)| id).collect();
        let results = self.topics.iter().map(|topic| {
            let allowed = cx.check(Operation::Alter, Resource::topic(&topic.name));
            let allowed = allowed.map_err(|code| TopicError::new(code, "Authorization failed."));
            let added = allowed
                .and_then(|()| {
                    check_assignments(
                        topic,
                        &nodes,
                        cx.core
                            .decided(&topic.name)
                            .map_or(0, |topic| topic.partitions),
                    )
                })
                .and_then(|()| {
                    let assignments = topic.assignments.as_ref().map(|assignments| {
                        let replicas = assignments.iter().map(|it| it.broker_ids.to_vec());
                        replicas.collect()
                    });
                    let layout = Layout {
                        assignments,
                        ..Layout::of(topic.count)
                    };
                    cx.core
                        .add_partitions(&topic.name, &layout, self.validate_only)
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
    nodes: &[i32],
    present: i32,
) -> Result<(), TopicError> {
    let Some(assignments) = &asked.assignments else {
        return Ok(());
    };
    let added = usize::try_from(asked.count.saturating_sub(present)).unwrap_or(0);
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
    let mut replicas = assignments.iter().map(|assigned| &*assigned.broker_ids);
    if let Some(wrong) = replicas.find_map(|replicas| wrong_replicas(replicas, nodes)) {
        return Err(TopicError::new(
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            wrong,
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
