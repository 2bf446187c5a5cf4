//! Fetch, versions 0 to 18: a long poll over partitions; from version 13 topics go by id. Before version 4 clients get message
//! sets, which the batches of the log are made into.
//!
//! [`crate::fetch_session`] decides which partitions a request is about, and which of them its
//! client gets in the response. What was read stays while a request waits for more: only partitions
//! in which something happened are read again. For a client that reads committed records, this is
//! so only when the last stable offset has moved. Followers do not come here: they are rejected, as
//! is every client that sends a replica id.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::fetch_request::FetchPartition;
use ottla_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
    PartitionData,
};
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::records::OldMagic;
use ottla_protocol::{ErrorCode, Str, Uuid, Versions};

use super::{Api, Cx, Outcome, Wait, nodes};
use crate::cluster::image::Address;
use crate::core::Core;
use crate::fetch_session::{Asked, Begun, FetchKind};
use crate::now::Now;
use crate::security::Throttle;
use crate::security::acl::{Operation, Resource};
use crate::security::session::Who;
use crate::storage::batch;
use crate::storage::replica::{Fetched, Isolation, Replica, Standing, Watcher};
use crate::storage::segment::Span;
use crate::topics::Topic;

const FIRST_BY_ID: i16 = 13;
/// Since this version a response names leaders, and the offset where a client's log diverges from
/// the leader's (KIP-595, KIP-951).
const FIRST_WITH_LEADERS: i16 = 12;
const FIRST_WITH_ENDPOINTS: i16 = 16;
/// Since this version a batch that is larger than the requested size comes whole (KIP-74); before,
/// only as much as fits.
const FIRST_OF_WHOLE_BATCHES: i16 = 3;
/// From here on clients get record batches (KIP-98), from the other on timestamps.
const FIRST_OF_BATCHES: i16 = 4;
const FIRST_WITH_TIMESTAMPS: i16 = 2;

impl Api for FetchRequest {
    const HANDLED: Versions = Versions { min: 0, max: 18 };

    fn answer(mut self, cx: &Cx<'_>) -> Outcome<FetchResponse> {
        if self.replica_id >= 0 || self.replica_state.replica_id >= 0 {
            return Outcome::Answer(
                self.refuse(cx.version, ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
            );
        }
        let (by_id, core) = (cx.version >= FIRST_BY_ID, cx.core);
        let name_of = |id| core.topic_by_id(id).ok().map(|topic| topic.name.clone());
        let mut sessions = core.fetch_sessions.lock();
        let begun = sessions.begin(&mut self, by_id, cx.now.instant, name_of);
        drop(sessions);
        let begun = match begun {
            Ok(begun) => begun,
            Err(code) => {
                return Outcome::Answer(FetchResponse {
                    error_code: code.0,
                    ..Default::default()
                });
            }
        };
        let attempt = Attempt::new(cx, &self, begun);
        let wanted = usize::try_from(self.min_bytes).unwrap_or(0);
        let wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0));
        if attempt.has_failed() || attempt.bytes >= wanted || wait.is_zero() {
            return attempt.finish(cx.now);
        }
        let Some(deadline) = cx.now.instant.checked_add(wait) else {
            return attempt.finish(cx.now);
        };
        let watcher = Watcher::new(wanted - attempt.bytes, cx.client.waker.clone());
        attempt.watch(&watcher);
        let awaited: Arc<Watcher> = Arc::clone(&watcher);
        Outcome::Wait(Wait {
            awaited,
            deadline: Some(deadline),
            resume: Box::new(move |now| attempt.again(&watcher).finish(now)),
        })
    }
}

/// A topic, or the error of this client's lookup.
type Looked = Result<Arc<Topic>, ErrorCode>;

/// What the client may read, and how much at once.
struct Allowed {
    who: Who,
    bytes: usize,
}

impl Allowed {
    fn new(cx: &Cx<'_>) -> Self {
        let client_id = cx.client_id.as_deref().unwrap_or_default();
        Self {
            who: cx.who.clone(),
            bytes: cx.core.security.fetch_burst(&cx.who.principal, client_id),
        }
    }

    /// A client that may not read a topic does not learn whether it exists, unless it requests the
    /// topic by id.
    fn check(
        &self,
        core: &Core,
        name: &str,
        topic: Result<Arc<Topic>, ErrorCode>,
    ) -> Result<Arc<Topic>, ErrorCode> {
        let name = topic.as_ref().map_or(name, |topic| &*topic.name);
        let resource = Resource::topic(name);
        if name.is_empty()
            || core
                .security
                .authorizes(&self.who, Operation::Read, resource)
        {
            topic
        } else {
            Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
        }
    }
}

/// What was read of the partitions.
struct Attempt {
    core: Arc<Core>,
    allowed: Allowed,
    begun: Begun,
    /// As many as are asked for.
    found: Vec<Found>,
    /// Of records that were found, and how many there may be.
    bytes: usize,
    most: usize,
    version: i16,
    listener: usize,
    isolation: Isolation,
}

struct Found {
    topic: Option<Arc<Topic>>,
    data: PartitionData,
    span: Option<Span>,
    /// From where, and how many bytes at most, were asked for.
    from: i64,
    most: usize,
}

impl Found {
    fn bytes(&self) -> usize {
        self.span.as_ref().map_or(0, Span::len)
    }

    /// It cannot be read on from here: the client gets the error at once.
    fn has_failed(&self) -> bool {
        self.data.error_code != 0 || self.data.diverging_epoch.end_offset >= 0
    }
}

impl Attempt {
    fn new(cx: &Cx<'_>, request: &FetchRequest, begun: Begun) -> Self {
        let allowed = Allowed::new(cx);
        let most = usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(cx.core.settings.fetch_max_bytes)
            .min(allowed.bytes);
        let mut attempt = Self {
            core: Arc::clone(cx.core),
            allowed,
            found: Vec::with_capacity(begun.asked.len()),
            begun,
            bytes: 0,
            most,
            version: cx.version,
            listener: cx.client.listener,
            isolation: Isolation::of(request.isolation_level),
        };
        let mut last: Option<(Uuid, Str, Looked)> = None;
        for asked in &attempt.begun.asked {
            let looked = match last.take() {
                Some((id, name, looked)) if id == asked.id && name == asked.topic => looked,
                _ => attempt.look_up(asked),
            };
            let found = attempt.read(asked, &looked);
            attempt.bytes += found.bytes();
            attempt.found.push(found);
            last = Some((asked.id, asked.topic.clone(), looked));
        }
        attempt
    }

    fn look_up(&self, asked: &Asked) -> Looked {
        let Asked { topic, id, .. } = asked;
        let found = if self.version < FIRST_BY_ID {
            self.core.topic(topic)
        } else {
            self.core.topic_by_id(*id).map_err(|code| {
                // In a session, a topic that was there once.
                match self.core.topic(topic) {
                    _ if topic.is_empty() => code,
                    Ok(_) => ErrorCode::INCONSISTENT_TOPIC_ID,
                    Err(code) => code,
                }
            })
        };
        self.allowed.check(&self.core, topic, found)
    }

    fn read(&self, asked: &Asked, looked: &Looked) -> Found {
        let budget = self.most.saturating_sub(self.bytes);
        read(
            &self.core,
            looked.as_ref(),
            &asked.partition,
            (self.isolation, self.version),
            budget,
            self.bytes == 0,
        )
    }

    /// Reads the partitions again in which something happened.
    fn again(mut self, watcher: &Watcher) -> Self {
        for place in watcher.take_grown() {
            let old = self.found.get_mut(place).and_then(|it| it.span.take());
            self.bytes -= old.as_ref().map_or(0, Span::len);
            if let Some(asked) = self.begun.asked.get(place) {
                let found = self.read(asked, &self.look_up(asked));
                self.bytes += found.bytes();
                if let Some(old) = self.found.get_mut(place) {
                    *old = found;
                }
            }
        }
        self
    }

    fn has_failed(&self) -> bool {
        self.found.iter().any(Found::has_failed)
    }

    /// Where to find the leaders that partitions name.
    fn leaders(&self) -> Vec<NodeEndpoint> {
        if self.version < FIRST_WITH_ENDPOINTS || !self.has_failed() {
            return Vec::new();
        }
        let leaders = self.found.iter().map(|it| it.data.current_leader.leader_id);
        let leaders: Vec<i32> = leaders.filter(|leader| *leader >= 0).collect();
        if leaders.is_empty() {
            return Vec::new();
        }
        let nodes = nodes(&self.core, self.listener).into_iter();
        let named = nodes.filter(|(id, _)| leaders.contains(id));
        let named = named.map(|(node_id, Address { host, port })| NodeEndpoint {
            node_id,
            host,
            port,
            ..Default::default()
        });
        named.collect()
    }

    /// Registers `watcher` for records that are appended after this read.
    fn watch(&self, watcher: &Arc<Watcher>) {
        for (place, found) in self.found.iter().enumerate() {
            let log = found
                .topic
                .as_ref()
                .and_then(|topic| topic.partition(found.data.partition_index).ok());
            if let Some(log) = log {
                let seen = match self.isolation {
                    Isolation::Uncommitted => found.data.high_watermark,
                    Isolation::Committed => found.data.last_stable_offset,
                };
                log.lock().watch(watcher, place, self.isolation, seen);
            }
        }
    }

    fn finish(self, now: Now) -> Outcome<FetchResponse> {
        let mut response = FetchResponse {
            node_endpoints: self.leaders(),
            ..Default::default()
        };
        let by_id = self.version >= FIRST_BY_ID;
        let mut last: Option<&Asked> = None;
        for (asked, found) in self.begun.asked.iter().zip(self.found) {
            if last.is_none_or(|last| (last.id, &last.topic) != (asked.id, &asked.topic)) {
                response.responses.push(FetchableTopicResponse {
                    topic: if by_id {
                        Str::new()
                    } else {
                        asked.topic.clone()
                    },
                    topic_id: asked.id,
                    ..Default::default()
                });
            }
            if let Some(topic) = response.responses.last_mut() {
                topic.partitions.push(load(found, self.version));
            }
            last = Some(asked);
        }
        let (core, begun) = (self.core, self.begun);
        if begun.kind == FetchKind::Sessionless {
            return Outcome::Answer(response);
        }
        let finish = move |response: &mut FetchResponse, throttle: Throttle| {
            let mut sessions = core.fetch_sessions.lock();
            sessions.finish(begun, throttle.withholds, response, now.instant);
        };
        Outcome::Finish(response, Box::new(finish))
    }
}

fn load(found: Found, version: i16) -> PartitionData {
    let Found {
        mut data,
        span,
        from,
        most,
        ..
    } = found;
    let Some(span) = span else { return data };
    let loaded = span.load().map_err(|cause| cause.to_string());
    let loaded = match version {
        FIRST_OF_BATCHES.. => loaded,
        FIRST_WITH_TIMESTAMPS.. => {
            loaded.and_then(|stored| batch::to_message_sets(stored, OldMagic::One, from))
        }
        _ => loaded.and_then(|stored| batch::to_message_sets(stored, OldMagic::Zero, from)),
    };
    match loaded {
        Ok(mut bytes) => {
            if version < FIRST_OF_WHOLE_BATCHES {
                bytes.truncate(most);
            }
            data.records = Some(bytes);
        }
        Err(_) => return refused(data.partition_index, ErrorCode::KAFKA_STORAGE_ERROR),
    }
    data
}

fn read(
    core: &Core,
    topic: Result<&Arc<Topic>, &ErrorCode>,
    asked: &FetchPartition,
    (isolation, version): (Isolation, i16),
    budget: usize,
    at_least_one: bool,
) -> Found {
    let looked_up = match topic {
        Ok(topic) => {
            let kind = (isolation, version);
            read_partition(core, topic, asked, kind, budget, at_least_one)
        }
        Err(code) => Err((*code, None)),
    };
    let mut data = refused(asked.partition, ErrorCode::NONE);
    let mut span = None;
    // A client that reads uncommitted records gets no aborted transactions.
    let mut aborted = (isolation == Isolation::Committed).then(Vec::new);
    let visible = match looked_up {
        Ok(Fetched::Read(visible, read, ended)) => {
            span = read;
            if let Some(aborted) = &mut aborted {
                aborted.extend(ended.iter().map(|it| AbortedTransaction {
                    producer_id: it.producer_id,
                    first_offset: it.first,
                    ..Default::default()
                }));
            }
            Some(visible)
        }
        Ok(Fetched::OutOfRange) => {
            data.error_code = ErrorCode::OFFSET_OUT_OF_RANGE.0;
            None
        }
        Ok(Fetched::Diverging(visible, epoch, end_offset)) => {
            data.diverging_epoch = EpochEndOffset {
                epoch,
                end_offset,
                ..Default::default()
            };
            Some(visible)
        }
        Err((code, standing)) => {
            data.error_code = code.0;
            if let Some(Standing { leader, epoch, .. }) =
                standing.filter(|_| version >= FIRST_WITH_LEADERS)
            {
                data.current_leader = LeaderIdAndEpoch {
                    leader_id: leader,
                    leader_epoch: epoch,
                    ..Default::default()
                };
            }
            None
        }
    };
    if let Some(visible) = visible {
        data.high_watermark = visible.high_watermark;
        data.last_stable_offset = visible.last_stable;
        data.log_start_offset = visible.start;
    }
    data.aborted_transactions = aborted;
    Found {
        topic: topic.ok().cloned(),
        data,
        span,
        from: asked.fetch_offset,
        most: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
    }
}

/// A code, and who leads if another does.
type Failure = (ErrorCode, Option<Standing>);

fn read_partition(
    core: &Core,
    topic: &Topic,
    asked: &FetchPartition,
    (isolation, version): (Isolation, i16),
    budget: usize,
    at_least_one: bool,
) -> Result<Fetched, Failure> {
    let replica = topic
        .partition(asked.partition)
        .map_err(|code| (code, None))?;
    let limit = usize::try_from(asked.partition_max_bytes)
        .unwrap_or(0)
        .min(budget);
    let mut replica = replica.lock();
    if let Err(code) = replica.check(asked.current_leader_epoch) {
        let is_elsewhere = matches!(
            code,
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
        );
        return Err((code, is_elsewhere.then(|| replica.standing().clone())));
    }
    let last_epoch = asked.last_fetched_epoch;
    let offset = asked.fetch_offset;
    let fetched = match version {
        FIRST_OF_BATCHES.. => replica.fetch(offset, last_epoch, isolation, limit, at_least_one),
        _ => fetch_messages(&mut replica, offset, limit, at_least_one),
    };
    fetched.map_err(|cause| {
        core.events.say(format_args!(
            "{}-{} could not be read: {cause}",
            topic.name, asked.partition
        ));
        (ErrorCode::KAFKA_STORAGE_ERROR, None)
    })
}

/// What is read for who gets message sets. It learns from messages alone how far it has come, and would ask for ever for what has none.
fn fetch_messages(
    replica: &mut Replica,
    offset: i64,
    limit: usize,
    at_least_one: bool,
) -> io::Result<Fetched> {
    let mut from = offset;
    loop {
        let fetched = replica.fetch(from, -1, Isolation::Uncommitted, limit, at_least_one)?;
        let Fetched::Read(visible, Some(span), aborted) = fetched else {
            return Ok(fetched);
        };
        let stored = span.load()?;
        match batch::end_without_messages(stored.clone(), offset) {
            Ok(Some(end)) if end > from => from = end,
            _ => return Ok(Fetched::Read(visible, Some(Span::Memory(stored)), aborted)),
        }
    }
}

fn refused(partition_index: i32, code: ErrorCode) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: code.0,
        high_watermark: -1,
        records: Some(bytes::Bytes::new()),
        ..Default::default()
    }
}
