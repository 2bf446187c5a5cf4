//! Producers and brokers before 1.0, which know less: message sets, no headers, no idempotence, one batch remembered.

use ottla_protocol::ApiKey;
use ottla_protocol::messages::ApiVersionsResponse;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::records::entries;

use super::*;
use crate::api::Versions;
use crate::release::Era;

/// What brokers of these releases speak, as far as a producer cares.
fn speaking(produce: i16, has_ids: bool) -> Versions {
    let mut rows = vec![
        (ApiKey::ApiVersions, 0),
        (ApiKey::Metadata, 2),
        (ApiKey::Produce, produce),
    ];
    if has_ids {
        rows.push((ApiKey::InitProducerId, 0));
    }
    let api_keys = rows.into_iter().map(|(api, max_version)| ApiVersion {
        api_key: api.as_i16(),
        max_version,
        ..Default::default()
    });
    Versions::new(&ApiVersionsResponse {
        api_keys: api_keys.collect(),
        ..Default::default()
    })
}

fn at(versions: Versions, pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut script = Script::new(Engine::producer(config(Role::Producer, pairs), 7));
    script.versions = versions;
    script.engine.want_topic(script.now, "t");
    script.run();
    assert!(script.engine.knows_topic("t"));
    script
}

fn told(script: &mut Sender) -> Vec<String> {
    let observer = script.engine.observer();
    std::iter::from_fn(|| observer.poll())
        .map(|event| event.to_string())
        .collect()
}

/// Magic and values of the entries of a request's only partition.
fn written(asked: &Asked) -> Vec<(i8, Vec<Vec<u8>>)> {
    let Request::Produce(request) = &asked.request else {
        panic!("not a Produce")
    };
    let records = request.topic_data[0].partition_data[0].records.clone();
    entries(records.unwrap())
        .map(|entry| {
            let entry = entry.unwrap();
            entry.verify_crc().unwrap();
            let payload = entry.payload(1 << 20).unwrap();
            let records = entry.records(&payload).unwrap();
            let values = records.map(|record| record.unwrap().value.unwrap().to_vec());
            (entry.magic(), values.collect())
        })
        .collect()
}

fn try_with_header(script: &mut Sender, partition: i32) -> Result<(), NotAppended> {
    let now = script.now;
    let headers = [("trace", Some(&b"1"[..]))].into_iter();
    let row = Row {
        partition: Some(partition),
        timestamp_ms: None,
        key: None,
        value: Some(b"h"),
        headers,
    };
    let make = |_: &Arc<str>, partition| partition;
    script.engine.append(|| now, "t", &row, 1, make).map(|_| ())
}

#[test]
fn records_are_written_as_the_broker_takes_them() {
    for (versions, magic, compressed) in [
        (Versions::of(Era::V0_8), 0, false),
        (Versions::of(Era::V0_9), 0, true),
        (speaking(2, false), 1, false),
        (speaking(2, false), 1, true),
    ] {
        let codec = if compressed { "gzip" } else { "none" };
        let mut script = at(versions, &[("compression.type", codec), ("linger.ms", "5")]);
        send(&mut script, 0, "a");
        send(&mut script, 0, "b");
        let asked = one(script.pass(Duration::from_millis(10)));
        let (a, b) = (b"a".to_vec(), b"b".to_vec());
        let wanted = if compressed {
            vec![(magic, vec![a, b])]
        } else {
            vec![(magic, vec![a]), (magic, vec![b])]
        };
        assert_eq!(written(&asked), wanted);
        reply(&mut script, &asked, ErrorCode::NONE, 7);
        let done = std::iter::from_fn(|| script.engine.poll_done()).collect::<Vec<_>>();
        let stored = done[0].result.as_ref().unwrap();
        assert_eq!(stored.base_offset, 7);
        // Magic 0 has no timestamps.
        assert_eq!(stored.log_append_time_ms, (magic == 0).then_some(-1));
    }
}

#[test]
fn a_retry_keeps_its_records_when_the_new_leader_is_newer() {
    let mut script = at(Versions::of(Era::V0_9), &[("compression.type", "gzip")]);
    send(&mut script, 0, "a");
    let asked = one(script.pass(Duration::from_millis(10)));
    assert_eq!(written(&asked), [(0, vec![b"a".to_vec()])]);
    script.versions = speaking(3, true);
    script.cut(asked.link);
    let asked = one(script.pass(Duration::from_secs(5)));
    assert_eq!(written(&asked), [(2, vec![b"a".to_vec()])]);
}

#[test]
fn a_batch_that_is_too_large_is_split_here_too() {
    let mut script = at(speaking(2, false), &[("linger.ms", "5")]);
    for value in ["a", "b"] {
        send(&mut script, 0, value);
    }
    let asked = one(script.pass(Duration::from_millis(10)));
    reply(&mut script, &asked, ErrorCode::MESSAGE_TOO_LARGE, -1);
    for (value, offset) in [("a", 0), ("b", 1)] {
        let asked = one(script.pass(Duration::from_secs(1)));
        assert_eq!(written(&asked), [(1, vec![value.as_bytes().to_vec()])]);
        reply(&mut script, &asked, ErrorCode::NONE, offset);
    }
}

#[test]
fn headers_are_refused_where_the_broker_cannot_keep_them() {
    for (versions, release) in [
        (Versions::of(Era::V0_8), "0.8"),
        (Versions::of(Era::V0_9), "0.9"),
        (speaking(2, false), "0.10.0"),
    ] {
        let mut script = at(versions, &[("linger.ms", "5")]);
        send(&mut script, 1, "plain");
        let Err(NotAppended::Failed(error)) = try_with_header(&mut script, 1) else {
            panic!("appended")
        };
        let wanted = format!(
            "a record with headers needs brokers of Kafka 0.11 or newer, and this one speaks as Kafka {release} does"
        );
        assert_eq!(
            (error.message(), error.kind()),
            (&*wanted, Kind::Unsupported)
        );
        assert_eq!((error.topic(), error.partition()), (Some("t"), Some(1)));
        assert!(error.broker().is_some());
        assert_eq!(error.written(), Some(Written::No));
        // The others go on.
        let asked = one(script.pass(Duration::from_millis(10)));
        assert_eq!(written(&asked)[0].1, [b"plain".to_vec()]);
    }
}

#[test]
fn a_batch_with_headers_fails_when_its_broker_turns_out_to_be_old() {
    let mut script = at(speaking(3, true), &[("linger.ms", "5")]);
    script.versions = speaking(2, false);
    try_with_header(&mut script, 0).unwrap();
    send(&mut script, 1, "plain");
    let asked = script.pass(Duration::from_millis(50));
    let values: Vec<_> = asked.iter().flat_map(written).collect();
    assert_eq!(values, [(1, vec![b"plain".to_vec()])]);
    let failed = fates(&mut script);
    let error = failed[0].3.as_ref().unwrap_err();
    assert!(error.message().contains("a record with headers"), "{error}");
    assert_eq!((error.topic(), error.partition()), (Some("t"), Some(0)));
}

#[test]
fn idempotence_by_default_gives_way_and_says_so() {
    let mut script = at(speaking(2, false), &[]);
    told(&mut script);
    send(&mut script, 0, "a");
    let first = one(script.pass(Duration::from_millis(10)));
    let said = told(&mut script);
    let off = said
        .iter()
        .filter(|text| text.starts_with("idempotence is off"));
    assert_eq!(off.count(), 1, "{said:?}");
    // Order is kept: the next records wait for the response.
    send(&mut script, 0, "b");
    send(&mut script, 1, "c");
    let other = one(script.pass(Duration::from_millis(10)));
    assert_eq!(
        written(&other)[0].1,
        [b"c".to_vec()],
        "other partitions go on"
    );
    reply(&mut script, &first, ErrorCode::NONE, 0);
    let second = one(script.pass(Duration::from_millis(10)));
    assert_eq!(written(&second)[0].1, [b"b".to_vec()]);
    assert!(
        !told(&mut script)
            .iter()
            .any(|text| text.contains("idempotence"))
    );
}

#[test]
fn idempotence_that_one_leader_lacks_gives_way_and_says_so() {
    let mut script = at(speaking(3, true), &[]);
    send(&mut script, 0, "a");
    let first = one(script.pass(Duration::from_millis(10)));
    assert_eq!(written(&first)[0].0, 2);
    told(&mut script);
    // Its broker is replaced by an older one before it has responded.
    script.versions = speaking(2, false);
    script.cut(first.link);
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(written(&again)[0].0, 1);
    let said = told(&mut script);
    let off: Vec<_> = said
        .iter()
        .filter(|text| text.starts_with("idempotence is off"))
        .collect();
    assert_eq!(off.len(), 1, "{said:?}");
    assert!(
        off[0].contains("idempotence needs brokers of Kafka 0.11"),
        "{off:?}"
    );
    reply(&mut script, &again, ErrorCode::NONE, 0);
    send(&mut script, 0, "b");
    one(script.pass(Duration::from_millis(10)));
    assert!(
        !told(&mut script)
            .iter()
            .any(|text| text.contains("idempotence"))
    );
}

#[test]
fn idempotence_that_was_asked_for_is_an_error() {
    let mut script = at(speaking(2, false), &[("enable.idempotence", "true")]);
    send(&mut script, 0, "a");
    assert!(script.pass(Duration::from_millis(10)).is_empty());
    let failed = fates(&mut script);
    let error = failed[0].3.as_ref().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(
        error.message(),
        "enable.idempotence=true, and the broker gives no producer id: InitProducerId needs brokers of Kafka 0.11 or newer, \
         and this one speaks as Kafka 0.10.0 does"
    );
    // When the brokers are asked again, the error is known at once: a record is refused, and has no
    // delivery result besides that.
    script.pass(Duration::from_secs(2));
    match try_send(&mut script, 0, "b") {
        Err(NotAppended::Failed(error)) => assert_eq!(error.kind(), Kind::Unsupported),
        other => panic!("{other:?}"),
    }
    assert!(fates(&mut script).is_empty());
    assert_eq!(script.engine.buffered_bytes(), 0);
}

#[test]
fn a_broker_that_remembers_one_batch_gets_one_at_a_time() {
    for (produce, most) in [(3, 1), (4, 1), (5, 2)] {
        let mut script = at(speaking(produce, true), &[("linger.ms", "0")]);
        send(&mut script, 0, "0");
        let first = one(script.pass(Duration::from_millis(10)));
        reply(&mut script, &first, ErrorCode::NONE, 0);
        send(&mut script, 0, "1");
        let mut asked = script.run();
        send(&mut script, 0, "2");
        asked.extend(script.pass(Duration::from_millis(10)));
        assert_eq!(asked.len(), most, "Produce {produce}");
    }
}

/// It went to a leader that remembers five, with another behind it. The next one may have both, and know the last one only.
#[test]
fn who_remembers_one_batch_does_not_prove_that_the_one_before_is_unwritten() {
    let moved = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    for behind in [Some(moved), Some(ErrorCode::NONE), None] {
        let mut script = at(speaking(5, true), &[("linger.ms", "0")]);
        send(&mut script, 0, "0");
        let first = one(script.pass(Duration::from_millis(10)));
        reply(&mut script, &first, ErrorCode::NONE, 0);
        send(&mut script, 0, "1");
        let mut asked = script.run();
        if behind.is_some() {
            send(&mut script, 0, "2");
            asked.extend(script.pass(Duration::from_millis(10)));
        }
        script.versions = speaking(4, true);
        script.nodes = 3;
        script.topics = vec![("t", vec![3, 3])];
        reply(&mut script, &asked[0], moved, -1);
        if let Some(code) = behind {
            reply(&mut script, &asked[1], code, 2);
        }
        let again = one(script.pass(Duration::from_secs(3)));
        assert_eq!(script.address(again.link), "b3");
        assert_eq!(seen(&again), seen(&asked[0]));
        let code = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let rest = deny(&mut script, again, code, Duration::from_secs(3));
        let told = fates(&mut script).split_off(1);
        let unknown = |result: &Result<i64, Error>| {
            let error = result.as_ref().err();
            error.is_some_and(|error| error.written() == Some(Written::Unknown))
        };
        let unknown = told.iter().filter(|told| unknown(&told.3)).count();
        let expected = match behind {
            Some(ErrorCode::NONE) => (2, 1, 0),
            Some(_) => (2, 2, 0),
            // It would be the last one, and known again: it is not written, and goes out under other numbers.
            None => (0, 0, 1),
        };
        assert_eq!((told.len(), unknown, rest.len()), expected, "{behind:?}");
    }
}

#[test]
fn zstd_names_the_release_that_it_needs() {
    let mut script = at(speaking(6, true), &[("compression.type", "zstd")]);
    send(&mut script, 0, "a");
    script.pass(Duration::from_millis(10));
    let failed = fates(&mut script);
    let error = failed[0].3.as_ref().unwrap_err();
    assert_eq!(
        error.message(),
        "compression.type=zstd needs brokers of Kafka 2.1 or newer, and this one speaks as Kafka 2.0 does"
    );
}
