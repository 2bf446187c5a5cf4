//! Which members are near to which partitions (KIP-881).

use rustc_hash::FxHashMap;

use super::roster::{Roster, TopicRow};

/// The racks of members and of partitions, as numbers.
#[derive(Debug, Default)]
pub(super) struct Racks {
    /// Of each member; all `None` where racks decide nothing.
    members: Vec<Option<usize>>,
    /// Of the replicas of each partition, sorted, each once; none where no member has a rack.
    partitions: Vec<Vec<usize>>,
    /// How many members are near to each partition. It counts even where racks decide nothing else, as it does in Kafka.
    near: Vec<usize>,
    decide: bool,
}

impl Racks {
    /// The racks of all members and all topics. They decide where some partition has replicas in only some of the racks.
    pub(super) fn new(roster: &Roster<'_>) -> Racks {
        let mut names = FxHashMap::default();
        let members = member_racks(roster, 0..roster.members.len(), &mut names);
        if members.iter().all(Option::is_none) {
            return Racks::default();
        }
        let rows = roster.topics.iter();
        let partitions: Vec<_> = rows
            .flat_map(|row| partition_racks(row, &mut names))
            .collect();
        let mut by_rack = vec![0_usize; names.len()];
        for rack in members.iter().flatten() {
            if let Some(count) = by_rack.get_mut(*rack) {
                *count += 1;
            }
        }
        let counts = partitions
            .iter()
            .map(|racks| racks.iter().filter_map(|rack| by_rack.get(*rack)).sum());
        let near = counts.collect();
        let decide = decide(&members, &partitions);
        Racks {
            members,
            partitions,
            near,
            decide,
        }
    }

    /// Those of one topic, and of its members alone. Partition 0 is the topic's first.
    pub(super) fn of_topic(roster: &Roster<'_>, topic: &TopicRow<'_>) -> Racks {
        let mut names = FxHashMap::default();
        let mut members = vec![None; roster.members.len()];
        let racks = member_racks(roster, topic.members.iter().copied(), &mut names);
        for (member, rack) in topic.members.iter().zip(racks) {
            if let Some(slot) = members.get_mut(*member) {
                *slot = rack;
            }
        }
        if members.iter().all(Option::is_none) {
            return Racks::default();
        }
        let partitions = partition_racks(topic, &mut names);
        let decide = decide(&members, &partitions);
        Racks {
            members,
            partitions,
            near: Vec::new(),
            decide,
        }
    }

    /// Whether an assignment looks at racks.
    pub(super) fn decide(&self) -> bool {
        self.decide
    }

    /// Whether any member of theirs has a rack.
    pub(super) fn any(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// Whether a partition has a replica in the member's rack; `None` if the member has no rack.
    pub(super) fn near(&self, member: usize, partition: usize) -> Option<bool> {
        let rack = (*self.members.get(member)?)?;
        let racks = self.partitions.get(partition);
        Some(racks.is_some_and(|racks| racks.binary_search(&rack).is_ok()))
    }

    /// How many members are near to a partition.
    pub(super) fn members_near(&self, partition: usize) -> usize {
        self.near.get(partition).copied().unwrap_or(0)
    }
}

type Names<'a> = FxHashMap<&'a str, usize>;

fn member_racks<'a>(
    roster: &Roster<'a>,
    members: impl Iterator<Item = usize>,
    names: &mut Names<'a>,
) -> Vec<Option<usize>> {
    let rack = |member: usize| -> Option<&'a str> {
        let rack = roster
            .members
            .get(member)?
            .member
            .subscription
            .rack
            .as_deref()?;
        (!rack.is_empty()).then_some(rack)
    };
    members
        .map(|member| rack(member).map(|rack| number(names, rack)))
        .collect()
}

fn partition_racks<'a>(topic: &TopicRow<'a>, names: &mut Names<'a>) -> Vec<Vec<usize>> {
    let rows = topic.racks.iter();
    rows.map(|racks| {
        let mut racks: Vec<_> = racks.iter().map(|rack| number(names, rack)).collect();
        racks.sort_unstable();
        racks.dedup();
        racks
    })
    .collect()
}

fn number<'a>(names: &mut Names<'a>, rack: &'a str) -> usize {
    let next = names.len();
    *names.entry(rack).or_insert(next)
}

/// Whether members and replicas have a rack in common, and some partition has not all the racks that there are.
fn decide(members: &[Option<usize>], partitions: &[Vec<usize>]) -> bool {
    let mut all: Vec<usize> = partitions.iter().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    let common = members
        .iter()
        .flatten()
        .any(|rack| all.binary_search(rack).is_ok());
    common && partitions.iter().any(|racks| *racks != all)
}
