//! AddPartitionsToTxn, versions 0 to 5: partitions that a producer is about to write to in its transaction.
//!
//! Clients send versions up to 3. Since version 4 brokers send it to each other, for many
//! transactions at once, and can verify partitions without adding them (KIP-890). Clients that may
//! act for the cluster may do so.

use std::sync::Arc;

use ottla_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use ottla_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use ottla_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::coordinated::from_transactions;
use super::{Api, Cx, Outcome, Wait};
use crate::cluster::controller::Asked;
use crate::security::acl::{Operation, Resource};
use crate::transaction::{Add, Adding, Identity, Place, Protocol, Reply};

const FIRST_WITH_FENCED: i16 = 2;
const FIRST_OF_BROKERS: i16 = 4;
const FIRST_WITH_EPOCHS: i16 = 5;

impl Api for AddPartitionsToTxnRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AddPartitionsToTxnResponse> {
        let version = cx.version;
        if version >= FIRST_OF_BROKERS {
            return match cx.check(Operation::ClusterAction, Resource::CLUSTER) {
                Ok(()) => of_brokers(&self, cx),
                Err(code) => Outcome::Answer(self.refuse(version, code)),
            };
        }
        let id = &self.v3_and_below_transactional_id;
        if let Err(code) = cx.check(Operation::Write, Resource::transactional_id(id)) {
            return Outcome::Answer(self.refuse(version, code));
        }
        let topics = &self.v3_and_below_topics;
        let codes = check(cx, topics, true);
        if codes.iter().any(|code| *code != ErrorCode::NONE) {
            return Outcome::Answer(respond(&self, &codes));
        }
        let add = Add {
            id: id.to_string(),
            producer: Identity {
                producer_id: self.v3_and_below_producer_id,
                epoch: self.v3_and_below_producer_epoch,
            },
            partitions: places(topics),
            how: Adding::Add(Protocol::Classic),
        };
        let ticket = cx.question();
        cx.core.add_here(&add, ticket.clone(), cx.now);
        from_transactions(ticket, move |reply| match reply {
            Reply::Partitions(codes) => {
                let is_old = version < FIRST_WITH_FENCED;
                let codes = codes.iter().map(|code| super::old_fencing(*code, is_old));
                Some(respond(&self, &codes.collect::<Vec<_>>()))
            }
            Reply::Producer(_) | Reply::Kept { .. } => None,
        })
    }
}

fn places(topics: &[AddPartitionsToTxnTopic]) -> Vec<Place> {
    let of = |topic: &AddPartitionsToTxnTopic| {
        let name = topic.name.to_string();
        let indexes = topic.partitions.iter();
        indexes
            .map(move |index| (name.clone(), *index))
            .collect::<Vec<_>>()
    };
    topics.iter().flat_map(of).collect()
}

/// A code for each partition. One that cannot be added keeps the others from it.
fn check(cx: &Cx<'_>, topics: &[AddPartitionsToTxnTopic], asks_topics: bool) -> Vec<ErrorCode> {
    let mut codes = Vec::new();
    for topic in topics {
        let allowed = match asks_topics {
            true => cx.check(Operation::Write, Resource::topic(&topic.name)),
            false => Ok(()),
        };
        let found = allowed.and_then(|()| cx.core.topic(&topic.name));
        for index in topic.partitions.iter() {
            let known = found.as_ref().map_err(|code| *code);
            let known = known.and_then(|topic| topic.partition(*index).map(drop));
            codes.push(known.err().unwrap_or(ErrorCode::NONE));
        }
    }
    if codes.iter().any(|code| *code != ErrorCode::NONE) {
        for code in codes.iter_mut().filter(|code| **code == ErrorCode::NONE) {
            *code = ErrorCode::OPERATION_NOT_ATTEMPTED;
        }
    }
    codes
}

fn respond(request: &AddPartitionsToTxnRequest, codes: &[ErrorCode]) -> AddPartitionsToTxnResponse {
    AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: results(&request.v3_and_below_topics, codes),
        ..Default::default()
    }
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    codes: &[ErrorCode],
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut codes = codes.iter();
    let topics = topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|index| {
            let code = codes.next().copied().unwrap_or(ErrorCode::NONE);
            AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: code.0,
                ..Default::default()
            }
        });
        AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: partitions.collect(),
            ..Default::default()
        }
    });
    topics.collect()
}

/// One transaction of a request of a broker.
struct Part {
    id: Str,
    topics: Vec<AddPartitionsToTxnTopic>,
    answer: Answer,
}

enum Answer {
    Known(Vec<ErrorCode>),
    Asked(Asked),
}

fn of_brokers(
    request: &AddPartitionsToTxnRequest,
    cx: &Cx<'_>,
) -> Outcome<AddPartitionsToTxnResponse> {
    let part = |transaction: &AddPartitionsToTxnTransaction| {
        let codes = check(cx, &transaction.topics, false);
        let is_refused = codes.iter().any(|code| *code != ErrorCode::NONE);
        let answer = if is_refused && !transaction.verify_only {
            Answer::Known(codes)
        } else {
            let ticket = cx.question();
            let add = Add {
                id: transaction.transactional_id.to_string(),
                producer: Identity {
                    producer_id: transaction.producer_id,
                    epoch: transaction.producer_epoch,
                },
                partitions: places(&transaction.topics),
                how: match transaction.verify_only {
                    true => Adding::Verify,
                    false if cx.version >= FIRST_WITH_EPOCHS => Adding::Add(Protocol::EpochEach),
                    false => Adding::Add(Protocol::Classic),
                },
            };
            cx.core.add_here(&add, Arc::clone(&ticket), cx.now);
            Answer::Asked(ticket)
        };
        Part {
            id: transaction.transactional_id.clone(),
            topics: transaction.topics.clone(),
            answer,
        }
    };
    gather(request.transactions.iter().map(part).collect())
}

/// Responds when the results of all transactions are there.
fn gather(mut parts: Vec<Part>) -> Outcome<AddPartitionsToTxnResponse> {
    for part in &mut parts {
        if let Answer::Asked(ticket) = &part.answer {
            match ticket.take() {
                Some(Reply::Partitions(codes)) => part.answer = Answer::Known(codes),
                Some(Reply::Producer(_) | Reply::Kept { .. }) => {
                    return Outcome::Close(
                        "the coordinator sent the response of another request".to_owned(),
                    );
                }
                None => {
                    return Outcome::Wait(Wait {
                        awaited: ticket.clone(),
                        deadline: None,
                        resume: Box::new(move |_| gather(parts)),
                    });
                }
            }
        }
    }
    let results = parts.iter().map(|part| AddPartitionsToTxnResult {
        transactional_id: part.id.clone(),
        topic_results: match &part.answer {
            Answer::Known(codes) => results(&part.topics, codes),
            Answer::Asked(_) => Vec::new(),
        },
        ..Default::default()
    });
    Outcome::Answer(AddPartitionsToTxnResponse {
        results_by_transaction: results.collect(),
        ..Default::default()
    })
}
