//! The sticky assignment of a group whose members all subscribed to the same topics.
//!
//! With P partitions and N members, each gets P / N partitions, P % N of them one more. First members keep what they own, up to that;
//! then partitions go to members near to them; then what is left goes round.

use std::collections::VecDeque;

use super::claims::Claims;
use super::racks::Racks;
use super::roster::Roster;

/// Assigns all partitions. Also gives those that go to another member than the one which owned them, or may have.
pub(super) fn assign(
    roster: &Roster<'_>,
    racks: &Racks,
    claims: &Claims,
) -> (Vec<Vec<usize>>, Vec<bool>) {
    let (partitions, members) = (roster.topic_of.len(), roster.members.len().max(1));
    let mut filling = Filling {
        racks,
        quota: partitions / members,
        most: partitions.div_ceil(members),
        above: partitions % members,
        above_now: 0,
        assigned: vec![Vec::new(); roster.members.len()],
        revoked_from: vec![None; partitions],
        below: Vec::new(),
        at_quota: VecDeque::new(),
    };
    filling.keep_owned(roster, claims);
    let mut unassigned = filling.unassigned(partitions);
    filling.below.sort_unstable();
    filling.at_quota.make_contiguous().sort_unstable();
    // The sort is stable: those that few members are near to come first.
    unassigned.sort_by_key(|partition| racks.members_near(*partition));
    if racks.decide() {
        unassigned = filling.assign_near(unassigned);
    }
    filling.assign_rest(&unassigned);
    let moving = filling.moving(claims);
    (filling.assigned, moving)
}

/// An assignment that is being made.
#[derive(Debug)]
struct Filling<'a> {
    racks: &'a Racks,
    /// How many partitions each member gets at least, and at most.
    quota: usize,
    most: usize,
    /// How many members get the most, where that is not the least; and how many have it by keeping what they own.
    above: usize,
    above_now: usize,
    assigned: Vec<Vec<usize>>,
    /// For each partition that its owner may have to revoke, this owner.
    revoked_from: Vec<Option<usize>>,
    /// Members that have less than the least.
    below: Vec<usize>,
    /// Members that have the least, and may get one more.
    at_quota: VecDeque<usize>,
}

impl Filling<'_> {
    fn keep_owned(&mut self, roster: &Roster<'_>, claims: &Claims) {
        for member in &roster.walk {
            let mut owned: Vec<usize> = claims.owned.get(*member).cloned().unwrap_or_default();
            owned.retain(|partition| {
                let far =
                    self.racks.decide() && self.racks.near(*member, *partition) == Some(false);
                if far {
                    revoke(&mut self.revoked_from, *partition, *member);
                }
                !far && !claims.is_doubted(*partition)
            });
            owned.sort_by_key(|partition| {
                roster
                    .place(*partition)
                    .map(|(topic, number)| (number, topic))
            });
            let kept = if owned.len() < self.quota {
                self.below.push(*member);
                owned.len()
            } else if owned.len() >= self.most && self.above_now < self.above {
                self.above_now += 1;
                if self.above_now == self.above {
                    self.at_quota.clear();
                }
                self.most
            } else {
                if self.above_now < self.above {
                    self.at_quota.push_back(*member);
                }
                self.quota
            };
            for partition in owned.drain(kept.min(owned.len())..) {
                revoke(&mut self.revoked_from, partition, *member);
            }
            if let Some(assigned) = self.assigned.get_mut(*member) {
                *assigned = owned;
            }
        }
    }

    fn unassigned(&self, partitions: usize) -> Vec<usize> {
        let mut taken = vec![false; partitions];
        for partition in self.assigned.iter().flatten() {
            if let Some(taken) = taken.get_mut(*partition) {
                *taken = true;
            }
        }
        let all = taken.into_iter().enumerate();
        all.filter(|(_, taken)| !taken)
            .map(|(partition, _)| partition)
            .collect()
    }

    /// Assigns partitions to members in the same rack; returns those for which no such member has
    /// space.
    fn assign_near(&mut self, unassigned: Vec<usize>) -> Vec<usize> {
        let mut turn = 0;
        let mut left = Vec::new();
        for partition in unassigned {
            let near = |member: usize| self.racks.near(member, partition) == Some(true);
            let places = (0..self.below.len()).map(|passed| (turn + passed) % self.below.len());
            let mut nearest = places.filter_map(|place| Some((place, *self.below.get(place)?)));
            let member = if let Some((place, member)) = nearest.find(|(_, member)| near(*member)) {
                let count = self.count(member) + 1;
                if count >= self.quota {
                    self.below.remove(place);
                    if count < self.most && self.above_now < self.above {
                        self.at_quota.push_back(member);
                    }
                    turn = place;
                } else {
                    turn = place + 1;
                }
                turn = turn.checked_rem(self.below.len()).unwrap_or(0);
                member
            } else if let Some((place, member)) = nearest_at_quota(&self.at_quota, near) {
                if self.count(member) + 1 == self.most {
                    self.at_quota.remove(place);
                    self.above_now += 1;
                    if self.above_now == self.above {
                        self.at_quota.clear();
                    }
                }
                member
            } else {
                left.push(partition);
                continue;
            };
            self.give(member, partition);
        }
        left
    }

    /// Deals what is left, to members below the least before others.
    fn assign_rest(&mut self, unassigned: &[usize]) {
        let mut turn = 0;
        for partition in unassigned {
            if turn >= self.below.len() {
                turn = 0;
            }
            if let Some(member) = self.below.get(turn).copied() {
                self.give(member, *partition);
                if self.count(member) >= self.quota {
                    self.below.remove(turn);
                    self.at_quota.push_back(member);
                } else {
                    turn += 1;
                }
            } else if let Some(member) = self.at_quota.pop_front().or_else(|| self.lightest()) {
                self.give(member, *partition);
            }
        }
    }

    /// The partitions that went to another member than their owner, or that more than one may own.
    fn moving(&self, claims: &Claims) -> Vec<bool> {
        let mut moving = claims.doubted.clone();
        for (member, assigned) in self.assigned.iter().enumerate() {
            for partition in assigned {
                let owner = self.revoked_from.get(*partition).copied().flatten();
                let slot = moving.get_mut(*partition);
                if let (Some(slot), Some(owner)) = (slot, owner) {
                    *slot |= owner != member;
                }
            }
        }
        moving
    }

    fn give(&mut self, member: usize, partition: usize) {
        if let Some(assigned) = self.assigned.get_mut(member) {
            assigned.push(partition);
        }
    }

    fn count(&self, member: usize) -> usize {
        self.assigned.get(member).map_or(0, Vec::len)
    }

    /// The receiver of a leftover partition. There should be no leftovers, but no partition may
    /// ever be lost.
    fn lightest(&self) -> Option<usize> {
        (0..self.assigned.len()).min_by_key(|member| self.count(*member))
    }
}

fn nearest_at_quota(
    at_quota: &VecDeque<usize>,
    near: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let mut members = at_quota.iter().copied().enumerate();
    members.find(|(_, member)| near(*member))
}

fn revoke(revoked_from: &mut [Option<usize>], partition: usize, owner: usize) {
    if let Some(slot) = revoked_from.get_mut(partition) {
        *slot = Some(owner);
    }
}
