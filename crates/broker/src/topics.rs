//! The topics of a node and its replicas of their partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::{ErrorCode, Str, Uuid};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::config::Values;
use crate::storage::replica::Replica;

/// The topic that committed offsets are written to.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// The topic that transactional ids are written to.
pub(crate) const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// The topic that is written to what share groups are done with.
pub(crate) const SHARE_STATE_TOPIC: &str = "__share_group_state";

/// Whether the topic is the broker's own.
pub(crate) fn is_internal(name: &str) -> bool {
    matches!(name, OFFSETS_TOPIC | TRANSACTIONS_TOPIC | SHARE_STATE_TOPIC)
}

/// A topic as it is at one moment; it is replaced, not changed, when partitions are added.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Str,
    pub(crate) id: Uuid,
    pub(crate) values: Values,
    pub(crate) partitions: Vec<Arc<Mutex<Replica>>>,
}

impl Topic {
    pub(crate) fn is_internal(&self) -> bool {
        is_internal(&self.name)
    }

    /// The node's replica of a partition.
    pub(crate) fn partition(&self, index: i32) -> Result<&Mutex<Replica>, ErrorCode> {
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| self.partitions.get(index));
        found
            .map(AsRef::as_ref)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Str, Arc<Topic>>,
    names: FxHashMap<Uuid, Str>,
    version: u64,
}

impl Topics {
    pub(crate) fn insert(&mut self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        self.version += 1;
        self.names.insert(topic.id, topic.name.clone());
        self.by_name.insert(topic.name.clone(), Arc::clone(&topic));
        topic
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<Topic>> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        self.version += 1;
        Some(topic)
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_name.get(self.names.get(&id)?)
    }

    /// A number that grows whenever a topic comes, goes or changes.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// All topics, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// The topic whose metrics would be taken for those of a topic called `name`, as Kafka counts it: "." and "_" alike.
    pub(crate) fn colliding(&self, name: &str) -> Option<&Str> {
        let alike =
            |other: &str| other.bytes().map(unify).eq(name.bytes().map(unify)) && other != name;
        self.by_name.keys().find(|other| alike(other))
    }
}

fn unify(byte: u8) -> u8 {
    if byte == b'.' { b'_' } else { byte }
}

/// Whether `name` may be a topic's.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    const LONGEST: usize = 249;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Err("a topic's name cannot be empty".to_owned())
    } else if name == "." || name == ".." {
        Err(format!("a topic's name cannot be \"{name}\""))
    } else if name.len() > LONGEST {
        Err(format!(
            "a topic's name cannot be longer than {LONGEST} characters, this one has {}",
            name.len()
        ))
    } else if !name.bytes().all(is_legal) {
        Err(format!(
            "topic name \"{name}\" holds something other than ASCII letters, digits, '.', '_' and '-'"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &'static str, id: u8) -> Topic {
        let id = Uuid([id; 16]);
        Topic {
            name: name.into(),
            id,
            values: Values::default(),
            partitions: Vec::new(),
        }
    }

    #[test]
    fn names_are_kafkas() {
        for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", &"x".repeat(250)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn found_by_name_and_id_until_removed() {
        let mut topics = Topics::default();
        topics.insert(topic("a.b", 1));
        assert_eq!(
            topics.by_id(Uuid([1; 16])).unwrap().name,
            topics.by_name("a.b").unwrap().name
        );
        assert_eq!(topics.colliding("a_b").map(|name| &**name), Some("a.b"));
        assert_eq!(topics.colliding("a.b"), None);
        topics.remove("a.b");
        assert!(topics.by_id(Uuid([1; 16])).is_none() && topics.by_name("a.b").is_none());
    }
}
