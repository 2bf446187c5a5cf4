//! The next need of each changed position: an offset, a check, records, a pause.

use std::sync::Arc;
use std::time::Instant;

use super::{Fetcher, raise};
use crate::cluster::Cluster;
use crate::config::OffsetReset;
use crate::fetch::assignment::{Key, Place};
use crate::fetch::checks::Checked;
use crate::fetch::lanes;
use crate::fetch::lookup::{Searched, time_of};
use crate::fetch::position::{Leader, Need, Start, absent, outdated};
use crate::fetch::replica::Replica;
use crate::fetch::subscription::Finding;
use crate::observe::Observed;
use crate::part::Core;

impl Fetcher {
    /// Handles a change of the metadata.
    pub(super) fn look(&mut self, now: Instant, cluster: &mut Cluster, is_new: bool) {
        self.seen_view = cluster.view_version();
        self.must_look = false;
        let findings = self.subscription.look(now, cluster, is_new);
        for finding in findings {
            match finding {
                Finding::Partitions(topic, numbers, start) => {
                    for partition in numbers {
                        if !self.assignment.contains(&topic, partition) {
                            self.add(cluster, &topic, partition, start);
                        }
                    }
                }
                Finding::Recreated(topic) => self.start_anew(cluster, &topic),
                Finding::Refused => raise(cluster),
            }
        }
        self.assignment.touch_all();
    }

    /// The topic was deleted and recreated.
    fn start_anew(&mut self, cluster: &mut Cluster, topic: &str) {
        let id = self.subscription.id_of(topic);
        let is_followed = self.subscription.is_followed(topic);
        for partition in self.assignment.partitions(topic) {
            if is_followed && cluster.view().partition(topic, partition).is_none() {
                self.remove(cluster, topic, partition);
            } else if let Ok(position) = self.assignment.touch(topic, partition) {
                position.note_topic(id);
            }
        }
    }

    /// Finds out what each touched position needs. `is_new` is whether brokers returned metadata
    /// since the last time.
    pub(in crate::fetch) fn review(&mut self, now: Instant, cluster: &mut Cluster, is_new: bool) {
        for key in self.assignment.take_touched() {
            self.leave_outdated(key);
            self.review_one(now, cluster, key, is_new);
        }
    }

    /// Continues at the beginning of a topic that was recreated, once the caller has the records of
    /// the deleted one.
    fn leave_outdated(&mut self, key: Key) {
        let Some(entry) = self.assignment.entry(key) else {
            return;
        };
        if !entry.position.is_outdated || !entry.position.is_drained() {
            return;
        }
        let generation = self.assignment.fresh_generation();
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        if self.config.auto_offset_reset == OffsetReset::None {
            entry.position.leave_topic(generation, Start::Reset);
            entry.position.stuck = Some(outdated(&entry.topic, entry.partition));
        } else {
            entry.position.leave_topic(generation, Start::Beginning);
        }
    }

    fn review_one(&mut self, now: Instant, cluster: &mut Cluster, key: Key, is_new: bool) {
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        let (topic, partition) = (&entry.topic, entry.partition);
        let position = &mut entry.position;
        let view = cluster.view();
        let known = view.topic(topic);
        let found = known.and_then(|known| known.partitions.get(&partition));
        if let Some(known) = known {
            position.note_presence(now, found.is_some(), is_new, || {
                absent(topic, partition, known.partitions.len())
            });
        }
        let leader = found.map(|found| found.leader);
        let leader = leader.filter(|leader| view.node(*leader).is_some());
        if position.need(now) == Need::Offset
            && let Err(error) = time_of(position, self.config.auto_offset_reset)
        {
            position.stuck = Some(error.with_partition(topic, partition));
        }
        let mut source = leader;
        let place = match (position.need(now), leader) {
            (Need::Nothing, _) => Place::Idle,
            (Need::Help, _) => Place::Stuck,
            (Need::Pause(at), _) => Place::Pausing(at),
            (Need::Committed, _) => Place::Uncommitted,
            (Need::Offset | Need::Check | Need::Records(_), None) => Place::Leaderless,
            (Need::Offset | Need::Check, Some(leader)) => Place::Searching(leader),
            (Need::Records(_), Some(leader)) => {
                position.replica.pass(now, |node| view.node(node).is_some());
                source = position.replica.nearer().or(source);
                Place::Ready(source.unwrap_or(leader), position.last_turn)
            }
        };
        let told = position
            .stuck
            .as_ref()
            .map(|cause| Observed::PartitionStuck {
                topic: Arc::clone(topic),
                partition,
                cause: cause.clone(),
            });
        let is_elsewhere = self.assignment.settle(key, place, source);
        if let Some(event) = told.filter(|_| is_elsewhere) {
            cluster.context.observer.tell(event);
            raise(cluster);
        }
    }

    /// Looks up the offsets that are not known yet, and has positions checked: a partition without leader, or whose leader is
    /// silent, keeps no other waiting.
    pub(super) fn look_up(&mut self, now: Instant, core: &mut Core) {
        let (mut lookups, mut checks) = (Vec::new(), Vec::new());
        for keys in self.assignment.searching() {
            let (mut searched, mut checked) = (Vec::new(), Vec::new());
            for key in keys {
                let Some(entry) = self.assignment.touch_key(key) else {
                    continue;
                };
                let position = &mut entry.position;
                let (topic, partition) = (Arc::clone(&entry.topic), entry.partition);
                let generation = position.generation;
                if let (Need::Check, Some(offset)) = (position.need(now), position.fetch_at) {
                    let Some((node, epoch)) = core.cluster.view().leader(&topic, partition) else {
                        continue;
                    };
                    position.looking_up = true;
                    checked.push(Checked {
                        key,
                        topic,
                        partition,
                        generation,
                        epoch: position.epochs.epoch_before(offset),
                        leader: Leader { node, epoch },
                    });
                    continue;
                }
                let time = time_of(position, self.config.auto_offset_reset);
                let Ok(Some(time)) = time else { continue };
                position.looking_up = true;
                let topic_id = self.subscription.id_of(&topic);
                searched.push(Searched {
                    key,
                    topic,
                    partition,
                    generation,
                    topic_id,
                    time,
                });
            }
            lookups.extend(Some(searched).filter(|all| !all.is_empty()));
            checks.extend(Some(checked).filter(|all| !all.is_empty()));
        }
        if !lookups.is_empty() || !checks.is_empty() {
            self.review(now, &mut core.cluster, false);
            self.lookups.start(now, core, lookups);
            self.checks.start(now, core, checks);
        }
    }

    /// Reads at the leader what should be read at another replica, if no connection to that one can be made.
    pub(super) fn leave_unreachable(&mut self, now: Instant, cluster: &mut Cluster) {
        if self.config.client_rack.is_none() {
            return;
        }
        let until = now + self.config.metadata_max_age;
        for node in self.assignment.ready_leaders().collect::<Vec<_>>() {
            let failed = lanes::each().any(|lane| cluster.failure_of(node, lane).is_some());
            if !failed || self.lanes.free(cluster, node).is_some() {
                continue;
            }
            for key in self.assignment.ready(node).collect::<Vec<_>>() {
                let entry = self.assignment.entry(key);
                let is_nearer = |replica: Replica| replica.nearer() == Some(node);
                if !entry.is_some_and(|entry| is_nearer(entry.position.replica)) {
                    continue;
                }
                if let Some(entry) = self.assignment.touch_key(key) {
                    entry.position.replica = Replica::Untold(until);
                }
            }
        }
        self.review(now, cluster, false);
    }
}
