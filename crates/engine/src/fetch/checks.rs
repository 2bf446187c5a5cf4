//! Checks with leaders whether their logs contain what was read: OffsetForLeaderEpoch, after a
//! change of leader.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::call::{CallId, Ended, EpochEnd, EpochEnds};
use crate::error::Error;
use crate::fetch::assignment::Key;
use crate::fetch::position::{Generation, Leader};
use crate::part::Core;

/// A position to be checked by a leader.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) key: Key,
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) generation: Generation,
    /// The epoch of the record before the position.
    pub(super) epoch: i32,
    /// The leader of the request.
    pub(super) leader: Leader,
}

/// Requests by leader, so that a leader without a response does not delay the others.
#[derive(Debug, Default)]
pub(super) struct Checks {
    running: FxHashMap<CallId, Vec<Checked>>,
}

impl Checks {
    /// Sends one request to each leader.
    pub(super) fn start(&mut self, now: Instant, core: &mut Core, by_leader: Vec<Vec<Checked>>) {
        let deadline = now + core.cluster.config().default_api_timeout;
        for checked in by_leader {
            let wanted = checked.iter();
            let wanted = wanted.map(|it| (Arc::clone(&it.topic), it.partition, it.epoch));
            let call = EpochEnds {
                wanted: wanted.collect(),
            };
            let id = core.start_once(now, call, deadline);
            self.running.insert(id, checked);
        }
    }

    /// Whether the call that ended was one of these.
    pub(super) fn is_one(&self, ended: &Ended) -> bool {
        self.running.contains_key(&ended.id)
    }

    /// The leader's result for each partition of the request.
    pub(super) fn finish(&mut self, ended: Ended) -> Vec<(Checked, Result<EpochEnd, Error>)> {
        let Some(checked) = self.running.remove(&ended.id) else {
            return Vec::new();
        };
        match ended.answer::<EpochEnds>() {
            Some(Ok(found)) => checked.into_iter().zip(found).collect(),
            Some(Err(error)) => {
                let all = checked.into_iter();
                all.map(|it| (it, Err(error.clone()))).collect()
            }
            None => Vec::new(),
        }
    }
}
