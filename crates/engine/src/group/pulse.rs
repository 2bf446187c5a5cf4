//! Flags between the engine and a loop over records, without the engine's lock.

use std::sync::atomic::{AtomicBool, Ordering};

/// Two flags, cheap enough for each record.
#[derive(Debug, Default)]
pub struct Pulse {
    reads: AtomicBool,
    needs_poll: AtomicBool,
}

impl Pulse {
    /// A record was handed out: the application is alive.
    #[inline]
    pub fn beat(&self) {
        self.reads.store(true, Ordering::Relaxed);
    }

    /// Whether the loop has to poll before it continues with the records that it has: a rebalance
    /// or a commit waits for it.
    #[inline]
    pub fn needs_poll(&self) -> bool {
        self.needs_poll.load(Ordering::Relaxed)
    }

    /// Whether a record was handed out since the last call.
    pub(super) fn take_beat(&self) -> bool {
        self.reads.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set_needs_poll(&self, needs: bool) {
        self.needs_poll.store(needs, Ordering::Relaxed);
    }
}
