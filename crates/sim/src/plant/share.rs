//! Planted defects of share groups: in what clients send and receive, and in the responses of
//! brokers.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_engine::api::{Request, Response};
use ottla_protocol::header::{decode_response, encode_response};
use ottla_protocol::messages::share_fetch_response::{PartitionData, ShareFetchableTopicResponse};
use ottla_protocol::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use super::Plant;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;

/// Does something with each partition that a request contains.
macro_rules! each_row {
    ($request:expr, $row:ident => $do:expr) => {
        match $request {
            Request::ShareFetch(request) => {
                let topics = request.topics.iter_mut();
                let rows = topics.flat_map(|topic| &mut topic.partitions);
                for $row in rows.filter(|row| !row.acknowledgement_batches.is_empty()) {
                    $do
                }
            }
            Request::ShareAcknowledge(request) => {
                let topics = request.topics.iter_mut();
                let rows = topics.flat_map(|topic| &mut topic.partitions);
                for $row in rows.filter(|row| !row.acknowledgement_batches.is_empty()) {
                    $do
                }
            }
            _ => {}
        }
    };
}

/// Changes a request of a member of a share group; `is_due` returns true every third time or so.
pub(super) fn spoil_request(plant: Plant, request: &mut Request, mut is_due: impl FnMut() -> bool) {
    match plant {
        Plant::AcksDropped => each_row!(request, row => {
            if is_due() {
                row.acknowledgement_batches.clear();
            }
        }),
        Plant::AcceptSentAsRelease => each_row!(request, row => {
            let kinds = row.acknowledgement_batches.iter_mut();
            for kind in kinds.flat_map(|batch| &mut batch.acknowledge_types) {
                if *kind == ACCEPT && is_due() {
                    *kind = RELEASE;
                }
            }
        }),
        Plant::AcksMisplaced => each_row!(request, row => row.partition_index ^= 1),
        Plant::AcksShifted => each_row!(request, row => {
            for batch in &mut row.acknowledgement_batches {
                batch.first_offset += 1;
                batch.last_offset += 1;
            }
        }),
        _ => {}
    }
}

/// Changes a response to a member of a share group; false drops it.
pub(super) fn spoil_answer(
    plant: Plant,
    response: &mut Response,
    mut is_due: impl FnMut() -> bool,
) -> bool {
    match (plant, response) {
        (Plant::AckErrorsOverlooked, Response::ShareFetch(answer)) => {
            for row in fetched(answer) {
                row.acknowledge_error_code = 0;
            }
        }
        (Plant::AckErrorsOverlooked, Response::ShareAcknowledge(answer)) => {
            let topics = answer.responses.iter_mut();
            let rows = topics.flat_map(|topic| &mut topic.partitions);
            rows.for_each(|row| row.error_code = 0);
        }
        (Plant::DeliveriesMisread, Response::ShareFetch(answer)) => {
            let rows = fetched(answer).flat_map(|row| &mut row.acquired_records);
            rows.for_each(|those| those.delivery_count = 1);
        }
        (Plant::AcquiredDropped, Response::ShareFetch(answer)) => {
            for row in fetched(answer) {
                if !row.acquired_records.is_empty() && is_due() {
                    row.acquired_records.remove(0);
                }
            }
        }
        (Plant::ShareBeatsEnd, Response::ShareGroupHeartbeat(_)) => return false,
        _ => {}
    }
    true
}

/// A stale leader confirms the acknowledgements that it received.
fn believe(code: &mut i16) {
    if *code == ErrorCode::NOT_LEADER_OR_FOLLOWER.0 {
        *code = 0;
    }
}

fn fetched(answer: &mut ShareFetchResponse) -> impl Iterator<Item = &mut PartitionData> {
    let topics = answer.responses.iter_mut();
    topics.flat_map(|topic| &mut topic.partitions)
}

/// What a defective broker remembers: what it gave last of each partition to a group, and to which member.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    given: BTreeMap<(usize, Uuid, i32), (usize, PartitionData)>,
    count: u32,
}

impl Memory {
    /// A response of a version to a member of a group, changed by a planted defect.
    pub(crate) fn spoiled(
        &mut self,
        plant: Plant,
        api: ApiKey,
        (group, member, version): (usize, usize, i16),
        lock_ms: i32,
        frame: Bytes,
    ) -> Bytes {
        let body = frame.slice(4..);
        let encoded = match api {
            ApiKey::ShareFetch => {
                let decoded = decode_response::<ShareFetchResponse>(version, body);
                decoded.ok().and_then(|(id, mut answer)| {
                    match plant {
                        Plant::AcquiredTwice => self.give_again(group, member, &mut answer),
                        Plant::DeliveriesUncounted => {
                            let rows = fetched(&mut answer);
                            let rows = rows.flat_map(|row| &mut row.acquired_records);
                            rows.for_each(|those| those.delivery_count = 1);
                        }
                        Plant::AcksUnkept => {
                            for row in fetched(&mut answer) {
                                believe(&mut row.acknowledge_error_code);
                            }
                        }
                        Plant::LocksLastForever => answer.acquisition_lock_timeout_ms = lock_ms,
                        _ => return None,
                    }
                    encode_response(&answer, version, id).ok()
                })
            }
            _ => {
                let decoded = decode_response::<ShareAcknowledgeResponse>(version, body);
                decoded.ok().and_then(|(id, mut answer)| {
                    let topics = answer.responses.iter_mut();
                    let rows = topics.flat_map(|topic| &mut topic.partitions);
                    match plant {
                        Plant::AckedThoughRefused => rows.for_each(|row| {
                            row.error_code = ErrorCode::INVALID_RECORD_STATE.0;
                        }),
                        Plant::AcksUnkept => rows.for_each(|row| believe(&mut row.error_code)),
                        _ => return None,
                    }
                    encode_response(&answer, version, id).ok()
                })
            }
        };
        encoded.map_or(frame, |frame| frame.into_bytes())
    }

    /// Another member gets what one was given last.
    fn give_again(&mut self, group: usize, member: usize, answer: &mut ShareFetchResponse) {
        for topic in &mut answer.responses {
            for row in &topic.partitions {
                if !row.acquired_records.is_empty() {
                    let key = (group, topic.topic_id, row.partition_index);
                    self.given.insert(key, (member, row.clone()));
                }
            }
        }
        self.count += 1;
        if !self.count.is_multiple_of(3) || answer.error_code != 0 {
            return;
        }
        let of_others = self.given.iter();
        let mut of_others = of_others.filter(|((of, ..), (by, _))| *of == group && *by != member);
        let Some(((_, topic_id, index), (_, row))) = of_others.next() else {
            return;
        };
        let mut all = answer.responses.iter();
        let is_there = |topic: &ShareFetchableTopicResponse| {
            let mut rows = topic.partitions.iter();
            topic.topic_id == *topic_id && rows.any(|it| it.partition_index == *index)
        };
        if !all.any(is_there) {
            answer.responses.push(ShareFetchableTopicResponse {
                topic_id: *topic_id,
                partitions: vec![row.clone()],
                ..Default::default()
            });
        }
    }
}
