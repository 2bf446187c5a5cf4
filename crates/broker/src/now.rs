//! What time it is, as an argument; and how wrong a node's wall clock is.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// The end of the year 9999: no clock shows more.
const LAST_MS: i64 = 253_402_300_799_999;

/// A moment, by both of its clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For durations.
    pub instant: Instant,
    /// For timestamps: milliseconds since 1970.
    pub unix_ms: i64,
}

/// The wall clock of a node: how far it was moved away from the real time. Durations are measured
/// by [`Now::instant`], which does not jump.
#[derive(Debug, Default)]
pub(crate) struct WallClock(AtomicI64);

impl WallClock {
    /// Moves it by this many milliseconds, in addition to earlier moves.
    pub(crate) fn jump(&self, by_ms: i64) {
        let moved = |ahead: i64| Some(ahead.saturating_add(by_ms));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }

    /// What it shows, in milliseconds since 1970.
    pub(crate) fn at(&self, now: Now) -> i64 {
        let ahead = self.0.load(Ordering::Relaxed);
        now.unix_ms.saturating_add(ahead).clamp(0, LAST_MS)
    }

    /// The moment with the time of this clock. It is not passed to other nodes, whose clocks may
    /// differ.
    pub(crate) fn read(&self, now: Now) -> Now {
        Now {
            unix_ms: self.at(now),
            ..now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_jumps_forward_and_back_and_to_no_time_that_is_none() {
        let now = Now {
            instant: Instant::now(),
            unix_ms: 1000,
        };
        let clock = WallClock::default();
        assert_eq!(clock.at(now), 1000);
        clock.jump(500);
        clock.jump(-100);
        let read = clock.read(now);
        assert_eq!((read.unix_ms, read.instant), (1400, now.instant));
        clock.jump(i64::MIN);
        assert_eq!(clock.at(now), 0);
        clock.jump(i64::MAX);
        clock.jump(i64::MAX);
        assert_eq!(clock.at(now), LAST_MS);
    }
}
