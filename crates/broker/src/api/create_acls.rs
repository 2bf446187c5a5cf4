//! CreateAcls, versions 0 to 3 (KIP-140); from version 1 also prefixes (KIP-290).

use ottla_protocol::messages::create_acls_request::AclCreation;
use ottla_protocol::messages::create_acls_response::AclCreationResult;
use ottla_protocol::messages::{CreateAclsRequest, CreateAclsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::acls::{self, ALLOW, DENY, LITERAL, PREFIXED, Refused};
use super::{Api, Cx, Outcome};
use crate::security::acl::{Acl, CLUSTER_NAME, Operation, ResourceType};

impl Api for CreateAclsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<CreateAclsResponse> {
        let acls = acls::open(cx, Operation::Alter);
        let create = |creation: &AclCreation| {
            let acls = acls.as_ref().map_err(Clone::clone)?;
            acls.write().insert(read(creation)?);
            Ok(())
        };
        let results = self
            .creations
            .iter()
            .map(|creation| match create(creation) {
                Ok(()) => AclCreationResult::default(),
                Err((code, message)) => {
                    let message: String = message;
                    AclCreationResult {
                        error_code: code.0,
                        error_message: Some(message.into()),
                        ..Default::default()
                    }
                }
            });
        Outcome::Answer(CreateAclsResponse {
            results: results.collect(),
            ..Default::default()
        })
    }
}

fn read(creation: &AclCreation) -> Result<Acl, Refused> {
    let invalid = |what: String| (ErrorCode::INVALID_REQUEST, what);
    let kind = ResourceType::from_code(creation.resource_type).ok_or_else(|| {
        invalid(format!(
            "there is no resource type {}",
            creation.resource_type
        ))
    })?;
    let operation = Operation::from_code(creation.operation)
        .ok_or_else(|| invalid(format!("there is no operation {}", creation.operation)))?;
    if creation.resource_name.is_empty() {
        return Err(invalid("Invalid empty resource name".to_owned()));
    }
    if kind == ResourceType::Cluster && *creation.resource_name != *CLUSTER_NAME {
        let what = format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}");
        return Err(invalid(what));
    }
    if !creation.principal.contains(':') {
        let what = format!(
            "the principal \"{}\" has no type, as in User:alice",
            creation.principal
        );
        return Err(invalid(what));
    }
    Ok(Acl {
        kind,
        name: creation.resource_name.to_string(),
        is_prefix: match creation.resource_pattern_type {
            LITERAL => false,
            PREFIXED => true,
            other => {
                let what =
                    format!("an ACL is literal or prefixed, and not of pattern type {other}");
                return Err(invalid(what));
            }
        },
        principal: creation.principal.to_string(),
        host: creation.host.to_string(),
        operation,
        allows: match creation.permission_type {
            ALLOW => true,
            DENY => false,
            other => return Err(invalid(format!("there is no permission {other}"))),
        },
    })
}
