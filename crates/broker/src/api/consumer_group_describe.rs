//! ConsumerGroupDescribe, versions 0 and 1 (KIP-848): the members of consumer groups, with what they have and shall have.

use ottla_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use ottla_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome, operations};
use crate::group::{Catalogue, ConsumerDescription, ConsumerMember, Owned};
use crate::security::acl::{Operation, Resource};

const FIRST_WITH_MEMBER_TYPES: i16 = 1;
/// A member that speaks the classic protocol, and one that speaks the consumer protocol.
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;

impl Api for ConsumerGroupDescribeRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ConsumerGroupDescribeResponse> {
        if cx.core.release().group_version().is_none() {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        }
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
        Outcome::Answer(ConsumerGroupDescribeResponse {
            groups: self.group_ids.iter().map(describe).collect(),
            ..Default::default()
        })
    }
}

fn describe(cx: &Cx<'_>, group: &Str) -> Result<DescribedGroup, (ErrorCode, String)> {
    let allowed = cx.check_group(Operation::Describe, group);
    allowed.map_err(|code| (code, code.name().to_owned()))?;
    if group.is_empty() {
        let code = ErrorCode::INVALID_GROUP_ID;
        return Err((code, "a group's name cannot be empty".to_owned()));
    }
    let (found, catalogue) = cx.core.with_groups(cx.now, |groups| {
        (groups.describe_consumer(group), groups.catalogue().clone())
    });
    let Some(found) = found else {
        let message = format!("there is no consumer group \"{group}\"");
        return Err((ErrorCode::GROUP_ID_NOT_FOUND, message));
    };
    let described = respond(cx.version, group, found, &catalogue);
    let members = described.members.iter();
    let topics = members.flat_map(|member| {
        let assigned = member.assignment.topic_partitions.iter();
        let assigned = assigned.chain(&member.target_assignment.topic_partitions);
        let assigned = assigned.map(|topic| &topic.topic_name);
        member.subscribed_topic_names.iter().chain(assigned)
    });
    let mut topics = topics;
    if topics.all(|topic| cx.may(Operation::Describe, Resource::topic(topic))) {
        return Ok(described);
    }
    let message = "members have topics that this client may not describe";
    Err((ErrorCode::TOPIC_AUTHORIZATION_FAILED, message.to_owned()))
}

fn respond(
    version: i16,
    group: &Str,
    found: ConsumerDescription,
    catalogue: &Catalogue,
) -> DescribedGroup {
    let member = |member: ConsumerMember| Member {
        member_id: member.id.into(),
        instance_id: member.instance.map(Str::from),
        rack_id: member.rack.map(Str::from),
        member_epoch: member.epoch,
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        subscribed_topic_names: member.names.into_iter().map(Str::from).collect(),
        subscribed_topic_regex: member.pattern.map(Str::from),
        assignment: assignment(member.assigned, catalogue),
        target_assignment: assignment(member.target, catalogue),
        member_type: match version {
            FIRST_WITH_MEMBER_TYPES.. if member.is_classic => CLASSIC,
            FIRST_WITH_MEMBER_TYPES.. => CONSUMER,
            _ => -1,
        },
        ..Default::default()
    };
    DescribedGroup {
        group_id: group.clone(),
        group_state: Str::from_static(found.state),
        group_epoch: found.epoch,
        assignment_epoch: found.assignment_epoch,
        assignor_name: Str::from_static(found.assignor),
        members: found.members.into_iter().map(member).collect(),
        ..Default::default()
    }
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
