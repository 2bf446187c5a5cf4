//! Which topics records are sent to, and what is known of their partitions.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;
use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::produce::partitioner::Partitions;

#[derive(Debug, Default)]
pub(super) struct Topics {
    known: FxHashMap<Arc<str>, Topic>,
    wanted: FxHashMap<Arc<str>, ()>,
    view_version: u64,
}

/// A topic whose partitions are known.
#[derive(Debug)]
pub(super) struct Topic {
    /// Zero if the broker does not tell.
    id: Uuid,
    pub(super) partitions: Partitions,
}

impl Topics {
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.known.get_mut(name)
    }

    /// The topic's id; zero if it is not known.
    pub(super) fn id(&self, name: &str) -> Uuid {
        self.known.get(name).map_or(Uuid::ZERO, |topic| topic.id)
    }

    pub(super) fn want(&mut self, now: Instant, cluster: &mut Cluster, name: &str) {
        if !self.wanted.contains_key(name) {
            let topic: Arc<str> = name.into();
            cluster.want(now, &topic);
            self.wanted.insert(topic, ());
        }
    }

    pub(super) fn give_up(&mut self, cluster: &mut Cluster, name: &str) {
        if !self.known.contains_key(name) && self.wanted.remove(name).is_some() {
            cluster.unwant(name);
        }
    }

    /// The names to look for in the view, if it changed since the last call.
    pub(super) fn names_to_follow(&mut self, cluster: &Cluster) -> Vec<Arc<str>> {
        if self.view_version == cluster.view_version() {
            return Vec::new();
        }
        self.view_version = cluster.view_version();
        self.wanted.keys().cloned().collect()
    }

    /// Takes in what the view says of a topic: its id, and its queues by partition number, at least one.
    pub(super) fn found(
        &mut self,
        cluster: &mut Cluster,
        name: &Arc<str>,
        id: Uuid,
        queues: Vec<usize>,
    ) {
        match self.known.get_mut(name) {
            Some(topic) => {
                topic.id = id;
                topic.partitions.queues = queues;
            }
            None => {
                let first = cluster.context.random.below(queues.len());
                let partitions = Partitions::new(queues, first);
                let topic = Topic { id, partitions };
                self.known.insert(Arc::clone(name), topic);
            }
        }
    }
}
