//! AlterShareGroupOffsets, version 0 (KIP-932): has a share group without members begin at other offsets.

use ottla_protocol::messages::alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic;
use ottla_protocol::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
};
use ottla_protocol::messages::{AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse};
use ottla_protocol::{ErrorCode, Str, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::sharing::Key;

impl Api for AlterShareGroupOffsetsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterShareGroupOffsetsResponse> {
        let group = &*self.group_id;
        let allowed = cx.check_group(Operation::Read, group).and_then(|()| {
            cx.core
                .with_groups(cx.now, |groups| groups.make_share(group))
        });
        if let Err(code) = allowed {
            return Outcome::Answer(AlterShareGroupOffsetsResponse {
                error_code: code.0,
                error_message: Some(Str::from_static(code.name())),
                ..Default::default()
            });
        }
        Outcome::Answer(AlterShareGroupOffsetsResponse {
            responses: self.topics.iter().map(|it| alter(cx, group, it)).collect(),
            ..Default::default()
        })
    }
}

fn alter(
    cx: &Cx<'_>,
    group: &str,
    asked: &AlterShareGroupOffsetsRequestTopic,
) -> AlterShareGroupOffsetsResponseTopic {
    let topic = cx
        .check(Operation::Read, Resource::topic(&asked.topic_name))
        .and_then(|()| cx.core.topic(&asked.topic_name));
    let partitions = asked.partitions.iter().map(|it| {
        let index = it.partition_index;
        let altered = match &topic {
            Ok(topic) => topic.partition(index).and_then(|_| {
                let key = Key {
                    group: group.to_owned(),
                    topic: topic.id,
                    partition: index,
                };
                let set = cx
                    .core
                    .keep_shares(cx.now, |shares| shares.set_start(key, it.start_offset));
                set.1
            }),
            Err(code) => Err(*code),
        };
        let code = altered.err();
        AlterShareGroupOffsetsResponsePartition {
            partition_index: index,
            error_code: code.unwrap_or(ErrorCode::NONE).0,
            error_message: code.map(|code| Str::from_static(code.name())),
            ..Default::default()
        }
    });
    AlterShareGroupOffsetsResponseTopic {
        topic_name: asked.topic_name.clone(),
        topic_id: topic.as_ref().map_or(Uuid::ZERO, |topic| topic.id),
        partitions: partitions.collect(),
        ..Default::default()
    }
}
