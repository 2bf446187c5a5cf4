//! OffsetDelete, version 0 (KIP-496): committed offsets of topics that no member of the group reads.

use ottla_protocol::messages::offset_delete_request::OffsetDeleteRequestTopic;
use ottla_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use ottla_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::once_replicated;
use super::{Api, Cx, Outcome};
use crate::group::Stored;
use crate::security::acl::{Operation, Resource};

impl Api for OffsetDeleteRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<OffsetDeleteResponse> {
        let version = cx.version;
        if let Err(code) = cx.check_group(Operation::Delete, &self.group_id) {
            return Outcome::Answer(self.refuse(version, code));
        }
        let group = &*self.group_id;
        let deleted = cx.core.with_groups(cx.now, |groups| {
            let mut stored = Vec::new();
            let mut topics = Vec::new();
            for topic in &self.topics {
                let checked = match groups.check_forget(group, &topic.name) {
                    Err(code) if code != ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => return Err(code),
                    checked => cx
                        .check(Operation::Read, Resource::topic(&topic.name))
                        .and_then(|()| cx.core.topic(&topic.name).map(drop))
                        .and(checked),
                };
                if checked.is_ok() {
                    stored.extend(topic.partitions.iter().map(|partition| Stored {
                        group: group.to_owned(),
                        topic: topic.name.to_string(),
                        partition: partition.partition_index,
                        committed: None,
                    }));
                }
                topics.push(respond(topic, checked.err().unwrap_or(ErrorCode::NONE)));
            }
            // What was never committed needs no record.
            stored.retain(|it| {
                let offsets = groups.offsets(group);
                offsets.is_some_and(|offsets| offsets.committed(&it.topic, it.partition).is_some())
            });
            let unreplicated = cx.core.store(groups, stored, None, cx.now)?;
            Ok((topics, unreplicated))
        });
        let (topics, unreplicated) = match deleted {
            Ok(deleted) => deleted,
            Err(code) => return Outcome::Answer(self.refuse(version, code)),
        };
        let waker = cx.client.waker.clone();
        once_replicated(unreplicated, waker, cx.now, move |kept| {
            Outcome::Answer(match kept {
                Ok(()) => OffsetDeleteResponse {
                    topics,
                    ..Default::default()
                },
                Err(code) => self.refuse(version, code),
            })
        })
    }
}

fn respond(topic: &OffsetDeleteRequestTopic, code: ErrorCode) -> OffsetDeleteResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: code.0,
        });
    OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
    }
}
