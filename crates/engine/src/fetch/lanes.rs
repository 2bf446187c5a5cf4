//! The connections to each broker that carry fetches.
//!
//! A broker answers a connection's requests one after the other, and a fetch for partitions that have nothing new takes
//! `fetch.max.wait.ms`. Partitions that want something meanwhile use the next connection, which is dialled only then.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::cluster::{Cluster, Lane, LinkId};

/// How many there are to each broker.
pub(super) const COUNT: usize = 2;

/// They, in the order in which they are dialled.
pub(super) fn each() -> impl Iterator<Item = Lane> {
    (0_u8..).take(COUNT).map(Lane::Data)
}

/// Dials the first one that is missing, and no other meanwhile.
pub(super) fn dial(now: Instant, cluster: &mut Cluster, leader: i32) {
    for lane in each() {
        if cluster.node_link(now, leader, lane).is_none() {
            return;
        }
    }
}

/// Which of them wait for the answer to a fetch.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    busy: BTreeSet<LinkId>,
}

impl Lanes {
    pub(super) fn occupy(&mut self, link: LinkId) {
        self.busy.insert(link);
    }

    pub(super) fn release(&mut self, link: LinkId) {
        self.busy.remove(&link);
    }

    pub(super) fn is_busy(&self, link: LinkId) -> bool {
        self.busy.contains(&link)
    }

    /// A connection to this broker that is up and waits for nothing.
    pub(super) fn free(&self, cluster: &Cluster, node: i32) -> Option<LinkId> {
        up(cluster, node).find(|link| !self.is_busy(*link))
    }

    pub(super) fn is_any_busy(&self, cluster: &Cluster, node: i32) -> bool {
        up(cluster, node).any(|link| self.is_busy(link))
    }
}

fn up(cluster: &Cluster, node: i32) -> impl Iterator<Item = LinkId> {
    each().filter_map(move |lane| cluster.up_link(node, lane))
}
