//! Fetch, versions 0 to 18: a long poll over partitions; from version 13 topics go by id. Before version 4 clients get message
//! sets, which the batches of the log are made into.
//!
//! The broker opens no fetch sessions (KIP-227): it answers session id 0, which a client must accept, and every request is
//! complete. Followers do not come here: they are rejected, as is everybody who says that it is one.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::fetch_request::FetchPartition;
use ottla_protocol::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::records::OldMagic;
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome, Wait, nodes};
use crate::cluster::image::Address;
use crate::core::Core;
use crate::security::acl::{Operation, Resource};
use crate::security::session::Who;
use crate::storage::batch;
use crate::storage::replica::{Fetched, Standing, Visible, Watcher};
use crate::storage::segment::Span;
use crate::topics::Topic;

const FIRST_BY_ID: i16 = 13;
/// From here on an answer names leaders, and where a client's log parts from the leader's (KIP-595, KIP-951).
const FIRST_WITH_LEADERS: i16 = 12;
const FIRST_WITH_ENDPOINTS: i16 = 16;
/// From here on a batch that is larger than was asked for comes whole (KIP-74); before, what there is room for.
const FIRST_OF_WHOLE_BATCHES: i16 = 3;
/// From here on clients get record batches (KIP-98), from the other on timestamps.
const FIRST_OF_BATCHES: i16 = 4;
const FIRST_WITH_TIMESTAMPS: i16 = 2;

impl Api for FetchRequest {
    const HANDLED: Versions = Versions { min: 0, max: 18 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<FetchResponse> {
        if self.replica_id >= 0 || self.replica_state.replica_id >= 0 {
            return Outcome::Answer(
                self.refuse(cx.version, ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
            );
        }
        if self.session_id != 0 && self.session_epoch > 0 {
            return Outcome::Answer(FetchResponse {
                error_code: ErrorCode::FETCH_SESSION_ID_NOT_FOUND.0,
                ..Default::default()
            });
        }
        let allowed = Allowed::new(cx);
        let (version, listener) = (cx.version, cx.client.listener);
        let attempt = Attempt::new(cx.core, &self, version, listener, &allowed);
        let wanted = usize::try_from(self.min_bytes).unwrap_or(0);
        let wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0));
        if attempt.failed || attempt.bytes >= wanted || wait.is_zero() {
            return attempt.finish();
        }
        let Some(deadline) = cx.now.instant.checked_add(wait) else {
            return attempt.finish();
        };
        let watcher = Watcher::new(wanted - attempt.bytes, cx.client.waker.clone());
        attempt.watch(&watcher);
        let core = Arc::clone(cx.core);
        let resume =
            Box::new(move |_| Attempt::new(&core, &self, version, listener, &allowed).finish());
        Outcome::Wait(Wait {
            awaited: watcher,
            deadline: Some(deadline),
            resume,
        })
    }
}

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

    /// Whoever may not read a topic is not told whether there is one, unless it asks by id.
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

/// The result of reading all partitions once.
struct Attempt {
    topics: Vec<(FetchableTopicResponse, Vec<Found>)>,
    bytes: usize,
    /// A partition cannot be read; the response is sent at once.
    failed: bool,
    /// Where to find the leaders that are named.
    leaders: Vec<NodeEndpoint>,
    version: i16,
}

struct Found {
    topic: Option<Arc<Topic>>,
    data: PartitionData,
    span: Option<Span>,
    /// From where, and how many bytes at most, were asked for.
    from: i64,
    most: usize,
}

impl Attempt {
    fn new(
        core: &Core,
        request: &FetchRequest,
        version: i16,
        listener: usize,
        allowed: &Allowed,
    ) -> Self {
        let mut budget = usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(core.settings.fetch_max_bytes)
            .min(allowed.bytes);
        let mut attempt = Self {
            topics: Vec::with_capacity(request.topics.len()),
            bytes: 0,
            failed: false,
            leaders: Vec::new(),
            version,
        };
        for asked in &request.topics {
            let topic = if version < FIRST_BY_ID {
                core.topic(&asked.topic)
            } else {
                core.topic_by_id(asked.topic_id)
            };
            let topic = allowed.check(core, &asked.topic, topic);
            let mut partitions = Vec::with_capacity(asked.partitions.len());
            for partition in &asked.partitions {
                let found = read(
                    core,
                    topic.as_ref(),
                    partition,
                    (request.isolation_level, version),
                    budget,
                    attempt.bytes == 0,
                );
                let length = found.span.as_ref().map_or(0, Span::len);
                attempt.bytes += length;
                budget = budget.saturating_sub(length);
                let diverges = found.data.diverging_epoch.end_offset >= 0;
                attempt.failed |= found.data.error_code != 0 || diverges;
                partitions.push(found);
            }
            let answer = FetchableTopicResponse {
                topic: asked.topic.clone(),
                topic_id: asked.topic_id,
                ..Default::default()
            };
            attempt.topics.push((answer, partitions));
        }
        if version >= FIRST_WITH_ENDPOINTS && attempt.failed {
            attempt.name_leaders(core, listener);
        }
        attempt
    }

    /// Says where to find the leaders that partitions name.
    fn name_leaders(&mut self, core: &Core, listener: usize) {
        let partitions = self.topics.iter().flat_map(|(_, partitions)| partitions);
        let leaders = partitions.map(|found| found.data.current_leader.leader_id);
        let leaders: Vec<i32> = leaders.filter(|leader| *leader >= 0).collect();
        if !leaders.is_empty() {
            let nodes = nodes(core, listener).into_iter();
            let named = nodes.filter(|(id, _)| leaders.contains(id));
            let named = named.map(|(node_id, Address { host, port })| NodeEndpoint {
                node_id,
                host,
                port,
                ..Default::default()
            });
            self.leaders = named.collect();
        }
    }

    /// Registers `watcher` for records that are appended after this read.
    fn watch(&self, watcher: &Arc<Watcher>) {
        for found in self.topics.iter().flat_map(|(_, partitions)| partitions) {
            let log = found
                .topic
                .as_ref()
                .and_then(|topic| topic.partition(found.data.partition_index).ok());
            if let Some(log) = log {
                log.lock().watch(watcher, found.data.high_watermark);
            }
        }
    }

    fn finish(self) -> Outcome<FetchResponse> {
        let responses = self.topics.into_iter().map(|(mut answer, partitions)| {
            let loaded = partitions
                .into_iter()
                .map(|found| load(found, self.version));
            answer.partitions = loaded.collect();
            answer
        });
        Outcome::Answer(FetchResponse {
            responses: responses.collect(),
            node_endpoints: self.leaders,
            ..Default::default()
        })
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
    (isolation_level, version): (i8, i16),
    budget: usize,
    at_least_one: bool,
) -> Found {
    let looked_up = match topic {
        Ok(topic) => read_partition(core, topic, asked, budget, at_least_one),
        Err(code) => Err((*code, None)),
    };
    let mut data = refused(asked.partition, ErrorCode::NONE);
    let mut span = None;
    let visible = match looked_up {
        Ok(Fetched::Read(visible, read)) => {
            span = read;
            Some(visible)
        }
        Ok(Fetched::OutOfRange(visible)) => {
            data.error_code = ErrorCode::OFFSET_OUT_OF_RANGE.0;
            Some(visible)
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
    if let Some(Visible {
        start,
        high_watermark,
    }) = visible
    {
        data.high_watermark = high_watermark;
        data.last_stable_offset = high_watermark;
        data.log_start_offset = start;
    }
    if isolation_level == 1 {
        data.aborted_transactions = Some(Vec::new());
    }
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
    let fetched = replica.fetch(asked.fetch_offset, last_epoch, limit, at_least_one);
    fetched.map_err(|cause| {
        core.events.say(format_args!(
            "{}-{} could not be read: {cause}",
            topic.name, asked.partition
        ));
        (ErrorCode::KAFKA_STORAGE_ERROR, None)
    })
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
