//! Membership of a group with the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//! A part sends each of them without retries and handles errors itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use ottla_protocol::messages::leave_group_request::MemberIdentity;
use ottla_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use ottla_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};

use super::interface::only;
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::config::Config;
use crate::error::{Error, Kind};

/// The protocol type of groups whose members consume topics.
pub(crate) const CONSUMER: &str = "consumer";
/// How much longer than its wait for other members a broker may take to respond. Java's consumer
/// allows as much.
const LAPSE: Duration = Duration::from_secs(5);

/// A member of a group, as requests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group's id.
    pub group: Arc<str>,
    /// The generation of the group in which the member is; -1 if it is in none.
    pub generation: i32,
    /// The id that the coordinator gave the member; empty if it has none.
    pub member_id: Arc<str>,
    /// The member's `group.instance.id` if it is a static one (KIP-345).
    pub instance_id: Option<Arc<str>>,
}

impl GroupMetadata {
    /// A client that uses offsets of the group, and is not a member of it.
    pub fn outside(group: Arc<str>) -> GroupMetadata {
        GroupMetadata {
            group,
            generation: -1,
            member_id: Arc::default(),
            instance_id: None,
        }
    }

    /// The first version that can name this member, of an API that has had instance ids since `first`.
    pub(super) fn least(&self, first: i16) -> i16 {
        self.instance_id.as_ref().map_or(0, |_| first)
    }

    /// The group's coordinator.
    pub(super) fn coordinator(&self) -> Target {
        Target::Coordinator(CoordinatorType::Group, Arc::clone(&self.group))
    }
}

pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn verdict(code: i16, group: &Arc<str>) -> Result<(), Error> {
    let code = ErrorCode(code);
    if code.is_error() {
        Err(Error::from_code(code, None).with_group(group))
    } else {
        Ok(())
    }
}

/// JoinGroup: joins the group, or a rebalance of it.
#[derive(Clone, Debug)]
pub(crate) struct JoinGroup {
    pub(crate) member: GroupMetadata,
    pub(crate) session_timeout: Duration,
    /// How long the group waits for its members to join again.
    pub(crate) rebalance_timeout: Duration,
    /// Assignors, the preferred first, with the member's metadata for each.
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
    pub(crate) reason: Option<&'static str>,
}

/// The coordinator's response to a member that joins.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is a member of a new generation.
    Joined(Joined),
    /// It has this id, and is to join with it (KIP-394).
    Named(Arc<str>),
}

/// A generation of a group, as a member receives it.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) member_id: Arc<str>,
    /// The assignor that all members know.
    pub(crate) protocol: String,
    pub(crate) is_leader: bool,
    /// The leader is to leave the assignment as it is (KIP-814).
    pub(crate) keeps_assignment: bool,
    /// All members, for the leader.
    pub(crate) members: Vec<JoinedMember>,
}

/// A member, as the leader receives it.
#[derive(Debug)]
pub(crate) struct JoinedMember {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    /// Its metadata for the assignor.
    pub(crate) metadata: Bytes,
}

impl Call for JoinGroup {
    type Found = Admission;
    type Answer = Admission;
    const API: ApiKey = ApiKey::JoinGroup;

    fn versions(&self) -> (i16, i16) {
        (self.member.least(5), i16::MAX)
    }

    fn patience(&self, config: &Config) -> Duration {
        config.request_timeout.max(self.rebalance_timeout + LAPSE)
    }

    fn target(&self, _: usize) -> Target {
        Target::Rebalance(Arc::clone(&self.member.group))
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let protocols = self.protocols.iter();
        Request::JoinGroup(JoinGroupRequest {
            group_id: (&*self.member.group).into(),
            session_timeout_ms: millis(self.session_timeout),
            rebalance_timeout_ms: millis(self.rebalance_timeout),
            member_id: (&*self.member.member_id).into(),
            group_instance_id: self.member.instance_id.as_deref().map(Into::into),
            protocol_type: CONSUMER.into(),
            protocols: protocols
                .map(|(name, metadata)| JoinGroupRequestProtocol {
                    name: (&**name).into(),
                    metadata: metadata.clone(),
                    ..Default::default()
                })
                .collect(),
            reason: self.reason.map(Into::into),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Admission, Error>> {
        let Response::JoinGroup(answer) = response else {
            return Vec::new();
        };
        if ErrorCode(answer.error_code) == ErrorCode::MEMBER_ID_REQUIRED
            && !answer.member_id.is_empty()
        {
            return vec![Ok(Admission::Named(Arc::from(&*answer.member_id)))];
        }
        if let Err(error) = verdict(answer.error_code, &self.member.group) {
            return vec![Err(error)];
        }
        let other = answer.protocol_type.as_deref();
        if let Some(other) = other.filter(|other| *other != CONSUMER) {
            let text = format!("the group has members of another type: {other}");
            return vec![Err(
                Error::new(Kind::Protocol, text).with_group(&self.member.group)
            )];
        }
        let members = answer.members.iter().map(|member| JoinedMember {
            id: Arc::from(&*member.member_id),
            instance_id: member.group_instance_id.as_deref().map(Arc::from),
            metadata: member.metadata.clone(),
        });
        vec![Ok(Admission::Joined(Joined {
            generation: answer.generation_id,
            is_leader: *answer.leader == *answer.member_id,
            keeps_assignment: answer.skip_assignment,
            member_id: Arc::from(&*answer.member_id),
            protocol: answer.protocol_name.as_deref().unwrap_or("").to_owned(),
            members: members.collect(),
        }))]
    }

    fn merge(self, found: Vec<Result<Admission, Error>>) -> Result<Admission, Error> {
        only(found, "the membership")
    }
}

/// SyncGroup: the leader sends the assignment of every member, and each member receives its own.
#[derive(Clone, Debug)]
pub(crate) struct SyncGroup {
    pub(crate) member: GroupMetadata,
    pub(crate) rebalance_timeout: Duration,
    /// The assignor that all members know.
    pub(crate) protocol: Arc<str>,
    /// The leader's assignment of each member; empty for members that are not the leader.
    pub(crate) assignments: Vec<(Arc<str>, Bytes)>,
}

impl Call for SyncGroup {
    type Found = Bytes;
    type Answer = Bytes;
    const API: ApiKey = ApiKey::SyncGroup;

    fn versions(&self) -> (i16, i16) {
        (self.member.least(3), i16::MAX)
    }

    fn patience(&self, config: &Config) -> Duration {
        config.request_timeout.max(self.rebalance_timeout + LAPSE)
    }

    fn target(&self, _: usize) -> Target {
        Target::Rebalance(Arc::clone(&self.member.group))
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let assignments = self.assignments.iter();
        Request::SyncGroup(SyncGroupRequest {
            group_id: (&*self.member.group).into(),
            generation_id: self.member.generation,
            member_id: (&*self.member.member_id).into(),
            group_instance_id: self.member.instance_id.as_deref().map(Into::into),
            protocol_type: Some(CONSUMER.into()),
            protocol_name: Some((&*self.protocol).into()),
            assignments: assignments
                .map(|(member, assignment)| SyncGroupRequestAssignment {
                    member_id: (&**member).into(),
                    assignment: assignment.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Bytes, Error>> {
        let Response::SyncGroup(answer) = response else {
            return Vec::new();
        };
        let group = &self.member.group;
        let other = answer.protocol_name.as_deref();
        let other = other.filter(|other| *other != &*self.protocol);
        vec![match (verdict(answer.error_code, group), other) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(other)) => {
                let text = format!("the group has the assignor {other} all of a sudden");
                Err(Error::new(Kind::Protocol, text).with_group(group))
            }
            (Ok(()), None) => Ok(answer.assignment),
        }]
    }

    fn merge(self, found: Vec<Result<Bytes, Error>>) -> Result<Bytes, Error> {
        only(found, "the assignment")
    }
}

/// Heartbeat: the member lives, and wants to know whether the group rebalances.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    pub(crate) member: GroupMetadata,
}

impl Call for Heartbeat {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::Heartbeat;

    fn versions(&self) -> (i16, i16) {
        (self.member.least(3), i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::Heartbeat(HeartbeatRequest {
            group_id: (&*self.member.group).into(),
            generation_id: self.member.generation,
            member_id: (&*self.member.member_id).into(),
            group_instance_id: self.member.instance_id.as_deref().map(Into::into),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        match response {
            Response::Heartbeat(answer) => vec![verdict(answer.error_code, &self.member.group)],
            _ => Vec::new(),
        }
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the heartbeat")
    }
}

/// LeaveGroup: the member goes, and the others need not wait for its session to end.
#[derive(Clone, Debug)]
pub(crate) struct LeaveGroup {
    pub(crate) member: GroupMetadata,
    pub(crate) reason: &'static str,
}

impl Call for LeaveGroup {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::LeaveGroup;

    fn versions(&self) -> (i16, i16) {
        (self.member.least(3), i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::LeaveGroup(LeaveGroupRequest {
            group_id: (&*self.member.group).into(),
            members: vec![MemberIdentity {
                member_id: (&*self.member.member_id).into(),
                group_instance_id: self.member.instance_id.as_deref().map(Into::into),
                reason: Some(self.reason.into()),
                ..Default::default()
            }],
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::LeaveGroup(answer) = response else {
            return Vec::new();
        };
        let group = &self.member.group;
        let first = answer.members.first().map_or(0, |member| member.error_code);
        vec![verdict(answer.error_code, group).and_then(|()| verdict(first, group))]
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the member")
    }
}
