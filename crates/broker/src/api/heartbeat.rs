//! Heartbeat, versions 0 to 4.

use ottla_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::group::AsMember;
use crate::security::acl::Operation;

impl Api for HeartbeatRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<HeartbeatResponse> {
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let as_member = AsMember {
            id: self.member_id.to_string(),
            instance: self.group_instance_id.as_ref().map(ToString::to_string),
            generation: self.generation_id,
        };
        let beaten = cx.core.with_groups(cx.now, |groups| {
            groups.heartbeat(&self.group_id, &as_member, cx.now.instant)
        });
        Outcome::Answer(HeartbeatResponse {
            error_code: beaten.err().unwrap_or(ErrorCode::NONE).0,
            ..Default::default()
        })
    }
}
