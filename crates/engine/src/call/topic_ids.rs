//! Topics of committed offsets: by id in the newest versions of OffsetCommit, OffsetFetch and TxnOffsetCommit, by name before.
//!
//! An id identifies one topic of several that had its name. A broker rejects the id of a deleted topic, and accepts its name once
//! the topic was created again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::Uuid;

/// The highest version to use. Versions above `named` carry ids only, so they need the ids of all topics.
pub(super) fn most(named: i16, mut ids: impl Iterator<Item = Uuid>) -> i16 {
    match ids.all(|id| id != Uuid::ZERO) {
        true => i16::MAX,
        false => named,
    }
}

/// The rows of each topic. Two topics of one name differ by their ids.
pub(super) fn by_topic<'a, R>(
    rows: impl Iterator<Item = (&'a Arc<str>, Uuid, R)>,
) -> BTreeMap<(&'a Arc<str>, Uuid), Vec<R>> {
    let mut topics: BTreeMap<_, Vec<R>> = BTreeMap::new();
    for (name, id, row) in rows {
        topics.entry((name, id)).or_default().push(row);
    }
    topics
}

/// The name of a topic in a response, which has the id instead in versions with ids.
pub(super) fn name<'a>(
    mut asked: impl Iterator<Item = (&'a Arc<str>, Uuid)>,
    name: &'a str,
    id: Uuid,
) -> &'a str {
    if id == Uuid::ZERO {
        return name;
    }
    let found = asked.find(|(_, asked)| *asked == id);
    found.map_or(name, |(name, _)| name)
}
