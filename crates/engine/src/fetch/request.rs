//! The content of a Fetch to one broker.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::Uuid;
use ottla_protocol::messages::FetchRequest;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic};

use rustc_hash::FxHashMap;

use crate::cluster::{Lane, LinkId};
use crate::config::Config;
use crate::fetch::assignment::Key;
use crate::fetch::position::{Generation, Leader};
use crate::fetch::session::Session;

/// A Fetch that was sent.
#[derive(Debug)]
pub(super) struct SentFetch {
    pub(super) link: LinkId,
    /// The broker, and which connection to it.
    pub(super) to: (i32, Lane),
    /// All partitions of the request, those that the session implies included.
    pub(super) spans: Vec<Span>,
    pub(super) session: Session,
}

/// A row of a Fetch request: records of one partition from an offset on.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) key: Key,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Uuid,
    pub(super) partition: i32,
    pub(super) generation: Generation,
    pub(super) offset: i64,
    /// The end of what consumers may read, as a broker returned it last; -1 if none did.
    pub(super) end: i64,
    /// Its leader; the request contains the epoch, unless that is -1.
    pub(super) leader: Leader,
    /// The epoch of the record before the offset, if the request contains it; else -1.
    pub(super) last_epoch: i32,
    /// Whether the request may contain the client's rack.
    pub(super) tells_rack: bool,
}

impl Span {
    /// Whether the broker is known to have records from there on.
    pub(super) fn is_behind(&self) -> bool {
        self.offset < self.end
    }

    /// Whether the broker was found to have no records from there on.
    pub(super) fn is_at_end(&self) -> bool {
        (0..=self.offset).contains(&self.end)
    }
}

/// The first version of Fetch with a limit for the whole response (KIP-74). Before it, a response
/// has as many bytes of each partition as each may have, so a request is for few partitions.
pub(super) const BOUNDED: i16 = 3;

/// The first version of Fetch with the leader's epoch in the request (KIP-320).
pub(super) const EPOCHS: i16 = 9;

/// The first version of Fetch whose request has the epoch of the record before the offset, and
/// whose response has the offset where the logs diverge (KIP-595).
pub(super) const DIVERGING: i16 = 12;

/// A Fetch of this version for `spans`, in this order, of at most `allowance` bytes, for which the
/// broker waits at most `wait`. A larger batch comes alone: the broker returns it whole
/// nevertheless, or before [`BOUNDED`] within the limit of its partition. Partitions that the
/// session implies are left out.
pub(super) fn fetch(
    config: &Config,
    spans: &[Span],
    session: &mut Session,
    allowance: usize,
    wait: Duration,
    version: i16,
) -> FetchRequest {
    let max_bytes = i32::try_from(allowance).unwrap_or(i32::MAX);
    let partition_max_bytes = match version {
        BOUNDED.. => config.max_partition_fetch_bytes.min(max_bytes),
        _ => config.max_partition_fetch_bytes,
    };
    let begun = session.begin(version);
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for span in spans {
        let row = FetchPartition {
            partition: span.partition,
            current_leader_epoch: span.leader.epoch,
            fetch_offset: span.offset,
            last_fetched_epoch: span.last_epoch,
            partition_max_bytes,
            ..Default::default()
        };
        let named = (&span.topic, span.topic_id, span.partition);
        if begun.is_some() && !session.ask(named, &row) {
            continue;
        }
        let place = *places.entry(&span.topic).or_insert(topics.len());
        match topics.get_mut(place) {
            Some(topic) => topic.partitions.push(row),
            None => topics.push(FetchTopic {
                topic: (&*span.topic).into(),
                topic_id: span.topic_id,
                partitions: vec![row],
                ..Default::default()
            }),
        }
    }
    let rack = config.client_rack.as_ref();
    let rack = rack.filter(|_| spans.iter().all(|span| span.tells_rack));
    let forgotten = begun.map(|_| session.forget());
    let none = FetchRequest::default();
    let (session_id, session_epoch) = begun.unwrap_or((none.session_id, none.session_epoch));
    FetchRequest {
        session_id,
        session_epoch,
        forgotten_topics_data: forgotten.unwrap_or_default(),
        rack_id: rack.map(|rack| rack.as_str().into()).unwrap_or_default(),
        max_wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes,
        max_bytes,
        isolation_level: i8::from(config.read_committed),
        topics,
        ..none
    }
}
