//! The view of the cluster: brokers, topics, who leads which partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::messages::MetadataResponse;
use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use ottla_protocol::{ErrorCode, Uuid};
use rustc_hash::FxHashMap;

/// A broker as the cluster advertises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: u16,
    /// Its rack, if it names one.
    pub rack: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its leader's id; -1 if it has none.
    pub leader: i32,
    /// The leader's epoch; -1 if the broker does not tell.
    pub leader_epoch: i32,
    /// Brokers that hold a replica.
    pub replicas: Vec<i32>,
    /// Brokers whose replica is in sync.
    pub in_sync: Vec<i32>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; zero if the broker does not tell.
    pub id: Uuid,
    /// Its partitions by number.
    pub partitions: BTreeMap<i32, Partition>,
}

/// What the cluster was last known to look like.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    nodes: BTreeMap<i32, Node>,
    topics: FxHashMap<Arc<str>, Topic>,
    names: FxHashMap<Uuid, Arc<str>>,
    problems: FxHashMap<Arc<str>, ErrorCode>,
    controller: i32,
}

impl Metadata {
    /// The brokers, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The broker with this id.
    pub fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The controller's id; `None` if there is none.
    pub fn controller(&self) -> Option<i32> {
        (self.controller >= 0).then_some(self.controller)
    }

    /// The topic with this name, if it is known to exist.
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// The name of the topic with this id.
    pub fn name_of(&self, id: Uuid) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// Why the topic with this name is not known.
    pub fn problem(&self, name: &str) -> Option<ErrorCode> {
        self.problems.get(name).copied()
    }

    /// The partition, if it is known to exist.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(&partition)
    }

    /// The partition's leader and its epoch, if it has one that is a known broker.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(i32, i32)> {
        let partition = self.partition(topic, partition)?;
        self.nodes
            .contains_key(&partition.leader)
            .then_some((partition.leader, partition.leader_epoch))
    }

    /// Takes in an answer. Brokers are replaced; topics only where the answer names them.
    pub(crate) fn update(&mut self, answer: &MetadataResponse) {
        self.nodes = answer
            .brokers
            .iter()
            .rev() // of duplicates the first wins
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok().filter(|port| *port != 0)?;
                let rack = broker.rack.as_ref().map(|rack| rack.to_string());
                Some((
                    broker.node_id,
                    Node {
                        id: broker.node_id,
                        host: broker.host.to_string(),
                        port,
                        rack,
                    },
                ))
            })
            .collect();
        self.controller = answer.controller_id;
        for topic in &answer.topics {
            self.update_topic(topic);
        }
    }

    fn update_topic(&mut self, answer: &MetadataResponseTopic) {
        let Some(name) = answer.name.as_deref() else {
            return;
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            self.forget(name);
            self.problems.insert(name.into(), code);
            return;
        }
        self.problems.remove(name);
        let before = self.topics.remove(name);
        // A topic that was deleted and made anew begins with epoch 0 again, under another id.
        let before = before.filter(|topic| topic.id == answer.topic_id);
        let mut topic = Topic {
            name: before
                .as_ref()
                .map_or_else(|| name.into(), |topic| Arc::clone(&topic.name)),
            id: answer.topic_id,
            partitions: BTreeMap::new(),
        };
        for row in answer
            .partitions
            .iter()
            .filter(|row| row.partition_index >= 0)
        {
            let fresh = Partition {
                leader: row.leader_id,
                leader_epoch: row.leader_epoch,
                replicas: row.replica_nodes.to_vec(),
                in_sync: row.isr_nodes.to_vec(),
            };
            let known = before
                .as_ref()
                .and_then(|topic| topic.partitions.get(&row.partition_index));
            // A broker that lags behind tells of a leader of the past.
            let kept = known
                .filter(|known| fresh.leader_epoch >= 0 && known.leader_epoch > fresh.leader_epoch);
            topic
                .partitions
                .entry(row.partition_index)
                .or_insert_with(|| kept.cloned().unwrap_or(fresh));
        }
        if topic.id != Uuid::ZERO {
            self.names.insert(topic.id, Arc::clone(&topic.name));
        }
        self.topics.insert(Arc::clone(&topic.name), topic);
    }

    /// Takes in a leader that a Produce or Fetch answer hinted at (KIP-951); only news count.
    pub(crate) fn hint(&mut self, topic: &str, partition: i32, leader: i32, epoch: i32) {
        let known = self.nodes.contains_key(&leader);
        let entry = self
            .topics
            .get_mut(topic)
            .and_then(|topic| topic.partitions.get_mut(&partition));
        if let Some(entry) = entry.filter(|entry| known && epoch > entry.leader_epoch) {
            entry.leader = leader;
            entry.leader_epoch = epoch;
        }
    }

    /// Forgets what is not wanted, or was never asked for: the view must not grow with each answer.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.topics.retain(|name, _| wanted(name));
        self.problems.retain(|name, _| wanted(name));
        let topics = &self.topics;
        self.names
            .retain(|id, name| topics.get(name).is_some_and(|topic| topic.id == *id));
    }

    fn forget(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.id);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ottla_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition,
    };

    use super::*;

    /// An answer with brokers 1 to `nodes` on host `b<id>`, port 9092, and topics with the leaders given.
    pub(crate) fn answer(nodes: i32, topics: &[(&str, &[i32])]) -> MetadataResponse {
        let brokers = (1..=nodes)
            .map(|node_id| MetadataResponseBroker {
                node_id,
                host: format!("b{node_id}").into(),
                port: 9092,
                ..Default::default()
            })
            .collect();
        let topics = topics
            .iter()
            .map(|(name, leaders)| MetadataResponseTopic {
                name: Some((*name).into()),
                topic_id: Uuid([u8::try_from(name.len()).unwrap(); 16]),
                partitions: leaders
                    .iter()
                    .zip(0..)
                    .map(|(leader, partition_index)| MetadataResponsePartition {
                        partition_index,
                        leader_id: *leader,
                        leader_epoch: 1,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        MetadataResponse {
            brokers,
            topics,
            controller_id: 1,
            ..Default::default()
        }
    }

    #[test]
    fn an_older_epoch_does_not_bring_back_a_leader() {
        let mut view = Metadata::default();
        view.update(&answer(3, &[("t", &[1, 2])]));
        assert_eq!(view.leader("t", 1), Some((2, 1)));
        view.hint("t", 1, 3, 4);
        view.hint("t", 0, 9, 4);
        view.update(&answer(3, &[("t", &[1, 2])]));
        assert_eq!(view.leader("t", 1), Some((3, 4)));
        assert_eq!(view.leader("t", 0), Some((1, 1)));
        let mut anew = answer(3, &[("t", &[2, 2])]);
        anew.topics[0].topic_id = Uuid([9; 16]);
        view.update(&anew);
        assert_eq!(view.leader("t", 1), Some((2, 1)));
    }

    #[test]
    fn a_topic_with_an_error_is_unknown() {
        let mut view = Metadata::default();
        view.update(&answer(1, &[("t", &[1])]));
        let mut gone = answer(1, &[("t", &[])]);
        gone.topics[0].error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
        view.update(&gone);
        assert!(view.topic("t").is_none());
        assert_eq!(
            view.problem("t"),
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        );
    }

    #[test]
    fn a_leader_must_be_a_known_broker() {
        let mut view = Metadata::default();
        view.update(&answer(1, &[("t", &[-1, 7])]));
        assert_eq!((view.leader("t", 0), view.leader("t", 1)), (None, None));
    }
}
