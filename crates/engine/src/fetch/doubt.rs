//! How often brokers must say that a partition does not exist before it is believed.

use std::time::{Duration, Instant};

/// A broker that has just started, or that lags behind, does not know of all there is.
const ANSWERS: u32 = 3;
const SPAN: Duration = Duration::from_millis(300);

/// Answers in a row that said that a partition does not exist.
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

    /// Counts one more answer; whether they are enough.
    pub(super) fn is_confirmed(&mut self, now: Instant) -> bool {
        self.answers = self.answers.saturating_add(1);
        self.answers >= ANSWERS && now >= self.since + SPAN
    }
}
