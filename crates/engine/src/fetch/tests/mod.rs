//! A consumer stepped through scripts.

mod count;
mod follow;
mod lanes;
mod metrics;
mod old;
mod replica;
mod sessions;
mod stale;
mod trouble;
mod truncated;

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use ottla_protocol::messages::{FetchResponse, ListOffsetsResponse};
use ottla_protocol::records::{
    BatchBuilder, MessageSetBuilder, OldMagic, ProducerState, assign_offsets,
};

use crate::api::{Request, Response};
use crate::call::{EARLIEST, LATEST};
use crate::config::Role;
use crate::consumer::Consumer;
use crate::engine::{Engine, closed_error};
use crate::error::Kind;
use crate::fetch::{Sharers, Start, Taken};
use crate::script::{Asked, Script, config};

type Reader = Script<Consumer>;

fn reader(pairs: &[(&'static str, &'static str)], start: Start) -> Reader {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
    let now = script.now;
    script
        .engine
        .assign(now, [("t".into(), 0, start), ("t".into(), 1, start)])
        .unwrap();
    script
}

fn batch(base: i64, count: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for _ in 0..count {
        builder
            .append(1, None, Some(b"value"), std::iter::empty())
            .unwrap();
    }
    let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, base, 4).unwrap();
    bytes.into()
}

/// The texts of all events that the observer received.
fn told(script: &mut Reader) -> Vec<String> {
    let observer = script.engine.observer();
    std::iter::from_fn(|| observer.poll())
        .map(|event| event.to_string())
        .collect()
}

/// Partitions and times of the ListOffsets requests, in order.
fn searched(asked: &[Asked]) -> Vec<(i32, i64)> {
    let rows = asked.iter().flat_map(|asked| match &asked.request {
        Request::ListOffsets(request) => &request.topics[..],
        _ => &[],
    });
    let mut rows: Vec<_> = rows
        .flat_map(|topic| &topic.partitions)
        .map(|row| (row.partition_index, row.timestamp))
        .collect();
    rows.sort_unstable();
    rows
}

/// Partitions and offsets of all Fetch requests, in order.
fn fetched(asked: &[Asked]) -> Vec<(i32, i64)> {
    let fetches = asked
        .iter()
        .filter(|asked| matches!(asked.request, Request::Fetch(_)));
    let mut rows: Vec<_> = fetches.flat_map(wanted).collect();
    rows.sort_unstable();
    rows
}

/// Respond to all ListOffsets requests with this offset.
fn find(script: &mut Reader, asked: &[Asked], offset: i64) {
    for asked in asked {
        if matches!(asked.request, Request::ListOffsets(_)) {
            reply_offsets(script, asked, ErrorCode::NONE, offset);
        }
    }
}

/// Partitions and offsets of a Fetch request.
fn wanted(asked: &Asked) -> Vec<(i32, i64)> {
    let Request::Fetch(request) = &asked.request else {
        panic!("not a Fetch: {asked:?}")
    };
    let parts = request.topics.iter().flat_map(|topic| &topic.partitions);
    parts
        .map(|part| (part.partition, part.fetch_offset))
        .collect()
}

/// As a broker before 0.11 wrote it, and its cluster's newer ones still send it.
fn old_set(base: i64, count: i64) -> Bytes {
    let mut builder = MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, base).unwrap();
    for _ in 0..count {
        builder.append(1, None, Some(b"value")).unwrap();
    }
    builder.finish().unwrap()
}

fn reply(script: &mut Reader, asked: &Asked, code: ErrorCode, records: &[Bytes]) {
    let Request::Fetch(request) = &asked.request else {
        panic!("not a Fetch")
    };
    let responses = request
        .topics
        .iter()
        .map(|topic| FetchableTopicResponse {
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|part| PartitionData {
                    partition_index: part.partition,
                    error_code: code.0,
                    high_watermark: 100,
                    records: Some(records.concat().into()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    script.answer(
        asked,
        Response::Fetch(FetchResponse {
            responses,
            ..Default::default()
        }),
    );
}

fn reply_offsets(script: &mut Reader, asked: &Asked, code: ErrorCode, offset: i64) {
    let Request::ListOffsets(request) = &asked.request else {
        panic!("not a ListOffsets: {asked:?}")
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|part| ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    error_code: code.0,
                    offset,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    script.answer(
        asked,
        Response::ListOffsets(ListOffsetsResponse {
            topics,
            ..Default::default()
        }),
    );
}

fn to(asked: &[Asked], script: &Reader, address: &str) -> usize {
    asked
        .iter()
        .position(|asked| script.address(asked.link) == address)
        .unwrap()
}

#[test]
fn fetches_each_broker_and_goes_on_behind_what_came() {
    let mut script = reader(&[], Start::Offset(10));
    let asked = script.run();
    assert_eq!(asked.len(), 2);
    let first = to(&asked, &script, "b1");
    assert_eq!(wanted(&asked[first]), [(0, 10)]);
    let whole = [batch(8, 5), batch(13, 2)];
    let cut = batch(15, 9).slice(..30);
    reply(
        &mut script,
        &asked[first],
        ErrorCode::NONE,
        &[whole[0].clone(), whole[1].clone(), cut],
    );
    let again = script.run();
    assert_eq!(wanted(&again[0]), [(0, 15)]);
    let Taken {
        generation,
        fetched,
    } = script.engine.take(script.now).unwrap();
    assert_eq!(
        (
            fetched.fetch_offset,
            fetched.next_offset,
            fetched.leader_epoch
        ),
        (10, 15, 4)
    );
    assert_eq!(fetched.records, whole.concat());
    assert_eq!(
        fetched
            .split()
            .iter()
            .map(|part| (part.fetch_offset, part.next_offset))
            .collect::<Vec<_>>(),
        [(10, 13), (13, 15)]
    );
    assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
    assert!(script.engine.advance("t", 0, generation, 15));
    assert_eq!(script.engine.position("t", 0), Ok(Some(15)));
}

#[test]
fn message_sets_of_an_old_log_are_taken_as_batches_are() {
    let mut script = reader(&[], Start::Offset(10));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    let whole = [old_set(8, 5), batch(13, 2), old_set(15, 1)];
    let cut = old_set(16, 2).slice(..40);
    let records = [&whole[..], &[cut]].concat();
    reply(&mut script, &asked[first], ErrorCode::NONE, &records);
    let again = script.run();
    assert_eq!(wanted(&again[0]), [(0, 16)]);
    let Taken { fetched, .. } = script.engine.take(script.now).unwrap();
    assert_eq!(
        (fetched.next_offset, fetched.leader_epoch),
        (16, -1),
        "message sets know no epoch"
    );
    assert_eq!(fetched.records, whole.concat());
    assert_eq!(
        fetched
            .split()
            .iter()
            .map(|part| (part.next_offset, part.records.clone()))
            .collect::<Vec<_>>(),
        [13, 15, 16].into_iter().zip(whole).collect::<Vec<_>>()
    );
}

#[test]
fn a_seek_drops_what_was_buffered_and_what_is_under_way() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
    let stale = script.run();
    script
        .engine
        .seek(script.now, "t", 0, Start::Offset(50))
        .unwrap();
    assert!(script.engine.take(script.now).is_none());
    let fresh = script.run();
    assert_eq!(
        wanted(&fresh[0]),
        [(0, 50)],
        "it does not wait for the fetch under way"
    );
    assert_ne!(fresh[0].link, stale[0].link);
    reply(&mut script, &stale[0], ErrorCode::NONE, &[batch(3, 3)]);
    assert!(script.engine.take(script.now).is_none());
    reply(&mut script, &fresh[0], ErrorCode::NONE, &[batch(50, 3)]);
    assert_eq!(
        script.engine.take(script.now).unwrap().fetched.fetch_offset,
        50
    );
    assert!(script.engine.seek(script.now, "t", 7, Start::End).is_err());
    assert!(
        script
            .engine
            .seek(script.now, "t", 0, Start::Offset(-1))
            .is_err()
    );
}

#[test]
fn a_paused_partition_is_not_asked_for_and_comes_back_where_it_was() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    script.engine.set_paused(script.now, "t", 0, true).unwrap();
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
    assert!(script.engine.take(script.now).is_none());
    assert!(script.run().is_empty());
    script.engine.set_paused(script.now, "t", 0, false).unwrap();
    assert_eq!(wanted(&script.run()[0]), [(0, 0)]);
}

#[test]
fn looks_up_where_to_begin() {
    let mut script = reader(&[("auto.offset.reset", "earliest")], Start::Reset);
    let asked = script.run();
    assert_eq!(asked.len(), 2);
    let Request::ListOffsets(request) = &asked[0].request else {
        panic!()
    };
    assert_eq!(
        (
            request.replica_id,
            request.topics[0].partitions[0].timestamp
        ),
        (-1, EARLIEST)
    );
    reply_offsets(
        &mut script,
        &asked[0],
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        -1,
    );
    reply_offsets(&mut script, &asked[1], ErrorCode::NONE, 33);
    let offsets = |asked: &[Asked]| -> Vec<i64> {
        let rows = asked.iter().flat_map(wanted);
        rows.map(|(_, offset)| offset).collect()
    };
    assert_eq!(offsets(&script.run()), [33]);
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(asked.len(), 1, "what failed is asked again: {asked:?}");
    reply_offsets(&mut script, &asked[0], ErrorCode::NONE, 44);
    assert_eq!(offsets(&script.run()), [44]);
}

#[test]
fn a_partition_whose_offset_is_not_told_keeps_no_other_waiting() {
    let mut script = reader(&[], Start::Beginning);
    script.topics = vec![("t", vec![1, -1])];
    let asked = script.run();
    assert_eq!(asked.len(), 1);
    reply_offsets(&mut script, &asked[0], ErrorCode::NONE, 3);
    assert_eq!(wanted(&script.run()[0]), [(0, 3)], "t-1 has no leader");

    let mut script = reader(&[], Start::Beginning);
    script.topics = vec![("t", vec![1, 1])];
    let asked = script.run();
    let Request::ListOffsets(request) = &asked[0].request else {
        panic!("{asked:?}")
    };
    let partitions = [(0, ErrorCode::NONE), (1, ErrorCode::OFFSET_NOT_AVAILABLE)]
        .map(|(partition_index, code)| ListOffsetsPartitionResponse {
            partition_index,
            error_code: code.0,
            offset: 3,
            ..Default::default()
        })
        .to_vec();
    let topics = vec![ListOffsetsTopicResponse {
        name: request.topics[0].name.clone(),
        partitions,
        ..Default::default()
    }];
    let answer = ListOffsetsResponse {
        topics,
        ..Default::default()
    };
    script.answer(&asked[0], Response::ListOffsets(answer));
    assert_eq!(wanted(&script.run()[0]), [(0, 3)], "t-1 is asked again");
}

#[test]
fn a_negative_offset_is_not_read_from() {
    let mut script = reader(&[], Start::End);
    let asked = script.run();
    for asked in &asked {
        reply_offsets(&mut script, asked, ErrorCode::NONE, -1);
    }
    assert!(script.run().is_empty());
    assert_eq!(script.engine.position("t", 0), Ok(None));
    let error = script.engine.partition_delay("t", 0).unwrap();
    assert!(error.message().contains("returned -1"), "{error}");
    assert_eq!(script.engine.delay(), None);
    assert_eq!(script.pass(Duration::from_secs(1)).len(), 2, "asked again");
}

#[test]
fn an_offset_out_of_range_is_reset_or_said() {
    let mut script = reader(&[("auto.offset.reset", "none")], Start::Offset(5));
    let asked = script.run();
    reply(&mut script, &asked[0], ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
    let error = script.engine.stuck().unwrap();
    assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert!(
        error.message().contains("offset 5 is not in the log"),
        "{error}"
    );

    let mut script = reader(&[("auto.offset.reset", "latest")], Start::Offset(5));
    let asked = script.run();
    reply(&mut script, &asked[0], ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
    assert!(script.run().is_empty(), "not in a circle without a pause");
    let again = script.pass(Duration::from_secs(1));
    let Request::ListOffsets(request) = &again[0].request else {
        panic!("{again:?}")
    };
    assert_eq!(request.topics[0].partitions[0].timestamp, LATEST);
}

#[test]
fn fetching_pauses_when_enough_is_buffered() {
    let mut script = reader(&[("prefetch.max.bytes", "200")], Start::Offset(0));
    let asked = script.run();
    let Request::Fetch(request) = &asked[0].request else {
        panic!()
    };
    assert_eq!(
        request.max_bytes, 25,
        "half of the budget, shared by two brokers with two connections each"
    );
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 10)]);
    assert!(script.run().is_empty());
    script.engine.take(script.now).unwrap();
    assert_eq!(wanted(&script.run()[0]), [(0, 10)]);
}

#[test]
fn consumers_of_a_process_have_the_same_part_of_its_bytes_each() {
    let sharers = Sharers::default();
    let pairs = [
        ("prefetch.max.bytes", "300"),
        ("prefetch.total.max.bytes", "400"),
    ];
    let begin = || {
        let mut script = reader(&pairs, Start::Offset(0));
        script.engine.share_prefetch(&sharers);
        script
    };
    let most = |asked: &Asked| match &asked.request {
        Request::Fetch(request) => request.max_bytes,
        _ => panic!("{asked:?}"),
    };
    let mut first = begin();
    let asked = first.run();
    assert_eq!(
        most(&asked[0]),
        300 / 2 / 4,
        "its own bound is the smaller one"
    );
    let one = to(&asked, &first, "b1");
    let (small, large) = (batch(0, 1), batch(1, 2));
    assert!((70..100).contains(&small.len()) && large.len() < 100);
    reply(&mut first, &asked[one], ErrorCode::NONE, &[small]);
    let asked = first.run();
    let (mut second, mut third, mut fourth) = (begin(), begin(), begin());
    assert_eq!(most(&second.run()[0]), 400 / 4 / 2 / 4);
    assert_eq!(most(&third.run()[0]), 400 / 4 / 2 / 4);
    assert_eq!(most(&fourth.run()[0]), 400 / 4 / 2 / 4);
    // The first one holds more than its share now: it requests nothing until that is taken.
    reply(&mut first, &asked[0], ErrorCode::NONE, &[large]);
    assert!(first.run().is_empty());
    first.engine.take(first.now).unwrap();
    assert!(first.run().is_empty());
    // Its part grows again, and what is left in it is not too much any more.
    third.engine.close(third.now, &closed_error());
    fourth.engine.close(fourth.now, &closed_error());
    drop(second);
    first.engine.take(first.now).unwrap();
    let asked = first.run();
    assert_eq!(wanted(&asked[0]), [(0, 3)]);
    assert_eq!(most(&asked[0]), 300 / 2 / 4);
}

#[test]
fn a_broken_connection_or_a_moved_leader_is_asked_again() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    let other = to(&asked, &script, "b2");
    script.cut(asked[first].link);
    let again = script.pass(Duration::from_secs(2));
    assert_eq!(wanted(&again[0]), [(0, 0)]);
    script.topics = vec![("t", vec![2, 2])];
    reply(&mut script, &again[0], ErrorCode::FENCED_LEADER_EPOCH, &[]);
    let moved = script.pass(Duration::from_secs(2));
    assert_eq!(script.address(moved[0].link), "b2");
    assert_eq!(wanted(&moved[0]), [(0, 0)]);
    assert_ne!(moved[0].link, asked[other].link);
}

/// Rule: 2.4.10.
#[test]
fn what_does_not_decode_stays_until_a_seek() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(
        &mut script,
        &asked[first],
        ErrorCode::NONE,
        &[batch(0, 3), batch(3, 3)],
    );
    script.run();
    let Taken {
        generation,
        fetched,
    } = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, generation, 3));
    let error = fetched.split()[1].corrupt("bad sum");
    script.engine.reject("t", 0, generation, 3, error);
    assert_eq!(script.engine.position("t", 0), Ok(Some(3)));
    let error = script.engine.stuck().unwrap().clone();
    assert!(
        error.message().contains("from offset 3") && error.message().contains("seek to 6"),
        "{error}"
    );
    script
        .engine
        .seek(script.now, "t", 0, Start::Offset(6))
        .unwrap();
    assert!(script.engine.stuck().is_none());
}

#[test]
fn what_stands_before_a_broken_batch_is_given_out_first() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
    let asked = script.run();
    let broken = Bytes::from(vec![0xff; 100]);
    reply(&mut script, &asked[0], ErrorCode::NONE, &[broken]);
    assert_eq!(script.engine.stuck(), None);
    let generation = script.engine.take(script.now).unwrap().generation;
    assert!(script.engine.advance("t", 0, generation, 3));
    let error = script.engine.stuck().unwrap();
    assert!(error.message().contains("at offset 3"), "{error}");
}

#[test]
fn little_is_kept_of_what_is_no_batch() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    let broken = Bytes::from(vec![0xff; 100 << 10]);
    reply(
        &mut script,
        &asked[first],
        ErrorCode::NONE,
        std::slice::from_ref(&broken),
    );
    let damage = script.engine.stuck().unwrap().damage().cloned().unwrap();
    assert_eq!((damage.offset, damage.next_offset), (0, None));
    assert_eq!(damage.data, broken.slice(..64 << 10));
}

#[test]
fn an_unknown_topic_or_partition_is_the_reason_for_silence() {
    let pairs = [("allow.auto.create.topics", "false")];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    script
        .engine
        .assign(script.now, [("nope".into(), 0, Start::Beginning)])
        .unwrap();
    script.pass(Duration::from_secs(1));
    assert_eq!(
        script.engine.delay().unwrap().code(),
        Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
    script
        .engine
        .assign(script.now, [("t".into(), 9, Start::Offset(0))])
        .unwrap();
    script.pass(Duration::from_secs(1));
    assert!(
        script
            .engine
            .delay()
            .unwrap()
            .message()
            .contains("the topic has 2")
    );
}

#[test]
fn an_assignment_that_stays_keeps_its_position() {
    let mut script = reader(&[], Start::Offset(5));
    script.run();
    script
        .engine
        .assign(script.now, [("t".into(), 0, Start::Reset)])
        .unwrap();
    assert_eq!(script.engine.position("t", 0), Ok(Some(5)));
    assert_eq!(
        script.engine.position("t", 1).unwrap_err().kind(),
        Kind::Argument
    );
    assert_eq!(script.engine.assignment().count(), 1);
}
