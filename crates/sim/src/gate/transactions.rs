//! The part of a gate for transactions: which of their exchanges get faults, the states seen in
//! responses, and the planted defects of brokers.

use bytes::{Bytes, BytesMut};
use ottla_protocol::header::{RequestHeader, decode_response, encode_response};
use ottla_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FetchRequest, InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
    TxnOffsetCommitResponse,
};
use ottla_protocol::records::{BatchHeader, ControlType, Entry, entries};
use ottla_protocol::refusal::{Refusal, error_frame};
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader};

use super::frames::{Defect, request_instead};
use crate::keeper::{Keeper, Trouble};
use crate::plant::{Plant, outside_transaction};

/// The name in the summary of what befalls an exchange of a transaction.
pub(super) fn name_of(api: ApiKey, trouble: Trouble) -> Option<&'static str> {
    let names = match api {
        ApiKey::InitProducerId => [
            "InitProducerId: refused",
            "InitProducerId: response late",
            "InitProducerId: response lost",
            "InitProducerId: request lost",
        ],
        ApiKey::AddPartitionsToTxn => [
            "AddPartitionsToTxn: refused",
            "AddPartitionsToTxn: response late",
            "AddPartitionsToTxn: response lost",
            "AddPartitionsToTxn: request lost",
        ],
        ApiKey::AddOffsetsToTxn => [
            "AddOffsetsToTxn: refused",
            "AddOffsetsToTxn: response late",
            "AddOffsetsToTxn: response lost",
            "AddOffsetsToTxn: request lost",
        ],
        ApiKey::TxnOffsetCommit => [
            "TxnOffsetCommit: refused",
            "TxnOffsetCommit: response late",
            "TxnOffsetCommit: response lost",
            "TxnOffsetCommit: request lost",
        ],
        ApiKey::EndTxn => [
            "EndTxn: refused",
            "EndTxn: response late",
            "EndTxn: response lost",
            "EndTxn: request lost",
        ],
        ApiKey::Produce => [
            "Produce: refused",
            "Produce: response late",
            "Produce: response lost",
            "Produce: request lost",
        ],
        _ => return None,
    };
    let [refused, late, lost, unseen] = names;
    match trouble {
        Trouble::Refused(_) | Trouble::AppliedYet(_) => Some(refused),
        Trouble::Late(_) => Some(late),
        Trouble::Lost | Trouble::Silence | Trouble::CutAfter(_) => Some(lost),
        Trouble::ClosedBefore | Trouble::Swallowed => Some(unseen),
        _ => None,
    }
}

/// Counts states in the responses to requests of transactions.
pub(super) fn count(header: &RequestHeader, api: ApiKey, answer: &Bytes, keeper: &mut Keeper) {
    let version = header.api_version;
    let body = answer.slice(4..);
    let codes: Vec<i16> = match api {
        ApiKey::InitProducerId => decode_response::<InitProducerIdResponse>(version, body)
            .map_or_else(|_| Vec::new(), |(_, body)| vec![body.error_code]),
        ApiKey::AddPartitionsToTxn => decode_response::<AddPartitionsToTxnResponse>(version, body)
            .map_or_else(
                |_| Vec::new(),
                |(_, body)| {
                    let topics = body.results_by_topic_v3_and_below.iter();
                    let rows = topics.flat_map(|topic| &topic.results_by_partition);
                    rows.map(|row| row.partition_error_code).collect()
                },
            ),
        ApiKey::AddOffsetsToTxn => decode_response::<AddOffsetsToTxnResponse>(version, body)
            .map_or_else(|_| Vec::new(), |(_, body)| vec![body.error_code]),
        ApiKey::TxnOffsetCommit => decode_response::<TxnOffsetCommitResponse>(version, body)
            .map_or_else(
                |_| Vec::new(),
                |(_, body)| {
                    let rows = body.topics.iter().flat_map(|topic| &topic.partitions);
                    rows.map(|row| row.error_code).collect()
                },
            ),
        ApiKey::EndTxn => decode_response::<EndTxnResponse>(version, body)
            .map_or_else(|_| Vec::new(), |(_, body)| vec![body.error_code]),
        ApiKey::Produce => decode_response::<ProduceResponse>(version, body).map_or_else(
            |_| Vec::new(),
            |(_, body)| {
                let topics = body.responses.iter();
                let rows = topics.flat_map(|topic| &topic.partition_responses);
                rows.map(|row| row.error_code).collect()
            },
        ),
        _ => return,
    };
    for code in codes {
        if let Some(state) = state_of(api, ErrorCode(code)) {
            keeper.tally.meet(state);
        }
    }
}

fn state_of(api: ApiKey, code: ErrorCode) -> Option<&'static str> {
    let is_fenced = matches!(
        code,
        ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH
    );
    Some(match (api, code) {
        (ApiKey::InitProducerId, ErrorCode::CONCURRENT_TRANSACTIONS) => {
            "response: InitProducerId CONCURRENT_TRANSACTIONS"
        }
        (ApiKey::AddPartitionsToTxn, ErrorCode::CONCURRENT_TRANSACTIONS) => {
            "response: AddPartitionsToTxn CONCURRENT_TRANSACTIONS"
        }
        (ApiKey::AddOffsetsToTxn, ErrorCode::CONCURRENT_TRANSACTIONS) => {
            "response: AddOffsetsToTxn CONCURRENT_TRANSACTIONS"
        }
        (ApiKey::EndTxn, ErrorCode::CONCURRENT_TRANSACTIONS) => {
            "response: EndTxn CONCURRENT_TRANSACTIONS"
        }
        (ApiKey::Produce, ErrorCode::CONCURRENT_TRANSACTIONS) => {
            "response: Produce CONCURRENT_TRANSACTIONS"
        }
        (ApiKey::EndTxn, ErrorCode::INVALID_TXN_STATE) => "response: EndTxn INVALID_TXN_STATE",
        (ApiKey::Produce, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) => {
            "response: Produce OUT_OF_ORDER_SEQUENCE_NUMBER"
        }
        (ApiKey::Produce, ErrorCode::UNKNOWN_PRODUCER_ID) => {
            "response: Produce UNKNOWN_PRODUCER_ID"
        }
        (ApiKey::InitProducerId, _) if is_fenced => "response: InitProducerId fenced",
        (ApiKey::EndTxn, _) if is_fenced => "response: EndTxn fenced",
        (ApiKey::Produce, _) if is_fenced => "response: Produce fenced",
        (ApiKey::TxnOffsetCommit, _) if is_fenced => "response: TxnOffsetCommit fenced",
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
        (plant @ (Plant::CommitNotDone | Plant::AbortNotDone), ApiKey::EndTxn) => {
            let request = EndTxnRequest::decode(version, &mut rest).ok()?;
            let is_meant = request.committed == (plant == Plant::CommitNotDone);
            if is_meant && keeper.every(3) {
                done()
            } else {
                None
            }
        }
        (Plant::GroupOffsetsForgotten, ApiKey::TxnOffsetCommit) if keeper.every(2) => done(),
        (Plant::UnstableServed, ApiKey::Fetch) => {
            let mut request = FetchRequest::decode(version, &mut rest).ok()?;
            request.isolation_level = 0;
            request_instead(header, &request)
        }
        (Plant::OldEpochWritten, ApiKey::Produce) => {
            let mut request = ProduceRequest::decode(version, &mut rest).ok()?;
            let epochs = &keeper.epochs;
            let is_old = |batch: &BatchHeader| {
                let known = epochs.get(&batch.producer_id);
                known.is_some_and(|known| batch.producer_epoch < *known)
            };
            if outside_transaction(&mut request, is_old) {
                request_instead(header, &request)
            } else {
                None
            }
        }
        (Plant::EpochGivenTwice, ApiKey::InitProducerId) => {
            let request = InitProducerIdRequest::decode(version, &mut rest).ok()?;
            let id = request.transactional_id?.to_string();
            let (producer_id, producer_epoch) = *keeper.identities.get(&id)?;
            let answer = InitProducerIdResponse {
                producer_id,
                producer_epoch,
                ..Default::default()
            };
            let answer = encode_response(&answer, version, header.correlation_id).ok()?;
            Some(Defect::Answered(answer.into_bytes()))
        }
        _ => None,
    }
}

/// Remembers identities that brokers gave, for plants that need them.
pub(super) fn remember(keeper: &mut Keeper, id: Option<&str>, answer: &InitProducerIdResponse) {
    if answer.error_code != 0 {
        return;
    }
    let identity = (answer.producer_id, answer.producer_epoch);
    keeper.epochs.insert(identity.0, identity.1);
    if let Some(id) = id {
        keeper.identities.insert(id.to_owned(), identity);
    }
}

/// The records without the markers of aborts.
pub(super) fn without_aborts(records: &Bytes) -> Bytes {
    let mut kept = BytesMut::new();
    for entry in entries(records.clone()).map_while(Result::ok) {
        let is_abort = match &entry {
            Entry::Batch(batch) => {
                let kind = batch.control_type(1 << 16).ok().flatten();
                kind == Some(ControlType::Abort)
            }
            Entry::Message(_) => false,
        };
        if !is_abort {
            kept.extend_from_slice(entry.bytes());
        }
    }
    kept.freeze()
}
