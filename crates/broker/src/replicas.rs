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
    /// Whether the replicas have it by now, or never will. `None`: not yet, and `watcher` is told of progress.
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
