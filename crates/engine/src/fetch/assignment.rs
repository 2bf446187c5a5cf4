//! The positions of all assigned partitions, and which of them need something.
//!
//! ```text
//!   touched (response, seek, metadata) ──▶ reviewed ──▶ settled: idle · pausing · uncommitted · leaderless · searching · ready · stuck
//!        ▲                                                │
//!        └────────────────────────────────────────────────┘
//! ```
//!
//! Only what was touched is looked at again, so idle partitions cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;
use rustc_hash::FxHashMap;

use crate::error::{Error, Kind};
use crate::fetch::position::{Generation, Position};
use crate::fetch::reads::Reads;

/// Names a partition from its assignment to its end. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// Where a position stands after a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It needs nothing.
    Idle,
    /// It is reviewed again at this time.
    Pausing(Instant),
    /// It needs the offset that the group committed.
    Uncommitted,
    /// It needs a leader.
    Leaderless,
    /// Its offset must be requested from this leader.
    Searching(i32),
    /// Its records must be requested from this leader; partitions with a lower turn come first.
    Ready(i32, u64),
    /// It needs a seek.
    Stuck,
}

/// A position and where it stands.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) position: Position,
    place: Place,
    leader: Option<i32>,
    is_touched: bool,
}

/// The assigned partitions, by topic and number.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    keys: BTreeMap<Arc<str>, BTreeMap<i32, Key>>,
    entries: FxHashMap<Key, Entry>,
    last_key: u64,
    last_generation: u64,
    touched: Vec<Key>,
    pausing: BTreeSet<(Instant, Key)>,
    uncommitted: BTreeSet<Key>,
    leaderless: BTreeSet<Key>,
    /// How often a partition came to be without a leader.
    lost: u64,
    searching: BTreeMap<i32, BTreeSet<Key>>,
    ready: BTreeMap<i32, BTreeSet<(u64, Key)>>,
    stuck: BTreeSet<Key>,
    /// Partitions whose last request was denied. Each is removed once a request for it succeeds.
    denied: BTreeSet<Key>,
    /// What callers read of partitions that were taken away since. A group takes away what was deleted, perhaps before its offset
    /// is committed.
    former: BTreeMap<Arc<str>, BTreeMap<i32, Reads>>,
    /// Leaders of assigned partitions, and how many each leads.
    leaders: BTreeMap<i32, usize>,
    /// How many positions were looked at, for tests that count.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

impl Assignment {
    pub(super) fn fresh_generation(&mut self) -> Generation {
        self.last_generation += 1;
        Generation(self.last_generation)
    }

    // --- which there are

    pub(super) fn insert(&mut self, topic: &Arc<str>, partition: i32, mut position: Position) {
        self.remove(topic, partition);
        position.former = self
            .former_reads(topic, partition)
            .cloned()
            .unwrap_or_default();
        self.last_key += 1;
        let key = Key(self.last_key);
        let topic = Arc::clone(topic);
        let numbers = self.keys.entry(Arc::clone(&topic)).or_default();
        numbers.insert(partition, key);
        let entry = Entry {
            topic,
            partition,
            position,
            place: Place::Idle,
            leader: None,
            is_touched: true,
        };
        self.entries.insert(key, entry);
        self.touched.push(key);
    }

    /// Forgets a partition, and gives its generation, which is over.
    pub(super) fn remove(&mut self, topic: &str, partition: i32) -> Option<Generation> {
        let numbers = self.keys.get_mut(topic)?;
        let key = numbers.remove(&partition)?;
        if numbers.is_empty() {
            self.keys.remove(topic);
        }
        self.settle(key, Place::Idle, None);
        self.denied.remove(&key);
        let entry = self.entries.remove(&key)?;
        let reads = entry.position.reads();
        if reads.each().next().is_some() {
            let former = self.former.entry(entry.topic).or_default();
            former.insert(partition, reads);
        }
        Some(entry.position.generation)
    }

    /// The id of the topic that the caller read this offset of; zero if it is not known.
    pub(super) fn topic_read(&self, topic: &str, partition: i32, offset: i64) -> Uuid {
        match self.get(topic, partition) {
            Ok(position) => position.topic_read(offset),
            Err(_) => {
                let former = self.former_reads(topic, partition);
                let id = former.and_then(|reads| reads.topic_of(offset));
                id.unwrap_or(Uuid::ZERO)
            }
        }
    }

    /// What callers read of each partition.
    pub(super) fn reads(&self) -> impl Iterator<Item = (&Arc<str>, i32, Reads)> {
        let assigned = self.each();
        let assigned =
            assigned.map(|(topic, partition, position)| (topic, partition, position.reads()));
        let former = self.former.iter().flat_map(|(topic, partitions)| {
            let reads = partitions.iter();
            reads.map(move |(partition, reads)| (topic, *partition, reads.clone()))
        });
        assigned.chain(former.filter(|(topic, partition, _)| !self.contains(topic, *partition)))
    }

    /// What the caller read while the partition was assigned before.
    fn former_reads(&self, topic: &str, partition: i32) -> Option<&Reads> {
        self.former.get(topic)?.get(&partition)
    }

    /// The numbers of a topic's assigned partitions.
    pub(super) fn partitions(&self, topic: &str) -> Vec<i32> {
        let numbers = self.keys.get(topic);
        numbers.map_or_else(Vec::new, |numbers| numbers.keys().copied().collect())
    }

    pub(super) fn contains(&self, topic: &str, partition: i32) -> bool {
        self.key(topic, partition).is_some()
    }

    /// All of them, sorted.
    pub(super) fn each(&self) -> impl Iterator<Item = (&Arc<str>, i32, &Position)> {
        let keys = self.keys.values().flat_map(BTreeMap::values);
        keys.filter_map(|key| self.entry(*key))
            .map(|entry| (&entry.topic, entry.partition, &entry.position))
    }

    // --- one of them

    pub(super) fn get(&self, topic: &str, partition: i32) -> Result<&Position, Error> {
        self.key(topic, partition)
            .and_then(|key| self.entry(key))
            .map(|entry| &entry.position)
            .ok_or_else(|| not_assigned(topic, partition))
    }

    /// The position, to be reviewed after the change that the caller makes.
    pub(super) fn touch(&mut self, topic: &str, partition: i32) -> Result<&mut Position, Error> {
        let key = self.key(topic, partition);
        let entry = key.and_then(|key| self.touch_key(key));
        entry
            .map(|entry| &mut entry.position)
            .ok_or_else(|| not_assigned(topic, partition))
    }

    /// As [`Assignment::touch`], unless a seek or another assignment came since this generation.
    pub(super) fn touch_current(
        &mut self,
        key: Key,
        generation: Generation,
    ) -> Option<&mut Position> {
        let entry = self.entry(key)?;
        if entry.position.generation != generation {
            return None;
        }
        self.touch_key(key).map(|entry| &mut entry.position)
    }

    /// The position, for a change that needs no review.
    pub(super) fn current(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
    ) -> Option<(Key, &mut Position)> {
        let key = self.key(topic, partition)?;
        self.count();
        let position = &mut self.entries.get_mut(&key)?.position;
        (position.generation == generation).then_some((key, position))
    }

    pub(super) fn touch_key(&mut self, key: Key) -> Option<&mut Entry> {
        self.count();
        let entry = self.entries.get_mut(&key)?;
        if !entry.is_touched {
            entry.is_touched = true;
            self.touched.push(key);
        }
        Some(entry)
    }

    pub(super) fn entry(&self, key: Key) -> Option<&Entry> {
        self.count();
        self.entries.get(&key)
    }

    pub(super) fn entry_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.count();
        self.entries.get_mut(&key)
    }

    /// It was reviewed, is ready, and is requested from now on; it needs nothing meanwhile.
    pub(super) fn request(&mut self, key: Key, turn: u64) {
        let Some(entry) = self.entry_mut(key) else {
            return;
        };
        entry.position.in_flight = true;
        entry.position.last_turn = turn;
        let leader = entry.leader;
        self.settle(key, Place::Idle, leader);
    }

    fn key(&self, topic: &str, partition: i32) -> Option<Key> {
        self.keys.get(topic)?.get(&partition).copied()
    }

    fn count(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    // --- what is to be reviewed

    pub(super) fn touch_all(&mut self) {
        let keys: Vec<_> = self.entries.keys().copied().collect();
        for key in keys {
            self.touch_key(key);
        }
    }

    /// Touches what has paused long enough.
    pub(super) fn touch_due(&mut self, now: Instant) {
        while let Some((at, key)) = self.pausing.first().copied().filter(|(at, _)| *at <= now) {
            self.pausing.remove(&(at, key));
            self.touch_key(key);
        }
    }

    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    pub(super) fn take_touched(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.touched);
        for key in &keys {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.is_touched = false;
            }
        }
        keys
    }

    /// Notes where a position stands now, and who leads it; true if it was elsewhere.
    pub(super) fn settle(&mut self, key: Key, place: Place, leader: Option<i32>) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return false;
        };
        if entry.position.denied.is_some() {
            self.denied.insert(key);
        } else {
            self.denied.remove(&key);
        }
        let old = std::mem::replace(&mut entry.place, place);
        let old_leader = std::mem::replace(&mut entry.leader, leader);
        if old_leader != leader {
            if let Some(old) = old_leader {
                lessen(&mut self.leaders, old);
            }
            if let Some(new) = leader {
                *self.leaders.entry(new).or_default() += 1;
            }
        }
        if old == place {
            // A pause that is over was taken out already.
            if let Place::Pausing(at) = place {
                self.pausing.insert((at, key));
            }
            return false;
        }
        match old {
            Place::Idle => {}
            Place::Pausing(at) => drop(self.pausing.remove(&(at, key))),
            Place::Uncommitted => drop(self.uncommitted.remove(&key)),
            Place::Leaderless => drop(self.leaderless.remove(&key)),
            Place::Searching(leader) => take_out(&mut self.searching, leader, &key),
            Place::Ready(leader, turn) => take_out(&mut self.ready, leader, &(turn, key)),
            Place::Stuck => drop(self.stuck.remove(&key)),
        }
        match place {
            Place::Idle => {}
            Place::Pausing(at) => drop(self.pausing.insert((at, key))),
            Place::Uncommitted => drop(self.uncommitted.insert(key)),
            Place::Leaderless => {
                self.leaderless.insert(key);
                self.lost += 1;
            }
            Place::Searching(leader) => {
                self.searching.entry(leader).or_default().insert(key);
            }
            Place::Ready(leader, turn) => {
                self.ready.entry(leader).or_default().insert((turn, key));
            }
            Place::Stuck => drop(self.stuck.insert(key)),
        }
        true
    }

    // --- who stands where

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.pausing.first().map(|(at, _)| *at)
    }

    /// How often a partition came to be without a leader so far, if one is.
    pub(super) fn leaderless(&self) -> Option<u64> {
        (!self.leaderless.is_empty()).then_some(self.lost)
    }

    /// Those that need the offset that the group committed.
    pub(super) fn uncommitted(&self) -> Vec<Key> {
        self.uncommitted.iter().copied().collect()
    }

    /// The lookups that are due, one list for each leader.
    pub(super) fn searching(&self) -> Vec<Vec<Key>> {
        let leaders = self.searching.values().filter(|keys| !keys.is_empty());
        leaders.map(|keys| keys.iter().copied().collect()).collect()
    }

    /// Leaders with partitions that must be requested.
    pub(super) fn ready_leaders(&self) -> impl Iterator<Item = i32> {
        let leaders = self.ready.iter().filter(|(_, keys)| !keys.is_empty());
        leaders.map(|(leader, _)| *leader)
    }

    /// The partitions to request from a leader; the one that was served longest ago comes first.
    pub(super) fn ready(&self, leader: i32) -> impl Iterator<Item = Key> {
        let keys = self.ready.get(&leader).into_iter().flatten();
        keys.map(|(_, key)| *key)
    }

    pub(super) fn leaders(&self) -> usize {
        self.leaders.len()
    }

    /// The partitions that are stuck or denied, and those that may be since they were touched.
    pub(super) fn stuck(&self) -> impl Iterator<Item = &Position> {
        let keys = self.stuck.iter().chain(&self.denied).chain(&self.touched);
        keys.filter_map(|key| self.entry(*key))
            .map(|entry| &entry.position)
    }

    /// Counts a denial as raised, of each partition that it concerns.
    pub(super) fn note_denial_raised(&mut self, concerns: impl Fn(&Entry) -> bool) {
        for key in self.denied.iter().chain(&self.touched) {
            if let Some(entry) = self.entries.get_mut(key).filter(|entry| concerns(entry)) {
                entry.position.raised = entry.position.raised.saturating_add(1);
            }
        }
    }
}

fn lessen(counts: &mut BTreeMap<i32, usize>, leader: i32) {
    if let Some(count) = counts.get_mut(&leader) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&leader);
        }
    }
}

/// Remove an item from its leader's set. An empty set stays, because partitions return to it with
/// every response.
fn take_out<T: Ord>(sets: &mut BTreeMap<i32, BTreeSet<T>>, leader: i32, item: &T) {
    if let Some(set) = sets.get_mut(&leader) {
        set.remove(item);
    }
}

fn not_assigned(topic: &str, partition: i32) -> Error {
    let text = "the partition is not assigned to this consumer";
    Error::new(Kind::Argument, text).with_partition(&topic.into(), partition)
}
