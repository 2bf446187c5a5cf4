//! Access control lists, decided as Kafka's StandardAuthorizer does: a deny wins over any allow, and what nothing allows is
//! denied.
//!
//! Some operations imply others: who may read, write, delete or alter may describe, who may alter settings may describe them.
//! References: KIP-11, KIP-290 (prefixes), KIP-430 (the operations that a client may do), KIP-679 (idempotent writes).

mod codes;
pub(crate) mod text;

use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) use self::codes::{Operation, ResourceType};
use super::session::Principal;

/// The name of the one resource of type cluster.
pub(crate) const CLUSTER_NAME: &str = "kafka-cluster";
/// The principal and the resource name that stand for all.
const ANY: &str = "*";
const EVERYBODY: &str = "User:*";

/// What an operation is done to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resource<'a> {
    pub(crate) kind: ResourceType,
    pub(crate) name: &'a str,
}

impl<'a> Resource<'a> {
    pub(crate) const CLUSTER: Resource<'static> = Resource {
        kind: ResourceType::Cluster,
        name: CLUSTER_NAME,
    };

    pub(crate) fn topic(name: &'a str) -> Self {
        Self {
            kind: ResourceType::Topic,
            name,
        }
    }

    pub(crate) fn group(name: &'a str) -> Self {
        Self {
            kind: ResourceType::Group,
            name,
        }
    }

    pub(crate) fn transactional_id(name: &'a str) -> Self {
        Self {
            kind: ResourceType::TransactionalId,
            name,
        }
    }
}

/// One entry; ordered by resource, as DescribeAcls lists them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acl {
    pub(crate) kind: ResourceType,
    pub(crate) name: String,
    pub(crate) is_prefix: bool,
    pub(crate) principal: String,
    pub(crate) host: String,
    pub(crate) operation: Operation,
    pub(crate) allows: bool,
}

impl Acl {
    fn covers(&self, resource: Resource<'_>) -> bool {
        self.kind == resource.kind
            && if self.is_prefix {
                resource.name.starts_with(&self.name)
            } else {
                self.name == resource.name || self.name == ANY
            }
    }

    fn is_about(&self, principal: &Principal, host: &str) -> bool {
        let is_principal = self.principal == EVERYBODY
            || self.principal.strip_prefix("User:") == Some(&*principal.0);
        is_principal && (self.host == ANY || self.host == host)
    }

    fn denies(&self, operation: Operation) -> bool {
        !self.allows && (self.operation == Operation::All || self.operation == operation)
    }

    fn grants(&self, operation: Operation) -> bool {
        use Operation as O;
        let implies = match operation {
            O::Describe => matches!(self.operation, O::Read | O::Write | O::Delete | O::Alter),
            O::DescribeConfigs => self.operation == O::AlterConfigs,
            _ => false,
        };
        self.allows && (implies || self.operation == O::All || self.operation == operation)
    }
}

/// Which entries are meant; `None` is for any.
#[derive(Debug, Clone, Default)]
pub(crate) struct AclFilter {
    pub(crate) kind: Option<ResourceType>,
    pub(crate) name: Option<String>,
    pub(crate) pattern: PatternFilter,
    pub(crate) principal: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) operation: Option<Operation>,
    pub(crate) allows: Option<bool>,
}

/// How a filter's name is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PatternFilter {
    /// Entries with that name, prefixes or not.
    #[default]
    Any,
    /// Entries that cover that name.
    Match,
    Literal,
    Prefixed,
}

impl AclFilter {
    pub(crate) fn matches(&self, acl: &Acl) -> bool {
        fn is_any<T: PartialEq>(wanted: Option<&T>, value: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == value)
        }
        let is_named = match (self.pattern, &self.name) {
            (PatternFilter::Literal, _) if acl.is_prefix => false,
            (PatternFilter::Prefixed, _) if !acl.is_prefix => false,
            (_, None) => true,
            (PatternFilter::Match, Some(name)) => acl.covers(Resource {
                kind: acl.kind,
                name,
            }),
            (_, Some(name)) => *name == acl.name,
        };
        is_named
            && is_any(self.kind.as_ref(), &acl.kind)
            && is_any(self.principal.as_ref(), &acl.principal)
            && is_any(self.host.as_ref(), &acl.host)
            && is_any(self.operation.as_ref(), &acl.operation)
            && is_any(self.allows.as_ref(), &acl.allows)
    }
}

/// All entries, and those who stand above them.
#[derive(Debug, Default)]
pub(crate) struct Acls {
    entries: BTreeSet<Acl>,
    super_users: Vec<String>,
    allow_everyone_if_none: bool,
}

impl Acls {
    /// `super_users` are principals, such as `User:admin`; the flag is `allow.everyone.if.no.acl.found`.
    pub(crate) fn new(super_users: Vec<String>, allow_everyone_if_none: bool) -> Self {
        Self {
            entries: BTreeSet::new(),
            super_users,
            allow_everyone_if_none,
        }
    }

    pub(crate) fn insert(&mut self, acl: Acl) {
        self.entries.insert(acl);
    }

    pub(crate) fn matching<'a>(&'a self, filter: &'a AclFilter) -> impl Iterator<Item = &'a Acl> {
        self.entries.iter().filter(|acl| filter.matches(acl))
    }

    /// Removes the entries that a filter means, and gives them back.
    pub(crate) fn remove(&mut self, filter: &AclFilter) -> Vec<Acl> {
        let removed: Vec<Acl> = self.matching(filter).cloned().collect();
        self.entries.retain(|acl| !filter.matches(acl));
        removed
    }

    fn is_super(&self, principal: &Principal) -> bool {
        let is = |user: &String| user.strip_prefix("User:") == Some(&*principal.0);
        self.super_users.iter().any(is)
    }

    pub(crate) fn authorizes(
        &self,
        principal: &Principal,
        host: IpAddr,
        operation: Operation,
        resource: Resource<'_>,
    ) -> bool {
        if self.is_super(principal) {
            return true;
        }
        let host = host.to_string();
        let (mut is_covered, mut is_granted) = (false, false);
        for acl in self.entries.iter().filter(|acl| acl.covers(resource)) {
            is_covered = true;
            if acl.is_about(principal, &host) {
                if acl.denies(operation) {
                    return false;
                }
                is_granted |= acl.grants(operation);
            }
        }
        is_granted || (!is_covered && self.allow_everyone_if_none)
    }

    /// May it be done to at least one resource of a type, existing or not (KIP-679)?
    pub(crate) fn authorizes_any(
        &self,
        principal: &Principal,
        host: IpAddr,
        operation: Operation,
        kind: ResourceType,
    ) -> bool {
        if self.is_super(principal) || self.allow_everyone_if_none {
            return true;
        }
        let host = host.to_string();
        let about: Vec<&Acl> = self
            .entries
            .iter()
            .filter(|acl| acl.kind == kind && acl.is_about(principal, &host))
            .collect();
        let is_shadowed = |granted: &Acl| {
            about
                .iter()
                .filter(|acl| acl.denies(operation))
                .any(|deny| {
                    if deny.is_prefix {
                        granted.name.starts_with(&deny.name)
                    } else {
                        deny.name == ANY || (!granted.is_prefix && deny.name == granted.name)
                    }
                })
        };
        let mut grants = about.iter().filter(|acl| acl.grants(operation));
        grants.any(|acl| !is_shadowed(acl))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn acls(lines: &[&str]) -> Acls {
        let mut acls = Acls::new(vec!["User:root".to_owned()], false);
        for line in lines {
            for acl in text::parse(line).unwrap() {
                acls.insert(acl);
            }
        }
        acls
    }

    fn may(acls: &Acls, who: &'static str, operation: Operation, topic: &str) -> bool {
        acls.authorizes(
            &Principal(who.into()),
            HERE,
            operation,
            Resource::topic(topic),
        )
    }

    #[test]
    fn what_is_not_allowed_is_denied_and_a_deny_wins() {
        use Operation::{Delete, Describe, Read, Write};
        let acls = acls(&[
            "alice read,write topic:flights-*",
            "deny alice write topic:flights-secret",
            "* describe topic:public",
            "bob all topic:*",
            "deny bob all topic:b-* from 127.0.0.1",
            "deny bob read topic:c from 127.0.0.9",
        ]);
        assert!(may(&acls, "alice", Read, "flights-1") && may(&acls, "alice", Write, "flights-"));
        assert!(!may(&acls, "alice", Read, "flights") && !may(&acls, "alice", Delete, "flights-1"));
        assert!(
            !may(&acls, "alice", Write, "flights-secret")
                && may(&acls, "alice", Read, "flights-secret")
        );
        // Read implies describe, and denying write does not take it away.
        assert!(may(&acls, "alice", Describe, "flights-secret"));
        assert!(may(&acls, "carol", Describe, "public") && !may(&acls, "carol", Read, "public"));
        assert!(may(&acls, "bob", Delete, "a") && !may(&acls, "bob", Describe, "b-1"));
        assert!(may(&acls, "bob", Read, "c"), "the deny is for another host");
        assert!(may(&acls, "root", Write, "flights-secret"));
        assert!(!acls.authorizes(&Principal("bob".into()), HERE, Read, Resource::group("g")));
    }

    #[test]
    fn without_any_entry_of_a_resource_the_setting_decides() {
        let mut acls = acls(&["alice read topic:a"]);
        acls.allow_everyone_if_none = true;
        assert!(
            may(&acls, "bob", Operation::Write, "b") && !may(&acls, "bob", Operation::Read, "a")
        );
    }

    #[test]
    fn any_topic_will_do_for_idempotent_writes() {
        let any = |lines: &[&str]| {
            let who = Principal("alice".into());
            acls(lines).authorizes_any(&who, HERE, Operation::Write, ResourceType::Topic)
        };
        assert!(any(&["alice write topic:a"]) && any(&["* all topic:a-*"]));
        assert!(!any(&["alice read topic:a"]) && !any(&["alice write group:a"]) && !any(&[]));
        assert!(!any(&["alice write topic:a", "deny alice write topic:*"]));
        assert!(!any(&["alice write topic:ab", "deny alice write topic:a*"]));
        assert!(any(&["alice write topic:a*", "deny alice write topic:a"]));
    }

    #[test]
    fn filters_select_by_name_by_prefix_and_by_what_covers_a_name() {
        let acls = acls(&[
            "alice read topic:a",
            "alice read topic:a*",
            "alice read topic:*",
            "bob write group:a",
        ]);
        let count = |pattern, name: Option<&str>| {
            let filter = AclFilter {
                kind: Some(ResourceType::Topic),
                name: name.map(str::to_owned),
                pattern,
                ..AclFilter::default()
            };
            acls.matching(&filter).count()
        };
        assert_eq!(count(PatternFilter::Any, None), 3);
        assert_eq!(count(PatternFilter::Any, Some("a")), 2);
        assert_eq!(count(PatternFilter::Literal, Some("a")), 1);
        assert_eq!(count(PatternFilter::Prefixed, None), 1);
        assert_eq!(count(PatternFilter::Match, Some("a")), 3);
        assert_eq!(count(PatternFilter::Match, Some("b")), 1);
        let mut acls = acls;
        let bobs = AclFilter {
            principal: Some("User:bob".to_owned()),
            ..AclFilter::default()
        };
        assert_eq!(acls.remove(&bobs).len(), 1);
        assert_eq!(acls.matching(&AclFilter::default()).count(), 3);
    }
}
