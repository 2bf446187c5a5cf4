//! DescribeAcls, versions 0 to 3 (KIP-140); from version 1 also prefixes (KIP-290).

use ottla_protocol::Versions;
use ottla_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use ottla_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};

use super::acls::{self, ALLOW, DENY, LITERAL, PREFIXED, Refused, WireFilter};
use super::{Api, Cx, Outcome};
use crate::security::acl::{Acl, Operation};

impl Api for DescribeAclsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeAclsResponse> {
        Outcome::Answer(match describe(cx, &self) {
            Ok(resources) => DescribeAclsResponse {
                resources,
                ..Default::default()
            },
            Err((code, message)) => DescribeAclsResponse {
                error_code: code.0,
                error_message: Some(message.into()),
                ..Default::default()
            },
        })
    }
}

fn describe(
    cx: &Cx<'_>,
    request: &DescribeAclsRequest,
) -> Result<Vec<DescribeAclsResource>, Refused> {
    let acls = acls::open(cx, Operation::Describe)?;
    let filter = WireFilter {
        kind: request.resource_type_filter,
        name: &request.resource_name_filter,
        pattern: request.pattern_type_filter,
        principal: &request.principal_filter,
        host: &request.host_filter,
        operation: request.operation,
        permission: request.permission_type,
    };
    let filter = filter.read()?;
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for acl in acls.read().matching(&filter) {
        let (kind, pattern) = (
            acl.kind as i8,
            if acl.is_prefix { PREFIXED } else { LITERAL },
        );
        match resources.last_mut() {
            Some(last)
                if (last.resource_type, last.pattern_type, &*last.resource_name)
                    == (kind, pattern, &*acl.name) =>
            {
                last.acls.push(description(acl));
            }
            _ => resources.push(DescribeAclsResource {
                resource_type: kind,
                resource_name: acl.name.clone().into(),
                pattern_type: pattern,
                acls: vec![description(acl)],
                ..Default::default()
            }),
        }
    }
    Ok(resources)
}

fn description(acl: &Acl) -> AclDescription {
    AclDescription {
        principal: acl.principal.clone().into(),
        host: acl.host.clone().into(),
        operation: acl.operation as i8,
        permission_type: if acl.allows { ALLOW } else { DENY },
        ..Default::default()
    }
}
