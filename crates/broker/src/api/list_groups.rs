//! ListGroups, versions 0 to 5: all groups, or from version 4 those in some states, from 5 of some types.

use ottla_protocol::messages::list_groups_response::ListedGroup;
use ottla_protocol::messages::{ListGroupsRequest, ListGroupsResponse};
use ottla_protocol::{Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for ListGroupsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListGroupsResponse> {
        let wanted = |filter: &[Str], value: &str| {
            filter.is_empty()
                || filter
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(value))
        };
        let sees_all = cx.may(Operation::Describe, Resource::CLUSTER);
        let sees = |group: &str| sees_all || cx.may(Operation::Describe, Resource::group(group));
        let groups = cx.core.with_groups(cx.now, |groups| {
            let listed = groups.list().filter(|group| {
                wanted(&self.states_filter, group.state)
                    && wanted(&self.types_filter, group.kind)
                    && sees(&group.group)
            });
            let listed = listed.map(|group| ListedGroup {
                group_id: group.group.into(),
                protocol_type: group.protocol_type.into(),
                group_state: if cx.version >= 4 {
                    Str::from_static(group.state)
                } else {
                    Str::default()
                },
                group_type: if cx.version >= 5 {
                    Str::from_static(group.kind)
                } else {
                    Str::default()
                },
                ..Default::default()
            });
            listed.collect()
        });
        Outcome::Answer(ListGroupsResponse {
            groups,
            ..Default::default()
        })
    }
}
