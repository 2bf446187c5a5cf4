//! The group coordinator: all groups, their committed offsets, and one clock hand over their timers.
//!
//! Like [`state`], it has neither clock nor sockets: `now` is an argument, a request that must wait hands in a ticket, and
//! answers come out as [`Groups::take_replies`]. Whoever drives it calls [`Groups::handle_timeout`] at
//! [`Groups::next_timeout`].

mod members;
mod offsets;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod zookeeper;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::GroupMetadataValue;

pub(crate) use self::members::StoredMembers;
pub(crate) use self::offsets::{Committed, Offsets, Stored};
pub(crate) use self::state::{
    AsMember, Description, Join, Joined, NotJoined, Protocol, Reply, Sync, Synced,
};
use self::state::{Group, Replies};
pub(crate) use self::zookeeper::ZooKeeperOffsets;
use crate::ids::Ids;

#[derive(Debug)]
pub(crate) struct Groups<T> {
    config: GroupConfig,
    groups: BTreeMap<String, Entry<T>>,
    /// Each group's next deadline, soonest first.
    deadlines: BTreeSet<(Instant, String)>,
    replies: Replies<T>,
    /// Groups whose members are to be kept anew, or whose members nobody needs any more.
    changed: BTreeSet<String>,
    /// Groups that were read back, and whose members' sessions do not run yet.
    restored: BTreeSet<String>,
    ids: Ids,
}

#[derive(Debug)]
struct Entry<T> {
    group: Group<T>,
    offsets: Offsets,
    deadline: Option<Instant>,
}

impl<T> Entry<T> {
    /// Whether nothing is left to be known.
    fn is_over(&self) -> bool {
        self.offsets.is_empty() && self.group.is_empty() && self.deadline.is_none()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupConfig {
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
}

/// One line of ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) group: String,
    pub(crate) protocol_type: String,
    pub(crate) state: &'static str,
}

impl<T> Groups<T> {
    pub(crate) fn new(config: GroupConfig, ids: Ids) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            replies: Vec::new(),
            changed: BTreeSet::new(),
            restored: BTreeSet::new(),
            ids,
        }
    }

    /// JoinGroup; the answer comes out under `ticket`, now or later.
    pub(crate) fn join(&mut self, join: Join, ticket: T, now: Instant) {
        let refused = if join.group.is_empty() {
            Some(ErrorCode::INVALID_GROUP_ID)
        } else if join.session_timeout < self.config.min_session_timeout
            || join.session_timeout > self.config.max_session_timeout
        {
            Some(ErrorCode::INVALID_SESSION_TIMEOUT)
        } else if !join.member.is_empty() && !self.groups.contains_key(&join.group) {
            Some(ErrorCode::UNKNOWN_MEMBER_ID)
        } else {
            None
        };
        if let Some(code) = refused {
            self.replies.push((
                ticket,
                Reply::Join(Err(NotJoined {
                    code,
                    member: join.member,
                })),
            ));
            return;
        }
        let prefix = join.instance.as_ref().unwrap_or(&join.client_id);
        let new_id = format!("{prefix}-{}", self.ids.uuid_text());
        let name = join.group.clone();
        self.make(&name);
        self.with(&name, |entry, replies| {
            entry.group.join(join, ticket, new_id, now, replies)
        });
    }

    /// SyncGroup; the answer comes out under `ticket`, now or later.
    pub(crate) fn sync(&mut self, sync: Sync, ticket: T, now: Instant) {
        if let Err(code) = self.check_known(&sync.group) {
            self.replies.push((ticket, Reply::Sync(Err(code))));
            return;
        }
        let name = sync.group.clone();
        self.with(&name, |entry, replies| {
            entry.group.sync(sync, ticket, now, replies)
        });
    }

    pub(crate) fn heartbeat(
        &mut self,
        group: &str,
        as_member: &AsMember,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        self.check_known(group)?;
        self.with(group, |entry, _| entry.group.heartbeat(as_member, now))
            .unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
    }

    /// LeaveGroup of one member.
    pub(crate) fn leave(
        &mut self,
        group: &str,
        id: &str,
        instance: Option<&str>,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        self.check_known(group)?;
        self.with(group, |entry, replies| {
            entry.group.leave(id, instance, now, replies)
        })
        .unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
    }

    /// Whether `as_member` may commit offsets of `group` now, or in a transaction.
    pub(crate) fn check_commit(
        &mut self,
        group: &str,
        as_member: &AsMember,
        in_transaction: bool,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        if group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        let checked = self.with(group, |entry, _| {
            entry.group.check_commit(as_member, in_transaction, now)
        });
        match checked {
            Some(checked) => checked,
            None if as_member.generation < 0 => Ok(()),
            None => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    /// Takes a committed offset: one that passed [`Groups::check_commit`], or one read back at the start.
    pub(crate) fn commit(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        committed: Committed,
    ) {
        self.make(group);
        if let Some(entry) = self.groups.get_mut(group) {
            entry.offsets.set(topic, partition, committed);
        }
    }

    /// Forgets a committed offset; a group with nothing left goes too.
    pub(crate) fn forget(&mut self, group: &str, topic: &str, partition: i32) {
        if let Some(entry) = self.groups.get_mut(group) {
            entry.offsets.remove(topic, partition);
            if entry.is_over() {
                self.groups.remove(group);
                self.changed.insert(group.to_owned());
            }
        }
    }

    /// Takes an offset that counts when its producer's transaction is committed.
    pub(crate) fn commit_in_transaction(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        producer_id: i64,
        committed: Committed,
    ) {
        self.make(group);
        if let Some(entry) = self.groups.get_mut(group) {
            entry
                .offsets
                .set_in_transaction(topic, partition, producer_id, committed);
        }
    }

    /// A producer's transaction has ended, for groups for which that was written down.
    pub(crate) fn end_transaction(
        &mut self,
        is_meant: impl Fn(&str) -> bool,
        producer_id: i64,
        commits: bool,
    ) {
        let mut emptied = Vec::new();
        for (name, entry) in self.groups.iter_mut().filter(|(name, _)| is_meant(name)) {
            entry.offsets.end_transaction(producer_id, commits);
            if entry.is_over() {
                emptied.push(name.clone());
            }
        }
        for name in emptied {
            self.groups.remove(&name);
        }
    }

    /// All committed offsets of a topic, as (group, partition).
    pub(crate) fn commits_of_topic(&self, topic: &str) -> Vec<(String, i32)> {
        let of = |(name, entry): (&String, &Entry<T>)| {
            entry
                .offsets
                .partitions(topic)
                .map(|partition| (name.clone(), partition))
                .collect::<Vec<_>>()
        };
        self.groups.iter().flat_map(of).collect()
    }

    /// The committed offsets of a group, if there is one.
    pub(crate) fn offsets(&self, group: &str) -> Option<&Offsets> {
        self.groups.get(group).map(|entry| &entry.offsets)
    }

    pub(crate) fn describe(&self, group: &str) -> Option<Description> {
        self.groups.get(group).map(|entry| entry.group.describe())
    }

    pub(crate) fn list(&self) -> impl Iterator<Item = Listed> + '_ {
        self.groups.iter().map(|(name, entry)| Listed {
            group: name.clone(),
            protocol_type: entry.group.protocol_type().to_owned(),
            state: entry.group.state_name(),
        })
    }

    /// Deletes an empty group and gives back the offsets it had committed.
    pub(crate) fn delete(&mut self, group: &str) -> Result<Offsets, ErrorCode> {
        if group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        let entry = self
            .groups
            .get(group)
            .ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if !entry.group.is_empty() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let entry = self
            .groups
            .remove(group)
            .ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, group.to_owned()));
        }
        self.changed.insert(group.to_owned());
        Ok(entry.offsets)
    }

    /// Takes over the members of a group that were kept, or with `None` that they were forgotten. Their sessions run from
    /// the next call of [`Groups::begin_sessions`] on.
    pub(crate) fn restore(&mut self, group: &str, kept: Option<&GroupMetadataValue>) {
        self.make(group);
        let Some(entry) = self.groups.get_mut(group) else {
            return;
        };
        let delay = self.config.initial_rebalance_delay;
        match kept {
            Some(kept) => entry.group = Group::restored(delay, kept),
            None if entry.offsets.is_empty() => {
                self.groups.remove(group);
            }
            None => entry.group = Group::new(delay),
        }
        self.restored.insert(group.to_owned());
    }

    /// Has the sessions run of members that were read back.
    pub(crate) fn begin_sessions(&mut self, now: Instant) {
        for name in std::mem::take(&mut self.restored) {
            self.with(&name, |entry, _| entry.group.begin_sessions(now));
        }
    }

    /// What is to be kept of groups that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<StoredMembers> {
        let changed = std::mem::take(&mut self.changed);
        let stored = changed.into_iter().map(|group| StoredMembers {
            kept: self.groups.get(&group).map(|entry| entry.group.kept()),
            group,
        });
        stored.collect()
    }

    /// Forgets groups that another node coordinates from here on; who waits in them is told.
    pub(crate) fn unload(&mut self, is_gone: impl Fn(&str) -> bool) {
        let names = self.groups.keys().filter(|name| is_gone(name));
        for name in names.cloned().collect::<Vec<_>>() {
            let Some(mut entry) = self.groups.remove(&name) else {
                continue;
            };
            self.changed.remove(&name);
            entry.group.abandon(&mut self.replies);
            if let Some(deadline) = entry.deadline {
                self.deadlines.remove(&(deadline, name));
            }
        }
    }

    /// When [`Groups::handle_timeout`] has something to do next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Does all that is due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, name)) = self
            .deadlines
            .first()
            .filter(|(deadline, _)| *deadline <= now)
            .cloned()
        {
            self.with(&name, |entry, replies| entry.group.advance(now, replies));
        }
    }

    /// Answers that became due since the last call.
    pub(crate) fn take_replies(&mut self) -> Vec<(T, Reply)> {
        std::mem::take(&mut self.replies)
    }

    fn check_known(&self, group: &str) -> Result<(), ErrorCode> {
        if group.is_empty() {
            Err(ErrorCode::INVALID_GROUP_ID)
        } else if self.groups.contains_key(group) {
            Ok(())
        } else {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
    }

    fn make(&mut self, group: &str) {
        if !self.groups.contains_key(group) {
            let delay = self.config.initial_rebalance_delay;
            let entry = Entry {
                group: Group::new(delay),
                offsets: Offsets::default(),
                deadline: None,
            };
            self.groups.insert(group.to_owned(), entry);
        }
    }

    /// Runs `act` on a group and keeps its deadline in the order of all.
    fn with<R>(
        &mut self,
        group: &str,
        act: impl FnOnce(&mut Entry<T>, &mut Replies<T>) -> R,
    ) -> Option<R> {
        let entry = self.groups.get_mut(group)?;
        let result = act(entry, &mut self.replies);
        if entry.group.take_changed() {
            self.changed.insert(group.to_owned());
        }
        let deadline = entry.group.deadline();
        if deadline != entry.deadline {
            if let Some(old) = std::mem::replace(&mut entry.deadline, deadline) {
                self.deadlines.remove(&(old, group.to_owned()));
            }
            if let Some(new) = deadline {
                self.deadlines.insert((new, group.to_owned()));
            }
        }
        Some(result)
    }
}
