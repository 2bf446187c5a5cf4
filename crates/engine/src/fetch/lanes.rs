//! The connections to each broker that carry fetches.
//!
//! A broker responds to the requests of a connection one after the other, and a fetch for
//! partitions without new records takes `fetch.max.wait.ms`. Partitions that become ready meanwhile
//! use the next connection, which is dialled only then.
//!
//! If fetches waited on all connections, partitions that come to the consumer by a rebalance, a seek or the end of a pause
//! would wait with them. So a fetch that takes the last free connection has the broker wait for [`BRIEF`] only; and when both
//! waits end at about the same time, its partitions are held until they go together with the others in one fetch, which leaves
//! the other connection free.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Lane, LinkId};

/// How many there are to each broker.
pub(super) const COUNT: usize = 2;

/// How long brokers keep a fetch at most while another one waits there.
pub(super) const BRIEF: Duration = Duration::from_millis(50);

/// A fetch whose wait ends within this time is waited for, since its partitions are to be requested
/// together with others.
const SOON: Duration = Duration::from_millis(10);

/// How long the response to a fetch may take to arrive.
const LATE: Duration = Duration::from_millis(50);

/// What happens to partitions without new records, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// They are requested, and the broker waits at most this time for records.
    AtMost(Duration),
    /// The response to another fetch is due soon: these partitions go into the next request with
    /// its partitions, or alone at this time.
    Until(Instant),
}

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

/// Which connections wait for the response to a fetch.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// And until when the broker waits for records; `None` where it has some.
    busy: BTreeMap<LinkId, Option<Instant>>,
}

impl Lanes {
    pub(super) fn occupy(&mut self, link: LinkId, until: Option<Instant>) {
        self.busy.insert(link, until);
    }

    pub(super) fn release(&mut self, link: LinkId) {
        self.busy.remove(&link);
    }

    pub(super) fn is_busy(&self, link: LinkId) -> bool {
        self.busy.contains_key(&link)
    }

    /// How long a fetch over a free connection may wait at the broker; `longest` is `fetch.max.wait.ms`.
    pub(super) fn wait(
        &self,
        now: Instant,
        cluster: &Cluster,
        node: i32,
        longest: Duration,
    ) -> Wait {
        let untils = up(cluster, node).filter_map(|link| self.busy.get(&link).copied().flatten());
        let Some(first) = untils.min().filter(|_| longest > BRIEF) else {
            return Wait::AtMost(longest);
        };
        let left = first.saturating_duration_since(now);
        if left > SOON {
            Wait::AtMost(left.min(BRIEF))
        } else if now < first + LATE {
            Wait::Until(first + LATE)
        } else {
            Wait::AtMost(BRIEF)
        }
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
