//! ShareGroupDescribe, version 1 (KIP-932): the members of share groups, with what they have.

use ottla_protocol::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use ottla_protocol::messages::{ShareGroupDescribeRequest, ShareGroupDescribeResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome, operations};
use crate::group::{Catalogue, Owned, ShareMember};
use crate::security::acl::{Operation, Resource};

/// The only assignor of share groups.
const ASSIGNOR: &str = "simple";

impl Api for ShareGroupDescribeRequest {
    const HANDLED: Versions = Versions { min: 1, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ShareGroupDescribeResponse> {
        let describe = |group: &Str| {
            let mut answer = match describe(cx, group) {
                Ok(described) => described,
                Err((code, message)) => DescribedGroup {
                    error_code: code.0,
                    error_message: Some(message.into()),
                    group_id: group.clone(),
                    ..Default::default()
                },
            };
            if self.include_authorized_operations && answer.error_code == ErrorCode::NONE.0 {
                answer.authorized_operations =
                    cx.operations(Resource::group(group), operations::GROUP);
            }
            answer
        };
        Outcome::Answer(ShareGroupDescribeResponse {
            groups: self.group_ids.iter().map(describe).collect(),
            ..Default::default()
        })
    }
}

fn describe(cx: &Cx<'_>, group: &Str) -> Result<DescribedGroup, (ErrorCode, String)> {
    let allowed = cx.check_group(Operation::Describe, group);
    allowed.map_err(|code| (code, code.name().to_owned()))?;
    let (found, catalogue) = cx.core.with_groups(cx.now, |groups| {
        (groups.describe_share(group), groups.catalogue().clone())
    });
    let Some(found) = found else {
        let message = format!("there is no share group \"{group}\"");
        return Err((ErrorCode::GROUP_ID_NOT_FOUND, message));
    };
    let mut topics = found.members.iter().flat_map(|member| &member.names);
    if !topics.all(|topic| cx.may(Operation::Describe, Resource::topic(topic))) {
        let message = "members have topics that this client may not describe";
        return Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, message.to_owned()));
    }
    let member = |member: ShareMember| Member {
        member_id: member.id.into(),
        rack_id: member.rack.map(Str::from),
        member_epoch: member.epoch,
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        subscribed_topic_names: member.names.into_iter().map(Str::from).collect(),
        assignment: assignment(member.assigned, &catalogue),
        ..Default::default()
    };
    Ok(DescribedGroup {
        group_id: group.clone(),
        group_state: Str::from_static(found.state),
        group_epoch: found.epoch,
        assignment_epoch: found.assignment_epoch,
        assignor_name: Str::from_static(ASSIGNOR),
        members: found.members.into_iter().map(member).collect(),
        ..Default::default()
    })
}

/// Of topics that there are no more nothing is said, as in Kafka.
fn assignment(owned: Owned, catalogue: &Catalogue) -> Assignment {
    let topics = owned.into_iter().filter_map(|(topic_id, partitions)| {
        Some(TopicPartitions {
            topic_id,
            topic_name: catalogue.name(topic_id)?.clone(),
            partitions: partitions.into(),
            ..Default::default()
        })
    });
    Assignment {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}
