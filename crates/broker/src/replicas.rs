//! Records that a leader has and its replicas in sync do not have yet.

use std::sync::Arc;

use ottla_protocol::ErrorCode;

use crate::storage::replica::Watcher;
use crate::topics::Topic;

/// What was appended to a partition, and is not on all replicas in sync yet.
#[derive(Debug, Clone)]
pub(crate) struct Unreplicated {
    pub(crate) topic: Arc<Topic>,
    pub(crate) index: i32,
    /// The epoch in which it was appended.
    pub(crate) epoch: i32,
    /// The offset after its last record.
    pub(crate) end: i64,
    /// How many replicas must be in sync.
    pub(crate) least_in_sync: usize,
}

impl Unreplicated {
    /// Whether the replicas have it by now, or never will. `None`: not yet, and `watcher` is
    /// notified of progress.
    pub(crate) fn look(&self, watcher: &Arc<Watcher>) -> Option<Result<(), ErrorCode>> {
        match self.topic.partition(self.index) {
            Ok(replica) => {
                let mut replica = replica.lock();
                replica.committed(self.epoch, self.end, self.least_in_sync, watcher)
            }
            Err(code) => Some(Err(code)),
        }
    }
}

/// The error code for clients of a coordinator when its log does not take a record, or its replicas
/// do not.
pub(crate) fn for_clients(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NOT_LEADER_OR_FOLLOWER => ErrorCode::NOT_COORDINATOR,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        _ => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
