//! Access control lists: DescribeAcls, CreateAcls and DeleteAcls.

use ottla_protocol::messages::create_acls_request::AclCreation;
use ottla_protocol::messages::delete_acls_request::DeleteAclsFilter;
use ottla_protocol::messages::delete_acls_response::DeleteAclsMatchingAcl;
use ottla_protocol::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::codes::{AclOperation, AclPatternType, AclPermission, AclResourceType};
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::{left_out, only};
use crate::call::{About, Asked, ByItem, Call, Retry, Rows, Target, controller};
use crate::error::{Error, Item};

verbs! {
    describe_acls: DescribeAcls,
    create_acls: CreateAcls,
    delete_acls: DeleteAcls,
}

const LITERAL: i8 = 3;

/// The first version with prefixed patterns (KIP-290); before it, all patterns are literal.
const PATTERNS: i16 = 1;

/// A rule of an ACL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AclBinding {
    /// The type of the resources.
    pub resource_type: AclResourceType,
    /// Their name, or its beginning.
    pub name: String,
    /// How the name matches.
    pub pattern_type: AclPatternType,
    /// The principal, such as `User:alice`.
    pub principal: String,
    /// From which host; `*` is any.
    pub host: String,
    /// What.
    pub operation: AclOperation,
    /// Whether it is allowed.
    pub permission: AclPermission,
}

impl From<AclBinding> for Item {
    fn from(it: AclBinding) -> Item {
        let fields = [
            ("resource_type", it.resource_type.name()),
            ("name", it.name),
            ("pattern_type", it.pattern_type.name()),
            ("principal", it.principal),
            ("host", it.host),
            ("operation", it.operation.name()),
            ("permission", it.permission.name()),
        ];
        let fields = fields.map(|(name, text)| (name, Item::Name(text)));
        Item::Object("AclBinding", fields.into())
    }
}

/// Which rules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AclFilter {
    /// The type of the resources.
    pub resource_type: AclResourceType,
    /// Their name; `None` for any.
    pub name: Option<String>,
    /// How the name matches.
    pub pattern_type: AclPatternType,
    /// The principal; `None` for any.
    pub principal: Option<String>,
    /// From which host; `None` for any.
    pub host: Option<String>,
    /// What.
    pub operation: AclOperation,
    /// Whether it is allowed.
    pub permission: AclPermission,
}

impl From<AclFilter> for Item {
    fn from(it: AclFilter) -> Item {
        let optional = |text: Option<String>| text.map_or(Item::Nothing, Item::Name);
        let fields = vec![
            ("resource_type", Item::Name(it.resource_type.name())),
            ("name", optional(it.name)),
            ("pattern_type", Item::Name(it.pattern_type.name())),
            ("principal", optional(it.principal)),
            ("host", optional(it.host)),
            ("operation", Item::Name(it.operation.name())),
            ("permission", Item::Name(it.permission.name())),
        ];
        Item::Object("AclFilter", fields)
    }
}

/// The versions that have all types of patterns in `kinds`.
fn versions(mut kinds: impl Iterator<Item = AclPatternType>) -> (i16, i16) {
    // At version 0 a filter finds literal patterns, which are all.
    let is_old = kinds.all(|kind| kind.0 <= LITERAL);
    (if is_old { 0 } else { PATTERNS }, i16::MAX)
}

fn pattern(kind: AclPatternType, version: i16) -> i8 {
    if version < PATTERNS { LITERAL } else { kind.0 }
}

/// Lists rules.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeAcls {
    /// Which.
    pub filter: AclFilter,
}

impl Call for DescribeAcls {
    type Found = Vec<AclBinding>;
    /// Sorted.
    type Answer = Rows<AclBinding>;
    const API: ApiKey = ApiKey::DescribeAcls;

    fn versions(&self) -> (i16, i16) {
        versions([self.filter.pattern_type].into_iter())
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let filter = &self.filter;
        Request::DescribeAcls(DescribeAclsRequest {
            resource_type_filter: filter.resource_type.0,
            resource_name_filter: filter.name.as_deref().map(Into::into),
            pattern_type_filter: pattern(filter.pattern_type, about.version),
            principal_filter: filter.principal.as_deref().map(Into::into),
            host_filter: filter.host.as_deref().map(Into::into),
            operation: filter.operation.0,
            permission_type: filter.permission.0,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeAcls(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref();
            return vec![Err(Error::from_code(code, text))];
        }
        let rows = answer.resources.iter().flat_map(|resource| {
            resource.acls.iter().map(|acl| AclBinding {
                resource_type: AclResourceType(resource.resource_type),
                name: resource.resource_name.to_string(),
                pattern_type: AclPatternType(resource.pattern_type),
                principal: acl.principal.to_string(),
                host: acl.host.to_string(),
                operation: AclOperation(acl.operation),
                permission: AclPermission(acl.permission_type),
            })
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        vec![Ok(rows)]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the rules").map(Rows)
    }
}

/// Adds rules. An item is a rule; one that is there stays.
#[derive(Clone, Debug, Deserialize)]
pub struct CreateAcls {
    /// The rules.
    pub acls: Vec<AclBinding>,
}

impl Call for CreateAcls {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::CreateAcls;

    fn versions(&self) -> (i16, i16) {
        versions(self.acls.iter().map(|acl| acl.pattern_type))
    }

    fn items(&self) -> usize {
        self.acls.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.acls.get(*item));
        let creations = wanted.map(|acl| AclCreation {
            resource_type: acl.resource_type.0,
            resource_name: acl.name.as_str().into(),
            resource_pattern_type: pattern(acl.pattern_type, about.version),
            principal: acl.principal.as_str().into(),
            host: acl.host.as_str().into(),
            operation: acl.operation.0,
            permission_type: acl.permission.0,
            ..Default::default()
        });
        Request::CreateAcls(CreateAclsRequest {
            creations: creations.collect(),
            ..Default::default()
        })
    }

    /// The results have the order of the rules.
    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::CreateAcls(answer) = response else {
            return Vec::new();
        };
        let rows = answer.results.iter().take(items.len());
        let results = rows.map(|row| match ErrorCode(row.error_code) {
            code if code.is_error() => Err(Error::from_code(code, row.error_message.as_deref())),
            _ => Ok(()),
        });
        results.collect()
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.acls, found)
    }
}

/// Deletes rules. An item is a filter; its result are the rules that it matched.
#[derive(Clone, Debug, Deserialize)]
pub struct DeleteAcls {
    /// Which.
    pub filters: Vec<AclFilter>,
}

impl Call for DeleteAcls {
    type Found = Rows<AclBinding>;
    type Answer = ByItem<Rows<AclBinding>>;
    const API: ApiKey = ApiKey::DeleteAcls;

    fn versions(&self) -> (i16, i16) {
        versions(self.filters.iter().map(|filter| filter.pattern_type))
    }

    fn items(&self) -> usize {
        self.filters.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.filters.get(*item));
        let filters = wanted.map(|filter| DeleteAclsFilter {
            resource_type_filter: filter.resource_type.0,
            resource_name_filter: filter.name.as_deref().map(Into::into),
            pattern_type_filter: pattern(filter.pattern_type, about.version),
            principal_filter: filter.principal.as_deref().map(Into::into),
            host_filter: filter.host.as_deref().map(Into::into),
            operation: filter.operation.0,
            permission_type: filter.permission.0,
            ..Default::default()
        });
        Request::DeleteAcls(DeleteAclsRequest {
            filters: filters.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DeleteAcls(answer) = response else {
            return Vec::new();
        };
        let mut rows = answer.filter_results.iter();
        let results = items.iter().map(|_| {
            let row = rows.next().ok_or_else(|| left_out("a filter"))?;
            let code = ErrorCode(row.error_code);
            if code.is_error() {
                return Err(Error::from_code(code, row.error_message.as_deref()));
            }
            let deleted = row.matching_acls.iter().map(deleted);
            let mut deleted = deleted.collect::<Result<Vec<_>, Error>>()?;
            deleted.sort();
            Ok(Rows(deleted))
        });
        results.collect()
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.filters, found)
    }
}

fn deleted(row: &DeleteAclsMatchingAcl) -> Result<AclBinding, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        let text = row.error_message.as_deref();
        // Other rules of the filter may be deleted.
        return Err(Error::from_code(code, text).maybe_done());
    }
    Ok(AclBinding {
        resource_type: AclResourceType(row.resource_type),
        name: row.resource_name.to_string(),
        pattern_type: AclPatternType(row.pattern_type),
        principal: row.principal.to_string(),
        host: row.host.to_string(),
        operation: AclOperation(row.operation),
        permission: AclPermission(row.permission_type),
    })
}
