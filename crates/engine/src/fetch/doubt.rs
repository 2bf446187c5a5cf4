//! How often, and for how long, brokers must deny that something is there before they are believed.

use std::time::{Duration, Instant};

/// A broker that has just started, or that lags behind, does not know of all there is.
const ANSWERS: u32 = 3;

/// Answers in a row that denied it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    since: Instant,
    answers: u32,
}

impl Doubt {
    /// None so far.
    pub(super) fn new(now: Instant) -> Doubt {
        Doubt {
            since: now,
            answers: 0,
        }
    }

    /// Counts one more answer; whether they are enough, and have come for so long.
    pub(super) fn is_confirmed(&mut self, now: Instant, lasting: Duration) -> bool {
        self.answers = self.answers.saturating_add(1);
        self.answers >= ANSWERS && now >= self.since + lasting
    }
}
