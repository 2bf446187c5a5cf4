//! Whether the application still polls, as `max.poll.interval.ms` wants it to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::group::pulse::Pulse;

/// The polls of all callers.
#[derive(Debug)]
pub(super) struct PollDeadline {
    interval: Duration,
    /// The number of running polls.
    polling: u32,
    /// When the last one ended; `None` before the first.
    ended: Option<Instant>,
    pulse: Arc<Pulse>,
}

impl PollDeadline {
    pub(super) fn new(interval: Duration) -> PollDeadline {
        PollDeadline {
            interval,
            polling: 0,
            ended: None,
            pulse: Arc::default(),
        }
    }

    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    pub(super) fn begin(&mut self) {
        self.polling += 1;
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.polling = self.polling.saturating_sub(1);
        self.ended = Some(now);
    }

    /// When the next poll has to begin at the latest.
    pub(super) fn due(&self) -> Option<Instant> {
        let ended = self.ended.filter(|_| self.polling == 0)?;
        ended.checked_add(self.interval)
    }

    /// Whether the application has stopped polling. A loop that takes record after record of what the last poll brought counts as
    /// polling.
    pub(super) fn is_late(&mut self, now: Instant) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        if self.pulse.take_beat() {
            self.ended = Some(now);
            return false;
        }
        true
    }
}
