//! CreateTopics, versions 2 to 7: names, counts and settings are checked as Kafka does; there is one node to put replicas on.

use std::sync::Arc;

use ottla_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use ottla_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use ottla_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};
use rustc_hash::FxHashMap;

use super::{Api, Cx, Outcome};
use crate::config::{TOPIC_KEYS, Values};
use crate::core::TopicError;
use crate::topics::Topic;

/// From here on counts may be left to the broker (KIP-464).
const FIRST_WITH_DEFAULTS: i16 = 4;
/// From here on the answer describes the topic (KIP-525).
const FIRST_DESCRIBING: i16 = 5;

impl Api for CreateTopicsRequest {
    const HANDLED: Versions = Versions { min: 2, max: 7 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<CreateTopicsResponse> {
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        for topic in &self.topics {
            *counts.entry(&topic.name).or_default() += 1;
        }
        let topics = self.topics.iter().map(|topic| {
            let is_repeated = counts.get(&*topic.name).is_some_and(|count| *count > 1);
            let made = if is_repeated {
                Err(TopicError::new(
                    ErrorCode::INVALID_REQUEST,
                    format!("topic \"{}\" is asked for twice", topic.name),
                ))
            } else {
                create(cx, topic, self.validate_only)
            };
            match made {
                Ok(made) => found(cx, topic, &made, self.validate_only),
                Err(error) => refused(topic, error),
            }
        });
        Outcome::Answer(CreateTopicsResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

fn create(
    cx: &Cx<'_>,
    asked: &CreatableTopic,
    validate_only: bool,
) -> Result<Arc<Topic>, TopicError> {
    let partitions = partitions(cx, asked)?;
    let mut values = Values::default();
    for config in &asked.configs {
        let invalid = |what| TopicError::new(ErrorCode::INVALID_CONFIG, what);
        let value = config
            .value
            .as_deref()
            .ok_or_else(|| invalid(format!("{} has no value", config.name)))?;
        values
            .set(TOPIC_KEYS, &config.name, value)
            .map_err(invalid)?;
    }
    cx.core
        .create_topic(&asked.name, partitions, values, validate_only)
}

/// How many partitions are asked for, by number or by assignment.
fn partitions(cx: &Cx<'_>, asked: &CreatableTopic) -> Result<i32, TopicError> {
    let node = cx.core.node.id;
    if !asked.assignments.is_empty() {
        if asked.num_partitions != -1 || asked.replication_factor != -1 {
            let message = "with an assignment neither a partition count nor a replication factor can be given";
            return Err(TopicError::new(ErrorCode::INVALID_REQUEST, message));
        }
        check_assignments(&asked.assignments, node)?;
        return Ok(asked.assignments.len() as i32);
    }
    let has_defaults = cx.version >= FIRST_WITH_DEFAULTS;
    if asked.replication_factor != 1 && !(has_defaults && asked.replication_factor == -1) {
        let message = format!(
            "replication factor {} is not possible with 1 broker",
            asked.replication_factor
        );
        return Err(TopicError::new(
            ErrorCode::INVALID_REPLICATION_FACTOR,
            message,
        ));
    }
    match asked.num_partitions {
        -1 if has_defaults => Ok(cx.core.settings.default_partitions),
        count => Ok(count),
    }
}

fn check_assignments(
    assignments: &[CreatableReplicaAssignment],
    node: i32,
) -> Result<(), TopicError> {
    let mut indexes: Vec<i32> = assignments
        .iter()
        .map(|assigned| assigned.partition_index)
        .collect();
    indexes.sort_unstable();
    let wrong = if !indexes.iter().copied().eq(0..assignments.len() as i32) {
        "partitions must be numbered from 0 without gaps".to_owned()
    } else if assignments
        .iter()
        .any(|assigned| *assigned.broker_ids != [node])
    {
        format!("each partition must be assigned to broker {node} alone, the only one there is")
    } else {
        return Ok(());
    };
    Err(TopicError::new(
        ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        wrong,
    ))
}

fn found(
    cx: &Cx<'_>,
    asked: &CreatableTopic,
    topic: &Topic,
    validate_only: bool,
) -> CreatableTopicResult {
    let mut answer = CreatableTopicResult {
        name: asked.name.clone(),
        topic_id: topic.id,
        ..Default::default()
    };
    if cx.version >= FIRST_DESCRIBING {
        answer.num_partitions = if validate_only {
            partitions(cx, asked).unwrap_or(-1)
        } else {
            topic.partitions.len() as i32
        };
        answer.replication_factor = 1;
        let rows = cx.core.settings.topic_rows(&topic.values);
        let rows = rows.map(|(key, value, source)| CreatableTopicConfigs {
            name: Str::from_static(key.name),
            value: Some(value.into()),
            config_source: source as i8,
            ..Default::default()
        });
        answer.configs = Some(rows.collect());
    }
    answer
}

fn refused(
    asked: &CreatableTopic,
    TopicError { code, message }: TopicError,
) -> CreatableTopicResult {
    CreatableTopicResult {
        name: asked.name.clone(),
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
