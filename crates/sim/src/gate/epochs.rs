//! What a door does for defective brokers with groups whose members have epochs of their own (KIP-848).

use bytes::Bytes;
use ottla_protocol::header::{RequestHeader, encode_response};
use ottla_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitRequest,
};
use ottla_protocol::{ApiKey, Message, Reader};

use super::frames::{Defect, changed, request_instead};
use crate::keeper::Keeper;
use crate::plant::{Plant, own_nothing};

/// What a defective broker does with a request; `None` if it does what it should.
pub(super) fn defect(
    header: &RequestHeader,
    api: ApiKey,
    rest: &Reader,
    keeper: &Keeper,
) -> Option<Defect> {
    let version = header.api_version;
    let mut rest = rest.clone();
    match (keeper.plant?, api) {
        (Plant::GivenTooSoon, ApiKey::ConsumerGroupHeartbeat) => {
            let mut request = ConsumerGroupHeartbeatRequest::decode(version, &mut rest).ok()?;
            own_nothing(&mut request);
            request_instead(header, &request)
        }
        (Plant::EpochBeatsUnheard, ApiKey::ConsumerGroupHeartbeat) => {
            let request = ConsumerGroupHeartbeatRequest::decode(version, &mut rest).ok()?;
            let answer = ConsumerGroupHeartbeatResponse {
                member_id: Some(request.member_id),
                member_epoch: request.member_epoch,
                heartbeat_interval_ms: 500,
                ..Default::default()
            };
            let is_in = answer.member_epoch > 0;
            let frame = encode_response(&answer, version, header.correlation_id).ok()?;
            is_in.then(|| Defect::Answered(frame.into_bytes()))
        }
        (Plant::StaleEpochCommits, ApiKey::OffsetCommit) => {
            let mut request = OffsetCommitRequest::decode(version, &mut rest).ok()?;
            let (epoch, member) = keeper.generations.get(&*request.group_id)?;
            if request.generation_id_or_member_epoch >= *epoch {
                return None;
            }
            request.generation_id_or_member_epoch = *epoch;
            request.member_id = member.as_str().into();
            request.group_instance_id = None;
            request_instead(header, &request)
        }
        _ => None,
    }
}

/// The group of a member's heartbeat.
pub(super) fn group_of(header: &RequestHeader, rest: &Reader) -> Option<String> {
    let mut rest = rest.clone();
    let request = ConsumerGroupHeartbeatRequest::decode(header.api_version, &mut rest);
    Some(request.ok()?.group_id.to_string())
}

/// The response to a heartbeat, changed by a planted defect, and what is remembered of it for one.
pub(super) fn spoiled(
    header: &RequestHeader,
    group: &str,
    answer: &Bytes,
    keeper: &mut Keeper,
) -> Bytes {
    changed(
        header,
        answer,
        |answer: &mut ConsumerGroupHeartbeatResponse| {
            if answer.error_code != 0 || answer.member_epoch <= 0 {
                return;
            }
            let member = answer.member_id.as_deref().unwrap_or_default();
            let newest = (answer.member_epoch, member.to_owned());
            keeper.generations.insert(group.to_owned(), newest);
            if keeper.plant != Some(Plant::TargetsMixedUp) {
                return;
            }
            if let Some(own) = answer.assignment.clone() {
                let before = keeper.targets.insert(group.to_owned(), own);
                answer.assignment = before.or(answer.assignment.take());
            }
        },
    )
}
