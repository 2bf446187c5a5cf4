//! Fetch, versions 4 to 18: a long poll over partitions; from version 13 topics go by id.
//!
//! The broker opens no fetch sessions (KIP-227): it answers session id 0, which a client must accept, and every request is
//! complete. There are no replicas, so that it rejects followers and knows only one leader epoch.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::fetch_request::FetchPartition;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome, Wait};
use crate::core::Core;
use crate::storage::log::{Bounds, LEADER_EPOCH, Watcher};
use crate::storage::segment::Span;
use crate::topics::Topic;

const FIRST_BY_ID: i16 = 13;

impl Api for FetchRequest {
    const HANDLED: Versions = Versions { min: 4, max: 18 };

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
        let attempt = Attempt::new(cx.core, &self, cx.version);
        let wanted = usize::try_from(self.min_bytes).unwrap_or(0);
        let wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0));
        if attempt.failed || attempt.bytes >= wanted || wait.is_zero() {
            return attempt.finish();
        }
        let Some(deadline) = cx.now.instant.checked_add(wait) else {
            return attempt.finish();
        };
        let watcher = Watcher::new(wanted - attempt.bytes);
        attempt.watch(&watcher);
        let (core, version) = (Arc::clone(cx.core), cx.version);
        let resume = Box::new(move |_| Attempt::new(&core, &self, version).finish());
        Outcome::Wait(Wait {
            watcher,
            deadline,
            resume,
        })
    }
}

/// The result of reading all partitions once.
struct Attempt {
    topics: Vec<(FetchableTopicResponse, Vec<Found>)>,
    bytes: usize,
    /// A partition cannot be read; the response is sent at once.
    failed: bool,
}

struct Found {
    topic: Option<Arc<Topic>>,
    data: PartitionData,
    span: Option<Span>,
}

impl Attempt {
    fn new(core: &Core, request: &FetchRequest, version: i16) -> Self {
        let mut budget = usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(core.settings.fetch_max_bytes);
        let mut attempt = Self {
            topics: Vec::with_capacity(request.topics.len()),
            bytes: 0,
            failed: false,
        };
        for asked in &request.topics {
            let topic = if version < FIRST_BY_ID {
                core.topic(&asked.topic)
            } else {
                core.topic_by_id(asked.topic_id)
            };
            let mut partitions = Vec::with_capacity(asked.partitions.len());
            for partition in &asked.partitions {
                let found = read(
                    core,
                    topic.as_ref(),
                    partition,
                    request.isolation_level,
                    budget,
                    attempt.bytes == 0,
                );
                let length = found.span.as_ref().map_or(0, Span::len);
                attempt.bytes += length;
                budget = budget.saturating_sub(length);
                attempt.failed |= found.data.error_code != 0;
                partitions.push(found);
            }
            let answer = FetchableTopicResponse {
                topic: asked.topic.clone(),
                topic_id: asked.topic_id,
                ..Default::default()
            };
            attempt.topics.push((answer, partitions));
        }
        attempt
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
            answer.partitions = partitions.into_iter().map(load).collect();
            answer
        });
        Outcome::Answer(FetchResponse {
            responses: responses.collect(),
            ..Default::default()
        })
    }
}

fn load(found: Found) -> PartitionData {
    let Found { mut data, span, .. } = found;
    match span.map(Span::load) {
        None => {}
        Some(Ok(bytes)) => data.records = Some(bytes),
        Some(Err(_)) => return refused(data.partition_index, ErrorCode::KAFKA_STORAGE_ERROR),
    }
    data
}

fn read(
    core: &Core,
    topic: Result<&Arc<Topic>, &ErrorCode>,
    asked: &FetchPartition,
    isolation_level: i8,
    budget: usize,
    at_least_one: bool,
) -> Found {
    let looked_up = match topic {
        Ok(topic) => read_partition(core, topic, asked, budget, at_least_one),
        Err(code) => Err((*code, None)),
    };
    let (code, bounds, span) = match looked_up {
        Ok((bounds, span)) => (ErrorCode::NONE, Some(bounds), span),
        Err((code, bounds)) => (code, bounds, None),
    };
    let mut data = refused(asked.partition, code);
    if let Some(Bounds { start, end }) = bounds {
        data.high_watermark = end;
        data.last_stable_offset = end;
        data.log_start_offset = start;
    }
    if isolation_level == 1 {
        data.aborted_transactions = Some(Vec::new());
    }
    Found {
        topic: topic.ok().cloned(),
        data,
        span,
    }
}

type Failure = (ErrorCode, Option<Bounds>);

fn read_partition(
    core: &Core,
    topic: &Topic,
    asked: &FetchPartition,
    budget: usize,
    at_least_one: bool,
) -> Result<(Bounds, Option<Span>), Failure> {
    let log = topic
        .partition(asked.partition)
        .map_err(|code| (code, None))?;
    check_epoch(asked.current_leader_epoch).map_err(|code| (code, None))?;
    let limit = usize::try_from(asked.partition_max_bytes)
        .unwrap_or(0)
        .min(budget);
    let mut log = log.lock();
    match log.read(asked.fetch_offset, limit, at_least_one) {
        Ok(Some(read)) => Ok((read.bounds, read.span)),
        Ok(None) => Err((ErrorCode::OFFSET_OUT_OF_RANGE, Some(log.bounds()))),
        Err(cause) => {
            core.events.say(format_args!(
                "{}-{} could not be read: {cause}",
                topic.name, asked.partition
            ));
            Err((ErrorCode::KAFKA_STORAGE_ERROR, None))
        }
    }
}

/// Checks the leader epoch of a client; below 0 it has none.
pub(super) fn check_epoch(epoch: i32) -> Result<(), ErrorCode> {
    match epoch {
        ..0 | LEADER_EPOCH => Ok(()),
        _ => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
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
