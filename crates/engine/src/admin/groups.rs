//! Groups of both protocols.

use std::sync::Arc;

use ottla_protocol::messages::leave_group_request::MemberIdentity;
use ottla_protocol::messages::{DeleteGroupsRequest, LeaveGroupRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::Deserialize;

use super::verb::{Ask, Verb, verbs};
use crate::api::{Request, Response};
use crate::call::interface::{left_out, results};
use crate::call::{
    self, About, Asked, ByItem, Call, DescribeConsumerGroups, GroupDescription, ListGroups, Retry,
    Target, values,
};
use crate::cluster::CoordinatorType;
use crate::error::{Error, Kind};

verbs! {
    list_groups: ListGroups,
    describe_groups: DescribeGroups,
    delete_groups: DeleteGroups,
    remove_group_members: RemoveGroupMembers,
}

/// Calls about a group are retried while its coordinator moves or loads it.
pub(super) fn retry(error: &Error) -> Retry {
    Retry::after_pause_if(matches!(
        error.code(),
        Some(
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::NOT_COORDINATOR
        )
    ))
}

/// Where a request about a group goes.
pub(super) fn target(group: Option<&Arc<str>>) -> Target {
    match group {
        Some(group) => Target::Coordinator(CoordinatorType::Group, Arc::clone(group)),
        None => Target::Any,
    }
}

/// Deletes groups without members, of any protocol. An item is a group.
#[derive(Clone, Debug, Deserialize)]
pub struct DeleteGroups {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
}

impl Call for DeleteGroups {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::DeleteGroups;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        target(self.groups.get(item))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        Request::DeleteGroups(DeleteGroupsRequest {
            groups_names: wanted.map(|group| (&**group).into()).collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::DeleteGroups(answer) = response else {
            return Vec::new();
        };
        results(items, "a group", |asked| {
            let group = self.groups.get(asked.item)?;
            let row = answer.results.iter().find(|row| *row.group_id == **group)?;
            let code = ErrorCode(row.error_code);
            if !code.is_error() {
                return Some(Ok(()));
            }
            let error = Error::from_code(code, row.error_message.as_deref()).with_group(group);
            let is_gone = asked.repeated && code == ErrorCode::GROUP_ID_NOT_FOUND;
            Some(Err(match is_gone {
                true => error.adding("an earlier attempt of this call may have deleted it"),
                false => error,
            }))
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.groups, found)
    }
}

/// Removes members from a group of the classic protocol.
#[derive(Clone, Debug, Deserialize)]
pub struct RemoveGroupMembers {
    /// The group.
    pub group: String,
    /// The `group.instance.id`s of static members; `None` for all members.
    pub group_instance_ids: Option<Vec<String>>,
    /// Why, for the coordinator's log (KIP-800).
    pub reason: String,
}

impl Verb for RemoveGroupMembers {
    type Outcome = ByItem<()>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let group: Arc<str> = self.group.into();
        let members = match self.group_instance_ids {
            Some(ids) => {
                let ids = ids.into_iter();
                ids.map(|id| (String::new(), Some(id))).collect()
            }
            None => {
                let call = call::DescribeGroups {
                    groups: vec![Arc::clone(&group)],
                    operations: false,
                };
                let found = admin.ask(call).await?.into_iter().next();
                let described = found.unwrap_or_else(|| Err(left_out("a group")))?;
                let members = described.members.into_iter();
                members
                    .map(|it| match it.group_instance_id {
                        Some(id) => (String::new(), Some(id)),
                        None => (it.member_id, None),
                    })
                    .collect()
            }
        };
        let removal = LeaveGroupForOthers {
            group,
            members,
            reason: self.reason,
        };
        admin.ask(removal).await
    }
}

/// LeaveGroup in the name of other members (KIP-345). An item is a member: its id, or its instance id.
#[derive(Clone, Debug)]
struct LeaveGroupForOthers {
    group: Arc<str>,
    members: Vec<(String, Option<String>)>,
    reason: String,
}

/// The first version of LeaveGroup that is about several members.
const BATCHES: i16 = 3;

impl Call for LeaveGroupForOthers {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::LeaveGroup;

    fn versions(&self) -> (i16, i16) {
        (BATCHES, i16::MAX)
    }

    fn items(&self) -> usize {
        self.members.len()
    }

    fn target(&self, _: usize) -> Target {
        target(Some(&self.group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.members.get(*item));
        let members = wanted.map(|(id, instance)| MemberIdentity {
            member_id: id.as_str().into(),
            group_instance_id: instance.as_deref().map(Into::into),
            reason: Some(self.reason.as_str().into()),
            ..Default::default()
        });
        Request::LeaveGroup(LeaveGroupRequest {
            group_id: (&*self.group).into(),
            members: members.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::LeaveGroup(answer) = response else {
            return Vec::new();
        };
        let refused = |code: i16| match ErrorCode(code) {
            code if code.is_error() => Err(Error::from_code(code, None).with_group(&self.group)),
            _ => Ok(()),
        };
        if let Err(error) = refused(answer.error_code) {
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        results(items, "a member", |asked| {
            let (id, instance) = self.members.get(asked.item)?;
            let row = answer.members.iter().find(|row| {
                *row.member_id == **id && row.group_instance_id.as_deref() == instance.as_deref()
            })?;
            Some(refused(row.error_code))
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let members = self.members.into_iter();
        let names = members.map(|(id, instance)| instance.unwrap_or(id));
        ByItem::new(names.collect(), found)
    }
}

/// Describes groups of the classic protocol and of the consumer protocol (KIP-848). One that does not exist is an error of its own,
/// whatever the age of the brokers.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeGroups {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
    /// Whether to return the operations that the client is authorized for (since Kafka 2.3).
    pub include_authorized_operations: bool,
}

impl Verb for DescribeGroups {
    type Outcome = ByItem<GroupDescription>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let groups = self.groups;
        let operations = self.include_authorized_operations;
        let call = call::DescribeGroups {
            groups: groups.clone(),
            operations,
        };
        let mut found = admin.ask(call).await?;
        // A coordinator does not know a group of the one protocol by the call of the other.
        let unknown = |each: &Result<GroupDescription, Error>| {
            let code = each.as_ref().err().and_then(Error::code);
            code == Some(ErrorCode::GROUP_ID_NOT_FOUND)
        };
        let places: Vec<usize> = (0..found.len())
            .filter(|place| found.get(*place).is_some_and(unknown))
            .collect();
        if places.is_empty() {
            return ByItem::new(groups, found);
        }
        let call = DescribeConsumerGroups {
            groups: places
                .iter()
                .filter_map(|it| groups.get(*it).cloned())
                .collect(),
            operations,
        };
        let described = match admin.ask(call).await {
            Ok(described) => described,
            Err(error) if error.kind() == Kind::Unsupported => Vec::new(),
            Err(error) => return Err(error),
        };
        for (place, each) in places.into_iter().zip(described) {
            // Where brokers do not have that call, or do not know the group by it either, the first
            // result stands.
            let stays = |error: &Error| {
                error.kind() == Kind::Unsupported
                    || error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND)
            };
            let is_better = !each.as_ref().is_err_and(stays);
            if let Some(slot) = found.get_mut(place).filter(|_| is_better) {
                *slot = each;
            }
        }
        ByItem::new(groups, found)
    }
}
