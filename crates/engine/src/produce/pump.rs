//! The step that runs after every event: it follows the metadata, fails late batches, requests
//! connections and wakes them.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ApiKey, Uuid};

use crate::cluster::{Cluster, Lane};
use crate::error::Error;
use crate::produce::accumulator::{Accumulator, BATCHES};
use crate::produce::queue::Queue;

impl<T: Clone> Accumulator<T> {
    /// Anything may have changed.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        self.follow_view(now, cluster);
        self.expire_topics(now, cluster);
        self.say_what_may_be_created(cluster);
        for _ in 0..self.listed.len() {
            let Some(index) = self.listed.pop_front() else {
                break;
            };
            self.expire(now, cluster, index);
            self.leave_gap(index);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            if queue.is_empty() {
                queue.listed = false;
                continue;
            }
            self.listed.push_back(index);
            // Metadata of a wanted topic whose partitions lack a leader is requested with growing
            // pauses.
            let Some(leader) = queue.leader else {
                continue;
            };
            match cluster.node_link(now, leader, Lane::Control) {
                Some(_) if self.is_identified() => self.nudge(now, cluster, leader, index),
                Some(_) => {}
                None => {
                    self.stalls.note(now, leader);
                    self.fail_refused(cluster, index, leader);
                }
            }
        }
        let (queues, listed) = (&self.queues, &self.listed);
        self.stalls.keep(|node| {
            let mut waiting = listed.iter().filter_map(|index| queues.get(*index));
            waiting.any(|queue| queue.leader == Some(node))
        });
        if self.outcomes.has_failure() || self.spent.is_some() {
            // A batch that was just abandoned matters to the transaction, or to the part that
            // provides the next identity.
            cluster.set_alarm(now);
        }
    }

    /// A caller waits for the topic, until [`Accumulator::give_up_topic`] was called as often;
    /// [`Accumulator::knows_topic`] is true when it is known.
    pub(crate) fn want_topic(&mut self, now: Instant, cluster: &mut Cluster, name: &str) {
        self.topics.want(now, cluster, name);
        self.say_what_may_be_created(cluster);
    }

    /// A caller no longer waits for the topic.
    pub(crate) fn give_up_topic(&mut self, cluster: &mut Cluster, name: &str) {
        self.topics.give_up(cluster, name);
        self.say_what_may_be_created(cluster);
    }

    /// Whether records of this topic can be appended.
    pub(crate) fn knows_topic(&self, name: &str) -> bool {
        self.topics.is_known(name)
    }

    /// That a known topic has no such partition; `None` if it has, or the topic is not known.
    pub(crate) fn lacks_partition(&self, name: &str, partition: i32) -> Option<Error> {
        let topic = self.topics.get(name)?;
        topic.partitions.lacks(&self.queues, partition)
    }

    /// How many partitions the topic has; none if its records cannot be appended yet.
    pub(crate) fn partition_count(&self, name: &str) -> usize {
        self.topics.queues(name).len()
    }

    /// Takes over the metadata of the topics in use.
    fn follow_view(&mut self, now: Instant, cluster: &mut Cluster) {
        let max_idle = self.config.metadata_max_idle;
        let names = self.topics.names_to_follow(cluster);
        if !names.is_empty() {
            self.checks_headers |= cluster.any_lacks(ApiKey::Produce, BATCHES);
        }
        for name in names {
            let Some(known) = cluster.view().topic(&name) else {
                self.lose_topic(cluster, &name);
                continue;
            };
            let id = known.id;
            let count = known.partitions.len();
            let queues: Vec<_> = (0..)
                .take(count)
                .map(|partition| self.follow_leader(cluster, (&name, id), partition))
                .collect();
            if !queues.is_empty() {
                self.topics.found(now, cluster, &name, queues, max_idle);
            }
        }
    }

    /// The view does not have the topic. It stays in use only if batches wait for it.
    fn lose_topic(&mut self, cluster: &mut Cluster, name: &Arc<str>) {
        if !self.topics.is_known(name) {
            return;
        }
        if has_batches(&self.queues, self.topics.queues(name)) {
            self.topics.lose(name);
            lose_leaders(&mut self.queues, self.topics.queues(name));
        } else if let Some(topic) = self.topics.forget(cluster, name) {
            lose_leaders(&mut self.queues, &topic.partitions.queues);
        }
    }

    fn expire_topics(&mut self, now: Instant, cluster: &mut Cluster) {
        let max_idle = self.config.metadata_max_idle;
        let is_busy = |indexes: &[usize]| has_batches(&self.queues, indexes);
        let idle = self.topics.expire(now, cluster, max_idle, is_busy);
        lose_leaders(&mut self.queues, &idle);
    }

    /// A request for metadata may create topics only while a caller or a batch waits for one that is not there.
    fn say_what_may_be_created(&self, cluster: &mut Cluster) {
        let mut lost = self.topics.lost();
        let may_create = self.topics.awaits_unknown()
            || lost.any(|name| has_batches(&self.queues, self.topics.queues(name)));
        cluster.set_may_create(may_create);
    }

    /// The index of a partition's queue, which now knows the topic's id and who leads.
    fn follow_leader(
        &mut self,
        cluster: &Cluster,
        (name, id): (&Arc<str>, Uuid),
        partition: i32,
    ) -> usize {
        let index = *self
            .by_partition
            .entry((Arc::clone(name), partition))
            .or_insert_with(|| {
                let queue = Queue::new(Arc::clone(name), partition, self.config.batch_size);
                self.queues.push(queue);
                self.queues.len() - 1
            });
        if let Some(queue) = self.queues.get_mut(index) {
            let leader = cluster.view().leader(name, partition);
            queue.belongs_to(id);
            queue.leader = leader.map(|(leader, _)| leader);
        }
        index
    }
}

fn has_batches<T>(queues: &[Queue<T>], indexes: &[usize]) -> bool {
    let mut found = indexes.iter().filter_map(|index| queues.get(*index));
    found.any(|queue| !queue.is_empty())
}

fn lose_leaders<T>(queues: &mut [Queue<T>], indexes: &[usize]) {
    for index in indexes {
        if let Some(queue) = queues.get_mut(*index) {
            queue.leader = None;
        }
    }
}
