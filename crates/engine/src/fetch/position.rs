//! One partition's state: where it is read, and what keeps it from being read.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Kind};

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At the first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// Where `auto.offset.reset` says.
    Reset,
}

/// Which assignment or seek something belongs to. No two partitions ever have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub(super) u64);

/// How far one partition was read.
#[derive(Debug)]
pub(super) struct Position {
    pub(super) generation: Generation,
    pub(super) start: Start,
    /// The next offset to fetch; `None` until it was looked up.
    pub(super) fetch_at: Option<i64>,
    /// The next offset that the caller gets.
    pub(super) next: Option<i64>,
    pub(super) looking_up: bool,
    pub(super) in_flight: bool,
    pub(super) paused: bool,
    pub(super) retry_at: Option<Instant>,
    pub(super) failures: u32,
    pub(super) since: Instant,
    /// What keeps the partition from being read until a seek.
    pub(super) stuck: Option<Error>,
    /// What went wrong last and may heal.
    pub(super) trouble: Option<Error>,
    /// When it was last asked for, in requests.
    pub(super) last_turn: u64,
}

impl Position {
    pub(super) fn new(generation: Generation, start: Start, now: Instant) -> Position {
        let offset = match start {
            Start::Offset(offset) => Some(offset),
            _ => None,
        };
        Position {
            generation,
            start,
            fetch_at: offset,
            next: offset,
            looking_up: false,
            in_flight: false,
            paused: false,
            retry_at: None,
            failures: 0,
            since: now,
            stuck: None,
            trouble: None,
            last_turn: 0,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// The offset to ask for now, if any.
    pub(super) fn wants(&self, now: Instant) -> Option<i64> {
        let free = !self.paused && !self.in_flight && self.stuck.is_none() && self.is_due(now);
        self.fetch_at.filter(|_| free)
    }

    /// Whether the caller got everything that was fetched.
    pub(super) fn is_drained(&self) -> bool {
        self.next == self.fetch_at
    }
}

/// Refuses what cannot be read from.
pub(super) fn check(topic: &Arc<str>, partition: i32, start: Start) -> Result<(), Error> {
    let problem = match start {
        _ if partition < 0 => "a partition's number is 0 or above".to_owned(),
        Start::Offset(offset) if offset < 0 => format!("an offset is 0 or above, and was {offset}"),
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Argument, problem).partition_is(topic, partition))
}
