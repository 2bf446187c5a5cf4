//! Produce, versions 3 to 13: one record batch (magic 2) per partition; from version 13 topics go by id.
//!
//! Version 0 is advertised, as Kafka 4 does (KAFKA-18659): librdkafka takes the lower bound for a sign of which features
//! the broker has. Versions 0 to 2 still end the connection.

use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::{ProduceRequest, ProduceResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::storage::batch::{self, Rejected};
use crate::storage::log::Appended;
use crate::topics::Topic;

const FIRST_BY_ID: i16 = 13;
/// From here on zstd is allowed (KIP-110).
const FIRST_WITH_ZSTD: i16 = 7;

impl Api for ProduceRequest {
    const HANDLED: Versions = Versions { min: 3, max: 13 };
    const ADVERTISED: Versions = Versions { min: 0, max: 13 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ProduceResponse> {
        let answer = if self.transactional_id.is_some() {
            self.refuse(cx.version, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        } else if !(-1..=1).contains(&self.acks) {
            self.refuse(cx.version, ErrorCode::INVALID_REQUIRED_ACKS)
        } else {
            let responses = self
                .topic_data
                .iter()
                .map(|topic| append_to_topic(cx, topic))
                .collect();
            ProduceResponse {
                responses,
                ..Default::default()
            }
        };
        if self.is_answered() {
            Outcome::Answer(answer)
        } else {
            without_answer(&answer)
        }
    }

    fn is_answered(&self) -> bool {
        self.acks != 0
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

fn append_to_topic(cx: &Cx<'_>, data: &TopicProduceData) -> TopicProduceResponse {
    let topic = if cx.version < FIRST_BY_ID {
        cx.core.topic(&data.name)
    } else {
        cx.core.topic_by_id(data.topic_id)
    };
    let partitions = data.partition_data.iter().map(|partition| {
        let appended = match &topic {
            Ok(topic) => append(cx, topic, partition),
            Err(code) => Err(Rejected::new(*code, "there is no such topic")),
        };
        partition_response(partition.index, appended)
    });
    topic_response(data, partitions.collect())
}

fn append(cx: &Cx<'_>, topic: &Topic, data: &PartitionProduceData) -> Result<Appended, Rejected> {
    if topic.is_internal() {
        let message = format!("{} is written by the broker only", topic.name);
        return Err(Rejected::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
    }
    let log = topic
        .partition(data.index)
        .map_err(|code| Rejected::new(code, "there is no such partition"))?;
    let config = cx.core.settings.log_config(&topic.values);
    let records = data.records.clone().unwrap_or_default();
    let batch = batch::check(
        records,
        &config,
        cx.version >= FIRST_WITH_ZSTD,
        cx.now.unix_ms,
    )?;
    log.lock().append(&batch)
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
