//! Which of the acquired records are held: the lock of each response and partition, and the state
//! of each record under it. An offset has one lock and one state at a time, whatever brokers claim.

use std::sync::Arc;
use std::time::Instant;

use crate::share::acknowledgement::{AcknowledgeType, Key, LockId};

/// The state of an acquired record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) lock: LockId,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No caller has it yet.
    Acquired,
    /// The caller has it, and has said nothing.
    Given,
    /// The caller acknowledged it, and the broker has not received that yet.
    Said(AcknowledgeType),
    /// Its lock is being renewed, or was.
    Renewed,
}

/// The records of one partition in one response.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) key: Key,
    pub(super) topic: Arc<str>,
    pub(super) node: i32,
    pub(super) session: u64,
    /// When the lock ends; `None` if the broker did not return it.
    pub(super) until: Option<Instant>,
    /// The end of the renewed locks. The other locks end at `until`.
    pub(super) renewed_until: Option<Instant>,
    /// How many offsets are not settled.
    pub(super) left: u64,
}
