//! ConsumerGroupDescribe (KIP-848): groups whose coordinator assigns. The request goes to each
//! group's coordinator.

use std::sync::Arc;

use ottla_protocol::messages::ConsumerGroupDescribeRequest;
use ottla_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member,
};
use ottla_protocol::{ApiKey, ErrorCode};

use super::groups::{GroupDescription, MemberDescription, authorized};
use super::interface::results;
use super::membership::CONSUMER;
use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::error::Error;

/// Describes groups of the consumer protocol. An item is a group; one of another protocol is one that does not exist.
#[derive(Clone, Debug)]
pub struct DescribeConsumerGroups {
    /// The groups' ids.
    pub groups: Vec<Arc<str>>,
    /// Whether to return the operations that the client is authorized for.
    pub operations: bool,
}

impl Call for DescribeConsumerGroups {
    type Found = GroupDescription;
    /// In the order of the request.
    type Answer = Vec<Result<GroupDescription, Error>>;
    const API: ApiKey = ApiKey::ConsumerGroupDescribe;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        match self.groups.get(item) {
            Some(group) => Target::Coordinator(CoordinatorType::Group, Arc::clone(group)),
            None => Target::Any,
        }
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        Request::ConsumerGroupDescribe(ConsumerGroupDescribeRequest {
            group_ids: wanted.map(|group| (&**group).into()).collect(),
            include_authorized_operations: self.operations,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ConsumerGroupDescribe(answer) = response else {
            return Vec::new();
        };
        results(items, "a group", |asked| {
            let group = self.groups.get(asked.item)?;
            let mut rows = answer.groups.iter();
            let row = rows.find(|row| *row.group_id == **group)?;
            Some(described(row, asked).map_err(|error| error.with_group(group)))
        })
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

fn described(row: &DescribedGroup, asked: &Asked) -> Result<GroupDescription, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, row.error_message.as_deref()));
    }
    let mut members: Vec<_> = row.members.iter().map(described_member).collect();
    members.sort_by(|one, other| one.member_id.cmp(&other.member_id));
    Ok(GroupDescription {
        group_id: row.group_id.to_string(),
        state: row.group_state.to_string(),
        protocol_type: CONSUMER.to_owned(),
        protocol: row.assignor_name.to_string(),
        members,
        epoch: Some(row.group_epoch),
        assignment_epoch: Some(row.assignment_epoch),
        coordinator: asked.node,
        authorized_operations: authorized(row.authorized_operations),
    })
}

fn described_member(row: &Member) -> MemberDescription {
    let mut topics: Vec<_> = row
        .subscribed_topic_names
        .iter()
        .map(|it| it.to_string())
        .collect();
    topics.sort();
    MemberDescription {
        member_id: row.member_id.to_string(),
        group_instance_id: row.instance_id.as_ref().map(|id| id.to_string()),
        client_id: row.client_id.to_string(),
        client_host: row.client_host.to_string(),
        assignment: Some(assigned(&row.assignment)),
        metadata: bytes::Bytes::new(),
        assignment_data: bytes::Bytes::new(),
        epoch: Some(row.member_epoch),
        target_assignment: Some(assigned(&row.target_assignment)),
        subscribed_topics: Some(topics),
        subscribed_pattern: row
            .subscribed_topic_regex
            .as_ref()
            .filter(|it| !it.is_empty())
            .map(|it| it.to_string()),
        rack: row
            .rack_id
            .as_ref()
            .filter(|it| !it.is_empty())
            .map(|it| it.to_string()),
        is_upgraded: Some(row.member_type == 1).filter(|_| row.member_type >= 0),
    }
}

fn assigned(given: &Assignment) -> Vec<(Arc<str>, i32)> {
    let topics = given.topic_partitions.iter();
    partitions::pairs(topics.map(|topic| (&*topic.topic_name, topic.partitions.iter().copied())))
}
