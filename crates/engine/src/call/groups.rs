//! Groups: ListGroups, to which every broker responds with the groups that it coordinates; and
//! DescribeGroups for groups of the classic protocol, which goes to the coordinator of each group.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, DescribeGroupsRequest,
    ListGroupsRequest,
};
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader};
use serde::{Deserialize, Serialize};

use super::interface::{listed, results};
use super::membership::CONSUMER;
use super::values::{Rows, bytes, known_partitions, operations};
use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::error::Error;

/// The version of DescribeGroups from which on a group that does not exist is an error; before, it is dead (KIP-1043).
const FIRST_WITH_NOT_FOUND: i16 = 6;

/// A group as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupListing {
    /// Its id.
    pub group_id: String,
    /// What its members do, such as `consumer` or `connect`; empty if it only has committed offsets.
    pub protocol_type: String,
    /// Its state, such as `Stable`; brokers before 2.6 do not return it.
    pub state: Option<String>,
    /// Its type, such as `classic`; brokers before 3.8 do not return it.
    #[serde(rename = "type")]
    pub group_type: Option<String>,
}

/// The first versions of ListGroups that filter by states (KIP-518) and by types (KIP-848).
const FILTERS: (i16, i16) = (4, 5);

/// Lists groups that the client may see. An empty filter lets all pass.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ListGroups {
    /// Only those in these states, such as `Stable` (since Kafka 2.6).
    pub states: Vec<String>,
    /// Only those of these types, such as `share` (since Kafka 3.8).
    pub types: Vec<String>,
    /// Only those of these protocol types, such as `consumer`.
    pub protocol_types: Vec<String>,
}

impl Call for ListGroups {
    type Found = Vec<GroupListing>;
    /// Sorted by id.
    type Answer = Rows<GroupListing>;
    const API: ApiKey = ApiKey::ListGroups;

    fn versions(&self) -> (i16, i16) {
        let least = match (self.states.is_empty(), self.types.is_empty()) {
            (_, false) => FILTERS.1,
            (false, true) => FILTERS.0,
            (true, true) => 0,
        };
        (least, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::EveryNode
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let texts = |all: &[String]| all.iter().map(|text| text.as_str().into()).collect();
        Request::ListGroups(ListGroupsRequest {
            states_filter: texts(&self.states),
            types_filter: texts(&self.types),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ListGroups(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return vec![Err(Error::from_code(code, None))];
        }
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let rows = answer.groups.iter().map(|row| GroupListing {
            group_id: row.group_id.to_string(),
            protocol_type: row.protocol_type.to_string(),
            state: known(&row.group_state),
            group_type: known(&row.group_type),
        });
        let wanted = |row: &GroupListing| {
            self.protocol_types.is_empty() || self.protocol_types.contains(&row.protocol_type)
        };
        vec![Ok(rows.filter(wanted).collect())]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        listed(found, |row| &row.group_id).map(Rows)
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberDescription {
    /// The id that the coordinator gave it.
    pub member_id: String,
    /// Its `group.instance.id` if it is a static member (KIP-345).
    pub group_instance_id: Option<String>,
    /// Its `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// The partitions that it was assigned, sorted, in a group of consumers; `None` if the group has another protocol, or the
    /// assignment does not decode.
    #[serde(serialize_with = "known_partitions")]
    pub assignment: Option<Vec<(Arc<str>, i32)>>,
    /// What it sent to the group, in the format of the group's protocol.
    #[serde(serialize_with = "bytes")]
    pub metadata: Bytes,
    /// What it was assigned, in the form of the group's protocol.
    #[serde(serialize_with = "bytes")]
    pub assignment_data: Bytes,
    /// Its epoch, in a group of the consumer protocol (KIP-848).
    pub epoch: Option<i32>,
    /// The partitions that it is to have, sorted, in a group of the consumer protocol.
    #[serde(serialize_with = "known_partitions")]
    pub target_assignment: Option<Vec<(Arc<str>, i32)>>,
    /// The topics that it subscribes to, sorted, in a group of consumers; `None` if its metadata
    /// does not decode.
    pub subscribed_topics: Option<Vec<String>>,
    /// The expression that it subscribes by, which the coordinator matches.
    pub subscribed_pattern: Option<String>,
    /// Its `client.rack`.
    pub rack: Option<String>,
    /// Whether it uses the consumer protocol itself, in a group of that protocol; brokers before
    /// 4.0 do not return it (KIP-1099).
    pub is_upgraded: Option<bool>,
}

/// A group as its coordinator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// Its state: `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`; with the consumer protocol `Empty`,
    /// `Assigning`, `Reconciling`, `Stable` or `Dead`.
    pub state: String,
    /// What its members do, such as `consumer`; empty if it only has committed offsets.
    pub protocol_type: String,
    /// The protocol that its members agreed on: the assignor, for consumers. Empty until they
    /// agree.
    pub protocol: String,
    /// Its members, by their ids.
    pub members: Vec<MemberDescription>,
    /// Grows with each change of the members or of their topics, in a group of the consumer protocol (KIP-848).
    pub epoch: Option<i32>,
    /// The group's epoch that the target assignment is for, in a group of the consumer protocol.
    pub assignment_epoch: Option<i32>,
    /// The id of the broker that coordinates it.
    pub coordinator: Option<i32>,
    /// The operations that the client is authorized for: bit n is the operation with Kafka's code n. `None` if the call did not
    /// request them, or the broker is too old to return them.
    #[serde(serialize_with = "operations")]
    pub authorized_operations: Option<i32>,
}

/// The first version of DescribeGroups that returns authorized operations (KIP-430).
const FIRST_WITH_OPERATIONS: i16 = 3;

/// The bits of authorized operations, in a response that has them.
pub(crate) fn authorized(bits: i32) -> Option<i32> {
    Some(bits).filter(|bits| *bits != i32::MIN)
}

/// Describes groups. An item is a group.
#[derive(Clone, Debug)]
pub struct DescribeGroups {
    /// The groups' ids.
    pub groups: Vec<Arc<str>>,
    /// Whether to return the operations that the client is authorized for.
    pub operations: bool,
}

impl Call for DescribeGroups {
    type Found = GroupDescription;
    /// In the order of the request.
    type Answer = Vec<Result<GroupDescription, Error>>;
    const API: ApiKey = ApiKey::DescribeGroups;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        match self.groups.get(item) {
            Some(group) => Target::Coordinator(CoordinatorType::Group, Arc::clone(group)),
            None => Target::Any,
        }
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        Request::DescribeGroups(DescribeGroupsRequest {
            groups: wanted.map(|group| (&**group).into()).collect(),
            include_authorized_operations: self.operations
                && about.version >= FIRST_WITH_OPERATIONS,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeGroups(answer) = response else {
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
    if asked.version < FIRST_WITH_NOT_FOUND && *row.group_state == *"Dead" {
        let text = "there is no such group";
        return Err(Error::from_code(ErrorCode::GROUP_ID_NOT_FOUND, Some(text)));
    }
    let consumes = *row.protocol_type == *CONSUMER;
    let mut members: Vec<_> = row
        .members
        .iter()
        .map(|member| described_member(member, consumes))
        .collect();
    members.sort_by(|one, other| one.member_id.cmp(&other.member_id));
    Ok(GroupDescription {
        group_id: row.group_id.to_string(),
        state: row.group_state.to_string(),
        protocol_type: row.protocol_type.to_string(),
        protocol: row.protocol_data.to_string(),
        members,
        epoch: None,
        assignment_epoch: None,
        coordinator: asked.node,
        authorized_operations: authorized(row.authorized_operations),
    })
}

fn described_member(row: &DescribedGroupMember, consumes: bool) -> MemberDescription {
    let assigned = || assignment(row.member_assignment.clone());
    let told = || versioned::<ConsumerProtocolSubscription>(row.member_metadata.clone());
    let told = consumes.then(told).flatten();
    MemberDescription {
        member_id: row.member_id.to_string(),
        group_instance_id: row.group_instance_id.as_ref().map(|id| id.to_string()),
        client_id: row.client_id.to_string(),
        client_host: row.client_host.to_string(),
        assignment: consumes.then(assigned).flatten(),
        metadata: row.member_metadata.clone(),
        assignment_data: row.member_assignment.clone(),
        epoch: None,
        target_assignment: None,
        rack: told
            .as_ref()
            .and_then(|it| it.rack_id.as_ref())
            .map(|rack| rack.to_string()),
        subscribed_topics: told.map(|it| {
            let topics = it.topics.iter();
            let topics: BTreeSet<_> = topics.map(|topic| topic.to_string()).collect();
            topics.into_iter().collect()
        }),
        subscribed_pattern: None,
        is_upgraded: None,
    }
}

/// The message after its version. Any client of the group may have written it, also in a version
/// that is unknown here, which is read as the highest known one.
fn versioned<M: Message>(data: Bytes) -> Option<M> {
    let mut input = Reader::new(data);
    let version = input.i16().ok()?;
    M::decode(version.min(M::VERSIONS.max), &mut input).ok()
}

/// The partitions of an assignment of the consumer protocol. A member that was assigned nothing yet has no bytes.
fn assignment(data: Bytes) -> Option<Vec<(Arc<str>, i32)>> {
    if data.is_empty() {
        return Some(Vec::new());
    }
    let decoded: ConsumerProtocolAssignment = versioned(data)?;
    let topics = decoded.assigned_partitions.iter();
    Some(partitions::pairs(topics.map(|topic| {
        (&*topic.topic, topic.partitions.iter().copied())
    })))
}
