//! Topics of committed offsets: by id in the newest versions of OffsetCommit, OffsetFetch and TxnOffsetCommit, by name before.
//!
//! An id identifies one topic of several that had its name. A broker rejects the id of a deleted topic, and accepts its name once
//! the topic was created again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::{ErrorCode, Uuid};

use crate::error::Error;

/// How a request names its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By their ids, in versions that have nothing else. A broker without them is an error, and is sent nothing.
    Ids,
    /// By their names, in the versions before.
    Names,
}

/// Whether a commit with this error is of no use again: a topic that was deleted does not come back, and another one may get its
/// name.
pub(super) fn is_deleted(error: &Error) -> bool {
    let deleted = [
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::UNKNOWN_TOPIC_ID,
    ];
    error.code().is_some_and(|code| deleted.contains(&code))
}

/// The error of a commit for a partition whose topic was deleted.
pub(super) fn deleted(error: Error) -> Error {
    let text = "nothing was committed for the partition: its topic was deleted after the records were read, and may have been \
                created again, where the offset is of no use. The consumer reads a topic that was created again from its \
                beginning";
    let kind = error.kind();
    error.wrap(kind, text).with_retriable(false)
}

/// The error of a commit that was not sent, as versions without topic ids would commit the offset
/// to another topic: the one of the offset was deleted, and created again.
pub(crate) fn outdated(
    api: &'static str,
    group: &Arc<str>,
    (topic, partition): &(Arc<str>, i32),
) -> Error {
    let error = Error::from_code(ErrorCode::UNKNOWN_TOPIC_ID, None).calling(api);
    deleted(error.with_group(group).with_partition(topic, *partition))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Uuid = Uuid([1; 16]);
    const TWO: Uuid = Uuid([2; 16]);

    fn topic(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn versions_with_ids_only_need_all_ids() {
        assert_eq!(most(9, [ONE, TWO].into_iter()), i16::MAX);
        assert_eq!(most(9, [ONE, Uuid::ZERO].into_iter()), 9);
    }

    #[test]
    fn two_topics_of_one_name_stay_apart() {
        let t = topic("t");
        let rows = [(&t, ONE, 0), (&t, TWO, 0), (&t, ONE, 1)];
        let topics = by_topic(rows.into_iter());
        let topics: Vec<_> = topics.into_iter().collect();
        assert_eq!(topics, [((&t, ONE), vec![0, 1]), ((&t, TWO), vec![0])]);
    }

    #[test]
    fn a_response_names_a_topic_by_its_id_or_its_name() {
        let (t, u) = (topic("t"), topic("u"));
        let asked = || [(&t, ONE), (&u, TWO)].into_iter();
        assert_eq!(name(asked(), "", TWO), "u");
        assert_eq!(name(asked(), "t", Uuid::ZERO), "t");
        // Nobody was asked about this one: it matches no partition.
        assert_eq!(name(asked(), "", Uuid([3; 16])), "");
    }

    #[test]
    fn an_outdated_offset_is_no_success_later() {
        let error = outdated("OffsetCommit", &topic("g"), &(topic("t"), 3));
        assert_eq!((error.topic(), error.partition()), (Some("t"), Some(3)));
        assert!(is_deleted(&error) && !error.is_retriable());
    }
}
