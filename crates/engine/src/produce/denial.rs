//! When a leader's report that a batch is missing counts as proof that the batch is not written.
//!
//! OUT_OF_ORDER_SEQUENCE_NUMBER proves that the leader that sends it does not have the batch. It does not prove that no other
//! replica has the batch:
//!
//! 1. Leader A appends the batch, loses the leadership before the followers have it, and responds NOT_LEADER_OR_FOLLOWER.
//! 2. Leader B does not have the batch, and responds OUT_OF_ORDER_SEQUENCE_NUMBER, since an earlier batch is missing too.
//! 3. A is elected again before it has truncated its log, so the batch is still there. B may not have noticed that election yet.
//!
//! If the producer sent the batch to A under new numbers now, A would write it twice (simulation, `deposed` seed 15726834). So a
//! batch that another broker may have written is sent again under its own numbers, until the same leader has reported for
//! [`HEARD`] that the batch is missing. By then every broker has noticed the election.

use std::time::Instant;

use crate::cluster::HEARD;
use crate::denials::Denials;

/// The reports of one leader that a batch is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial {
    leader: i32,
    reports: Denials,
}

impl Denial {
    /// Counts a report of `leader`; reports of another leader count from the beginning. Returns whether the report is final.
    pub(super) fn is_final(denial: &mut Option<Denial>, now: Instant, leader: i32) -> bool {
        let new = Denial {
            leader,
            reports: Denials::new(now),
        };
        let same = denial.take().filter(|denial| denial.leader == leader);
        let counted = denial.insert(same.unwrap_or(new));
        counted.reports.are_final(now, HEARD)
    }
}
