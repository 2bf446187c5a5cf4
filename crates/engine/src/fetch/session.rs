//! A fetch session (KIP-227): the partitions that a broker remembers from earlier requests. From
//! the second request on, only changes are sent, and responses omit the partitions without news.
//!
//! ```text
//!        epoch 0: all partitions            epoch 1, 2, 3 ...: changes
//!   none ──── response with an id ────▶ open ──── response with the same id ────▶ open, next epoch
//!    ▲ │ ▲                              │  │
//!    │ │ └── the broker ended it, ──────┘  └── no response, an error, a response that is out of step ──▶ lost
//!    │ │     or does not know it
//!    └─┘ response without an id: the broker has no space
//!
//!   lost ── epoch 0 with the old id, which the broker drops: all partitions ──▶ as from none
//! ```
//!
//! A session belongs to one connection, since the broker wants its requests one after the other;
//! the request in flight owns it. It outlives connections, at the broker too. The client never
//! closes it: a broker that needs the space evicts sessions that are not used.
//!
//! A request removes partitions that it does not want from the session: paused partitions, those
//! that are read over another connection, those that wait for a retry. So a broker never sends
//! records for which there is no space, and a partition is in two sessions only until the next
//! request of the session that it left.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::messages::fetch_request::{FetchPartition, ForgottenTopic};
use ottla_protocol::{ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::api::TOPIC_IDS;

/// The first version of Fetch with sessions.
const SESSIONS: i16 = 7;

/// The id of none.
const NONE: i32 = 0;

/// The epoch of a request that begins a session.
const BEGINS: i32 = 0;

/// The first offset of a partition's log, and the end of what consumers may read; -1 if unknown.
type Bounds = (i64, i64);

/// The state of a session: what the broker and the client of one connection remember of each
/// other's requests.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: i32,
    /// Of the next request, or of the one in flight.
    epoch: i32,
    /// Whether topics go by their ids in it, or by their names.
    by_id: bool,
    told: FxHashMap<Name, Told>,
    /// Counts requests, to find the partitions that the last one did not contain.
    round: u64,
}

/// A partition: its topic, that one's id, its number.
type Named<'a> = (&'a Arc<str>, Uuid, i32);

/// The identity of a partition in a session: the topic's id, or zero where topics go by their
/// names.
type Name = (Uuid, Arc<str>, i32);

/// The last row sent to the broker for a partition, and the last bounds that it returned.
#[derive(Debug)]
struct Told {
    /// Offset, leader epoch, epoch of the last record, most bytes.
    asked: Option<(i64, i32, i32, i32)>,
    /// The row is not sent again while the partition stays, even if the partition was reassigned or
    /// sought elsewhere meanwhile.
    bounds: Bounds,
    round: u64,
}

/// The fields of a response besides its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) code: ErrorCode,
    pub(super) session_id: i32,
    /// The broker throttles the client for a while.
    pub(super) is_throttled: bool,
    /// It has no rows at all.
    pub(super) is_empty: bool,
    /// It has a row of each requested partition.
    pub(super) is_whole: bool,
    /// It has rows of others.
    pub(super) has_foreign: bool,
}

/// The meaning of partitions that a response omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// It should have named them.
    Missing,
    /// They are as they were.
    Unchanged,
    /// Nothing: they are requested again.
    Unsaid,
    /// Nothing, and its other rows are no response to the request either.
    All,
}

impl Session {
    /// The session and the epoch of a request of this version; `None` if it has no sessions.
    /// [`Session::ask`] and [`Session::forget`] build its content.
    pub(super) fn begin(&mut self, version: i16) -> Option<(i32, i32)> {
        if version < SESSIONS {
            *self = Session::default();
            return None;
        }
        let by_id = version >= TOPIC_IDS;
        if self.by_id != by_id {
            self.lose();
        }
        self.by_id = by_id;
        self.round += 1;
        Some((self.id, self.epoch))
    }

    /// Adds a partition to the request that was begun; returns whether the request must contain its
    /// row.
    pub(super) fn ask(&mut self, named: Named, row: &FetchPartition) -> bool {
        let name = self.name(named);
        let asked = Some((
            row.fetch_offset,
            row.current_leader_epoch,
            row.last_fetched_epoch,
            row.partition_max_bytes,
        ));
        let told = self.told.entry(name).or_insert(Told {
            asked: None,
            bounds: (-1, -1),
            round: 0,
        });
        told.round = self.round;
        std::mem::replace(&mut told.asked, asked) != asked
    }

    /// The partitions that the new request removes, after [`Session::ask`] has named all that it
    /// contains.
    pub(super) fn forget(&mut self) -> Vec<ForgottenTopic> {
        let mut gone: BTreeMap<(Uuid, Arc<str>), Vec<i32>> = BTreeMap::new();
        self.told.retain(|(id, topic, partition), told| {
            let is_asked = told.round == self.round;
            if !is_asked {
                let topic = (*id, Arc::clone(topic));
                gone.entry(topic).or_default().push(*partition);
            }
            is_asked
        });
        let topics = gone.into_iter().map(|((topic_id, topic), mut partitions)| {
            partitions.sort_unstable();
            ForgottenTopic {
                topic: (&*topic).into(),
                topic_id,
                partitions: partitions.into(),
                ..Default::default()
            }
        });
        topics.collect()
    }

    /// Handles the response to the last request.
    pub(super) fn hear(&mut self, answer: Shape) -> LeftOut {
        let goes_on = self.epoch != BEGINS;
        if answer.code.is_error() {
            self.lose();
            if answer.code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
                self.id = NONE;
            }
            // The next request begins a session: if that is refused too, it is trouble.
            if goes_on && is_of_sessions(answer.code) {
                return LeftOut::All;
            }
            return LeftOut::Missing;
        }
        if goes_on && (answer.has_foreign || ![self.id, NONE].contains(&answer.session_id)) {
            self.lose();
            return LeftOut::All;
        }
        let epoch = self.epoch;
        if answer.session_id == NONE || !(goes_on || answer.is_whole) {
            self.lose();
        } else {
            // After the last number comes 1: 0 begins a session.
            self.epoch = epoch.checked_add(1).unwrap_or(1);
        }
        self.id = answer.session_id;
        // A broker that throttles a client returns nothing.
        if (answer.is_throttled && answer.is_empty) || (goes_on && self.id == NONE) {
            LeftOut::Unsaid
        } else if goes_on {
            LeftOut::Unchanged
        } else {
            LeftOut::Missing
        }
    }

    /// The broker's state of it is no longer known: the next request begins another session in its
    /// place.
    pub(super) fn lose(&mut self) {
        self.epoch = BEGINS;
        self.told.clear();
    }

    /// The broker returned these bounds for a partition.
    pub(super) fn note(&mut self, named: Named, bounds: Bounds) {
        let name = self.name(named);
        if let Some(told) = self.told.get_mut(&name) {
            told.bounds = bounds;
        }
    }

    /// The bounds that the broker returned last for a partition.
    pub(super) fn bounds(&self, named: Named) -> Bounds {
        let told = self.told.get(&self.name(named));
        told.map_or((-1, -1), |told| told.bounds)
    }

    fn name(&self, (topic, id, partition): Named) -> Name {
        let id = if self.by_id { id } else { Uuid::ZERO };
        (id, Arc::clone(topic), partition)
    }
}

/// Whether a code only means that client and broker disagree about the session.
fn is_of_sessions(code: ErrorCode) -> bool {
    [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ]
    .contains(&code)
}
