//! Share groups (KIP-932) as their coordinators describe them, and where they begin to read.

use std::sync::Arc;

use ottla_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use ottla_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use ottla_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use ottla_protocol::messages::share_group_describe_response::{Assignment, DescribedGroup, Member};
use ottla_protocol::messages::{
    AlterShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest, ShareGroupDescribeRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::groups::{retry, target};
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::groups::authorized;
use crate::call::interface::results;
use crate::call::partitions::{self, by_topic};
use crate::call::{
    About, Asked, ByItem, Call, GroupDescription, MemberDescription, Retry, Target, TopicPartition,
    values,
};
use crate::error::Error;

verbs! {
    describe_share_groups: DescribeShareGroups,
    list_share_group_offsets: ListShareGroupOffsets,
    alter_share_group_offsets: AlterShareGroupOffsets,
    delete_share_group_offsets: DeleteShareGroupOffsets,
}

/// Describes share groups. An item is a group.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeShareGroups {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
    /// Whether to return the operations that the client is authorized for.
    pub include_authorized_operations: bool,
}

impl Call for DescribeShareGroups {
    type Found = GroupDescription;
    type Answer = ByItem<GroupDescription>;
    const API: ApiKey = ApiKey::ShareGroupDescribe;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        target(self.groups.get(item))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        Request::ShareGroupDescribe(ShareGroupDescribeRequest {
            group_ids: wanted.map(|group| (&**group).into()).collect(),
            include_authorized_operations: self.include_authorized_operations,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ShareGroupDescribe(answer) = response else {
            return Vec::new();
        };
        results(items, "a group", |asked| {
            let group = self.groups.get(asked.item)?;
            let row = answer.groups.iter().find(|row| *row.group_id == **group)?;
            Some(described(row, asked).map_err(|error| error.with_group(group)))
        })
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.groups, found)
    }
}

fn described(row: &DescribedGroup, asked: &Asked) -> Result<GroupDescription, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, row.error_message.as_deref()));
    }
    let mut members: Vec<_> = row.members.iter().map(member).collect();
    members.sort_by(|one, other| one.member_id.cmp(&other.member_id));
    Ok(GroupDescription {
        group_id: row.group_id.to_string(),
        state: row.group_state.to_string(),
        protocol_type: "share".to_owned(),
        protocol: row.assignor_name.to_string(),
        members,
        epoch: Some(row.group_epoch),
        assignment_epoch: Some(row.assignment_epoch),
        coordinator: asked.node,
        authorized_operations: authorized(row.authorized_operations),
    })
}

fn member(row: &Member) -> MemberDescription {
    let topics = row.subscribed_topic_names.iter();
    let mut topics: Vec<_> = topics.map(|it| it.to_string()).collect();
    topics.sort();
    let rack = row.rack_id.as_ref().filter(|it| !it.is_empty());
    MemberDescription {
        member_id: row.member_id.to_string(),
        group_instance_id: None,
        client_id: row.client_id.to_string(),
        client_host: row.client_host.to_string(),
        assignment: Some(assigned(&row.assignment)),
        metadata: bytes::Bytes::new(),
        assignment_data: bytes::Bytes::new(),
        epoch: Some(row.member_epoch),
        target_assignment: None,
        subscribed_topics: Some(topics),
        subscribed_pattern: None,
        rack: rack.map(|it| it.to_string()),
        is_upgraded: None,
    }
}

fn assigned(given: &Assignment) -> Vec<(Arc<str>, i32)> {
    let topics = given.topic_partitions.iter();
    partitions::pairs(topics.map(|topic| (&*topic.topic_name, topic.partitions.iter().copied())))
}

/// A share group, and the partitions whose offsets are wanted.
#[derive(Clone, Debug, Deserialize)]
pub struct ShareGroupOffsetsQuery {
    /// The group.
    pub group: String,
    /// The partitions; `None` for all that the group reads.
    pub partitions: Option<Vec<TopicPartition>>,
}

/// Where a share group begins to read a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShareGroupOffset {
    /// The first offset that is not done with; `None` if the group has not begun.
    pub start_offset: Option<i64>,
    /// The leader epoch of the partition, if known.
    pub leader_epoch: Option<i32>,
    /// How many records are not done with; brokers before 4.2 do not return it (KIP-1226).
    pub lag: Option<i64>,
}

/// Where share groups begin to read. An item is a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ListShareGroupOffsetsArguments")]
pub struct ListShareGroupOffsets {
    groups: Vec<(Arc<str>, Option<Vec<TopicPartition>>)>,
}

#[derive(Deserialize)]
struct ListShareGroupOffsetsArguments {
    groups: Vec<ShareGroupOffsetsQuery>,
}

impl From<ListShareGroupOffsetsArguments> for ListShareGroupOffsets {
    fn from(arguments: ListShareGroupOffsetsArguments) -> ListShareGroupOffsets {
        let groups = arguments.groups.into_iter();
        ListShareGroupOffsets {
            groups: groups
                .map(|row| (row.group.into(), row.partitions))
                .collect(),
        }
    }
}

impl Call for ListShareGroupOffsets {
    type Found = ByItem<ShareGroupOffset>;
    type Answer = ByItem<ByItem<ShareGroupOffset>>;
    const API: ApiKey = ApiKey::DescribeShareGroupOffsets;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        target(self.groups.get(item).map(|(group, _)| group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        let groups = wanted.map(|(group, partitions)| {
            let topics = partitions.as_ref().map(|partitions| {
                let rows = partitions.iter().map(|it| (&it.topic, it.partition));
                let topics = by_topic(rows).into_iter();
                let topics =
                    topics.map(
                        |(topic, partitions)| DescribeShareGroupOffsetsRequestTopic {
                            topic_name: (&**topic).into(),
                            partitions: partitions.into_iter().collect(),
                            ..Default::default()
                        },
                    );
                topics.collect()
            });
            DescribeShareGroupOffsetsRequestGroup {
                group_id: (&**group).into(),
                topics,
                ..Default::default()
            }
        });
        Request::DescribeShareGroupOffsets(DescribeShareGroupOffsetsRequest {
            groups: groups.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeShareGroupOffsets(answer) = response else {
            return Vec::new();
        };
        results(items, "a group", |asked| {
            let (group, _) = self.groups.get(asked.item)?;
            let found = answer.groups.iter().find(|row| *row.group_id == **group)?;
            let refused = |code: i16, text: Option<&str>| match ErrorCode(code) {
                code if code.is_error() => Err(Error::from_code(code, text).with_group(group)),
                _ => Ok(()),
            };
            if let Err(error) = refused(found.error_code, found.error_message.as_deref()) {
                return Some(Err(error));
            }
            let mut rows = Vec::new();
            for topic in &found.topics {
                let name: Arc<str> = (&*topic.topic_name).into();
                for row in &topic.partitions {
                    let text = row.error_message.as_deref();
                    if let Err(error) = refused(row.error_code, text) {
                        return Some(Err(error.with_partition(&name, row.partition_index)));
                    }
                    let offset = ShareGroupOffset {
                        start_offset: Some(row.start_offset).filter(|it| *it >= 0),
                        leader_epoch: Some(row.leader_epoch).filter(|it| *it >= 0),
                        lag: Some(row.lag).filter(|it| *it >= 0),
                    };
                    rows.push(((Arc::clone(&name), row.partition_index), offset));
                }
            }
            rows.sort_by(|(one, _), (other, _)| one.cmp(other));
            Some(Ok(ByItem::of(rows)))
        })
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        let groups = self.groups.into_iter().map(|(group, _)| group);
        ByItem::new(groups.collect(), found)
    }
}

/// Where a share group is to begin.
#[derive(Clone, Debug, Deserialize)]
pub struct NewShareGroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the first record to read.
    pub offset: i64,
}

/// Sets where a share group without members begins to read. An item is a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "AlterShareGroupOffsetsArguments")]
pub struct AlterShareGroupOffsets {
    group: Arc<str>,
    offsets: Vec<(Arc<str>, i32, i64)>,
}

#[derive(Deserialize)]
struct AlterShareGroupOffsetsArguments {
    group: String,
    offsets: Vec<NewShareGroupOffset>,
}

impl From<AlterShareGroupOffsetsArguments> for AlterShareGroupOffsets {
    fn from(arguments: AlterShareGroupOffsetsArguments) -> AlterShareGroupOffsets {
        let offsets = arguments.offsets.into_iter();
        AlterShareGroupOffsets {
            group: arguments.group.into(),
            offsets: offsets
                .map(|row| (row.topic.into(), row.partition, row.offset))
                .collect(),
        }
    }
}

impl Call for AlterShareGroupOffsets {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::AlterShareGroupOffsets;

    fn items(&self) -> usize {
        self.offsets.len()
    }

    fn target(&self, _: usize) -> Target {
        target(Some(&self.group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.offsets.get(*item));
        let rows = wanted.map(|(topic, partition, offset)| {
            let row = AlterShareGroupOffsetsRequestPartition {
                partition_index: *partition,
                start_offset: *offset,
                ..Default::default()
            };
            (topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| AlterShareGroupOffsetsRequestTopic {
            topic_name: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::AlterShareGroupOffsets(AlterShareGroupOffsetsRequest {
            group_id: (&*self.group).into(),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AlterShareGroupOffsets(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let error = Error::from_code(code, answer.error_message.as_deref());
            let error = error.with_group(&self.group);
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        let wanted = items
            .iter()
            .filter_map(|asked| self.offsets.get(asked.item));
        let rows = answer.responses.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.topic_name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        partitions::results(wanted, rows, |row| match ErrorCode(row.error_code) {
            code if code.is_error() => Err(Error::from_code(code, row.error_message.as_deref())),
            _ => Ok(()),
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let offsets = self.offsets.into_iter();
        let partitions = offsets.map(|(topic, partition, _)| (topic, partition));
        ByItem::new(partitions.collect(), found)
    }
}

/// Makes a share group without members forget topics. An item is a topic.
#[derive(Clone, Debug, Deserialize)]
pub struct DeleteShareGroupOffsets {
    /// The group.
    pub group: String,
    /// The topics.
    pub topics: Vec<String>,
}

impl Call for DeleteShareGroupOffsets {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::DeleteShareGroupOffsets;

    fn items(&self) -> usize {
        self.topics.len()
    }

    fn target(&self, _: usize) -> Target {
        target(Some(&self.group.as_str().into()))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.topics.get(*item));
        let topics = wanted.map(|topic| DeleteShareGroupOffsetsRequestTopic {
            topic_name: topic.as_str().into(),
            ..Default::default()
        });
        Request::DeleteShareGroupOffsets(DeleteShareGroupOffsetsRequest {
            group_id: self.group.as_str().into(),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::DeleteShareGroupOffsets(answer) = response else {
            return Vec::new();
        };
        let group: Arc<str> = self.group.as_str().into();
        let refused = |code: i16, text: Option<&str>| match ErrorCode(code) {
            code if code.is_error() => Err(Error::from_code(code, text).with_group(&group)),
            _ => Ok(()),
        };
        if let Err(error) = refused(answer.error_code, answer.error_message.as_deref()) {
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        results(items, "a topic", |asked| {
            let topic = self.topics.get(asked.item)?;
            let mut rows = answer.responses.iter();
            let row = rows.find(|row| *row.topic_name == **topic)?;
            Some(refused(row.error_code, row.error_message.as_deref()))
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.topics, found)
    }
}
