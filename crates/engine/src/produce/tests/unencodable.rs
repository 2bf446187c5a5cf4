//! A batch that does not encode fails alone: the others of its request are sent.

use super::*;
use crate::engine::Event;

/// A producer with a batch for each of two partitions of one leader, of which the first does not encode.
fn spoiled(pairs: &[(&'static str, &'static str)]) -> Sender {
    let pairs = [&[("linger.ms", "1000")], pairs].concat();
    let mut script = Script::new(Engine::producer(config(Role::Producer, &pairs), 7));
    script.topics = vec![("t", vec![1, 1])];
    script.engine.want_topic(script.now, "t");
    script.run();
    for partition in 0..2 {
        send(&mut script, partition, "a");
    }
    script.engine.flush(script.now);
    spoil(&mut script, 0);
    script
}

fn spoil(script: &mut Sender, partition: i32) {
    let queues = script.engine.client.accumulator.queues.iter_mut();
    let mut queues = queues.filter(|queue| queue.partition == partition);
    let batch = queues.next().unwrap().ready.front_mut();
    batch.unwrap().spoil();
}

fn partitions(asked: &Asked) -> Vec<i32> {
    seen(asked).iter().map(|seen| seen.partition).collect()
}

/// The delivery result of the first partition's record is an encoding error.
fn fails(fates: &[(i32, u32, u32, Result<i64, Error>)]) {
    let fate = fates.iter().find(|(partition, ..)| *partition == 0);
    let error = fate.unwrap().3.as_ref().unwrap_err();
    assert_eq!(error.kind(), Kind::Argument, "{error}");
    assert!(error.to_string().contains("does not encode"), "{error}");
    assert_eq!(error.partition(), Some(0));
    assert_eq!(error.written(), Some(Written::No));
}

#[test]
fn the_other_batches_of_its_request_are_delivered() {
    for pairs in [&[][..], &[("enable.idempotence", "false"), ("acks", "1")]] {
        let mut script = spoiled(pairs);
        let asked = one(script.run());
        assert_eq!(partitions(&asked), [1]);
        reply(&mut script, &asked, ErrorCode::NONE, 9);
        let fates = fates(&mut script);
        assert_eq!(fates.len(), 2);
        fails(&fates);
        assert!(fates.contains(&(1, 0, 1, Ok(9))), "{fates:?}");

        // The partition goes on.
        send(&mut script, 0, "b");
        script.engine.flush(script.now);
        let asked = one(script.run());
        assert_eq!(partitions(&asked), [0]);
        assert_eq!(values(std::slice::from_ref(&asked)), [["b"]]);
    }
}

#[test]
fn it_fails_where_no_broker_responds() {
    let mut script = spoiled(&[("acks", "0"), ("enable.idempotence", "false")]);
    let asked = one(script.run());
    assert_eq!(partitions(&asked), [1]);
    let written = Event::Written {
        token: asked.token,
        bytes: 1,
    };
    script.engine.handle(script.now, asked.link, written);
    let fates = fates(&mut script);
    fails(&fates);
    assert!(fates.contains(&(1, 0, 1, Ok(-1))), "{fates:?}");
}

#[test]
fn a_lost_connection_repeats_the_others_only() {
    let mut script = spoiled(&[]);
    let asked = one(script.run());
    script.cut(asked.link);
    let failed = fates(&mut script);
    assert_eq!(failed.len(), 1);
    fails(&failed);
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(partitions(&again), [1]);
}

#[test]
fn a_response_that_claims_its_delivery_is_not_believed() {
    let mut script = spoiled(&[]);
    let asked = one(script.run());
    let mut response = answer_to(&asked, ErrorCode::NONE, 9);
    let rows = &mut response.responses[0].partition_responses;
    rows.push(PartitionProduceResponse {
        index: 0,
        ..Default::default()
    });
    script.answer(&asked, Response::Produce(response));
    fails(&fates(&mut script));
}

#[test]
fn a_request_without_any_other_is_not_sent() {
    let mut script = spoiled(&[]);
    spoil(&mut script, 1);
    assert!(script.run().is_empty());
    let fates = fates(&mut script);
    assert_eq!(fates.len(), 2);
    fails(&fates);
    assert_eq!(
        fates.iter().filter(|(.., result)| result.is_err()).count(),
        2
    );
}
