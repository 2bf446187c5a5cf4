//! Offsets to be found out: where a log begins or ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::config::OffsetReset;
use crate::error::{Error, Kind};
use crate::fetch::position::{Generation, Start};
use crate::operation::{
    Answer, Asker, EARLIEST, FoundOffset, LATEST, OperationId, Operations, Question,
};

/// A partition whose offset is looked up.
#[derive(Debug)]
pub(super) struct Searched {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) generation: Generation,
    /// [`EARLIEST`] or [`LATEST`].
    pub(super) time: i64,
}

/// Lookups by the leader that is asked, so that a silent one keeps no other waiting.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    running: FxHashMap<OperationId, Vec<Searched>>,
}

impl Lookups {
    /// Asks each leader once. All that the fetcher knows of calls is here and in [`Lookups::finish`].
    pub(super) fn start(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        operations: &mut Operations,
        by_leader: BTreeMap<i32, Vec<Searched>>,
    ) {
        if by_leader.is_empty() {
            return;
        }
        let deadline = now + cluster.config.default_api_timeout;
        for searched in by_leader.into_values() {
            let wanted = searched
                .iter()
                .map(|it| (Arc::clone(&it.topic), it.partition, it.time));
            let question = Question::Offsets(wanted.collect());
            let id = operations.start(now, cluster, question, Asker::Work, deadline);
            self.running.insert(id, searched);
        }
        operations.pump(now, cluster);
    }

    /// What was found, for each partition that was asked for.
    pub(super) fn finish(
        &mut self,
        id: OperationId,
        outcome: Result<Answer, Error>,
    ) -> Vec<(Searched, Result<i64, Error>)> {
        let Some(searched) = self.running.remove(&id) else {
            return Vec::new();
        };
        match outcome {
            Ok(Answer::Offsets(found)) => searched
                .into_iter()
                .zip(found.into_iter().map(|found| found.and_then(offset)))
                .collect(),
            Ok(_) => Vec::new(),
            Err(error) => searched
                .into_iter()
                .map(|it| (it, Err(error.clone())))
                .collect(),
        }
    }
}

fn offset(found: FoundOffset) -> Result<i64, Error> {
    if found.offset >= 0 {
        return Ok(found.offset);
    }
    let text = format!(
        "the broker says that the log begins or ends at {}",
        found.offset
    );
    Err(Error::new(Kind::Protocol, text).calling("ListOffsets"))
}

/// The time to look up for a start; `None` for an offset, which is known already.
///
/// # Errors
/// `auto.offset.reset` is needed and is `none`.
pub(super) fn time_of(start: Start, policy: OffsetReset) -> Result<Option<i64>, Error> {
    match (start, policy) {
        (Start::Offset(_), _) => Ok(None),
        (Start::Beginning, _) | (Start::Reset, OffsetReset::Earliest) => Ok(Some(EARLIEST)),
        (Start::End, _) | (Start::Reset, OffsetReset::Latest) => Ok(Some(LATEST)),
        (Start::Reset, OffsetReset::None) => {
            let text = "no position, and auto.offset.reset is none: seek, or assign with an offset";
            Err(Error::new(Kind::Argument, text))
        }
    }
}
