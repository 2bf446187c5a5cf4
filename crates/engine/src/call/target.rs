//! The target of a request.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;

use crate::cluster::{Cluster, Coordinator, CoordinatorType, Lane, LinkId};
use crate::error::{Error, Kind};

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Any broker.
    Any,
    /// The controller; brokers before KRaft take changes there only.
    Controller,
    /// The leader of this partition.
    Leader(Arc<str>, i32),
    /// The coordinator of this group or transaction.
    Coordinator(CoordinatorType, Arc<str>),
    /// The coordinator of this group, for a request to which it responds only when the other
    /// members have joined.
    Rebalance(Arc<str>),
    /// The broker with this id.
    Node(i32),
    /// Every broker; each responds for itself.
    EveryNode,
}

/// The state of the connection to a target.
#[derive(Debug)]
pub(super) enum Way {
    /// This link is up.
    Up(LinkId),
    /// Not yet; why, as far as known.
    NotYet(Option<Error>),
    /// Waiting cannot help.
    Never(Error),
}

impl Target {
    /// The way to the target as far as it is known; what is not known is looked for. `since` is when the call began: an
    /// absence that is known from before may be over.
    pub(super) fn way(&self, now: Instant, cluster: &mut Cluster, since: Instant) -> Way {
        match self {
            Target::Any | Target::EveryNode => match cluster.any_link(now) {
                Some(link) => Way::Up(link),
                None => Way::NotYet(None),
            },
            Target::Controller => controller(now, cluster, since),
            Target::Leader(topic, partition) => leader(now, cluster, topic, *partition, since),
            Target::Coordinator(kind, key) => {
                coordinator(now, cluster, *kind, key, Lane::Coordinator, since)
            }
            Target::Rebalance(group) => {
                let kind = CoordinatorType::Group;
                coordinator(now, cluster, kind, group, Lane::Rebalance, since)
            }
            Target::Node(node) => to_node(now, cluster, *node, Lane::Control, since),
        }
    }

    /// The target of the request turned out to be wrong: it is looked up again.
    pub(super) fn look_up_again(&self, now: Instant, cluster: &mut Cluster) {
        match self {
            Target::Coordinator(kind, key) => cluster.forget_coordinator(*kind, key),
            Target::Rebalance(group) => {
                cluster.forget_coordinator(CoordinatorType::Group, group);
            }
            _ => cluster.refresh(now),
        }
    }
}

fn coordinator(
    now: Instant,
    cluster: &mut Cluster,
    kind: CoordinatorType,
    key: &Arc<str>,
    lane: Lane,
    since: Instant,
) -> Way {
    let node = match cluster.coordinator(now, kind, key) {
        Coordinator::Known(node) => node,
        Coordinator::Sought(error) => {
            cluster.need_view(now);
            return Way::NotYet(error);
        }
        Coordinator::Refused(error) => return Way::Never(error),
    };
    match to_node(now, cluster, node, lane, since) {
        Way::Up(link) => Way::Up(link),
        Way::NotYet(None) => Way::NotYet(None),
        Way::Never(error) if error.is_refusal() => Way::Never(error),
        // It cannot be reached, or left: another broker coordinates by now, or will.
        Way::NotYet(Some(error)) => {
            cluster.forget_coordinator(kind, key);
            Way::NotYet(Some(error))
        }
        Way::Never(_) => {
            cluster.forget_coordinator(kind, key);
            let text =
                format!("broker {node}, which coordinates it, is not in the cluster at the moment");
            Way::NotYet(Some(Error::new(Kind::Unreachable, text)))
        }
    }
}

fn controller(now: Instant, cluster: &mut Cluster, since: Instant) -> Way {
    cluster.need_view(now);
    if cluster.view().nodes().next().is_none() {
        // Brokers of 0.8 name none until there is a topic.
        let answered = cluster.refresh_error().map(Error::kind) == Some(Kind::Protocol);
        return if answered {
            Target::Any.way(now, cluster, now)
        } else {
            Way::NotYet(None)
        };
    }
    let known = cluster.view().controller();
    match known.filter(|id| cluster.view().node(*id).is_some()) {
        Some(node) => link_to(now, cluster, node, Lane::Control, since),
        None => Target::Any.way(now, cluster, now),
    }
}

fn leader(
    now: Instant,
    cluster: &mut Cluster,
    topic: &Arc<str>,
    partition: i32,
    since: Instant,
) -> Way {
    if let Some((leader, _)) = cluster.view().leader(topic, partition) {
        return link_to(now, cluster, leader, Lane::Control, since);
    }
    match why_no_leader(cluster, topic, partition, since) {
        Absence::Proven(error) => Way::Never(error),
        Absence::SoFar(error) => {
            // A view that knows all wanted topics is not refreshed by itself.
            if !cluster.is_fresh(since) {
                cluster.refresh(now);
            }
            Way::NotYet(error)
        }
    }
}

fn to_node(now: Instant, cluster: &mut Cluster, node: i32, lane: Lane, since: Instant) -> Way {
    if cluster.view().node(node).is_some() {
        return link_to(now, cluster, node, lane, since);
    }
    if cluster.is_fresh(since) {
        let text = format!("there is no broker {node} in the cluster");
        return Way::Never(Error::new(Kind::Argument, text));
    }
    cluster.refresh(now);
    Way::NotYet(None)
}

fn link_to(now: Instant, cluster: &mut Cluster, node: i32, lane: Lane, since: Instant) -> Way {
    if let Some(link) = cluster.node_link(now, node, lane) {
        return Way::Up(link);
    }
    // No other broker can respond, and this one does not accept the client.
    if let Some(refusal) = cluster.refusal_of(node, lane, since) {
        return Way::Never(refusal.clone());
    }
    Way::NotYet(cluster.failure_of(node, lane).cloned())
}

/// Why a partition has no leader in the view.
#[derive(Debug)]
pub(crate) enum Absence {
    /// Waiting cannot help.
    Proven(Error),
    /// It may turn up; the reason as far as known.
    SoFar(Option<Error>),
}

/// Why a partition has no leader in the view, as of `since` or later.
pub(crate) fn why_no_leader(
    cluster: &Cluster,
    topic: &Arc<str>,
    partition: i32,
    since: Instant,
) -> Absence {
    let view = cluster.view();
    if let Some(known) = view.topic(topic) {
        if known.partitions.contains_key(&partition) {
            let text = "the partition has no leader";
            let error = Error::from_code(ErrorCode::LEADER_NOT_AVAILABLE, Some(text));
            return Absence::SoFar(Some(error.with_partition(topic, partition)));
        }
        let count = known.partitions.len();
        let text = format!("there is no such partition: the topic has {count}");
        let error = Error::new(Kind::Argument, text).with_partition(topic, partition);
        return if cluster.is_fresh(since) {
            Absence::Proven(error)
        } else {
            Absence::SoFar(Some(error))
        };
    }
    let Some(code) = view.problem(topic) else {
        let error = cluster.refresh_error().cloned();
        return Absence::SoFar(error.map(|error| error.with_topic(topic)));
    };
    let error = Error::from_code(code, None)
        .calling("Metadata")
        .with_topic(topic);
    if cluster.is_absent(topic, since) {
        Absence::Proven(error.with_retriable(false))
    } else if code.is_retriable() {
        Absence::SoFar(Some(error))
    } else {
        Absence::Proven(error)
    }
}
