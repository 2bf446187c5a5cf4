//! DeleteGroups, versions 0 to 3: groups without members, with the offsets they committed.

use ottla_protocol::messages::delete_groups_response::DeletableGroupResult;
use ottla_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::group::Stored;
use crate::security::acl::Operation;

impl Api for DeleteGroupsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DeleteGroupsResponse> {
        let delete = |group: &Str| {
            let code = delete(cx, group).err().unwrap_or(ErrorCode::NONE);
            DeletableGroupResult {
                group_id: group.clone(),
                error_code: code.0,
                ..Default::default()
            }
        };
        Outcome::Answer(DeleteGroupsResponse {
            results: self.groups_names.iter().map(delete).collect(),
            ..Default::default()
        })
    }
}

fn delete(cx: &Cx<'_>, group: &str) -> Result<(), ErrorCode> {
    cx.check_group(Operation::Delete, group)?;
    let deleted = cx.core.with_groups(cx.now, |groups| {
        let offsets = groups.delete(group)?;
        let forgotten = offsets.topics().flat_map(|(topic, partitions)| {
            partitions.keys().map(|partition| Stored {
                group: group.to_owned(),
                topic: topic.to_owned(),
                partition: *partition,
                committed: None,
            })
        });
        let stored = forgotten.collect();
        cx.core.store(groups, stored, None, cx.now).map(drop)
    });
    deleted?;
    let forgotten = cx
        .core
        .keep_shares(cx.now, |shares| shares.forget_group(group, None));
    forgotten.1
}
