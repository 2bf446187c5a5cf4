//! What the first versions of APIs mean, on brokers that take them.

use ottla_protocol::Ints;
use ottla_protocol::messages::describe_configs_request::DescribeConfigsResource;
use ottla_protocol::messages::{offset_commit_request, offset_fetch_request};

use super::*;

fn commit(bench: &Bench, version: i16, topic: &str, committed_offset: i64) -> ErrorCode {
    let partition = offset_commit_request::OffsetCommitRequestPartition {
        committed_offset,
        ..Default::default()
    };
    let topic = offset_commit_request::OffsetCommitRequestTopic {
        name: topic.into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        topics: vec![topic],
        ..Default::default()
    };
    let answer = bench.ask(&request, version);
    ErrorCode(answer.topics[0].partitions[0].error_code)
}

fn committed(bench: &Bench, version: i16, topic: &str) -> (i64, ErrorCode) {
    let topic = offset_fetch_request::OffsetFetchRequestTopic {
        name: topic.into(),
        partition_indexes: Ints::from_slice(&[0]),
        ..Default::default()
    };
    let request = OffsetFetchRequest {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let answer = bench.ask(&request, version);
    let partition = &answer.topics[0].partitions[0];
    (partition.committed_offset, ErrorCode(partition.error_code))
}

#[test]
fn zookeeper_and_kafka_keep_offsets_apart() {
    let bench = Bench::new(&[]);
    bench.core.set_release(Release::parse("0.8.2").unwrap());
    let unknown = (-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(committed(&bench, 0, "t"), unknown);
    assert_eq!(commit(&bench, 0, "t", 5), ErrorCode::NONE);
    assert_eq!(committed(&bench, 0, "t"), (5, ErrorCode::NONE));
    assert_eq!(committed(&bench, 1, "t"), (-1, ErrorCode::NONE));
    assert_eq!(commit(&bench, 1, "t", 7), ErrorCode::NONE);
    assert_eq!(committed(&bench, 0, "t"), (5, ErrorCode::NONE));
    assert_eq!(committed(&bench, 1, "t"), (7, ErrorCode::NONE));
    assert_eq!(commit(&bench, 0, "none", 1), unknown.1);
    assert_eq!(committed(&bench, 0, "none"), unknown);
}

#[test]
fn the_first_description_of_settings_tells_defaults_from_others() {
    let bench = Bench::new(&[("message.max.bytes", "1000")]);
    bench.core.set_release(Release::parse("0.11.0").unwrap());
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 2,
            resource_name: "t".into(),
            configuration_keys: Some(vec!["max.message.bytes".into(), "segment.bytes".into()]),
            ..Default::default()
        }],
        ..Default::default()
    };
    let result = bench.ask(&request, 0).results.remove(0);
    let rows = result.configs.iter();
    let mut told: Vec<_> = rows.map(|row| (&*row.name, row.is_default)).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [("max.message.bytes", false), ("segment.bytes", true)]
    );
}
