//! What administrators end: producers that are fenced, and transactions that hang in a partition.

use std::sync::Arc;

use ottla_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use ottla_protocol::messages::{InitProducerIdResponse, WriteTxnMarkersResponse};

use super::*;
use crate::error::Item;

fn initialised(code: ErrorCode, id: i64) -> Response {
    Response::InitProducerId(InitProducerIdResponse {
        error_code: code.0,
        producer_id: id,
        producer_epoch: 5,
        ..Default::default()
    })
}

/// The transactional id that an InitProducerId is about.
fn id_of(asked: &script::Asked) -> String {
    let Request::InitProducerId(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert_eq!((request.producer_id, request.producer_epoch), (-1, -1));
    assert_eq!(request.transaction_timeout_ms, 1);
    assert!(!request.enable2_pc && !request.keep_prepared_txn);
    assert!(asked.version < 6, "which is not final");
    request.transactional_id.as_deref().unwrap().to_owned()
}

/// What fencing these ids gives, of which one is busy at first and one is denied.
fn fence(wanted: &[&str]) -> Result<ByItem<FencedProducer>, Error> {
    let mut script = admin(&[]);
    let transactional_ids = wanted.iter().copied().map(Arc::from).collect();
    let id = ask(&mut script, FenceProducers { transactional_ids }, 10);
    let mut asked = script.run();
    while matches!(asked[0].request, Request::FindCoordinator(_)) {
        for each in &asked {
            script.answer(each, coordinated_by(2, ErrorCode::NONE));
        }
        asked = script.run();
    }
    let mut fenced: Vec<_> = asked.iter().map(id_of).collect();
    fenced.sort();
    assert_eq!(fenced, wanted);
    for each in &asked {
        let code = match &*id_of(each) {
            "busy" => ErrorCode::CONCURRENT_TRANSACTIONS,
            "denied" => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _ => ErrorCode::NONE,
        };
        script.answer(each, initialised(code, 7));
    }
    // What it had open is being aborted: soon it is.
    let again = script.pass(Duration::from_secs(1));
    assert_eq!(again.iter().map(id_of).collect::<Vec<_>>(), ["busy"]);
    script.answer(&again[0], initialised(ErrorCode::NONE, 8));
    script.engine.take_answer(&id).unwrap()
}

#[test]
fn each_transactional_id_is_fenced_by_a_request_of_its_own() {
    let ByItem(fenced) = fence(&["a", "busy"]).unwrap();
    let producer = |producer_id| FencedProducer {
        producer_id,
        producer_epoch: 5,
    };
    let [a, busy] = ["a", "busy"].map(|id| Item::Name(id.to_owned()));
    assert_eq!(fenced, [(a, producer(7)), (busy, producer(8))]);
}

#[test]
fn an_id_that_cannot_be_fenced_has_an_error_of_its_own() {
    let error = fence(&["a", "busy", "denied"]).unwrap_err();
    let [(item, denied)] = error.failures() else {
        panic!("{error:?}")
    };
    assert_eq!(*item, Item::Name("denied".to_owned()));
    assert_eq!(denied.code(), error.code());
    assert!(denied.to_string().contains("denied"), "{denied}");
}

#[test]
fn a_transaction_is_aborted_at_the_leader_of_its_partition() {
    for code in [ErrorCode::NONE, ErrorCode::INVALID_PRODUCER_EPOCH] {
        let mut script = admin(&[]);
        script.topics = vec![("t", vec![1, 2])];
        let call = AbortTransaction {
            partition: TopicPartition {
                topic: "t".into(),
                partition: 1,
            },
            producer_id: 7,
            producer_epoch: 3,
            coordinator_epoch: -1,
        };
        let id = ask(&mut script, call, 10);
        let asked = script.run();
        assert_eq!((asked.len(), script.address(asked[0].link)), (1, "b2"));
        let Request::WriteTxnMarkers(request) = &asked[0].request else {
            panic!("{asked:?}")
        };
        let marker = &request.markers[0];
        assert_eq!((marker.producer_id, marker.producer_epoch), (7, 3));
        assert_eq!(marker.coordinator_epoch, 0, "coordinators begin with it");
        assert!(!marker.transaction_result);
        let partition = WritableTxnMarkerPartitionResult {
            partition_index: 1,
            error_code: code.0,
            ..Default::default()
        };
        let topic = WritableTxnMarkerTopicResult {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let marker = WritableTxnMarkerResult {
            producer_id: 7,
            topics: vec![topic],
            ..Default::default()
        };
        let answer = WriteTxnMarkersResponse {
            markers: vec![marker],
            ..Default::default()
        };
        script.answer(&asked[0], Response::WriteTxnMarkers(answer));
        let found = script.engine.take_answer(&id).unwrap();
        match code {
            ErrorCode::NONE => found.unwrap(),
            code => {
                let error = found.unwrap_err();
                assert_eq!((error.code(), error.partition()), (Some(code), Some(1)));
            }
        }
    }
}
