//! DescribeTopicPartitions, version 0 (KIP-966): topics in the order of their names, a limited number of partitions in each
//! response, and a cursor to the partition that follows.

use std::collections::BTreeSet;

use ottla_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use ottla_protocol::messages::metadata_response::MetadataResponsePartition;
use ottla_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use ottla_protocol::{ErrorCode, Ints, Str, Versions};

use super::{Api, Cx, Outcome, metadata, operations};
use crate::security::acl::{Operation, Resource};
use crate::topics::check_name;

/// Kafka's default of `max.request.partition.size.limit`.
const MOST_PARTITIONS: usize = 2000;

impl Api for DescribeTopicPartitionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeTopicPartitionsResponse> {
        let is_valid = self.cursor.as_ref().is_none_or(|cursor| {
            let mut topics = self.topics.iter();
            cursor.partition_index >= 0
                && (self.topics.is_empty() || topics.any(|topic| topic.name == cursor.topic_name))
        });
        if !is_valid {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        let limit = usize::try_from(self.response_partition_limit).unwrap_or(0);
        let mut response = DescribeTopicPartitionsResponse::default();
        let mut left = limit.clamp(1, MOST_PARTITIONS);
        let (topics, unauthorized) = self.requested(cx);
        let up: Vec<i32> = cx.nodes().into_iter().map(|(id, _)| id).collect();
        for name in topics {
            if left == 0 {
                response.next_cursor = Some(cursor(name, 0));
                break;
            }
            let first = match &self.cursor {
                Some(cursor) if cursor.topic_name == name => cursor.partition_index as usize,
                _ => 0,
            };
            let topic = describe(cx, &name, &up, first, left);
            let (topic, next) = match topic {
                Ok(found) => found,
                Err(_) if self.topics.is_empty() => continue,
                Err(code) => (refused(cx, &name, code), None),
            };
            left -= topic.partitions.len();
            response.topics.push(topic);
            if let Some(next) = next {
                response.next_cursor = Some(cursor(name, next));
                break;
            }
        }
        response.topics.extend(unauthorized);
        Outcome::Answer(response)
    }
}

trait Requested {
    /// The names of the topics from the cursor on, and the rows of those that the client may not describe.
    fn requested(&self, cx: &Cx<'_>) -> (BTreeSet<Str>, Vec<DescribeTopicPartitionsResponseTopic>);
}

impl Requested for DescribeTopicPartitionsRequest {
    fn requested(&self, cx: &Cx<'_>) -> (BTreeSet<Str>, Vec<DescribeTopicPartitionsResponseTopic>) {
        let all = self.topics.is_empty();
        let names: BTreeSet<Str> = if all {
            let topics = cx.core.topics();
            topics.iter().map(|topic| topic.name.clone()).collect()
        } else {
            self.topics.iter().map(|topic| topic.name.clone()).collect()
        };
        let from = self.cursor.as_ref().map(|cursor| &cursor.topic_name);
        let names = names
            .into_iter()
            .filter(|name| from.is_none_or(|from| name >= from));
        let (allowed, denied): (BTreeSet<Str>, BTreeSet<Str>) =
            names.partition(|name| cx.may(Operation::Describe, Resource::topic(name)));
        let denied = denied.into_iter().filter(|_| !all);
        let rows = denied.map(|name| DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
            name: Some(name),
            ..Default::default()
        });
        (allowed, rows.collect())
    }
}

/// A topic with at most `most` partitions from `first` on, and the number of the partition that follows.
fn describe(
    cx: &Cx<'_>,
    name: &str,
    up: &[i32],
    first: usize,
    most: usize,
) -> Result<(DescribeTopicPartitionsResponseTopic, Option<usize>), ErrorCode> {
    let topic = cx.core.topic(name).map_err(|code| match check_name(name) {
        Ok(()) => code,
        Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
    })?;
    let all = cx.operations(Resource::topic(name), operations::TOPIC);
    let found = metadata::found(&topic, up, all);
    let end = first.saturating_add(most);
    let next = (end < found.partitions.len()).then_some(end);
    let partitions = found.partitions.into_iter().skip(first).take(most);
    let described = DescribeTopicPartitionsResponseTopic {
        error_code: found.error_code,
        name: found.name,
        topic_id: found.topic_id,
        is_internal: found.is_internal,
        partitions: partitions.map(partition).collect(),
        topic_authorized_operations: found.topic_authorized_operations,
        ..Default::default()
    };
    Ok((described, next))
}

fn partition(row: MetadataResponsePartition) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition {
        error_code: row.error_code,
        partition_index: row.partition_index,
        leader_id: row.leader_id,
        leader_epoch: row.leader_epoch,
        replica_nodes: row.replica_nodes,
        isr_nodes: row.isr_nodes,
        eligible_leader_replicas: Some(Ints::default()),
        last_known_elr: Some(Ints::default()),
        offline_replicas: row.offline_replicas,
        ..Default::default()
    }
}

fn refused(cx: &Cx<'_>, name: &Str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: code.0,
        name: Some(name.clone()),
        topic_authorized_operations: cx.operations(Resource::topic(name), operations::TOPIC),
        ..Default::default()
    }
}

fn cursor(topic_name: Str, partition: usize) -> Cursor {
    Cursor {
        topic_name,
        partition_index: i32::try_from(partition).unwrap_or(i32::MAX),
        ..Default::default()
    }
}
