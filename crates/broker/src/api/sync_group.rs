//! SyncGroup, versions 0 to 5: the response comes when the leader has sent the assignments.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::coordinated::from_coordinator;
use super::{Api, Cx, Outcome};
use crate::group::{AsMember, Reply, Sync, Synced};
use crate::security::acl::Operation;

impl Api for SyncGroupRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<SyncGroupResponse> {
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        // From version 5 both must be said (KIP-559).
        if cx.version >= 5 && (self.protocol_type.is_none() || self.protocol_name.is_none()) {
            return Outcome::Answer(
                self.refuse(cx.version, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
            );
        }
        let assignments = self.assignments.iter().map(|assigned| {
            (
                assigned.member_id.to_string(),
                Bytes::copy_from_slice(&assigned.assignment),
            )
        });
        let group = self.group_id.to_string();
        let sync = Sync {
            group: group.clone(),
            as_member: AsMember {
                id: self.member_id.to_string(),
                instance: self.group_instance_id.as_ref().map(ToString::to_string),
                generation: self.generation_id,
            },
            protocol_type: self.protocol_type.as_ref().map(ToString::to_string),
            protocol: self.protocol_name.as_ref().map(ToString::to_string),
            assignments: assignments.collect(),
        };
        let ticket = cx.ticket();
        cx.core.with_group(&group, cx.now, |groups| {
            groups.sync(sync, Arc::clone(&ticket), cx.now.instant)
        });
        from_coordinator(cx, ticket, |reply| match reply {
            Reply::Sync(Ok(synced)) => Some(respond(synced)),
            Reply::Sync(Err(code)) => Some(refused(code)),
            Reply::Join(_) | Reply::Beat(_) => None,
        })
    }
}

fn respond(synced: Synced) -> SyncGroupResponse {
    SyncGroupResponse {
        protocol_type: synced.protocol_type.map(Str::from),
        protocol_name: synced.protocol.map(Str::from),
        assignment: synced.assignment,
        ..Default::default()
    }
}

fn refused(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.0,
        ..Default::default()
    }
}
