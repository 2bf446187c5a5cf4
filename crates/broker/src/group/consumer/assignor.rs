//! Who shall have which partition: the assignors that Kafka's group coordinator has (KIP-848).
//!
//! * `uniform` gives everybody as many partitions as anybody else, and moves as few as it can.
//! * `range` gives each member a run of each topic, so that topics with equal numbers of partitions go together.

use std::collections::{BTreeMap, BTreeSet};

use ottla_protocol::Uuid;

/// Partitions by topic.
pub(super) type Target = BTreeMap<Uuid, BTreeSet<i32>>;

/// Whom an assignor assigns to.
#[derive(Debug)]
pub(super) struct Subscriber<'a> {
    pub(super) id: &'a str,
    pub(super) instance: Option<&'a str>,
    /// Those of its topics that there are.
    pub(super) topics: BTreeSet<Uuid>,
    /// What it was assigned last.
    pub(super) last: &'a Target,
}

/// A way to assign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignor {
    Uniform,
    Range,
}

impl Assignor {
    const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What each member shall have, in their order. `counts` has the partitions of every topic that anybody subscribes to.
    pub(super) fn assign(
        self,
        members: &[Subscriber<'_>],
        counts: &BTreeMap<Uuid, i32>,
    ) -> Vec<Target> {
        match (self, members.split_first()) {
            (_, None) => Vec::new(),
            (Self::Range, _) => ranges(members, counts),
            (Self::Uniform, Some((first, others))) => {
                if others.iter().all(|other| other.topics == first.topics) {
                    evenly(members, &first.topics, counts)
                } else {
                    balanced(members, counts)
                }
            }
        }
    }
}

fn partitions(counts: &BTreeMap<Uuid, i32>, topic: Uuid) -> i32 {
    counts.get(&topic).copied().unwrap_or_default()
}

/// All have the same topics: each gets its share, and keeps of it what it has.
fn evenly(
    members: &[Subscriber<'_>],
    topics: &BTreeSet<Uuid>,
    counts: &BTreeMap<Uuid, i32>,
) -> Vec<Target> {
    let last = members.iter().flat_map(|member| member.last);
    let taken: BTreeSet<(Uuid, i32)> = last
        .flat_map(|(topic, last)| last.iter().map(|partition| (*topic, *partition)))
        .collect();
    let mut free: Vec<(Uuid, i32)> = Vec::new();
    let mut total = 0;
    for topic in topics {
        let count = partitions(counts, *topic);
        total += usize::try_from(count).unwrap_or(0);
        let all = (0..count).map(|partition| (*topic, partition));
        free.extend(all.filter(|it| !taken.contains(it)));
    }
    let (share, mut extras) = (total / members.len().max(1), total % members.len().max(1));
    let mut rooms = Vec::new();
    let mut targets = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let mut takes_extra = extras > 0;
        let mut room = share + usize::from(takes_extra);
        let mut target = Target::new();
        for (topic, last) in member.last.iter().filter(|(it, _)| topics.contains(it)) {
            for partition in last {
                if room > 0 {
                    room -= 1;
                    target.entry(*topic).or_default().insert(*partition);
                } else {
                    free.push((*topic, *partition));
                }
            }
        }
        // One more is for those who have it already, as long as enough members are left to take the rest.
        if room > 0 && takes_extra && members.len() - index > extras {
            room -= 1;
            takes_extra = false;
        }
        extras -= usize::from(takes_extra);
        rooms.push(room);
        targets.push(target);
    }
    let mut free = free.into_iter();
    for (target, room) in targets.iter_mut().zip(rooms) {
        for (topic, partition) in free.by_ref().take(room) {
            target.entry(topic).or_default().insert(partition);
        }
    }
    targets
}

/// Members have different topics: what nobody has goes to who has least, then partitions move while that evens things out.
fn balanced(members: &[Subscriber<'_>], counts: &BTreeMap<Uuid, i32>) -> Vec<Target> {
    let subscribers = |topic: Uuid| {
        let all = members.iter().enumerate();
        let those = all.filter(move |(_, member)| member.topics.contains(&topic));
        those.map(|(index, _)| index).collect::<Vec<_>>()
    };
    let mut owners: BTreeMap<(Uuid, i32), usize> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        for (topic, last) in member
            .last
            .iter()
            .filter(|(it, _)| member.topics.contains(it))
        {
            for partition in last {
                owners.entry((*topic, *partition)).or_insert(index);
            }
        }
    }
    let mut sizes = vec![0_usize; members.len()];
    let size = |sizes: &[usize], index: usize| sizes.get(index).copied().unwrap_or(usize::MAX);
    let grow = |sizes: &mut Vec<usize>, index: usize| {
        if let Some(size) = sizes.get_mut(index) {
            *size += 1;
        }
    };
    for owner in owners.values() {
        grow(&mut sizes, *owner);
    }
    // The topics with the fewest subscribers first: the others have more places to go.
    let mut topics: Vec<(Vec<usize>, Uuid)> = counts
        .keys()
        .map(|topic| (subscribers(*topic), *topic))
        .collect();
    topics.retain(|(subscribers, _)| !subscribers.is_empty());
    topics.sort_by_key(|(subscribers, topic)| (subscribers.len(), *topic));
    for (subscribers, topic) in &topics {
        for partition in 0..partitions(counts, *topic) {
            if owners.contains_key(&(*topic, partition)) {
                continue;
            }
            if let Some(least) = subscribers.iter().min_by_key(|it| size(&sizes, **it)) {
                owners.insert((*topic, partition), *least);
                grow(&mut sizes, *least);
            }
        }
    }
    // Each move takes from somebody who has at least two more than who gets it, so this ends.
    let mut moved = true;
    while moved {
        moved = false;
        for (subscribers, topic) in &topics {
            for partition in 0..partitions(counts, *topic) {
                let Some(owner) = owners.get_mut(&(*topic, partition)) else {
                    continue;
                };
                let least = subscribers.iter().min_by_key(|it| size(&sizes, **it));
                let least = least.filter(|it| size(&sizes, **it) + 1 < size(&sizes, *owner));
                if let Some(least) = least {
                    if let Some(size) = sizes.get_mut(*owner) {
                        *size -= 1;
                    }
                    grow(&mut sizes, *least);
                    *owner = *least;
                    moved = true;
                }
            }
        }
    }
    let mut targets = vec![Target::new(); members.len()];
    for ((topic, partition), owner) in owners {
        if let Some(target) = targets.get_mut(owner) {
            target.entry(topic).or_default().insert(partition);
        }
    }
    targets
}

fn ranges(members: &[Subscriber<'_>], counts: &BTreeMap<Uuid, i32>) -> Vec<Target> {
    // Static members come first, so that the names of processes decide and not those of a run.
    let mut order: Vec<usize> = (0..members.len()).collect();
    let key = |index: &usize| {
        let member = members.get(*index);
        let instance = member.and_then(|it| it.instance);
        (instance.is_none(), instance, member.map(|it| it.id))
    };
    order.sort_by(|one, other| key(one).cmp(&key(other)));
    let mut targets = vec![Target::new(); members.len()];
    for (topic, count) in counts {
        let has = |index: &&usize| {
            let member = members.get(**index);
            member.is_some_and(|it| it.topics.contains(topic))
        };
        let subscribed: Vec<usize> = order.iter().filter(has).copied().collect();
        let number = i32::try_from(subscribed.len()).unwrap_or(i32::MAX).max(1);
        let (share, mut extras) = (count / number, count % number);
        let mut next = 0;
        for index in subscribed {
            let end = next + share + i32::from(extras > 0);
            extras -= i32::from(extras > 0);
            if let Some(target) = targets.get_mut(index).filter(|_| next < end) {
                target.insert(*topic, (next..end).collect());
            }
            next = end;
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid([1; 16]);
    const B: Uuid = Uuid([2; 16]);

    fn target(partitions: &[(Uuid, i32)]) -> Target {
        let mut target = Target::new();
        for (topic, partition) in partitions {
            target.entry(*topic).or_default().insert(*partition);
        }
        target
    }

    fn run(
        assignor: Assignor,
        members: &[(&str, Option<&str>, &[Uuid], &Target)],
        counts: &[(Uuid, i32)],
    ) -> Vec<Vec<(Uuid, i32)>> {
        let members: Vec<Subscriber<'_>> = members
            .iter()
            .map(|(id, instance, topics, last)| Subscriber {
                id,
                instance: *instance,
                topics: topics.iter().copied().collect(),
                last,
            })
            .collect();
        let targets = assignor.assign(&members, &counts.iter().copied().collect());
        let flat = |target: Target| {
            let each = target.into_iter();
            each.flat_map(|(topic, it)| it.into_iter().map(move |partition| (topic, partition)))
                .collect()
        };
        targets.into_iter().map(flat).collect()
    }

    #[test]
    fn uniform_keeps_what_members_have_within_their_share() {
        let (all, none) = (
            target(&[(A, 0), (A, 1), (A, 2), (A, 3), (A, 4)]),
            Target::new(),
        );
        let found = run(
            Assignor::Uniform,
            &[("a", None, &[A], &all), ("b", None, &[A], &none)],
            &[(A, 5)],
        );
        assert_eq!(found, [vec![(A, 0), (A, 1), (A, 2)], vec![(A, 3), (A, 4)]]);
        // The odd one stays with who has it, although it is not the first.
        let (two, three) = (target(&[(A, 0), (A, 1)]), target(&[(A, 2), (A, 3), (A, 4)]));
        let found = run(
            Assignor::Uniform,
            &[("a", None, &[A], &two), ("b", None, &[A], &three)],
            &[(A, 5)],
        );
        assert_eq!(found, [vec![(A, 0), (A, 1)], vec![(A, 2), (A, 3), (A, 4)]]);
    }

    #[test]
    fn uniform_balances_members_of_different_topics() {
        let (all, none) = (target(&[(A, 0), (A, 1), (A, 2), (A, 3)]), Target::new());
        let found = run(
            Assignor::Uniform,
            &[("a", None, &[A, B], &all), ("b", None, &[A], &none)],
            &[(A, 4), (B, 2)],
        );
        let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 3]);
        assert!(found[0].contains(&(B, 0)) && found[0].contains(&(B, 1)));
        assert!(found[1].iter().all(|(topic, _)| *topic == A));
    }

    #[test]
    fn range_runs_over_members_with_static_ones_first() {
        let none = Target::new();
        let found = run(
            Assignor::Range,
            &[
                ("a", None, &[A, B], &none),
                ("b", None, &[B], &none),
                ("c", Some("i"), &[A, B], &none),
            ],
            &[(A, 3), (B, 4)],
        );
        assert_eq!(found[2], [(A, 0), (A, 1), (B, 0), (B, 1)]);
        assert_eq!(found[0], [(A, 2), (B, 2)]);
        assert_eq!(found[1], [(B, 3)]);
    }

    #[test]
    fn every_partition_has_one_member_whatever_they_had() {
        let had = target(&[(A, 0), (A, 1), (A, 2), (B, 0)]);
        let other = target(&[(B, 1)]);
        for assignor in Assignor::ALL {
            for topics in [&[A, B][..], &[A]] {
                let found = run(
                    assignor,
                    &[
                        ("a", None, &[A, B], &had),
                        ("b", None, topics, &other),
                        ("c", None, &[B], &Target::new()),
                    ],
                    &[(A, 7), (B, 5)],
                );
                let mut all: Vec<_> = found.into_iter().flatten().collect();
                all.sort_unstable();
                let expected: Vec<_> = (0..7)
                    .map(|p| (A, p))
                    .chain((0..5).map(|p| (B, p)))
                    .collect();
                assert_eq!(all, expected, "{assignor:?} {topics:?}");
            }
        }
    }
}
