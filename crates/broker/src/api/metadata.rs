//! Metadata, versions 0 to 13: all topics or some, by name or from version 12 by id (KIP-516).
//!
//! Version 0 asks for all with an empty list, later ones with null. An unknown topic asked for by name is made where the
//! broker's settings and, from version 4, the request allow it.

use std::sync::Arc;

use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use ottla_protocol::{ErrorCode, Ints, Uuid, Versions};

use super::{Api, Cx, Outcome, operations};
use crate::config::Values;
use crate::core::Core;
use crate::storage::log::LEADER_EPOCH;
use crate::topics::{OFFSETS_TOPIC, Topic, check_name};

const FIRST_BY_ID: i16 = 12;

impl Api for MetadataRequest {
    const HANDLED: Versions = Versions { min: 0, max: 13 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<MetadataResponse> {
        let operations = if self.include_topic_authorized_operations {
            operations::TOPIC
        } else {
            operations::UNKNOWN
        };
        let wants_all = self
            .topics
            .as_ref()
            .is_none_or(|topics| cx.version == 0 && topics.is_empty());
        let topics = if wants_all {
            cx.core
                .topics()
                .iter()
                .map(|topic| found(cx.core, topic, operations))
                .collect()
        } else {
            let may_make = cx.core.settings.auto_create_topics
                && (cx.version < 4 || self.allow_auto_topic_creation);
            let asked = self.topics.iter().flatten();
            asked
                .map(|topic| look_up(cx, topic, may_make, operations))
                .collect()
        };
        let core = cx.core;
        Outcome::Answer(MetadataResponse {
            brokers: vec![MetadataResponseBroker {
                node_id: core.node.id,
                host: core.node.host.clone(),
                port: core.node.port,
                ..Default::default()
            }],
            cluster_id: Some(core.cluster_id.clone()),
            controller_id: core.node.id,
            topics,
            cluster_authorized_operations: if self.include_cluster_authorized_operations {
                operations::CLUSTER
            } else {
                operations::UNKNOWN
            },
            ..Default::default()
        })
    }
}

fn look_up(
    cx: &Cx<'_>,
    asked: &MetadataRequestTopic,
    may_make: bool,
    operations: i32,
) -> MetadataResponseTopic {
    let looked_up = match &asked.name {
        Some(name) => by_name(cx.core, name, may_make),
        None if cx.version < FIRST_BY_ID || asked.topic_id == Uuid::ZERO => {
            Err(ErrorCode::INVALID_REQUEST)
        }
        None => cx.core.topic_by_id(asked.topic_id),
    };
    match looked_up {
        Ok(topic) => found(cx.core, &topic, operations),
        Err(code) => refused(cx.version, asked, code),
    }
}

fn by_name(core: &Core, name: &str, may_make: bool) -> Result<Arc<Topic>, ErrorCode> {
    match core.topic(name) {
        Err(code) if check_name(name).is_err() || !may_make || name == OFFSETS_TOPIC => {
            Err(if check_name(name).is_err() {
                ErrorCode::INVALID_TOPIC_EXCEPTION
            } else {
                code
            })
        }
        Err(_) => match core.create_topic(
            name,
            core.settings.default_partitions,
            Values::default(),
            false,
        ) {
            Err(error) if error.code == ErrorCode::TOPIC_ALREADY_EXISTS => core.topic(name),
            made => made.map_err(|error| error.code),
        },
        found => found,
    }
}

fn found(core: &Core, topic: &Topic, topic_authorized_operations: i32) -> MetadataResponseTopic {
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: core.node.id,
        leader_epoch: LEADER_EPOCH,
        replica_nodes: Ints::from_slice(&[core.node.id]),
        isr_nodes: Ints::from_slice(&[core.node.id]),
        ..Default::default()
    };
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: (0..topic.partitions.len() as i32).map(partition).collect(),
        topic_authorized_operations,
        ..Default::default()
    }
}

fn refused(version: i16, asked: &MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
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
