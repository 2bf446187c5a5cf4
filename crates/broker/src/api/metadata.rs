//! Metadata, versions 0 to 13: all topics or some, by name or from version 12 by id (KIP-516).
//!
//! Version 0 requests all topics with an empty list, later ones with null. An unknown topic that is
//! requested by name is created where the broker's settings and, since version 4, the request allow
//! it.

use std::sync::Arc;

use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use ottla_protocol::{ErrorCode, Ints, Uuid, Versions};
use parking_lot::Mutex;

use super::create_topics::may_create;
use super::describe_cluster::cluster_operations;
use super::{Api, Cx, Outcome, operations};
use crate::cluster::image::Layout;
use crate::config::Values;
use crate::security::acl::{Operation, Resource};
use crate::storage::replica::{NO_LEADER, Replica};
use crate::topics::{OFFSETS_TOPIC, Topic, check_name};

const FIRST_BY_ID: i16 = 12;

impl Api for MetadataRequest {
    const HANDLED: Versions = Versions { min: 0, max: 13 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<MetadataResponse> {
        let nodes = cx.nodes();
        let up: Vec<i32> = nodes.iter().map(|(id, _)| *id).collect();
        let operations = |topic: &str| {
            if self.include_topic_authorized_operations {
                cx.operations(Resource::topic(topic), operations::TOPIC)
            } else {
                operations::UNKNOWN
            }
        };
        let wants_all = self
            .topics
            .as_ref()
            .is_none_or(|topics| cx.version == 0 && topics.is_empty());
        let topics = if wants_all {
            cx.core
                .topics()
                .iter()
                .filter(|topic| cx.may(Operation::Describe, Resource::topic(&topic.name)))
                .map(|topic| found(topic, &up, operations(&topic.name)))
                .collect()
        } else {
            let may_make = cx.core.settings.auto_create_topics
                && (cx.version < 4 || self.allow_auto_topic_creation);
            let asked = self.topics.iter().flatten();
            asked
                .map(|topic| look_up(cx, topic, may_make, &up, &operations))
                .collect()
        };
        let brokers = nodes.into_iter();
        let brokers = brokers.map(|(node_id, address)| MetadataResponseBroker {
            node_id,
            host: address.host,
            port: address.port,
            ..Default::default()
        });
        Outcome::Answer(MetadataResponse {
            brokers: brokers.collect(),
            cluster_id: Some(cx.core.cluster_id.clone()),
            controller_id: cx.core.controller_node(),
            topics,
            cluster_authorized_operations: cluster_operations(
                cx,
                self.include_cluster_authorized_operations,
            ),
            ..Default::default()
        })
    }
}

fn look_up(
    cx: &Cx<'_>,
    asked: &MetadataRequestTopic,
    may_make: bool,
    up: &[i32],
    operations: &impl Fn(&str) -> i32,
) -> MetadataResponseTopic {
    let looked_up = match &asked.name {
        Some(name) => by_name(cx, name, may_make),
        None if cx.version < FIRST_BY_ID || asked.topic_id == Uuid::ZERO => {
            Err(ErrorCode::INVALID_REQUEST)
        }
        None => cx.core.topic_by_id(asked.topic_id).and_then(|topic| {
            cx.check(Operation::Describe, Resource::topic(&topic.name))?;
            Ok(topic)
        }),
    };
    match looked_up {
        Ok(topic) => found(&topic, up, operations(&topic.name)),
        Err(code) => refused(cx.version, asked, code, operations),
    }
}

fn by_name(cx: &Cx<'_>, name: &str, may_make: bool) -> Result<Arc<Topic>, ErrorCode> {
    let core = cx.core;
    // A client that may not see a topic does not learn whether it exists.
    cx.check(Operation::Describe, Resource::topic(name))?;
    match core.topic(name) {
        Err(code) if check_name(name).is_err() || !may_make || name == OFFSETS_TOPIC => {
            Err(if check_name(name).is_err() {
                ErrorCode::INVALID_TOPIC_EXCEPTION
            } else {
                code
            })
        }
        Err(_) if !may_create(cx, name) => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        Err(_) => match core.create_topic(
            name,
            &Layout::of(core.settings.default_partitions),
            Values::default(),
            false,
        ) {
            Err(error) if error.code != ErrorCode::TOPIC_ALREADY_EXISTS => Err(error.code),
            // This node may have to hear of it first.
            _ => core.topic(name),
        },
        found => found,
    }
}

pub(super) fn found(
    topic: &Topic,
    up: &[i32],
    topic_authorized_operations: i32,
) -> MetadataResponseTopic {
    let partition = |(index, replica): (usize, &Arc<Mutex<Replica>>)| {
        let replica = replica.lock();
        let standing = replica.standing();
        let offline = standing.replicas.iter().filter(|node| !up.contains(node));
        let offline: Vec<i32> = offline.copied().collect();
        MetadataResponsePartition {
            error_code: if standing.leader == NO_LEADER {
                ErrorCode::LEADER_NOT_AVAILABLE.0
            } else {
                0
            },
            partition_index: index as i32,
            leader_id: standing.leader,
            leader_epoch: standing.epoch,
            replica_nodes: Ints::from_slice(&standing.replicas),
            isr_nodes: Ints::from_slice(&standing.in_sync),
            offline_replicas: Ints::from_slice(&offline),
            ..Default::default()
        }
    };
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: topic.partitions.iter().enumerate().map(partition).collect(),
        topic_authorized_operations,
        ..Default::default()
    }
}

fn refused(
    version: i16,
    asked: &MetadataRequestTopic,
    code: ErrorCode,
    operations: &impl Fn(&str) -> i32,
) -> MetadataResponseTopic {
    MetadataResponseTopic {
        // As Kafka returns them: of a topic by name also where it does not exist, but not where it may not be described.
        topic_authorized_operations: match &asked.name {
            Some(name) if code != ErrorCode::TOPIC_AUTHORIZATION_FAILED => operations(name),
            _ => operations::UNKNOWN,
        },
        error_code: code.0,
        name: if version < FIRST_BY_ID {
            Some(asked.name.clone().unwrap_or_default())
        } else {
            asked.name.clone()
        },
        topic_id: asked.topic_id,
        ..Default::default()
    }
}
