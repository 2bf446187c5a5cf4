//! A group as numbers: members, topics, partitions and racks, counted in Java's order of their names, so that a comparison of
//! two numbers is that of the names.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::java;
use super::member::{Assignments, Member, Topics};

/// Everything that an assignor looks at.
#[derive(Debug)]
pub(super) struct Roster<'a> {
    /// The members, in the order of their ids.
    pub(super) members: Vec<Row<'a>>,
    /// The same as numbers, in the order in which Kafka's assignors walk over them.
    pub(super) walk: Vec<usize>,
    /// The topics that exist and have a subscriber, in the order of their names.
    pub(super) topics: Vec<TopicRow<'a>>,
    /// The same as numbers, in the order in which Kafka's assignors walk over them.
    pub(super) topic_walk: Vec<usize>,
    /// The topic of each partition. Partitions are counted through all topics.
    pub(super) topic_of: Vec<usize>,
    numbers: FxHashMap<&'a str, usize>,
}

/// A member.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) member: &'a Member,
    /// The topics that it subscribed to, those that exist; sorted.
    pub(super) topics: Vec<usize>,
    /// How many it subscribed to, also those that do not exist.
    subscribed: usize,
}

/// A topic.
#[derive(Debug)]
pub(super) struct TopicRow<'a> {
    pub(super) name: &'a Arc<str>,
    /// Its partition 0, and how many it has.
    pub(super) first: usize,
    pub(super) len: usize,
    /// The racks of each partition's replicas.
    pub(super) racks: &'a [Vec<Arc<str>>],
    /// The members that subscribed to it, sorted.
    pub(super) members: Vec<usize>,
}

impl<'a> Roster<'a> {
    pub(super) fn new(topics: &'a Topics, members: &'a [Member]) -> Roster<'a> {
        let walked = walked(members);
        let names = topic_names(&walked);
        let mut roster = Roster {
            members: Vec::with_capacity(walked.len()),
            walk: Vec::new(),
            topics: Vec::new(),
            topic_walk: Vec::new(),
            topic_of: Vec::new(),
            numbers: FxHashMap::default(),
        };
        roster.count_topics(topics, &names);
        roster.count_members(&walked);
        roster
    }

    /// Whether all members subscribed to the same topics, also of those that do not exist.
    pub(super) fn all_subscribed_alike(&self) -> bool {
        let mut told = self.members.iter().map(|row| {
            let topics = row.member.subscription.topics.iter();
            topics.map(|topic| &**topic).collect::<FxHashSet<&str>>()
        });
        let Some(first) = told.next() else {
            return true;
        };
        // The topics that exist are compared as numbers; only a group that reads missing ones needs the names.
        let lead = self.members.first();
        let alike = self.members.iter().all(|row| {
            lead.is_some_and(|lead| lead.topics == row.topics && lead.subscribed == row.subscribed)
        });
        let any_missing = lead.is_some_and(|lead| lead.subscribed > lead.topics.len());
        alike && (!any_missing || told.all(|other| other == first))
    }

    /// The number of a partition that exists.
    pub(super) fn partition(&self, topic: &str, number: i32) -> Option<usize> {
        let row = self.topics.get(*self.numbers.get(topic)?)?;
        let number = usize::try_from(number).ok()?;
        (number < row.len).then_some(row.first + number)
    }

    /// The topic of a partition, and its number in the topic.
    pub(super) fn place(&self, partition: usize) -> Option<(usize, i32)> {
        let topic = *self.topic_of.get(partition)?;
        let number = partition.checked_sub(self.topics.get(topic)?.first)?;
        Some((topic, i32::try_from(number).ok()?))
    }

    /// Whether a member subscribed to a topic.
    pub(super) fn wants(&self, member: usize, topic: usize) -> bool {
        let row = self.members.get(member);
        row.is_some_and(|row| row.topics.binary_search(&topic).is_ok())
    }

    /// The members in the order of `range` and `roundrobin`: static ones by their instance ids, then the others by their ids.
    pub(super) fn static_first(&self) -> Vec<usize> {
        let instance = |member: &usize| {
            let row = self.members.get(*member);
            row.and_then(|row| row.member.instance_id.as_deref())
        };
        let mut order = self.walk.clone();
        order.sort_by(|one, other| match (instance(one), instance(other)) {
            (Some(a), Some(b)) => java::compare(a, b),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => one.cmp(other),
        });
        order
    }

    /// The names for the partitions of each member.
    pub(super) fn named(&self, assigned: Vec<Vec<usize>>) -> Assignments {
        let rows = self.members.iter().zip(assigned);
        rows.map(|(row, partitions)| {
            let places = partitions.into_iter().filter_map(|partition| {
                let (topic, number) = self.place(partition)?;
                Some((Arc::clone(self.topics.get(topic)?.name), number))
            });
            (Arc::clone(&row.member.id), places.collect())
        })
        .collect()
    }

    fn count_topics(&mut self, topics: &'a Topics, names: &[&'a str]) {
        let existing: Vec<_> = names
            .iter()
            .filter_map(|name| topics.partitions(name))
            .collect();
        let mut sorted: Vec<usize> = (0..existing.len()).collect();
        sorted.sort_by(
            |one, other| match (existing.get(*one), existing.get(*other)) {
                (Some((one, _)), Some((other, _))) => java::compare(one, other),
                _ => std::cmp::Ordering::Equal,
            },
        );
        for (name, racks) in sorted.iter().filter_map(|place| existing.get(*place)) {
            let topic = self.topics.len();
            self.numbers.insert(name, topic);
            self.topics.push(TopicRow {
                name,
                first: self.topic_of.len(),
                len: racks.len(),
                racks,
                members: Vec::new(),
            });
            self.topic_of
                .resize(self.topic_of.len() + racks.len(), topic);
        }
        let walk = java::iteration_order(existing.iter().map(|(name, _)| &***name));
        let walked = walk.into_iter().filter_map(|place| existing.get(place));
        self.topic_walk = walked
            .filter_map(|(name, _)| self.numbers.get(&***name).copied())
            .collect();
    }

    fn count_members(&mut self, walked: &[&'a Member]) {
        let mut sorted: Vec<usize> = (0..walked.len()).collect();
        sorted.sort_by(|one, other| match (walked.get(*one), walked.get(*other)) {
            (Some(one), Some(other)) => java::compare(&one.id, &other.id),
            _ => std::cmp::Ordering::Equal,
        });
        self.walk = vec![0; walked.len()];
        for (number, place) in sorted.into_iter().enumerate() {
            if let Some(walk) = self.walk.get_mut(place) {
                *walk = number;
            }
            let Some(member) = walked.get(place) else {
                continue;
            };
            let told: FxHashSet<&str> = member
                .subscription
                .topics
                .iter()
                .map(|topic| &**topic)
                .collect();
            let mut topics: Vec<usize> = told
                .iter()
                .filter_map(|topic| self.numbers.get(topic).copied())
                .collect();
            topics.sort_unstable();
            for topic in &topics {
                if let Some(row) = self.topics.get_mut(*topic) {
                    row.members.push(number);
                }
            }
            self.members.push(Row {
                member,
                topics,
                subscribed: told.len(),
            });
        }
    }
}

/// The members as a `HashMap` of them iterates: of those with the same id the last, in the place of the first.
fn walked(members: &[Member]) -> Vec<&Member> {
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    let mut single: Vec<&Member> = Vec::with_capacity(members.len());
    for member in members {
        let place = *places.entry(&member.id).or_insert(single.len());
        match single.get_mut(place) {
            Some(before) => *before = member,
            None => single.push(member),
        }
    }
    let order = java::iteration_order(single.iter().map(|member| &*member.id));
    order
        .into_iter()
        .filter_map(|place| single.get(place).copied())
        .collect()
}

/// All topics with a subscriber, in the order in which a `HashSet` iterates.
fn topic_names<'a>(members: &[&'a Member]) -> Vec<&'a str> {
    let mut seen = FxHashSet::default();
    let told = members
        .iter()
        .flat_map(|member| &member.subscription.topics);
    let names: Vec<&str> = told
        .map(|topic| &**topic)
        .filter(|topic| seen.insert(*topic))
        .collect();
    let order = java::iteration_order(names.iter().copied());
    order
        .into_iter()
        .filter_map(|place| names.get(place).copied())
        .collect()
}
