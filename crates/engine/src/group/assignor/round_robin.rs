//! `roundrobin`: all partitions of all topics, dealt to the members in turn.

use bytes::Bytes;

use super::member::{Assignments, Assignor, Member, Owned, RebalanceProtocol, Topics};
use super::roster::Roster;

/// Deals the partitions, sorted by topic and number, to the members in turn, static ones first; a member that did not subscribe to
/// a topic is passed over.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn protocols(&self) -> &'static [RebalanceProtocol] {
        &[RebalanceProtocol::Eager]
    }

    fn user_data(&self, _: &Owned) -> Option<Bytes> {
        None
    }

    fn assign(&self, topics: &Topics, members: &[Member]) -> Assignments {
        let roster = Roster::new(topics, members);
        let mut assigned = vec![Vec::new(); roster.members.len()];
        let order = roster.static_first();
        let mut turn = 0;
        for (partition, topic) in roster.topic_of.iter().enumerate() {
            // Each of these topics has a subscriber.
            let turns = (0..order.len()).map(|passed| (turn + passed) % order.len());
            let mut takers = turns.filter_map(|turn| order.get(turn).map(|member| (turn, *member)));
            let Some((taken, member)) = takers.find(|(_, member)| roster.wants(*member, *topic))
            else {
                continue;
            };
            turn = taken + 1;
            if let Some(partitions) = assigned.get_mut(member) {
                partitions.push(partition);
            }
        }
        roster.named(assigned)
    }
}
