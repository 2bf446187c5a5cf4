//! What goes wrong in the world, and how it heals.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::coordinators::{OFFSETS, TRANSACTIONS};
use super::{Event, World, Wrong};
use crate::client::Client;
use crate::host::Ending;
use crate::plan::Fault;
use crate::plan::aging::is_compacted;
use crate::plant::Plant;

impl World {
    /// Something goes wrong.
    pub fn strike(&mut self, fault: &Fault) {
        let now = self.book.now;
        self.book.say("fault", format_args!("{fault:?}"));
        let mut struck = true;
        let mut name = fault.name();
        match *fault {
            Fault::Dies(node, how, lasting) => {
                *self.shares.deaths.entry(node).or_default() += 1;
                self.book.history.leaders_lost = true;
                let topics = self.topics.iter().map(|(name, _)| &**name);
                // The records of what groups committed are as valuable as other records.
                let topics: Vec<&str> = topics.chain([OFFSETS, TRANSACTIONS]).collect();
                let how = self.brokers.stop(now, node, how, &topics);
                name = Fault::Dies(node, how, lasting).name();
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Reset, Duration::ZERO);
                }
                self.lasts(fault, lasting);
                self.wrong.dead.insert(node, now + lasting);
                // Who starts learns what was decided.
                self.deposed.retain(|(_, _, old), _| *old != node);
            }
            Fault::Pauses(node, lasting) => {
                self.wrong.paused.insert(node, now + lasting);
                self.stand_still(node, fault, lasting);
            }
            Fault::StandsStill(node, lasting) => self.stand_still(node, fault, lasting),
            Fault::FollowersLag(by, lasting) => {
                self.brokers.set_replication_delay(by);
                self.wrong.lag = Some(now + lasting);
                self.lasts(fault, lasting);
            }
            Fault::HearsLate(node, by, lasting) => {
                self.book.history.stale = true;
                self.brokers.set_metadata_delay(now, node, by);
                self.wrong.deaf.insert(node, now + lasting);
                self.lasts(fault, lasting);
            }
            Fault::Deposed(topic, partition, lasting) => {
                struck = self.depose(topic, partition, fault, lasting);
            }
            Fault::RefusesLogins(node, lasting) => {
                self.brokers.set_logins(node, false);
                self.wrong.strangers.insert(node, now + lasting);
                self.lasts(fault, lasting);
                // Who comes back is asked for its credentials.
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Reset, Duration::ZERO);
                }
            }
            Fault::Unreachable(node, lasting) => {
                self.wrong.unreachable.insert(node, now + lasting);
            }
            Fault::Vanishes(node, lasting) => {
                self.wrong.vanished.insert(node, now + lasting);
                for wire in self.wires_of(node) {
                    if let Some(wire) = self.wires.get_mut(&wire) {
                        wire.half_open = true;
                    }
                }
            }
            Fault::Resets(node) | Fault::Closes(node) => {
                let ending = match fault {
                    Fault::Resets(_) => Ending::Reset,
                    _ => Ending::Closed,
                };
                let wires = self.wires_of(node);
                struck = !wires.is_empty();
                for wire in wires {
                    self.hang_up(wire, ending, Duration::ZERO);
                }
            }
            Fault::Refuses(node, lasting) => {
                self.wrong.refusing.insert(node, now + lasting);
            }
            Fault::Slow(by, lasting) => self.wrong.slow = Some((by, now + lasting)),
            Fault::Upgraded(node, release) => {
                self.brokers.set_release(node, release);
                for wire in self.wires_of(node) {
                    self.hang_up(wire, Ending::Closed, Duration::ZERO);
                }
            }
            Fault::Answers(node, api, trouble, count) => {
                // It counts when a request meets it.
                struck = false;
                self.keeper
                    .armed
                    .entry(node)
                    .or_default()
                    .arm(api, trouble, count);
            }
            Fault::ClockJumps(node, ms) => self.brokers.move_clock(node, ms),
            Fault::TimeJumps(client, ms) => {
                let client = self.clients.get_mut(client);
                let producer = client.and_then(Client::producer);
                struck = producer.map(|producer| producer.move_clock(ms)).is_some();
            }
            Fault::Trims(topic, partition, share) => struck = self.trim(topic, partition, share),
            Fault::LeaderMoves(topic, partition) => {
                struck = self.move_leader(topic, partition);
            }
            Fault::UncleanElection(topic, partition) => {
                struck = self.elect_unclean(topic, partition, false);
            }
            Fault::FetchesAsOld(node) => {
                self.keeper.old_fetch.insert(node);
            }
            Fault::LaggardElected(topic, partition) => {
                struck = self.elect_unclean(topic, partition, true);
            }
            Fault::Grows(topic) => {
                let Some((name, count)) = self.topics.get_mut(topic) else {
                    return;
                };
                let grown = self.brokers.grow(now, name);
                struck = grown > *count;
                *count = grown.max(*count);
            }
            Fault::Deleted(topic, absent) => {
                let Some((name, _)) = self.topics.get(topic) else {
                    return;
                };
                struck = self.brokers.delete(now, name);
                self.plan(now + absent, Event::Anew(topic));
            }
            Fault::CoordinatorMoves(stage, after) => {
                // It counts when it does.
                struck = false;
                self.plan_move(stage, after);
            }
            Fault::CoordinatorDeposed(node, lasting) => {
                struck = self.depose_coordinators(node, lasting);
            }
            Fault::Sleeps(client, lasting) => {
                struck = !self.asleep.contains_key(&client);
                if struck {
                    self.asleep.insert(client, Vec::new());
                    self.plan(now + lasting, Event::Wakes(client));
                }
            }
            Fault::CutOff(client, lasting) => {
                self.cut_off.insert(client, now + lasting);
            }
        }
        if struck {
            self.book.tally.strike(name);
        }
        self.serve_brokers();
    }

    /// Records of a partition are deleted, the oldest first. Those of a compacted topic are not, as with Kafka.
    fn trim(&mut self, topic: usize, partition: i32, share: i64) -> bool {
        let now = self.book.now;
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let place = (std::sync::Arc::clone(name), partition % (*count).max(1));
        let end = self.brokers.high_watermark(now, &place);
        let before = end.unwrap_or(0) * share / 100;
        if is_compacted(&place.0) || before == 0 {
            return false;
        }
        let asked = match self.keeper.plant {
            Some(Plant::TrimmedTooFar) => end.unwrap_or(0),
            _ => before,
        };
        self.brokers.delete_records(now, &place, asked);
        let trimmed = self.book.history.trimmed.entry(place).or_default();
        *trimmed = before.max(*trimmed);
        true
    }

    pub(super) fn stand_still(&mut self, node: i32, fault: &Fault, lasting: Duration) {
        let now = self.book.now;
        self.brokers.set_following(now, node, false);
        self.wrong.still.insert(node, now + lasting);
        self.lasts(fault, lasting);
    }

    pub(super) fn move_leader(&mut self, topic: usize, partition: i32) -> bool {
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let partition = partition % (*count).max(1);
        let moved = self.brokers.move_leader(name, partition, false);
        self.book.history.leaders_lost |= moved;
        moved
    }

    /// A leader is replaced, and does not hear of it for a time.
    pub(super) fn depose(
        &mut self,
        topic: usize,
        partition: i32,
        fault: &Fault,
        lasting: Duration,
    ) -> bool {
        let now = self.book.now;
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let name = std::sync::Arc::clone(name);
        let partition = partition % (*count).max(1);
        let Some(old) = self.brokers.leader(&name, partition) else {
            return false;
        };
        self.brokers.set_metadata_delay(now, old, lasting);
        let moved = self.brokers.move_leader(&name, partition, false);
        if !moved {
            self.brokers.set_metadata_delay(now, old, Duration::ZERO);
            return false;
        }
        self.book.history.leaders_lost = true;
        self.book.history.stale = true;
        self.wrong.deaf.insert(old, now + lasting);
        self.deposed.insert((name, partition, old), now + lasting);
        self.plan(
            now + lasting,
            Event::Heal(Fault::HearsLate(old, lasting, lasting)),
        );
        self.book.say(
            "fault",
            format_args!("node {old} does not hear that it leads no more: {fault:?}"),
        );
        true
    }

    pub(super) fn lasts(&mut self, fault: &Fault, lasting: Duration) {
        let at = self.book.now + lasting;
        self.plan(at, Event::Heal(fault.clone()));
    }

    /// A fault has lasted as long as it was to, unless another one of its kind goes on.
    pub(super) fn heal(&mut self, fault: &Fault) {
        let now = self.book.now;
        let is_over = |wrong: &BTreeMap<i32, Instant>, node: i32| {
            wrong.get(&node).is_some_and(|until| *until <= now)
        };
        match *fault {
            Fault::Dies(node, ..) if is_over(&self.wrong.dead, node) => {
                self.wrong.dead.remove(&node);
                self.book.say("fault", format_args!("node {node} is back"));
                self.brokers.start(now, node);
            }
            Fault::Pauses(node, _) | Fault::StandsStill(node, _)
                if is_over(&self.wrong.still, node) =>
            {
                self.wrong.still.remove(&node);
                self.brokers.set_following(now, node, true);
            }
            Fault::HearsLate(node, ..) if is_over(&self.wrong.deaf, node) => {
                self.wrong.deaf.remove(&node);
                self.brokers.set_metadata_delay(now, node, Duration::ZERO);
                self.deposed.retain(|(_, _, old), _| *old != node);
                self.hear_of_elections();
            }
            Fault::RefusesLogins(node, _) if is_over(&self.wrong.strangers, node) => {
                self.wrong.strangers.remove(&node);
                self.brokers.set_logins(node, true);
            }
            Fault::FollowersLag(..) if self.wrong.lag.is_some_and(|until| until <= now) => {
                self.wrong.lag = None;
                self.brokers.set_replication_delay(Duration::ZERO);
            }
            _ => return,
        }
        self.serve_brokers();
    }

    pub(super) fn create(&mut self, topic: usize) {
        let now = self.book.now;
        if let Some((name, count)) = self.topics.get(topic)
            && self.brokers.create(now, name, *count)
        {
            self.book.say("fault", format_args!("{name} was recreated"));
        }
        self.serve_brokers();
    }

    /// From now on nobody plays a planted defect, and the network is at its best.
    pub fn calm(&mut self) {
        self.weather.pieces = 0;
    }

    /// All faults end. Connections that are half open stay so: nobody has notified their clients.
    pub fn heal_all(&mut self) {
        let now = self.book.now;
        self.book.say("fault", "everything heals");
        for armed in self.keeper.armed.values_mut() {
            armed.clear();
        }
        let dead: Vec<i32> = self.wrong.dead.keys().copied().collect();
        let still: Vec<i32> = self.wrong.still.keys().copied().collect();
        let deaf: Vec<i32> = self.wrong.deaf.keys().copied().collect();
        let strangers: Vec<i32> = self.wrong.strangers.keys().copied().collect();
        let late = |until: &BTreeMap<i32, Instant>| until.values().any(|until| *until > now);
        // The pending events of a paused or unreachable node were planned for its end.
        if late(&self.wrong.paused) || late(&self.wrong.unreachable) {
            self.book
                .tally
                .meet("world: healed in the middle of a fault");
        }
        self.wrong = Wrong {
            paused: std::mem::take(&mut self.wrong.paused),
            unreachable: std::mem::take(&mut self.wrong.unreachable),
            ..Wrong::default()
        };
        for node in dead {
            self.brokers.start(now, node);
        }
        for node in still {
            self.brokers.set_following(now, node, true);
        }
        for node in deaf {
            self.brokers.set_metadata_delay(now, node, Duration::ZERO);
        }
        self.deposed.clear();
        self.hear_of_elections();
        for node in strangers {
            self.brokers.set_logins(node, true);
        }
        self.brokers.set_replication_delay(Duration::ZERO);
        self.brokers.set_clocks_right();
        for producer in self.clients.iter_mut().filter_map(Client::producer) {
            producer.set_clock_right();
        }
        for topic in 0..self.topics.len() {
            self.create(topic);
        }
        self.moves.clear();
        self.awaits_markers = false;
        self.cut_off.clear();
        for client in self.asleep.keys().copied().collect::<Vec<_>>() {
            self.wake(client);
        }
        self.serve_brokers();
    }
}
