//! Which replica of a partition is read: its leader, or one that is nearer (KIP-392).
//!
//! ```text
//!  `Told` ── the leader names a nearer replica ──▶ Nearer ── metadata.max.age.ms, or an error ──▶ `Told`
//!    ▲                                               │
//!    │                                               └── cannot be reached ──▶ `Untold` ── metadata.max.age.ms ─┐
//!    └────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A leader that receives the client's rack returns no records once it knows a nearer replica. If
//! the nearer replica cannot be read, the request to the leader omits the rack, and the leader
//! returns records.

use std::time::Instant;

/// Where a partition is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replica {
    /// At the leader, whose requests contain the client's rack.
    #[default]
    Told,
    /// At the leader, whose requests omit the client's rack until then.
    Untold(Instant),
    /// At this broker until then.
    Nearer(i32, Instant),
}

impl Replica {
    /// Goes back to the leader, and sends it the rack, when the time has come or the nearer broker
    /// has gone.
    pub(super) fn pass(&mut self, now: Instant, is_there: impl Fn(i32) -> bool) {
        let holds = match *self {
            Replica::Told => true,
            Replica::Untold(until) => now < until,
            Replica::Nearer(node, until) => now < until && is_there(node),
        };
        if !holds {
            *self = Replica::Told;
        }
    }

    /// The broker that is read, if it is not the leader.
    pub(super) fn nearer(self) -> Option<i32> {
        match self {
            Replica::Nearer(node, _) => Some(node),
            Replica::Told | Replica::Untold(_) => None,
        }
    }
}
