//! The code between the network and a broker: it knows where requests and responses begin and end,
//! and so can inject a fault at each stage of an exchange. It also plays the planted defects of
//! brokers.

mod epochs;
mod frames;
mod groups;
mod share;
mod transactions;
mod truncated;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_protocol::header::{
    RequestHeader, correlation_id, decode_request_header, encode_request, encode_response,
};
use ottla_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::{
    EndTxnResponse, FetchResponse, InitProducerIdRequest, InitProducerIdResponse, MetadataResponse,
    ProduceRequest, ProduceResponse,
};
use ottla_protocol::refusal::{Refusal, error_frame};
use ottla_protocol::{ApiKey, ErrorCode, Message};

use crate::keeper::{Keeper, Trouble};
use crate::lies::falsified;
use crate::plant::{self, Plant};
use crate::tally::Tally;
use frames::{Defect, changed};

/// This many of a hundred responses of a malicious broker are falsified.
const LIES: u32 = 20;

/// The output for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// Bytes, after a delay.
    Bytes(Bytes, Duration),
    /// Each byte by itself.
    Bytewise(Bytes),
    /// The end of the connection.
    Close,
}

#[derive(Debug)]
struct Owed {
    header: RequestHeader,
    /// The transactional id of an InitProducerId, or the group of a member, where a plant wants to know.
    id: Option<String>,
    answer: Option<Bytes>,
    trouble: Option<Trouble>,
    /// It was not requested.
    is_extra: bool,
}

/// One connection, as its broker's side sees it.
#[derive(Debug)]
pub struct Gate {
    node: i32,
    input: BytesMut,
    output: BytesMut,
    owed: VecDeque<Owed>,
    ready: VecDeque<ToClient>,
    /// There is no further output.
    is_mute: bool,
}

/// Takes a whole frame, with its length, off the bytes.
pub(crate) fn frame(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = bytes
        .first_chunk()
        .map(|start| i32::from_be_bytes(*start))?;
    let whole = usize::try_from(length).ok()? + 4;
    (bytes.len() >= whole).then(|| bytes.split_to(whole).freeze())
}

/// The frame with this body.
fn framed(body: &Bytes) -> Bytes {
    let mut whole = BytesMut::with_capacity(4 + body.len());
    whole.extend_from_slice(&u32::try_from(body.len()).unwrap_or(0).to_be_bytes());
    whole.extend_from_slice(body);
    whole.freeze()
}

fn api_of(header: &RequestHeader) -> Option<ApiKey> {
    ApiKey::from_i16(header.api_key)
}

impl Gate {
    /// A new connection's, at this node.
    pub fn new(node: i32) -> Gate {
        Gate {
            node,
            input: BytesMut::new(),
            output: BytesMut::new(),
            owed: VecDeque::new(),
            ready: VecDeque::new(),
            is_mute: false,
        }
    }

    /// Bytes came from the client: what of them the broker sees, as whole frames.
    pub fn hear_client(
        &mut self,
        bytes: &[u8],
        keeper: &mut Keeper,
        tally: &mut Tally,
    ) -> Vec<Bytes> {
        self.input.extend_from_slice(bytes);
        let mut seen = Vec::new();
        while let Some(whole) = frame(&mut self.input) {
            self.request(whole, keeper, tally, &mut seen);
        }
        seen
    }

    fn request(
        &mut self,
        whole: Bytes,
        keeper: &mut Keeper,
        tally: &mut Tally,
        seen: &mut Vec<Bytes>,
    ) {
        let body = whole.slice(4..);
        let Ok((header, mut rest)) = decode_request_header(body.clone()) else {
            seen.push(whole);
            return;
        };
        let Some(api) = api_of(&header) else {
            seen.push(whole);
            return;
        };
        if self.is_mute {
            return;
        }
        let mut whole = whole;
        let defect = transactions::defect(&header, api, &whole, &rest, keeper);
        let defect = defect.or_else(|| groups::defect(&header, api, &whole, &rest, keeper));
        let defect = defect.or_else(|| share::defect(&header, api, &rest, keeper));
        let defect = defect.or_else(|| epochs::defect(&header, api, &rest, keeper));
        match defect.or_else(|| truncated::defect(&header, api, &rest, keeper)) {
            Some(Defect::Changed(other)) => whole = other,
            Some(Defect::Answered(answer)) => {
                self.owed.push_back(Owed {
                    header,
                    id: None,
                    answer: Some(answer),
                    trouble: None,
                    is_extra: false,
                });
                return self.release(keeper);
            }
            None => {}
        }
        let id = match (api, keeper.plant) {
            (ApiKey::InitProducerId, Some(_)) => {
                let request = InitProducerIdRequest::decode(header.api_version, &mut rest.clone());
                let id = request.ok().and_then(|request| request.transactional_id);
                id.map(|id| id.to_string())
            }
            (ApiKey::ConsumerGroupHeartbeat, Some(_)) => epochs::group_of(&header, &rest),
            (_, Some(_)) => groups::group_of(&header, api, &rest),
            _ => None,
        };
        let mut produce = None;
        if api == ApiKey::Produce {
            produce = ProduceRequest::decode(header.api_version, &mut rest).ok();
            if produce.as_ref().is_some_and(|request| request.acks == 0) {
                // It gets no response.
                seen.push(whole);
                return;
            }
        }
        if let Some(request) = &produce
            && self.planted(&header, request, keeper, seen)
        {
            return;
        }
        if self.planted_change(&header, api, &body, keeper, seen) {
            return;
        }
        // A leader that waits for no follower appends and responds in one step.
        let awaits_followers = produce.as_ref().is_none_or(|request| request.acks == -1);
        let is_possible = |trouble: &Trouble| match trouble {
            Trouble::AppliedYet(_) => awaits_followers,
            // Only since this version it is the response's own code (KIP-1102).
            Trouble::Refused(ErrorCode::REBOOTSTRAP_REQUIRED) => header.api_version >= 13,
            _ => true,
        };
        let trouble = keeper
            .armed
            .get_mut(&self.node)
            .and_then(|armed| armed.take(api))
            .filter(is_possible);
        if let Some(trouble) = trouble {
            tally.strike(trouble.name());
            let of_groups = groups::name_of(api, trouble).or_else(|| share::name_of(api, trouble));
            if let Some(name) = of_groups.or_else(|| transactions::name_of(api, trouble)) {
                tally.strike(name);
            }
        }
        let mut answer = None;
        match trouble {
            Some(Trouble::Refused(code)) => {
                answer = error_frame(body, &Refusal::from(code)).ok();
            }
            Some(Trouble::ClosedBefore) => {
                self.is_mute = true;
                self.ready.push_back(ToClient::Close);
                return;
            }
            _ => {}
        }
        self.owed.push_back(Owed {
            header,
            id,
            answer: answer.map(|frame| frame.into_bytes()),
            trouble,
            is_extra: false,
        });
        if trouble.is_none_or(Trouble::applies) {
            seen.push(whole);
        }
        self.release(keeper);
    }

    /// Plays what a defective broker does to a Produce request; true if the broker does not see it.
    fn planted(
        &mut self,
        header: &RequestHeader,
        request: &ProduceRequest,
        keeper: &mut Keeper,
        seen: &mut Vec<Bytes>,
    ) -> bool {
        let plant = keeper.plant;
        match plant {
            Some(Plant::AckedNotWritten) if keeper.every(6) => {
                let Some(answer) = success(header, request, keeper) else {
                    return false;
                };
                self.owed.push_back(Owed {
                    header: header.clone(),
                    id: None,
                    answer: Some(answer),
                    trouble: None,
                    is_extra: false,
                });
                self.release(keeper);
                true
            }
            Some(Plant::ProduceUnanswered) => {
                keeper.count += 1;
                if keeper.count > 10 {
                    self.is_mute = true;
                }
                keeper.count > 10
            }
            Some(Plant::WrittenTwice) if keeper.every(5) => {
                let mut copy = request.clone();
                plant::strip_identity(&mut copy);
                let mut header = header.clone();
                header.correlation_id = i32::MAX - header.correlation_id;
                let client = header.client_id.clone();
                let again = encode_request(
                    &copy,
                    header.api_version,
                    header.correlation_id,
                    client.as_deref(),
                );
                if let Ok(again) = again {
                    seen.push(again.into_bytes());
                    self.owed.push_back(Owed {
                        header,
                        id: None,
                        answer: None,
                        trouble: None,
                        is_extra: true,
                    });
                }
                false
            }
            _ => false,
        }
    }

    /// Plays what a defective broker does to a change of topics; true if the broker does not see it, or not as it came.
    fn planted_change(
        &mut self,
        header: &RequestHeader,
        api: ApiKey,
        body: &Bytes,
        keeper: &mut Keeper,
        seen: &mut Vec<Bytes>,
    ) -> bool {
        let mut owe = |header: RequestHeader, answer, is_extra| {
            self.owed.push_back(Owed {
                header,
                id: None,
                answer,
                trouble: None,
                is_extra,
            });
        };
        match (keeper.plant, api) {
            (Some(Plant::CreatedTwice), ApiKey::CreateTopics) if keeper.every(2) => {
                let whole = framed(body);
                // Nobody receives the first response.
                owe(header.clone(), None, true);
                owe(header.clone(), None, false);
                seen.extend([whole.clone(), whole]);
                true
            }
            (Some(Plant::DeletedNot), ApiKey::DeleteTopics) if keeper.every(2) => {
                let answer = error_frame(body.clone(), &Refusal::from(ErrorCode::NONE));
                owe(
                    header.clone(),
                    answer.ok().map(|frame| frame.into_bytes()),
                    false,
                );
                self.release(keeper);
                true
            }
            _ => false,
        }
    }

    /// Bytes came from the broker.
    pub fn hear_broker(&mut self, bytes: &[u8], keeper: &mut Keeper) {
        self.output.extend_from_slice(bytes);
        while let Some(whole) = frame(&mut self.output) {
            let Ok(id) = correlation_id(&whole.slice(4..)) else {
                continue;
            };
            let owed = self.owed.iter_mut();
            let mut asked = owed.filter(|owed| owed.header.correlation_id == id);
            if let Some(owed) = asked.find(|owed| owed.answer.is_none()) {
                owed.answer = Some(whole);
            }
        }
        self.release(keeper);
    }

    /// The broker closes the connection.
    pub fn broker_closed(&mut self) {
        if !self.is_mute {
            self.ready.push_back(ToClient::Close);
        }
    }

    /// The next output for the client.
    pub fn poll(&mut self) -> Option<ToClient> {
        self.ready.pop_front()
    }

    /// Hands out responses in the order of their requests.
    fn release(&mut self, keeper: &mut Keeper) {
        while !self.is_mute && self.owed.front().is_some_and(|owed| owed.answer.is_some()) {
            let Some(Owed {
                header,
                id,
                answer: Some(answer),
                trouble,
                is_extra,
            }) = self.owed.pop_front()
            else {
                return;
            };
            if is_extra {
                continue;
            }
            if let Some(api) = api_of(&header).filter(|_| keeper.counts) {
                transactions::count(&header, api, &answer, keeper);
                groups::count(&header, api, &answer, keeper);
                share::count(&header, api, &answer, keeper);
                truncated::count(&header, api, &answer, keeper);
            }
            let answer = truncated::tell_less(self.node, &header, answer, keeper);
            let answer = spoiled(&header, id.as_deref(), answer, keeper);
            let answer = falsify(&header, answer, keeper);
            self.send(&header, answer, trouble);
        }
    }

    fn send(&mut self, header: &RequestHeader, answer: Bytes, trouble: Option<Trouble>) {
        let now = Duration::ZERO;
        let ready = &mut self.ready;
        match trouble {
            None | Some(Trouble::Refused(_)) => ready.push_back(ToClient::Bytes(answer, now)),
            Some(Trouble::Late(delay)) => ready.push_back(ToClient::Bytes(answer, delay)),
            Some(Trouble::CutAfter(count)) => {
                let part = answer.slice(..count.min(answer.len().saturating_sub(1)));
                ready.push_back(ToClient::Bytes(part, now));
                ready.push_back(ToClient::Close);
                self.is_mute = true;
            }
            Some(Trouble::Lost) => {
                ready.push_back(ToClient::Close);
                self.is_mute = true;
            }
            Some(Trouble::ClosedAfter) => {
                ready.push_back(ToClient::Bytes(answer, now));
                ready.push_back(ToClient::Close);
                self.is_mute = true;
            }
            Some(Trouble::Twice) => {
                ready.push_back(ToClient::Bytes(answer.clone(), now));
                ready.push_back(ToClient::Bytes(answer, now));
            }
            Some(Trouble::OutOfStep) => {
                let mut changed = BytesMut::from(&answer[..]);
                if let Some(id) = changed.get_mut(4) {
                    *id ^= 0x40;
                }
                ready.push_back(ToClient::Bytes(changed.freeze(), now));
            }
            Some(Trouble::Bytewise) => ready.push_back(ToClient::Bytewise(answer)),
            Some(Trouble::Throttled(pause)) => {
                ready.push_back(ToClient::Bytes(throttled(header, answer, pause), now));
            }
            Some(Trouble::AppliedYet(code)) => {
                let answer = refused(header, &answer, code);
                ready.push_back(ToClient::Bytes(answer, now));
            }
            Some(Trouble::Silence | Trouble::Swallowed | Trouble::ClosedBefore) => {
                self.is_mute = true;
            }
        }
    }
}

/// The response to a request that was carried out, as a refusal.
fn refused(header: &RequestHeader, answer: &Bytes, code: ErrorCode) -> Bytes {
    if api_of(header) == Some(ApiKey::EndTxn) {
        return changed(header, answer, |answer: &mut EndTxnResponse| {
            if answer.error_code == 0 {
                answer.error_code = code.0;
                (answer.producer_id, answer.producer_epoch) = (-1, -1);
            }
        });
    }
    changed(header, answer, |answer: &mut ProduceResponse| {
        let topics = answer.responses.iter_mut();
        for row in topics.flat_map(|topic| &mut topic.partition_responses) {
            if row.error_code == 0 {
                row.error_code = code.0;
                row.base_offset = -1;
            }
        }
    })
}

fn throttled(header: &RequestHeader, answer: Bytes, pause: i32) -> Bytes {
    match api_of(header) {
        Some(ApiKey::Produce) => changed(header, &answer, |answer: &mut ProduceResponse| {
            answer.throttle_time_ms = pause;
        }),
        Some(ApiKey::Fetch) => changed(header, &answer, |answer: &mut FetchResponse| {
            answer.throttle_time_ms = pause;
        }),
        _ => answer,
    }
}

/// A response, changed by a planted defect.
fn spoiled(header: &RequestHeader, id: Option<&str>, answer: Bytes, keeper: &mut Keeper) -> Bytes {
    let Some(plant) = keeper.plant else {
        return answer;
    };
    match api_of(header) {
        Some(ApiKey::Produce) => changed(
            header,
            &answer,
            |answer: &mut ProduceResponse| match plant {
                Plant::WrongBaseOffset if keeper.every(5) => plant::shift_bases(answer, -1),
                Plant::WrittenThoughRefused if keeper.every(5) => plant::refuse(answer),
                Plant::AckedNotWritten => remember(answer, keeper),
                _ => {}
            },
        ),
        Some(ApiKey::Fetch) => changed(header, &answer, |answer: &mut FetchResponse| match plant {
            Plant::BatchSkipped => plant::drop_first(answer),
            Plant::OtherPartitionServed => plant::swap_records(answer),
            Plant::StoredDamaged if keeper.every(5) => plant::damage(answer),
            Plant::OffsetsReused => plant::shift_records(answer, -2, 10),
            Plant::NewestCompacted => plant::without_key(answer, b"2"),
            Plant::AbortedNotTold => plant::hide_aborted(answer),
            Plant::AbortMarkersLost => {
                for records in plant::with_records(answer) {
                    *records = transactions::without_aborts(records);
                }
            }
            _ => {}
        }),
        Some(ApiKey::InitProducerId) => {
            changed(header, &answer, |answer: &mut InitProducerIdResponse| {
                transactions::remember(keeper, id, answer);
            })
        }
        Some(ApiKey::Metadata) if plant == Plant::LastPartitionHidden => {
            changed(header, &answer, |answer: &mut MetadataResponse| {
                plant::hide_last(answer)
            })
        }
        Some(ApiKey::Metadata) if plant == Plant::LeaderHidden => {
            changed(header, &answer, |answer: &mut MetadataResponse| {
                plant::hide_leader(answer)
            })
        }
        Some(ApiKey::OffsetForLeaderEpoch) if plant == Plant::EpochEndsLate => {
            changed(header, &answer, plant::move_ends)
        }
        Some(ApiKey::ConsumerGroupHeartbeat) => {
            epochs::spoiled(header, id.unwrap_or_default(), &answer, keeper)
        }
        Some(api) => groups::spoiled(header, api, id, answer, keeper),
        None => answer,
    }
}

/// A response, changed by a malicious broker.
fn falsify(header: &RequestHeader, answer: Bytes, keeper: &mut Keeper) -> Bytes {
    let Some((chance, api)) = keeper.lies.as_mut().zip(api_of(header)) else {
        return answer;
    };
    if !chance.percent(LIES) {
        return answer;
    }
    keeper.lied += 1;
    falsified(chance, api, header.api_version, &answer)
}

fn remember(answer: &ProduceResponse, keeper: &mut Keeper) {
    for topic in &answer.responses {
        let name = format!("{}{}", &*topic.name, topic.topic_id);
        for row in topic
            .partition_responses
            .iter()
            .filter(|row| row.base_offset >= 0)
        {
            keeper
                .ends
                .insert((name.clone(), row.index), row.base_offset);
        }
    }
}

/// The response of a broker that wrote nothing.
fn success(header: &RequestHeader, request: &ProduceRequest, keeper: &Keeper) -> Option<Bytes> {
    let mut response = ProduceResponse::default();
    for topic in &request.topic_data {
        let name = format!("{}{}", &*topic.name, topic.topic_id);
        let mut row = TopicProduceResponse {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            ..Default::default()
        };
        for partition in &topic.partition_data {
            let end = keeper.ends.get(&(name.clone(), partition.index))?;
            row.partition_responses.push(PartitionProduceResponse {
                index: partition.index,
                base_offset: end + 1,
                log_append_time_ms: -1,
                ..Default::default()
            });
        }
        response.responses.push(row);
    }
    let frame = encode_response(&response, header.api_version, header.correlation_id);
    frame.ok().map(|frame| frame.into_bytes())
}
