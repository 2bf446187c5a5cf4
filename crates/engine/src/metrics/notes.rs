//! Measured values, until the sensors take them in.
//!
//! One request touches twenty sensors. Their memory is larger than everything else that a client
//! touches for a request, and a caller that waits for each response would load it into the cache
//! each time. So an event only appends a note, and the sensors take in many notes at once: when
//! there are [`MOST`], or when a metric is about to be read. Rare events go to their sensor at
//! once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;

/// How many notes are kept.
pub(super) const MOST: usize = 64;

/// Something that is measured.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// A request was given to a connection to this broker.
    Asked { node: i32 },
    /// A request got its response.
    Answered(Answered),
    /// A request was written, and gets no response.
    Written { node: i32, bytes: usize },
    /// A response has a throttle time, or none.
    Throttled { pause: Duration },
    /// A batch was given to a connection. `since` is when its first record came, if this is its first attempt.
    BatchSent {
        topic: Arc<str>,
        records: u32,
        since: Option<Instant>,
    },
    /// A Produce with this many records was given to a connection.
    ProduceSent { records: u32 },
    /// A batch got its response, or needs none.
    BatchAnswered { topic: Arc<str>, size: BatchSize },
    /// A Fetch returned this many bytes of records.
    Fetched { bytes: usize },
    /// This many of them are of this topic.
    TopicFetched { topic: Arc<str>, bytes: usize },
    /// A poll returned records of a topic.
    HandedOut {
        topic: Arc<str>,
        records: usize,
        bytes: usize,
    },
    /// The position of a partition moved on.
    Moved {
        topic: Arc<str>,
        partition: i32,
        to: Progress,
    },
    /// A caller polled again after `after`, and spent `inside` of that time in the earlier poll.
    Polled { after: Duration, inside: Duration },
}

/// A response, as far as it is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) node: i32,
    pub(crate) api: ApiKey,
    pub(crate) took: Duration,
    /// The bytes of the request, and of the response.
    pub(crate) sizes: (usize, usize),
}

/// The size of a batch that was sent, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) wire: usize,
    /// Before compression.
    pub(crate) plain: usize,
    pub(crate) largest_record: usize,
}

/// Where one partition is read, and the log it is read from. A bound of the log is -1 if it is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) next: i64,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// The broker that is read instead of the leader.
    pub(crate) replica: Option<i32>,
}

impl Progress {
    pub(super) fn lag(self) -> Option<i64> {
        (self.end >= 0).then(|| self.end.saturating_sub(self.next).max(0))
    }

    pub(super) fn lead(self) -> Option<i64> {
        (self.begin >= 0).then(|| self.next.saturating_sub(self.begin).max(0))
    }
}
