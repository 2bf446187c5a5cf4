//! Assignors of the caller: their requests, and the validation of their replies.
//!
//! The engine calls no assignor itself: a caller that polls takes the request, and brings the
//! reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::member::{Assignments, Member, TopicPartition, Topics};
use crate::config::CustomAssignor;
use crate::error::{Error, Kind};

/// A request to an assignor of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The member subscribes to the topics: each of these assignors is called for its user data.
    Subscribe {
        /// The topics, sorted.
        topics: Vec<Arc<str>>,
        /// The names of the assignors.
        assignors: Vec<Arc<str>>,
    },
    /// The assignment of partitions.
    Assign {
        /// The assignor's name.
        assignor: Arc<str>,
        /// All members of the group.
        members: Vec<Member>,
        /// The topics that exist, with their numbers of partitions.
        topics: Vec<(Arc<str>, usize)>,
    },
}

/// A reply of the caller's assignors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// For each assignor that was called, its user data.
    Subscribe(Vec<Option<Bytes>>),
    /// The partitions of each member, by its id. A member without an entry gets none.
    Assign(Assignments),
}

/// An assignment as the group gets it: each member has an entry, and with the cooperative protocol
/// a partition that another member still owns is in no list (KIP-429).
///
/// # Errors
/// `Kind::Argument`: the assignor names a member or a partition that is not there, gives a partition twice, or one of a topic that its
/// member did not subscribe to.
pub(in crate::group) fn settle(
    assignor: &CustomAssignor,
    assigned: Assignments,
    members: &[Member],
    topics: &Topics,
) -> Result<Assignments, Error> {
    let bad = |text: String| {
        let text = format!("partition assignor {:?} {text}", &*assignor.name);
        Err(Error::new(Kind::Argument, text))
    };
    let mut settled: Assignments = members
        .iter()
        .map(|member| (Arc::clone(&member.id), Vec::new()))
        .collect();
    let mut seen = BTreeSet::new();
    for (id, partitions) in assigned {
        let Some(member) = members.iter().rev().find(|member| member.id == id) else {
            return bad(format!("gives partitions to {id:?}, which is no member"));
        };
        for partition in &partitions {
            let (topic, number) = partition;
            let count = topics.partitions(topic).map_or(0, |(_, each)| each.len());
            if usize::try_from(*number).map_or(true, |number| number >= count) {
                return bad(format!(
                    "gives partition {number} of topic {topic} to {id:?}, but this partition does not exist"
                ));
            }
            if !member.subscription.topics.contains(topic) {
                return bad(format!(
                    "gives partition {number} of topic {topic} to {id:?}, which did not subscribe to that topic"
                ));
            }
            if !seen.insert(partition.clone()) {
                return bad(format!("gives partition {number} of topic {topic} twice"));
            }
        }
        settled.insert(id, partitions);
    }
    if assignor.cooperates {
        let owners = owners(members);
        for (id, partitions) in &mut settled {
            partitions.retain(|it| owners.get(it).is_none_or(|owner| owner == id));
        }
    }
    Ok(settled)
}

/// The owner of each partition: of several claims, the one of the newest generation, and none if
/// there are two of those.
fn owners(members: &[Member]) -> BTreeMap<TopicPartition, Arc<str>> {
    let mut claims: BTreeMap<TopicPartition, (i32, Option<Arc<str>>)> = BTreeMap::new();
    for member in members {
        let generation = member.subscription.generation;
        for partition in &member.subscription.owned {
            let claim = (generation, Some(Arc::clone(&member.id)));
            match claims.get_mut(partition) {
                None => {
                    claims.insert(partition.clone(), claim);
                }
                Some(best) if best.0 < generation => *best = claim,
                Some(best) if best.0 == generation => best.1 = None,
                Some(_) => {}
            }
        }
    }
    let known = claims.into_iter();
    known
        .filter_map(|(partition, (_, owner))| Some((partition, owner?)))
        .collect()
}
