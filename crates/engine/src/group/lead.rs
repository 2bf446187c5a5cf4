//! The tasks of a group's leader: it assigns, and watches the topics of all members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::call::{JoinedMember, MemberDescription};
use crate::cluster::Cluster;
use crate::config::CustomAssignor;
use crate::error::Error;
use crate::group::assignor::{
    Assignment, Assignments, Assignor, Member, Question, Subscription, Topics, settle,
};
use crate::metadata::Metadata;
use crate::observe::Observed;

/// The leader's knowledge of one generation.
#[derive(Debug)]
pub(super) struct Lead {
    members: Vec<Member>,
    /// The topics of all members.
    topics: BTreeSet<Arc<str>>,
    since: Instant,
    /// The topics in the request to the caller's assignor.
    asked: Topics,
    /// The number of partitions of each topic, as it was when they were assigned.
    counts: BTreeMap<Arc<str>, usize>,
    /// Members own partitions that are to go to others: these partitions are assigned to nobody
    /// until their owners have revoked them and rejoined (KIP-429).
    withholds: bool,
    /// An earlier process with its instance id made the assignment, and nothing is assigned again
    /// (KIP-814).
    is_heir: bool,
}

impl Lead {
    /// Takes in the metadata of the members. The bytes of each come from any client: a member whose
    /// subscription does not decode gets nothing.
    pub(super) fn new(
        now: Instant,
        cluster: &mut Cluster,
        group: &Arc<str>,
        joined: Vec<JoinedMember>,
    ) -> Lead {
        let mut members = Vec::with_capacity(joined.len());
        for member in joined {
            let subscription = Subscription::decode(member.metadata).unwrap_or_else(|cause| {
                cluster.context.observer.tell(Observed::MemberUnreadable {
                    group: Arc::clone(group),
                    member_id: Arc::clone(&member.id),
                    cause,
                });
                Subscription::default()
            });
            members.push(Member {
                id: member.id,
                instance_id: member.instance_id,
                subscription,
            });
        }
        let topics = members.iter().flat_map(|it| it.subscription.topics.iter());
        let topics: BTreeSet<_> = topics.cloned().collect();
        for topic in &topics {
            cluster.want(now, topic);
        }
        Lead {
            members,
            topics,
            since: now,
            asked: Topics::default(),
            counts: BTreeMap::new(),
            withholds: false,
            is_heir: false,
        }
    }

    /// Gives back what it keeps in the view.
    pub(super) fn release(self, cluster: &mut Cluster) {
        for topic in &self.topics {
            cluster.unwant(topic);
        }
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn withholds(&self) -> bool {
        self.withholds
    }

    pub(super) fn is_heir(&self) -> bool {
        self.is_heir
    }

    /// Whether the partitions of all topics are known, or that they are not there.
    pub(super) fn is_ready(&self, cluster: &Cluster) -> bool {
        let view = cluster.view();
        let is_fresh = cluster.is_fresh(self.since);
        let is_decided = |topic: &Arc<str>| {
            view.topic(topic).is_some() || (is_fresh && view.problem(topic).is_some())
        };
        self.topics.iter().all(is_decided)
    }

    /// The assignment of each member, as bytes.
    ///
    /// # Errors
    /// `Kind::Argument` if an assignment cannot be written.
    pub(super) fn assign(
        &mut self,
        view: &Metadata,
        assignor: &dyn Assignor,
    ) -> Result<Vec<(Arc<str>, Bytes)>, Error> {
        let members = std::mem::take(&mut self.members);
        let topics = Topics::of(view, self.topics.iter().map(|topic| &**topic));
        self.note(view);
        let assigned = assignor.assign(&topics, &members);
        self.withholds = withholds(&topics, &members, &assigned);
        encode(assigned)
    }

    /// The request to an assignor of the caller.
    pub(super) fn question(&mut self, view: &Metadata, assignor: &CustomAssignor) -> Question {
        self.asked = Topics::of(view, self.topics.iter().map(|topic| &**topic));
        self.note(view);
        let topics = self.asked.counts();
        Question::Assign {
            assignor: Arc::clone(&assignor.name),
            members: self.members.clone(),
            topics: topics
                .map(|(name, count)| (Arc::clone(name), count))
                .collect(),
        }
    }

    /// The assignment of each member by the reply of the caller's assignor, as bytes.
    ///
    /// # Errors
    /// `Kind::Argument` if it cannot be, or cannot be written.
    pub(super) fn settle(
        &mut self,
        assignor: &CustomAssignor,
        assigned: Assignments,
    ) -> Result<Vec<(Arc<str>, Bytes)>, Error> {
        let members = std::mem::take(&mut self.members);
        let topics = std::mem::take(&mut self.asked);
        let assigned = settle(assignor, assigned, &members, &topics)?;
        self.withholds = withholds(&topics, &members, &assigned);
        encode(assigned)
    }

    /// Takes over an assignment that stays as it was.
    pub(super) fn inherit(&mut self, view: &Metadata) {
        self.is_heir = true;
        self.note(view);
    }

    /// Whether members have all partitions of the topics that are known; also if what one has cannot be read.
    pub(super) fn is_covered(&self, view: &Metadata, members: &[MemberDescription]) -> bool {
        let mut given = BTreeSet::new();
        for member in members {
            let Some(assigned) = &member.assignment else {
                return true;
            };
            given.extend(assigned.iter().map(|(topic, number)| (&**topic, *number)));
        }
        let topics = self.topics.iter().filter_map(|topic| view.topic(topic));
        let mut all = topics.flat_map(|topic| {
            let numbers = topic.partitions.keys();
            numbers.map(|number| (&*topic.name, *number))
        });
        all.all(|partition| given.contains(&partition))
    }

    /// Notes the number of partitions of each topic.
    fn note(&mut self, view: &Metadata) {
        let known = self.topics.iter();
        let known = known.filter_map(|topic| Some((Arc::clone(topic), count(view, topic)?)));
        self.counts = known.collect();
    }

    /// Whether a topic came or went, or has more partitions, since they were assigned.
    pub(super) fn is_outdated(&self, cluster: &Cluster) -> bool {
        self.topics.iter().any(|topic| {
            let before = self.counts.get(topic);
            match count(cluster.view(), topic) {
                Some(count) => before != Some(&count),
                // A view that lacks it for a moment proves nothing.
                None => before.is_some() && cluster.is_absent(topic, self.since),
            }
        })
    }
}

fn encode(assigned: Assignments) -> Result<Vec<(Arc<str>, Bytes)>, Error> {
    let each = assigned.into_iter();
    each.map(|(member, partitions)| {
        let assignment = Assignment {
            partitions,
            user_data: None,
        };
        Ok((member, assignment.encode()?))
    })
    .collect()
}

/// Whether a member owns a partition that is not assigned. Any client may claim partitions that do
/// not exist.
fn withholds(topics: &Topics, members: &[Member], assigned: &Assignments) -> bool {
    let given: BTreeSet<_> = assigned.values().flatten().collect();
    let mut owned = members.iter().flat_map(|it| &it.subscription.owned);
    owned.any(|partition| {
        let (topic, number) = partition;
        let known = topics.partitions(topic).map_or(0, |(_, all)| all.len());
        usize::try_from(*number).is_ok_and(|it| it < known) && !given.contains(partition)
    })
}

fn count(view: &Metadata, topic: &str) -> Option<usize> {
    view.topic(topic).map(|topic| topic.partitions.len())
}
