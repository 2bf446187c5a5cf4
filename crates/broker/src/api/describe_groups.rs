//! DescribeGroups, versions 0 to 6. An unknown group is "Dead"; from version 6 that is an error of its own (KIP-1043).

use ottla_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome, operations};
use crate::group::Description;
use crate::security::acl::{Operation, Resource};

const FIRST_WITH_NOT_FOUND: i16 = 6;

impl Api for DescribeGroupsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeGroupsResponse> {
        let describe = |group: &Str| {
            if let Err(code) = cx.check_group(Operation::Describe, group) {
                return refused(cx.version, group, code);
            }
            let described = cx.core.with_groups(cx.now, |groups| groups.describe(group));
            let mut answer = match described {
                Some(description) => found(group, description),
                None => missing(cx.version, group),
            };
            if self.include_authorized_operations {
                answer.authorized_operations =
                    cx.operations(Resource::group(group), operations::GROUP);
            }
            answer
        };
        Outcome::Answer(DescribeGroupsResponse {
            groups: self.groups.iter().map(describe).collect(),
            ..Default::default()
        })
    }
}

fn found(group: &Str, description: Description) -> DescribedGroup {
    let members = description
        .members
        .into_iter()
        .map(|member| DescribedGroupMember {
            member_id: member.id.into(),
            group_instance_id: member.instance.map(Str::from),
            client_id: member.client_id.into(),
            client_host: member.client_host.into(),
            member_metadata: member.metadata,
            member_assignment: member.assignment,
            ..Default::default()
        });
    DescribedGroup {
        group_id: group.clone(),
        group_state: Str::from_static(description.state),
        protocol_type: description.protocol_type.into(),
        protocol_data: description.protocol.into(),
        members: members.collect(),
        ..Default::default()
    }
}

fn refused(version: i16, group: &Str, code: ErrorCode) -> DescribedGroup {
    DescribedGroup {
        error_code: code.0,
        error_message: (version >= FIRST_WITH_NOT_FOUND).then(|| Str::from_static(code.name())),
        group_id: group.clone(),
        ..Default::default()
    }
}

fn missing(version: i16, group: &Str) -> DescribedGroup {
    let mut answer = DescribedGroup {
        group_id: group.clone(),
        group_state: Str::from_static("Dead"),
        ..Default::default()
    };
    if version >= FIRST_WITH_NOT_FOUND {
        answer.error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
        answer.error_message = Some(format!("there is no group \"{group}\"").into());
    }
    answer
}
