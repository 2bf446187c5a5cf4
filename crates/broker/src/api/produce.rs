//! Produce, versions 0 to 13: one record batch (magic 2) per partition, before version 3 a message set, which the log keeps as
//! one; from version 13 topics go by id.
//!
//! With acks=all the answer comes when all replicas in sync have the records. From version 10 it says who leads instead
//! (KIP-951).

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_protocol::messages::{ProduceRequest, ProduceResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome, Wait};
use crate::cluster::image::Address;
use crate::now::Now;
use crate::replicas::Unreplicated;
use crate::security::acl::{Operation, Resource};
use crate::storage::batch::{self, Rejected};
use crate::storage::log::Appended;
use crate::storage::replica::{Standing, Watcher};
use crate::topics::Topic;

const FIRST_BY_ID: i16 = 13;
/// From here on there are record batches (KIP-98).
const FIRST_OF_BATCHES: i16 = 3;
/// From here on zstd is allowed (KIP-110).
const FIRST_WITH_ZSTD: i16 = 7;
const FIRST_WITH_LEADERS: i16 = 10;
const ALL: i16 = -1;

impl Api for ProduceRequest {
    const HANDLED: Versions = Versions { min: 0, max: 13 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ProduceResponse> {
        let mut pending = Vec::new();
        let answer = if self.transactional_id.is_some() {
            self.refuse(cx.version, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        } else if !(-1..=1).contains(&self.acks) {
            self.refuse(cx.version, ErrorCode::INVALID_REQUIRED_ACKS)
        } else {
            let mut responses = Vec::with_capacity(self.topic_data.len());
            for topic in &self.topic_data {
                let place = responses.len();
                responses.push(append_to_topic(cx, topic, self.acks, place, &mut pending));
            }
            ProduceResponse {
                responses,
                ..Default::default()
            }
        };
        if !self.is_answered() {
            return without_answer(&answer);
        }
        let answer = with_leaders(cx, answer);
        if pending.is_empty() {
            return Outcome::Answer(answer);
        }
        let timeout = Duration::from_millis(u64::try_from(self.timeout_ms).unwrap_or(0));
        let waiting = Waiting {
            answer,
            pending,
            deadline: cx
                .now
                .instant
                .checked_add(timeout)
                .unwrap_or(cx.now.instant),
            waker: cx.client.waker.clone(),
        };
        waiting.look(cx.now)
    }

    fn is_answered(&self) -> bool {
        self.acks != 0
    }
}

/// An answer that waits for replicas.
struct Waiting {
    answer: ProduceResponse,
    pending: Vec<Pending>,
    deadline: Instant,
    waker: Waker,
}

/// A partition whose replicas do not have all of it yet.
struct Pending {
    /// Of its topic and its own, in the answer.
    place: (usize, usize),
    records: Unreplicated,
}

impl Waiting {
    /// Answers if nothing is waited for any more, or the time is over.
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

/// With acks=0 the only way to tell the client that something went wrong is to close the connection.
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

/// Says where to find the leaders that the answer names.
fn with_leaders(cx: &Cx<'_>, mut answer: ProduceResponse) -> ProduceResponse {
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
        let nodes = cx.nodes().into_iter();
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
    cx: &Cx<'_>,
    data: &TopicProduceData,
    acks: i16,
    place: usize,
    pending: &mut Vec<Pending>,
) -> TopicProduceResponse {
    let topic = if cx.version < FIRST_BY_ID {
        cx.core.topic(&data.name)
    } else {
        cx.core.topic_by_id(data.topic_id)
    };
    let name = topic.as_ref().map_or(&data.name, |topic| &topic.name);
    let allowed = match topic {
        Err(_) if name.is_empty() => Ok(()),
        _ => cx.check(Operation::Write, Resource::topic(name)),
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
            (Ok(topic), _) => append(cx, topic, partition, acks, place, pending),
        };
        responses.push(response);
    }
    topic_response(data, responses)
}

fn append(
    cx: &Cx<'_>,
    topic: &Arc<Topic>,
    data: &PartitionProduceData,
    acks: i16,
    place: (usize, usize),
    pending: &mut Vec<Pending>,
) -> PartitionProduceResponse {
    match try_append(cx, topic, data, acks) {
        Ok((appended, epoch)) => {
            if let Some((epoch, least_in_sync)) = epoch {
                pending.push(Pending {
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
            let knows_leaders = cx.version >= FIRST_WITH_LEADERS;
            if knows_leaders && code == ErrorCode::NOT_LEADER_OR_FOLLOWER {
                if let Ok(replica) = topic.partition(data.index) {
                    response.current_leader = leader(replica.lock().standing());
                }
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
    cx: &Cx<'_>,
    topic: &Topic,
    data: &PartitionProduceData,
    acks: i16,
) -> Result<(Appended, Option<(i32, usize)>), Rejected> {
    if topic.is_internal() {
        let message = format!("{} is written by the broker only", topic.name);
        return Err(Rejected::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
    }
    let replica = topic
        .partition(data.index)
        .map_err(|code| Rejected::new(code, "there is no such partition"))?;
    let config = cx.core.settings.log_config(&topic.values);
    let records = data.records.clone().unwrap_or_default();
    let records = match cx.version {
        FIRST_OF_BATCHES.. => records,
        2 => batch::of_message_set(&records, 1)?,
        _ => batch::of_message_set(&records, 0)?,
    };
    let batch = batch::check(
        records,
        &config,
        cx.version >= FIRST_WITH_ZSTD,
        cx.now.unix_ms,
    )?;
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
