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

/// Some of what compaction leaves has no messages: batches that are empty, and the end of one whose last records have gone.
#[test]
fn who_gets_message_sets_comes_past_what_compaction_emptied() {
    for codec in [Compression::None, Compression::Gzip] {
        let bench = Bench::new(&[
            ("log.cleanup.policy", "compact"),
            ("log.cleaner.min.cleanable.ratio", "0"),
            ("log.segment.bytes", "100"),
        ]);
        let mut sequence = 0;
        for keys in [
            &["a", "b"][..],
            &["c", "d", "e"],
            &["a", "b", "d", "e"],
            &["z"],
        ] {
            let mut builder = BatchBuilder::new(codec, None);
            for key in keys {
                let (key, none) = (Some(key.as_bytes()), std::iter::empty());
                builder.append(NOW_MS, key, Some(b"value"), none).unwrap();
            }
            // The first batch is the last of its producer, and stays.
            let state = ProducerState {
                producer_id: if sequence == 0 { 7 } else { 8 },
                epoch: 0,
                base_sequence: (sequence - 2).max(0),
            };
            sequence += i32::try_from(keys.len()).unwrap();
            let [(0, _)] = bench.produce(9, &[(0, builder.finish(state).unwrap())])[..] else {
                panic!("it is not written");
            };
        }
        let topic = bench.core.topic("t").unwrap();
        let mut replica = topic.partition(0).unwrap().lock();
        let cleaned = replica.compaction(NOW_MS).unwrap().clean().unwrap();
        replica.install(cleaned).unwrap();
        drop(replica);
        bench.core.set_release(Release::parse("0.10.0").unwrap());
        for version in [0, 2] {
            let mut read = Vec::new();
            let mut offset = 0;
            while offset < 10 {
                let records = bench.fetch(offset, 1 << 20, version).records.unwrap();
                assert!(!records.is_empty(), "nothing at {offset}, {codec:?}");
                for entry in records::entries(records) {
                    let entry = entry.unwrap();
                    let payload = entry.payload(1 << 20).unwrap();
                    for record in entry.records(&payload).unwrap() {
                        offset = record.unwrap().offset + 1;
                        read.push(offset - 1);
                    }
                }
            }
            assert_eq!(read, [2, 5, 6, 7, 8, 9]);
            assert_eq!(
                bench.fetch(10, 1 << 20, version).records,
                Some(Bytes::new())
            );
        }
    }
}
