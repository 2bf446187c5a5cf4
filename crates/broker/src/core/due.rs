//! When a node looks after its logs again.

use std::time::{Duration, Instant};

/// When the next looks at all logs are due.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub(super) retention: Option<Instant>,
    pub(super) compaction: Option<Instant>,
    pub(super) producers: Option<Instant>,
    pub(super) offsets: Option<Instant>,
}

/// Whether something is due; if so, it is due again after `pause`.
pub(super) fn take(due: &mut Option<Instant>, pause: Duration, now: Instant) -> bool {
    let is_due = due.is_some_and(|due| due <= now);
    if is_due {
        *due = now.checked_add(pause);
    }
    is_due
}
