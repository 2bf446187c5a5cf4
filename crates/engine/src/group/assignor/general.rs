//! The sticky assignment of a group whose members subscribed to different topics.
//!
//! Members keep what they own; a partition without owner goes to the member with the fewest
//! partitions that subscribed to its topic; then partitions move, one by one, from a member to
//! another that has at least two fewer, for as long as that can be.

use std::collections::BTreeSet;

use super::claims::Claims;
use super::java;
use super::movements::Movements;
use super::racks::Racks;
use super::roster::Roster;

/// The loop ends by itself when no move helps. The limit, per partition, bounds it in any case.
const MOST_MOVES: usize = 16;

/// Assigns all partitions.
pub(super) fn assign(roster: &Roster<'_>, racks: &Racks, claims: &Claims) -> Vec<Vec<usize>> {
    let hashes = roster
        .topics
        .iter()
        .map(|topic| java::string_hash(topic.name));
    let mut balance = Balance {
        roster,
        racks,
        before: earlier_owners(roster, claims),
        hashes: hashes.collect(),
        assigned: vec![Vec::new(); roster.members.len()],
        owners: vec![None; roster.topic_of.len()],
        lightest_first: BTreeSet::new(),
        movements: Movements::default(),
        moves_left: roster.topic_of.len().saturating_mul(MOST_MOVES),
        balanced: None,
    };
    let revoked_any = balance.keep_owned(claims);
    balance.complete(revoked_any);
    balance.assigned
}

/// An assignment that is being made.
#[derive(Debug)]
struct Balance<'a> {
    roster: &'a Roster<'a>,
    racks: &'a Racks,
    /// Of each partition, the member that owned it before its present owner, by the latest generation of those.
    before: Vec<Option<usize>>,
    /// Of the name of each topic.
    hashes: Vec<u32>,
    assigned: Vec<Vec<usize>>,
    owners: Vec<Option<usize>>,
    /// The members whose partitions can change: how many each has, and which it is.
    lightest_first: BTreeSet<(usize, usize)>,
    movements: Movements,
    moves_left: usize,
    /// Whether no movement would help; `None` if that is to be found out.
    balanced: Option<bool>,
}

impl Balance<'_> {
    /// Keeps what members own, subscribed to and are near to. Returns whether anything else was
    /// taken away.
    fn keep_owned(&mut self, claims: &Claims) -> bool {
        let mut revoked_any = false;
        for (member, owned) in claims.owned.iter().enumerate() {
            for partition in owned {
                let wanted = self
                    .topic(*partition)
                    .is_some_and(|topic| self.roster.wants(member, topic));
                let far = self.racks.decide() && self.racks.near(member, *partition) == Some(false);
                if wanted && !far {
                    self.add(member, *partition);
                } else {
                    revoked_any = true;
                }
            }
        }
        self.lightest_first = (0..self.assigned.len())
            .map(|member| (self.count(member), member))
            .collect();
        revoked_any
    }

    fn complete(&mut self, revoked_any: bool) {
        let fresh = self.assigned.iter().all(Vec::is_empty);
        let mut all = self.fewest_members_first();
        let mut unassigned: Vec<usize> = all
            .iter()
            .copied()
            .filter(|partition| self.owner(*partition).is_none())
            .collect();
        if self.racks.decide() {
            for partition in &unassigned {
                self.assign_lightest(*partition, true);
            }
        }
        for partition in &unassigned {
            if self.owner(*partition).is_none() {
                self.assign_lightest(*partition, false);
            }
        }

        // A partition that only one member can have stays; so do members that have only such
        // partitions, and all they can get.
        let shared = |partition: &usize| self.is_shared(*partition);
        all.retain(shared);
        unassigned.retain(shared);
        let fixed: Vec<usize> = (0..self.assigned.len())
            .filter(|member| self.is_fixed(*member))
            .collect();
        for member in fixed {
            self.lightest_first.remove(&(self.count(member), member));
        }

        let (assigned, owners) = (self.assigned.clone(), self.owners.clone());
        // Where no partition must be revoked anyway, only partitions that are new to their members
        // move, if that is enough.
        if !revoked_any {
            self.move_some(&unassigned);
        }
        let moved = self.move_some(&all);
        if !fresh && moved && self.imbalance(&self.assigned) >= self.imbalance(&assigned) {
            self.assigned = assigned;
            self.owners = owners;
        }
    }

    /// Moves partitions to members that have fewer, until no move helps. Returns whether any moved.
    fn move_some(&mut self, partitions: &[usize]) -> bool {
        let mut moved = false;
        loop {
            let mut moved_now = false;
            for partition in partitions {
                if self.moves_left == 0 || self.is_balanced() {
                    break;
                }
                let Some(to) = self.better_owner(*partition) else {
                    continue;
                };
                self.shift(*partition, to);
                moved_now = true;
            }
            moved |= moved_now;
            if !moved_now {
                return moved;
            }
        }
    }

    /// The better owner of a partition: the member that had it before, else the lightest one, if it
    /// has at least two fewer than its owner.
    fn better_owner(&self, partition: usize) -> Option<usize> {
        let topic = self.topic(partition)?;
        let owner = self.owner(partition)?;
        let has_fewer = |member: &usize| self.count(owner) > self.count(*member) + 1;
        let before = self.before.get(partition).copied().flatten();
        // Kafka's assignor also gives it back to a member that no longer subscribed to its topic.
        let before = before.filter(|member| self.roster.wants(*member, topic));
        before
            .filter(has_fewer)
            .or_else(|| self.lightest(topic).filter(has_fewer))
    }

    fn shift(&mut self, partition: usize, to: usize) {
        self.moves_left = self.moves_left.saturating_sub(1);
        let (Some(topic), Some(owner)) = (self.topic(partition), self.owner(partition)) else {
            return;
        };
        let partition = self.movements.instead_of(partition, topic, owner, to);
        let (Some(from), Some((_, number))) = (self.owner(partition), self.roster.place(partition))
        else {
            return;
        };
        let number = u32::try_from(number).unwrap_or(0);
        let hash = java::partition_hash(self.hashes.get(topic).copied().unwrap_or(0), number);
        self.lightest_first.remove(&(self.count(from), from));
        self.lightest_first.remove(&(self.count(to), to));
        self.movements.note(partition, topic, hash, (from, to));
        if let Some(partitions) = self.assigned.get_mut(from) {
            partitions.retain(|other| *other != partition);
        }
        self.add(to, partition);
        self.lightest_first.insert((self.count(to), to));
        self.lightest_first.insert((self.count(from), from));
    }

    fn assign_lightest(&mut self, partition: usize, near: bool) {
        let suits = |(_, member): &&(usize, usize)| {
            let topic = self.topic(partition);
            topic.is_some_and(|topic| self.roster.wants(*member, topic))
                && !(near && self.racks.near(*member, partition) == Some(false))
        };
        if let Some((count, member)) = self.lightest_first.iter().find(suits).copied() {
            self.lightest_first.remove(&(count, member));
            self.add(member, partition);
            self.lightest_first.insert((count + 1, member));
        }
    }

    fn add(&mut self, member: usize, partition: usize) {
        if let Some(partitions) = self.assigned.get_mut(member) {
            partitions.push(partition);
        }
        if let Some(owner) = self.owners.get_mut(partition) {
            *owner = Some(member);
        }
        self.balanced = None;
    }

    /// Whether no partition can move to a member with at least two fewer than its owner.
    fn is_balanced(&mut self) -> bool {
        if let Some(balanced) = self.balanced {
            return balanced;
        }
        let mut heaviest = vec![0; self.roster.topics.len()];
        for partitions in &self.assigned {
            for partition in partitions {
                let heaviest = self
                    .topic(*partition)
                    .and_then(|topic| heaviest.get_mut(topic));
                if let Some(heaviest) = heaviest {
                    *heaviest = partitions.len().max(*heaviest);
                }
            }
        }
        let balanced = self.lightest_first.iter().all(|(count, member)| {
            let row = self.roster.members.get(*member);
            let mut topics = row.into_iter().flat_map(|row| &row.topics);
            topics.all(|topic| heaviest.get(*topic).is_none_or(|most| *most <= count + 1))
        });
        self.balanced = Some(balanced);
        balanced
    }

    /// All partitions; those of topics with few members first, then by name and number.
    fn fewest_members_first(&self) -> Vec<usize> {
        let mut topics: Vec<_> = self.roster.topics.iter().collect();
        topics.sort_by_key(|topic| topic.members.len());
        topics
            .into_iter()
            .flat_map(|topic| topic.first..topic.first + topic.len)
            .collect()
    }

    fn is_shared(&self, partition: usize) -> bool {
        let topic = self
            .topic(partition)
            .and_then(|topic| self.roster.topics.get(topic));
        topic.is_some_and(|topic| topic.members.len() > 1)
    }

    fn is_fixed(&self, member: usize) -> bool {
        let topics = self
            .roster
            .members
            .get(member)
            .into_iter()
            .flat_map(|row| &row.topics);
        let possible: usize = topics
            .filter_map(|topic| self.roster.topics.get(*topic))
            .map(|topic| topic.len)
            .sum();
        let mut has = self.assigned.get(member).into_iter().flatten();
        self.count(member) >= possible && !has.any(|partition| self.is_shared(*partition))
    }

    /// The lightest member that subscribed to a topic.
    fn lightest(&self, topic: usize) -> Option<usize> {
        let members = &self.roster.topics.get(topic)?.members;
        members
            .iter()
            .copied()
            .min_by_key(|member| (self.count(*member), *member))
    }

    /// The sum of the differences between all members whose partitions can change.
    fn imbalance(&self, assigned: &[Vec<usize>]) -> usize {
        let live = self.lightest_first.iter();
        let mut counts: Vec<usize> = live
            .filter_map(|(_, member)| assigned.get(*member).map(Vec::len))
            .collect();
        counts.sort_unstable();
        let mut sum = 0;
        let mut score = 0;
        for (place, count) in counts.into_iter().enumerate() {
            score += count * place - sum;
            sum += count;
        }
        score
    }

    fn topic(&self, partition: usize) -> Option<usize> {
        self.roster.topic_of.get(partition).copied()
    }

    fn owner(&self, partition: usize) -> Option<usize> {
        self.owners.get(partition).copied().flatten()
    }

    fn count(&self, member: usize) -> usize {
        self.assigned.get(member).map_or(0, Vec::len)
    }
}

/// Of each partition, the member that claimed it in the latest generation before the newest.
fn earlier_owners(roster: &Roster<'_>, claims: &Claims) -> Vec<Option<usize>> {
    let mut before: Vec<Option<(i32, usize)>> = vec![None; roster.topic_of.len()];
    for member in &roster.walk {
        let generation = claims
            .generations
            .get(*member)
            .copied()
            .flatten()
            .unwrap_or(-1);
        if generation >= claims.newest {
            continue;
        }
        for partition in claims.told.get(*member).into_iter().flatten() {
            let slot = before.get_mut(*partition);
            if let Some(slot) =
                slot.filter(|slot| slot.is_none_or(|(latest, _)| generation > latest))
            {
                *slot = Some((generation, *member));
            }
        }
    }
    before
        .into_iter()
        .map(|slot| slot.map(|(_, member)| member))
        .collect()
}
