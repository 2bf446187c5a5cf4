//! The partitions that members claim, without contradictions.

use super::member::Member;
use super::roster::Roster;
use super::user_data::Previous;

/// The consistent part of what members claim to own.
#[derive(Debug)]
pub(super) struct Claims {
    /// The partitions of each member, in the order of its subscription.
    pub(super) owned: Vec<Vec<usize>>,
    /// Everything that each member claimed and that exists, each partition once.
    pub(super) told: Vec<Vec<usize>>,
    /// Whether a partition was claimed twice in one generation: then neither claim counts.
    pub(super) doubted: Vec<bool>,
    /// The generation of each member's claims.
    pub(super) generations: Vec<Option<i32>>,
    /// The highest generation; -1 if there are none.
    pub(super) newest: i32,
}

/// The holder of a partition while claims are compared.
#[derive(Clone, Copy, Debug)]
struct Holder {
    member: usize,
    /// False after a second claim in its generation.
    believed: bool,
}

impl Claims {
    /// `previous` returns what a member had. If two members claim a partition, the claim of the
    /// later generation counts (KIP-341); of two claims in the same generation, neither counts.
    pub(super) fn new(roster: &Roster<'_>, previous: impl Fn(&Member) -> Previous) -> Claims {
        let count = roster.members.len();
        let mut claims = Claims {
            owned: vec![Vec::new(); count],
            told: Vec::with_capacity(count),
            doubted: vec![false; roster.topic_of.len()],
            generations: Vec::with_capacity(count),
            newest: -1,
        };
        let mut seen = vec![false; roster.topic_of.len()];
        for row in &roster.members {
            let previous = previous(row.member);
            let mut told = Vec::with_capacity(previous.partitions.len().min(seen.len()));
            for (topic, number) in &previous.partitions {
                let Some(partition) = roster.partition(topic, *number) else {
                    continue;
                };
                if seen
                    .get_mut(partition)
                    .is_some_and(|seen| !std::mem::replace(seen, true))
                {
                    told.push(partition);
                }
            }
            for partition in &told {
                if let Some(seen) = seen.get_mut(*partition) {
                    *seen = false;
                }
            }
            claims.newest = claims.newest.max(previous.generation.unwrap_or(-1));
            claims.told.push(told);
            claims.generations.push(previous.generation);
        }
        claims.compare(roster);
        claims
    }

    /// Whether a partition was claimed twice in one generation.
    pub(super) fn is_doubted(&self, partition: usize) -> bool {
        self.doubted.get(partition).copied().unwrap_or(false)
    }

    fn compare(&mut self, roster: &Roster<'_>) {
        let mut holders: Vec<Option<Holder>> = vec![None; roster.topic_of.len()];
        for member in &roster.walk {
            let generation = self
                .generations
                .get(*member)
                .copied()
                .flatten()
                .unwrap_or(-1);
            for partition in self.told.get(*member).into_iter().flatten() {
                let Some(holder) = holders.get_mut(*partition) else {
                    continue;
                };
                let mine = Holder {
                    member: *member,
                    believed: true,
                };
                let Some(before) = *holder else {
                    *holder = Some(mine);
                    continue;
                };
                // Kafka compares with the generation in the other one's subscription, also where claims have another of their own.
                let other = roster.members.get(before.member);
                let other = other.map_or(-1, |other| other.member.subscription.generation.max(-1));
                if generation == other {
                    *holder = Some(Holder {
                        believed: false,
                        ..mine
                    });
                    if let Some(doubted) = self.doubted.get_mut(*partition) {
                        *doubted = true;
                    }
                } else if generation > other {
                    *holder = Some(mine);
                }
            }
        }
        for (member, told) in self.told.iter().enumerate() {
            let believed = |partition: &&usize| {
                let holder = holders.get(**partition).copied().flatten();
                holder.is_some_and(|holder| holder.member == member && holder.believed)
            };
            if let Some(owned) = self.owned.get_mut(member) {
                owned.extend(told.iter().filter(believed));
            }
        }
    }
}
