//! Share groups over the protocol, where what they are done with cannot be written down.

use ottla_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use ottla_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use ottla_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch,
};
use ottla_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic};

use super::*;
use crate::topics::SHARE_STATE_TOPIC;

fn altered(bench: &Bench, start_offset: i64) -> i16 {
    let request = AlterShareGroupOffsetsRequest {
        group_id: "g".into(),
        topics: vec![AlterShareGroupOffsetsRequestTopic {
            topic_name: "t".into(),
            partitions: vec![AlterShareGroupOffsetsRequestPartition {
                start_offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    bench.ask(&request, 0).responses[0].partitions[0].error_code
}

/// The ranges of records that a member gets.
fn acquired(bench: &Bench, epoch: i32) -> Vec<(i64, i64)> {
    let request = ShareFetchRequest {
        group_id: Some("g".into()),
        member_id: Some("m".into()),
        share_session_epoch: epoch,
        max_records: 100,
        topics: vec![FetchTopic {
            topic_id: bench.topic_id(),
            partitions: vec![FetchPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = bench.ask(&request, 1);
    let partitions = answer.responses.iter().flat_map(|it| &it.partitions);
    partitions
        .flat_map(|it| &it.acquired_records)
        .map(|it| (it.first_offset, it.last_offset))
        .collect()
}

fn accepted(bench: &Bench, epoch: i32, offset: i64) -> i16 {
    let request = ShareAcknowledgeRequest {
        group_id: Some("g".into()),
        member_id: Some("m".into()),
        share_session_epoch: epoch,
        topics: vec![AcknowledgeTopic {
            topic_id: bench.topic_id(),
            partitions: vec![AcknowledgePartition {
                acknowledgement_batches: vec![AcknowledgementBatch {
                    first_offset: offset,
                    last_offset: offset,
                    acknowledge_types: vec![1],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    bench.ask(&request, 1).responses[0].partitions[0].error_code
}

#[test]
fn what_is_not_written_down_is_not_told_as_done() {
    let bench = Bench::new(&[]);
    let records = batch(3, ProducerState::NONE);
    assert_eq!(bench.produce(9, &[(0, records)]), [(0, 0)]);
    assert_eq!(altered(&bench, 0), 0);
    assert_eq!(acquired(&bench, 0), [(0, 2)]);
    assert_eq!(accepted(&bench, 1, 0), 0);
    for replica in &bench.core.topic(SHARE_STATE_TOPIC).unwrap().partitions {
        replica.lock().close_deleted();
    }
    let failed = ErrorCode::KAFKA_STORAGE_ERROR.0;
    assert_eq!(accepted(&bench, 2, 1), failed);
    assert_eq!(altered(&bench, 1), failed);
    let delete = DeleteShareGroupOffsetsRequest {
        group_id: "g".into(),
        topics: vec![DeleteShareGroupOffsetsRequestTopic {
            topic_name: "t".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(bench.ask(&delete, 0).responses[0].error_code, failed);
    let delete = DeleteGroupsRequest {
        groups_names: vec!["g".into()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&delete, 2).results[0].error_code, failed);
}
