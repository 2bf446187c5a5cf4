//! DeleteTopics, versions 0 to 6: by name, or in version 6 by name or id (KIP-516).

use ottla_protocol::messages::delete_topics_request::DeleteTopicState;
use ottla_protocol::messages::delete_topics_response::DeletableTopicResult;
use ottla_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use ottla_protocol::{ErrorCode, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::core::TopicError;
use crate::security::acl::{Operation, Resource};

const FIRST_BY_ID: i16 = 6;

impl Api for DeleteTopicsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DeleteTopicsResponse> {
        Outcome::Answer(respond(&self, cx.version, |asked| delete(cx, asked)))
    }
}

fn respond(
    request: &DeleteTopicsRequest,
    version: i16,
    delete: impl Fn(&mut DeleteTopicState) -> Result<(), TopicError>,
) -> DeleteTopicsResponse {
    let asked: Vec<DeleteTopicState> = if version < FIRST_BY_ID {
        let by_name = |name: &ottla_protocol::Str| DeleteTopicState {
            name: Some(name.clone()),
            ..Default::default()
        };
        request.topic_names.iter().map(by_name).collect()
    } else {
        request.topics.clone()
    };
    let responses = asked.into_iter().map(|mut asked| {
        let error = delete(&mut asked).err();
        DeletableTopicResult {
            name: asked.name,
            topic_id: asked.topic_id,
            error_code: error.as_ref().map_or(0, |error| error.code.0),
            error_message: error.map(|error| error.message.into()),
            ..Default::default()
        }
    });
    DeleteTopicsResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

/// Deletes what is asked for, and fills in whichever of name and id was left out.
fn delete(cx: &Cx<'_>, asked: &mut DeleteTopicState) -> Result<(), TopicError> {
    let refused = |code: ErrorCode| TopicError::new(code, code.name());
    if let Some(name) = &asked.name {
        // Before anything is said about whether there is such a topic.
        cx.check(Operation::Delete, Resource::topic(name))
            .map_err(refused)?;
    }
    let topic = match (&asked.name, asked.topic_id) {
        (Some(name), Uuid::ZERO) => cx.core.decided(name),
        (None, id) if id != Uuid::ZERO => cx.core.decided_by_id(id),
        _ => Err(ErrorCode::INVALID_REQUEST),
    };
    let topic = topic.map_err(refused)?;
    let deletes = cx.check(Operation::Delete, Resource::topic(&topic.name));
    if deletes.is_ok() || cx.may(Operation::Describe, Resource::topic(&topic.name)) {
        asked.name = Some(topic.name.clone());
    }
    deletes.map_err(refused)?;
    cx.core.delete_topic(&topic.name, cx.now)?;
    asked.topic_id = topic.id;
    Ok(())
}
