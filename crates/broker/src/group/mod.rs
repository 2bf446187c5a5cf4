//! The group coordinator: all groups, their committed offsets, and one clock hand over their timers.
//!
//! Like [`state`], it has neither clock nor sockets: `now` is an argument, a request that must wait
//! hands in a ticket, and replies come out as [`Groups::take_replies`]. Whoever drives it calls
//! [`Groups::handle_timeout`] at [`Groups::next_timeout`].

mod catalogue;
mod classic;
mod consumer;
mod conversion;
mod embedded;
mod kept;
mod kind;
mod members;
mod offsets;
mod record;
mod settings;
mod share;
mod state;
#[cfg(test)]
mod tests;
mod zookeeper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::GroupMetadataValue;

pub(crate) use self::catalogue::Catalogue;
pub(crate) use self::classic::{AsMember, Join, Joined, NotJoined, Protocol, Sync, Synced};
pub(crate) use self::consumer::assignor::Assignor;
pub(crate) use self::consumer::kept::StoredConsumer;
pub(crate) use self::consumer::{
    Beat, Beaten, ConsumerDescription, ConsumerMember, ConsumerRules, Migration, Owned, Refused,
};
use self::consumer::{ConsumerGroup, Seen};
use self::conversion::{downgraded, upgraded};
pub(crate) use self::kept::Kept;
use self::kind::Kind;
pub(crate) use self::members::StoredMembers;
pub(crate) use self::offsets::{Committed, Offsets, Stored};
pub(crate) use self::settings::{
    CONSUMER_ASSIGNMENT_INTERVAL, CONSUMER_HEARTBEAT, CONSUMER_SESSION, GroupSettings, OwnSettings,
    SHARE_ASSIGNMENT_INTERVAL, SHARE_HEARTBEAT, SHARE_SESSION,
};
use self::share::ShareGroup;
pub(crate) use self::share::kept::StoredShare;
pub(crate) use self::share::{ShareBeat, ShareDescription, ShareMember, ShareRules};
pub(crate) use self::state::{Description, Reply};
use self::state::{Group, Replies};
pub(crate) use self::zookeeper::ZooKeeperOffsets;
use crate::ids::Ids;

#[derive(Debug)]
pub(crate) struct Groups<T> {
    config: GroupConfig,
    own: Arc<GroupSettings>,
    /// The topics as of the last change that it got.
    catalogue: Arc<Catalogue>,
    groups: BTreeMap<String, Entry<T>>,
    /// Each group's next deadline, soonest first.
    deadlines: BTreeSet<(Instant, String)>,
    replies: Replies<T>,
    /// Groups whose members are to be stored again, or whose members nobody needs any more.
    changed: BTreeSet<String>,
    /// What is to be kept of groups of the consumer protocol, and of share groups.
    records: Vec<Kept>,
    /// Groups that were read back, and whose members' sessions do not run yet.
    restored: BTreeSet<String>,
    ids: Ids,
}

#[derive(Debug)]
struct Entry<T> {
    kind: Kind<T>,
    offsets: Offsets,
    deadline: Option<Instant>,
    /// When its members last changed, in milliseconds since 1970.
    changed_at: i64,
}

impl<T> Entry<T> {
    /// Whether nothing is left to be known. Where a share group is, others know: it stays until it is deleted.
    fn is_over(&self) -> bool {
        let shares = matches!(self.kind, Kind::Share(_));
        !shares && self.offsets.is_empty() && self.kind.is_empty() && self.deadline.is_none()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct GroupConfig {
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
    pub(crate) consumer: ConsumerRules,
    pub(crate) share: ShareRules,
}

/// How offsets are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committing {
    /// By a version of OffsetCommit that does not know of members' epochs.
    BeforeEpochs,
    /// By one that does (KIP-848).
    WithEpochs,
    InTransaction,
}

/// One line of ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) group: String,
    pub(crate) protocol_type: String,
    pub(crate) state: &'static str,
    /// Its protocol, by Kafka's name.
    pub(crate) kind: &'static str,
}

impl<T> Groups<T> {
    pub(crate) fn new(config: GroupConfig, own: Arc<GroupSettings>, ids: Ids) -> Self {
        Self {
            config,
            own,
            catalogue: Arc::default(),
            groups: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            replies: Vec::new(),
            changed: BTreeSet::new(),
            records: Vec::new(),
            restored: BTreeSet::new(),
            ids,
        }
    }

    /// Takes note of the topics as they are now.
    pub(crate) fn see(&mut self, catalogue: Arc<Catalogue>) {
        self.catalogue = catalogue;
    }

    pub(crate) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// JoinGroup; the reply comes out under `ticket`, now or later.
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
        self.become_classic(&name);
        let catalogue = Arc::clone(&self.catalogue);
        let rules = self.own.rules(&name, &self.config.consumer);
        let may_replace = join.instance.is_some() && join.member.is_empty();
        self.with(&name, |entry, replies| match &mut entry.kind {
            Kind::Classic(group) => group.join(join, ticket, new_id, now, replies),
            Kind::Consumer(group) => {
                let joined = group.join(&join, new_id, &rules, &catalogue, now);
                replies.push((ticket, Reply::Join(joined)));
            }
            Kind::Share(_) => replies.push((
                ticket,
                Reply::Join(Err(NotJoined {
                    code: ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
                    member: join.member,
                })),
            )),
        });
        if may_replace {
            // It may have the place of the last member of the consumer protocol, and has joined already.
            self.downgrade(&name, false, now);
        }
    }

    /// SyncGroup; the reply comes out under `ticket`, now or later.
    pub(crate) fn sync(&mut self, sync: Sync, ticket: T, now: Instant) {
        if let Err(code) = self.check_known(&sync.group) {
            self.replies.push((ticket, Reply::Sync(Err(code))));
            return;
        }
        let name = sync.group.clone();
        let catalogue = Arc::clone(&self.catalogue);
        self.with(&name, |entry, replies| match &mut entry.kind {
            Kind::Classic(group) => group.sync(sync, ticket, now, replies),
            Kind::Consumer(group) => {
                replies.push((ticket, Reply::Sync(group.sync(&sync, &catalogue, now))));
            }
            Kind::Share(_) => {
                replies.push((ticket, Reply::Sync(Err(ErrorCode::UNKNOWN_MEMBER_ID))));
            }
        });
    }

    pub(crate) fn heartbeat(
        &mut self,
        group: &str,
        as_member: &AsMember,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        self.check_known(group)?;
        let beaten = self.with(group, |entry, _| match &mut entry.kind {
            Kind::Classic(group) => group.heartbeat(as_member, now),
            Kind::Consumer(group) => group.beat_classic(as_member, now),
            Kind::Share(_) => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        });
        beaten.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
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
        let catalogue = Arc::clone(&self.catalogue);
        let rules = self.own.rules(group, &self.config.consumer);
        let left = self.with(group, |entry, replies| match &mut entry.kind {
            Kind::Classic(group) => group.leave(id, instance, now, replies),
            Kind::Consumer(group) => group.leave_classic(id, instance, &rules, &catalogue),
            Kind::Share(_) => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        });
        self.downgrade(group, true, now);
        left.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
    }

    /// ConsumerGroupHeartbeat; the reply comes out under `ticket`. `may_describe` returns whether
    /// the client may know that a topic is there.
    pub(crate) fn beat(
        &mut self,
        beat: &Beat,
        may_describe: &dyn Fn(&str) -> bool,
        ticket: T,
        now: Instant,
    ) {
        let beaten = self.beaten(beat, may_describe, now);
        self.replies.push((ticket, Reply::Beat(beaten)));
    }

    fn beaten(
        &mut self,
        beat: &Beat,
        may_describe: &dyn Fn(&str) -> bool,
        now: Instant,
    ) -> Result<Beaten, Refused> {
        let name = &beat.group;
        let is_new = !self.groups.contains_key(name);
        if beat.epoch == 0 {
            self.make(name);
            self.become_consumer(name);
        }
        let catalogue = Arc::clone(&self.catalogue);
        let rules = self.own.rules(name, &self.config.consumer);
        let seen = Seen {
            catalogue: &catalogue,
            may_describe,
        };
        let mut was_kept = false;
        let beaten = self.with(name, |entry, replies| {
            Some(match &mut entry.kind {
                Kind::Classic(classic) if beat.epoch == 0 => {
                    let mut group = match upgraded(classic, &rules, &catalogue, now) {
                        Ok(group) => group,
                        Err(why) => {
                            let message = format!("\"{name}\" is no consumer group: {why}");
                            let code = ErrorCode::GROUP_ID_NOT_FOUND;
                            return Some(Err(Refused::new(code, message)));
                        }
                    };
                    let beaten = group.heartbeat(beat, &rules, &seen, now);
                    if beaten.is_ok() {
                        was_kept = classic.was_kept();
                        classic.abandon(ErrorCode::REBALANCE_IN_PROGRESS, replies);
                        entry.kind = Kind::Consumer(group);
                    }
                    beaten
                }
                Kind::Classic(_) | Kind::Share(_) => return None,
                Kind::Consumer(group) if beat.epoch < 0 => group.leave(beat, &rules, &catalogue),
                Kind::Consumer(group) => group.heartbeat(beat, &rules, &seen, now),
            })
        });
        if was_kept {
            self.changed.insert(name.clone());
        }
        if beat.epoch < 0 {
            self.downgrade(name, true, now);
        }
        if is_new
            && beaten
                .as_ref()
                .is_some_and(|it| it.as_ref().is_some_and(Result::is_err))
        {
            self.groups.remove(name);
        }
        beaten.flatten().unwrap_or_else(|| {
            let message = format!("there is no consumer group \"{name}\"");
            Err(Refused::new(ErrorCode::GROUP_ID_NOT_FOUND, message))
        })
    }

    /// ShareGroupHeartbeat; the reply comes out under `ticket`.
    pub(crate) fn beat_share(&mut self, beat: &ShareBeat, ticket: T, now: Instant) {
        let beaten = self.beaten_share(beat, now);
        self.replies.push((ticket, Reply::Beat(beaten)));
    }

    fn beaten_share(&mut self, beat: &ShareBeat, now: Instant) -> Result<Beaten, Refused> {
        let name = &beat.group;
        let is_new = beat.epoch == 0 && !self.groups.contains_key(name);
        if is_new {
            self.make(name);
            if let Some(entry) = self.groups.get_mut(name) {
                entry.kind = Kind::Share(ShareGroup::default());
            }
        }
        let catalogue = Arc::clone(&self.catalogue);
        let rules = self.own.share_rules(name, &self.config.share);
        let beaten = self.with(name, |entry, _| match &mut entry.kind {
            Kind::Classic(_) | Kind::Consumer(_) => None,
            Kind::Share(group) if beat.epoch < 0 => Some(group.leave(beat, &catalogue)),
            Kind::Share(group) => Some(group.heartbeat(beat, &rules, &catalogue, now)),
        });
        if is_new && !matches!(beaten, Some(Some(Ok(_)))) {
            self.groups.remove(name);
        }
        beaten.flatten().unwrap_or_else(|| {
            let message = format!("there is no share group \"{name}\"");
            Err(Refused::new(ErrorCode::GROUP_ID_NOT_FOUND, message))
        })
    }

    /// Makes an empty share group, if no group has this name.
    ///
    /// # Errors
    /// It has members, or is of another kind.
    pub(crate) fn make_share(&mut self, name: &str) -> Result<(), ErrorCode> {
        if name.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        if !self.groups.contains_key(name) {
            self.make(name);
            self.with(name, |entry, _| {
                entry.kind = Kind::Share(ShareGroup::default());
            });
        }
        self.check_unshared(name)
    }

    /// Whether this is a share group without members.
    pub(crate) fn check_unshared(&self, name: &str) -> Result<(), ErrorCode> {
        match self.groups.get(name).map(|entry| &entry.kind) {
            Some(Kind::Share(group)) if group.is_empty() => Ok(()),
            Some(Kind::Share(_)) => Err(ErrorCode::NON_EMPTY_GROUP),
            _ => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        }
    }

    /// ShareGroupDescribe; `None` if there is no share group of this name.
    pub(crate) fn describe_share(&self, group: &str) -> Option<ShareDescription> {
        match &self.groups.get(group)?.kind {
            Kind::Share(group) => Some(group.describe()),
            Kind::Classic(_) | Kind::Consumer(_) => None,
        }
    }

    /// An empty group of the classic protocol becomes one of the consumer protocol; its offsets stay.
    fn become_consumer(&mut self, name: &str) {
        let Some(entry) = self.groups.get_mut(name) else {
            return;
        };
        if let Kind::Classic(group) = &entry.kind
            && group.is_empty()
        {
            let was_kept = group.was_kept();
            entry.kind = Kind::Consumer(ConsumerGroup::default());
            if was_kept {
                self.changed.insert(name.to_owned());
            }
        }
    }

    /// A group of which only classic members are left goes on as theirs, if it may. `gathers`: they are to join again.
    fn downgrade(&mut self, name: &str, gathers: bool, now: Instant) {
        let catalogue = Arc::clone(&self.catalogue);
        let rules = self.own.rules(name, &self.config.consumer);
        let delay = self.config.initial_rebalance_delay;
        let gone = self.with(name, |entry, replies| match &entry.kind {
            Kind::Consumer(group) if group.becomes_classic(&rules) => {
                let gone = group.tombstones(name);
                let mut classic = downgraded(group, delay, &catalogue, now);
                if gathers {
                    classic.gather(now, replies);
                }
                entry.kind = Kind::Classic(classic);
                gone
            }
            _ => Vec::new(),
        });
        let gone = gone.into_iter().flatten();
        self.records.extend(gone.map(Kept::Consumer));
    }

    /// Has the members of a group of the classic protocol join again.
    pub(crate) fn gather(&mut self, name: &str, now: Instant) {
        self.with(name, |entry, replies| match &mut entry.kind {
            Kind::Classic(group) if !group.is_empty() => group.gather(now, replies),
            Kind::Classic(_) | Kind::Consumer(_) | Kind::Share(_) => {}
        });
    }

    /// The reverse of [`Groups::become_consumer`].
    fn become_classic(&mut self, name: &str) {
        let Some(entry) = self.groups.get_mut(name) else {
            return;
        };
        if let Kind::Consumer(group) = &entry.kind
            && group.is_empty()
        {
            let records = group.tombstones(name).into_iter();
            self.records.extend(records.map(Kept::Consumer));
            let delay = self.config.initial_rebalance_delay;
            entry.kind = Kind::Classic(Group::new(delay));
        }
    }

    /// ConsumerGroupDescribe; `None` if there is no group of the consumer protocol.
    pub(crate) fn describe_consumer(&self, group: &str) -> Option<ConsumerDescription> {
        let entry = self.groups.get(group)?;
        let rules = self.own.rules(group, &self.config.consumer);
        match &entry.kind {
            Kind::Consumer(group) => Some(group.describe(&rules)),
            Kind::Classic(_) | Kind::Share(_) => None,
        }
    }

    /// Whether this member may fetch offsets of `group`. Nobody's may always be fetched.
    pub(crate) fn check_fetch(
        &self,
        group: &str,
        id: Option<&str>,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        match self.groups.get(group).map(|entry| &entry.kind) {
            Some(Kind::Consumer(group)) if id.is_some() || epoch >= 0 => {
                group.check_fetch(id.unwrap_or_default(), epoch)
            }
            _ => Ok(()),
        }
    }

    /// Whether committed offsets of a topic may be deleted.
    pub(crate) fn check_forget(&self, group: &str, topic: &str) -> Result<(), ErrorCode> {
        let entry = self
            .groups
            .get(group)
            .ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        match entry.kind.subscribes_to(topic) {
            Some(false) => Ok(()),
            Some(true) => Err(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC),
            None => Err(ErrorCode::NON_EMPTY_GROUP),
        }
    }

    /// Whether `as_member` may commit offsets of `group` now, or in a transaction.
    pub(crate) fn check_commit(
        &mut self,
        group: &str,
        as_member: &AsMember,
        how: Committing,
        offsets: &[Stored],
        now: Instant,
    ) -> Result<(), ErrorCode> {
        if group.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        let catalogue = Arc::clone(&self.catalogue);
        let is_transactional = how == Committing::InTransaction;
        let checked = self.with(group, |entry, _| match &mut entry.kind {
            Kind::Classic(group) => group.check_commit(as_member, is_transactional, now),
            Kind::Share(_) => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            // Old producers do not say whose offsets they commit.
            Kind::Consumer(_) if is_transactional && as_member.is_nobody() => Ok(()),
            Kind::Consumer(group) => {
                let id_of = |topic: &str| catalogue.topic(topic).map(|(id, _)| id);
                let partitions = offsets.iter().map(|it| (id_of(&it.topic), it.partition));
                let (id, epoch) = (&as_member.id, as_member.generation);
                if how == Committing::BeforeEpochs && group.has_own_member(id) {
                    return Err(ErrorCode::UNSUPPORTED_VERSION);
                }
                let checked = group.check_commit(id, epoch, partitions);
                checked.map_err(|code| match code {
                    // TxnOffsetCommit has no such error.
                    ErrorCode::STALE_MEMBER_EPOCH if is_transactional => {
                        ErrorCode::ILLEGAL_GENERATION
                    }
                    code => code,
                })
            }
        });
        match checked {
            Some(checked) => checked,
            None if as_member.generation < 0 => Ok(()),
            None if how == Committing::WithEpochs => Err(ErrorCode::GROUP_ID_NOT_FOUND),
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
                match &entry.kind {
                    Kind::Classic(_) => {
                        self.changed.insert(group.to_owned());
                    }
                    Kind::Consumer(_) | Kind::Share(_) => {
                        self.records.extend(entry.kind.tombstones(group));
                    }
                }
                self.groups.remove(group);
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
            // What is kept of its members is there after a restart, so that it is there until then.
            if entry.is_over() && !entry.kind.is_kept() {
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
        match &self.groups.get(group)?.kind {
            Kind::Classic(group) => Some(group.describe()),
            Kind::Consumer(_) | Kind::Share(_) => None,
        }
    }

    pub(crate) fn list(&self) -> impl Iterator<Item = Listed> + '_ {
        self.groups.iter().map(|(name, entry)| Listed {
            group: name.clone(),
            protocol_type: entry.kind.protocol_type().to_owned(),
            state: entry.kind.state_name(),
            kind: entry.kind.name(),
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
        if !entry.kind.is_empty() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let entry = self
            .groups
            .remove(group)
            .ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, group.to_owned()));
        }
        match &entry.kind {
            Kind::Classic(_) => {
                self.changed.insert(group.to_owned());
            }
            Kind::Consumer(_) | Kind::Share(_) => {
                self.records.extend(entry.kind.tombstones(group));
            }
        }
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
            Some(kept) => {
                entry.kind = Kind::Classic(Group::restored(delay, kept));
                entry.changed_at = kept.current_state_timestamp;
            }
            // It went when the group changed its protocol.
            None if matches!(entry.kind, Kind::Consumer(_) | Kind::Share(_)) => {}
            None if entry.offsets.is_empty() => {
                self.groups.remove(group);
            }
            None => entry.kind = Kind::Classic(Group::new(delay)),
        }
        self.restored.insert(group.to_owned());
    }

    /// As [`Groups::restore`], of one record of a group of the consumer protocol.
    pub(crate) fn restore_consumer(&mut self, record: StoredConsumer) {
        let name = record.group.clone();
        if record.is_there() {
            self.make(&name);
        }
        let Some(entry) = self.groups.get_mut(&name) else {
            return;
        };
        if let (Kind::Classic(_), true) = (&entry.kind, record.is_there()) {
            entry.kind = Kind::Consumer(ConsumerGroup::default());
        }
        if let Kind::Consumer(group) = &mut entry.kind {
            let is_end = record.is_end();
            group.restore(record);
            if is_end {
                entry.kind = Kind::Classic(Group::new(self.config.initial_rebalance_delay));
                if entry.offsets.is_empty() {
                    self.groups.remove(&name);
                }
            }
        }
        self.restored.insert(name);
    }

    /// As [`Groups::restore`], of one record of a share group.
    pub(crate) fn restore_share(&mut self, record: StoredShare) {
        let name = record.group.clone();
        if record.is_there() && !self.groups.contains_key(&name) {
            self.make(&name);
            if let Some(entry) = self.groups.get_mut(&name) {
                entry.kind = Kind::Share(ShareGroup::default());
            }
        }
        let is_end = record.is_end();
        if let Some(Kind::Share(group)) = self.groups.get_mut(&name).map(|it| &mut it.kind) {
            group.restore(record);
            if is_end {
                self.groups.remove(&name);
            }
        }
        self.restored.insert(name);
    }

    /// Has the sessions run of members that were read back.
    pub(crate) fn begin_sessions(&mut self, now: Instant) {
        for name in std::mem::take(&mut self.restored) {
            let rules = self.own.rules(&name, &self.config.consumer);
            let share_rules = self.own.share_rules(&name, &self.config.share);
            self.with(&name, |entry, _| match &mut entry.kind {
                Kind::Classic(group) => group.begin_sessions(now),
                Kind::Consumer(group) => group.begin_sessions(&rules, now),
                Kind::Share(group) => group.begin_sessions(&share_rules, now),
            });
        }
    }

    /// What is to be kept of groups that changed since the last call, at this time in milliseconds since 1970.
    pub(crate) fn take_changed(&mut self, now: i64) -> Vec<Kept> {
        // For a group that changes its protocol, the later record counts: no record of a consumer
        // group follows those of the members of the classic group that it becomes.
        let mut kept = std::mem::take(&mut self.records);
        for group in std::mem::take(&mut self.changed) {
            let entry = self.groups.get_mut(&group);
            let members = entry.and_then(|entry| match &entry.kind {
                Kind::Classic(members) => {
                    entry.changed_at = now;
                    Some(members.kept())
                }
                Kind::Consumer(_) | Kind::Share(_) => None,
            });
            kept.push(Kept::Classic(StoredMembers {
                kept: members,
                group,
            }));
        }
        kept
    }

    /// Forgets what [`Groups::take_changed`] would say: it was read back, or is another node's.
    pub(crate) fn forget_changed(&mut self) {
        self.changed.clear();
        self.records.clear();
    }

    /// The offsets that are too old to be kept: those of topics that no member subscribes to, in groups that have not changed
    /// since `until` either, in milliseconds since 1970.
    pub(crate) fn expired(&self, until: i64) -> Vec<Stored> {
        let mut expired = Vec::new();
        for (name, entry) in &self.groups {
            if entry.kind.is_empty() && entry.changed_at > until {
                continue;
            }
            for (topic, partitions) in entry.offsets.topics() {
                if entry.kind.subscribes_to(topic) != Some(false) {
                    continue;
                }
                let old = partitions
                    .iter()
                    .filter(|(_, committed)| committed.at <= until);
                expired.extend(old.map(|(partition, _)| Stored {
                    group: name.clone(),
                    topic: topic.to_owned(),
                    partition: *partition,
                    committed: None,
                }));
            }
        }
        expired
    }

    /// Forgets groups that another node coordinates from here on; pending requests in them get an
    /// error.
    pub(crate) fn unload(&mut self, is_gone: impl Fn(&str) -> bool) {
        let names = self.groups.keys().filter(|name| is_gone(name));
        for name in names.cloned().collect::<Vec<_>>() {
            let Some(mut entry) = self.groups.remove(&name) else {
                continue;
            };
            self.changed.remove(&name);
            if let Kind::Classic(group) = &mut entry.kind {
                group.abandon(ErrorCode::NOT_COORDINATOR, &mut self.replies);
            }
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
            let catalogue = Arc::clone(&self.catalogue);
            let rules = self.own.rules(&name, &self.config.consumer);
            self.with(&name, |entry, replies| match &mut entry.kind {
                Kind::Classic(group) => group.advance(now, replies),
                Kind::Consumer(group) => group.advance(&rules, &catalogue, now),
                Kind::Share(group) => group.advance(&catalogue, now),
            });
            self.downgrade(&name, true, now);
        }
    }

    /// Replies that became due since the last call.
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
                kind: Kind::Classic(Group::new(delay)),
                offsets: Offsets::default(),
                deadline: None,
                changed_at: 0,
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
        match &mut entry.kind {
            Kind::Classic(members) => {
                if members.take_changed() {
                    self.changed.insert(group.to_owned());
                }
            }
            Kind::Consumer(members) => {
                let records = members.take_changed(group).into_iter();
                self.records.extend(records.map(Kept::Consumer));
            }
            Kind::Share(members) => {
                let records = members.take_changed(group).into_iter();
                self.records.extend(records.map(Kept::Share));
            }
        }
        let deadline = entry.kind.deadline();
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
