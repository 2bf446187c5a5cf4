//! ShareGroupHeartbeat, version 1 (KIP-932): a member of a share group joins, stays, leaves.

use std::sync::Arc;

use ottla_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use ottla_protocol::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::coordinated::from_coordinator;
use super::{Api, Cx, Outcome};
use crate::group::{Beaten, Owned, Refused, Reply, ShareBeat};
use crate::security::acl::{Operation, Resource};

const JOINS: i32 = 0;
const LEAVES: i32 = -1;
/// The longest id of a member, as in Kafka.
const LONGEST_ID: usize = 36;

impl Api for ShareGroupHeartbeatRequest {
    const HANDLED: Versions = Versions { min: 1, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ShareGroupHeartbeatResponse> {
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let mut names = self.subscribed_topic_names.iter().flatten();
        if !names.all(|name| cx.may(Operation::Describe, Resource::topic(name))) {
            let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        if let Err(refused) = check(&self) {
            return Outcome::Answer(refusal(refused));
        }
        let names = self.subscribed_topic_names.as_ref();
        let beat = ShareBeat {
            group: self.group_id.to_string(),
            member: self.member_id.to_string(),
            epoch: self.member_epoch,
            rack: self.rack_id.as_ref().map(ToString::to_string),
            names: names.map(|names| names.iter().map(ToString::to_string).collect()),
            client_id: cx.client_id.as_deref().unwrap_or_default().to_owned(),
            client_host: format!("/{}", cx.client.host),
        };
        let ticket = cx.ticket();
        cx.core.with_group(&beat.group, cx.now, |groups| {
            groups.beat_share(&beat, Arc::clone(&ticket), cx.now.instant)
        });
        from_coordinator(cx, ticket, |reply| match reply {
            Reply::Beat(Ok(beaten)) => Some(respond(beaten)),
            Reply::Beat(Err(refused)) => Some(refusal(refused)),
            Reply::Join(_) | Reply::Sync(_) => None,
        })
    }
}

/// What no group would take.
fn check(request: &ShareGroupHeartbeatRequest) -> Result<(), Refused> {
    let invalid = |what: &str| Err(Refused::new(ErrorCode::INVALID_REQUEST, what));
    let is_empty = |text: &Option<Str>| text.as_ref().is_some_and(|it| it.trim().is_empty());
    let member = request.member_id.trim();
    if member.is_empty() {
        return invalid("MemberId cannot be empty");
    }
    if member.len() > LONGEST_ID {
        return invalid("MemberId is too long");
    }
    if request.group_id.trim().is_empty() {
        return invalid("GroupId cannot be empty");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId cannot be empty");
    }
    let names = request.subscribed_topic_names.as_ref();
    match request.member_epoch {
        JOINS if names.is_none_or(Vec::is_empty) => {
            invalid("SubscribedTopicNames must be said when a member joins")
        }
        LEAVES.. => Ok(()),
        _ => invalid("MemberEpoch is below -1"),
    }
}

fn respond(beaten: Beaten) -> ShareGroupHeartbeatResponse {
    let interval = beaten.heartbeat.map(|it| it.as_millis());
    let assignment = |owned: Owned| Assignment {
        topic_partitions: owned
            .into_iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id,
                partitions: partitions.into(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    ShareGroupHeartbeatResponse {
        member_id: Some(beaten.member.into()),
        member_epoch: beaten.epoch,
        heartbeat_interval_ms: interval.map_or(0, |it| i32::try_from(it).unwrap_or(i32::MAX)),
        assignment: beaten.assignment.map(assignment),
        ..Default::default()
    }
}

fn refusal(Refused { code, message }: Refused) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse {
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
