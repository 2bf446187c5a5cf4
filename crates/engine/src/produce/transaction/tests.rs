//! Transactions against a scripted cluster: every state, every response, both protocols.

mod markers;
mod offsets;
mod outcome;
mod two_phase;

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use ottla_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use ottla_protocol::messages::describe_transactions_response::TransactionState;
use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use ottla_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiVersionsResponse,
    DescribeTransactionsResponse, EndTxnResponse, FindCoordinatorResponse, InitProducerIdResponse,
    ProduceResponse, TxnOffsetCommitResponse,
};
use ottla_protocol::records::batches;
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use super::{Finished, Verb, VerbId};
use crate::api::{HIGHEST, Request, Response, Versions};
use crate::call::{GroupMetadata, GroupOffset};
use crate::config::Role;
use crate::engine::Engine;
use crate::error::{Error, Kind, Written};
use crate::producer::{NotAppended, Producer, Row};
use crate::script::{Asked, Script, config};

type Sender = Script<Producer<i32>>;

const MINUTE: Duration = Duration::from_secs(60);

/// A broker whose cluster has this level of `transaction.version`, and this highest version of InitProducerId.
fn versions(level: i16, init: i16) -> Versions {
    Versions::new(&told(level, 1, init))
}

/// The ApiVersions response of such a broker, with features of this epoch.
fn told(level: i16, epoch: i64, init: i16) -> ApiVersionsResponse {
    let unwanted = [ApiKey::GetTelemetrySubscriptions, ApiKey::PushTelemetry];
    let rows = HIGHEST.iter().filter(|(api, _)| !unwanted.contains(api));
    let rows = rows.map(|&(api, max_version)| ApiVersion {
        api_key: api.as_i16(),
        max_version: if api == ApiKey::InitProducerId {
            max_version.min(init)
        } else {
            max_version
        },
        ..Default::default()
    });
    ApiVersionsResponse {
        api_keys: rows.collect(),
        finalized_features_epoch: epoch,
        finalized_features: vec![FinalizedFeatureKey {
            name: "transaction.version".into(),
            max_version_level: level,
            min_version_level: level,
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A transactional producer, not initialised, that knows its topic.
fn fresh(level: i16, pairs: &[(&'static str, &'static str)]) -> Sender {
    fresh_at(versions(level, 5), pairs)
}

fn fresh_at(versions: Versions, pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut pairs = [&[("transactional.id", "tx")], pairs].concat();
    if !pairs.iter().any(|(key, _)| *key == "linger.ms") {
        pairs.push(("linger.ms", "0"));
    }
    let mut script = Script::new(Engine::producer(config(Role::Producer, &pairs), 7));
    script.versions = versions;
    script.engine.want_topic(script.now, "t");
    script.run();
    script
}

fn start(script: &mut Sender, verb: &Verb) -> VerbId {
    let deadline = script.now + MINUTE;
    let started = script.engine.start_verb(script.now, verb, deadline);
    started.unwrap().unwrap()
}

/// Run, respond to every FindCoordinator with broker 1, and return the only request that is left.
fn next(script: &mut Sender) -> Asked {
    let mut rest = all(script);
    assert_eq!(rest.len(), 1, "{rest:?}");
    rest.remove(0)
}

fn all(script: &mut Sender) -> Vec<Asked> {
    let mut rest = Vec::new();
    loop {
        let asked = script.run();
        let before = (asked.len(), rest.len());
        answer_asides(script, asked, &mut rest);
        if before.0 == rest.len() - before.1 {
            return rest;
        }
    }
}

/// Respond to requests that are not part of the transaction, and keep the rest: the coordinator is
/// broker 1, and all markers are written.
fn answer_asides(script: &mut Sender, asked: Vec<Asked>, rest: &mut Vec<Asked>) {
    for asked in asked {
        match asked.request {
            Request::FindCoordinator(_) => found(script, &asked, 1),
            Request::DescribeTransactions(_) => described(script, &asked, "CompleteCommit"),
            _ => rest.push(asked),
        }
    }
}

fn described(script: &mut Sender, asked: &Asked, state: &str) {
    let row = TransactionState {
        transactional_id: "tx".into(),
        transaction_state: state.into(),
        ..Default::default()
    };
    script.answer(
        asked,
        Response::DescribeTransactions(DescribeTransactionsResponse {
            transaction_states: vec![row],
            ..Default::default()
        }),
    );
}

/// As [`all`], while time passes.
fn later(script: &mut Sender, time: Duration) -> Vec<Asked> {
    let mut rest = Vec::new();
    let step = Duration::from_millis(5);
    let end = script.now + time;
    while script.now < end {
        let asked = script.pass(step);
        answer_asides(script, asked, &mut rest);
        rest.extend(all(script));
    }
    rest
}

fn found(script: &mut Sender, asked: &Asked, node_id: i32) {
    let Request::FindCoordinator(request) = &asked.request else {
        panic!()
    };
    let coordinators = request.coordinator_keys.iter().map(|key| Coordinator {
        key: key.clone(),
        node_id,
        host: format!("b{node_id}").as_str().into(),
        port: 1,
        ..Default::default()
    });
    let coordinators = coordinators.collect();
    script.answer(
        asked,
        Response::FindCoordinator(FindCoordinatorResponse {
            coordinators,
            ..Default::default()
        }),
    );
}

/// Respond to any request of a transaction with a code; InitProducerId and EndTxn also with an
/// identity.
fn reply(script: &mut Sender, asked: &Asked, code: ErrorCode, epoch: i16) {
    let response = match &asked.request {
        Request::InitProducerId(_) => Response::InitProducerId(InitProducerIdResponse {
            error_code: code.0,
            producer_id: 40,
            producer_epoch: epoch,
            ..Default::default()
        }),
        Request::AddPartitionsToTxn(request) => {
            let topics = request.v3_and_below_topics.iter();
            Response::AddPartitionsToTxn(AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below: topics
                    .map(|topic| AddPartitionsToTxnTopicResult {
                        name: topic.name.clone(),
                        results_by_partition: topic
                            .partitions
                            .iter()
                            .map(|partition| AddPartitionsToTxnPartitionResult {
                                partition_index: *partition,
                                partition_error_code: code.0,
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
        }
        Request::AddOffsetsToTxn(_) => Response::AddOffsetsToTxn(AddOffsetsToTxnResponse {
            error_code: code.0,
            ..Default::default()
        }),
        Request::TxnOffsetCommit(request) => {
            let topics = request.topics.iter();
            Response::TxnOffsetCommit(TxnOffsetCommitResponse {
                topics: topics
                    .map(|topic| TxnOffsetCommitResponseTopic {
                        name: topic.name.clone(),
                        partitions: topic
                            .partitions
                            .iter()
                            .map(|row| TxnOffsetCommitResponsePartition {
                                partition_index: row.partition_index,
                                error_code: code.0,
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
        }
        Request::EndTxn(_) if asked.version >= 5 => Response::EndTxn(EndTxnResponse {
            error_code: code.0,
            producer_id: if code.is_error() { -1 } else { 40 },
            producer_epoch: if code.is_error() { -1 } else { epoch },
            ..Default::default()
        }),
        Request::EndTxn(_) => Response::EndTxn(EndTxnResponse {
            error_code: code.0,
            ..Default::default()
        }),
        Request::Produce(request) => {
            let responses = request.topic_data.iter().map(|topic| TopicProduceResponse {
                topic_id: topic.topic_id,
                name: topic.name.clone(),
                partition_responses: topic
                    .partition_data
                    .iter()
                    .map(|part| PartitionProduceResponse {
                        index: part.index,
                        error_code: code.0,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            });
            Response::Produce(ProduceResponse {
                responses: responses.collect(),
                ..Default::default()
            })
        }
        other => panic!("{other:?}"),
    };
    script.answer(asked, response);
}

fn ok(script: &mut Sender, asked: &Asked) {
    reply(script, asked, ErrorCode::NONE, 0);
}

/// What a request is, in a word, with its epoch.
fn name(asked: &Asked) -> (&'static str, i16) {
    match &asked.request {
        Request::InitProducerId(request) => ("init", request.producer_epoch),
        Request::AddPartitionsToTxn(request) => {
            ("add partitions", request.v3_and_below_producer_epoch)
        }
        Request::AddOffsetsToTxn(request) => ("add offsets", request.producer_epoch),
        Request::TxnOffsetCommit(request) => ("offsets", request.producer_epoch),
        Request::EndTxn(request) if request.committed => ("commit", request.producer_epoch),
        Request::EndTxn(request) => ("abort", request.producer_epoch),
        Request::Produce(_) => ("produce", stamp(asked).0),
        other => panic!("{other:?}"),
    }
}

fn names(asked: &[Asked]) -> Vec<(&'static str, i16)> {
    asked.iter().map(name).collect()
}

/// Epoch and sequence number of the only batch, which must be transactional.
fn stamp(asked: &Asked) -> (i16, i32) {
    let Request::Produce(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert_eq!(request.transactional_id.as_deref(), Some("tx"));
    let records = request.topic_data[0].partition_data[0].records.clone();
    let batch = batches(records.unwrap()).next().unwrap().unwrap();
    assert!(batch.header.is_transactional());
    (batch.header.producer_epoch, batch.header.base_sequence)
}

fn end(script: &mut Sender, id: VerbId) -> Result<Finished, Error> {
    script.engine.take_verb(id).expect("the verb has ended")
}

fn init(script: &mut Sender) {
    let id = start(script, &Verb::Init);
    let asked = next(script);
    let Request::InitProducerId(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert_eq!(request.transactional_id.as_deref(), Some("tx"));
    assert_eq!((request.producer_id, request.producer_epoch), (-1, -1));
    assert_eq!(request.transaction_timeout_ms, 60_000);
    ok(script, &asked);
    script.run();
    end(script, id).unwrap();
}

/// A producer with an open transaction.
fn begun(level: i16) -> Sender {
    let mut script = fresh(level, &[]);
    init(&mut script);
    begin(&mut script);
    script
}

fn begin(script: &mut Sender) {
    let id = start(script, &Verb::Begin);
    end(script, id).unwrap();
}

fn try_send(script: &mut Sender, partition: i32) -> Result<(), Error> {
    let now = script.now;
    let mut row = Row::new(None, Some(b"v"));
    row.partition = Some(partition);
    let make = |_: &Arc<str>, partition| partition;
    let appended = script.engine.append(|| now, "t", &row, 1, make);
    match appended {
        Ok(_) => Ok(()),
        Err(NotAppended::Failed(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

/// Sends a record, and has it acknowledged.
fn deliver(script: &mut Sender) -> (i16, i32) {
    try_send(script, 0).unwrap();
    let mut asked = next(script);
    if let Request::AddPartitionsToTxn(_) = asked.request {
        ok(script, &asked);
        asked = next(script);
    }
    ok(script, &asked);
    fates(script).pop().unwrap().unwrap();
    stamp(&asked)
}

fn fates(script: &mut Sender) -> Vec<Result<(), Error>> {
    std::iter::from_fn(|| script.engine.poll_done())
        .map(|done| done.result.map(|_| ()))
        .collect()
}

/// Ends a transaction that goes well.
fn conclude(script: &mut Sender, verb: &Verb, epoch: i16) {
    let id = start(script, verb);
    let asked = next(script);
    reply(script, &asked, ErrorCode::NONE, epoch);
    script.run();
    end(script, id).unwrap();
}

fn offsets() -> Verb {
    Verb::SendOffsets {
        group: GroupMetadata::outside("g".into()),
        offsets: vec![GroupOffset {
            topic: "t".into(),
            partition: 1,
            offset: 5,
            leader_epoch: -1,
            metadata: "m".into(),
            topic_id: Uuid::ZERO,
        }],
    }
}

#[test]
fn the_first_protocol_adds_partitions_and_keeps_its_numbers() {
    let mut script = begun(0);
    try_send(&mut script, 0).unwrap();
    try_send(&mut script, 1).unwrap();
    let mut added = Vec::new();
    // The partition of the first record joins at once, the other one with the next request.
    for _ in 0..2 {
        let asked = all(&mut script);
        let adding = asked
            .iter()
            .find(|asked| matches!(asked.request, Request::AddPartitionsToTxn(_)));
        let adding = adding.expect("nothing is produced before its partition has joined");
        assert!(adding.version <= 3);
        let Request::AddPartitionsToTxn(request) = &adding.request else {
            panic!()
        };
        added.extend(request.v3_and_below_topics[0].partitions.iter().copied());
        for asked in &asked {
            ok(&mut script, asked);
        }
    }
    added.sort_unstable();
    assert_eq!(added, [0, 1]);
    let produced = next(&mut script);
    assert!(produced.version <= 11, "12 is of the second protocol");
    ok(&mut script, &produced);
    let commit = start(&mut script, &Verb::Commit);
    let asked = next(&mut script);
    assert_eq!((name(&asked), asked.version), (("commit", 0), 4));
    ok(&mut script, &asked);
    script.run();
    end(&mut script, commit).unwrap();
    // The partition joins the next transaction again, and its sequence numbers go on.
    begin(&mut script);
    assert_eq!(deliver(&mut script), (0, 1));
}

#[test]
fn the_second_protocol_adds_nothing_and_each_transaction_has_its_epoch() {
    let mut script = begun(2);
    assert_eq!(deliver(&mut script), (0, 0));
    assert_eq!(deliver(&mut script), (0, 1));
    conclude(&mut script, &Verb::Commit, 1);
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    assert_eq!((stamp(&asked), asked.version), ((1, 0), 13));
    ok(&mut script, &asked);
    conclude(&mut script, &Verb::Abort, 2);
    begin(&mut script);
    assert_eq!(deliver(&mut script), (2, 0));
}

#[test]
fn offsets_join_with_or_without_a_request_of_their_own() {
    for (level, wanted) in [
        (1, &[("add offsets", 0), ("offsets", 0), ("commit", 0)][..]),
        (2, &[("offsets", 0), ("commit", 0)]),
    ] {
        let mut script = begun(level);
        let mut seen = Vec::new();
        for verb in [offsets(), Verb::Commit] {
            let id = start(&mut script, &verb);
            while script
                .engine
                .start_verb(script.now, &Verb::Init, script.now)
                .unwrap()
                .is_none()
            {
                let asked = next(&mut script);
                seen.push(name(&asked));
                if let Request::TxnOffsetCommit(request) = &asked.request {
                    assert_eq!(asked.version, if level == 1 { 4 } else { 5 });
                    let row = &request.topics[0].partitions[0];
                    assert_eq!((row.partition_index, row.committed_offset), (1, 5));
                    assert_eq!(row.committed_metadata.as_deref(), Some("m"));
                }
                ok(&mut script, &asked);
            }
            end(&mut script, id).unwrap();
        }
        assert_eq!(seen, wanted);
    }
}

#[test]
fn begin_initialises_and_an_empty_transaction_asks_nobody() {
    for verb in [Verb::Commit, Verb::Abort] {
        let mut script = fresh(0, &[]);
        let id = start(&mut script, &Verb::Begin);
        let asked = next(&mut script);
        assert_eq!(name(&asked).0, "init");
        ok(&mut script, &asked);
        script.run();
        end(&mut script, id).unwrap();
        let id = start(&mut script, &verb);
        assert!(script.run().is_empty());
        end(&mut script, id).unwrap();
    }
}

#[test]
fn what_is_not_open_takes_nothing() {
    let mut script = fresh(2, &[]);
    let refused = |script: &mut Sender| {
        let error = try_send(script, 0).unwrap_err();
        assert_eq!(
            (error.kind(), error.written()),
            (Kind::Argument, Some(Written::No))
        );
        assert!(error.message().contains("begin_transaction"), "{error}");
        for verb in [Verb::Commit, Verb::Abort, offsets()] {
            let id = start(script, &verb);
            assert_eq!(end(script, id).unwrap_err().kind(), Kind::Argument);
        }
        assert_eq!(script.engine.buffered_bytes(), 0);
    };
    refused(&mut script);
    init(&mut script);
    refused(&mut script);
    begin(&mut script);
    let id = start(&mut script, &Verb::Begin);
    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Argument);
    deliver(&mut script);
    let id = start(&mut script, &Verb::Commit);
    assert_eq!(try_send(&mut script, 0).unwrap_err().kind(), Kind::Argument);
    let asked = next(&mut script);
    ok(&mut script, &asked);
    end(&mut script, id).unwrap();
    refused(&mut script);
}

#[test]
fn a_producer_without_an_id_has_no_transactions() {
    let mut script: Sender = Script::new(Engine::producer(config(Role::Producer, &[]), 7));
    let started = script
        .engine
        .start_verb(script.now, &Verb::Begin, script.now);
    assert_eq!(started.unwrap_err().kind(), Kind::Config);
}

#[test]
fn a_commit_waits_for_its_records_and_does_not_linger() {
    let mut script = fresh(2, &[("linger.ms", "10000")]);
    init(&mut script);
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
    assert!(script.run().is_empty());
    let id = start(&mut script, &Verb::Commit);
    let produced = next(&mut script);
    assert_eq!(name(&produced).0, "produce");
    assert!(later(&mut script, Duration::from_secs(1)).is_empty());
    ok(&mut script, &produced);
    let asked = next(&mut script);
    assert_eq!(name(&asked).0, "commit");
    ok(&mut script, &asked);
    end(&mut script, id).unwrap();
}

#[test]
fn a_failed_record_is_never_committed() {
    for level in [1, 2] {
        let mut script = begun(level);
        deliver(&mut script);
        try_send(&mut script, 0).unwrap();
        let asked = next(&mut script);
        reply(&mut script, &asked, ErrorCode::INVALID_RECORD, 0);
        let trouble = try_send(&mut script, 0).unwrap_err();
        assert_eq!(trouble.kind(), Kind::Abortable);
        assert_eq!(trouble.code(), Some(ErrorCode::INVALID_RECORD));
        let id = start(&mut script, &Verb::Commit);
        assert!(script.run().is_empty(), "nobody is asked to commit it");
        assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Abortable);
        let id = start(&mut script, &Verb::Abort);
        let asked = next(&mut script);
        assert_eq!(name(&asked), ("abort", 0));
        reply(&mut script, &asked, ErrorCode::NONE, 1);
        if level == 1 {
            // The failed batch left a gap.
            let bump = next(&mut script);
            assert_eq!(name(&bump), ("init", 0));
            reply(&mut script, &bump, ErrorCode::NONE, 1);
        }
        script.run();
        end(&mut script, id).unwrap();
        begin(&mut script);
        assert_eq!(deliver(&mut script), (1, 0));
    }
}

#[test]
fn one_failure_fails_what_waits_and_an_abort_waits_for_what_is_under_way() {
    let mut script = begun(2);
    deliver(&mut script);
    for partition in [0, 1, 0, 1] {
        try_send(&mut script, partition).unwrap();
        if partition == 0 {
            continue;
        }
    }
    let sent = all(&mut script);
    assert_eq!(sent.len(), 2, "to two leaders");
    try_send(&mut script, 0).unwrap();
    reply(&mut script, &sent[0], ErrorCode::TRANSACTION_ABORTABLE, 0);
    let failed = fates(&mut script);
    assert!(failed.iter().all(Result::is_err), "{failed:?}");
    let id = start(&mut script, &Verb::Abort);
    assert!(later(&mut script, Duration::from_secs(1)).is_empty());
    reply(&mut script, &sent[1], ErrorCode::NOT_ENOUGH_REPLICAS, 0);
    let asked = next(&mut script);
    assert_eq!(name(&asked), ("abort", 0), "and nothing is retried");
    reply(&mut script, &asked, ErrorCode::NONE, 1);
    script.run();
    end(&mut script, id).unwrap();
    assert_eq!(script.engine.buffered_bytes(), 0);
}

/// KIP-654: an error that is not fatal, so that the next transaction can begin.
#[test]
fn what_an_abort_finds_unsent_says_so() {
    let mut script = fresh(2, &[("linger.ms", "10000")]);
    init(&mut script);
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
    let id = start(&mut script, &Verb::Abort);
    assert!(script.run().is_empty());
    end(&mut script, id).unwrap();
    let error = fates(&mut script).remove(0).unwrap_err();
    assert_eq!(
        (error.kind(), error.written()),
        (Kind::Abortable, Some(Written::No))
    );
    assert_eq!((error.topic(), error.partition()), (Some("t"), Some(0)));
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
}

#[test]
fn a_sequence_that_is_out_of_order_is_not_numbered_anew_in_a_transaction() {
    for code in [
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode::UNKNOWN_PRODUCER_ID,
        ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::INVALID_PRODUCER_ID_MAPPING,
    ] {
        let mut script = begun(1);
        deliver(&mut script);
        try_send(&mut script, 0).unwrap();
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        assert!(later(&mut script, Duration::from_secs(1)).is_empty());
        let error = fates(&mut script).remove(0).unwrap_err();
        assert_eq!(
            (error.code(), error.written()),
            (Some(code), Some(Written::No))
        );
        assert_eq!(
            try_send(&mut script, 0).unwrap_err().kind(),
            Kind::Abortable
        );
    }
}

#[test]
fn the_markers_of_the_transaction_before_are_waited_for_briefly() {
    let mut script = begun(1);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    reply(&mut script, &asked, ErrorCode::CONCURRENT_TRANSACTIONS, 0);
    for millis in [1, 2, 4, 8, 16, 20, 20] {
        assert!(script.pass(Duration::from_millis(millis - 1)).is_empty());
        let again = script.pass(Duration::from_millis(1));
        // Nobody looks for the coordinator.
        assert_eq!(names(&again), [("add partitions", 0)], "after {millis} ms");
        reply(
            &mut script,
            &again[0],
            ErrorCode::CONCURRENT_TRANSACTIONS,
            0,
        );
    }
    let mut script = begun(2);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    reply(&mut script, &asked, ErrorCode::CONCURRENT_TRANSACTIONS, 0);
    assert!(later(&mut script, Duration::from_millis(15)).is_empty());
    let again = later(&mut script, Duration::from_millis(10));
    assert_eq!(stamp(&again[0]), (0, 0));
}

#[test]
fn a_coordinator_that_moves_or_dies_is_found_again_in_every_step() {
    for level in [1, 2] {
        for moved in [true, false] {
            let mut script = begun(level);
            try_send(&mut script, 0).unwrap();
            let mut ids = vec![start(&mut script, &offsets())];
            let mut steps = Vec::new();
            let mut commits = false;
            for _ in 0..100 {
                let busy = script
                    .engine
                    .start_verb(script.now, &Verb::Commit, script.now + MINUTE)
                    .unwrap();
                if let Some(id) = busy {
                    if commits {
                        break;
                    }
                    commits = true;
                    ids.push(id);
                }
                for asked in later(&mut script, Duration::from_millis(500)) {
                    let step = name(&asked);
                    let first = !steps.contains(&step);
                    steps.push(step);
                    if !first {
                        ok(&mut script, &asked);
                    } else if moved && step.0 != "produce" {
                        reply(&mut script, &asked, ErrorCode::NOT_COORDINATOR, 0);
                    } else {
                        script.cut(asked.link);
                    }
                }
            }
            assert_eq!(end(&mut script, ids[0]), Ok(Finished::Done));
            assert_eq!(end(&mut script, ids[1]), Ok(Finished::Done), "{steps:?}");
            assert!(fates(&mut script).iter().all(Result::is_ok));
        }
    }
}

#[test]
fn a_fenced_producer_is_so_for_good() {
    for level in [1, 2] {
        for code in [
            ErrorCode::PRODUCER_FENCED,
            ErrorCode::INVALID_PRODUCER_EPOCH,
        ] {
            for verb in [Verb::Commit, Verb::Abort, offsets()] {
                let mut script = begun(level);
                deliver(&mut script);
                let id = start(&mut script, &verb);
                let asked = next(&mut script);
                reply(&mut script, &asked, code, 0);
                script.run();
                let error = end(&mut script, id).unwrap_err();
                assert_eq!((error.kind(), error.code()), (Kind::Fenced, Some(code)));
                for verb in [Verb::Init, Verb::Begin, Verb::Commit, Verb::Abort] {
                    let id = start(&mut script, &verb);
                    assert!(script.run().is_empty());
                    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Fenced);
                }
                assert_eq!(try_send(&mut script, 0).unwrap_err().kind(), Kind::Fenced);
            }
        }
    }
}

#[test]
fn a_commit_that_is_refused_may_be_done_if_an_attempt_before_got_no_answer() {
    for (level, lost) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut script = begun(level);
        deliver(&mut script);
        let id = start(&mut script, &Verb::Commit);
        let mut asked = next(&mut script);
        if lost {
            script.cut(asked.link);
            asked = later(&mut script, Duration::from_secs(2)).remove(0);
            assert_eq!(name(&asked), ("commit", 0));
        }
        reply(&mut script, &asked, ErrorCode::PRODUCER_FENCED, 0);
        script.run();
        let error = end(&mut script, id).unwrap_err();
        let kind = if lost {
            Kind::OutcomeUnknown
        } else {
            Kind::Fenced
        };
        assert_eq!(error.kind(), kind);
        assert_eq!(error.may_have_been_done(), lost, "{error}");
    }
}

#[test]
fn a_commit_that_is_refused_may_be_done_if_a_coordinator_lost_its_place_while_it_wrote() {
    for (level, code, doubtful) in [
        (1, ErrorCode::NOT_COORDINATOR, true),
        (2, ErrorCode::NOT_COORDINATOR, true),
        (2, ErrorCode::COORDINATOR_NOT_AVAILABLE, true),
        (2, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, false),
    ] {
        let mut script = begun(level);
        deliver(&mut script);
        let id = start(&mut script, &Verb::Commit);
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        let asked = later(&mut script, Duration::from_secs(2)).remove(0);
        assert_eq!(name(&asked), ("commit", 0));
        reply(&mut script, &asked, ErrorCode::PRODUCER_FENCED, 0);
        script.run();
        let error = end(&mut script, id).unwrap_err();
        let kind = if doubtful {
            Kind::OutcomeUnknown
        } else {
            Kind::Fenced
        };
        assert_eq!(error.kind(), kind);
        assert_eq!(error.may_have_been_done(), doubtful, "{code:?}: {error}");
    }
}

#[test]
fn a_leader_that_knows_of_the_fencing_ends_the_producer() {
    let mut script = begun(2);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    reply(&mut script, &asked, ErrorCode::PRODUCER_FENCED, 0);
    script.run();
    assert_eq!(try_send(&mut script, 0).unwrap_err().kind(), Kind::Fenced);
    let id = start(&mut script, &Verb::Commit);
    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Fenced);
}

#[test]
fn errors_that_an_abort_mends_and_those_that_it_does_not() {
    for (code, kind) in [
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Kind::Abortable),
        (ErrorCode::INVALID_TXN_STATE, Kind::Abortable),
        (ErrorCode::TRANSACTION_ABORTABLE, Kind::Abortable),
        (ErrorCode::UNKNOWN_PRODUCER_ID, Kind::Abortable),
        (ErrorCode::INVALID_PRODUCER_ID_MAPPING, Kind::Fatal),
        (
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Kind::Fatal,
        ),
        (ErrorCode::PRODUCER_FENCED, Kind::Fenced),
    ] {
        let mut script = begun(1);
        try_send(&mut script, 0).unwrap();
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        script.run();
        let error = fates(&mut script).remove(0).unwrap_err();
        assert_eq!((error.kind(), error.code()), (kind, Some(code)));
        assert_eq!(error.written(), Some(Written::No));
        let id = start(&mut script, &Verb::Commit);
        assert_eq!(end(&mut script, id).unwrap_err().kind(), kind);
    }
}

#[test]
fn a_commit_without_an_answer_is_settled_before_the_next_transaction() {
    for level in [1, 2] {
        // Whether the coordinator carried out the commit, and how it responds to the abort then.
        for committed in [true, false] {
            let mut script = begun(level);
            deliver(&mut script);
            let id = start(&mut script, &Verb::Commit);
            let asked = next(&mut script);
            assert_eq!(name(&asked), ("commit", 0));
            assert!(
                later(&mut script, MINUTE)
                    .iter()
                    .all(|asked| name(asked).0 == "commit")
            );
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
            assert_eq!(try_send(&mut script, 0).unwrap_err().kind(), Kind::Argument);

            let id = start(&mut script, &Verb::Begin);
            let asked = later(&mut script, Duration::from_millis(10));
            assert_eq!(names(&asked), [("abort", 0)]);
            let code = if committed {
                ErrorCode::INVALID_TXN_STATE
            } else {
                ErrorCode::NONE
            };
            reply(&mut script, &asked[0], code, 1);
            if level == 1 || committed {
                let bump = next(&mut script);
                assert_eq!(
                    name(&bump),
                    ("init", 0),
                    "a commit that is still on its way must find another epoch"
                );
                reply(&mut script, &bump, ErrorCode::NONE, 1);
            }
            script.run();
            end(&mut script, id).unwrap();
            let told: Vec<_> = std::iter::from_fn(|| script.engine.observer().poll())
                .map(|event| event.to_string())
                .collect();
            let wanted = if committed { "committed" } else { "aborted" };
            let wanted = format!("the transaction of tx whose commit got no response was {wanted}");
            assert!(told.contains(&wanted), "{told:?}");
            assert_eq!(deliver(&mut script), (1, 0));
        }
    }
}

#[test]
fn old_brokers_that_cannot_prove_an_identity_end_the_producer() {
    let mut script = fresh_at(versions(0, 2), &[]);
    init(&mut script);
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    ok(&mut script, &asked);
    let asked = next(&mut script);
    reply(&mut script, &asked, ErrorCode::INVALID_RECORD, 0);
    let id = start(&mut script, &Verb::Abort);
    let asked = next(&mut script);
    assert_eq!(name(&asked).0, "abort");
    ok(&mut script, &asked);
    assert!(
        script.run().is_empty(),
        "an identity without a proof would fence a successor"
    );
    let error = end(&mut script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::Fatal);
    assert!(error.message().contains("2.5"), "{error}");
}

#[test]
fn a_commit_whose_records_are_late_stays_open() {
    let mut script = begun(2);
    try_send(&mut script, 0).unwrap();
    let produced = next(&mut script);
    let deadline = script.now + Duration::from_secs(1);
    let id = script
        .engine
        .start_verb(script.now, &Verb::Commit, deadline);
    let id = id.unwrap().unwrap();
    later(&mut script, Duration::from_secs(2));
    let error = end(&mut script, id).unwrap_err();
    assert_eq!((error.kind(), error.is_retriable()), (Kind::Timeout, true));
    ok(&mut script, &produced);
    conclude(&mut script, &Verb::Commit, 1);
}

#[test]
fn a_record_that_expires_makes_the_transaction_abortable_at_once() {
    let mut script = fresh(
        2,
        &[
            ("delivery.timeout.ms", "1000"),
            ("request.timeout.ms", "500"),
        ],
    );
    init(&mut script);
    begin(&mut script);
    try_send(&mut script, 0).unwrap();
    next(&mut script);
    let id = start(&mut script, &Verb::Commit);
    script.pass(Duration::from_secs(2));
    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Abortable);
}

#[test]
fn two_verbs_never_run_at_once_and_a_close_ends_them() {
    let mut script = begun(2);
    deliver(&mut script);
    let id = start(&mut script, &Verb::Commit);
    let second = script
        .engine
        .start_verb(script.now, &Verb::Abort, script.now + MINUTE);
    assert_eq!(second, Ok(None));
    let cause = crate::engine::closed_error();
    script.engine.close(script.now, &cause);
    let error = end(&mut script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "it may be committed");
}

#[test]
fn the_protocol_follows_the_newest_features() {
    let mut script = begun(1);
    deliver(&mut script);
    conclude(&mut script, &Verb::Commit, 0);
    // The cluster was upgraded; the next connection reports that.
    script.versions = Versions::new(&told(2, 9, 5));
    begin(&mut script);
    try_send(&mut script, 1).unwrap();
    let asked = next(&mut script);
    assert_eq!(
        name(&asked).0,
        "add partitions",
        "no new connection was made so far"
    );
    script.cut(asked.link);
    for asked in later(&mut script, Duration::from_secs(3)) {
        ok(&mut script, &asked);
    }
    for asked in later(&mut script, Duration::from_secs(3)) {
        ok(&mut script, &asked);
    }
    conclude(&mut script, &Verb::Commit, 0);
    begin(&mut script);
    try_send(&mut script, 1).unwrap();
    assert_eq!(names(&all(&mut script)), [("produce", 0)]);
}

#[test]
fn nobody_s_transaction_is_not_opened() {
    // The caller went away before it heard of the end, and before the end.
    let mut script = fresh(2, &[]);
    init(&mut script);
    let id = start(&mut script, &Verb::Begin);
    script.engine.give_up_verb(id);
    assert!(!script.engine.is_in_transaction());
    let mut script = fresh(2, &[]);
    let id = start(&mut script, &Verb::Begin);
    let asked = next(&mut script);
    script.engine.give_up_verb(id);
    ok(&mut script, &asked);
    script.run();
    assert!(!script.engine.is_in_transaction());
    begin(&mut script);
    assert_eq!(deliver(&mut script), (0, 0));
}

#[test]
fn a_begin_that_is_given_up_leaves_no_record_to_the_next_transaction() {
    for level in [2, 1] {
        let mut script = fresh(level, &[("linger.ms", "1000")]);
        init(&mut script);
        let id = start(&mut script, &Verb::Begin);
        // Another caller's record waits in its batch when the one who began goes away.
        try_send(&mut script, 0).unwrap();
        script.engine.give_up_verb(id);
        let next_begin = start(&mut script, &Verb::Begin);
        let error = end(&mut script, next_begin).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument, "{error}");
        assert!(script.engine.is_in_transaction());
        let abort = start(&mut script, &Verb::Abort);
        loop {
            let asked = all(&mut script);
            if asked.is_empty() {
                break;
            }
            for asked in asked {
                ok(&mut script, &asked);
            }
        }
        end(&mut script, abort).unwrap();
        let failed = script.engine.poll_done().unwrap().result.unwrap_err();
        assert_eq!(failed.written(), Some(Written::No));
        begin(&mut script);
    }
}

#[test]
fn a_begin_that_is_given_up_late_ends_no_later_transaction() {
    let mut script = fresh(2, &[]);
    init(&mut script);
    let id = start(&mut script, &Verb::Begin);
    deliver(&mut script);
    conclude(&mut script, &Verb::Commit, 1);
    begin(&mut script);
    script.engine.give_up_verb(id);
    assert!(script.engine.is_in_transaction());
    assert_eq!(deliver(&mut script), (1, 0));
}

#[test]
fn an_abort_that_is_late_is_ended_by_what_comes_next() {
    for level in [1, 2] {
        let mut script = begun(level);
        deliver(&mut script);
        let id = start(&mut script, &Verb::Abort);
        let first = next(&mut script);
        assert!(later(&mut script, MINUTE).is_empty());
        let error = end(&mut script, id).unwrap_err();
        assert_eq!((error.kind(), error.is_retriable()), (Kind::Timeout, true));
        assert!(error.message().contains("abort_transaction"), "{error}");
        // A response that arrives too late has no effect.
        reply(&mut script, &first, ErrorCode::NONE, 1);
        assert!(script.engine.is_in_transaction());
        let id = start(&mut script, &Verb::Abort);
        let asked = next(&mut script);
        assert_eq!(name(&asked), ("abort", 0));
        reply(&mut script, &asked, ErrorCode::NONE, 1);
        if level == 1 {
            let bump = next(&mut script);
            assert_eq!(name(&bump), ("init", 0));
            reply(&mut script, &bump, ErrorCode::NONE, 1);
        }
        script.run();
        end(&mut script, id).unwrap();
        begin(&mut script);
        assert_eq!(deliver(&mut script), (1, 0));
    }
}

#[test]
fn a_request_to_join_that_may_still_arrive_needs_the_next_epoch() {
    let mut script = begun(1);
    try_send(&mut script, 0).unwrap();
    next(&mut script);
    let id = start(&mut script, &Verb::Abort);
    let asked = next(&mut script);
    assert_eq!(name(&asked), ("abort", 0));
    // It had not arrived: nothing was open.
    reply(&mut script, &asked, ErrorCode::INVALID_TXN_STATE, 0);
    let bump = next(&mut script);
    assert_eq!(name(&bump), ("init", 0));
    reply(&mut script, &bump, ErrorCode::NONE, 1);
    script.run();
    end(&mut script, id).unwrap();
    begin(&mut script);
    assert_eq!(deliver(&mut script), (1, 0));
}

#[test]
fn an_initialisation_that_fails_can_be_repeated() {
    for (code, kind) in [
        (
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Kind::Broker,
        ),
        (ErrorCode::INVALID_TRANSACTION_TIMEOUT, Kind::Broker),
    ] {
        let mut script = fresh(2, &[]);
        let id = start(&mut script, &Verb::Begin);
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        script.run();
        let error = end(&mut script, id).unwrap_err();
        assert_eq!((error.kind(), error.code()), (kind, Some(code)));
        init(&mut script);
    }
    let mut script = fresh(2, &[]);
    let id = start(&mut script, &Verb::Init);
    let asked = next(&mut script);
    reply(&mut script, &asked, ErrorCode::CONCURRENT_TRANSACTIONS, 0);
    let again = later(&mut script, Duration::from_millis(25));
    assert_eq!(names(&again), [("init", -1)]);
    ok(&mut script, &again[0]);
    script.run();
    end(&mut script, id).unwrap();
}

#[test]
fn offsets_of_which_nothing_is_known_keep_the_transaction_from_being_committed() {
    let mut script = begun(2);
    let id = start(&mut script, &offsets());
    next(&mut script);
    later(&mut script, MINUTE);
    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Abortable);
    let id = start(&mut script, &Verb::Commit);
    assert_eq!(end(&mut script, id).unwrap_err().kind(), Kind::Abortable);
}
