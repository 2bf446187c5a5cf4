//! One group of the consumer protocol (KIP-848), as a state machine without clock or sockets.
//!
//! Members send their subscriptions and partitions in heartbeats; the group assigns partitions. Three numbers
//! order it all, as in Kafka:
//!
//! * the group's epoch grows when a member comes or goes, subscribes to something else, or a topic changes;
//! * the target assignment has the epoch of the group that it was made for;
//! * a member has the epoch of the target that it has come to. Before that it revokes the
//!   partitions that others shall have, and reports it.
//!
//! ```text
//!   ┌───────┐  a member   ┌───────────┐  a heartbeat   ┌─────────────┐  all members have    ┌────────┐
//!   │ Empty │ ──────────▶ │ Assigning │ ─────────────▶ │ Reconciling │ ───────────────────▶ │ Stable │
//!   └───────┘             └───────────┘  makes the     └─────────────┘  their targets       └────────┘
//!                               ▲        target               │                                 │
//!                               └─────────────────────────────┴─────── the epoch grows ─────────┘
//! ```
//!
//! Timers, all in [`ConsumerGroup::deadline`]: each member's session, and how long it may take to
//! revoke partitions.
//!
//! Members may also speak the classic protocol; their requests are in [`classic`].

pub(super) mod assignor;
mod classic;
pub(super) mod kept;
mod key;
mod member;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use self::assignor::{Assignor, Subscriber, Target};
use self::key::Key;
pub(crate) use self::member::Owned;
use self::member::{AWAY, Aim, Held, Member, Stage};
use self::pattern::Resolved;
use super::catalogue::Catalogue;
use crate::pattern::compile;

/// What holds for one group, by its own settings or by the broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerRules {
    pub(crate) session: Duration,
    pub(crate) heartbeat: Duration,
    /// The time between two targets.
    pub(crate) assignment_interval: Duration,
    pub(crate) most_members: usize,
    /// Those that may be asked for; the first is for members that ask for none.
    pub(crate) assignors: Vec<Assignor>,
    pub(crate) migration: Migration,
}

/// How groups with members may change their protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Migration {
    /// From the classic one.
    pub(crate) upgrades: bool,
    /// Back to it.
    pub(crate) downgrades: bool,
}

impl Migration {
    /// The policy of a value of `group.consumer.migration.policy`.
    pub(crate) fn named(policy: &str) -> Self {
        Self {
            upgrades: matches!(policy, "bidirectional" | "upgrade"),
            downgrades: matches!(policy, "bidirectional" | "downgrade"),
        }
    }
}

impl ConsumerRules {
    fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }
}

/// A ConsumerGroupHeartbeat request. What a member does not say has not changed.
#[derive(Debug, Clone)]
pub(crate) struct Beat {
    pub(crate) group: String,
    pub(crate) member: String,
    /// 0: it joins; -1: it leaves; -2: it leaves, and may come back as the same instance.
    pub(crate) epoch: i32,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) rebalance_timeout_ms: Option<i32>,
    pub(crate) names: Option<BTreeSet<String>>,
    pub(crate) pattern: Option<String>,
    pub(crate) assignor: Option<String>,
    pub(crate) owned: Option<Owned>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
}

/// The reply to a [`Beat`] that went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub(crate) member: String,
    pub(crate) epoch: i32,
    /// `None`: it left.
    pub(crate) heartbeat: Option<Duration>,
    /// `None`: the member has its newest assignment.
    pub(crate) assignment: Option<Owned>,
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The topics there are, and which of them the asking client may know of.
pub(crate) struct Seen<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) may_describe: &'a dyn Fn(&str) -> bool,
}

/// What ConsumerGroupDescribe returns of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerDescription {
    pub(crate) state: &'static str,
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    pub(crate) assignor: &'static str,
    pub(crate) members: Vec<ConsumerMember>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerMember {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) epoch: i32,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) names: Vec<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) assigned: Owned,
    pub(crate) target: Owned,
    /// Whether it speaks the classic protocol.
    pub(crate) is_classic: bool,
}

#[derive(Debug)]
pub(super) struct ConsumerGroup {
    epoch: i32,
    /// What the topics that anybody subscribes to were when the epoch last grew.
    topics_hash: u64,
    /// The catalogue that this was compared with last, unless subscriptions have changed since.
    compared: Option<u64>,
    assignment_epoch: i32,
    /// `None`: the next target may come at once.
    assigned_at: Option<Instant>,
    members: BTreeMap<String, Seat>,
    /// What the expressions of members stand for.
    resolved: BTreeMap<String, Resolved>,
    /// What is to be stored again.
    changed: BTreeSet<Key>,
}

/// A member, what it shall have, and its timers.
#[derive(Debug, Default)]
struct Seat {
    member: Member,
    target: Target,
    /// `None`: it was read back, and begins again.
    session_ends: Option<Instant>,
    /// When it must have revoked the partitions that it has to revoke.
    revoked_by: Option<Instant>,
    /// When it must have joined again, after the notice; and when it must have synced, since it
    /// joined. Of a classic member.
    join_by: Option<Instant>,
    sync_by: Option<Instant>,
}

impl Seat {
    fn timers(&self) -> impl Iterator<Item = Instant> {
        let timers = [
            self.session_ends,
            self.revoked_by,
            self.join_by,
            self.sync_by,
        ];
        timers.into_iter().flatten()
    }
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            // As in Kafka: what comes first has a target to be made for it, even if it subscribes to nothing.
            epoch: 1,
            topics_hash: 0,
            compared: None,
            assignment_epoch: 0,
            assigned_at: None,
            members: BTreeMap::new(),
            resolved: BTreeMap::new(),
            changed: BTreeSet::from([Key::Group]),
        }
    }
}

impl ConsumerGroup {
    /// A group whose last target is of this epoch.
    fn in_epoch(epoch: i32) -> Self {
        Self {
            epoch,
            assignment_epoch: epoch,
            changed: BTreeSet::from([Key::Group, Key::TargetGroup]),
            ..Self::default()
        }
    }

    pub(super) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Whether only classic members are left, and the group goes back to their protocol.
    pub(super) fn becomes_classic(&self, rules: &ConsumerRules) -> bool {
        let mut members = self.members.values();
        rules.migration.downgrades
            && !self.members.is_empty()
            && members.all(|seat| seat.member.classic.is_some())
    }

    /// ConsumerGroupHeartbeat of a member that joins or stays.
    pub(super) fn heartbeat(
        &mut self,
        beat: &Beat,
        rules: &ConsumerRules,
        seen: &Seen<'_>,
        now: Instant,
    ) -> Result<Beaten, Refused> {
        self.check(beat, rules)?;
        let preferred = self.preferred_assignor(rules);
        self.admit(beat);
        let change = self.subscribe(beat);
        let reassigns = self.preferred_assignor(rules) != preferred;
        self.notice_topics(seen.catalogue, change.is_effective || reassigns);
        self.make_target(rules, seen.catalogue, now);
        let is_full = beat.rebalance_timeout_ms.is_some()
            && (beat.names.is_some() || beat.pattern.is_some())
            && beat.owned.is_some();
        let owned = beat.owned.as_ref();
        let moved = self.reconcile(&beat.member, owned, change.is_any, seen.catalogue, now);
        let tells = beat.epoch == 0 || is_full || moved;
        let seat = self.members.get_mut(&beat.member);
        let seat = seat.ok_or_else(|| unknown(&beat.member, &beat.group))?;
        seat.session_ends = Some(now + rules.session);
        (seat.join_by, seat.sync_by) = (None, None);
        let beaten = Beaten {
            member: beat.member.clone(),
            epoch: seat.member.epoch,
            heartbeat: Some(rules.heartbeat),
            assignment: tells.then(|| listed_held(&seat.member.assigned)),
        };
        // As in Kafka, who subscribes with a new expression learns of its topics with the next heartbeat.
        self.resolve(seen);
        Ok(beaten)
    }

    /// ConsumerGroupHeartbeat of a member that leaves.
    pub(super) fn leave(
        &mut self,
        beat: &Beat,
        rules: &ConsumerRules,
        catalogue: &Catalogue,
    ) -> Result<Beaten, Refused> {
        let left = |epoch| Beaten {
            member: beat.member.clone(),
            epoch,
            heartbeat: None,
            assignment: None,
        };
        let Some(instance) = &beat.instance else {
            self.known(&beat.member, &beat.group)?;
            self.remove(&beat.member, rules, catalogue);
            return Ok(left(beat.epoch));
        };
        self.current_instance(instance, &beat.member)?;
        if beat.epoch != AWAY {
            self.remove(&beat.member, rules, catalogue);
        } else if let Some(seat) = self.members.get_mut(&beat.member) {
            seat.member.go_away();
            seat.revoked_by = None;
            self.changed.insert(Key::Current(beat.member.clone()));
        }
        Ok(left(beat.epoch))
    }

    /// Whether a member in this epoch may commit offsets of these partitions (KIP-1251); `None`: of a topic that is gone.
    pub(super) fn check_commit(
        &self,
        id: &str,
        epoch: i32,
        mut partitions: impl Iterator<Item = (Option<Uuid>, i32)>,
    ) -> Result<(), ErrorCode> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let seat = self.members.get(id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let member = &seat.member;
        // It has not revoked partitions that it got by this epoch: nobody else can have committed.
        let may = |(topic, partition): (Option<Uuid>, i32)| {
            let got = topic.and_then(|topic| member.got(topic, partition));
            got.is_some_and(|got| epoch >= got)
        };
        if epoch == member.epoch || (epoch < member.epoch && partitions.all(may)) {
            Ok(())
        } else {
            Err(member.stale())
        }
    }

    /// Whether this is a member that speaks the consumer protocol.
    pub(super) fn has_own_member(&self, id: &str) -> bool {
        let seat = self.members.get(id);
        seat.is_some_and(|seat| seat.member.classic.is_none())
    }

    /// Whether a member in this epoch may fetch offsets.
    pub(super) fn check_fetch(&self, id: &str, epoch: i32) -> Result<(), ErrorCode> {
        let seat = self.members.get(id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        match seat.member.epoch == epoch {
            true => Ok(()),
            false => Err(seat.member.stale()),
        }
    }

    /// Whether any member subscribes to the topic.
    pub(super) fn subscribes_to(&self, topic: &str) -> bool {
        let mut members = self.members.values();
        members.any(|seat| seat.member.names.contains(topic))
            || self.resolved.values().any(|it| it.topics.contains(topic))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self
            .members
            .values()
            .all(|it| it.member.is_at(self.assignment_epoch))
        {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    pub(super) fn describe(&self, rules: &ConsumerRules) -> ConsumerDescription {
        let member = |(id, seat): (&String, &Seat)| ConsumerMember {
            id: id.clone(),
            instance: seat.member.instance.clone(),
            rack: seat.member.rack.clone(),
            epoch: seat.member.epoch,
            client_id: seat.member.client_id.clone(),
            client_host: seat.member.client_host.clone(),
            names: seat.member.names.iter().cloned().collect(),
            pattern: seat.member.pattern.clone(),
            assigned: seat.member.all_held(),
            target: listed_target(&seat.target),
            is_classic: seat.member.classic.is_some(),
        };
        ConsumerDescription {
            state: self.state_name(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.preferred_assignor(rules).name(),
            members: self.members.iter().map(member).collect(),
        }
    }

    /// Has the sessions run of members that were read back.
    pub(super) fn begin_sessions(&mut self, rules: &ConsumerRules, now: Instant) {
        for seat in self.members.values_mut() {
            let classic = seat.member.classic.as_ref();
            let session = classic.map_or(rules.session, |it| it.session);
            let revokes = seat.member.stage == Stage::Revoking && classic.is_none();
            seat.session_ends.get_or_insert(now + session);
            if revokes {
                let timeout = milliseconds(seat.member.rebalance_timeout_ms);
                seat.revoked_by.get_or_insert(now + timeout);
            }
        }
    }

    /// The next moment at which [`ConsumerGroup::advance`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.members.values().flat_map(Seat::timers).min()
    }

    /// Removes members that send no heartbeats, do not revoke partitions, or do not join or sync in
    /// time.
    pub(super) fn advance(&mut self, rules: &ConsumerRules, catalogue: &Catalogue, now: Instant) {
        let gone = |seat: &Seat| seat.timers().any(|by| by <= now);
        let ids = self.members.iter().filter(|(_, seat)| gone(seat));
        for id in ids.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.remove(&id, rules, catalogue);
        }
    }

    fn check(&self, beat: &Beat, rules: &ConsumerRules) -> Result<(), Refused> {
        let instance = beat.instance.as_deref();
        let present = instance.and_then(|it| self.instance(it));
        let is_new = !self.members.contains_key(&beat.member);
        if is_new && present.is_none() && self.members.len() >= rules.most_members {
            let most = rules.most_members;
            let message = format!("the group \"{}\" has its {most} members", beat.group);
            return Err(Refused::new(ErrorCode::GROUP_MAX_SIZE_REACHED, message));
        }
        match (instance, beat.epoch) {
            (None, 0) => {}
            (None, _) => check_epoch(self.known(&beat.member, &beat.group)?, beat)?,
            (Some(instance), 0) => {
                // A classic member gives its place up to the next process without a word.
                let is_there =
                    |seat: &Seat| seat.member.epoch != AWAY && seat.member.classic.is_none();
                let owner = present.filter(|(_, seat)| is_there(seat));
                if let Some((owner, _)) = owner {
                    let message = format!(
                        "the instance \"{instance}\" is the member \"{owner}\", which has not left"
                    );
                    return Err(Refused::new(ErrorCode::UNRELEASED_INSTANCE_ID, message));
                }
            }
            (Some(instance), _) => {
                check_epoch(self.current_instance(instance, &beat.member)?, beat)?
            }
        }
        let Some(expression) = beat.pattern.as_deref().filter(|it| !it.is_empty()) else {
            return Ok(());
        };
        let others = self.members.iter().filter(|(id, _)| **id != beat.member);
        let is_known = others
            .map(|(_, seat)| &seat.member.pattern)
            .any(|it| it.as_deref() == Some(expression));
        match compile(expression) {
            Err(cause) if !is_known => {
                let message = format!("\"{expression}\" is not a regular expression: {cause}");
                Err(Refused::new(ErrorCode::INVALID_REGULAR_EXPRESSION, message))
            }
            _ => Ok(()),
        }
    }

    /// Makes a place for a member that joins; an instance that was away, or of the classic protocol, gets its own again, under
    /// its new id.
    fn admit(&mut self, beat: &Beat) {
        let away = beat.instance.as_deref().filter(|_| beat.epoch == 0);
        let away = away
            .and_then(|it| self.instance(it))
            .map(|(id, _)| id.clone());
        if let Some(mut seat) = away.and_then(|id| self.take(&id)) {
            seat.member.epoch = 0;
            seat.member.previous_epoch = 0;
            seat.session_ends = None;
            self.members.insert(beat.member.clone(), seat);
            self.mark(&beat.member);
        }
        self.members.entry(beat.member.clone()).or_default();
    }

    /// Takes over what a member sends about itself.
    fn subscribe(&mut self, beat: &Beat) -> Change {
        let Some(seat) = self.members.get_mut(&beat.member) else {
            return Change::default();
        };
        let member = &mut seat.member;
        let before = member.clone();
        let pattern = beat.pattern.clone().filter(|it| !it.is_empty());
        member.classic = None;
        member.client_id.clone_from(&beat.client_id);
        member.client_host.clone_from(&beat.client_host);
        if beat.instance.is_some() {
            member.instance.clone_from(&beat.instance);
        }
        if beat.rack.is_some() {
            member.rack.clone_from(&beat.rack);
        }
        if beat.assignor.is_some() {
            member.assignor.clone_from(&beat.assignor);
        }
        member.rebalance_timeout_ms = beat
            .rebalance_timeout_ms
            .unwrap_or(member.rebalance_timeout_ms);
        if let Some(names) = &beat.names {
            member.names.clone_from(names);
        }
        if beat.pattern.is_some() {
            member.pattern = pattern;
        }
        let renamed = member.names != before.names;
        let repatterned = member.pattern != before.pattern;
        let pattern = member.pattern.clone();
        if *member != before {
            self.changed.insert(Key::Member(beat.member.clone()));
        }
        if repatterned {
            self.drop_unused_patterns();
        }
        let is_resolved = match &pattern {
            Some(pattern) => self.resolved.contains_key(pattern),
            None => true,
        };
        if renamed || repatterned {
            self.compared = None;
        }
        Change {
            is_any: renamed || repatterned,
            is_effective: renamed || (repatterned && is_resolved),
        }
    }

    /// The epoch grows if it must, or if the topics are not what they were.
    fn notice_topics(&mut self, catalogue: &Catalogue, must_grow: bool) {
        if !must_grow && self.compared == Some(catalogue.version) {
            return;
        }
        let hash = self.hash_topics(catalogue);
        self.compared = Some(catalogue.version);
        if must_grow || hash != self.topics_hash {
            self.grow(hash);
        }
    }

    fn grow(&mut self, hash: u64) {
        self.epoch = self.epoch.saturating_add(1);
        self.topics_hash = hash;
        self.changed.insert(Key::Group);
    }

    /// A number that differs when the topics do that anybody subscribes to.
    fn hash_topics(&self, catalogue: &Catalogue) -> u64 {
        let names = self.members.values().flat_map(|seat| &seat.member.names);
        let matched = self.resolved.values().flat_map(|it| &it.topics);
        catalogue.hash(names.chain(matched).collect())
    }

    /// Computes the target assignment again, if that is due.
    fn make_target(&mut self, rules: &ConsumerRules, catalogue: &Catalogue, now: Instant) {
        let next = self.assigned_at.map(|at| at + rules.assignment_interval);
        if self.assignment_epoch >= self.epoch || next.is_some_and(|next| next > now) {
            return;
        }
        let mut counts = BTreeMap::new();
        let subscribers: Vec<Subscriber<'_>> = self
            .members
            .iter()
            .map(|(id, seat)| Subscriber {
                id,
                instance: seat.member.instance.as_deref(),
                topics: self.topics_of(&seat.member, catalogue, &mut counts),
                last: &seat.target,
            })
            .collect();
        let targets = self.preferred_assignor(rules).assign(&subscribers, &counts);
        for ((id, seat), target) in self.members.iter_mut().zip(targets) {
            if seat.target != target {
                seat.target = target;
                self.changed.insert(Key::Target(id.clone()));
            }
        }
        self.assignment_epoch = self.epoch;
        self.assigned_at = Some(now);
        self.changed.insert(Key::TargetGroup);
    }

    /// The topics there are that a member subscribes to. Their numbers of partitions go to `counts`.
    fn topics_of(
        &self,
        member: &Member,
        catalogue: &Catalogue,
        counts: &mut BTreeMap<Uuid, i32>,
    ) -> BTreeSet<Uuid> {
        let matched = member.pattern.as_ref().and_then(|it| self.resolved.get(it));
        let matched = matched.into_iter().flat_map(|it| &it.topics);
        let topics = member.names.iter().chain(matched);
        let found = topics.filter_map(|name| catalogue.topic(name));
        let found: Vec<(Uuid, i32)> = found.collect();
        counts.extend(found.iter().copied());
        found.into_iter().map(|(id, _)| id).collect()
    }

    /// Moves a member on. Gives whether it has other partitions than before.
    fn reconcile(
        &mut self,
        id: &str,
        owned: Option<&Owned>,
        resubscribed: bool,
        catalogue: &Catalogue,
        now: Instant,
    ) -> bool {
        let Some(mut seat) = self.members.remove(id) else {
            return false;
        };
        let mut moved = false;
        if resubscribed || !seat.member.is_at(self.assignment_epoch) {
            let aim = Aim {
                epoch: self.assignment_epoch,
                target: &seat.target,
                topics: &self.topics_of(&seat.member, catalogue, &mut BTreeMap::new()),
                resubscribed,
                owned,
            };
            let others = &self.members;
            let is_free = |topic, partition| {
                let mut others = others.values();
                !others.any(|other| other.member.holds(topic, partition))
            };
            let had = seat.member.assigned.clone();
            if seat.member.reconcile(&aim, is_free) {
                self.changed.insert(Key::Current(id.to_owned()));
                let timeout = milliseconds(seat.member.rebalance_timeout_ms);
                let revokes = seat.member.stage == Stage::Revoking && seat.member.classic.is_none();
                seat.revoked_by = revokes.then(|| now + timeout);
            }
            moved = listed_held(&had) != listed_held(&seat.member.assigned);
        }
        self.members.insert(id.to_owned(), seat);
        moved
    }

    /// Looks for the topics that members' expressions match, where they are new or topics have changed.
    fn resolve(&mut self, seen: &Seen<'_>) {
        let version = seen.catalogue.version;
        let patterns = self
            .members
            .values()
            .filter_map(|seat| seat.member.pattern.as_ref());
        let is_due = |pattern: &&String| {
            self.resolved
                .get(*pattern)
                .is_none_or(|it| it.version != version)
        };
        let due: BTreeSet<String> = patterns.filter(is_due).cloned().collect();
        let mut found_others = false;
        for expression in due {
            let topics = match compile(&expression) {
                Ok(regex) => {
                    let names = seen.catalogue.names().map(|name| &**name);
                    let those =
                        names.filter(|name| regex.is_match(name) && (seen.may_describe)(name));
                    those.map(ToOwned::to_owned).collect()
                }
                Err(_) => BTreeSet::new(),
            };
            let known = self.resolved.get(&expression).map(|it| &it.topics);
            let differs = known.is_none_or(|known| *known != topics);
            found_others |= known.map_or(!topics.is_empty(), |known| *known != topics);
            self.resolved
                .insert(expression.clone(), Resolved { topics, version });
            if differs {
                self.changed.insert(Key::Pattern(expression));
            }
        }
        if found_others {
            let hash = self.hash_topics(seen.catalogue);
            self.compared = Some(version);
            self.grow(hash);
        }
    }

    fn drop_unused_patterns(&mut self) {
        let members = self.members.values();
        let used: BTreeSet<&String> = members
            .filter_map(|it| it.member.pattern.as_ref())
            .collect();
        let unused = self.resolved.keys().filter(|it| !used.contains(it));
        for pattern in unused.cloned().collect::<Vec<_>>() {
            self.resolved.remove(&pattern);
            self.changed.insert(Key::Pattern(pattern));
        }
    }

    fn remove(&mut self, id: &str, rules: &ConsumerRules, catalogue: &Catalogue) {
        self.take(id);
        self.drop_unused_patterns();
        if self.becomes_classic(rules) {
            // Those who are left know this epoch as their generation.
            return;
        }
        self.grow(self.hash_topics(catalogue));
        self.compared = Some(catalogue.version);
        if self.members.is_empty() {
            // Nothing is left to assign, and who comes next waits for nothing.
            self.assignment_epoch = self.epoch;
            self.assigned_at = None;
            self.changed.insert(Key::TargetGroup);
        }
    }

    /// Takes a member's place away, with all that is kept of it.
    fn take(&mut self, id: &str) -> Option<Seat> {
        let seat = self.members.remove(id)?;
        self.mark(id);
        Some(seat)
    }

    /// All of a member is to be stored again.
    fn mark(&mut self, id: &str) {
        let id = || id.to_owned();
        self.changed
            .extend([Key::Member(id()), Key::Target(id()), Key::Current(id())]);
    }

    /// The assignor that most members ask for.
    fn preferred_assignor(&self, rules: &ConsumerRules) -> Assignor {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for seat in self.members.values() {
            if let Some(name) = &seat.member.assignor {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        let most = most.and_then(|(name, _)| Assignor::named(name));
        most.unwrap_or_else(|| rules.default_assignor())
    }

    fn known(&self, id: &str, group: &str) -> Result<&Member, Refused> {
        let seat = self.members.get(id);
        seat.map(|seat| &seat.member)
            .ok_or_else(|| unknown(id, group))
    }

    fn instance(&self, instance: &str) -> Option<(&String, &Seat)> {
        let mut members = self.members.iter();
        members.find(|(_, seat)| seat.member.instance.as_deref() == Some(instance))
    }

    /// The member of an instance, which must have this id.
    fn current_instance(&self, instance: &str, id: &str) -> Result<&Member, Refused> {
        match self.instance(instance) {
            None => {
                let message = format!("nobody is the instance \"{instance}\"");
                Err(Refused::new(ErrorCode::UNKNOWN_MEMBER_ID, message))
            }
            Some((owner, seat)) if owner == id => Ok(&seat.member),
            Some((owner, _)) => {
                let message = format!(
                    "the instance \"{instance}\" is the member \"{owner}\" now, not \"{id}\""
                );
                Err(Refused::new(ErrorCode::FENCED_INSTANCE_ID, message))
            }
        }
    }
}

/// What a member's subscription did.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    /// Does it differ?
    is_any: bool,
    /// Does the group know already which topics that means?
    is_effective: bool,
}

fn unknown(member: &str, group: &str) -> Refused {
    let message = format!("the group \"{group}\" has no member \"{member}\"");
    Refused::new(ErrorCode::UNKNOWN_MEMBER_ID, message)
}

/// A member may be behind by one response that was lost, if it has no partition that it was not
/// assigned.
fn check_epoch(member: &Member, beat: &Beat) -> Result<(), Refused> {
    let owned = beat.owned.as_ref();
    let lost_an_answer = beat.epoch == member.previous_epoch
        && owned.is_some_and(|owned| member.is_assigned_all(owned));
    if beat.epoch == member.epoch || (beat.epoch < member.epoch && lost_an_answer) {
        return Ok(());
    }
    let message = format!(
        "the member \"{}\" is in epoch {}, not {}: it must abandon its partitions and join again",
        beat.member, member.epoch, beat.epoch
    );
    Err(Refused::new(ErrorCode::FENCED_MEMBER_EPOCH, message))
}

fn milliseconds(timeout: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout).unwrap_or(0))
}

fn listed_held(held: &Held) -> Owned {
    let topics = held.iter().filter(|(_, it)| !it.is_empty());
    topics
        .map(|(topic, it)| (*topic, it.keys().copied().collect()))
        .collect()
}

fn listed_target(target: &Target) -> Owned {
    let topics = target.iter().filter(|(_, it)| !it.is_empty());
    topics
        .map(|(topic, it)| (*topic, it.iter().copied().collect()))
        .collect()
}
