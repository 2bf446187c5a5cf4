//! When to look up offsets, to fetch, to wait and to abandon. Each step has a file in the folder of this name.

mod answer;
mod assign;
mod dispatch;
mod review;

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::change::Change;
use crate::cluster::{Cluster, Lane};
use crate::config::Config;
use crate::error::Error;
use crate::fetch::assignment::Assignment;
use crate::fetch::buffer::{Buffer, Sharers, Taken};
use crate::fetch::checks::Checks;
use crate::fetch::lanes::Lanes;
use crate::fetch::leaders::Leaders;
use crate::fetch::lookup::Lookups;
use crate::fetch::position::Generation;
use crate::fetch::request::SentFetch;
use crate::fetch::session::Session;
use crate::fetch::subscription::Subscription;
use crate::part::Core;

/// Reads the assigned partitions.
#[derive(Debug)]
pub struct Fetcher {
    config: Arc<Config>,
    pub(super) assignment: Assignment,
    pub(super) subscription: Subscription,
    lookups: Lookups,
    checks: Checks,
    buffer: Buffer,
    sent: FxHashMap<u64, SentFetch>,
    /// Sessions of connections that have no request in flight.
    sessions: FxHashMap<(i32, Lane), Session>,
    lanes: Lanes,
    turn: u64,
    /// The version of the view that was looked at last.
    seen_view: u64,
    /// Topics came or went since.
    must_look: bool,
    leaders: Leaders,
}

impl Fetcher {
    pub(crate) fn new(config: Arc<Config>) -> Fetcher {
        Fetcher {
            assignment: Assignment::default(),
            subscription: Subscription::default(),
            lookups: Lookups::default(),
            checks: Checks::default(),
            buffer: Buffer::new(&config),
            sent: FxHashMap::default(),
            sessions: FxHashMap::default(),
            lanes: Lanes::default(),
            turn: 0,
            seen_view: 0,
            must_look: false,
            leaders: Leaders::default(),
            config,
        }
    }

    pub(crate) fn share_prefetch(&mut self, sharers: &Sharers) {
        self.buffer.share(sharers);
    }

    // --- what the caller gets

    pub(crate) fn take(&mut self, now: Instant, cluster: &mut Cluster) -> Option<Taken> {
        let taken = self.buffer.pop()?;
        // There may be space now. Where there was space before, every fetch that was due has been
        // sent.
        self.wake_links(now, cluster);
        Some(taken)
    }

    pub(crate) fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.assignment
            .get(topic, partition)
            .is_ok_and(|position| position.generation == generation)
    }

    pub(crate) fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        let current = self.assignment.current(topic, partition, generation);
        let Some((key, position)) = current else {
            return false;
        };
        position.next = Some(next_offset);
        if position.is_outdated && position.is_drained() {
            self.assignment.touch_key(key);
        }
        true
    }

    pub(crate) fn reject(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        offset: i64,
        error: Error,
    ) {
        let fresh = self.assignment.fresh_generation();
        let current = self.assignment.current(topic, partition, generation);
        if let Some((key, position)) = current {
            position.reject(fresh, offset, error);
            self.assignment.touch_key(key);
            self.buffer.drop_all(generation);
        }
    }

    /// Whether [`Fetcher::pump`] has something to do since the caller moved on.
    pub(crate) fn must_pump(&self) -> bool {
        self.assignment.has_touched()
    }

    pub(crate) fn pump(&mut self, now: Instant, core: &mut Core) {
        let cluster = &mut core.cluster;
        let is_new = self.seen_view != cluster.view_version();
        if is_new || self.must_look {
            self.look(now, cluster, is_new);
        }
        self.assignment.touch_due(now);
        self.review(now, cluster, is_new);
        self.look_up(now, core);
        let cluster = &mut core.cluster;
        if let Some(lost) = self.assignment.leaderless() {
            self.leaders.seek(now, cluster, lost);
        }
        self.leave_unreachable(now, cluster);
        self.wake_links(now, cluster);
        if let Some(at) = self.assignment.next_due() {
            cluster.set_alarm(at);
        }
    }

    #[cfg(test)]
    pub(crate) fn looks(&self) -> &std::cell::Cell<usize> {
        &self.assignment.looks
    }

    /// The client closes: requests in flight end without a report.
    pub(crate) fn abort(&mut self) {
        self.buffer.close();
        self.sent.clear();
        self.sessions.clear();
        self.lookups = Lookups::default();
        self.checks = Checks::default();
    }
}

/// Wakes callers who wait for records or positions, since there may be an error to raise.
fn raise(cluster: &mut Cluster) {
    cluster.context.changes.tell(Change::Records);
    cluster.context.changes.tell(Change::Position);
}
