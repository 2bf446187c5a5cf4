//! One share group (KIP-932) as a state machine without clock or sockets: who its members are, and who gets records from where.
//!
//! Its members share partitions, so nobody has to give one up before another gets it: a member comes to the epoch of the target
//! with its next heartbeat. What becomes of records the leaders of partitions know ([`crate::sharing`]).
//!
//! ```text
//!   ┌───────┐  a member   ┌────────┐
//!   │ Empty │ ──────────▶ │ Stable │ ──┐ a member comes or goes, subscribes to something else, a topic changes:
//!   └───────┘ ◀────────── └────────┘ ◀─┘ the epoch grows, and with the next heartbeat there is a new target
//!              all left
//! ```

pub(super) mod assignor;
pub(super) mod kept;
mod key;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use self::assignor::{Subscriber, Target};
use self::key::Key;
use super::catalogue::Catalogue;
use super::consumer::{Beaten, Owned, Refused};

const JOINS: i32 = 0;

/// What holds for one group, by its own settings or by the broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareRules {
    pub(crate) session: Duration,
    pub(crate) heartbeat: Duration,
    /// The time between two targets.
    pub(crate) assignment_interval: Duration,
    pub(crate) most_members: usize,
}

/// A ShareGroupHeartbeat request. What a member does not say has not changed.
#[derive(Debug, Clone)]
pub(crate) struct ShareBeat {
    pub(crate) group: String,
    pub(crate) member: String,
    /// 0: it joins; -1: it leaves.
    pub(crate) epoch: i32,
    pub(crate) rack: Option<String>,
    pub(crate) names: Option<BTreeSet<String>>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
}

/// What ShareGroupDescribe returns of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareDescription {
    pub(crate) state: &'static str,
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    pub(crate) members: Vec<ShareMember>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareMember {
    pub(crate) id: String,
    pub(crate) rack: Option<String>,
    pub(crate) epoch: i32,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) names: Vec<String>,
    pub(crate) assigned: Owned,
}

#[derive(Debug)]
pub(super) struct ShareGroup {
    epoch: i32,
    /// What the topics that anybody subscribes to were when the epoch last grew.
    topics_hash: u64,
    assignment_epoch: i32,
    /// `None`: the next target may come at once.
    assigned_at: Option<Instant>,
    members: BTreeMap<String, Member>,
    /// What is to be stored again.
    changed: BTreeSet<Key>,
}

#[derive(Debug, Default)]
struct Member {
    rack: Option<String>,
    client_id: String,
    client_host: String,
    names: BTreeSet<String>,
    epoch: i32,
    previous_epoch: i32,
    assigned: Target,
    target: Target,
    /// `None`: it was read back, and begins again.
    session_ends: Option<Instant>,
}

impl Default for ShareGroup {
    fn default() -> Self {
        Self {
            // As in Kafka, the first member comes to epoch 2.
            epoch: 1,
            topics_hash: 0,
            assignment_epoch: 0,
            assigned_at: None,
            members: BTreeMap::new(),
            changed: BTreeSet::from([Key::Group]),
        }
    }
}

impl ShareGroup {
    /// ShareGroupHeartbeat of a member that joins or stays.
    pub(super) fn heartbeat(
        &mut self,
        beat: &ShareBeat,
        rules: &ShareRules,
        catalogue: &Catalogue,
        now: Instant,
    ) -> Result<Beaten, Refused> {
        self.check(beat, rules)?;
        let is_new = !self.members.contains_key(&beat.member);
        let resubscribed = self.subscribe(beat);
        let hash = self.hash_topics(catalogue);
        if is_new || resubscribed || hash != self.topics_hash {
            self.grow(hash);
        }
        self.make_target(rules, catalogue, now);
        let assignment_epoch = self.assignment_epoch;
        let member = self.members.get_mut(&beat.member);
        let member = member.ok_or_else(|| unknown(beat))?;
        // The last response to the member may not have arrived.
        let mut tells = beat.epoch != member.epoch || beat.names.is_some();
        if member.epoch != assignment_epoch {
            member.previous_epoch = member.epoch;
            member.epoch = assignment_epoch;
            tells |= member.assigned != member.target;
            member.assigned.clone_from(&member.target);
            self.changed.insert(Key::Current(beat.member.clone()));
        }
        member.session_ends = Some(now + rules.session);
        Ok(Beaten {
            member: beat.member.clone(),
            epoch: member.epoch,
            heartbeat: Some(rules.heartbeat),
            assignment: tells.then(|| listed(&member.assigned)),
        })
    }

    /// ShareGroupHeartbeat of a member that leaves.
    pub(super) fn leave(
        &mut self,
        beat: &ShareBeat,
        catalogue: &Catalogue,
    ) -> Result<Beaten, Refused> {
        if !self.members.contains_key(&beat.member) {
            return Err(unknown(beat));
        }
        self.remove(&beat.member, catalogue);
        Ok(Beaten {
            member: beat.member.clone(),
            epoch: beat.epoch,
            heartbeat: None,
            assignment: None,
        })
    }

    /// Whether any member subscribes to the topic.
    pub(super) fn subscribes_to(&self, topic: &str) -> bool {
        self.members.values().any(|it| it.names.contains(topic))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.members.is_empty() {
            true => "Empty",
            false => "Stable",
        }
    }

    pub(super) fn describe(&self) -> ShareDescription {
        let member = |(id, member): (&String, &Member)| ShareMember {
            id: id.clone(),
            rack: member.rack.clone(),
            epoch: member.epoch,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            names: member.names.iter().cloned().collect(),
            assigned: listed(&member.assigned),
        };
        ShareDescription {
            state: self.state_name(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            members: self.members.iter().map(member).collect(),
        }
    }

    /// Has the sessions run of members that were read back.
    pub(super) fn begin_sessions(&mut self, rules: &ShareRules, now: Instant) {
        for member in self.members.values_mut() {
            member.session_ends.get_or_insert(now + rules.session);
        }
    }

    /// The next moment at which [`ShareGroup::advance`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.members.values().filter_map(|it| it.session_ends).min()
    }

    /// Removes who is not heard of.
    pub(super) fn advance(&mut self, catalogue: &Catalogue, now: Instant) {
        let is_gone = |member: &Member| member.session_ends.is_some_and(|by| by <= now);
        let gone = self.members.iter().filter(|(_, member)| is_gone(member));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.remove(&id, catalogue);
        }
    }

    fn check(&self, beat: &ShareBeat, rules: &ShareRules) -> Result<(), Refused> {
        let Some(member) = self.members.get(&beat.member) else {
            if beat.epoch != JOINS {
                return Err(unknown(beat));
            }
            if self.members.len() >= rules.most_members {
                let most = rules.most_members;
                let message = format!("the group \"{}\" has its {most} members", beat.group);
                return Err(Refused::new(ErrorCode::GROUP_MAX_SIZE_REACHED, message));
            }
            return Ok(());
        };
        // It may be behind by one response that was lost.
        if [JOINS, member.epoch, member.previous_epoch].contains(&beat.epoch) {
            return Ok(());
        }
        let message = format!(
            "the member \"{}\" is in epoch {}, not {}: it must abandon its partitions and join again",
            beat.member, member.epoch, beat.epoch
        );
        Err(Refused::new(ErrorCode::FENCED_MEMBER_EPOCH, message))
    }

    /// Takes over what a member sends about itself. Returns whether it subscribes to something
    /// else.
    fn subscribe(&mut self, beat: &ShareBeat) -> bool {
        let is_new = !self.members.contains_key(&beat.member);
        let member = self.members.entry(beat.member.clone()).or_default();
        let names = beat.names.as_ref().filter(|names| **names != member.names);
        let rack = beat.rack.as_ref();
        let moved = rack.is_some_and(|rack| member.rack.as_ref() != Some(rack))
            || member.client_id != beat.client_id
            || member.client_host != beat.client_host;
        member.client_id.clone_from(&beat.client_id);
        member.client_host.clone_from(&beat.client_host);
        if let Some(rack) = rack {
            member.rack = Some(rack.clone());
        }
        let resubscribed = names.is_some();
        if let Some(names) = names {
            member.names.clone_from(names);
        }
        if is_new || moved || resubscribed {
            self.changed.insert(Key::Member(beat.member.clone()));
        }
        resubscribed
    }

    fn grow(&mut self, hash: u64) {
        self.epoch = self.epoch.saturating_add(1);
        self.topics_hash = hash;
        self.changed.insert(Key::Group);
    }

    fn hash_topics(&self, catalogue: &Catalogue) -> u64 {
        let names = self.members.values().flat_map(|member| &member.names);
        catalogue.hash(names.collect())
    }

    /// Computes the target assignment again, if that is due.
    fn make_target(&mut self, rules: &ShareRules, catalogue: &Catalogue, now: Instant) {
        let next = self.assigned_at.map(|at| at + rules.assignment_interval);
        if self.assignment_epoch >= self.epoch || next.is_some_and(|next| next > now) {
            return;
        }
        let mut counts: BTreeMap<Uuid, i32> = BTreeMap::new();
        let subscribers: Vec<Subscriber<'_>> = self
            .members
            .values()
            .map(|member| {
                let found = member.names.iter().filter_map(|name| catalogue.topic(name));
                let found: Vec<(Uuid, i32)> = found.collect();
                counts.extend(found.iter().copied());
                Subscriber {
                    topics: found.into_iter().map(|(id, _)| id).collect(),
                    last: &member.target,
                }
            })
            .collect();
        let targets = assignor::assign(&subscribers, &counts);
        for ((id, member), target) in self.members.iter_mut().zip(targets) {
            if member.target != target {
                member.target = target;
                self.changed.insert(Key::Target(id.clone()));
            }
        }
        self.assignment_epoch = self.epoch;
        self.assigned_at = Some(now);
        self.changed.insert(Key::TargetGroup);
    }

    fn remove(&mut self, id: &str, catalogue: &Catalogue) {
        self.members.remove(id);
        let id = || id.to_owned();
        self.changed
            .extend([Key::Member(id()), Key::Target(id()), Key::Current(id())]);
        self.grow(self.hash_topics(catalogue));
        if self.members.is_empty() {
            // Nothing is left to assign, and who comes next waits for nothing.
            self.assignment_epoch = self.epoch;
            self.assigned_at = None;
            self.changed.insert(Key::TargetGroup);
        }
    }
}

fn unknown(beat: &ShareBeat) -> Refused {
    let message = format!(
        "the group \"{}\" has no member \"{}\"",
        beat.group, beat.member
    );
    Refused::new(ErrorCode::UNKNOWN_MEMBER_ID, message)
}

fn listed(target: &Target) -> Owned {
    let topics = target.iter();
    topics
        .map(|(topic, it)| (*topic, it.iter().copied().collect()))
        .collect()
}
