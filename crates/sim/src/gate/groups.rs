//! The part of a gate for groups: which of their exchanges get faults, the states seen in
//! responses, and the planted defects of brokers.

use bytes::Bytes;
use ottla_protocol::header::{RequestHeader, decode_response};
use ottla_protocol::messages::{
    ConsumerGroupHeartbeatResponse, FetchResponse, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};
use ottla_protocol::refusal::{Refusal, error_frame};
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader, Response};

use super::frames::{Defect, changed, request_instead};
use crate::keeper::{Keeper, Trouble};
use crate::plant::{self, Plant};

/// The name in the summary of what befalls an exchange of a group.
pub(super) fn name_of(api: ApiKey, trouble: Trouble) -> Option<&'static str> {
    let names = match api {
        ApiKey::JoinGroup => [
            "JoinGroup: refused",
            "JoinGroup: response late",
            "JoinGroup: response lost",
            "JoinGroup: request lost",
        ],
        ApiKey::SyncGroup => [
            "SyncGroup: refused",
            "SyncGroup: response late",
            "SyncGroup: response lost",
            "SyncGroup: request lost",
        ],
        ApiKey::Heartbeat => [
            "Heartbeat: refused",
            "Heartbeat: response late",
            "Heartbeat: response lost",
            "Heartbeat: request lost",
        ],
        ApiKey::LeaveGroup => [
            "LeaveGroup: refused",
            "LeaveGroup: response late",
            "LeaveGroup: response lost",
            "LeaveGroup: request lost",
        ],
        ApiKey::ConsumerGroupHeartbeat => [
            "ConsumerGroupHeartbeat: refused",
            "ConsumerGroupHeartbeat: response late",
            "ConsumerGroupHeartbeat: response lost",
            "ConsumerGroupHeartbeat: request lost",
        ],
        ApiKey::OffsetCommit => [
            "OffsetCommit: refused",
            "OffsetCommit: response late",
            "OffsetCommit: response lost",
            "OffsetCommit: request lost",
        ],
        ApiKey::OffsetFetch => [
            "OffsetFetch: refused",
            "OffsetFetch: response late",
            "OffsetFetch: response lost",
            "OffsetFetch: request lost",
        ],
        ApiKey::Fetch => [
            "Fetch: refused",
            "Fetch: response late",
            "Fetch: response lost",
            "Fetch: request lost",
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

/// Counts states in the responses to requests of groups.
pub(super) fn count(header: &RequestHeader, api: ApiKey, answer: &Bytes, keeper: &mut Keeper) {
    let version = header.api_version;
    let body = answer.slice(4..);
    let code = match api {
        ApiKey::JoinGroup => read(version, body, |it: JoinGroupResponse| it.error_code),
        ApiKey::SyncGroup => read(version, body, |it: SyncGroupResponse| it.error_code),
        ApiKey::Heartbeat => read(version, body, |it: HeartbeatResponse| it.error_code),
        ApiKey::LeaveGroup => read(version, body, |it: LeaveGroupResponse| {
            let of_member = it.members.first().map(|member| member.error_code);
            of_member.unwrap_or(it.error_code)
        }),
        ApiKey::ConsumerGroupHeartbeat => {
            read(version, body, |it: ConsumerGroupHeartbeatResponse| {
                it.error_code
            })
        }
        ApiKey::OffsetFetch => read(version, body, |it: OffsetFetchResponse| {
            let of_group = it.groups.first().map(|group| group.error_code);
            of_group.unwrap_or(it.error_code)
        }),
        ApiKey::OffsetCommit => read(version, body, |it: OffsetCommitResponse| {
            let mut rows = it.topics.iter().flat_map(|topic| &topic.partitions);
            rows.next().map_or(0, |row| row.error_code)
        }),
        ApiKey::Fetch => read(version, body, |it: FetchResponse| {
            let rows = it.responses.iter().flat_map(|topic| &topic.partitions);
            let mut codes = rows.map(|row| row.error_code).filter(|code| *code != 0);
            let first = codes.next().unwrap_or(0);
            if it.error_code != 0 {
                it.error_code
            } else {
                first
            }
        }),
        _ => None,
    };
    if let Some(state) = code.and_then(|code| state_of(api, ErrorCode(code))) {
        keeper.tally.meet(state);
    }
}

fn read<R: Response>(version: i16, body: Bytes, code: impl FnOnce(R) -> i16) -> Option<i16> {
    let (_, answer) = decode_response::<R>(version, body).ok()?;
    Some(code(answer))
}

fn state_of(api: ApiKey, code: ErrorCode) -> Option<&'static str> {
    Some(match (api, code) {
        (ApiKey::JoinGroup, ErrorCode::MEMBER_ID_REQUIRED) => {
            "response: JoinGroup MEMBER_ID_REQUIRED"
        }
        (ApiKey::JoinGroup, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: JoinGroup UNKNOWN_MEMBER_ID"
        }
        (ApiKey::JoinGroup, ErrorCode::FENCED_INSTANCE_ID) => {
            "response: JoinGroup FENCED_INSTANCE_ID"
        }
        (ApiKey::SyncGroup, ErrorCode::REBALANCE_IN_PROGRESS) => {
            "response: SyncGroup REBALANCE_IN_PROGRESS"
        }
        (ApiKey::SyncGroup, ErrorCode::ILLEGAL_GENERATION) => {
            "response: SyncGroup ILLEGAL_GENERATION"
        }
        (ApiKey::SyncGroup, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: SyncGroup UNKNOWN_MEMBER_ID"
        }
        (ApiKey::Heartbeat, ErrorCode::REBALANCE_IN_PROGRESS) => {
            "response: Heartbeat REBALANCE_IN_PROGRESS"
        }
        (ApiKey::Heartbeat, ErrorCode::ILLEGAL_GENERATION) => {
            "response: Heartbeat ILLEGAL_GENERATION"
        }
        (ApiKey::Heartbeat, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: Heartbeat UNKNOWN_MEMBER_ID"
        }
        (ApiKey::Heartbeat, ErrorCode::FENCED_INSTANCE_ID) => {
            "response: Heartbeat FENCED_INSTANCE_ID"
        }
        (ApiKey::LeaveGroup, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: LeaveGroup UNKNOWN_MEMBER_ID"
        }
        (ApiKey::ConsumerGroupHeartbeat, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID"
        }
        (ApiKey::ConsumerGroupHeartbeat, ErrorCode::FENCED_MEMBER_EPOCH) => {
            "response: ConsumerGroupHeartbeat FENCED_MEMBER_EPOCH"
        }
        (ApiKey::ConsumerGroupHeartbeat, ErrorCode::FENCED_INSTANCE_ID) => {
            "response: ConsumerGroupHeartbeat FENCED_INSTANCE_ID"
        }
        (ApiKey::ConsumerGroupHeartbeat, ErrorCode::UNRELEASED_INSTANCE_ID) => {
            "response: ConsumerGroupHeartbeat UNRELEASED_INSTANCE_ID"
        }
        (ApiKey::OffsetFetch, ErrorCode::STALE_MEMBER_EPOCH) => {
            "response: OffsetFetch STALE_MEMBER_EPOCH"
        }
        (ApiKey::OffsetFetch, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: OffsetFetch UNKNOWN_MEMBER_ID"
        }
        (ApiKey::OffsetCommit, ErrorCode::STALE_MEMBER_EPOCH) => {
            "response: OffsetCommit STALE_MEMBER_EPOCH"
        }
        (ApiKey::OffsetCommit, ErrorCode::REBALANCE_IN_PROGRESS) => {
            "response: OffsetCommit REBALANCE_IN_PROGRESS"
        }
        (ApiKey::OffsetCommit, ErrorCode::ILLEGAL_GENERATION) => {
            "response: OffsetCommit ILLEGAL_GENERATION"
        }
        (ApiKey::OffsetCommit, ErrorCode::UNKNOWN_MEMBER_ID) => {
            "response: OffsetCommit UNKNOWN_MEMBER_ID"
        }
        (ApiKey::OffsetCommit, ErrorCode::FENCED_INSTANCE_ID) => {
            "response: OffsetCommit FENCED_INSTANCE_ID"
        }
        (ApiKey::Fetch, ErrorCode::OFFSET_OUT_OF_RANGE) => "response: Fetch OFFSET_OUT_OF_RANGE",
        (
            ApiKey::Fetch,
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND | ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ) => "response: Fetch session refused",
        _ => return None,
    })
}

/// What a defective broker does with a request; `None` if it does what it should.
pub(super) fn defect(
    header: &RequestHeader,
    api: ApiKey,
    whole: &Bytes,
    rest: &Reader,
    keeper: &mut Keeper,
) -> Option<Defect> {
    let version = header.api_version;
    let mut rest = rest.clone();
    let done = || {
        let answer = error_frame(whole.slice(4..), &Refusal::from(ErrorCode::NONE)).ok()?;
        Some(Defect::Answered(answer.into_bytes()))
    };
    match (keeper.plant?, api) {
        (Plant::CommitsForgotten, ApiKey::OffsetCommit) if keeper.every(3) => done(),
        (Plant::HeartbeatsUnheard, ApiKey::Heartbeat) => done(),
        (Plant::OldGenerationCommits, ApiKey::OffsetCommit) => {
            let mut request = OffsetCommitRequest::decode(version, &mut rest).ok()?;
            let newest = keeper.generations.get(&*request.group_id)?;
            if request.generation_id_or_member_epoch >= newest.0 {
                return None;
            }
            request.generation_id_or_member_epoch = newest.0;
            request.member_id = newest.1.as_str().into();
            request.group_instance_id = None;
            request_instead(header, &request)
        }
        (Plant::OffsetsStoredAhead, ApiKey::OffsetCommit) => {
            let mut request = OffsetCommitRequest::decode(version, &mut rest).ok()?;
            let rows = request.topics.iter_mut();
            for row in rows.flat_map(|topic| &mut topic.partitions) {
                row.committed_offset += 3;
            }
            request_instead(header, &request)
        }
        _ => None,
    }
}

/// The group of a member that joins, or gets its assignment.
pub(super) fn group_of(header: &RequestHeader, api: ApiKey, rest: &Reader) -> Option<String> {
    let (version, mut rest) = (header.api_version, rest.clone());
    let group = match api {
        ApiKey::JoinGroup => JoinGroupRequest::decode(version, &mut rest).ok()?.group_id,
        ApiKey::SyncGroup => SyncGroupRequest::decode(version, &mut rest).ok()?.group_id,
        _ => return None,
    };
    Some(group.to_string())
}

/// A response, changed by a planted defect, and what is remembered of it for one.
pub(super) fn spoiled(
    header: &RequestHeader,
    api: ApiKey,
    group: Option<&str>,
    answer: Bytes,
    keeper: &mut Keeper,
) -> Bytes {
    match (keeper.plant, api, group) {
        (_, ApiKey::JoinGroup, Some(group)) => {
            changed(header, &answer, |answer: &mut JoinGroupResponse| {
                if answer.error_code == 0 {
                    let newest = (answer.generation_id, answer.member_id.to_string());
                    keeper.generations.insert(group.to_owned(), newest);
                }
            })
        }
        (Some(Plant::AssignmentsMixedUp), ApiKey::SyncGroup, Some(group)) => {
            changed(header, &answer, |answer: &mut SyncGroupResponse| {
                if answer.error_code == 0 {
                    let own = answer.assignment.clone();
                    let before = keeper.assignments.insert(group.to_owned(), own);
                    answer.assignment = before.unwrap_or_default();
                }
            })
        }
        (Some(Plant::CommittedUntold), ApiKey::OffsetFetch, _) if keeper.every(2) => {
            changed(header, &answer, |answer: &mut OffsetFetchResponse| {
                plant::each_committed(answer, |offset| *offset = -1);
            })
        }
        _ => answer,
    }
}
