//! What the three APIs of ACLs share: their filters, and the numbers for anything.

use ottla_protocol::{ErrorCode, Str};

use super::Cx;
use crate::security::acl::{AclFilter, Acls, Operation, PatternFilter, Resource, ResourceType};
use parking_lot::RwLock;

pub(super) const LITERAL: i8 = 3;
pub(super) const PREFIXED: i8 = 4;
pub(super) const DENY: i8 = 2;
pub(super) const ALLOW: i8 = 3;
const ANY: i8 = 1;
const MATCH: i8 = 2;

/// An error code with its message.
pub(super) type Refused = (ErrorCode, String);

/// The ACLs, for a client that may do `operation` to the cluster.
pub(super) fn open<'a>(cx: &'a Cx<'_>, operation: Operation) -> Result<&'a RwLock<Acls>, Refused> {
    cx.check(operation, Resource::CLUSTER).map_err(|code| {
        (
            code,
            format!("User:{} may not {}", &*cx.who.principal.0, operation.name()),
        )
    })?;
    cx.core.security.acls.as_ref().ok_or_else(|| {
        let what = "No Authorizer is configured on the broker; give it ACLs or super.users";
        (ErrorCode::SECURITY_DISABLED, what.to_owned())
    })
}

/// A filter as the wire has it.
pub(super) struct WireFilter<'a> {
    pub(super) kind: i8,
    pub(super) name: &'a Option<Str>,
    pub(super) pattern: i8,
    pub(super) principal: &'a Option<Str>,
    pub(super) host: &'a Option<Str>,
    pub(super) operation: i8,
    pub(super) permission: i8,
}

impl WireFilter<'_> {
    pub(super) fn read(&self) -> Result<AclFilter, Refused> {
        let unknown = |what: &str, code: i8| {
            let what = format!("the filter has an unknown {what}: {code}");
            (ErrorCode::INVALID_REQUEST, what)
        };
        let text = |text: &Option<Str>| text.as_ref().map(ToString::to_string);
        Ok(AclFilter {
            kind: match self.kind {
                ANY => None,
                code => Some(
                    ResourceType::from_code(code).ok_or_else(|| unknown("resource type", code))?,
                ),
            },
            name: text(self.name),
            pattern: match self.pattern {
                ANY => PatternFilter::Any,
                MATCH => PatternFilter::Match,
                LITERAL => PatternFilter::Literal,
                PREFIXED => PatternFilter::Prefixed,
                code => return Err(unknown("pattern type", code)),
            },
            principal: text(self.principal),
            host: text(self.host),
            operation: match self.operation {
                ANY => None,
                code => Some(Operation::from_code(code).ok_or_else(|| unknown("operation", code))?),
            },
            allows: match self.permission {
                ANY => None,
                DENY => Some(false),
                ALLOW => Some(true),
                code => return Err(unknown("permission", code)),
            },
        })
    }
}
