//! When OFFSET_OUT_OF_RANGE counts as proof that an offset is not in the log.
//!
//! A leader that was replaced, and does not know it yet, has fewer records than its successor. If
//! metadata from a broker that does not know it either names it as the leader, it returns
//! OFFSET_OUT_OF_RANGE for an offset that was already read from the successor (KAFKA-6262). Leader
//! epochs show which of two leaders is the newer one (KIP-320). Without epochs only time does:
//! every broker learns of the successor in the end.
//!
//! ```text
//!                  ┌────── denied, not long enough ───────┐
//!                  ▼                                      │
//!  confirmed ── denied ── pause, metadata ──▶ where does the log begin? ── not after the offset ───▶ fetched again ──▶ confirmed
//!      │                                                  │                                             │
//!      └── denied under an epoch as new ──▶ proven ◀──────┴── after the offset           denied long enough ──▶ proven
//! ```
//!
//! An offset that no broker has confirmed, and that came without an epoch, is the caller's own: the
//! first error counts. For an offset that was looked up or committed without an epoch, an error of
//! a broker that supports epochs counts sooner: nothing was read there yet.

use std::time::{Duration, Instant};

use crate::cluster::HEARD;
use crate::denials::Denials;

/// How long a broker that knows of epochs must deny an offset that came without one.
const BRIEFLY: Duration = Duration::from_secs(1);

/// The responses of brokers about the offset that is fetched next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// The leader epoch in the request to the broker that confirmed the offset last, -1 if none;
    /// `None` if no broker confirmed it.
    confirmed: Option<i32>,
    /// Something was fetched there.
    is_read: bool,
    denied: Option<Denied>,
}

#[derive(Clone, Copy, Debug)]
struct Denied {
    reports: Denials,
    /// It is not known yet whether the log begins after the offset.
    asks: bool,
}

impl Evidence {
    /// A broker that received this leader epoch has the offset in its log.
    pub(super) fn confirm(&mut self, epoch: i32) {
        *self = Evidence {
            confirmed: Some(epoch),
            is_read: true,
            denied: None,
        };
    }

    /// The offset was looked up, or committed, with this leader epoch, -1 if none.
    pub(super) fn found(&mut self, epoch: i32) {
        *self = Evidence {
            confirmed: Some(epoch),
            is_read: false,
            denied: None,
        };
    }

    /// A broker that received this leader epoch, -1 if none, does not have the offset; whether that
    /// result counts.
    pub(super) fn deny(&mut self, now: Instant, epoch: i32) -> bool {
        let Some(confirmed) = self.confirmed else {
            return true;
        };
        if confirmed >= 0 && epoch >= confirmed {
            return true;
        }
        let denied = self.denied.get_or_insert(Denied {
            reports: Denials::new(now),
            asks: true,
        });
        denied.asks = true;
        let is_new = !self.is_read && confirmed < 0 && epoch >= 0;
        let lasting = if is_new { BRIEFLY } else { HEARD };
        denied.reports.are_final(now, lasting)
    }

    /// Whether the beginning of the log is to be looked up.
    pub(super) fn asks(&self) -> bool {
        self.denied.is_some_and(|denied| denied.asks)
    }

    /// The log does not begin after the offset, or it does not matter now.
    pub(super) fn set_asked(&mut self) {
        if let Some(denied) = &mut self.denied {
            denied.asks = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::script::start;

    const UNTOLD: i32 = -1;

    #[test]
    fn an_epoch_as_new_as_the_one_that_confirmed_it_is_believed_at_once() {
        let believed = |confirmed: &[i32], denied| {
            let mut evidence = Evidence::default();
            for epoch in confirmed {
                evidence.confirm(*epoch);
            }
            evidence.deny(start(), denied)
        };
        assert!(believed(&[], UNTOLD) && believed(&[], 5));
        assert!(believed(&[5], 5) && believed(&[5], 6));
        assert!(!believed(&[5], 4) && !believed(&[5], UNTOLD));
        // What was confirmed last may be a later offset.
        assert!(!believed(&[5, UNTOLD], 6) && !believed(&[UNTOLD], UNTOLD));
        assert!(believed(&[UNTOLD, 5], 5));
    }

    #[test]
    fn without_epochs_many_denials_count_once_all_have_heard() {
        let mut evidence = Evidence::default();
        evidence.confirm(UNTOLD);
        let (now, second) = (start(), Duration::from_secs(1));
        assert!(!evidence.deny(now, UNTOLD) && evidence.asks());
        evidence.set_asked();
        assert!(!evidence.asks());
        assert!(!evidence.deny(now + second, UNTOLD) && evidence.asks());
        assert!(!evidence.deny(now + HEARD - second, UNTOLD));
        assert!(evidence.deny(now + HEARD, UNTOLD));

        // Two denials that are far apart are no proof. Neither are denials before a confirmation.
        evidence.confirm(UNTOLD);
        assert!(!evidence.asks() && !evidence.deny(now, UNTOLD));
        assert!(!evidence.deny(now + HEARD * 9, UNTOLD));
    }

    #[test]
    fn an_offset_that_came_without_an_epoch_is_left_soon_where_epochs_are_known() {
        let (now, second) = (start(), Duration::from_secs(1));
        let lasts = |found: i32, denied: i32| {
            let mut evidence = Evidence::default();
            evidence.found(found);
            let denials = (0..).map(|i| i * second / 2);
            denials
                .take_while(|after| !evidence.deny(now + *after, denied))
                .last()
        };
        assert_eq!(lasts(UNTOLD, 3), Some(second / 2));
        assert_eq!(lasts(UNTOLD, UNTOLD), Some(HEARD - second / 2));
        assert_eq!(lasts(4, 3), Some(HEARD - second / 2));
        assert_eq!(lasts(3, 3), None);
    }
}
