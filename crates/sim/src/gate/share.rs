//! The part of a gate for share groups: which of their exchanges get faults, the states seen in
//! responses, and the planted defects of brokers.

use bytes::Bytes;
use ottla_protocol::header::encode_response;
use ottla_protocol::header::{RequestHeader, decode_response};
use ottla_protocol::messages::share_acknowledge_response::{
    PartitionData, ShareAcknowledgeTopicResponse,
};
use ottla_protocol::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupHeartbeatResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader};

use super::frames::{Defect, request_instead};
use crate::keeper::{Keeper, Trouble};
use crate::plant::Plant;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;

/// The name in the summary of what befalls an exchange of a share group.
pub(super) fn name_of(api: ApiKey, trouble: Trouble) -> Option<&'static str> {
    let names = match api {
        ApiKey::ShareFetch => [
            "ShareFetch: refused",
            "ShareFetch: response late",
            "ShareFetch: response lost",
            "ShareFetch: request lost",
        ],
        ApiKey::ShareAcknowledge => [
            "ShareAcknowledge: refused",
            "ShareAcknowledge: response late",
            "ShareAcknowledge: response lost",
            "ShareAcknowledge: request lost",
        ],
        ApiKey::ShareGroupHeartbeat => [
            "ShareGroupHeartbeat: refused",
            "ShareGroupHeartbeat: response late",
            "ShareGroupHeartbeat: response lost",
            "ShareGroupHeartbeat: request lost",
        ],
        _ => return None,
    };
    let [refused, late, lost, unseen] = names;
    match trouble {
        Trouble::Refused(_) => Some(refused),
        Trouble::Late(_) => Some(late),
        Trouble::Lost | Trouble::Silence | Trouble::CutAfter(_) => Some(lost),
        Trouble::ClosedBefore | Trouble::Swallowed => Some(unseen),
        _ => None,
    }
}

/// Counts states in the responses to members of share groups.
pub(super) fn count(header: &RequestHeader, api: ApiKey, answer: &Bytes, keeper: &mut Keeper) {
    let (version, body) = (header.api_version, answer.slice(4..));
    let mut states = Vec::new();
    match api {
        ApiKey::ShareFetch => {
            if let Ok((_, answer)) = decode_response::<ShareFetchResponse>(version, body) {
                states.extend(of_session(
                    answer.error_code,
                    "response: ShareFetch session refused",
                ));
                let topics = answer.responses.iter();
                for row in topics.flat_map(|topic| &topic.partitions) {
                    if row.error_code == ErrorCode::NOT_LEADER_OR_FOLLOWER.0 {
                        states.push("response: ShareFetch NOT_LEADER_OR_FOLLOWER");
                    }
                    if row.acknowledge_error_code == ErrorCode::INVALID_RECORD_STATE.0 {
                        states.push(
                            "response: ShareFetch INVALID_RECORD_STATE of what was acknowledged",
                        );
                    }
                }
            }
        }
        ApiKey::ShareAcknowledge => {
            if let Ok((_, answer)) = decode_response::<ShareAcknowledgeResponse>(version, body) {
                let refused = "response: ShareAcknowledge session refused";
                states.extend(of_session(answer.error_code, refused));
                let topics = answer.responses.iter();
                let rows = topics.flat_map(|topic| &topic.partitions);
                states.extend(rows.filter_map(|row| match ErrorCode(row.error_code) {
                    ErrorCode::INVALID_RECORD_STATE => {
                        Some("response: ShareAcknowledge INVALID_RECORD_STATE")
                    }
                    ErrorCode::NOT_LEADER_OR_FOLLOWER => {
                        Some("response: ShareAcknowledge NOT_LEADER_OR_FOLLOWER")
                    }
                    _ => None,
                }));
            }
        }
        ApiKey::ShareGroupHeartbeat => {
            let decoded = decode_response::<ShareGroupHeartbeatResponse>(version, body);
            states.extend(decoded.ok().and_then(|(_, answer)| {
                match ErrorCode(answer.error_code) {
                    ErrorCode::UNKNOWN_MEMBER_ID => {
                        Some("response: ShareGroupHeartbeat UNKNOWN_MEMBER_ID")
                    }
                    ErrorCode::FENCED_MEMBER_EPOCH => {
                        Some("response: ShareGroupHeartbeat FENCED_MEMBER_EPOCH")
                    }
                    _ => None,
                }
            }));
        }
        _ => {}
    }
    states
        .into_iter()
        .for_each(|state| keeper.tally.meet(state));
}

fn of_session(code: i16, state: &'static str) -> Option<&'static str> {
    let is_refused = matches!(
        ErrorCode(code),
        ErrorCode::SHARE_SESSION_NOT_FOUND | ErrorCode::INVALID_SHARE_SESSION_EPOCH
    );
    is_refused.then_some(state)
}

/// What a defective broker does with a member's request; `None` if it does what it should.
pub(super) fn defect(
    header: &RequestHeader,
    api: ApiKey,
    rest: &Reader,
    keeper: &mut Keeper,
) -> Option<Defect> {
    if api != ApiKey::ShareAcknowledge {
        return None;
    }
    let plant = keeper.plant?;
    let version = header.api_version;
    let mut request = ShareAcknowledgeRequest::decode(version, &mut rest.clone()).ok()?;
    // The end of a session is another matter.
    if request.share_session_epoch < 0 {
        return None;
    }
    match plant {
        Plant::AcceptsTakenAsReleases => {
            let topics = request.topics.iter_mut();
            let rows = topics.flat_map(|topic| &mut topic.partitions);
            let batches = rows.flat_map(|row| &mut row.acknowledgement_batches);
            for kind in batches.flat_map(|batch| &mut batch.acknowledge_types) {
                if *kind == ACCEPT {
                    *kind = RELEASE;
                }
            }
            request_instead(header, &request)
        }
        Plant::AcksForgotten => {
            let topics = request.topics.iter().map(|topic| {
                let rows = topic.partitions.iter().map(|row| PartitionData {
                    partition_index: row.partition_index,
                    ..Default::default()
                });
                ShareAcknowledgeTopicResponse {
                    topic_id: topic.topic_id,
                    partitions: rows.collect(),
                    ..Default::default()
                }
            });
            let answer = ShareAcknowledgeResponse {
                responses: topics.collect(),
                ..Default::default()
            };
            let frame = encode_response(&answer, version, header.correlation_id);
            Some(Defect::Answered(frame.ok()?.into_bytes()))
        }
        _ => None,
    }
}
