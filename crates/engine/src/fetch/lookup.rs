//! Lookups of offsets: where a log begins or ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
    pub(super) time: Time,
}

/// The looked-up offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// The first record there is.
    Earliest,
    /// The end of the log.
    Latest,
    /// The first record that is at most this old (KIP-1106).
    Since(Duration),
}

/// A leader's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An offset, and the leader epoch of the record there, or -1.
    Offset((i64, i32)),
    /// The log has no record of that age: this is to be looked up instead.
    Elsewhere(Start),
}

/// Lookups by leader, so that a silent leader does not delay the others.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    running: FxHashMap<CallId, Vec<Searched>>,
}

impl Lookups {
    /// Sends one request to each leader. Only this method and [`Lookups::finish`] of the fetcher
    /// deal with calls.
    pub(super) fn start(&mut self, now: Instant, core: &mut Core, by_leader: Vec<Vec<Searched>>) {
        let deadline = now + core.cluster.config().default_api_timeout;
        for searched in by_leader {
            let time = |time| match time {
                Time::Earliest => EARLIEST,
                Time::Latest => LATEST,
                Time::Since(age) => core.telemetry.millis_ago(now, age),
            };
            let wanted = searched
                .iter()
                .map(|it| (Arc::clone(&it.topic), it.partition, time(it.time)));
            let call = ListOffsets {
                wanted: wanted.collect(),
            };
            let id = core.start_once(now, call, deadline);
            self.running.insert(id, searched);
        }
    }

    /// The result for each partition of the lookup.
    pub(super) fn finish(&mut self, ended: Ended) -> Vec<(Searched, Result<Found, Error>)> {
        let Some(searched) = self.running.remove(&ended.id) else {
            return Vec::new();
        };
        match ended.answer::<ListOffsets>() {
            Some(Ok(found)) => searched
                .into_iter()
                .zip(found)
                .map(|(it, found)| {
                    let found = found.and_then(|found| offset(it.time, found));
                    (it, found)
                })
                .collect(),
            Some(Err(error)) => searched
                .into_iter()
                .map(|it| (it, Err(error.clone())))
                .collect(),
            None => Vec::new(),
        }
    }
}

fn offset(time: Time, found: FoundOffset) -> Result<Found, Error> {
    if found.offset >= 0 {
        return Ok(Found::Offset((found.offset, found.leader_epoch)));
    }
    if matches!(time, Time::Since(_)) {
        return Ok(Found::Elsewhere(match found.log_is_younger {
            true => Start::Beginning,
            // Everything is older; what is written from now on is not.
            false => Start::End,
        }));
    }
    let text = format!(
        "the broker returned {} as the beginning or the end of the log",
        found.offset
    );
    Err(Error::new(Kind::Protocol, text).calling("ListOffsets"))
}

/// The time to look up for a position; `None` for an offset, which is known already.
///
/// # Errors
/// `auto.offset.reset` is needed and is `none`.
pub(super) fn time_of(position: &Position, policy: OffsetReset) -> Result<Option<Time>, Error> {
    if position.evidence.asks() {
        return Ok(Some(Time::Earliest));
    }
    match (position.start, policy) {
        (Start::Offset(_) | Start::After(..) | Start::Committed, _) => Ok(None),
        (Start::Beginning, _) | (Start::Reset, OffsetReset::Earliest) => Ok(Some(Time::Earliest)),
        (Start::End, _) | (Start::Reset, OffsetReset::Latest) => Ok(Some(Time::Latest)),
        (Start::Reset, OffsetReset::ByDuration(age)) => Ok(Some(Time::Since(age))),
        (Start::Reset, OffsetReset::None) => {
            let text = "no position, and auto.offset.reset=none: seek, or assign with an offset";
            Err(Error::new(Kind::Argument, text))
        }
    }
}
