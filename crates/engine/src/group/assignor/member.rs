//! Members and their metadata, the topics to assign, and the trait of an assignor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::consumer_protocol::Subscription;
use crate::metadata::Metadata;

/// A topic's name and a partition's number.
pub type TopicPartition = (Arc<str>, i32);

/// The partitions of each member, by its id. Every member has an entry.
pub type Assignments = BTreeMap<Arc<str>, Vec<TopicPartition>>;

/// What members do with their partitions when a rebalance begins (KIP-429).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RebalanceProtocol {
    /// Members revoke all partitions before they join again.
    Eager,
    /// Members keep their partitions, and revoke only what the new assignment lacks.
    Cooperative,
}

/// A member of a group, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id that the coordinator gave it.
    pub id: Arc<str>,
    /// Its `group.instance.id` if it is a static member (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// Its metadata for the group.
    pub subscription: Subscription,
}

/// The partitions that a member owns, or owned before the rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its partitions; `None` if it was never assigned any.
    pub partitions: Option<Vec<TopicPartition>>,
    /// The generation in which it got them; -1 if none.
    pub generation: i32,
}

/// The racks of a topic's replicas: entry `n` has those of partition `n`.
pub type ReplicaRacks = Vec<Vec<Arc<str>>>;

/// The topics that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics(BTreeMap<Arc<str>, ReplicaRacks>);

/// Decides who gets which partition.
///
/// An assignor keeps nothing between calls.
pub trait Assignor: fmt::Debug + Send + Sync {
    /// Its name in JoinGroup, by which members agree on one.
    fn name(&self) -> &'static str;

    /// The rebalance protocols of its members, the preferred first.
    fn protocols(&self) -> &'static [RebalanceProtocol];

    /// The user data that a member adds to its subscription for this assignor.
    fn user_data(&self, owned: &Owned) -> Option<Bytes>;

    /// Assigns the partitions of all `topics` that any member subscribed to. `members` are in the
    /// order of the coordinator's response, which decides among equals as it does in Kafka; of
    /// members with the same id the last one counts.
    ///
    /// In the cooperative protocol, a partition that moves is in no list: its owner revokes it
    /// first, and the rebalance that follows assigns it.
    fn assign(&self, topics: &Topics, members: &[Member]) -> Assignments;
}

impl Topics {
    /// The topics of the metadata that `names` has. A topic whose partitions are not numbered from
    /// 0 without a gap ends before the gap.
    pub fn of<'a>(view: &Metadata, names: impl IntoIterator<Item = &'a str>) -> Topics {
        let mut topics = Topics::default();
        for topic in names.into_iter().filter_map(|name| view.topic(name)) {
            let numbered = topic.partitions.iter().zip(0..);
            let racks = numbered
                .take_while(|((number, _), expected)| *number == expected)
                .map(|((_, partition), _)| {
                    let nodes = partition.replicas.iter().filter_map(|id| view.node(*id));
                    nodes
                        .filter_map(|node| node.rack.as_deref().map(Arc::from))
                        .collect()
                });
            topics.insert(Arc::clone(&topic.name), racks.collect());
        }
        topics
    }

    /// Adds a topic; one without partitions does not count.
    pub fn insert(&mut self, name: Arc<str>, partitions: ReplicaRacks) {
        self.0.insert(name, partitions);
    }

    /// The topics with their numbers of partitions.
    pub(in crate::group) fn counts(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.0.iter().map(|(name, racks)| (name, racks.len()))
    }

    /// The racks of each partition of a topic, if it exists and has partitions.
    pub(in crate::group) fn partitions(&self, name: &str) -> Option<(&Arc<str>, &ReplicaRacks)> {
        let (name, partitions) = self.0.get_key_value(name)?;
        (!partitions.is_empty()).then_some((name, partitions))
    }
}
