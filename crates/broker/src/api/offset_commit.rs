//! OffsetCommit, versions 0 to 10: version 0 commits into ZooKeeper, at any node; from version 10 topics go by id.

use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use ottla_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::once_replicated;
use super::offsets::{Asked, to_store};
use super::{Api, Cx, Outcome};
use crate::group::{AsMember, Committing, Stored};
use crate::security::acl::{Operation, Resource};

/// From here on members of the consumer protocol commit, and a group that is not there has a code of its own (KIP-848).
const FIRST_WITH_EPOCHS: i16 = 9;
const FIRST_BY_ID: i16 = 10;

impl Api for OffsetCommitRequest {
    const HANDLED: Versions = Versions { min: 0, max: 10 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<OffsetCommitResponse> {
        if cx.version == 0 {
            return Outcome::Answer(into_zookeeper(&self, cx));
        }
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let as_member = AsMember {
            id: self.member_id.to_string(),
            instance: self.group_instance_id.as_ref().map(ToString::to_string),
            generation: self.generation_id_or_member_epoch,
        };
        let mut stored = Vec::new();
        let answer = respond(&self, |topic, asked| match check(&self, cx, topic, asked) {
            Ok(checked) => {
                stored.push(checked);
                ErrorCode::NONE
            }
            Err(code) => code,
        });
        let how = match cx.version {
            ..FIRST_WITH_EPOCHS => Committing::BeforeEpochs,
            _ => Committing::WithEpochs,
        };
        let committed = cx.core.with_groups(cx.now, |groups| {
            groups.check_commit(&self.group_id, &as_member, how, &stored, cx.now.instant)?;
            cx.core.store(groups, stored, None, cx.now)
        });
        let version = cx.version;
        match committed {
            Err(code) => Outcome::Answer(self.refuse(version, code)),
            Ok(unreplicated) => {
                let waker = cx.client.waker.clone();
                once_replicated(unreplicated, waker, cx.now, move |kept| {
                    Outcome::Answer(match kept {
                        Ok(()) => answer,
                        Err(code) => self.refuse(version, code),
                    })
                })
            }
        }
    }
}

fn into_zookeeper(request: &OffsetCommitRequest, cx: &Cx<'_>) -> OffsetCommitResponse {
    let group = &*request.group_id;
    if let Err(code) = cx.check(Operation::Read, Resource::group(group)) {
        return request.refuse(cx.version, code);
    }
    respond(request, |topic, asked| {
        match check(request, cx, topic, asked) {
            Ok(_) => {
                let (partition, offset) = (asked.partition_index, asked.committed_offset);
                cx.core
                    .zookeeper
                    .commit(group, &topic.name, partition, offset);
                ErrorCode::NONE
            }
            Err(code) => code,
        }
    })
}

fn check(
    request: &OffsetCommitRequest,
    cx: &Cx<'_>,
    topic: &OffsetCommitRequestTopic,
    asked: &OffsetCommitRequestPartition,
) -> Result<Stored, ErrorCode> {
    to_store(
        cx,
        Asked {
            group: &request.group_id,
            topic: &topic.name,
            topic_id: (cx.version >= FIRST_BY_ID).then_some(topic.topic_id),
            partition: asked.partition_index,
            offset: asked.committed_offset,
            leader_epoch: asked.committed_leader_epoch,
            metadata: asked.committed_metadata.as_deref(),
        },
    )
}

fn respond(
    request: &OffsetCommitRequest,
    mut code_of: impl FnMut(&OffsetCommitRequestTopic, &OffsetCommitRequestPartition) -> ErrorCode,
) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|asked| OffsetCommitResponsePartition {
                partition_index: asked.partition_index,
                error_code: code_of(topic, asked).0,
                ..Default::default()
            });
        OffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            ..Default::default()
        }
    });
    OffsetCommitResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}
