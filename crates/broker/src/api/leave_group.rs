//! LeaveGroup, versions 0 to 5: one member, or from version 3 several (KIP-345).

use ottla_protocol::messages::leave_group_request::MemberIdentity;
use ottla_protocol::messages::leave_group_response::MemberResponse;
use ottla_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::Operation;

const FIRST_OF_MANY: i16 = 3;

impl Api for LeaveGroupRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<LeaveGroupResponse> {
        let now = cx.now.instant;
        if self.group_id.is_empty() {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_GROUP_ID));
        }
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        if cx.version < FIRST_OF_MANY {
            let left = cx.core.with_groups(cx.now, |groups| {
                groups.leave(&self.group_id, &self.member_id, None, now)
            });
            return Outcome::Answer(LeaveGroupResponse {
                error_code: left.err().unwrap_or(ErrorCode::NONE).0,
                ..Default::default()
            });
        }
        let leave = |member: &MemberIdentity| {
            let instance = member.group_instance_id.as_deref();
            let left = cx.core.with_groups(cx.now, |groups| {
                groups.leave(&self.group_id, &member.member_id, instance, now)
            });
            MemberResponse {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                error_code: left.err().unwrap_or(ErrorCode::NONE).0,
                ..Default::default()
            }
        };
        Outcome::Answer(LeaveGroupResponse {
            members: self.members.iter().map(leave).collect(),
            ..Default::default()
        })
    }
}
