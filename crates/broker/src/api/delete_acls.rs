//! DeleteAcls, versions 0 to 3 (KIP-140): what each filter means; from version 1 also prefixes (KIP-290).

use ottla_protocol::Versions;
use ottla_protocol::messages::delete_acls_request::DeleteAclsFilter;
use ottla_protocol::messages::delete_acls_response::{
    DeleteAclsFilterResult, DeleteAclsMatchingAcl,
};
use ottla_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};

use super::acls::{self, ALLOW, DENY, LITERAL, PREFIXED, Refused, WireFilter};
use super::{Api, Cx, Outcome};
use crate::security::acl::{Acl, Operation};

impl Api for DeleteAclsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DeleteAclsResponse> {
        let results = self.filters.iter().map(|filter| match delete(cx, filter) {
            Ok(removed) => DeleteAclsFilterResult {
                matching_acls: removed.into_iter().map(matching).collect(),
                ..Default::default()
            },
            Err((code, message)) => DeleteAclsFilterResult {
                error_code: code.0,
                error_message: Some(message.into()),
                ..Default::default()
            },
        });
        Outcome::Answer(DeleteAclsResponse {
            filter_results: results.collect(),
            ..Default::default()
        })
    }
}

fn delete(cx: &Cx<'_>, filter: &DeleteAclsFilter) -> Result<Vec<Acl>, Refused> {
    let acls = acls::open(cx, Operation::Alter)?;
    let filter = WireFilter {
        kind: filter.resource_type_filter,
        name: &filter.resource_name_filter,
        pattern: filter.pattern_type_filter,
        principal: &filter.principal_filter,
        host: &filter.host_filter,
        operation: filter.operation,
        permission: filter.permission_type,
    };
    let filter = filter.read()?;
    Ok(acls.write().remove(&filter))
}

fn matching(acl: Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        resource_type: acl.kind as i8,
        resource_name: acl.name.into(),
        pattern_type: if acl.is_prefix { PREFIXED } else { LITERAL },
        principal: acl.principal.into(),
        host: acl.host.into(),
        operation: acl.operation as i8,
        permission_type: if acl.allows { ALLOW } else { DENY },
        ..Default::default()
    }
}
