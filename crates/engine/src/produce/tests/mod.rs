//! The producer's steps, against a scripted cluster.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::ProduceResponse;
use ottla_protocol::messages::produce_response::PartitionProduceResponse;
use ottla_protocol::messages::produce_response::{LeaderIdAndEpoch, TopicProduceResponse};
use ottla_protocol::records::batches;
use ottla_protocol::{ErrorCode, Uuid};

use crate::api::{Request, Response};
use crate::config::Role;
use crate::engine::{Engine, closed_error};
use crate::error::{Error, Kind, Written};
use crate::producer::{NotAppended, Producer, Row};
use crate::script::{Asked, Script, config};

mod denial;
mod events;
mod lanes;
mod metrics;
mod old;
mod partitions;
mod refused;
mod runs;
mod topics;
mod unencodable;

type Sender = Script<Producer<i32>>;

/// One partition of a Produce request, as a broker sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    partition: i32,
    epoch: i16,
    sequence: i32,
    values: Vec<String>,
}

fn sender(pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut script = Script::new(Engine::producer(config(Role::Producer, pairs), 7));
    script.engine.want_topic(script.now, "t");
    script.run();
    assert!(script.engine.knows_topic("t"));
    script
}

/// A producer whose first record of each partition was acknowledged.
fn established(pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut script = sender(pairs);
    for partition in 0..2 {
        send(&mut script, partition, "0");
        let first = one(script.pass(Duration::from_millis(5)));
        reply(&mut script, &first, ErrorCode::NONE, 0);
    }
    fates(&mut script);
    script
}

fn try_send(script: &mut Sender, partition: i32, value: &str) -> Result<u32, NotAppended> {
    let now = script.now;
    let mut row = Row::new(None, Some(value.as_bytes()));
    row.partition = Some(partition);
    let make = |_: &Arc<str>, partition| partition;
    let appended = script.engine.append(|| now, "t", &row, 1, make);
    appended.map(|appended| appended.index)
}

fn send(script: &mut Sender, partition: i32, value: &str) {
    try_send(script, partition, value).unwrap();
}

fn seen(asked: &Asked) -> Vec<Seen> {
    let Request::Produce(request) = &asked.request else {
        panic!("not a Produce")
    };
    let parts = request
        .topic_data
        .iter()
        .flat_map(|topic| &topic.partition_data);
    parts
        .map(|part| {
            let batch = batches(part.records.clone().unwrap())
                .next()
                .unwrap()
                .unwrap();
            batch.verify_crc().unwrap();
            let payload = batch.payload(1 << 20).unwrap();
            let records = batch
                .records(&payload)
                .unwrap()
                .map(|record| record.unwrap().value.unwrap().to_vec());
            Seen {
                partition: part.index,
                epoch: batch.header.producer_epoch,
                sequence: batch.header.base_sequence,
                values: records
                    .map(|value| String::from_utf8(value).unwrap())
                    .collect(),
            }
        })
        .collect()
}

fn values(asked: &[Asked]) -> Vec<Vec<String>> {
    asked
        .iter()
        .flat_map(seen)
        .map(|seen| seen.values)
        .collect()
}

fn reply(script: &mut Sender, asked: &Asked, code: ErrorCode, base_offset: i64) {
    let answer = answer_to(asked, code, base_offset);
    script.answer(asked, Response::Produce(answer));
}

fn answer_to(asked: &Asked, code: ErrorCode, base_offset: i64) -> ProduceResponse {
    let Request::Produce(request) = &asked.request else {
        panic!("not a Produce")
    };
    let responses = request
        .topic_data
        .iter()
        .map(|topic| TopicProduceResponse {
            // Responses have topic ids since version 13, and names before.
            topic_id: if asked.version < 13 {
                Uuid::ZERO
            } else {
                topic.topic_id
            },
            name: if asked.version < 13 {
                topic.name.clone()
            } else {
                "".into()
            },
            partition_responses: topic
                .partition_data
                .iter()
                .map(|part| PartitionProduceResponse {
                    index: part.index,
                    error_code: code.0,
                    base_offset,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    ProduceResponse {
        responses,
        ..Default::default()
    }
}

fn fates(script: &mut Sender) -> Vec<(i32, u32, u32, Result<i64, Error>)> {
    std::iter::from_fn(|| script.engine.poll_done())
        .map(|done| {
            (
                done.batch,
                done.first,
                done.count,
                done.result.map(|stored| stored.base_offset),
            )
        })
        .collect()
}

/// Replies to every attempt of a batch with this code, each a `pause` after the one before. Returns what is sent instead of it at last.
fn deny(script: &mut Sender, asked: Asked, code: ErrorCode, pause: Duration) -> Vec<Asked> {
    let batch = seen(&asked);
    let mut attempts = vec![asked];
    for _ in 0..100 {
        match &attempts[..] {
            [again] if seen(again) == batch => reply(script, again, code, -1),
            _ => return attempts,
        }
        attempts = script.pass(pause);
    }
    panic!("still sent under its own numbers: {batch:?}")
}

fn one(asked: Vec<Asked>) -> Asked {
    let mut asked = asked;
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

#[test]
fn the_first_record_leaves_at_once_and_the_next_ones_together() {
    let mut script = sender(&[]);
    send(&mut script, 0, "a");
    let first = one(script.run());
    assert_eq!(script.address(first.link), "b1");
    assert_eq!(
        seen(&first),
        [Seen {
            partition: 0,
            epoch: 0,
            sequence: 0,
            values: vec!["a".into()]
        }]
    );
    for value in ["b", "c"] {
        send(&mut script, 0, value);
    }
    assert!(script.run().is_empty());
    reply(&mut script, &first, ErrorCode::NONE, 40);
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(40))]);
    let second = one(script.run());
    assert_eq!(
        seen(&second),
        [Seen {
            partition: 0,
            epoch: 0,
            sequence: 1,
            values: vec!["b".into(), "c".into()]
        }]
    );
    reply(&mut script, &second, ErrorCode::NONE, 41);
    assert_eq!(fates(&mut script), [(0, 0, 2, Ok(41))]);
    assert_eq!(script.engine.buffered_bytes(), 0);
}

#[test]
fn a_busy_broker_gets_the_next_batch_after_five_milliseconds() {
    let mut script = established(&[]);
    send(&mut script, 0, "a");
    one(script.run());
    send(&mut script, 0, "b");
    assert!(script.pass(Duration::from_millis(4)).is_empty());
    assert_eq!(values(&script.pass(Duration::from_millis(1))), [["b"]]);
}

#[test]
fn linger_is_waited_for_when_it_is_given() {
    let mut script = sender(&[("linger.ms", "50")]);
    send(&mut script, 0, "a");
    assert!(script.pass(Duration::from_millis(49)).is_empty());
    send(&mut script, 0, "b");
    assert_eq!(values(&script.pass(Duration::from_millis(1))), [["a", "b"]]);
}

#[test]
fn a_full_batch_does_not_wait_and_in_flight_is_bounded() {
    let mut script = established(&[
        ("batch.size", "100"),
        ("max.in.flight.requests.per.connection", "2"),
    ]);
    for value in ["a", "b", "c", "d"] {
        send(&mut script, 0, &value.repeat(60));
    }
    let sent = script.run();
    assert_eq!(sent.len(), 2);
    reply(&mut script, &sent[0], ErrorCode::NONE, 0);
    assert_eq!(script.run().len(), 1);
}

#[test]
fn batches_of_one_broker_share_a_request() {
    let mut script = sender(&[("linger.ms", "5")]);
    script.topics = vec![("t", vec![1, 1, 2])];
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(1));
    for partition in 0..3 {
        send(&mut script, partition, "x");
    }
    let sent = script.pass(Duration::from_millis(5));
    let mut shape: Vec<_> = sent.iter().map(|asked| seen(asked).len()).collect();
    shape.sort_unstable();
    assert_eq!(shape, [1, 2]);
}

#[test]
fn a_retry_keeps_order_and_sequence() {
    let mut script = established(&[("batch.size", "100")]);
    for value in ["a", "b", "c"] {
        send(&mut script, 0, &value.repeat(60));
    }
    script.engine.flush(script.now);
    let sent = script.run();
    let first_try: Vec<_> = sent.iter().flat_map(seen).collect();
    assert_eq!(
        first_try
            .iter()
            .map(|seen| seen.sequence)
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
    reply(&mut script, &sent[0], ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    assert!(
        script.pass(Duration::from_secs(5)).is_empty(),
        "nothing goes before the others are answered"
    );
    for asked in &sent[1..] {
        reply(
            &mut script,
            asked,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            -1,
        );
    }
    let again = script.pass(Duration::from_secs(5));
    assert_eq!(again.iter().flat_map(seen).collect::<Vec<_>>(), first_try);
    for (asked, offset) in again.iter().zip(0..) {
        reply(&mut script, asked, ErrorCode::NONE, offset);
    }
    assert_eq!(
        fates(&mut script),
        [(0, 0, 1, Ok(0)), (0, 0, 1, Ok(1)), (0, 0, 1, Ok(2))]
    );
}

#[test]
fn nothing_overtakes_the_first_batch_of_a_partition() {
    let mut script = sender(&[("batch.size", "100")]);
    for value in ["a", "b"] {
        send(&mut script, 0, &value.repeat(60));
    }
    script.engine.flush(script.now);
    let first = one(script.run());
    reply(
        &mut script,
        &first,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    );
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(seen(&again), seen(&first));
    reply(&mut script, &again, ErrorCode::NONE, 0);
    assert_eq!(seen(&one(script.run()))[0].sequence, 1);
}

#[test]
fn a_broken_connection_is_a_retry_and_a_repeat_is_a_success() {
    let mut script = sender(&[]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    script.cut(asked.link);
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(seen(&again), seen(&asked));
    reply(
        &mut script,
        &again,
        ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
        -1,
    );
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(-1))]);
}

#[test]
fn a_moved_leader_gets_the_batch() {
    let mut script = sender(&[]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    script.topics = vec![("t", vec![2, 2])];
    reply(&mut script, &asked, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(script.address(again.link), "b2");
    assert_eq!(seen(&again), seen(&asked));
}

#[test]
fn a_leader_that_lost_its_place_or_its_disk_may_have_appended() {
    for (code, alone) in [
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, Written::No),
        // Its disk may have failed after the append.
        (ErrorCode::KAFKA_STORAGE_ERROR, Written::Unknown),
        (ErrorCode::UNKNOWN_SERVER_ERROR, Written::Unknown),
    ] {
        for (acks, written) in [("all", Written::Unknown), ("1", alone)] {
            let mut script = sender(&[
                ("acks", acks),
                ("enable.idempotence", "false"),
                ("retries", "0"),
            ]);
            send(&mut script, 0, "a");
            let asked = one(script.run());
            reply(&mut script, &asked, code, -1);
            script.run();
            let (_, _, _, result) = fates(&mut script).remove(0);
            assert_eq!(result.unwrap_err().written(), Some(written), "acks={acks}");
        }
    }
}

#[test]
fn a_hint_names_the_new_leader_without_a_question() {
    let mut script = sender(&[]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    let row = PartitionProduceResponse {
        index: 0,
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
        current_leader: LeaderIdAndEpoch {
            leader_id: 2,
            leader_epoch: 9,
            ..Default::default()
        },
        ..Default::default()
    };
    let Request::Produce(request) = &asked.request else {
        panic!()
    };
    let topic_id = request.topic_data[0].topic_id;
    let responses = vec![TopicProduceResponse {
        topic_id,
        partition_responses: vec![row],
        ..Default::default()
    }];
    script.answer(
        &asked,
        Response::Produce(ProduceResponse {
            responses,
            ..Default::default()
        }),
    );
    assert_eq!(script.engine.metadata().leader("t", 0), Some((2, 9)));
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(script.address(again.link), "b2");
}

#[test]
fn after_a_gap_the_epoch_is_bumped_and_numbers_begin_anew() {
    let mut script = established(&[("batch.size", "100")]);
    for value in ["a", "b"] {
        send(&mut script, 0, &value.repeat(60));
    }
    script.engine.flush(script.now);
    let sent = script.run();
    reply(&mut script, &sent[0], ErrorCode::INVALID_RECORD, -1);
    reply(
        &mut script,
        &sent[1],
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    );
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!((seen(&again)[0].epoch, seen(&again)[0].sequence), (1, 0));
    reply(&mut script, &again, ErrorCode::NONE, 9);
    let fates = fates(&mut script);
    assert_eq!(
        fates[0].3.as_ref().unwrap_err().code(),
        Some(ErrorCode::INVALID_RECORD)
    );
    assert_eq!(
        fates[0].3.as_ref().unwrap_err().written(),
        Some(Written::No)
    );
    assert_eq!(fates[1].3, Ok(9));
    send(&mut script, 0, "c");
    assert_eq!(seen(&one(script.run()))[0].sequence, 1);
}

/// The broker was frozen while the first of two batches ran out of time. Their first requests still wait at it, and come before
/// anything that has new numbers.
#[test]
fn what_a_dead_connection_may_still_bring_is_not_numbered_anew() {
    let mut script = established(&[
        ("batch.size", "100"),
        ("linger.ms", "0"),
        ("request.timeout.ms", "1000"),
        ("delivery.timeout.ms", "1000"),
        ("reconnect.backoff.max.ms", "100"),
        ("retry.backoff.max.ms", "100"),
    ]);
    send(&mut script, 0, &"a".repeat(60));
    script.run();
    script.pass(Duration::from_millis(500));
    send(&mut script, 0, &"b".repeat(60));
    let carried = one(script.run());
    script.dead.push("b1".to_owned());
    script.cut(carried.link);
    assert!(script.pass(Duration::from_millis(550)).is_empty());
    // The first one is late by now.
    script.dead.clear();
    let again = one(script.pass(Duration::from_millis(250)));
    assert_eq!(seen(&again), seen(&carried));
    let code = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
    let pause = Duration::from_millis(100);
    assert!(deny(&mut script, again, code, pause).is_empty());
    send(&mut script, 0, &"c".repeat(60));
    let next = seen(&one(script.pass(Duration::from_millis(300))));
    assert_eq!((next[0].epoch, next[0].sequence), (1, 0));
    assert_eq!(next[0].values, ["c".repeat(60)]);
    let written: Vec<_> = fates(&mut script)
        .into_iter()
        .map(|(_, _, _, result)| result.unwrap_err().written())
        .collect();
    assert_eq!(written, [Some(Written::Unknown), Some(Written::Unknown)]);
}

#[test]
fn why_there_is_no_producer_id_is_said() {
    let mut script = sender(&[]);
    script.producer_id_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    send(&mut script, 0, "a");
    assert!(script.pass(Duration::from_secs(120)).is_empty());
    let error = fates(&mut script).remove(0).3.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(error.api(), Some("InitProducerId"));
    assert!(error.broker().is_some() && error.partition() == Some(0));
    assert_eq!(error.written(), Some(Written::No));
}

/// KIP-360, and KIP-854 where the producer was idle for too long.
#[test]
fn what_may_be_written_is_never_numbered_anew_without_proof() {
    let mut script = established(&[("linger.ms", "0")]);
    for value in ["a", "b"] {
        send(&mut script, 0, value);
        let asked = one(script.run());
        if value == "b" {
            script.cut(asked.link);
        }
    }
    let again = script.pass(Duration::from_secs(1));
    assert_eq!(values(&again), [["a"], ["b"]]);
    reply(&mut script, &again[0], ErrorCode::UNKNOWN_PRODUCER_ID, -1);
    send(&mut script, 0, "c");
    script.cut(again[1].link);
    let rest = one(script.pass(Duration::from_secs(2)));
    assert_eq!(
        seen(&rest),
        [Seen {
            partition: 0,
            epoch: 1,
            sequence: 0,
            values: vec!["c".into()]
        }]
    );
    let written: Vec<_> = fates(&mut script)
        .into_iter()
        .map(|(_, _, _, result)| result.unwrap_err().written())
        .collect();
    assert_eq!(written, [Some(Written::Unknown), Some(Written::Unknown)]);
}

/// Rule: CVE-2026-35554.
#[test]
fn a_batch_is_given_up_in_time_and_says_what_is_known() {
    let mut script = sender(&[
        ("delivery.timeout.ms", "40000"),
        ("request.timeout.ms", "30000"),
    ]);
    send(&mut script, 0, "sent");
    one(script.run());
    send(&mut script, 1, "kept");
    let other = one(script.run());
    reply(&mut script, &other, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    script.dead.push("b2".to_owned());
    script.cut(other.link);
    script.pass(Duration::from_secs(39));
    assert!(fates(&mut script).is_empty());
    script.pass(Duration::from_secs(1));
    let fates = fates(&mut script);
    assert_eq!(fates.len(), 2);
    for (partition, _, _, result) in fates {
        let error = result.unwrap_err();
        let written = if partition == 0 {
            Written::Unknown
        } else {
            Written::No
        };
        assert_eq!(
            (error.written(), error.partition()),
            (Some(written), Some(partition)),
            "{error}"
        );
        assert!(
            error.message().contains("delivery.timeout.ms (40000 ms)"),
            "{error}"
        );
    }
    assert!(script.engine.is_flushed(u64::MAX));
    assert!(
        script.engine.buffered_bytes() > 0,
        "the request still owns its bytes"
    );
}

#[test]
fn a_batch_for_a_broker_that_wants_a_longer_pause_is_given_up_in_time() {
    let mut script = sender(&[("delivery.timeout.ms", "30000"), ("linger.ms", "0")]);
    send(&mut script, 0, "a");
    let first = one(script.run());
    let answer = ProduceResponse {
        throttle_time_ms: i32::MAX,
        ..answer_to(&first, ErrorCode::NONE, 0)
    };
    script.answer(&first, Response::Produce(answer));
    assert_eq!(fates(&mut script).len(), 1);
    script.pass(Duration::from_secs(10));
    send(&mut script, 0, "b");
    assert!(script.pass(Duration::from_secs(29)).is_empty());
    assert!(fates(&mut script).is_empty());
    script.pass(Duration::from_secs(1));
    let fates = fates(&mut script);
    assert_eq!(fates.len(), 1);
    let error = fates[0].3.clone().unwrap_err();
    assert_eq!(error.written(), Some(Written::No), "{error}");
}

/// Rule: CVE-2026-35554.
#[test]
fn a_late_answer_to_a_batch_that_was_given_up_changes_nothing() {
    let mut script = sender(&[("delivery.timeout.ms", "30000")]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    script.pass(Duration::from_secs(30));
    assert_eq!(fates(&mut script).len(), 1);
    reply(&mut script, &asked, ErrorCode::NONE, 3);
    assert!(fates(&mut script).is_empty());
    assert_eq!(script.engine.buffered_bytes(), 0);
    // The broker has seen its number.
    send(&mut script, 0, "b");
    let next = seen(&one(script.run()));
    assert_eq!((next[0].epoch, next[0].sequence), (0, 1));
}

/// The connection is up and nothing else happens between the two, so that the next batch is made at once.
#[test]
fn what_is_sent_the_moment_a_batch_is_given_up_begins_a_new_epoch() {
    let mut script = established(&[
        ("linger.ms", "0"),
        ("request.timeout.ms", "1000"),
        ("delivery.timeout.ms", "1000"),
        ("retry.backoff.ms", "10"),
        ("retry.backoff.max.ms", "10"),
    ]);
    send(&mut script, 0, "a");
    let end = script.now + Duration::from_millis(1000);
    let mut asked = script.run();
    while script.now < end {
        for asked in asked {
            reply(&mut script, &asked, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
        }
        asked = script.pass(Duration::from_millis(1));
    }
    for asked in asked {
        reply(&mut script, &asked, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    }
    assert!(fates(&mut script).remove(0).3.is_err());
    send(&mut script, 0, "b");
    let next = seen(&one(script.pass(Duration::ZERO)));
    assert_eq!((next[0].epoch, next[0].sequence), (1, 0));
}

/// The batch that failed is behind one that is acknowledged later.
#[test]
fn an_acknowledgement_of_an_earlier_batch_closes_no_gap() {
    let mut script = established(&[("batch.size", "100")]);
    for value in ["a", "b"] {
        send(&mut script, 0, &value.repeat(60));
    }
    script.engine.flush(script.now);
    let sent = script.run();
    reply(&mut script, &sent[0], ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    reply(&mut script, &sent[1], ErrorCode::INVALID_RECORD, -1);
    let again = one(script.pass(Duration::from_secs(1)));
    reply(&mut script, &again, ErrorCode::NONE, 5);
    send(&mut script, 0, "c");
    script.engine.flush(script.now);
    let next = seen(&one(script.run()));
    assert_eq!((next[0].epoch, next[0].sequence), (1, 0));
}

/// Should its request still be read, the broker refuses it as of an earlier epoch; and nothing waits for an OUT_OF_ORDER_SEQUENCE_NUMBER,
/// which proves nothing once a connection was lost on the way.
#[test]
fn what_follows_a_batch_that_was_given_up_begins_a_new_epoch() {
    let mut script = established(&[
        ("linger.ms", "0"),
        ("request.timeout.ms", "1000"),
        ("delivery.timeout.ms", "1000"),
        ("reconnect.backoff.max.ms", "100"),
        ("retry.backoff.max.ms", "100"),
    ]);
    send(&mut script, 0, "a");
    let carried = one(script.run());
    assert_eq!(
        (seen(&carried)[0].epoch, seen(&carried)[0].sequence),
        (0, 1)
    );
    script.dead.push("b1".to_owned());
    script.cut(carried.link);
    script.pass(Duration::from_millis(1000));
    let unknown = fates(&mut script).remove(0).3.unwrap_err();
    assert_eq!(unknown.written(), Some(Written::Unknown));
    script.dead.clear();
    send(&mut script, 0, "b");
    let next = one(script.pass(Duration::from_millis(300)));
    assert_eq!((seen(&next)[0].epoch, seen(&next)[0].sequence), (1, 0));
    // Its connection dies too: it keeps what it has.
    script.cut(next.link);
    let again = one(script.pass(Duration::from_millis(300)));
    assert_eq!(seen(&again), seen(&next));
    reply(&mut script, &again, ErrorCode::NONE, 7);
    assert_eq!(fates(&mut script)[0].3, Ok(7));
}

#[test]
fn a_batch_too_large_is_halved_and_later_ones_are_smaller() {
    let mut script = established(&[("linger.ms", "5")]);
    for value in ["a", "b", "c"] {
        send(&mut script, 0, &value.repeat(200));
    }
    let asked = one(script.pass(Duration::from_millis(5)));
    reply(&mut script, &asked, ErrorCode::MESSAGE_TOO_LARGE, -1);
    let halves = script.pass(Duration::from_secs(1));
    let parts: Vec<_> = halves.iter().flat_map(seen).collect();
    assert_eq!(
        parts
            .iter()
            .map(|part| (part.sequence, part.values.len()))
            .collect::<Vec<_>>(),
        [(1, 1), (2, 2)]
    );
    for (asked, offset) in halves.iter().zip([10, 11]) {
        reply(&mut script, asked, ErrorCode::NONE, offset);
    }
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(10)), (0, 1, 2, Ok(11))]);
    for value in ["d", "e", "f"] {
        send(&mut script, 0, &value.repeat(200));
    }
    assert!(
        script.pass(Duration::from_millis(5)).len() > 1,
        "batches are smaller now"
    );
    assert!(script.engine.is_flushed(0));
}

/// In halves it would have numbers that the broker does not know again, and be written twice.
#[test]
fn a_batch_that_may_be_written_is_not_halved_when_the_limit_shrinks() {
    let mut script = established(&[("linger.ms", "5")]);
    for value in ["a", "b"] {
        send(&mut script, 0, value);
    }
    let asked = one(script.pass(Duration::from_millis(5)));
    script.cut(asked.link);
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(values(std::slice::from_ref(&again)), [["a", "b"]]);
    reply(&mut script, &again, ErrorCode::MESSAGE_TOO_LARGE, -1);
    let (_, _, records, fate) = fates(&mut script).remove(0);
    let error = fate.unwrap_err();
    assert_eq!(records, 2);
    assert_eq!(
        (error.kind(), error.written()),
        (Kind::TooLarge, Some(Written::Unknown))
    );
    assert!(error.message().contains("max.message.bytes"), "{error}");
    send(&mut script, 0, "c");
    let rest = one(script.pass(Duration::from_secs(1)));
    assert_eq!(
        seen(&rest),
        [Seen {
            partition: 0,
            epoch: 1,
            sequence: 0,
            values: vec!["c".into()]
        }]
    );
}

#[test]
fn a_single_record_too_large_for_the_broker_fails() {
    let mut script = sender(&[]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    reply(&mut script, &asked, ErrorCode::MESSAGE_TOO_LARGE, -1);
    let error = fates(&mut script).remove(0).3.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (Kind::TooLarge, Some(ErrorCode::MESSAGE_TOO_LARGE))
    );
    assert!(error.message().contains("max.message.bytes"), "{error}");
}

#[test]
fn a_record_too_large_is_refused_before_the_wire() {
    let mut script = sender(&[("max.request.size", "1000"), ("batch.size", "500")]);
    let Err(NotAppended::Failed(error)) = try_send(&mut script, 0, &"x".repeat(1000)) else {
        panic!("taken")
    };
    assert_eq!(
        (error.kind(), error.written()),
        (Kind::TooLarge, Some(Written::No))
    );
    assert!(
        error.message().contains("max.request.size (1000)"),
        "{error}"
    );
    assert_eq!(script.engine.buffered_bytes(), 0);
}

#[test]
fn the_buffer_is_bounded_and_frees_itself() {
    let mut script = sender(&[("buffer.memory", "1000"), ("batch.size", "900")]);
    send(&mut script, 0, &"x".repeat(700));
    assert!(matches!(
        try_send(&mut script, 0, &"x".repeat(300)),
        Err(NotAppended::Full)
    ));
    assert!(!script.engine.has_room(300));
    let asked = one(script.run());
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    send(&mut script, 0, &"x".repeat(300));
}

#[test]
fn without_acknowledgement_a_record_is_done_when_it_is_written() {
    let mut script = sender(&[("acks", "0")]);
    send(&mut script, 0, "a");
    let asked = one(script.run());
    assert_eq!(seen(&asked)[0].sequence, -1);
    script.engine.handle(
        script.now,
        asked.link,
        crate::engine::Event::Written {
            token: asked.token,
            bytes: 100,
        },
    );
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(-1))]);
    send(&mut script, 0, "b");
    assert_eq!(values(&script.run()), [["b"]]);
}

#[test]
fn an_unknown_topic_says_so() {
    let mut script = sender(&[]);
    script.engine.want_topic(script.now, "nope");
    script.pass(Duration::from_secs(2));
    let error = script.engine.topic("nope").unwrap_err().unwrap();
    assert_eq!(
        (error.code(), error.topic()),
        (Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), Some("nope"))
    );
    script.topics.push(("nope", vec![1]));
    script.pass(Duration::from_secs(2));
    assert!(script.engine.knows_topic("nope"));
}

#[test]
fn closing_fails_what_is_left() {
    let mut script = sender(&[("linger.ms", "1000")]);
    send(&mut script, 0, "a");
    script.engine.close(script.now, &closed_error());
    let error = fates(&mut script).remove(0).3.unwrap_err();
    assert_eq!(
        (error.kind(), error.written()),
        (Kind::Closed, Some(Written::No))
    );
    assert!(
        matches!(try_send(&mut script, 0, "b"), Err(NotAppended::Failed(error)) if error.kind() == Kind::Closed)
    );
}
