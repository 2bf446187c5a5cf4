//! Whether brokers are believed that an offset is not in the log.
//!
//! A leader that was replaced and has not heard of it has fewer records than its successor. Where a broker that has not heard of
//! it either names it as the leader, it denies what was read at the successor already (KAFKA-6262). Leader epochs tell who is
//! the newer one of two (KIP-320). Where they are not told, only time does: everybody hears of the successor in the end.
//!
//! ```text
//!                  ┌────── denied, not long enough ───────┐
//!                  ▼                                      │
//!  confirmed ── denied ── pause, metadata ──▶ where does the log begin? ── not behind the offset ──▶ fetched again ──▶ confirmed
//!      │                                                  │                                             │
//!      └── denied under an epoch as new ──▶ believed ◀────┴── behind the offset          denied long enough ──▶ believed
//! ```
//!
//! An offset that nobody has confirmed is one that the caller made up: whoever denies it is believed at once.

use std::time::Instant;

use crate::cluster::HEARD;
use crate::fetch::doubt::Doubt;

/// What brokers said of the offset that is fetched next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// The leader epoch that the broker was told which confirmed the offset last, -1 if none; `None` if nobody confirmed it.
    confirmed: Option<i32>,
    denied: Option<Denied>,
}

#[derive(Clone, Copy, Debug)]
struct Denied {
    doubt: Doubt,
    /// It is not known yet whether the log begins behind the offset.
    asks: bool,
}

impl Evidence {
    /// A broker that was told this leader epoch has the offset in its log.
    pub(super) fn confirm(&mut self, epoch: i32) {
        *self = Evidence {
            confirmed: Some(epoch),
            denied: None,
        };
    }

    /// A broker that was told this leader epoch, -1 if none, does not have it; whether it is believed.
    pub(super) fn deny(&mut self, now: Instant, epoch: i32) -> bool {
        let Some(confirmed) = self.confirmed else {
            return true;
        };
        if confirmed >= 0 && epoch >= confirmed {
            return true;
        }
        let denied = self.denied.get_or_insert(Denied {
            doubt: Doubt::new(now),
            asks: true,
        });
        denied.asks = true;
        denied.doubt.is_confirmed(now, HEARD)
    }

    /// Whether it is to be asked where the log begins.
    pub(super) fn asks(&self) -> bool {
        self.denied.is_some_and(|denied| denied.asks)
    }

    /// The log does not begin behind the offset.
    pub(super) fn set_asked(&mut self) {
        if let Some(denied) = &mut self.denied {
            denied.asks = false;
        }
    }

    /// Denials of another time do not count.
    pub(super) fn forget_denials(&mut self) {
        self.denied = None;
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

        // Two that are far apart are no proof, nor are those before an answer.
        for again in [Evidence::forget_denials, |it: &mut Evidence| {
            it.confirm(UNTOLD)
        }] {
            again(&mut evidence);
            assert!(!evidence.asks() && !evidence.deny(now, UNTOLD));
            assert!(!evidence.deny(now + HEARD * 9, UNTOLD));
        }
    }
}
