//! Which brokers take nothing although something waits for them, and since when.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

/// Brokers by id. Nothing is noted where `partitioner.availability.timeout.ms` is 0.
#[derive(Debug)]
pub(super) struct Stalls {
    limit: Option<Duration>,
    since: FxHashMap<i32, Instant>,
}

impl Stalls {
    /// A broker is avoided after `limit`; zero is never.
    pub(super) fn new(limit: Duration) -> Stalls {
        Stalls {
            limit: Some(limit).filter(|limit| !limit.is_zero()),
            since: FxHashMap::default(),
        }
    }

    /// Something waits for the broker, and it cannot be sent now.
    pub(super) fn note(&mut self, now: Instant, node: i32) {
        if self.limit.is_some() {
            self.since.entry(node).or_insert(now);
        }
    }

    /// The broker takes something.
    pub(super) fn clear(&mut self, node: i32) {
        self.since.remove(&node);
    }

    /// Forgets brokers without waiting batches: it is not known whether they would accept any.
    pub(super) fn keep(&mut self, waits: impl Fn(i32) -> bool) {
        self.since.retain(|node, _| waits(*node));
    }

    /// Whether the broker has taken nothing for longer than it may.
    pub(super) fn is_stalled(&self, now: Instant, node: i32) -> bool {
        let since = self.since.get(&node);
        since
            .zip(self.limit)
            .is_some_and(|(since, limit)| now.saturating_duration_since(*since) > limit)
    }
}
