//! Questions that are asked once and answered once, with retries in between: what an admin asks, and offsets.
//!
//! ```text
//! start ──▶ Waiting ── a link is up ──▶ Asked ── answers ──▶ done
//!              ▲                          │
//!              └── after a pause ◀────────┴─ retriable error, link broke        deadline, from any state ──▶ done
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse,
};
use rustc_hash::FxHashMap;

use crate::api::{Request, Response};
use crate::cluster::{Cluster, Lane, LinkId, Orphan, Owner};
use crate::error::{Error, Kind};

/// Asks for the first offset there is.
pub const EARLIEST: i64 = -2;
/// Asks for the offset after the last.
pub const LATEST: i64 = -1;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Topics by name, or all; without changing the engine's own view of what is wanted.
    Metadata {
        /// The names; `None` for all there are.
        topics: Option<Vec<String>>,
        /// Whether a topic may be created by asking.
        auto_create: bool,
    },
    /// Asked of the controller.
    CreateTopics(CreateTopicsRequest),
    /// Asked of the controller.
    DeleteTopics(DeleteTopicsRequest),
    /// Offsets by topic, partition and time ([`EARLIEST`], [`LATEST`] or ms since 1970), asked of each partition's leader.
    Offsets(Vec<(Arc<str>, i32, i64)>),
}

/// An offset as a leader told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset; -1 if no record is at or after the time asked for.
    pub offset: i64,
    /// The record's time; -1 if none was asked for.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
}

/// The answer to the [`Question`] of the same name.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the questions")]
pub enum Answer {
    Metadata(MetadataResponse),
    CreateTopics(CreateTopicsResponse),
    DeleteTopics(DeleteTopicsResponse),
    /// In the order asked.
    Offsets(Vec<Result<FoundOffset, Error>>),
}

/// Names one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(u64);

/// Who waits for the result. The work asks again itself what may succeed later, so that it has the rest at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Caller,
    Work,
}

#[derive(Debug)]
struct Operation {
    question: Question,
    asker: Asker,
    started: Instant,
    deadline: Instant,
    attempts: u32,
    not_before: Instant,
    asked: usize,
    last_error: Option<Error>,
    offsets: Vec<Slot>,
}

/// One of the offsets asked for.
#[derive(Clone, Debug)]
enum Slot {
    Open,
    Asked,
    Done(Result<FoundOffset, Error>),
}

#[derive(Debug)]
struct Asked {
    id: OperationId,
    /// Which offsets this request asks for.
    slots: Vec<usize>,
}

type Outcome = Result<Answer, Error>;

#[derive(Debug, Default)]
pub(crate) struct Operations {
    next_id: u64,
    running: BTreeMap<OperationId, Operation>,
    asked: FxHashMap<u64, Asked>,
    for_callers: FxHashMap<OperationId, Outcome>,
    for_work: Vec<(OperationId, Outcome)>,
}

impl Operations {
    pub(crate) fn start(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        question: Question,
        asker: Asker,
        deadline: Instant,
    ) -> OperationId {
        self.next_id += 1;
        let id = OperationId(self.next_id);
        let mut offsets = Vec::new();
        if let Question::Offsets(wanted) = &question {
            offsets.resize(wanted.len(), Slot::Open);
            for (topic, _, _) in wanted {
                cluster.want(now, topic);
            }
        }
        let operation = Operation {
            question,
            asker,
            started: now,
            deadline,
            attempts: 0,
            not_before: now,
            asked: 0,
            last_error: None,
            offsets,
        };
        self.running.insert(id, operation);
        id
    }

    /// The result, once; to be asked again after anything happened.
    pub(crate) fn take(&mut self, id: OperationId) -> Option<Outcome> {
        self.for_callers.remove(&id)
    }

    pub(crate) fn take_for_work(&mut self) -> Option<(OperationId, Outcome)> {
        self.for_work.pop()
    }

    /// Nobody waits any more.
    pub(crate) fn cancel(&mut self, cluster: &mut Cluster, id: OperationId) {
        self.for_callers.remove(&id);
        if let Some(operation) = self.running.remove(&id) {
            operation.release(cluster);
        }
    }

    /// Fails everything.
    pub(crate) fn abort(&mut self, cluster: &mut Cluster, cause: &Error) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.finish(cluster, id, Err(cause.clone()));
        }
    }

    /// Asks what can be asked, and gives up what is late.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            let Some(operation) = self.running.get_mut(&id) else {
                continue;
            };
            if operation.deadline <= now {
                let error = operation.late(cluster);
                self.finish(cluster, id, Err(error));
                continue;
            }
            cluster.set_alarm(operation.deadline);
            if operation.not_before > now {
                cluster.set_alarm(operation.not_before);
            } else if matches!(operation.question, Question::Offsets(_)) {
                self.pump_offsets(now, cluster, id);
            } else if operation.asked == 0 {
                self.pump_simple(now, cluster, id);
            }
        }
    }

    fn pump_simple(&mut self, now: Instant, cluster: &mut Cluster, id: OperationId) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        let (link, request) = match &operation.question {
            Question::Metadata {
                topics,
                auto_create,
            } => {
                let topics = topics.as_ref().map(|names| {
                    names
                        .iter()
                        .map(|name| MetadataRequestTopic {
                            name: Some(name.as_str().into()),
                            ..Default::default()
                        })
                        .collect()
                });
                let allow_auto_topic_creation = *auto_create;
                let request = MetadataRequest {
                    topics,
                    allow_auto_topic_creation,
                    ..Default::default()
                };
                (cluster.any_link(now), Request::Metadata(request))
            }
            Question::CreateTopics(request) => (
                controller_link(now, cluster, &mut operation.last_error),
                Request::CreateTopics(request.clone()),
            ),
            Question::DeleteTopics(request) => (
                controller_link(now, cluster, &mut operation.last_error),
                Request::DeleteTopics(request.clone()),
            ),
            Question::Offsets(_) => return,
        };
        let Some(link) = link else { return };
        operation.attempts += 1;
        operation.asked += 1;
        let timeout = cluster.config.request_timeout;
        let token = cluster.ask(link, Owner::Operation, request, timeout);
        self.asked.insert(
            token,
            Asked {
                id,
                slots: Vec::new(),
            },
        );
    }

    fn pump_offsets(&mut self, now: Instant, cluster: &mut Cluster, id: OperationId) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        let Question::Offsets(wanted) = &operation.question else {
            return;
        };
        let mut by_leader: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        let mut problem = None;
        for (index, ((topic, partition, _), slot)) in
            wanted.iter().zip(&mut operation.offsets).enumerate()
        {
            if !matches!(slot, Slot::Open) {
                continue;
            }
            if let Some((leader, _)) = cluster.view().leader(topic, *partition) {
                by_leader.entry(leader).or_default().push(index);
                continue;
            }
            match why_unknown(cluster, topic, *partition, operation.started) {
                Unknown::ForGood(error) => *slot = Slot::Done(Err(error)),
                Unknown::SoFar(error) if operation.asker == Asker::Work => {
                    let error = error
                        .unwrap_or_else(|| Error::from_code(ErrorCode::LEADER_NOT_AVAILABLE, None));
                    *slot = Slot::Done(Err(error));
                }
                Unknown::SoFar(error) => problem = error.or(problem),
            }
        }
        if problem.is_some() {
            operation.last_error = problem;
        }
        let isolation_level = i8::from(cluster.config.read_committed);
        for (leader, slots) in by_leader {
            let Some(link) = cluster.node_link(now, leader, Lane::Control) else {
                if let Some(cause) = cluster.failure_of(leader, Lane::Control) {
                    operation.last_error = Some(cause.clone());
                }
                continue;
            };
            let mut topics: Vec<ListOffsetsTopic> = Vec::new();
            for index in &slots {
                let Some((topic, partition, timestamp)) = wanted.get(*index) else {
                    continue;
                };
                let current_leader_epoch = cluster
                    .view()
                    .leader(topic, *partition)
                    .map_or(-1, |(_, epoch)| epoch);
                let row = ListOffsetsPartition {
                    partition_index: *partition,
                    current_leader_epoch,
                    timestamp: *timestamp,
                    ..Default::default()
                };
                match topics.iter_mut().find(|entry| *entry.name == **topic) {
                    Some(entry) => entry.partitions.push(row),
                    None => topics.push(ListOffsetsTopic {
                        name: (&**topic).into(),
                        partitions: vec![row],
                        ..Default::default()
                    }),
                }
                if let Some(slot) = operation.offsets.get_mut(*index) {
                    *slot = Slot::Asked;
                }
            }
            let timeout_ms =
                i32::try_from(cluster.config.request_timeout.as_millis()).unwrap_or(i32::MAX);
            let request = Request::ListOffsets(ListOffsetsRequest {
                replica_id: -1,
                isolation_level,
                topics,
                timeout_ms,
                ..Default::default()
            });
            operation.asked += 1;
            operation.attempts += 1;
            let timeout = cluster.config.request_timeout;
            let token = cluster.ask(link, Owner::Operation, request, timeout);
            self.asked.insert(token, Asked { id, slots });
        }
        self.finish_offsets(cluster, id);
    }

    fn finish_offsets(&mut self, cluster: &mut Cluster, id: OperationId) {
        let Some(operation) = self.running.get(&id) else {
            return;
        };
        let results: Option<Vec<_>> = operation
            .offsets
            .iter()
            .map(|slot| match slot {
                Slot::Done(result) => Some(result.clone()),
                Slot::Open | Slot::Asked => None,
            })
            .collect();
        if let Some(results) = results {
            self.finish(cluster, id, Ok(Answer::Offsets(results)));
        }
    }

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        link: LinkId,
        response: Response,
    ) {
        let Some(Asked { id, slots }) = self.asked.remove(&token) else {
            return;
        };
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.asked -= 1;
        let moved = |code: i16| ErrorCode(code) == ErrorCode::NOT_CONTROLLER;
        let answer = match response {
            Response::Metadata(answer) => {
                let code = ErrorCode(answer.error_code);
                if code.is_error() {
                    let error = Error::from_code(code, None).calling("Metadata");
                    return self.retry(now, cluster, id, error);
                }
                Answer::Metadata(answer)
            }
            Response::CreateTopics(answer) => {
                if answer.topics.iter().any(|topic| moved(topic.error_code)) {
                    return self.retry(now, cluster, id, not_controller("CreateTopics"));
                }
                Answer::CreateTopics(answer)
            }
            Response::DeleteTopics(answer) => {
                if answer.responses.iter().any(|topic| moved(topic.error_code)) {
                    return self.retry(now, cluster, id, not_controller("DeleteTopics"));
                }
                Answer::DeleteTopics(answer)
            }
            Response::ListOffsets(answer) => {
                let broker = cluster.address_of(link);
                return self.handle_offsets(now, cluster, id, &slots, broker, &answer);
            }
            _ => return,
        };
        self.finish(cluster, id, Ok(answer));
    }

    fn handle_offsets(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        id: OperationId,
        slots: &[usize],
        broker: Option<String>,
        answer: &ListOffsetsResponse,
    ) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        let Question::Offsets(wanted) = &operation.question else {
            return;
        };
        let mut again = None;
        for index in slots {
            let (Some((topic, partition, _)), Some(slot)) =
                (wanted.get(*index), operation.offsets.get_mut(*index))
            else {
                continue;
            };
            let row = answer
                .topics
                .iter()
                .find(|entry| *entry.name == **topic)
                .and_then(|entry| {
                    entry
                        .partitions
                        .iter()
                        .find(|row| row.partition_index == *partition)
                });
            let failed = |error: Error| {
                let error = error.calling("ListOffsets").partition_is(topic, *partition);
                match &broker {
                    Some(address) => error.at(address),
                    None => error,
                }
            };
            let Some(row) = row else {
                *slot = Slot::Done(Err(failed(Error::new(
                    Kind::Protocol,
                    "the answer leaves out a partition",
                ))));
                continue;
            };
            let code = ErrorCode(row.error_code);
            if !code.is_error() {
                *slot = Slot::Done(Ok(FoundOffset {
                    offset: row.offset,
                    timestamp_ms: row.timestamp,
                    leader_epoch: row.leader_epoch,
                }));
            } else if code.is_retriable() && operation.asker == Asker::Caller {
                *slot = Slot::Open;
                again = Some(failed(Error::from_code(code, None)));
            } else {
                *slot = Slot::Done(Err(failed(Error::from_code(code, None))));
            }
        }
        match again {
            Some(error) => self.retry(now, cluster, id, error),
            None => self.finish_offsets(cluster, id),
        }
    }

    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: Orphan) {
        let Some(Asked { id, slots }) = self.asked.remove(&orphan.token) else {
            return;
        };
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.asked -= 1;
        for index in slots {
            if let Some(slot) = operation.offsets.get_mut(index) {
                *slot = Slot::Open;
            }
        }
        if orphan.may_be_repeated() && operation.asker == Asker::Caller {
            self.retry(now, cluster, id, orphan.error);
        } else {
            self.finish(cluster, id, Err(orphan.error));
        }
    }

    fn retry(&mut self, now: Instant, cluster: &mut Cluster, id: OperationId, error: Error) {
        let Some(operation) = self.running.get_mut(&id) else {
            return;
        };
        operation.not_before = now + cluster.retry_pause(operation.attempts);
        operation.last_error = Some(error.after(operation.attempts));
        cluster.set_alarm(operation.not_before);
        cluster.refresh(now);
    }

    fn finish(&mut self, cluster: &mut Cluster, id: OperationId, outcome: Outcome) {
        let Some(operation) = self.running.remove(&id) else {
            return;
        };
        operation.release(cluster);
        match operation.asker {
            Asker::Caller => {
                self.for_callers.insert(id, outcome);
            }
            Asker::Work => self.for_work.push((id, outcome)),
        }
    }
}

impl Operation {
    fn release(&self, cluster: &mut Cluster) {
        if let Question::Offsets(wanted) = &self.question {
            for (topic, _, _) in wanted {
                cluster.unwant(topic);
            }
        }
    }

    /// Why there is no answer at the deadline.
    fn late(&self, cluster: &Cluster) -> Error {
        if let Some(trouble) = cluster.trouble() {
            return trouble;
        }
        let waited = self
            .deadline
            .saturating_duration_since(self.started)
            .as_millis();
        match &self.last_error {
            Some(error) => error.clone(),
            None => Error::new(Kind::Timeout, format!("no answer within {waited} ms")),
        }
    }
}

/// A link to the controller; brokers before KRaft take changes there only.
fn controller_link(
    now: Instant,
    cluster: &mut Cluster,
    last_error: &mut Option<Error>,
) -> Option<LinkId> {
    cluster.need_view(now);
    cluster.view().nodes().next()?;
    let Some(controller) = cluster
        .view()
        .controller()
        .filter(|id| cluster.view().node(*id).is_some())
    else {
        return cluster.any_link(now);
    };
    let link = cluster.node_link(now, controller, Lane::Control);
    if link.is_none() {
        *last_error = cluster
            .failure_of(controller, Lane::Control)
            .cloned()
            .or(last_error.take());
    }
    link
}

fn not_controller(api: &'static str) -> Error {
    Error::from_code(ErrorCode::NOT_CONTROLLER, None).calling(api)
}

/// Why a partition has no leader in the view.
pub(crate) enum Unknown {
    /// Waiting cannot help.
    ForGood(Error),
    /// It may turn up; the reason as far as known.
    SoFar(Option<Error>),
}

pub(crate) fn why_unknown(
    cluster: &Cluster,
    topic: &Arc<str>,
    partition: i32,
    since: Instant,
) -> Unknown {
    let view = cluster.view();
    if let Some(known) = view.topic(topic) {
        let count = known.partitions.len();
        if known.partitions.contains_key(&partition) {
            let error = Error::from_code(
                ErrorCode::LEADER_NOT_AVAILABLE,
                Some("the partition has no leader"),
            );
            return Unknown::SoFar(Some(error.partition_is(topic, partition)));
        }
        let error = Error::new(
            Kind::Argument,
            format!("there is no such partition: the topic has {count}"),
        );
        let error = error.partition_is(topic, partition);
        return if cluster.is_fresh(since) {
            Unknown::ForGood(error)
        } else {
            Unknown::SoFar(Some(error))
        };
    }
    match view.problem(topic) {
        Some(code) => {
            let error = Error::from_code(code, None)
                .calling("Metadata")
                .topic_is(topic);
            if code.is_retriable() {
                Unknown::SoFar(Some(error))
            } else {
                Unknown::ForGood(error)
            }
        }
        None => {
            let error = cluster.refresh_error().cloned();
            Unknown::SoFar(error.map(|error| error.topic_is(topic)))
        }
    }
}
