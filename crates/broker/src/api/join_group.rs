//! JoinGroup, versions 0 to 9: the response comes when the coordinator has gathered the group.
//!
//! Version 1 separates the rebalance timeout from the session's, 4 gives out ids first (KIP-394), 5
//! knows static members (KIP-345), 9 lets a returning leader skip the assignment (KIP-814).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::join_group_response::JoinGroupResponseMember;
use ottla_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use ottla_protocol::{Str, Versions};

use super::coordinated::from_coordinator;
use super::{Api, Cx, Outcome};
use crate::group::{Join, Joined, NotJoined, Protocol, Reply};
use crate::security::acl::Operation;

const FIRST_WITH_NULL_PROTOCOL: i16 = 7;

impl Api for JoinGroupRequest {
    const HANDLED: Versions = Versions { min: 0, max: 9 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<JoinGroupResponse> {
        let version = cx.version;
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(version, code));
        }
        let join = self.to_join(cx);
        let ticket = cx.ticket();
        cx.core.with_groups(cx.now, |groups| {
            groups.join(join, Arc::clone(&ticket), cx.now.instant)
        });
        from_coordinator(cx, ticket, move |reply| match reply {
            Reply::Join(Ok(joined)) => Some(respond(version, joined)),
            Reply::Join(Err(not_joined)) => Some(refused(version, not_joined)),
            Reply::Sync(_) | Reply::Beat(_) => None,
        })
    }
}

trait ToJoin {
    fn to_join(self, cx: &Cx<'_>) -> Join;
}

impl ToJoin for JoinGroupRequest {
    fn to_join(self, cx: &Cx<'_>) -> Join {
        let session = milliseconds(self.session_timeout_ms);
        // What the group keeps is copied, so that it does not hold on to the whole request.
        let protocols = self.protocols.iter().map(|protocol| Protocol {
            name: protocol.name.to_string(),
            metadata: Bytes::copy_from_slice(&protocol.metadata),
        });
        Join {
            group: self.group_id.to_string(),
            member: self.member_id.to_string(),
            instance: self.group_instance_id.as_ref().map(ToString::to_string),
            client_id: cx.client_id.as_deref().unwrap_or_default().to_owned(),
            client_host: format!("/{}", cx.client.host),
            session_timeout: session,
            rebalance_timeout: if cx.version == 0 {
                session
            } else {
                milliseconds(self.rebalance_timeout_ms)
            },
            protocol_type: self.protocol_type.to_string(),
            protocols: protocols.collect(),
            id_first: cx.version >= 4,
            can_skip_assignment: cx.version >= 9,
        }
    }
}

/// A timeout from the wire; at least one millisecond, so that no timer is due again at once.
fn milliseconds(timeout: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout).unwrap_or(0).max(1))
}

fn respond(version: i16, joined: Joined) -> JoinGroupResponse {
    let members = joined
        .members
        .into_iter()
        .map(|member| JoinGroupResponseMember {
            member_id: member.id.into(),
            group_instance_id: member.instance.map(Str::from),
            metadata: member.metadata,
            ..Default::default()
        });
    JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.map(Str::from),
        protocol_name: protocol_name(version, joined.protocol),
        leader: joined.leader.into(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member.into(),
        members: members.collect(),
        ..Default::default()
    }
}

fn refused(version: i16, NotJoined { code, member }: NotJoined) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.0,
        protocol_name: protocol_name(version, None),
        member_id: member.into(),
        ..Default::default()
    }
}

fn protocol_name(version: i16, name: Option<String>) -> Option<Str> {
    let name = name.map(Str::from);
    if version < FIRST_WITH_NULL_PROTOCOL {
        Some(name.unwrap_or_default())
    } else {
        name
    }
}
