//! Produce, versions 0 to 13: one record batch (magic 2) per partition, before version 3 a message set, which the log keeps as
//! one; from version 13 topics go by id.
//!
//! If the producer has no transaction open in the partition, the coordinator is called first: to
//! verify that the partition was added to the transaction, or since version 12 to add it (KIP-890).
//! With acks=all the response comes when all replicas in sync have the records. Since version 10 it
//! has the new leader instead (KIP-951).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_protocol::messages::{ProduceRequest, ProduceResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::{joined, once_told};
use super::{Api, Cx, Outcome, Wait, nodes};
use crate::cluster::image::Address;
use crate::core::Core;
use crate::now::Now;
use crate::replicas::Unreplicated;
use crate::security::acl::{Operation, Resource};
use crate::security::session::Who;
use crate::storage::batch::{self, Rejected};
use crate::storage::log::Appended;
use crate::storage::replica::{Standing, Watcher};
use crate::topics::Topic;
use crate::transaction::{Add, Adding, Identity, Place, Protocol, Reply};

const FIRST_BY_ID: i16 = 13;
/// From here on there are record batches (KIP-98).
const FIRST_OF_BATCHES: i16 = 3;
/// From here on zstd is allowed (KIP-110).
const FIRST_WITH_ZSTD: i16 = 7;
const FIRST_WITH_LEADERS: i16 = 10;
/// Since this version a producer gets an error by which it must abort (KIP-890).
const FIRST_WITH_ABORTABLE: i16 = 11;
/// From here on partitions are added to the transaction by themselves (KIP-890).
const FIRST_THAT_ADDS: i16 = 12;
const ALL: i16 = -1;

impl Api for ProduceRequest {
    const HANDLED: Versions = Versions { min: 0, max: 13 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ProduceResponse> {
        let side = Side::new(cx);
        let refused = if !(-1..=1).contains(&self.acks) {
            Some(ErrorCode::INVALID_REQUIRED_ACKS)
        } else {
            side.check_transaction(&self).err()
        };
        if let Some(code) = refused {
            return finish(&side, &self, self.refuse(cx.version, code), Vec::new());
        }
        let unsure = side.unsure(&self);
        let (Some(first), Some(id)) = (unsure.first(), &self.transactional_id) else {
            return side.write(&self, &Verified::new());
        };
        let add = Add {
            id: id.to_string(),
            producer: first.producer,
            partitions: unsure.iter().map(|it| it.partition.clone()).collect(),
            how: if cx.version >= FIRST_THAT_ADDS {
                Adding::Add(Protocol::EpochEach)
            } else {
                Adding::Verify
            },
        };
        let ticket = cx.question();
        cx.core.add_to_transaction(&add, ticket.clone(), cx.now);
        once_told(ticket, move |reply, now| {
            let Reply::Partitions(codes) = reply else {
                return None;
            };
            let side = Side { now, ..side };
            let answers = unsure.iter().zip(codes);
            let verified = answers.map(|(it, code)| (it.place, it.answered(code, &side)));
            Some(side.write(&self, &verified.collect()))
        })
    }

    fn is_answered(&self) -> bool {
        self.acks != 0
    }
}

/// Where a partition stands in a request: the place of its topic, and its own.
type InRequest = (usize, usize);

/// The coordinator's results for partitions: the number of the verification, or the error.
type Verified = BTreeMap<InRequest, Result<u64, ErrorCode>>;

/// A partition where a transaction is to begin, if the coordinator knows of it.
struct Unsure {
    place: InRequest,
    partition: Place,
    producer: Identity,
    question: u64,
}

impl Unsure {
    /// The result in the form for producers of this version.
    fn answered(&self, code: ErrorCode, side: &Side) -> Result<u64, ErrorCode> {
        let knows_abortable = side.version >= FIRST_WITH_ABORTABLE;
        let adds = side.version >= FIRST_THAT_ADDS;
        // The producer did not ask a coordinator: it is to try again.
        let again = ErrorCode::NOT_ENOUGH_REPLICAS;
        joined(code, knows_abortable, adds, again).map(|()| self.question)
    }
}

/// A request's context, which outlives the wait for a coordinator.
struct Side {
    core: Arc<Core>,
    who: Who,
    listener: usize,
    waker: Waker,
    now: Now,
    version: i16,
}

impl Side {
    fn new(cx: &Cx<'_>) -> Self {
        Self {
            core: Arc::clone(cx.core),
            who: cx.who.clone(),
            listener: cx.client.listener,
            waker: cx.client.waker.clone(),
            now: cx.now,
            version: cx.version,
        }
    }

    fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.core
            .security
            .authorizes(&self.who, operation, resource)
    }

    /// May the client write in this transaction, if it does?
    fn check_transaction(&self, request: &ProduceRequest) -> Result<(), ErrorCode> {
        let records = request.topic_data.iter().flat_map(|it| &it.partition_data);
        let records = records.filter_map(|it| it.records.as_deref());
        let mut producers = records.filter_map(batch::transactional_producer);
        let Some(first) = producers.next() else {
            return Ok(());
        };
        let id = request.transactional_id.as_deref();
        let may = |id| self.may(Operation::Write, Resource::transactional_id(id));
        if !id.is_some_and(may) {
            Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        } else if producers.any(|other| other != first) {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else {
            Ok(())
        }
    }

    fn topic(&self, data: &TopicProduceData) -> Result<Arc<Topic>, ErrorCode> {
        if self.version < FIRST_BY_ID {
            self.core.topic(&data.name)
        } else {
            self.core.topic_by_id(data.topic_id)
        }
    }

    /// The partitions of which the coordinator must be asked.
    fn unsure(&self, request: &ProduceRequest) -> Vec<Unsure> {
        let mut unsure = Vec::new();
        for (outer, data) in request.topic_data.iter().enumerate() {
            for (inner, partition) in data.partition_data.iter().enumerate() {
                let records = partition.records.as_deref();
                let Some(producer) = records.and_then(batch::transactional_producer) else {
                    continue;
                };
                let Ok(topic) = self.topic(data) else {
                    continue;
                };
                if !self.may(Operation::Write, Resource::topic(&topic.name)) || topic.is_internal()
                {
                    continue;
                }
                let Ok(replica) = topic.partition(partition.index) else {
                    continue;
                };
                let mut replica = replica.lock();
                if replica.check(-1).is_err() {
                    continue;
                }
                if let Some(question) = replica.log().question(producer) {
                    let (producer_id, epoch) = producer;
                    unsure.push(Unsure {
                        place: (outer, inner),
                        partition: (topic.name.to_string(), partition.index),
                        producer: Identity { producer_id, epoch },
                        question,
                    });
                }
            }
        }
        unsure
    }

    fn write(&self, request: &ProduceRequest, verified: &Verified) -> Outcome<ProduceResponse> {
        let mut pending = Vec::new();
        let mut responses = Vec::with_capacity(request.topic_data.len());
        for topic in &request.topic_data {
            let place = responses.len();
            let writing = Writing {
                acks: request.acks,
                verified,
                pending: &mut pending,
            };
            responses.push(append_to_topic(self, topic, place, writing));
        }
        let answer = ProduceResponse {
            responses,
            ..Default::default()
        };
        finish(self, request, answer, pending)
    }
}

/// Responds as soon as replicas have what they must.
fn finish(
    side: &Side,
    request: &ProduceRequest,
    answer: ProduceResponse,
    pending: Vec<Pending>,
) -> Outcome<ProduceResponse> {
    if !request.is_answered() {
        return without_answer(&answer);
    }
    let answer = with_leaders(side, answer);
    if pending.is_empty() {
        return Outcome::Answer(answer);
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let now = side.now;
    let waiting = Waiting {
        answer,
        pending,
        deadline: now.instant.checked_add(timeout).unwrap_or(now.instant),
        waker: side.waker.clone(),
    };
    waiting.look(now)
}

/// What all partitions of a request share while they are written.
struct Writing<'a> {
    acks: i16,
    verified: &'a Verified,
    pending: &'a mut Vec<Pending>,
}

/// A response that waits for replicas.
struct Waiting {
    answer: ProduceResponse,
    pending: Vec<Pending>,
    deadline: Instant,
    waker: Waker,
}

/// A partition whose replicas do not have all of it yet.
struct Pending {
    place: InRequest,
    records: Unreplicated,
}

impl Waiting {
    /// Responds if nothing is waited for any more, or the time is over.
    fn look(mut self, now: Now) -> Outcome<ProduceResponse> {
        let watcher = Watcher::new(1, self.waker.clone());
        let is_late = now.instant >= self.deadline;
        let answer = &mut self.answer;
        self.pending.retain(|pending| {
            let code = match pending.records.look(&watcher) {
                Some(Ok(())) => return false,
                Some(Err(code)) => code,
                None if is_late => ErrorCode::REQUEST_TIMED_OUT,
                None => return true,
            };
            let (topic, partition) = pending.place;
            let topic = answer.responses.get_mut(topic);
            let place = topic.and_then(|it| it.partition_responses.get_mut(partition));
            if let Some(place) = place {
                *place = partition_response(
                    pending.records.index,
                    Err(Rejected::new(code, code.name())),
                );
            }
            false
        });
        if self.pending.is_empty() {
            return Outcome::Answer(self.answer);
        }
        Outcome::Wait(Wait {
            awaited: watcher,
            deadline: Some(self.deadline),
            resume: Box::new(move |now| self.look(now)),
        })
    }
}

/// With acks=0 the only way to report an error to the client is to close the connection.
fn without_answer(answer: &ProduceResponse) -> Outcome<ProduceResponse> {
    let mut partitions = answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    match partitions.find(|partition| partition.error_code != 0) {
        None => Outcome::Silent,
        Some(partition) => Outcome::Close(format!(
            "a batch sent with acks=0 was refused: {}",
            partition
                .error_message
                .as_deref()
                .unwrap_or_else(|| ErrorCode(partition.error_code).name())
        )),
    }
}

/// Adds the addresses of the leaders that the response names.
fn with_leaders(side: &Side, mut answer: ProduceResponse) -> ProduceResponse {
    let partitions = answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    let mut leaders = partitions
        .map(|partition| partition.current_leader.leader_id)
        .filter(|leader| *leader >= 0)
        .peekable();
    if leaders.peek().is_some() {
        let leaders: Vec<i32> = leaders.collect();
        let nodes = nodes(&side.core, side.listener).into_iter();
        let named = nodes.filter(|(id, _)| leaders.contains(id));
        let named = named.map(|(node_id, Address { host, port })| NodeEndpoint {
            node_id,
            host,
            port,
            ..Default::default()
        });
        answer.node_endpoints = named.collect();
    }
    answer
}

fn append_to_topic(
    side: &Side,
    data: &TopicProduceData,
    place: usize,
    mut writing: Writing<'_>,
) -> TopicProduceResponse {
    let topic = side.topic(data);
    let name = topic.as_ref().map_or(&data.name, |topic| &topic.name);
    let allowed = match topic {
        Err(_) if name.is_empty() => Ok(()),
        _ if side.may(Operation::Write, Resource::topic(name)) => Ok(()),
        _ => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
    };
    let mut responses = Vec::with_capacity(data.partition_data.len());
    for partition in &data.partition_data {
        let place = (place, responses.len());
        let response = match (&topic, allowed) {
            (_, Err(code)) => {
                partition_response(partition.index, Err(Rejected::new(code, code.name())))
            }
            (Err(code), _) => {
                let rejected = Rejected::new(*code, "there is no such topic");
                partition_response(partition.index, Err(rejected))
            }
            (Ok(topic), _) => append(side, topic, partition, place, &mut writing),
        };
        responses.push(response);
    }
    topic_response(data, responses)
}

fn append(
    side: &Side,
    topic: &Arc<Topic>,
    data: &PartitionProduceData,
    place: InRequest,
    writing: &mut Writing<'_>,
) -> PartitionProduceResponse {
    let verified = writing.verified.get(&place).copied().transpose();
    let appended = verified
        .map_err(|code| Rejected::new(code, "its transaction does not hold the partition"))
        .and_then(|question| try_append(side, topic, data, writing.acks, question));
    match appended {
        Ok((appended, epoch)) => {
            if let Some((epoch, least_in_sync)) = epoch {
                writing.pending.push(Pending {
                    place,
                    records: Unreplicated {
                        topic: Arc::clone(topic),
                        index: data.index,
                        epoch,
                        end: appended.next_offset,
                        least_in_sync,
                    },
                });
            }
            partition_response(data.index, Ok(appended))
        }
        Err(rejected) => {
            let code = rejected.code;
            let mut response = partition_response(data.index, Err(rejected));
            let knows_leaders = side.version >= FIRST_WITH_LEADERS;
            if knows_leaders
                && code == ErrorCode::NOT_LEADER_OR_FOLLOWER
                && let Ok(replica) = topic.partition(data.index)
            {
                response.current_leader = leader(replica.lock().standing());
            }
            response
        }
    }
}

fn leader(standing: &Standing) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch {
        leader_id: standing.leader,
        leader_epoch: standing.epoch,
        ..Default::default()
    }
}

/// Gives the place in the log; and if replicas must have it first, the leader epoch and how many must be in sync.
fn try_append(
    side: &Side,
    topic: &Topic,
    data: &PartitionProduceData,
    acks: i16,
    question: Option<u64>,
) -> Result<(Appended, Option<(i32, usize)>), Rejected> {
    if topic.is_internal() {
        let message = format!("{} is written by the broker only", topic.name);
        return Err(Rejected::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
    }
    let replica = topic
        .partition(data.index)
        .map_err(|code| Rejected::new(code, "there is no such partition"))?;
    let config = side.core.settings.log_config(&topic.values);
    let records = data.records.clone().unwrap_or_default();
    let records = match side.version {
        FIRST_OF_BATCHES.. => records,
        2 => batch::of_message_set(&records, 1)?,
        _ => batch::of_message_set(&records, 0)?,
    };
    let batch = batch::check(
        records,
        &config,
        side.version >= FIRST_WITH_ZSTD,
        side.core.wall.at(side.now),
    )?
    .verified(question)
    .known_among(side.core.release().remembered_batches());
    let least_in_sync = (acks == ALL).then_some(config.least_in_sync);
    let mut replica = replica.lock();
    let appended = replica.append(&batch, least_in_sync)?;
    let is_committed = replica.visible().high_watermark >= appended.next_offset;
    let epoch = replica.standing().epoch;
    let waits = least_in_sync.filter(|_| !is_committed);
    Ok((appended, waits.map(|least| (epoch, least))))
}

fn topic_response(
    data: &TopicProduceData,
    partition_responses: Vec<PartitionProduceResponse>,
) -> TopicProduceResponse {
    TopicProduceResponse {
        name: data.name.clone(),
        topic_id: data.topic_id,
        partition_responses,
        ..Default::default()
    }
}

fn partition_response(
    index: i32,
    appended: Result<Appended, Rejected>,
) -> PartitionProduceResponse {
    match appended {
        Ok(Appended {
            base_offset,
            append_time,
            log_start,
            ..
        }) => PartitionProduceResponse {
            index,
            base_offset,
            log_append_time_ms: append_time,
            log_start_offset: log_start,
            ..Default::default()
        },
        Err(Rejected { code, message }) => PartitionProduceResponse {
            index,
            error_code: code.0,
            base_offset: -1,
            error_message: Some(message.into()),
            ..Default::default()
        },
    }
}
