//! What a consumer measures of fetches, and of what it hands out.

use std::sync::Arc;

use super::*;

/// The metric of this name, with these tags next to the client's.
fn value(script: &mut Reader, name: &str, tags: &[&str]) -> f64 {
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
fn fetches_and_what_was_handed_out() {
    let mut script = reader(&[], Start::Offset(10));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    let whole = batch(10, 5);
    script.now += Duration::from_millis(30);
    reply(
        &mut script,
        &asked[first],
        ErrorCode::NONE,
        std::slice::from_ref(&whole),
    );
    let bytes = whole.len() as f64;
    assert_eq!(value(&mut script, "fetch-size-max", &[]), bytes);
    assert_eq!(value(&mut script, "fetch-size-avg", &["t"]), bytes);
    assert_eq!(value(&mut script, "fetch-latency-avg", &[]), 30.0);
    assert_eq!(value(&mut script, "fetch-total", &[]), 1.0);
    assert_eq!(value(&mut script, "records-consumed-total", &[]), 0.0);
    assert_eq!(value(&mut script, "records-lag", &["0", "t"]), 90.0);

    let topic: Arc<str> = "t".into();
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 15));
    script.engine.handed_out(script.now, &topic, 0, 5, 25);
    for (name, tags, wanted) in [
        ("records-consumed-total", &[][..], 5.0),
        ("records-consumed-total", &["t"], 5.0),
        ("bytes-consumed-total", &["t"], 25.0),
        ("records-per-request-avg", &["t"], 5.0),
        ("records-lag", &["0", "t"], 85.0),
        ("records-lag-max", &[], 85.0),
        ("records-lag-avg", &["0", "t"], 85.0),
        ("last-poll-seconds-ago", &[], -1.0),
    ] {
        assert_eq!(value(&mut script, name, tags), wanted, "{name} {tags:?}");
    }
    // The other partition's log is not known yet.
    assert!(value(&mut script, "records-lag", &["1", "t"]).is_nan());

    let now = script.now;
    script
        .engine
        .assign(now, [("t".into(), 1, Start::Reset)])
        .unwrap();
    let left = script.engine.metrics(now);
    let left = left.iter().filter(|metric| metric.name == "records-lag");
    assert_eq!(left.count(), 1, "a partition's metrics go with it");
}

#[test]
fn the_end_of_committed_records_is_what_their_reader_lags_behind() {
    let mut script = reader(&[("isolation.level", "read_committed")], Start::Offset(10));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    let Request::Fetch(request) = &asked[first].request else {
        panic!("not a Fetch")
    };
    let responses = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic_id: topic.topic_id,
        partitions: vec![PartitionData {
            partition_index: 0,
            high_watermark: 100,
            last_stable_offset: 40,
            log_start_offset: 4,
            ..Default::default()
        }],
        ..Default::default()
    });
    let responses = responses.collect();
    let response = FetchResponse {
        responses,
        ..Default::default()
    };
    script.answer(&asked[first], Response::Fetch(response));
    assert_eq!(value(&mut script, "records-lag", &["0", "t"]), 30.0);
    assert_eq!(value(&mut script, "records-lead", &["0", "t"]), 6.0);
}

#[test]
fn polls_are_timed() {
    let mut script = reader(&[], Start::Offset(0));
    let begin = script.now;
    let second = Duration::from_secs(1);
    script.engine.poll_began(begin);
    script.engine.poll_ended(begin + second);
    script.engine.poll_began(begin + 4 * second);
    script.now = begin + 7 * second;
    assert_eq!(value(&mut script, "time-between-poll-max", &[]), 4000.0);
    assert_eq!(value(&mut script, "poll-idle-ratio-avg", &[]), 0.25);
    assert_eq!(value(&mut script, "last-poll-seconds-ago", &[]), 3.0);
}
