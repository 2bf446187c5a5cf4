//! A cluster of [`Node`]s in one thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::{Node, Now, Output, Parts};
use crate::cluster::controller::{Controller, Member, Stop};
use crate::cluster::image::Host;
use crate::config::{BrokerConfig, Settings};
use crate::core::{Membership, Shared};
use crate::error::BrokerError;
use crate::ids::Ids;
use crate::storage::replica::Standing;

/// Nodes that share topics and leaders, and copy each other's logs. Their numbers begin at 1.
///
/// It is driven as a [`Node`] is: [`Cluster::poll`] until nothing is left after each other call, also after those of its
/// nodes, and [`Cluster::handle_timeout`] at [`Cluster::next_timeout`].
#[derive(Debug)]
pub struct Cluster {
    controller: Arc<Controller>,
    nodes: BTreeMap<i32, Node>,
}

/// Who leads a partition, and who follows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partition {
    /// The leader; -1 without one.
    pub leader: i32,
    /// The leader's epoch.
    pub epoch: i32,
    /// The nodes with a replica.
    pub replicas: Vec<i32>,
    /// Those that are in sync.
    pub in_sync: Vec<i32>,
}

/// A topic of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topic {
    /// Its id.
    pub id: [u8; 16],
    /// How many partitions it has.
    pub partitions: i32,
}

impl From<Standing> for Partition {
    fn from(standing: Standing) -> Self {
        Self {
            leader: standing.leader,
            epoch: standing.epoch,
            replicas: standing.replicas,
            in_sync: standing.in_sync,
        }
    }
}

impl Cluster {
    /// As many nodes as there are `addresses`, each with one for each listener, as in [`Node::new`].
    ///
    /// # Errors
    /// As [`Node::new`]; and several nodes keep nothing in a folder.
    pub fn new(
        config: &BrokerConfig,
        addresses: &[Vec<(String, u16)>],
        seed: u64,
    ) -> Result<Self, BrokerError> {
        if config.data_dir.is_some() {
            return Err(BrokerError::Config(
                "a cluster keeps its logs in memory: it takes no data folder".to_owned(),
            ));
        }
        let settings = Settings::new(config)?;
        let mut seeds = Ids::new(seed);
        let parts = Parts::new(config, &settings, seeds.next())?;
        let shared = Shared {
            cluster_id: Some(seeds.uuid().to_string()),
            ..parts.shared
        };
        let count = i32::try_from(addresses.len()).unwrap_or(i32::MAX);
        let controller = Arc::new(Controller::new(
            seeds.next(),
            settings.replica_lag,
            settings.default_replication,
            count,
            config.events.clone(),
            Waker::noop().clone(),
        ));
        let mut nodes = BTreeMap::new();
        for (id, addresses) in (1..).zip(addresses) {
            let membership = Membership {
                node: id,
                controller: Arc::clone(&controller),
                replication: Waker::noop().clone(),
            };
            let parts = Parts {
                doors: parts.doors.clone(),
                shared: shared.clone(),
            };
            let node = Node::open(
                config,
                settings.clone(),
                addresses,
                parts,
                seeds.next(),
                Some(membership),
            )?;
            let host: Host = node.core.addresses.clone();
            let member: Arc<dyn Member> = Arc::clone(&node.core) as Arc<dyn Member>;
            controller.join(id, Arc::downgrade(&member), host);
            nodes.insert(id, node);
        }
        if let Some(node) = nodes.values().next() {
            node.core.make_topics(config)?;
        }
        Ok(Self { controller, nodes })
    }

    /// The node of this number, for its connections and its faults.
    pub fn node(&mut self, id: i32) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// The numbers of all nodes.
    pub fn ids(&self) -> impl Iterator<Item = i32> + '_ {
        self.nodes.keys().copied()
    }

    /// Whether a node is up.
    #[must_use]
    pub fn is_up(&self, id: i32) -> bool {
        self.controller.is_up(id)
    }

    /// What is to be done next, and for which node.
    pub fn poll(&mut self) -> Option<(i32, Output)> {
        loop {
            let now = self.now()?;
            for (id, node) in &mut self.nodes {
                node.now = Some(now);
                if let Some(output) = node.poll() {
                    return Some((*id, output));
                }
            }
            // A node may have sent a reply to one that was looked at before it.
            let has_news = self.nodes.values().any(Node::has_news);
            if !self.controller.replicate(now) && !has_news {
                return None;
            }
        }
    }

    /// The latest time that a node has.
    fn now(&self) -> Option<Now> {
        let told = self.nodes.values().filter_map(|node| node.now);
        told.max_by_key(|now| now.instant)
    }

    /// When [`Cluster::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let nodes = self.nodes.values().filter_map(Node::next_timeout);
        nodes.chain(self.controller.next_timeout()).min()
    }

    /// Does what is due, on all nodes and between them.
    pub fn handle_timeout(&mut self, now: Now) {
        for node in self.nodes.values_mut() {
            node.handle_timeout(now);
        }
        self.controller.replicate(now);
    }

    /// Stops a node: its connections end, and others lead what it led.
    pub fn stop(&mut self, id: i32, how: Stop, now: Now) {
        self.controller.stop(id, how, now);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.now = Some(now);
            node.go_down();
        }
    }

    /// Starts a node that was stopped.
    pub fn start(&mut self, id: i32, now: Now) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.now = Some(now);
            node.is_up = true;
        }
        self.controller.start(id, now);
    }

    /// Who leads a partition, if there is one.
    #[must_use]
    pub fn partition(&self, topic: &str, index: i32) -> Option<Partition> {
        self.controller.standing(topic, index).map(Partition::from)
    }

    /// A topic, if there is one, whichever nodes have heard of it.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<Topic> {
        let found = self.controller.topic(name)?;
        Some(Topic {
            id: found.id.0,
            partitions: found.partitions,
        })
    }

    /// Makes a node that is in sync the leader of a partition. The partitions of `__consumer_offsets` move coordinators.
    ///
    /// # Errors
    /// Why it cannot lead.
    pub fn move_leader(&mut self, topic: &str, index: i32, to: i32) -> Result<(), String> {
        self.controller.move_leader(topic, index, to)
    }

    /// Makes any replica that is up the leader, in sync or not: what others have more is lost.
    ///
    /// # Errors
    /// Why it cannot lead.
    pub fn elect_unclean(&mut self, topic: &str, index: i32, to: i32) -> Result<(), String> {
        self.controller.elect_unclean(topic, index, to)
    }

    /// Makes another node the controller.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn move_controller(&mut self, to: i32) -> Result<(), String> {
        self.controller.move_controller(to)
    }

    /// Whether a node takes what leaders have for it. One that does not holds the high watermark back, until it is out of
    /// sync after `replica.lag.time.max.ms`.
    pub fn set_following(&mut self, id: i32, follows: bool, now: Now) {
        self.controller.set_following(id, follows, now);
    }

    /// The delay of metadata from the controller to a node: the topics, their leaders, the replicas
    /// in sync. With no delay, which is the default, the node gets it at once, also what it has
    /// missed. A leader that does not know of its successor still responds; what it appends is cut
    /// off when it gets the new metadata.
    pub fn set_metadata_delay(&mut self, id: i32, delay: Duration, now: Now) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.now = Some(now);
        }
        self.controller.set_metadata_delay(id, delay, now);
    }

    /// Whether a node has heard all that was decided so far.
    #[must_use]
    pub fn has_heard(&self, id: i32) -> bool {
        self.controller.has_heard(id)
    }

    /// How long followers take for what leaders have.
    pub fn set_replication_delay(&mut self, delay: Duration) {
        self.controller.set_delay(delay);
    }

    /// Makes all that a node has survive a loss of power.
    pub fn sync(&mut self, id: i32) {
        self.controller.sync(id);
    }
}
