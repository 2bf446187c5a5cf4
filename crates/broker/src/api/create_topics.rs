//! CreateTopics, versions 0 to 7: names, counts and settings are checked as Kafka does.

use ottla_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use ottla_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use ottla_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};
use rustc_hash::FxHashMap;

use super::{Api, Cx, Outcome};
use crate::cluster::controller::Decided;
use crate::cluster::image::Layout;
use crate::config::{TOPIC_KEYS, Values};
use crate::core::TopicError;
use crate::security::acl::{Operation, Resource};

/// From here on counts may be left to the broker (KIP-464).
const FIRST_WITH_DEFAULTS: i16 = 4;
/// Since this version the response describes the topic (KIP-525).
const FIRST_DESCRIBING: i16 = 5;

impl Api for CreateTopicsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 7 };

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
            } else if !may_create(cx, &topic.name) {
                let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
                Err(TopicError::new(code, "Authorization failed."))
            } else {
                create(cx, topic, self.validate_only)
            };
            match made {
                Ok((made, values)) => found(cx, topic, &made, &values),
                Err(error) => refused(topic, error),
            }
        });
        Outcome::Answer(CreateTopicsResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

/// Topics may be created by who may create any, or these.
pub(super) fn may_create(cx: &Cx<'_>, topic: &str) -> bool {
    cx.may(Operation::Create, Resource::CLUSTER)
        || cx.may(Operation::Create, Resource::topic(topic))
}

fn create(
    cx: &Cx<'_>,
    asked: &CreatableTopic,
    validate_only: bool,
) -> Result<(Decided, Values), TopicError> {
    let layout = layout(cx, asked)?;
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
    let made = cx
        .core
        .create_topic(&asked.name, &layout, values.clone(), validate_only)?;
    Ok((made, values))
}

/// How many partitions and replicas are asked for, by number or by assignment.
fn layout(cx: &Cx<'_>, asked: &CreatableTopic) -> Result<Layout, TopicError> {
    let nodes: Vec<i32> = cx.core.hosts().into_iter().map(|(id, _)| id).collect();
    if !asked.assignments.is_empty() {
        if asked.num_partitions != -1 || asked.replication_factor != -1 {
            let message = "with an assignment neither a partition count nor a replication factor can be given";
            return Err(TopicError::new(ErrorCode::INVALID_REQUEST, message));
        }
        check_assignments(&asked.assignments, &nodes)?;
        let mut assignments: Vec<_> = asked.assignments.iter().collect();
        assignments.sort_unstable_by_key(|assigned| assigned.partition_index);
        let assignments = assignments
            .iter()
            .map(|assigned| assigned.broker_ids.to_vec());
        return Ok(Layout {
            partitions: asked.assignments.len() as i32,
            replication: None,
            assignments: Some(assignments.collect()),
        });
    }
    let has_defaults = cx.version >= FIRST_WITH_DEFAULTS;
    let replication = match i32::from(asked.replication_factor) {
        -1 if has_defaults => None,
        factor => Some(factor),
    };
    let most = nodes.len() as i32;
    if let Some(factor) = replication.filter(|factor| !(1..=most).contains(factor)) {
        let message = format!(
            "replication factor {factor} is not possible with {most} broker{}",
            if most == 1 { "" } else { "s" }
        );
        return Err(TopicError::new(
            ErrorCode::INVALID_REPLICATION_FACTOR,
            message,
        ));
    }
    let partitions = match asked.num_partitions {
        -1 if has_defaults => cx.core.settings.default_partitions,
        count => count,
    };
    Ok(Layout {
        replication,
        ..Layout::of(partitions)
    })
}

fn check_assignments(
    assignments: &[CreatableReplicaAssignment],
    nodes: &[i32],
) -> Result<(), TopicError> {
    let mut indexes: Vec<i32> = assignments
        .iter()
        .map(|assigned| assigned.partition_index)
        .collect();
    indexes.sort_unstable();
    let wrong = if indexes.iter().copied().eq(0..assignments.len() as i32) {
        let mut assigned = assignments.iter().map(|assigned| &*assigned.broker_ids);
        assigned.find_map(|replicas| wrong_replicas(replicas, nodes))
    } else {
        Some("partitions must be numbered from 0 without gaps".to_owned())
    };
    match wrong {
        None => Ok(()),
        Some(wrong) => Err(TopicError::new(
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            wrong,
        )),
    }
}

/// What is wrong with the replicas of a partition.
pub(super) fn wrong_replicas(replicas: &[i32], nodes: &[i32]) -> Option<String> {
    if let [node] = nodes {
        return (*replicas != [*node]).then(|| {
            format!("each partition must be assigned to broker {node} alone, the only one there is")
        });
    }
    let is_twice =
        |(index, node): (usize, &i32)| replicas.iter().skip(index + 1).any(|it| it == node);
    if replicas.is_empty() {
        Some("each partition must be assigned to a broker".to_owned())
    } else if let Some(unknown) = replicas.iter().find(|node| !nodes.contains(node)) {
        Some(format!("there is no broker {unknown}"))
    } else if replicas.iter().enumerate().any(is_twice) {
        Some("a partition is assigned to a broker twice".to_owned())
    } else {
        None
    }
}

fn found(
    cx: &Cx<'_>,
    asked: &CreatableTopic,
    topic: &Decided,
    values: &Values,
) -> CreatableTopicResult {
    let mut answer = CreatableTopicResult {
        name: asked.name.clone(),
        topic_id: topic.id,
        // The default of the schema is an empty text; Kafka returns null.
        error_message: None,
        ..Default::default()
    };
    if !cx.may(Operation::DescribeConfigs, Resource::topic(&asked.name)) {
        answer.topic_config_error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    } else if cx.version >= FIRST_DESCRIBING {
        answer.num_partitions = topic.partitions;
        answer.replication_factor = i16::try_from(topic.replication).unwrap_or(i16::MAX);
        let rows = cx.core.settings.topic_rows(values);
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
