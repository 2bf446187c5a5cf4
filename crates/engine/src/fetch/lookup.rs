//! Lookups of offsets: where a log begins or ends.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;
use rustc_hash::FxHashMap;

use crate::call::{CallId, EARLIEST, Ended, FoundOffset, LATEST, ListOffsets};
use crate::config::OffsetReset;
use crate::error::{Error, Kind};
use crate::fetch::assignment::Key;
use crate::fetch::position::{Generation, Position, Start};
use crate::part::Core;

/// A partition whose offset is looked up.
#[derive(Debug)]
pub(super) struct Searched {
    pub(super) key: Key,
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) generation: Generation,
    /// The topic's id when the lookup began; zero if it was not known.
    pub(super) topic_id: Uuid,
    /// [`EARLIEST`] or [`LATEST`].
    pub(super) time: i64,
}

/// An offset, and the leader epoch of what is there, or -1.
type FoundAt = (i64, i32);

/// Lookups by leader, so that a silent leader does not delay the others.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    running: FxHashMap<CallId, Vec<Searched>>,
}

impl Lookups {
    /// Asks each leader once. All that the fetcher knows of calls is here and in [`Lookups::finish`].
    pub(super) fn start(&mut self, now: Instant, core: &mut Core, by_leader: Vec<Vec<Searched>>) {
        let deadline = now + core.cluster.config().default_api_timeout;
        for searched in by_leader {
            let wanted = searched
                .iter()
                .map(|it| (Arc::clone(&it.topic), it.partition, it.time));
            let call = ListOffsets {
                wanted: wanted.collect(),
            };
            let id = core.start_once(now, call, deadline);
            self.running.insert(id, searched);
        }
    }

    /// What was found, for each partition of the lookup.
    pub(super) fn finish(&mut self, ended: Ended) -> Vec<(Searched, Result<FoundAt, Error>)> {
        let Some(searched) = self.running.remove(&ended.id) else {
            return Vec::new();
        };
        match ended.answer::<ListOffsets>() {
            Some(Ok(found)) => searched
                .into_iter()
                .zip(found.into_iter().map(|found| found.and_then(offset)))
                .collect(),
            Some(Err(error)) => searched
                .into_iter()
                .map(|it| (it, Err(error.clone())))
                .collect(),
            None => Vec::new(),
        }
    }
}

fn offset(found: FoundOffset) -> Result<FoundAt, Error> {
    if found.offset >= 0 {
        return Ok((found.offset, found.leader_epoch));
    }
    let text = format!(
        "the broker says that the log begins or ends at {}",
        found.offset
    );
    Err(Error::new(Kind::Protocol, text).calling("ListOffsets"))
}

/// The time to look up for a position; `None` for an offset, which is known already.
///
/// # Errors
/// `auto.offset.reset` is needed and is `none`.
pub(super) fn time_of(position: &Position, policy: OffsetReset) -> Result<Option<i64>, Error> {
    if position.evidence.asks() {
        return Ok(Some(EARLIEST));
    }
    match (position.start, policy) {
        (Start::Offset(_) | Start::Committed, _) => Ok(None),
        (Start::Beginning, _) | (Start::Reset, OffsetReset::Earliest) => Ok(Some(EARLIEST)),
        (Start::End, _) | (Start::Reset, OffsetReset::Latest) => Ok(Some(LATEST)),
        (Start::Reset, OffsetReset::None) => {
            let text = "no position, and auto.offset.reset is none: seek, or assign with an offset";
            Err(Error::new(Kind::Argument, text))
        }
    }
}
