//! A node as a member of its cluster: what it gets from the controller, and what it reports of the
//! cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use ottla_protocol::{ErrorCode, Str, Uuid};
use parking_lot::Mutex;

use super::{Core, ONLY_NODE, coordinator_in, partition_of};
use crate::cluster::controller::{Asked, Decided, Member};
use crate::cluster::image::{Host, Image, PartitionId};
use crate::now::Now;
use crate::replicas::Unreplicated;
use crate::storage::producers::Marker;
use crate::storage::replica::{Growth, Replica};
use crate::topics::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic};
use crate::transaction::{Add, Place};

impl Core {
    /// The nodes that are up, and where clients reach them.
    pub(crate) fn hosts(&self) -> Vec<(i32, Host)> {
        match &self.membership {
            Some(membership) => membership.controller.hosts(),
            None => vec![(self.node, self.addresses.clone())],
        }
    }

    /// The node that controls.
    pub(crate) fn controller_node(&self) -> i32 {
        let membership = self.membership.as_ref();
        membership.map_or(ONLY_NODE, |it| it.controller.controller())
    }

    /// Makes a node in sync the leader of a partition.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) fn move_leader(&self, topic: &str, index: i32, to: i32) -> Result<(), String> {
        match &self.membership {
            Some(membership) => membership.controller.move_leader(topic, index, to),
            None => Ok(()),
        }
    }

    /// Makes the first of these nodes that is up the leader of a partition, in sync or not.
    ///
    /// # Errors
    /// None is up.
    pub(crate) fn elect_unclean(&self, topic: &str, index: i32, to: &[i32]) -> Result<(), String> {
        let Some(membership) = &self.membership else {
            return Ok(());
        };
        let controller = &membership.controller;
        match to.iter().find(|node| controller.is_up(**node)) {
            Some(node) => controller.elect_unclean(topic, index, *node),
            None => Err(format!("no replica of {topic}-{index} is up")),
        }
    }

    /// Where the log of the cluster's metadata ends: after each change of a topic.
    pub(crate) fn metadata_end(&self) -> i64 {
        let changes = self.topics.read().version();
        i64::try_from(changes).unwrap_or(i64::MAX).saturating_add(1)
    }

    /// The folder of its logs.
    pub(crate) fn log_dir(&self) -> Str {
        match &self.folder {
            Some(folder) => folder.root().display().to_string().into(),
            None => Str::from_static("/memory"),
        }
    }

    /// A topic as it was decided, whether or not this node has heard of it: what changes of topics go by.
    pub(crate) fn decided(&self, name: &str) -> Result<Decided, ErrorCode> {
        match &self.membership {
            Some(membership) => {
                let found = membership.controller.topic(name);
                found.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            }
            None => self.topic(name).map(|topic| alone(&topic)),
        }
    }

    /// As [`Core::decided`], by its id.
    pub(crate) fn decided_by_id(&self, id: Uuid) -> Result<Decided, ErrorCode> {
        match &self.membership {
            Some(membership) => {
                let found = membership.controller.topic_by_id(id);
                found.ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
            }
            None => self.topic_by_id(id).map(|topic| alone(&topic)),
        }
    }

    /// How many partitions an internal topic gets: each node shall coordinate.
    pub(super) fn coordinators(&self) -> i32 {
        let membership = self.membership.as_ref();
        membership.map_or(1, |it| it.controller.size())
    }

    /// The node that coordinates a group.
    pub(crate) fn coordinator(&self, group: &str) -> Result<i32, ErrorCode> {
        // The first request for a coordinator creates the topic, as in Kafka.
        coordinator_in(self.offsets_topic(), group)
    }

    /// The partition that keeps a group's offsets.
    ///
    /// # Errors
    /// Why no partition keeps them.
    pub(crate) fn offsets_of(&self, group: &str) -> Result<(String, i32), String> {
        let topic = self.offsets_topic().map_err(|error| error.message)?;
        let index = partition_of(group, topic.partitions.len());
        Ok((topic.name.to_string(), index))
    }

    /// Does this node coordinate the group?
    ///
    /// # Errors
    /// The error code for a client that sent the request here, if not.
    pub(crate) fn coordinates(&self, group: &str) -> Result<(), ErrorCode> {
        if self.membership.is_none() || self.coordinator(group) == Ok(self.node) {
            Ok(())
        } else {
            Err(ErrorCode::NOT_COORDINATOR)
        }
    }

    fn growth(&self, partition: PartitionId) -> Option<Growth> {
        let membership = self.membership.as_ref()?;
        let (grown, waker) = (Arc::clone(&self.grown), membership.replication.clone());
        Some(Growth(Arc::new(move || {
            if grown.lock().insert(partition.clone()) {
                waker.wake_by_ref();
            }
        })))
    }

    /// Takes over groups, or lets them go, when the leader of their offsets has changed.
    fn coordinate(&self, topic: &Topic, changed: &[(i32, bool)]) {
        let count = topic.partitions.len();
        for (partition, leads) in changed {
            self.reload_groups(|groups| {
                let is_here = |group: &str| partition_of(group, count) == *partition;
                groups.unload(is_here);
                if *leads {
                    self.read_back_from(topic, *partition, groups, is_here);
                }
            });
        }
    }
}

impl Member for Core {
    fn apply(&self, image: &Image) {
        let mut changed = Vec::new();
        let mut topics = self.topics.write();
        let present = topics.by_name(&image.name).cloned();
        if let Some(other) = present.as_ref().filter(|topic| topic.id != image.id) {
            topics.remove(&other.name);
            close(other);
        }
        let present = present.filter(|topic| topic.id == image.id);
        let mut topic = Topic {
            name: image.name.clone(),
            id: image.id,
            values: image.values.clone(),
            partitions: Vec::new(),
        };
        if let Some(present) = &present {
            topic.partitions.clone_from(&present.partitions);
        }
        let missing = topic.partitions.len() as i32..image.partitions.len() as i32;
        match self.new_logs(&topic, missing) {
            Ok(logs) => topic.partitions.extend(logs),
            Err(cause) => {
                self.events
                    .say(format_args!("{} could not be made: {cause}", image.name));
                return;
            }
        }
        let known = present.as_ref().map_or(0, |topic| topic.partitions.len());
        for (index, (replica, standing)) in
            topic.partitions.iter().zip(&image.partitions).enumerate()
        {
            let mut replica = replica.lock();
            let led = index < known && replica.leads();
            if index >= known || replica.standing() != standing {
                let growth = self.growth((image.name.clone(), index as i32));
                replica.stand(standing.clone(), growth);
            }
            if led != replica.leads() {
                changed.push((index as i32, replica.leads()));
            }
        }
        let topic = topics.insert(topic);
        drop(topics);
        if !changed.is_empty() {
            let mut shares = self.shares.lock();
            for (index, _) in &changed {
                shares.leave(topic.id, *index);
            }
        }
        match &*topic.name {
            OFFSETS_TOPIC => self.coordinate(&topic, &changed),
            TRANSACTIONS_TOPIC => self.coordinate_transactions(&topic, &changed),
            _ => {}
        }
    }

    fn forget(&self, topic: &str, now: Now) {
        if let Err(error) = self.delete_own_topic(topic, now) {
            self.events.say(format_args!(
                "{topic} could not be deleted: {}",
                error.message
            ));
        }
    }

    fn missing(&self, known: &BTreeSet<&str>) -> Vec<String> {
        let topics = self.topics();
        let gone = topics.iter().filter(|topic| !known.contains(&*topic.name));
        gone.map(|topic| topic.name.to_string()).collect()
    }

    fn replica(&self, topic: &str, id: Uuid, index: i32) -> Option<Arc<Mutex<Replica>>> {
        let topic = self.topic(topic).ok().filter(|topic| topic.id == id)?;
        topic.partitions.get(usize::try_from(index).ok()?).cloned()
    }

    fn mark(&self, place: &Place, marker: Marker, now: Now) -> Result<Unreplicated, ErrorCode> {
        self.mark_here(place, marker, now)
    }

    fn add_to_transaction(&self, add: &Add, ticket: Asked, now: Now) {
        self.add_here(add, ticket, now);
    }

    fn take_grown(&self) -> BTreeSet<PartitionId> {
        std::mem::take(&mut *self.grown.lock())
    }

    fn forget_volatile(&self) {
        self.reload_groups(|groups| groups.unload(|_| true));
        self.fetch_sessions.lock().clear();
        self.shares.lock().clear();
        self.forget_transactions();
        // Nobody but the controller deals with a node that is down; pending requests here end with
        // their connections.
        for topic in self.topics() {
            for replica in &topic.partitions {
                replica.lock().leave();
            }
        }
    }
}

/// A topic of the only node.
fn alone(topic: &Topic) -> Decided {
    Decided {
        name: topic.name.clone(),
        id: topic.id,
        partitions: topic.partitions.len() as i32,
        replication: 1,
    }
}

fn close(topic: &Topic) {
    for replica in &topic.partitions {
        replica.lock().close_deleted();
    }
}
