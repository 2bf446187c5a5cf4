//! ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848): a member of a consumer group joins, stays, gives partitions up, leaves.
//!
//! From version 1 members choose their ids, and may subscribe with a regular expression.

use std::sync::Arc;

use ottla_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use ottla_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::coordinated::from_coordinator;
use super::{Api, Cx, Outcome};
use crate::group::{Beat, Beaten, Owned, Refused, Reply};
use crate::security::acl::{Operation, Resource};

const FIRST_WITH_OWN_IDS: i16 = 1;
const JOINS: i32 = 0;
const LEAVES: i32 = -1;
const GOES_AWAY: i32 = -2;

impl Api for ConsumerGroupHeartbeatRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ConsumerGroupHeartbeatResponse> {
        if cx.core.release().group_version().is_none() {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        if let Err(code) = cx.check_group(Operation::Read, &self.group_id) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let mut names = self.subscribed_topic_names.iter().flatten();
        if !names.all(|name| cx.may(Operation::Describe, Resource::topic(name))) {
            let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        if let Err(refused) = check(&self, cx) {
            return Outcome::Answer(refusal(refused));
        }
        let beat = self.to_beat(cx);
        let ticket = cx.ticket();
        let may_describe = |topic: &str| cx.may(Operation::Describe, Resource::topic(topic));
        cx.core.with_group(&beat.group, cx.now, |groups| {
            groups.beat(&beat, &may_describe, Arc::clone(&ticket), cx.now.instant)
        });
        from_coordinator(cx, ticket, |reply| match reply {
            Reply::Beat(Ok(beaten)) => Some(respond(beaten)),
            Reply::Beat(Err(refused)) => Some(refusal(refused)),
            Reply::Join(_) | Reply::Sync(_) => None,
        })
    }
}

/// What no group would take.
fn check(request: &ConsumerGroupHeartbeatRequest, cx: &Cx<'_>) -> Result<(), Refused> {
    let invalid = |what: &str| Err(Refused::new(ErrorCode::INVALID_REQUEST, what));
    let is_empty = |text: &Option<Str>| text.as_ref().is_some_and(|it| it.trim().is_empty());
    let epoch = request.member_epoch;
    let needs_id = cx.version >= FIRST_WITH_OWN_IDS || epoch > JOINS || epoch == LEAVES;
    if needs_id && request.member_id.trim().is_empty() {
        return invalid("MemberId cannot be empty");
    }
    if request.group_id.trim().is_empty() {
        return invalid("GroupId cannot be empty");
    }
    if is_empty(&request.instance_id) {
        return invalid("InstanceId cannot be empty");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId cannot be empty");
    }
    match epoch {
        JOINS if request.rebalance_timeout_ms == -1 => {
            return invalid("RebalanceTimeoutMs must be said when a member joins");
        }
        JOINS if !request.topic_partitions.as_ref().is_some_and(Vec::is_empty) => {
            return invalid("TopicPartitions must be empty when a member joins");
        }
        JOINS
            if request.subscribed_topic_names.is_none()
                && request.subscribed_topic_regex.is_none() =>
        {
            return invalid(
                "SubscribedTopicNames or SubscribedTopicRegex must be said when a member joins",
            );
        }
        GOES_AWAY if request.instance_id.is_none() => {
            return invalid("InstanceId must be said when a static member leaves");
        }
        ..GOES_AWAY => return invalid("MemberEpoch cannot be below -2"),
        _ => {}
    }
    let assignors = &cx.core.settings.consumer_groups.assignors;
    let Some(name) = request.server_assignor.as_ref() else {
        return Ok(());
    };
    if assignors.iter().any(|assignor| assignor.name() == &**name) {
        return Ok(());
    }
    let known: Vec<&str> = assignors.iter().map(|assignor| assignor.name()).collect();
    let message = format!(
        "there is no assignor \"{name}\"; there are {}",
        known.join(", ")
    );
    Err(Refused::new(ErrorCode::UNSUPPORTED_ASSIGNOR, message))
}

trait ToBeat {
    fn to_beat(&self, cx: &Cx<'_>) -> Beat;
}

impl ToBeat for ConsumerGroupHeartbeatRequest {
    fn to_beat(&self, cx: &Cx<'_>) -> Beat {
        let owned = |text: &Option<Str>| text.as_ref().map(ToString::to_string);
        let names = self.subscribed_topic_names.as_ref();
        let partitions = self.topic_partitions.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|it| (it.topic_id, it.partitions.to_vec()))
                .collect()
        });
        Beat {
            group: self.group_id.to_string(),
            // In version 0 the coordinator may choose it.
            member: match self.member_id.is_empty() {
                true => cx.core.new_uuid().to_string(),
                false => self.member_id.to_string(),
            },
            epoch: self.member_epoch,
            instance: owned(&self.instance_id),
            rack: owned(&self.rack_id),
            rebalance_timeout_ms: Some(self.rebalance_timeout_ms).filter(|it| *it != -1),
            names: names.map(|names| names.iter().map(ToString::to_string).collect()),
            pattern: owned(&self.subscribed_topic_regex),
            assignor: owned(&self.server_assignor),
            owned: partitions,
            client_id: cx.client_id.as_deref().unwrap_or_default().to_owned(),
            client_host: format!("/{}", cx.client.host),
        }
    }
}

fn respond(beaten: Beaten) -> ConsumerGroupHeartbeatResponse {
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
    ConsumerGroupHeartbeatResponse {
        member_id: Some(beaten.member.into()),
        member_epoch: beaten.epoch,
        heartbeat_interval_ms: interval.map_or(0, |it| i32::try_from(it).unwrap_or(i32::MAX)),
        assignment: beaten.assignment.map(assignment),
        ..Default::default()
    }
}

fn refusal(Refused { code, message }: Refused) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        error_code: code.0,
        error_message: Some(message.into()),
        ..Default::default()
    }
}
