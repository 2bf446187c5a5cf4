//! The records that share groups share (KIP-932), as the leaders of partitions know them: which are given to whom, and until
//! when; which are done with. Who the members of a group are is [`crate::group`]'s.
//!
//! | file | its reason |
//! |---|---|
//! | `rules` | what holds for one group |
//! | `partition` | the records of one partition for one group: a state machine |
//! | `session` | which partitions a member fetches from, without naming them again |
//! | `states` | what outlives a leader, and a broker that keeps its log in a folder |
//!
//! No clock and no sockets: `now` is an argument, and readers that wait for records are woken.
//! Whoever drives it calls [`Shares::handle_timeout`] at [`Shares::next_timeout`].

mod partition;
mod rules;
mod session;
mod states;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Instant;

use ottla_protocol::{ErrorCode, Uuid};

pub(crate) use self::partition::{Acquired, Batch, Claim, Said};
use self::partition::{Refusal, SharePartition};
pub(crate) use self::rules::{
    Reset, SHARE_DELIVERIES, SHARE_ISOLATION, SHARE_LOCK, SHARE_LOCKS, SHARE_RENEW, SHARE_RESET,
    SharingRules,
};
pub(crate) use self::session::{FIRST_EPOCH, LAST_EPOCH, Place, ShareSessions};
pub(crate) use self::states::{Key, ShareStates, StoredState};
use crate::bell::Awaited;

/// With fewer partitions and waiters than this, nobody looks for those that are needed no more.
const SWEPT_FROM: usize = 64;

/// What a leader knows of the partitions that share groups read.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) sessions: ShareSessions,
    partitions: BTreeMap<Key, Entry>,
    states: Arc<ShareStates>,
    /// Who is rung when records become free.
    waiting: BTreeMap<Key, Vec<Weak<dyn Awaited>>>,
    /// What is to be written down again.
    changed: BTreeSet<Key>,
    /// At this number of partitions and waiters, it looks for those that are needed no more.
    swept_at: usize,
}

/// Where a group reads next in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) from: i64,
    /// The number of the state. A node that has read another state than the present one gives
    /// records to nobody.
    number: u64,
}

#[derive(Debug)]
struct Entry {
    partition: SharePartition,
    /// The number of the state that it goes on from: another one counts after the group was deleted, or its offsets altered.
    number: u64,
    leader_epoch: i32,
    /// How often a record is delivered at most.
    most_deliveries: i16,
    /// How many records may be under way.
    most_locks: i64,
    deadline: Option<Instant>,
}

impl Shares {
    pub(crate) fn new(most_sessions: usize, states: Arc<ShareStates>) -> Self {
        Self {
            sessions: ShareSessions::new(most_sessions),
            partitions: BTreeMap::new(),
            states,
            waiting: BTreeMap::new(),
            changed: BTreeSet::new(),
            swept_at: SWEPT_FROM,
        }
    }

    /// Whether this leader, or one before it, knows where the group is in the partition.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.states.get(key).is_some_and(|state| state.start >= 0)
    }

    /// Where the group reads next, as the leader of this epoch whose log begins at `log_start`. A group that is new to the
    /// partition begins at `begin`. `None`: as many records are under way as may be, or another leader has taken over.
    pub(crate) fn next_offset(
        &mut self,
        key: &Key,
        leader_epoch: i32,
        rules: &SharingRules,
        log_start: i64,
        begin: i64,
    ) -> Option<Reading> {
        let known = self.states.get(key);
        let is_current = known.as_ref().is_some_and(|known| {
            let entry = self.partitions.get(key);
            entry.is_some_and(|it| (it.number, it.leader_epoch) == (known.number, leader_epoch))
        });
        if !is_current {
            let partition = match known.as_ref().filter(|known| known.start >= 0) {
                Some(known) => SharePartition::restored(known.start, &known.batches),
                None => SharePartition::new(begin),
            };
            let number = self
                .states
                .take_over(key, leader_epoch, &partition.kept())?;
            let entry = Entry {
                partition,
                number,
                leader_epoch,
                most_deliveries: rules.most_deliveries,
                most_locks: rules.most_locks,
                deadline: None,
            };
            self.sweep();
            self.partitions.insert(key.clone(), entry);
            self.changed.insert(key.clone());
        }
        let entry = self.partitions.get_mut(key)?;
        entry.most_deliveries = rules.most_deliveries;
        entry.most_locks = rules.most_locks;
        if entry.partition.begin_at(log_start) {
            self.settle(key);
            self.ring(key);
        }
        let entry = self.partitions.get(key)?;
        Some(Reading {
            from: entry.partition.next_offset(rules.most_locks)?,
            number: entry.number,
        })
    }

    /// Gives records to a member, of these batches that were read by `reading`: none if another leader has taken over since
    /// then, or another beginning was set.
    pub(crate) fn acquire(
        &mut self,
        key: &Key,
        reading: Reading,
        batches: &[Batch],
        claim: &Claim,
    ) -> Vec<Acquired> {
        let Reading { from, number } = reading;
        let entry = self.partitions.get_mut(key);
        let entry = entry.filter(|it| it.number == number);
        let Some(entry) = entry.filter(|_| self.states.number(key) == Some(number)) else {
            return Vec::new();
        };
        let acquired = entry.partition.acquire(from, batches, claim);
        self.settle(key);
        acquired
    }

    /// Takes a member's acknowledgements of records that it has.
    ///
    /// # Errors
    /// Why nothing of it counts.
    pub(crate) fn acknowledge(
        &mut self,
        key: &Key,
        member: &str,
        said: &[Said],
        renewed_until: Option<Instant>,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.partitions.get_mut(key) else {
            let message = "Nothing was acquired from this leader.";
            return Err((ErrorCode::INVALID_RECORD_STATE, message));
        };
        let kept = self.states.get(key);
        if kept.is_some_and(|kept| kept.leader_epoch > entry.leader_epoch) {
            // Nothing of it would be kept, as Kafka's share coordinator fences the leaders of earlier epochs.
            let message = "Another leader has taken over.";
            return Err((ErrorCode::NOT_LEADER_OR_FOLLOWER, message));
        }
        let (partition, most) = (&mut entry.partition, entry.most_deliveries);
        let was_full = partition.next_offset(entry.most_locks).is_none();
        let frees = partition.acknowledge(member, said, renewed_until, most)?;
        self.settle(key);
        // Even if no record came free, there may be fewer locks than the limit now.
        if frees || was_full {
            self.ring(key);
        }
        Ok(())
    }

    /// Has `waiting` rung when records become free from now on.
    pub(crate) fn watch(&mut self, key: Key, waiting: &Arc<dyn Awaited>) {
        self.sweep();
        let all = self.waiting.entry(key).or_default();
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(waiting));
    }

    /// Frees all that a member has.
    pub(crate) fn release(&mut self, group: &str, member: &str) {
        for key in self.keys_of(group) {
            let Some(entry) = self.partitions.get_mut(&key) else {
                continue;
            };
            if entry.partition.release(member, entry.most_deliveries) {
                self.settle(&key);
                self.ring(&key);
            }
        }
    }

    /// The connection is gone on which the session with this id was: what was acquired in it is free.
    pub(crate) fn disconnect(&mut self, session: u64) {
        if let Some((group, member)) = self.sessions.end(session) {
            self.release(&group, &member);
        }
    }

    /// When [`Shares::handle_timeout`] has something to do next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.partitions.values().filter_map(|it| it.deadline).min()
    }

    /// Frees the records whose locks have ended.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let is_due = |entry: &Entry| entry.deadline.is_some_and(|it| it <= now);
        let due = self.partitions.iter().filter(|(_, it)| is_due(it));
        for key in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            if let Some(entry) = self.partitions.get_mut(&key) {
                let frees = entry.partition.expire(now, entry.most_deliveries);
                self.settle(&key);
                if frees {
                    self.ring(&key);
                }
            }
        }
    }

    /// Another node leads the partition from here on, or this one again.
    pub(crate) fn leave(&mut self, topic: Uuid, index: i32) {
        let is_there = |key: &Key| key.topic == topic && key.partition == index;
        self.partitions.retain(|key, _| !is_there(key));
    }

    /// Forgets a topic, which is deleted.
    pub(crate) fn forget_topic(&mut self, topic: Uuid) {
        self.partitions.retain(|key, _| key.topic != topic);
        self.waiting.retain(|key, _| key.topic != topic);
        self.changed
            .extend(self.states.forget(|key| key.topic == topic));
    }

    /// Forgets what a group has read of a topic, or of all.
    pub(crate) fn forget_group(&mut self, group: &str, topic: Option<Uuid>) {
        let is_meant = |key: &Key| key.group == group && topic.is_none_or(|it| it == key.topic);
        self.partitions.retain(|key, _| !is_meant(key));
        self.waiting.retain(|key, _| !is_meant(key));
        self.changed.extend(self.states.forget(is_meant));
    }

    /// Has a group begin at an offset.
    pub(crate) fn set_start(&mut self, key: Key, start: i64) {
        self.states.set_start(&key, start);
        self.ring(&key);
        self.changed.insert(key);
    }

    /// What is known of the partitions of a group, whoever leads them.
    pub(crate) fn states(&self) -> &Arc<ShareStates> {
        &self.states
    }

    /// The node is down: others go on from what they know.
    pub(crate) fn clear(&mut self) {
        self.partitions.clear();
        self.waiting.clear();
        self.sessions.clear();
        self.changed.clear();
    }

    /// What is to be written down of states that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<StoredState> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let stored = changed.map(|key| StoredState {
            state: self.states.get(&key),
            key,
        });
        stored.collect()
    }

    /// These could not be written down: they are to be with what changes next.
    pub(crate) fn put_back(&mut self, unwritten: Vec<StoredState>) {
        let keys = unwritten.into_iter().map(|stored| stored.key);
        self.changed.extend(keys);
    }

    fn keys_of(&self, group: &str) -> Vec<Key> {
        let keys = self.partitions.keys();
        keys.filter(|key| key.group == group).cloned().collect()
    }

    /// Follows a change: keeps it for whoever leads next.
    fn settle(&mut self, key: &Key) {
        let Some(entry) = self.partitions.get_mut(key) else {
            return;
        };
        entry.deadline = entry.partition.deadline();
        let kept = entry.partition.kept();
        if self.states.put(key, entry.number, entry.leader_epoch, kept) {
            self.changed.insert(key.clone());
        }
    }

    /// Wakes readers that wait for records, since some may be free.
    fn ring(&mut self, key: &Key) {
        for waiting in self.waiting.remove(key).into_iter().flatten() {
            if let Some(waiting) = waiting.upgrade() {
                waiting.bell().ring();
            }
        }
    }

    /// Forgets readers that wait no more, and partitions whose state is another's: their groups
    /// were deleted or set back by another node. Looks only when there are twice as many as it left
    /// the last time.
    fn sweep(&mut self) {
        if self.waiting.len() + self.partitions.len() < self.swept_at {
            return;
        }
        self.waiting.retain(|_, all| {
            all.retain(|it| it.strong_count() > 0);
            !all.is_empty()
        });
        let states = &self.states;
        self.partitions
            .retain(|key, it| states.number(key) == Some(it.number));
        let left = self.waiting.len() + self.partitions.len();
        self.swept_at = SWEPT_FROM.max(2 * left);
    }
}
