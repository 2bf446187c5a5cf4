//! The part of a gate for truncated logs: nodes whose Fetch cannot return where logs diverge, the
//! states seen in responses, and the planted defects of brokers.

use std::ops::Range;

use bytes::Bytes;
use ottla_protocol::header::{RequestHeader, decode_response};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, OffsetForLeaderEpochResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader};

use super::frames::{Defect, changed, request_instead};
use crate::keeper::Keeper;
use crate::plant::Plant;

/// The last version of Fetch whose request does not contain the epoch of the last record read.
const OLD_FETCH: i16 = 11;
/// Where a frame with ApiVersions has its error code: after its length and correlation id.
const ERROR_CODE: Range<usize> = 8..10;

/// The response of a node that supports no newer Fetch.
pub(super) fn tell_less(
    node: i32,
    header: &RequestHeader,
    answer: Bytes,
    keeper: &Keeper,
) -> Bytes {
    let is_told = header.api_key == ApiKey::ApiVersions.as_i16();
    // A version that the node does not know is refused in the layout of another.
    let is_success = answer.get(ERROR_CODE) == Some(&[0, 0][..]);
    if !is_told || !is_success || !keeper.old_fetch.contains(&node) {
        return answer;
    }
    changed(header, &answer, |answer: &mut ApiVersionsResponse| {
        let rows = answer.api_keys.iter_mut();
        for row in rows.filter(|row| row.api_key == ApiKey::Fetch.as_i16()) {
            row.max_version = row.max_version.min(OLD_FETCH);
        }
    })
}

/// Counts what brokers say of epochs.
pub(super) fn count(header: &RequestHeader, api: ApiKey, answer: &Bytes, keeper: &mut Keeper) {
    let (version, body) = (header.api_version, answer.slice(4..));
    match api {
        ApiKey::Fetch => {
            let Ok((_, answer)) = decode_response::<FetchResponse>(version, body) else {
                return;
            };
            let topics = answer.responses.iter();
            for row in topics.flat_map(|topic| &topic.partitions) {
                if row.diverging_epoch.end_offset >= 0 {
                    keeper
                        .tally
                        .meet("response: Fetch returned where logs diverge");
                }
                match ErrorCode(row.error_code) {
                    ErrorCode::FENCED_LEADER_EPOCH => {
                        keeper.tally.meet("response: Fetch FENCED_LEADER_EPOCH");
                    }
                    ErrorCode::UNKNOWN_LEADER_EPOCH => {
                        keeper.tally.meet("response: Fetch UNKNOWN_LEADER_EPOCH");
                    }
                    _ => {}
                }
            }
        }
        ApiKey::OffsetForLeaderEpoch => {
            let decoded = decode_response::<OffsetForLeaderEpochResponse>(version, body);
            let Ok((_, answer)) = decoded else {
                return;
            };
            let topics = answer.topics.iter();
            for row in topics.flat_map(|topic| &topic.partitions) {
                if row.error_code == 0 {
                    let state = "response: OffsetForLeaderEpoch returned where an epoch ends";
                    keeper.tally.meet(state);
                }
            }
        }
        _ => {}
    }
}

/// What a defective broker does with a request; `None` if it does what it should.
pub(super) fn defect(
    header: &RequestHeader,
    api: ApiKey,
    rest: &Reader,
    keeper: &Keeper,
) -> Option<Defect> {
    if (keeper.plant, api) != (Some(Plant::DivergenceUntold), ApiKey::Fetch) {
        return None;
    }
    let mut request = FetchRequest::decode(header.api_version, &mut rest.clone()).ok()?;
    let topics = request.topics.iter_mut();
    for row in topics.flat_map(|topic| &mut topic.partitions) {
        row.last_fetched_epoch = -1;
    }
    request_instead(header, &request)
}
