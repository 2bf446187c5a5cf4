//! DeleteShareGroupOffsets, version 0 (KIP-932): has a share group without members forget where it is in topics.

use ottla_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use ottla_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic;
use ottla_protocol::messages::{DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse};
use ottla_protocol::{ErrorCode, Str, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for DeleteShareGroupOffsetsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DeleteShareGroupOffsetsResponse> {
        let group = &*self.group_id;
        let allowed = cx.check_group(Operation::Delete, group).and_then(|()| {
            cx.core
                .with_groups(cx.now, |groups| groups.check_unshared(group))
        });
        if let Err(code) = allowed {
            return Outcome::Answer(DeleteShareGroupOffsetsResponse {
                error_code: code.0,
                error_message: Some(Str::from_static(code.name())),
                ..Default::default()
            });
        }
        let delete = |asked: &DeleteShareGroupOffsetsRequestTopic| {
            let deleted = delete(cx, group, &asked.topic_name);
            let (code, message) = match deleted {
                Ok(_) => (ErrorCode::NONE, None),
                Err((code, message)) => (code, Some(Str::from_static(message))),
            };
            DeleteShareGroupOffsetsResponseTopic {
                topic_name: asked.topic_name.clone(),
                topic_id: deleted.unwrap_or(Uuid::ZERO),
                error_code: code.0,
                error_message: message,
                ..Default::default()
            }
        };
        Outcome::Answer(DeleteShareGroupOffsetsResponse {
            responses: self.topics.iter().map(delete).collect(),
            ..Default::default()
        })
    }
}

/// Gives the topic's id.
fn delete(cx: &Cx<'_>, group: &str, name: &str) -> Result<Uuid, (ErrorCode, &'static str)> {
    let topic = cx
        .check(Operation::Read, Resource::topic(name))
        .and_then(|()| cx.core.topic(name));
    let id = topic.map_err(|code| (code, code.name()))?.id;
    let (forgotten, written) = cx.core.keep_shares(cx.now, |shares| {
        let is_read = shares
            .states()
            .of_group(group)
            .iter()
            .any(|(key, _)| key.topic == id);
        shares.forget_group(group, Some(id));
        is_read
    });
    if forgotten {
        written.map_err(|code| (code, code.name()))?;
        Ok(id)
    } else {
        let message = "The group has read nothing of it.";
        Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message))
    }
}
