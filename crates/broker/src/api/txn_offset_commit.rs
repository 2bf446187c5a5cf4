//! TxnOffsetCommit, versions 0 to 6: offsets that count when the producer's transaction is committed.
//!
//! Since version 3 a producer sends the member that commits (KIP-447). Since version 5 the
//! partition that keeps the offsets is added to the transaction by itself (KIP-890), before that
//! the producer must have added it. Since version 6 topics go by id.

use ottla_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use ottla_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::{joined, once_replicated, once_told};
use super::offsets::{Asked, to_store};
use super::{Api, Cx, Outcome};
use crate::core::{Core, Within};
use crate::group::{AsMember, Committing, Stored};
use crate::now::Now;
use crate::replicas::Unreplicated;
use crate::security::acl::{Operation, Resource};
use crate::transaction::{Add, Adding, Identity, Protocol, Reply};

const FIRST_WITH_ABORTABLE: i16 = 4;
const FIRST_THAT_ADDS: i16 = 5;
const FIRST_BY_ID: i16 = 6;

impl Api for TxnOffsetCommitRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<TxnOffsetCommitResponse> {
        let version = cx.version;
        let id = Resource::transactional_id(&self.transactional_id);
        let allowed = cx
            .check(Operation::Write, id)
            .and_then(|()| cx.check_group(Operation::Read, &self.group_id));
        if let Err(code) = allowed {
            return Outcome::Answer(self.refuse(version, code));
        }
        let mut stored = Vec::new();
        let answer = respond(&self, |topic, asked| match check(&self, cx, topic, asked) {
            Ok(checked) => {
                stored.push(checked);
                ErrorCode::NONE
            }
            Err(code) => code,
        });
        if stored.is_empty() {
            return Outcome::Answer(answer);
        }
        let Ok(place) = cx.core.offsets_of(&self.group_id) else {
            let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            return Outcome::Answer(self.refuse(version, code));
        };
        let producer = Identity {
            producer_id: self.producer_id,
            epoch: self.producer_epoch,
        };
        let add = Add {
            id: self.transactional_id.to_string(),
            producer,
            partitions: vec![place.clone()],
            how: if version >= FIRST_THAT_ADDS {
                Adding::Add(Protocol::EpochEach)
            } else {
                Adding::Verify
            },
        };
        let question = match cx.core.question_of_group(&place, producer) {
            Ok(question) => question,
            Err(code) => return Outcome::Answer(self.refuse(version, code)),
        };
        let ticket = cx.question();
        if question.is_some() {
            cx.core.add_to_transaction(&add, ticket.clone(), cx.now);
        } else {
            ticket.put(Reply::Partitions(vec![ErrorCode::NONE]));
        }
        let (core, waker) = (cx.core.clone(), cx.client.waker.clone());
        once_told(ticket, move |reply, now| {
            let Reply::Partitions(codes) = reply else {
                return None;
            };
            let code = codes.first().copied().unwrap_or(ErrorCode::NONE);
            let knows_abortable = version >= FIRST_WITH_ABORTABLE;
            // It asked the group's coordinator, and knows nothing of another one.
            let again = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            let committed = joined(code, knows_abortable, version >= FIRST_THAT_ADDS, again)
                .and_then(|()| commit(&core, &self, stored, Within { producer, question }, now));
            let unreplicated = match committed {
                Ok(unreplicated) => unreplicated,
                Err(code) => return Some(Outcome::Answer(self.refuse(version, code))),
            };
            Some(once_replicated(unreplicated, waker, now, move |kept| {
                Outcome::Answer(match kept {
                    Ok(()) => answer,
                    Err(code) => self.refuse(version, code),
                })
            }))
        })
    }
}

fn commit(
    core: &Core,
    request: &TxnOffsetCommitRequest,
    stored: Vec<Stored>,
    within: Within,
    now: Now,
) -> Result<Vec<Unreplicated>, ErrorCode> {
    let as_member = AsMember {
        id: request.member_id.to_string(),
        instance: request.group_instance_id.as_ref().map(ToString::to_string),
        generation: request.generation_id_or_member_epoch,
    };
    let group = &request.group_id;
    core.with_groups(now, |groups| {
        let how = Committing::InTransaction;
        groups.check_commit(group, &as_member, how, &stored, now.instant)?;
        core.store(groups, stored, Some(within), now)
    })
}

fn check(
    request: &TxnOffsetCommitRequest,
    cx: &Cx<'_>,
    topic: &TxnOffsetCommitRequestTopic,
    asked: &TxnOffsetCommitRequestPartition,
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
    request: &TxnOffsetCommitRequest,
    mut code_of: impl FnMut(&TxnOffsetCommitRequestTopic, &TxnOffsetCommitRequestPartition) -> ErrorCode,
) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|asked| TxnOffsetCommitResponsePartition {
                partition_index: asked.partition_index,
                error_code: code_of(topic, asked).0,
                ..Default::default()
            });
        TxnOffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            ..Default::default()
        }
    });
    TxnOffsetCommitResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}
