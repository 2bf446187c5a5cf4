//! The connections to each broker that carry batches.
//!
//! A broker handles the requests of one connection one after the other. Batches of different
//! partitions need not wait for each other: where more is to be sent than one connection carries,
//! they use several, which are dialled only then. The batches in flight of one partition share a
//! connection, since their order depends on that.

use std::iter::once;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::cluster::{Cluster, Lane, LinkId};
use crate::config::Config;

/// How many there are to each broker at most. The second is worth a quarter of the first; a third and a sixth showed no more.
const MOST: usize = 2;

/// The connections, and the bytes in flight on each.
#[derive(Debug)]
pub(super) struct Lanes {
    count: usize,
    /// This many bytes keep a broker busy for long enough to use another connection.
    much: usize,
    under_way: FxHashMap<LinkId, UnderWay>,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    requests: usize,
    bytes: usize,
}

impl Lanes {
    pub(super) fn new(config: &Config) -> Lanes {
        Lanes {
            // Without acknowledgements it is unknown when the broker has the batches of another
            // connection.
            count: if config.acks == 0 { 1 } else { MOST },
            much: config.batch_size / 2,
            under_way: FxHashMap::default(),
        }
    }

    /// A request was given to a connection.
    pub(super) fn sent(&mut self, link: LinkId, bytes: usize) {
        let under_way = self.under_way.entry(link).or_default();
        under_way.requests += 1;
        under_way.bytes += bytes;
    }

    /// A request got its response, or will get none.
    pub(super) fn done(&mut self, link: LinkId, bytes: usize) {
        if let Some(under_way) = self.under_way.get_mut(&link) {
            under_way.requests -= 1;
            under_way.bytes -= bytes;
            if under_way.requests == 0 {
                self.under_way.remove(&link);
            }
        }
    }

    /// How many requests are in flight on a connection.
    pub(super) fn requests(&self, link: LinkId) -> usize {
        self.on(link).requests
    }

    /// Whether no response of the broker is outstanding.
    pub(super) fn is_idle(&self, cluster: &Cluster, node: i32) -> bool {
        self.up(cluster, node)
            .all(|link| self.on(link).requests == 0)
    }

    /// The connection for a partition that has nothing in flight: the first with little to do, else
    /// the one with the least.
    pub(super) fn freest(&self, cluster: &Cluster, node: i32) -> Option<LinkId> {
        let up = self.up(cluster, node);
        up.min_by_key(|link| Some(self.on(*link).bytes).filter(|bytes| *bytes >= self.much))
    }

    /// Dials one more if all have much to do; one at a time.
    pub(super) fn extend(&self, now: Instant, cluster: &mut Cluster, node: i32) {
        let busy = |link| self.on(link).bytes >= self.much;
        for lane in self.each() {
            match cluster.node_link(now, node, lane) {
                Some(link) if busy(link) => {}
                _ => return,
            }
        }
    }

    fn on(&self, link: LinkId) -> UnderWay {
        self.under_way.get(&link).copied().unwrap_or_default()
    }

    /// All possible connections, in the order in which they are dialled.
    fn each(&self) -> impl Iterator<Item = Lane> + use<> {
        let more = (0_u8..).map(Lane::Data);
        once(Lane::Control).chain(more).take(self.count)
    }

    fn up(&self, cluster: &Cluster, node: i32) -> impl Iterator<Item = LinkId> {
        self.each()
            .filter_map(move |lane| cluster.up_link(node, lane))
    }
}
