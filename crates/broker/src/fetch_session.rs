//! Fetch sessions (KIP-227): a client names its partitions once, and from then on only what
//! changes; the responses have only partitions with something new.
//!
//! ```text
//!   epoch 0 ─────► session of epoch 1 ──── epoch n ────► epoch n + 1        a full request, then incremental ones
//!                        │ epoch 0 or -1, another request with this id; no partition left; evicted
//!                        ▼
//!                      gone
//! ```
//!
//! A session belongs to no connection. It is evicted only for another: when nobody used it for two minutes, or when it is that
//! old and smaller than the new one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ottla_protocol::messages::fetch_request::{FetchPartition, ForgottenTopic};
use ottla_protocol::messages::fetch_response::PartitionData;
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::{ErrorCode, Str, Uuid};

use crate::ids::Ids;

/// No session.
const NO_SESSION: i32 = 0;
/// Of a full request that begins a session.
const INITIAL_EPOCH: i32 = 0;
/// Of a full request that wants none.
const FINAL_EPOCH: i32 = -1;
/// How long a session is safe from others. Kafka has no setting for it.
const SAFE: Duration = Duration::from_secs(120);

/// A partition that a request names, by the name or the id of its topic.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The topic's name. Of one that is asked for by id: the name that it had, if it was ever there.
    pub(crate) topic: Str,
    /// The topic's id, or zero.
    pub(crate) id: Uuid,
    pub(crate) partition: FetchPartition,
}

/// What a request is about.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The partitions to be read, in the order in which they share the size limit of the response.
    pub(crate) asked: Vec<Asked>,
    pub(crate) kind: FetchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// Of no session.
    Sessionless,
    /// It begins a session, in which topics go by id or by name.
    Full { by_id: bool },
    /// Of the session with this id, which has this epoch after it.
    Incremental { id: i32, next_epoch: i32 },
}

/// All sessions of a broker.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    /// How many there may be (`max.incremental.fetch.session.cache.slots`).
    slots: usize,
    sessions: BTreeMap<i32, Session>,
    ids: Ids,
}

#[derive(Debug)]
struct Session {
    /// The epoch of the next request.
    epoch: i32,
    by_id: bool,
    places: BTreeMap<Key, u64>,
    /// By place: those that got records last come last.
    partitions: BTreeMap<u64, Cached>,
    next_place: u64,
    created: Instant,
    used: Instant,
    /// How many partitions there were when it was used last.
    used_size: usize,
}

/// The topic's name, or its id, and the partition.
type Key = (Str, Uuid, i32);

#[derive(Debug)]
struct Cached {
    asked: Asked,
    /// What the client got; -1 if nothing.
    high_watermark: i64,
    log_start: i64,
}

impl Asked {
    fn key(&self) -> Key {
        key(&self.topic, self.id, self.partition.partition)
    }
}

fn key(topic: &Str, id: Uuid, partition: i32) -> Key {
    if id == Uuid::ZERO {
        (topic.clone(), id, partition)
    } else {
        (Str::new(), id, partition)
    }
}

impl Cached {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            high_watermark: -1,
            log_start: -1,
        }
    }

    /// Whether the partition goes into the response. Notes that it does.
    fn tell(&mut self, data: &PartitionData) -> bool {
        let is_new =
            (data.high_watermark, data.log_start_offset) != (self.high_watermark, self.log_start);
        self.high_watermark = data.high_watermark;
        self.log_start = data.log_start_offset;
        if data.error_code != 0 {
            // It is sent again when the error has gone.
            self.high_watermark = -1;
        }
        is_new || has_records(data) || data.error_code != 0 || data.diverging_epoch.end_offset >= 0
    }
}

fn has_records(data: &PartitionData) -> bool {
    data.records.as_ref().is_some_and(|it| !it.is_empty())
}

impl FetchSessions {
    pub(crate) fn new(slots: usize, ids: Ids) -> Self {
        Self {
            slots,
            sessions: BTreeMap::new(),
            ids,
        }
    }

    /// Looks up what a request is about. `name_of` gives the name of the topic with an id.
    ///
    /// # Errors
    /// The code for the whole request.
    pub(crate) fn begin(
        &mut self,
        request: &mut FetchRequest,
        by_id: bool,
        now: Instant,
        name_of: impl Fn(Uuid) -> Option<Str>,
    ) -> Result<Begun, ErrorCode> {
        let asked = partitions_of(request, &name_of);
        let (id, epoch) = (request.session_id, request.session_epoch);
        if [INITIAL_EPOCH, FINAL_EPOCH].contains(&epoch) {
            if id != NO_SESSION {
                self.sessions.remove(&id);
            }
            let kind = if epoch == FINAL_EPOCH {
                FetchKind::Sessionless
            } else {
                FetchKind::Full { by_id }
            };
            return Ok(Begun { asked, kind });
        }
        let found = self.sessions.get_mut(&id);
        let session = found.ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.update(asked, &request.forgotten_topics_data);
        if session.partitions.is_empty() {
            self.sessions.remove(&id);
            return Ok(Begun {
                asked: Vec::new(),
                kind: FetchKind::Sessionless,
            });
        }
        session.epoch = next_epoch(epoch);
        session.touch(now);
        for cached in session.partitions.values_mut() {
            if cached.asked.topic.is_empty() {
                cached.asked.topic = name_of(cached.asked.id).unwrap_or_default();
            }
        }
        let asked = session.partitions.values().map(|it| it.asked.clone());
        Ok(Begun {
            asked: asked.collect(),
            kind: FetchKind::Incremental {
                id,
                next_epoch: session.epoch,
            },
        })
    }

    /// Makes of a response with all partitions the one that the client gets. `withheld`: the client
    /// gets none of them.
    pub(crate) fn finish(
        &mut self,
        begun: Begun,
        withheld: bool,
        response: &mut FetchResponse,
        now: Instant,
    ) {
        match begun.kind {
            FetchKind::Sessionless => {}
            FetchKind::Full { .. } if withheld => {}
            FetchKind::Full { by_id } => {
                response.session_id = self.create(begun.asked, by_id, response, now);
            }
            FetchKind::Incremental { id, next_epoch } => {
                response.session_id = id;
                match self.sessions.get_mut(&id) {
                    // Another request came in between: the client sent this one twice, or others use its session.
                    Some(session) if session.epoch != next_epoch => {
                        response.error_code = ErrorCode::INVALID_FETCH_SESSION_EPOCH.0;
                        response.responses.clear();
                    }
                    Some(session) if !withheld => session.prune(response),
                    _ => {}
                }
            }
        }
    }

    /// Ends all sessions.
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
    }

    /// The id of a new session whose client gets this response; the id of no session if there is no
    /// space.
    fn create(
        &mut self,
        asked: Vec<Asked>,
        by_id: bool,
        response: &FetchResponse,
        now: Instant,
    ) -> i32 {
        if self.sessions.len() >= self.slots && !self.evict(asked.len(), now) {
            return NO_SESSION;
        }
        let id = loop {
            let id = (self.ids.next() >> 33) as i32;
            if id != NO_SESSION && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let mut session = Session {
            epoch: next_epoch(INITIAL_EPOCH),
            by_id,
            places: BTreeMap::new(),
            partitions: BTreeMap::new(),
            next_place: 0,
            created: now,
            used: now,
            used_size: 0,
        };
        session.update(asked, &[]);
        session.touch(now);
        let answered = response.responses.iter().flat_map(|topic| {
            let key =
                |data: &PartitionData| key(&topic.topic, topic.topic_id, data.partition_index);
            topic.partitions.iter().map(move |data| (key(data), data))
        });
        for (key, data) in answered {
            if let Some(cached) = session.cached(&key) {
                cached.tell(data);
            }
        }
        self.sessions.insert(id, session);
        id
    }

    /// Ends a session to make space for one of `size` partitions, if one may be ended.
    fn evict(&mut self, size: usize, now: Instant) -> bool {
        let is_past =
            |since: Instant, until: Instant| until.saturating_duration_since(since) > SAFE;
        let oldest = self.sessions.iter().min_by_key(|(_, it)| it.used);
        let stale = oldest.filter(|(_, it)| is_past(it.used, now));
        let smallest = || {
            let settled = self
                .sessions
                .iter()
                .filter(|(_, it)| is_past(it.created, it.used));
            let smallest = settled.min_by_key(|(_, it)| it.used_size);
            smallest.filter(|(_, it)| it.used_size < size)
        };
        let evicted = stale.or_else(smallest).map(|(id, _)| *id);
        evicted.is_some_and(|id| self.sessions.remove(&id).is_some())
    }
}

impl Session {
    fn update(&mut self, asked: Vec<Asked>, forgotten: &[ForgottenTopic]) {
        for asked in asked {
            let key = asked.key();
            if let Some(cached) = self.cached(&key) {
                cached.asked.partition = asked.partition;
            } else {
                self.push(key, Cached::new(asked));
            }
        }
        for topic in forgotten {
            for partition in &*topic.partitions {
                let key = key(&topic.topic, topic.topic_id, *partition);
                if let Some(place) = self.places.remove(&key) {
                    self.partitions.remove(&place);
                }
            }
        }
    }

    fn push(&mut self, key: Key, cached: Cached) {
        self.places.insert(key, self.next_place);
        self.partitions.insert(self.next_place, cached);
        self.next_place += 1;
    }

    fn cached(&mut self, key: &Key) -> Option<&mut Cached> {
        self.partitions.get_mut(self.places.get(key)?)
    }

    fn touch(&mut self, now: Instant) {
        self.used = now;
        self.used_size = self.partitions.len();
    }

    /// Leaves in the response what the client must get.
    fn prune(&mut self, response: &mut FetchResponse) {
        for topic in &mut response.responses {
            topic.partitions.retain(|data| {
                let key = key(&topic.topic, topic.topic_id, data.partition_index);
                let Some(cached) = self.cached(&key) else {
                    return false;
                };
                let is_told = cached.tell(data);
                if has_records(data) {
                    self.move_back(key);
                }
                is_told
            });
        }
        response
            .responses
            .retain(|topic| !topic.partitions.is_empty());
    }

    /// Those that get records come last the next time, so that large ones do not starve the rest.
    fn move_back(&mut self, key: Key) {
        let place = self.places.get(&key);
        if let Some(cached) = place.and_then(|place| self.partitions.remove(place)) {
            self.push(key, cached);
        }
    }
}

/// Takes the partitions out of a request.
fn partitions_of(request: &mut FetchRequest, name_of: impl Fn(Uuid) -> Option<Str>) -> Vec<Asked> {
    let topics = std::mem::take(&mut request.topics).into_iter();
    let partitions = topics.flat_map(|topic| {
        let id = topic.topic_id;
        let name = if topic.topic.is_empty() {
            name_of(id).unwrap_or_default()
        } else {
            topic.topic
        };
        topic.partitions.into_iter().map(move |partition| Asked {
            topic: name.clone(),
            id,
            partition,
        })
    });
    partitions.collect()
}

/// After the last number comes 1: 0 begins a session.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &mut FetchSessions, size: i32, now: Instant) -> i32 {
        let asked = (0..size).map(|partition| Asked {
            topic: "t".into(),
            id: Uuid::ZERO,
            partition: FetchPartition {
                partition,
                ..Default::default()
            },
        });
        let begun = Begun {
            asked: asked.collect(),
            kind: FetchKind::Full { by_id: false },
        };
        let mut response = FetchResponse::default();
        sessions.finish(begun, false, &mut response, now);
        response.session_id
    }

    fn goes_on(sessions: &mut FetchSessions, id: i32, epoch: i32, now: Instant) -> bool {
        let mut request = FetchRequest {
            session_id: id,
            session_epoch: epoch,
            ..Default::default()
        };
        sessions.begin(&mut request, false, now, |_| None).is_ok()
    }

    #[test]
    fn old_sessions_make_room_where_they_are_unused_or_smaller() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut sessions = FetchSessions::new(2, Ids::new(1));
        let (small, large) = (
            begin(&mut sessions, 1, start),
            begin(&mut sessions, 5, start),
        );
        assert!(small > 0 && large > 0 && small != large);
        assert_eq!(begin(&mut sessions, 9, after(100)), 0, "both are young");
        assert!(goes_on(&mut sessions, small, 1, after(121)));
        assert!(goes_on(&mut sessions, large, 1, after(121)));
        assert_eq!(begin(&mut sessions, 1, after(122)), 0, "it is no larger");
        let other = begin(&mut sessions, 2, after(122));
        assert!(other > 0);
        assert!(
            !goes_on(&mut sessions, small, 2, after(122)),
            "it made room"
        );
        assert!(goes_on(&mut sessions, large, 2, after(122)));
        assert!(goes_on(&mut sessions, other, 1, after(200)));
        assert!(begin(&mut sessions, 1, after(243)) > 0, "unused for 121 s");
        assert!(!goes_on(&mut sessions, large, 3, after(243)));
    }

    #[test]
    fn epochs_wrap_to_one() {
        assert_eq!((next_epoch(0), next_epoch(i32::MAX)), (1, 1));
    }

    #[test]
    fn sessions_end_with_the_node() {
        let mut sessions = FetchSessions::new(2, Ids::new(1));
        let id = begin(&mut sessions, 1, Instant::now());
        sessions.clear();
        assert!(!goes_on(&mut sessions, id, 1, Instant::now()));
    }
}
