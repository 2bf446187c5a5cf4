//! `sticky` and `cooperative-sticky`: members keep what they have, as far as that is balanced (KIP-54, KIP-429).

use bytes::Bytes;
use rustc_hash::FxHashSet;

use super::claims::Claims;
use super::member::{Assignments, Assignor, Member, Owned, RebalanceProtocol, Topics};
use super::racks::Racks;
use super::roster::Roster;
use super::user_data::{self, Previous};
use super::{constrained, general};

/// Members keep what they had, and give it up while they join: what they had is in their user data.
#[derive(Clone, Copy, Debug)]
pub struct Sticky;

/// Members keep what they own also while they join, and revoke only what goes to others.
#[derive(Clone, Copy, Debug)]
pub struct CooperativeSticky;

impl Assignor for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn protocols(&self) -> &'static [RebalanceProtocol] {
        &[RebalanceProtocol::Eager]
    }

    fn user_data(&self, owned: &Owned) -> Option<Bytes> {
        let partitions = owned.partitions.as_deref()?;
        Some(user_data::write_sticky(partitions, owned.generation))
    }

    fn assign(&self, topics: &Topics, members: &[Member]) -> Assignments {
        let roster = Roster::new(topics, members);
        let had = |member: &Member| user_data::read_sticky(member.subscription.user_data.as_ref());
        let (assigned, _) = assign(&roster, had);
        roster.named(assigned)
    }
}

impl Assignor for CooperativeSticky {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn protocols(&self) -> &'static [RebalanceProtocol] {
        &[RebalanceProtocol::Cooperative, RebalanceProtocol::Eager]
    }

    fn user_data(&self, owned: &Owned) -> Option<Bytes> {
        Some(user_data::write_generation(owned.generation))
    }

    fn assign(&self, topics: &Topics, members: &[Member]) -> Assignments {
        let roster = Roster::new(topics, members);
        let (mut assigned, moving) = assign(&roster, owns);
        withhold(&roster, &mut assigned, &moving);
        roster.named(assigned)
    }
}

/// The partitions of each member, and those that a member must revoke first.
fn assign(
    roster: &Roster<'_>,
    previous: impl Fn(&Member) -> Previous,
) -> (Vec<Vec<usize>>, Vec<bool>) {
    let racks = Racks::new(roster);
    let claims = Claims::new(roster, previous);
    if roster.all_subscribed_alike() {
        constrained::assign(roster, &racks, &claims)
    } else {
        let assigned = general::assign(roster, &racks, &claims);
        (assigned, vec![false; roster.topic_of.len()])
    }
}

fn owns(member: &Member) -> Previous {
    let subscription = &member.subscription;
    let told = (subscription.generation >= 0).then_some(subscription.generation);
    Previous {
        partitions: subscription.owned.clone(),
        generation: told.or_else(|| user_data::read_generation(subscription.user_data.as_ref())),
    }
}

/// Removes from an assignment what is `moving`, and what another member claims to own still: two
/// members would consume it.
fn withhold(roster: &Roster<'_>, assigned: &mut [Vec<usize>], moving: &[bool]) {
    let owned: Vec<FxHashSet<usize>> = roster
        .members
        .iter()
        .map(|row| {
            let owned = row.member.subscription.owned.iter();
            let known = owned.filter_map(|(topic, number)| roster.partition(topic, *number));
            known.collect()
        })
        .collect();
    let claimed: FxHashSet<usize> = owned.iter().flatten().copied().collect();
    for (assigned, owned) in assigned.iter_mut().zip(&owned) {
        assigned.retain(|partition| {
            let moves = moving.get(*partition).copied().unwrap_or(false);
            !moves && (owned.contains(partition) || !claimed.contains(partition))
        });
    }
}
