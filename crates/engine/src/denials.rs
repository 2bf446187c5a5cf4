//! How often, and for how long, brokers must report that something is missing before the client acts on it.

use std::time::{Duration, Instant};

/// A broker that has just started, or that lags behind, does not know everything.
const RESPONSES: u32 = 3;

/// Consecutive responses which report that something is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denials {
    since: Instant,
    responses: u32,
}

impl Denials {
    /// None so far.
    pub(crate) fn new(now: Instant) -> Denials {
        Denials {
            since: now,
            responses: 0,
        }
    }

    /// Counts one more response. Returns whether there are enough, over a period of at least `lasting`.
    pub(crate) fn are_final(&mut self, now: Instant, lasting: Duration) -> bool {
        self.responses = self.responses.saturating_add(1);
        self.responses >= RESPONSES && now >= self.since + lasting
    }
}
