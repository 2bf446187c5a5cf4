//! What a producer measures of its batches.

use super::*;
use crate::metrics::RECORDED;

/// The metric of this name, with these tags next to the client's.
fn value(script: &mut Sender, name: &str, tags: &[&str]) -> f64 {
    let all = script.engine.metrics(script.now);
    let mut found = all.iter().filter(|metric| {
        let others = metric.tags.iter().filter(|(tag, _)| *tag != "client-id");
        let values: Vec<_> = others.map(|(_, value)| &**value).collect();
        metric.name == name && values == tags
    });
    let value = found.next().unwrap().value;
    assert!(found.next().is_none(), "{name} is ambiguous");
    value
}

#[test]
fn batches_are_measured_when_they_leave_and_when_they_are_answered() {
    let mut script = sender(&[("linger.ms", "5")]);
    for text in ["a", "bb", "ccc"] {
        send(&mut script, 1, text);
    }
    let asked = one(script.pass(Duration::from_millis(5)));
    assert_eq!(value(&mut script, "requests-in-flight", &[]), 1.0);
    assert_eq!(value(&mut script, "record-send-total", &[]), 3.0);
    assert_eq!(value(&mut script, "record-send-total", &["t"]), 3.0);
    assert_eq!(value(&mut script, "record-send-rate", &["t"]), 0.1);
    assert_eq!(value(&mut script, "records-per-request-avg", &[]), 3.0);
    assert_eq!(value(&mut script, "record-queue-time-max", &[]), 5.0);
    assert!(value(&mut script, "batch-size-avg", &[]).is_nan());
    let (all, used) = (64 << 20, script.engine.buffered_bytes());
    let left = value(&mut script, "buffer-available-bytes", &[]);
    assert_eq!(left, f64::from(all) - used as f64);

    script.now += Duration::from_millis(20);
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    let Request::Produce(request) = &asked.request else {
        panic!("not a Produce")
    };
    let records = &request.topic_data[0].partition_data[0].records;
    let bytes = records.as_ref().unwrap().len() as f64;
    for (name, wanted) in [
        ("batch-size-avg", bytes),
        ("batch-size-max", bytes),
        ("compression-rate-avg", 1.0),
        ("requests-in-flight", 0.0),
        ("request-latency-max", 20.0),
        ("produce-throttle-time-max", 0.0),
        ("record-error-total", 0.0),
        ("metadata-age", 0.025),
    ] {
        assert_eq!(value(&mut script, name, &[]), wanted, "{name}");
    }
    assert_eq!(value(&mut script, "byte-total", &["t"]), bytes);
    let largest = value(&mut script, "record-size-max", &[]);
    assert!((9.0..40.0).contains(&largest), "{largest}");
    // The scripted sizes, of every request to that broker.
    let to_leader = value(&mut script, "request-total", &["node-2"]);
    for (name, bytes) in [
        ("outgoing-byte-total", 100.0),
        ("incoming-byte-total", 200.0),
    ] {
        let total = value(&mut script, name, &["node-2"]);
        assert_eq!(total, bytes * to_leader, "{name}");
    }
    let latency = value(&mut script, "request-latency-max", &["node-2"]);
    assert_eq!(latency, 20.0);
    let requests = value(&mut script, "request-total", &[]);
    assert_eq!(value(&mut script, "response-total", &[]), requests);
    assert_eq!(
        value(&mut script, "outgoing-byte-total", &[]),
        100.0 * requests
    );
    assert_eq!(value(&mut script, "network-io-total", &[]), 2.0 * requests);
}

#[test]
fn retries_splits_and_failures_are_counted_by_records() {
    let mut script = established(&[("linger.ms", "5")]);
    for text in ["a", "b"] {
        send(&mut script, 1, text);
    }
    let asked = one(script.pass(Duration::from_millis(5)));
    reply(&mut script, &asked, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    assert_eq!(value(&mut script, "record-retry-total", &["t"]), 2.0);
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(value(&mut script, "record-send-total", &[]), 6.0);
    reply(&mut script, &again, ErrorCode::MESSAGE_TOO_LARGE, -1);
    assert_eq!(value(&mut script, "batch-split-total", &[]), 1.0);
    let halves = script.pass(Duration::from_millis(5));
    assert_eq!(halves.len(), 2);
    reply(&mut script, &halves[0], ErrorCode::INVALID_RECORD, -1);
    assert_eq!(value(&mut script, "record-error-total", &[]), 1.0);
    assert_eq!(value(&mut script, "record-error-total", &["t"]), 1.0);
    assert_eq!(value(&mut script, "record-retry-total", &[]), 2.0);
}

#[test]
fn failures_without_any_broker_are_counted_too() {
    let mut script = sender(&[("linger.ms", "5")]);
    script.dead = vec!["boot".to_owned(), "b1".to_owned(), "b2".to_owned()];
    send(&mut script, 1, "lost");
    script.engine.close(script.now, &closed_error());
    assert_eq!(value(&mut script, "record-error-total", &["t"]), 1.0);
    assert_eq!(value(&mut script, "connection-count", &[]), 0.0);
    let opened = value(&mut script, "connection-creation-total", &[]);
    assert_eq!(value(&mut script, "connection-close-total", &[]), opened);
}

/// How often sensors take in values for one batch of `records` records.
fn recorded(records: usize) -> u64 {
    let mut script = established(&[("linger.ms", "5")]);
    script.engine.metrics(script.now);
    let before = RECORDED.get();
    for _ in 0..records {
        send(&mut script, 0, "v");
    }
    assert_eq!(RECORDED.get(), before, "an append measures nothing");
    let asked = one(script.pass(Duration::from_millis(5)));
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    script.engine.metrics(script.now);
    RECORDED.get() - before
}

#[test]
fn measuring_costs_the_same_however_many_records_a_batch_has() {
    let few = recorded(1);
    assert_eq!(few, recorded(1000));
    assert!(few < 30, "{few}");
}
