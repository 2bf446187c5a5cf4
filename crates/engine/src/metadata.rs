//! The cluster's metadata: brokers, topics, and the leader of each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::messages::MetadataResponse;
use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use ottla_protocol::{ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::config::is_host;
use crate::error::Error;
use crate::observe::{Observed, Observer};

/// The first version of Metadata whose leader epochs are reliable: before it, a broker returns old
/// ones for as long as replicas are being reassigned, and a Fetch that carries one is fenced.
const RELIABLE_EPOCHS: i16 = 9;

/// With this many brokers no more are taken from responses other than Metadata's: no peer may make
/// the metadata grow without limit.
const MOST_MET: usize = 4096;

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

impl Node {
    /// A broker as a response names it; `None` where it could not be connected to. No broker has a
    /// negative id.
    pub(crate) fn new(id: i32, host: &str, port: i32, rack: Option<String>) -> Option<Node> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        (id >= 0 && is_host(host)).then(|| Node {
            id,
            host: host.to_owned(),
            port,
            rack,
        })
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its leader's id; -1 if it has none.
    pub leader: i32,
    /// The leader's epoch; -1 if the broker does not return one, or no reliable one (before version
    /// 9 of Metadata).
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
    /// Its id; zero if the broker does not return one.
    pub id: Uuid,
    /// Its partitions by number.
    pub partitions: BTreeMap<i32, Partition>,
}

/// The last known state of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    nodes: BTreeMap<i32, Node>,
    topics: FxHashMap<Arc<str>, Topic>,
    names: FxHashMap<Uuid, Arc<str>>,
    problems: FxHashMap<Arc<str>, Problem>,
    controller: i32,
    cluster_id: Option<String>,
}

/// Why a topic is not known.
#[derive(Clone, Copy, Debug)]
struct Problem {
    code: ErrorCode,
    /// The topic's id when it was last known; zero if it never was, or had none.
    last_id: Uuid,
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

    /// The controller's id; `None` if there is no controller.
    pub fn controller(&self) -> Option<i32> {
        (self.controller >= 0).then_some(self.controller)
    }

    /// The cluster's id, if a broker returned it.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
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
        self.problems.get(name).map(|problem| problem.code)
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

    /// Handles a response that came in this `version` of Metadata, and reports to `observer` what
    /// changed. Brokers are replaced; topics only where the response names them. Returns whether what
    /// was known before may have changed: brokers, or one of its topics.
    pub(crate) fn update(
        &mut self,
        answer: &MetadataResponse,
        version: i16,
        observer: &mut Observer,
    ) -> bool {
        let nodes = answer
            .brokers
            .iter()
            .rev() // of duplicates the first wins
            .filter_map(|broker| {
                let rack = broker.rack.as_ref().map(|rack| rack.to_string());
                Node::new(broker.node_id, &broker.host, broker.port, rack)
            })
            .map(|node| (node.id, node))
            .collect();
        // Whether a partition has a leader depends on the brokers.
        let mut changed = self.nodes != nodes;
        self.nodes = nodes;
        if let Some(cluster_id) = &answer.cluster_id {
            self.cluster_id = Some(cluster_id.to_string());
        }
        self.controller = answer.controller_id;
        for topic in &answer.topics {
            let name = topic.name.as_deref();
            changed |= name.is_some_and(|name| self.topics.contains_key(name));
            self.update_topic(topic, version >= RELIABLE_EPOCHS, observer);
        }
        changed
    }

    fn update_topic(
        &mut self,
        answer: &MetadataResponseTopic,
        reliable_epochs: bool,
        observer: &mut Observer,
    ) {
        let Some(name) = answer.name.as_deref() else {
            return;
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            self.lose(name, code, observer);
            return;
        }
        let mut topic = Topic {
            name: self
                .topics
                .get(name)
                .map_or_else(|| name.into(), |topic| Arc::clone(&topic.name)),
            id: answer.topic_id,
            partitions: BTreeMap::new(),
        };
        for row in answer
            .partitions
            .iter()
            .filter(|row| row.partition_index >= 0)
        {
            topic
                .partitions
                .entry(row.partition_index)
                .or_insert_with(|| Partition {
                    leader: row.leader_id,
                    leader_epoch: if reliable_epochs {
                        row.leader_epoch
                    } else {
                        -1
                    },
                    replicas: row.replica_nodes.to_vec(),
                    in_sync: row.isr_nodes.to_vec(),
                });
        }
        let before = self.topics.remove(name);
        let lost = self.problems.remove(name);
        let last_id = before
            .as_ref()
            .map(|topic| topic.id)
            .or_else(|| lost.map(|problem| problem.last_id));
        if last_id.is_some_and(|id| id != Uuid::ZERO && topic.id != Uuid::ZERO && id != topic.id) {
            observer.tell(Observed::TopicRecreated {
                topic: Arc::clone(&topic.name),
            });
        } else if let Some(before) = before {
            topic.follow(before, observer);
        }
        if topic.id != Uuid::ZERO {
            self.names.insert(topic.id, Arc::clone(&topic.name));
        }
        self.topics.insert(Arc::clone(&topic.name), topic);
    }

    /// The topic is no longer known, or still unknown. Its id is kept, to recognize it when it
    /// comes back.
    fn lose(&mut self, name: &str, code: ErrorCode, observer: &mut Observer) {
        let before = self.topics.remove(name);
        let known = self.problems.get(name).copied();
        if let Some(topic) = &before {
            self.names.remove(&topic.id);
        }
        let last_id = before
            .as_ref()
            .map(|topic| topic.id)
            .or_else(|| known.map(|problem| problem.last_id))
            .unwrap_or(Uuid::ZERO);
        let name: Arc<str> = before.map_or_else(|| name.into(), |topic| topic.name);
        // A partition without a leader exists too.
        let is_news = known.is_none_or(|problem| problem.code != code);
        if is_news && code != ErrorCode::LEADER_NOT_AVAILABLE {
            observer.tell(Observed::TopicMissing {
                topic: Arc::clone(&name),
                cause: Error::from_code(code, None).with_topic(&name),
            });
        }
        self.problems.insert(name, Problem { code, last_id });
    }

    /// Adds a broker that a response named with a new leader (KIP-951). Its rack is not part of
    /// such a response.
    pub(crate) fn meet(&mut self, mut node: Node) {
        match self.nodes.get(&node.id) {
            Some(known) => node.rack.clone_from(&known.rack),
            None if self.nodes.len() >= MOST_MET => return,
            None => {}
        }
        self.nodes.insert(node.id, node);
    }

    /// Forgets the brokers and which cluster they are. Topics are kept, to recognize them if they are the same.
    pub(crate) fn forget_nodes(&mut self) {
        self.nodes.clear();
        self.controller = -1;
        self.cluster_id = None;
    }

    /// Adds a leader that a response named (KIP-951), if it is newer than what is known. `id` is
    /// that of the topic of the request, or zero if brokers return none.
    pub(crate) fn hint(
        &mut self,
        (topic, id): (&str, Uuid),
        partition: i32,
        (leader, epoch): (i32, i32),
        observer: &mut Observer,
    ) {
        let known = self.nodes.contains_key(&leader);
        let Some(topic) = self.topics.get_mut(topic) else {
            return;
        };
        // The epochs of a topic that was recreated begin again at 0: a late hint of the deleted
        // topic would stay forever.
        if id != Uuid::ZERO && topic.id != Uuid::ZERO && topic.id != id {
            return;
        }
        let entry = topic.partitions.get_mut(&partition);
        let Some(entry) = entry.filter(|entry| known && epoch > entry.leader_epoch) else {
            return;
        };
        entry.leader_epoch = epoch;
        let from = std::mem::replace(&mut entry.leader, leader);
        if from != leader {
            observer.tell(Observed::LeaderMoved {
                topic: Arc::clone(&topic.name),
                partition,
                from,
                to: leader,
                epoch,
            });
        }
    }

    /// Forgets topics that nobody wants or that were never requested: the metadata must not grow
    /// with each response.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.topics.retain(|name, _| wanted(name));
        self.problems.retain(|name, _| wanted(name));
        let topics = &self.topics;
        self.names
            .retain(|id, name| topics.get(name).is_some_and(|topic| topic.id == *id));
    }
}

impl Topic {
    /// Replaces what was known of the same topic, except for facts that are newer.
    fn follow(&mut self, before: Topic, observer: &mut Observer) {
        // Without an id, a lower epoch may as well be that of a recreated topic; a stale leader
        // only costs a retry.
        let is_same = self.id != Uuid::ZERO && before.id == self.id;
        if self.partitions.len() > before.partitions.len() {
            observer.tell(Observed::PartitionsAdded {
                topic: Arc::clone(&self.name),
                before: before.partitions.len(),
                now: self.partitions.len(),
            });
        }
        for (number, known) in before.partitions {
            let Some(fresh) = self.partitions.get_mut(&number) else {
                // A topic never loses partitions: this broker does not know them yet.
                if is_same {
                    self.partitions.insert(number, known);
                }
                continue;
            };
            // A broker that lags behind returns a stale leader.
            if is_same && fresh.leader_epoch >= 0 && known.leader_epoch > fresh.leader_epoch {
                *fresh = known;
            } else if known.leader != fresh.leader {
                observer.tell(Observed::LeaderMoved {
                    topic: Arc::clone(&self.name),
                    partition: number,
                    from: known.leader,
                    to: fresh.leader,
                    epoch: fresh.leader_epoch,
                });
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ottla_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition,
    };

    use super::*;

    /// A response with brokers 1 to `nodes` on host `b<id>`, port 9092, in rack `r<id>`, and topics
    /// with the given leaders.
    pub(crate) fn answer(nodes: i32, topics: &[(&str, &[i32])]) -> MetadataResponse {
        let brokers = (1..=nodes)
            .map(|node_id| MetadataResponseBroker {
                node_id,
                host: format!("b{node_id}").into(),
                port: 9092,
                rack: Some(format!("r{node_id}").into()),
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

    /// Versions of Metadata: the newest; the newest without topic ids; one whose leader epochs cannot be relied on.
    const NEWEST: i16 = 13;
    const WITHOUT_IDS: i16 = 9;
    const UNRELIABLE: i16 = 8;

    /// Metadata, and the changes that it reported.
    #[derive(Default)]
    struct Watched {
        view: Metadata,
        observer: Observer,
    }

    impl Watched {
        fn update(&mut self, answer: &MetadataResponse, version: i16) {
            self.view.update(answer, version, &mut self.observer);
        }

        fn hint(&mut self, id: Uuid, partition: i32, leader: (i32, i32)) {
            let observer = &mut self.observer;
            self.view.hint(("t", id), partition, leader, observer);
        }

        fn leader(&self, partition: i32) -> Option<(i32, i32)> {
            self.view.leader("t", partition)
        }

        fn told(&mut self) -> Vec<String> {
            std::iter::from_fn(|| self.observer.poll())
                .map(|event| event.to_string())
                .collect()
        }
    }

    /// Topic `t`, with leaders and their epochs, under an id.
    fn topic(id: Uuid, leaders: &[(i32, i32)]) -> MetadataResponse {
        let nodes: Vec<_> = leaders.iter().map(|(leader, _)| *leader).collect();
        let mut response = answer(3, &[("t", &nodes)]);
        response.topics[0].topic_id = id;
        for (row, (_, epoch)) in response.topics[0].partitions.iter_mut().zip(leaders) {
            row.leader_epoch = *epoch;
        }
        response
    }

    fn refused(code: ErrorCode) -> MetadataResponse {
        let mut response = topic(Uuid::ZERO, &[]);
        response.topics[0].error_code = code.0;
        response
    }

    const ID: Uuid = Uuid([1; 16]);
    const OTHER: Uuid = Uuid([9; 16]);

    #[test]
    fn an_older_epoch_does_not_bring_back_a_leader() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 1), (2, 1)]), NEWEST);
        assert_eq!(view.leader(1), Some((2, 1)));
        view.hint(ID, 1, (3, 4));
        view.hint(ID, 0, (9, 4));
        view.update(&topic(ID, &[(1, 1), (2, 1)]), NEWEST);
        assert_eq!(view.leader(1), Some((3, 4)));
        assert_eq!(view.leader(0), Some((1, 1)));
        assert_eq!(
            view.told(),
            ["leader of t-1 moved from broker 2 to broker 3 (epoch 4)"]
        );
        view.update(&topic(OTHER, &[(2, 1), (2, 1)]), NEWEST);
        assert_eq!(view.leader(1), Some((2, 1)));
        assert_eq!(view.told(), ["topic t was deleted and created again"]);
    }

    #[test]
    fn a_hint_of_a_deleted_topic_is_not_one_of_the_topic_recreated_under_its_name() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 5), (2, 5), (3, 5)]), NEWEST);
        view.update(&topic(OTHER, &[(1, 0), (2, 0), (3, 0)]), NEWEST);
        view.told();
        view.hint(ID, 0, (3, 6));
        assert_eq!(view.leader(0), Some((1, 0)));
        view.hint(OTHER, 0, (3, 1));
        assert_eq!(view.leader(0), Some((3, 1)));
        // A broker without topic ids does not report which topic of this name it means.
        view.hint(Uuid::ZERO, 1, (3, 1));
        assert_eq!(view.leader(1), Some((3, 1)));
        assert_eq!(view.told().len(), 2);
    }

    #[test]
    fn without_ids_a_lower_epoch_may_be_that_of_a_topic_made_anew() {
        let mut view = Watched::default();
        view.update(&topic(Uuid::ZERO, &[(1, 5)]), WITHOUT_IDS);
        view.update(&topic(Uuid::ZERO, &[(2, 0)]), WITHOUT_IDS);
        assert_eq!(view.leader(0), Some((2, 0)));
        assert_eq!(
            view.told(),
            ["leader of t-0 moved from broker 1 to broker 2 (epoch 0)"]
        );
    }

    #[test]
    fn epochs_of_old_versions_are_not_passed_on() {
        let mut view = Watched::default();
        view.update(&topic(Uuid::ZERO, &[(1, 5)]), UNRELIABLE);
        assert_eq!(view.leader(0), Some((1, -1)));
        view.update(&topic(Uuid::ZERO, &[(2, 4)]), UNRELIABLE);
        assert_eq!(view.leader(0), Some((2, -1)));
    }

    #[test]
    fn tells_each_change_once() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 1)]), NEWEST);
        assert!(view.told().is_empty(), "nothing was known before");
        for _ in 0..2 {
            view.update(&topic(ID, &[(-1, 2), (3, 0)]), NEWEST);
        }
        assert_eq!(
            view.told(),
            [
                "topic t has 2 partitions now, and had 1 before",
                "leader of t-0 moved from broker 1 to none (epoch 2)"
            ]
        );
        view.update(&refused(ErrorCode::LEADER_NOT_AVAILABLE), NEWEST);
        for _ in 0..2 {
            view.update(&refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), NEWEST);
        }
        assert_eq!(
            view.told(),
            ["topic t is not available: UNKNOWN_TOPIC_OR_PARTITION"]
        );
        view.update(&topic(OTHER, &[(1, 0)]), NEWEST);
        assert_eq!(view.told(), ["topic t was deleted and created again"]);
    }

    #[test]
    fn a_broker_that_lags_behind_takes_no_partition_away() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 1), (2, 0)]), NEWEST);
        view.update(&topic(ID, &[(1, 1)]), NEWEST);
        assert_eq!(view.leader(1), Some((2, 0)));
        view.update(&topic(ID, &[(1, 1), (2, 0)]), NEWEST);
        assert!(view.told().is_empty());
        view.update(&topic(OTHER, &[(1, 1)]), NEWEST);
        assert_eq!(view.leader(1), None);
    }

    #[test]
    fn a_topic_that_was_not_there_for_a_moment_is_the_same() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 1)]), NEWEST);
        view.update(&refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), NEWEST);
        view.told();
        view.update(&topic(ID, &[(1, 1)]), NEWEST);
        assert!(view.told().is_empty());
    }

    #[test]
    fn a_topic_with_an_error_is_unknown() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(1, 1)]), NEWEST);
        view.update(&refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), NEWEST);
        assert!(view.view.topic("t").is_none() && view.view.name_of(ID).is_none());
        assert_eq!(
            view.view.problem("t"),
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        );
    }

    #[test]
    fn a_leader_must_be_a_known_broker() {
        let mut view = Watched::default();
        view.update(&topic(ID, &[(-1, 1), (7, 1)]), NEWEST);
        assert_eq!((view.leader(0), view.leader(1)), (None, None));
    }
}
