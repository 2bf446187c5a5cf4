//! ACLs as a line of text: `[allow|deny] PRINCIPAL OPERATION[,OPERATION] TYPE:NAME [from HOST]`.
//!
//! A name that ends with `*` is a prefix, and `*` alone is every name. A principal is a user's name, `User:NAME`, or `*`; one
//! with blanks stands in double quotes. `cluster` needs no name.

use super::{ANY, Acl, CLUSTER_NAME, EVERYBODY, Operation, ResourceType};

/// The entries that a line stands for, one for each operation.
///
/// # Errors
/// A sentence about the line, with its form.
pub(crate) fn parse(line: &str) -> Result<Vec<Acl>, String> {
    read(line).map_err(|what| {
        format!(
            "ACL \"{line}\": {what}; the form is `[allow|deny] PRINCIPAL OPERATION[,OPERATION] TYPE:NAME [from HOST]`, as in \
             \"alice read,describe topic:flights-*\""
        )
    })
}

fn read(line: &str) -> Result<Vec<Acl>, String> {
    let mut words = words(line)?.into_iter().peekable();
    let allows = match words.peek().map(String::as_str) {
        Some("allow") => words.next().is_some(),
        Some("deny") => words.next().is_none(),
        _ => true,
    };
    let mut next = |what: &str| words.next().ok_or_else(|| format!("it has no {what}"));
    let principal = principal(next("principal")?);
    let operations = next("operation")?;
    let (kind, name) = resource(&next("resource")?)?;
    let host = match words.next().as_deref() {
        None => ANY.to_owned(),
        Some("from") => words.next().ok_or("`from` needs a host")?,
        Some(other) => return Err(format!("\"{other}\" is too much")),
    };
    if let Some(more) = words.next() {
        return Err(format!("\"{more}\" is too much"));
    }
    let (name, is_prefix) = match name.strip_suffix('*') {
        Some(prefix) if !prefix.is_empty() => (prefix.to_owned(), true),
        _ => (name, false),
    };
    let entry = |operation: &str| {
        let operation = Operation::from_name(operation).ok_or_else(|| {
            format!(
                "there is no operation \"{operation}\"; there are {}",
                names(Operation::ALL, Operation::name)
            )
        })?;
        Ok(Acl {
            kind,
            name: name.clone(),
            is_prefix,
            principal: principal.clone(),
            host: host.clone(),
            operation,
            allows,
        })
    };
    operations.split(',').map(entry).collect()
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    let names: Vec<&str> = all.iter().map(|each| name(*each)).collect();
    names.join(", ")
}

/// A principal as ACLs have it: `User:NAME`, or `User:*` for all.
pub(crate) fn principal(given: String) -> String {
    if given == ANY {
        EVERYBODY.to_owned()
    } else if given.starts_with("User:") {
        given
    } else {
        format!("User:{given}")
    }
}

fn resource(given: &str) -> Result<(ResourceType, String), String> {
    let (kind, name) = given.split_once(':').unwrap_or((given, ""));
    let kind = ResourceType::from_name(kind).ok_or_else(|| {
        format!(
            "there is no resource type \"{kind}\"; there are {}",
            names(ResourceType::ALL, ResourceType::name)
        )
    })?;
    match (kind, name) {
        (ResourceType::Cluster, "" | ANY | CLUSTER_NAME) => Ok((kind, CLUSTER_NAME.to_owned())),
        (ResourceType::Cluster, _) => Err(format!(
            "the cluster is called {CLUSTER_NAME}, or not at all"
        )),
        (_, "") => Err(format!(
            "{} needs a name: {}:NAME, {0}:PREFIX*, or {0}:*",
            kind.name(),
            kind.name()
        )),
        _ => Ok((kind, name.to_owned())),
    }
}

/// The words between blanks; double quotes hold one together.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or("a double quote is not closed")?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let [read, describe] = &parse("alice read,Describe_Configs topic:flights-*").unwrap()[..]
        else {
            panic!("two operations");
        };
        assert_eq!(
            (read.operation, describe.operation),
            (Operation::Read, Operation::DescribeConfigs)
        );
        assert_eq!(
            (read.kind, &*read.name, read.is_prefix),
            (ResourceType::Topic, "flights-", true)
        );
        assert_eq!(
            (&*read.principal, &*read.host, read.allows),
            ("User:alice", "*", true)
        );
        let deny = &parse("deny \"User:CN=a b\" all transactional-id:* from ::1").unwrap()[0];
        assert_eq!(
            (&*deny.principal, &*deny.host, deny.allows),
            ("User:CN=a b", "::1", false)
        );
        assert_eq!((&*deny.name, deny.is_prefix), ("*", false));
        let cluster = &parse("allow * create cluster").unwrap()[0];
        assert_eq!(
            (&*cluster.principal, &*cluster.name),
            ("User:*", CLUSTER_NAME)
        );
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_and_the_form() {
        for (line, what) in [
            ("", "no principal"),
            ("alice", "no operation"),
            ("alice read", "no resource"),
            ("alice red topic:a", "\"red\"; there are all, read"),
            ("alice read topics:a", "\"topics\"; there are topic"),
            ("alice read topic", "topic:NAME"),
            ("alice read cluster:x", "kafka-cluster"),
            ("alice read topic:a from", "needs a host"),
            ("alice read topic:a b", "\"b\" is too much"),
            ("\"alice read topic:a", "not closed"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(
                error.contains(what) && error.contains("PRINCIPAL OPERATION"),
                "{error}"
            );
        }
    }
}
