//! SyncGroup, versions 0 to 5: the answer comes when the leader has sent the assignments.

use bytes::Bytes;
use ottla_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use ottla_protocol::{ErrorCode, Str, Versions};
use tokio::sync::oneshot;

use super::{Api, Cx, Outcome};
use crate::group::{AsMember, Reply, Sync, Synced};

impl Api for SyncGroupRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<SyncGroupResponse> {
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
        let sync = Sync {
            group: self.group_id.to_string(),
            as_member: AsMember {
                id: self.member_id.to_string(),
                instance: self.group_instance_id.as_ref().map(ToString::to_string),
                generation: self.generation_id,
            },
            protocol_type: self.protocol_type.as_ref().map(ToString::to_string),
            protocol: self.protocol_name.as_ref().map(ToString::to_string),
            assignments: assignments.collect(),
        };
        let (ticket, reply) = oneshot::channel();
        cx.core
            .with_groups(|groups| groups.sync(sync, ticket, cx.now.instant));
        Outcome::Later(Box::pin(async move {
            match reply.await {
                Ok(Reply::Sync(Ok(synced))) => Outcome::Answer(respond(synced)),
                Ok(Reply::Sync(Err(code))) => Outcome::Answer(refused(code)),
                Ok(Reply::Join(_)) | Err(_) => {
                    Outcome::Close("the group coordinator stopped".to_owned())
                }
            }
        }))
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
