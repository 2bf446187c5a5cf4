//! `range`: of each topic a run of neighbouring partitions to each member.

use std::collections::VecDeque;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::member::{Assignments, Assignor, Member, Owned, RebalanceProtocol, Topics};
use super::racks::Racks;
use super::roster::Roster;

/// Gives each member a run of each topic's partitions, static members first, the first members one more where the number does not
/// divide. So topics with the same members and equally many partitions are assigned alike: records with the same key come to the
/// same member.
///
/// Where racks decide (KIP-881), partitions go to members in a rack of one of their replicas as far as the same numbers allow; of
/// topics that are assigned alike, only those numbers for which all replicas suit.
#[derive(Clone, Copy, Debug)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn protocols(&self) -> &'static [RebalanceProtocol] {
        &[RebalanceProtocol::Eager]
    }

    fn user_data(&self, _: &Owned) -> Option<Bytes> {
        None
    }

    fn assign(&self, topics: &Topics, members: &[Member]) -> Assignments {
        let roster = Roster::new(topics, members);
        let order = roster.static_first();
        let walk = roster.topic_walk.iter();
        let mut states: Vec<Topic> = walk
            .filter_map(|topic| Topic::new(&roster, &order, *topic))
            .collect();
        let mut assigned = vec![Vec::new(); roster.members.len()];
        let racks_decide = states.iter().any(|topic| topic.racks.decide());
        if racks_decide {
            assign_near(&mut states, &mut assigned);
        }
        for topic in &mut states {
            topic.assign_runs(&mut assigned, |_, _, _| true);
        }
        if racks_decide {
            assigned
                .iter_mut()
                .for_each(|partitions| partitions.sort_unstable());
        }
        roster.named(assigned)
    }
}

/// A topic whose partitions are being assigned.
#[derive(Debug)]
struct Topic {
    first: usize,
    len: usize,
    /// The members that subscribed to it, in the order in which they are served.
    members: Vec<usize>,
    racks: Racks,
    /// Numbers of partitions.
    unassigned: VecDeque<usize>,
    /// How many each member has.
    counts: FxHashMap<usize, usize>,
    /// How many each member gets at least.
    quota: usize,
    /// How many members may still get one more.
    extra: usize,
}

impl Topic {
    fn new(roster: &Roster<'_>, order: &[usize], topic: usize) -> Option<Topic> {
        let row = roster.topics.get(topic)?;
        let wanting = order
            .iter()
            .copied()
            .filter(|member| roster.wants(*member, topic));
        let members: Vec<usize> = wanting.collect();
        Some(Topic {
            first: row.first,
            len: row.len,
            racks: Racks::of_topic(roster, row),
            unassigned: (0..row.len).collect(),
            counts: FxHashMap::default(),
            quota: row.len.checked_div(members.len())?,
            extra: row.len.checked_rem(members.len())?,
            members,
        })
    }

    /// How many more partitions a member may get now.
    fn room(&self, member: usize) -> usize {
        let most = self.quota + usize::from(self.extra > 0);
        most.saturating_sub(self.counts.get(&member).copied().unwrap_or(0))
    }

    /// Whether a member without a rack, or with a rack of one of the replicas, would get the partition.
    fn suits(&self, member: usize, number: usize) -> bool {
        self.racks.near(member, number).unwrap_or(true)
    }

    fn assign_runs(
        &mut self,
        assigned: &mut [Vec<usize>],
        may: impl Fn(&Racks, usize, usize) -> bool,
    ) {
        for member in self.members.clone() {
            let room = self.room(member);
            let mut taken = Vec::new();
            let mut passed = Vec::new();
            while taken.len() < room {
                match self.unassigned.pop_front() {
                    Some(number) if may(&self.racks, member, number) => taken.push(number),
                    Some(number) => passed.push(number),
                    None => break,
                }
            }
            passed
                .into_iter()
                .rev()
                .for_each(|number| self.unassigned.push_front(number));
            self.give(member, &taken, assigned);
        }
    }

    fn give(&mut self, member: usize, numbers: &[usize], assigned: &mut [Vec<usize>]) {
        if numbers.is_empty() {
            return;
        }
        if let Some(partitions) = assigned.get_mut(member) {
            partitions.extend(numbers.iter().map(|number| self.first + number));
        }
        let count = self.counts.entry(member).or_default();
        *count += numbers.len();
        if *count > self.quota {
            self.extra = self.extra.saturating_sub(1);
        }
    }
}

/// Assigns what can be assigned within racks.
fn assign_near(states: &mut [Topic], assigned: &mut [Vec<usize>]) {
    let mut alike: FxHashMap<(Vec<usize>, usize), Vec<usize>> = FxHashMap::default();
    let mut keys = Vec::new();
    for (place, topic) in states
        .iter()
        .enumerate()
        .filter(|(_, topic)| topic.racks.any())
    {
        let places = alike.entry((topic.members.clone(), topic.len)).or_default();
        if places.is_empty() {
            keys.push((topic.members.clone(), topic.len));
        }
        places.push(place);
    }
    // In any order: what these topics get depends on no other topic, and the lists are sorted at
    // the end.
    for key in keys {
        match alike.remove(&key).as_deref() {
            Some(&[place]) => {
                if let Some(topic) = states.get_mut(place).filter(|topic| topic.racks.decide()) {
                    topic.assign_runs(assigned, |racks, member, number| {
                        racks.near(member, number).unwrap_or(true)
                    });
                }
            }
            Some(places) => assign_alike(states, places, assigned, &key),
            None => {}
        }
    }
}

/// Assigns those numbers of partitions for which one member suits in all of these topics.
fn assign_alike(
    states: &mut [Topic],
    places: &[usize],
    assigned: &mut [Vec<usize>],
    (members, len): &(Vec<usize>, usize),
) {
    let mut remaining = members.clone();
    let mut given = vec![false; *len];
    for number in 0..*len {
        let topics = || places.iter().filter_map(|place| states.get(*place));
        let suits = |member: &&usize| {
            topics().all(|topic| topic.suits(**member, number) && topic.room(**member) > 0)
        };
        let Some(member) = remaining.iter().find(suits).copied() else {
            continue;
        };
        if let Some(given) = given.get_mut(number) {
            *given = true;
        }
        for place in places {
            if let Some(topic) = states.get_mut(*place) {
                topic.give(member, &[number], assigned);
            }
        }
        let full = places
            .iter()
            .filter_map(|place| states.get(*place))
            .all(|topic| topic.room(member) == 0);
        if full {
            remaining.retain(|other| *other != member);
        }
    }
    for place in places {
        if let Some(topic) = states.get_mut(*place) {
            topic
                .unassigned
                .retain(|number| !given.get(*number).copied().unwrap_or(false));
        }
    }
}
