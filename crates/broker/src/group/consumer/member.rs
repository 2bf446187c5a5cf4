//! One member of a consumer group, and how its assignment comes to its target.
//!
//! ```text
//!                  something to revoke                        revoked
//!     ┌────────┐ ────────────────────────▶ ┌──────────┐ ────────────────────┐
//!     │ Stable │                           │ Revoking │                     ▼
//!     └────────┘ ◀──────────┐              └──────────┘        next epoch, with what is free of the target
//!         │                 │ all is free                                   │
//!         │  nothing to     │              ┌─────────┐                      │ others still hold some of it
//!         └─ revoke ───────▶└───────────── │ Waiting │ ◀────────────────────┘
//!                                          └─────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ottla_protocol::{ErrorCode, Uuid};

use super::assignor::Target;
use crate::group::classic::Protocol;
use crate::group::embedded::Subscription;

/// Partitions by topic, each with the epoch in which the member got it (KIP-1251).
pub(super) type Held = BTreeMap<Uuid, BTreeMap<i32, i32>>;
/// The partitions that a member reports as its own, by topic.
pub(crate) type Owned = Vec<(Uuid, Vec<i32>)>;

/// The epoch of a static member that is away.
pub(super) const AWAY: i32 = -2;

/// How far a member is, with the numbers of Kafka's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Stable = 0,
    /// It has to revoke partitions before it comes to the next epoch.
    Revoking = 1,
    /// It is in the epoch, and others still hold partitions that are to be its own.
    Waiting = 2,
}

impl Stage {
    pub(super) fn of(number: i8) -> Self {
        match number {
            1 => Self::Revoking,
            2 => Self::Waiting,
            _ => Self::Stable,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) rack: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    /// Topics that it subscribes to by name.
    pub(super) names: BTreeSet<String>,
    /// The expression that it subscribes with.
    pub(super) pattern: Option<String>,
    pub(super) assignor: Option<String>,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) stage: Stage,
    pub(super) assigned: Held,
    /// The partitions that it has to revoke, and may still have.
    pub(super) revoking: Held,
    /// `None`: it speaks the consumer protocol.
    pub(super) classic: Option<Classic>,
}

/// What is known only of a member of the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Classic {
    pub(super) session: Duration,
    /// What it offers; the first is in use.
    pub(super) protocols: Vec<Protocol>,
}

impl Classic {
    pub(super) fn offers(&self, name: &str) -> bool {
        self.protocols.iter().any(|it| it.name == name)
    }

    /// The version in which it reads assignments.
    pub(super) fn version(&self) -> i16 {
        let first = self.protocols.first();
        let read = first.and_then(|it| Subscription::read(&it.metadata));
        read.map_or(0, |it| it.version)
    }
}

impl Default for Member {
    fn default() -> Self {
        Self {
            instance: None,
            rack: None,
            client_id: String::new(),
            client_host: String::new(),
            names: BTreeSet::new(),
            pattern: None,
            assignor: None,
            rebalance_timeout_ms: -1,
            epoch: 0,
            previous_epoch: 0,
            stage: Stage::Stable,
            assigned: Held::new(),
            revoking: Held::new(),
            classic: None,
        }
    }
}

/// What a member is to come to.
pub(super) struct Aim<'a> {
    pub(super) epoch: i32,
    pub(super) target: &'a Target,
    /// The topics that it subscribes to now.
    pub(super) topics: &'a BTreeSet<Uuid>,
    /// Did it just change them?
    pub(super) resubscribed: bool,
    /// The partitions that it reports as its own, if it reports any.
    pub(super) owned: Option<&'a Owned>,
}

impl Aim<'_> {
    /// Whether the member may still have some of these, by its own report.
    fn owns_any(&self, partitions: &Held) -> bool {
        let Some(owned) = self.owned else {
            return true;
        };
        owned.iter().any(|(topic, owned)| {
            let those = partitions.get(topic);
            those.is_some_and(|those| owned.iter().any(|it| those.contains_key(it)))
        })
    }
}

/// The partitions that two have in common; and those that only the first has.
fn split(held: &Held, keeps: impl Fn(Uuid, i32) -> bool) -> (Held, Held) {
    let (mut kept, mut lost) = (Held::new(), Held::new());
    for (topic, partitions) in held {
        for (partition, epoch) in partitions {
            let to = match keeps(*topic, *partition) {
                true => &mut kept,
                false => &mut lost,
            };
            to.entry(*topic).or_default().insert(*partition, *epoch);
        }
    }
    (kept, lost)
}

fn has(held: &Held, topic: Uuid, partition: i32) -> bool {
    held.get(&topic)
        .is_some_and(|it| it.contains_key(&partition))
}

impl Member {
    /// Whether it has the partition, or may still have it.
    pub(super) fn holds(&self, topic: Uuid, partition: i32) -> bool {
        has(&self.assigned, topic, partition) || has(&self.revoking, topic, partition)
    }

    /// The partitions that it has, or may still have.
    pub(super) fn all_held(&self) -> Owned {
        let mut all: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partitions) in self.assigned.iter().chain(&self.revoking) {
            all.entry(*topic).or_default().extend(partitions.keys());
        }
        all.into_iter()
            .map(|(topic, it)| (topic, it.into_iter().collect()))
            .collect()
    }

    /// The epoch in which it got a partition that it has, or may still have.
    pub(super) fn got(&self, topic: Uuid, partition: i32) -> Option<i32> {
        let of = |held: &Held| held.get(&topic).and_then(|it| it.get(&partition)).copied();
        of(&self.assigned).or_else(|| of(&self.revoking))
    }

    /// Whether it has all that `target` of this epoch gives it.
    pub(super) fn is_at(&self, epoch: i32) -> bool {
        self.stage == Stage::Stable && self.epoch == epoch
    }

    /// Whether these are some of what it is assigned.
    pub(super) fn is_assigned_all(&self, owned: &Owned) -> bool {
        let mut each = owned
            .iter()
            .flat_map(|(topic, partitions)| partitions.iter().map(|it| (*topic, *it)));
        each.all(|(topic, partition)| has(&self.assigned, topic, partition))
    }

    /// The error code for an epoch, or a generation, that is not its own.
    pub(super) fn stale(&self) -> ErrorCode {
        match self.classic {
            Some(_) => ErrorCode::ILLEGAL_GENERATION,
            None => ErrorCode::STALE_MEMBER_EPOCH,
        }
    }

    /// A static member leaves, and may come back.
    pub(super) fn go_away(&mut self) {
        self.epoch = AWAY;
        self.revoking.clear();
        for epoch in self.assigned.values_mut().flat_map(BTreeMap::values_mut) {
            *epoch = 0;
        }
    }

    /// Moves on towards `aim`. `is_free` returns whether no other member has a partition. Returns
    /// whether anything changed.
    pub(super) fn reconcile(&mut self, aim: &Aim<'_>, is_free: impl Fn(Uuid, i32) -> bool) -> bool {
        let holds_on = match self.stage {
            Stage::Stable => self.epoch == aim.epoch,
            Stage::Revoking => aim.owns_any(&self.revoking),
            Stage::Waiting => false,
        };
        match holds_on {
            true => aim.resubscribed && self.give_up_unsubscribed(aim),
            false => self.advance(aim, is_free),
        }
    }

    /// What it does not subscribe to any more goes at once.
    fn give_up_unsubscribed(&mut self, aim: &Aim<'_>) -> bool {
        let (kept, lost) = split(&self.assigned, |topic, _| aim.topics.contains(&topic));
        if lost.is_empty() {
            return false;
        }
        self.assigned = kept;
        self.previous_epoch = self.epoch;
        let mut revoking = self.revoking.clone();
        for (topic, partitions) in lost {
            revoking.entry(topic).or_default().extend(partitions);
        }
        if aim.owns_any(&revoking) {
            self.stage = Stage::Revoking;
            self.revoking = revoking;
        }
        true
    }

    fn advance(&mut self, aim: &Aim<'_>, is_free: impl Fn(Uuid, i32) -> bool) -> bool {
        let before = self.clone();
        let is_aim = |topic: Uuid, partition: i32| {
            let target = aim
                .target
                .get(&topic)
                .filter(|_| aim.topics.contains(&topic));
            target.is_some_and(|target| target.contains(&partition))
        };
        let (kept, lost) = split(&self.assigned, is_aim);
        self.previous_epoch = self.epoch;
        if !lost.is_empty() && aim.owns_any(&lost) {
            self.stage = Stage::Revoking;
            self.assigned = kept;
            self.revoking = lost;
            return *self != before;
        }
        let mut waits = false;
        let mut assigned = kept;
        let subscribed = aim.target.iter().filter(|(it, _)| aim.topics.contains(it));
        for (topic, partitions) in subscribed {
            for partition in partitions {
                if has(&assigned, *topic, *partition) {
                    continue;
                }
                // Partitions that it has to revoke are free only once it is known to have revoked
                // them.
                if has(&self.revoking, *topic, *partition) || !is_free(*topic, *partition) {
                    waits = true;
                } else {
                    let of_topic = assigned.entry(*topic).or_default();
                    of_topic.insert(*partition, aim.epoch);
                }
            }
        }
        self.stage = match waits {
            true => Stage::Waiting,
            false => Stage::Stable,
        };
        self.epoch = aim.epoch;
        self.assigned = assigned;
        self.revoking = Held::new();
        *self != before
    }
}
