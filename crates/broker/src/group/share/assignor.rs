//! Who shall have which partition of a share group, as Kafka's assignor `simple` has it: every partition goes to somebody, every
//! member gets one, and partitions are shared only where there are more members than partitions.
//!
//! Topics with the same subscribers are dealt out together. Members keep what they have as far as their part allows it.

use std::collections::{BTreeMap, BTreeSet};

use ottla_protocol::Uuid;

/// Partitions by topic.
pub(super) type Target = BTreeMap<Uuid, BTreeSet<i32>>;

/// Whom partitions are assigned to.
#[derive(Debug)]
pub(super) struct Subscriber<'a> {
    /// Those of its topics that there are.
    pub(super) topics: BTreeSet<Uuid>,
    /// What it was assigned last.
    pub(super) last: &'a Target,
}

/// What each member shall have, in their order. `counts` has the partitions of every topic that anybody subscribes to.
pub(super) fn assign(members: &[Subscriber<'_>], counts: &BTreeMap<Uuid, i32>) -> Vec<Target> {
    let mut targets: Vec<Target> = members.iter().map(|_| Target::new()).collect();
    let mut alike: BTreeMap<Vec<usize>, Vec<(Uuid, i32)>> = BTreeMap::new();
    for (topic, count) in counts {
        let subscribers = members.iter().enumerate();
        let subscribers = subscribers.filter(|(_, member)| member.topics.contains(topic));
        let subscribers = subscribers.map(|(index, _)| index).collect();
        let partitions = (0..*count).map(|partition| (*topic, partition));
        alike.entry(subscribers).or_default().extend(partitions);
    }
    for (subscribers, partitions) in alike {
        if !subscribers.is_empty() && !partitions.is_empty() {
            deal(members, &subscribers, &partitions, &mut targets);
        }
    }
    targets
}

/// Deals partitions out among those who all subscribe to them.
fn deal(
    members: &[Subscriber<'_>],
    subscribers: &[usize],
    partitions: &[(Uuid, i32)],
    targets: &mut [Target],
) {
    let takers = subscribers.len().div_ceil(partitions.len());
    let places = partitions.len() * takers;
    let (part, mut extras) = (places / subscribers.len(), places % subscribers.len());
    let mut room: BTreeMap<(Uuid, i32), usize> =
        partitions.iter().map(|it| (*it, takers)).collect();
    let mut parts: BTreeMap<usize, usize> = subscribers.iter().map(|it| (*it, 0)).collect();
    for index in subscribers {
        let last = members.get(*index).into_iter().flat_map(|it| it.last);
        let last = last.flat_map(|(topic, all)| all.iter().map(|it| (*topic, *it)));
        for partition in last {
            let has = parts.get(index).copied().unwrap_or_default();
            let is_extra = has == part;
            if has > part || (is_extra && extras == 0) {
                break;
            }
            if let Some(left) = room.get_mut(&partition).filter(|left| **left > 0) {
                *left -= 1;
                extras -= usize::from(is_extra);
                parts.insert(*index, has + 1);
                give(targets, *index, partition);
            }
        }
    }
    for (partition, left) in room {
        for _ in 0..left {
            let lacks = |index: usize| !has(targets, index, partition);
            let least = parts.iter().filter(|(index, _)| lacks(**index));
            let least = least.min_by_key(|(index, count)| (**count, load(targets, **index)));
            if let Some((index, count)) = least.map(|(index, count)| (*index, *count)) {
                parts.insert(index, count + 1);
                give(targets, index, partition);
            }
        }
    }
}

fn give(targets: &mut [Target], index: usize, (topic, partition): (Uuid, i32)) {
    if let Some(target) = targets.get_mut(index) {
        target.entry(topic).or_default().insert(partition);
    }
}

fn has(targets: &[Target], index: usize, (topic, partition): (Uuid, i32)) -> bool {
    let target = targets.get(index).and_then(|target| target.get(&topic));
    target.is_some_and(|partitions| partitions.contains(&partition))
}

fn load(targets: &[Target], index: usize) -> usize {
    let target = targets.get(index);
    target.map_or(0, |target| target.values().map(BTreeSet::len).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Uuid = Uuid([1; 16]);
    const U: Uuid = Uuid([2; 16]);

    fn assigned(subscriptions: &[&[Uuid]], last: &[Target], counts: &[(Uuid, i32)]) -> Vec<Target> {
        let none = Target::new();
        let members: Vec<Subscriber<'_>> = subscriptions
            .iter()
            .enumerate()
            .map(|(index, topics)| Subscriber {
                topics: topics.iter().copied().collect(),
                last: last.get(index).unwrap_or(&none),
            })
            .collect();
        assign(&members, &counts.iter().copied().collect())
    }

    fn sizes(targets: &[Target]) -> Vec<usize> {
        let sizes = targets
            .iter()
            .map(|it| it.values().map(BTreeSet::len).sum());
        sizes.collect()
    }

    fn takers(targets: &[Target], topic: Uuid, partition: i32) -> usize {
        let has = |target: &&Target| target.get(&topic).is_some_and(|it| it.contains(&partition));
        targets.iter().filter(has).count()
    }

    /// The numbers are those that Kafka 4.4.0 gave such groups.
    #[test]
    fn partitions_are_shared_only_where_members_are_more() {
        let three = assigned(&[&[T], &[T], &[T]], &[], &[(T, 5)]);
        let mut counts = sizes(&three);
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 2]);
        assert!((0..5).all(|partition| takers(&three, T, partition) == 1));
        let five = assigned(&[&[T], &[T], &[T], &[T], &[T]], &[], &[(T, 2)]);
        let mut counts = sizes(&five);
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 1, 1, 2]);
        assert!((0..2).all(|partition| takers(&five, T, partition) == 3));
        let two_topics = assigned(&[&[T, U], &[T, U], &[T, U]], &[], &[(T, 5), (U, 2)]);
        let mut counts = sizes(&two_topics);
        counts.sort_unstable();
        assert_eq!(counts, [2, 2, 3]);
    }

    #[test]
    fn members_keep_what_they_have() {
        let alone = assigned(&[&[T]], &[], &[(T, 5)]);
        assert_eq!(sizes(&alone), [5]);
        let two = assigned(&[&[T], &[T]], &alone, &[(T, 5)]);
        assert_eq!(sizes(&two), [3, 2]);
        let again = assigned(&[&[T], &[T]], &two, &[(T, 5)]);
        assert_eq!(again, two);
        let other = assigned(&[&[T], &[T], &[U]], &two, &[(T, 5), (U, 2)]);
        assert_eq!(other[..2], two[..]);
        assert_eq!(sizes(&other), [3, 2, 2]);
    }

    #[test]
    fn nothing_is_assigned_of_what_is_not_there() {
        assert_eq!(
            assigned(&[&[], &[T]], &[], &[]),
            [Target::new(), Target::new()]
        );
        assert_eq!(assigned(&[], &[], &[]), [] as [Target; 0]);
    }
}
