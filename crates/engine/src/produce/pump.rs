//! What follows when anything may have happened: the view is followed, late batches fail, connections are asked for and
//! woken.

use std::sync::Arc;
use std::time::Instant;

use crate::cluster::{Cluster, Lane};
use crate::produce::accumulator::Accumulator;
use crate::produce::queue::Queue;

impl<T: Clone> Accumulator<T> {
    /// Anything may have changed.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        self.follow_view(cluster);
        for _ in 0..self.listed.len() {
            let Some(index) = self.listed.pop_front() else {
                break;
            };
            self.expire(now, cluster, index);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            if queue.is_empty() {
                queue.listed = false;
                continue;
            }
            self.listed.push_back(index);
            let Some(leader) = queue.leader else {
                cluster.refresh(now);
                continue;
            };
            if let Some(link) = cluster.node_link(now, leader, Lane::Control) {
                if self.is_identified() {
                    self.nudge(now, cluster, link, index);
                }
            }
        }
    }

    /// Makes the topic known; [`Accumulator::knows_topic`] says when it is.
    pub(crate) fn want_topic(&mut self, now: Instant, cluster: &mut Cluster, name: &str) {
        self.topics.want(now, cluster, name);
    }

    /// Forgets a topic that never became known.
    pub(crate) fn give_up_topic(&mut self, cluster: &mut Cluster, name: &str) {
        self.topics.give_up(cluster, name);
    }

    /// Whether records of this topic can be appended.
    pub(crate) fn knows_topic(&self, name: &str) -> bool {
        self.topics.is_known(name)
    }

    /// Takes over what the view says about the topics in use.
    fn follow_view(&mut self, cluster: &mut Cluster) {
        for name in self.topics.names_to_follow(cluster) {
            let Some(known) = cluster.view().topic(&name) else {
                self.lose_leaders(&name);
                continue;
            };
            let id = known.id;
            let count = known.partitions.len();
            let queues: Vec<_> = (0..)
                .take(count)
                .map(|partition| self.follow_leader(cluster, &name, partition))
                .collect();
            if !queues.is_empty() {
                self.topics.found(cluster, &name, id, queues);
            }
        }
    }

    fn lose_leaders(&mut self, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        for index in &topic.partitions.queues {
            if let Some(queue) = self.queues.get_mut(*index) {
                queue.leader = None;
            }
        }
    }

    /// The index of a partition's queue, which now knows who leads.
    fn follow_leader(&mut self, cluster: &Cluster, name: &Arc<str>, partition: i32) -> usize {
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
            queue.leader = leader.map(|(leader, _)| leader);
        }
        index
    }
}
