//! Where partitions begin: at the offset that the group committed, if it did.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::call::{CallId, Ended, OffsetFetch};
use crate::error::Error;
use crate::part::Core;

/// A partition whose committed offset is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// Which of the partition's assignments and seeks is to begin there.
    pub(crate) mark: u64,
}

/// What was found: the offset, if one was committed.
pub(crate) type Found = (Sought, Result<Option<i64>, Error>);

/// Searches of one group.
#[derive(Debug, Default)]
pub(super) struct Searches {
    wanted: Vec<Sought>,
    running: FxHashMap<CallId, Vec<Sought>>,
    found: Vec<Found>,
}

impl Searches {
    pub(super) fn want(&mut self, sought: Vec<Sought>) {
        self.wanted.extend(sought);
    }

    /// Asks for what is wanted.
    pub(super) fn pump(&mut self, now: Instant, core: &mut Core, group: &Arc<str>) {
        if self.wanted.is_empty() {
            return;
        }
        let sought = std::mem::take(&mut self.wanted);
        let partitions = sought.iter();
        let call = OffsetFetch {
            group: Arc::clone(group),
            partitions: partitions
                .map(|it| (Arc::clone(&it.topic), it.partition))
                .collect(),
            require_stable: core.cluster.config().read_committed,
        };
        let deadline = now + core.cluster.config().default_api_timeout;
        let id = core.start(now, call, deadline);
        self.running.insert(id, sought);
    }

    /// Takes in the end of a call, if it was one of these.
    pub(super) fn handle_ended(&mut self, ended: Ended) {
        let Some(sought) = self.running.remove(&ended.id) else {
            return;
        };
        match ended.answer::<OffsetFetch>() {
            Some(Ok(found)) => {
                let found = found.into_iter().map(|found| {
                    let offset = found?.map(|committed| committed.offset);
                    Ok(offset)
                });
                self.found.extend(sought.into_iter().zip(found));
            }
            // The call has retried until its deadline; another one goes on.
            Some(Err(error)) if error.is_retriable() => self.wanted.extend(sought),
            Some(Err(error)) => {
                let failed = sought.into_iter().map(|it| {
                    let error = error.clone().partition_is(&it.topic, it.partition);
                    (it, Err(error))
                });
                self.found.extend(failed);
            }
            None => {}
        }
    }

    pub(super) fn is_running(&self, id: CallId) -> bool {
        self.running.contains_key(&id)
    }

    /// What was found since the last call.
    pub(super) fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    pub(super) fn clear(&mut self) {
        *self = Searches::default();
    }
}
