//! Fetch sessions: what requests leave out, what responses leave out, and how both begin again.

use ottla_protocol::ApiKey;
use ottla_protocol::messages::ApiVersionsResponse;
use ottla_protocol::messages::FetchRequest;
use ottla_protocol::messages::api_versions_response::ApiVersion;

use super::*;
use crate::api::{HIGHEST, Versions};
use crate::observe::Observed;

const SESSION: i32 = 77;
const NEW: (i32, i32) = (0, 0);

/// A reader of three partitions of one broker, at offset 10.
fn of_three(pairs: &[(&'static str, &'static str)]) -> Reader {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
    script.topics = vec![("t", vec![1; 3])];
    let all = (0..3).map(|number| ("t".into(), number, Start::Offset(10)));
    script.engine.assign(script.now, all).unwrap();
    script
}

/// The same, once its session goes on, and the request under way.
fn going_on() -> (Reader, Asked) {
    let mut script = of_three(&[]);
    let first = one(script.run());
    assert_eq!(session(&first), NEW);
    assert_eq!(wanted(&first), [(0, 10), (1, 10), (2, 10)]);
    tell(
        &mut script,
        &first,
        SESSION,
        &[(0, &[]), (1, &[]), (2, &[])],
    );
    let asked = one(script.run());
    assert_eq!(session(&asked), (SESSION, 1));
    assert_eq!((wanted(&asked), forgotten(&asked)), (vec![], vec![]));
    (script, asked)
}

fn one(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

fn request(asked: &Asked) -> &FetchRequest {
    let Request::Fetch(request) = &asked.request else {
        panic!("not a Fetch: {asked:?}")
    };
    request
}

/// The session's id and epoch.
fn session(asked: &Asked) -> (i32, i32) {
    let request = request(asked);
    (request.session_id, request.session_epoch)
}

fn forgotten(asked: &Asked) -> Vec<i32> {
    let topics = &request(asked).forgotten_topics_data;
    let rows = topics.iter().flat_map(|topic| &*topic.partitions);
    rows.copied().collect()
}

/// A response with these partitions' records.
fn told_of(rows: &[(i32, &[Bytes])]) -> FetchResponse {
    let rows = rows.iter().map(|(partition_index, records)| PartitionData {
        partition_index: *partition_index,
        high_watermark: 10,
        records: Some(records.concat().into()),
        ..Default::default()
    });
    let topic = FetchableTopicResponse {
        topic: "t".into(),
        partitions: rows.collect(),
        ..Default::default()
    };
    FetchResponse {
        responses: vec![topic],
        ..Default::default()
    }
}

fn tell(script: &mut Reader, asked: &Asked, session_id: i32, rows: &[(i32, &[Bytes])]) {
    let answer = told_of(rows);
    let answer = FetchResponse {
        session_id,
        ..answer
    };
    script.answer(asked, Response::Fetch(answer));
}

/// A response without a row.
fn say_nothing(script: &mut Reader, asked: &Asked, answer: FetchResponse) {
    script.answer(asked, Response::Fetch(answer));
}

fn refuse(script: &mut Reader, asked: &Asked, code: ErrorCode) {
    let answer = FetchResponse {
        error_code: code.0,
        ..Default::default()
    };
    say_nothing(script, asked, answer);
}

fn retries(script: &mut Reader) -> usize {
    let observer = script.engine.observer();
    let events = std::iter::from_fn(|| observer.poll());
    events
        .filter(|event| matches!(event, Observed::Retried { .. }))
        .count()
}

fn positions(script: &Reader) -> Vec<Option<i64>> {
    script.engine.positions().map(|row| row.2).collect()
}

#[test]
fn what_is_left_out_has_nothing_new_and_is_asked_for_still() {
    let (mut script, mut asked) = going_on();
    for epoch in 2..5 {
        let nothing = FetchResponse {
            session_id: SESSION,
            ..Default::default()
        };
        say_nothing(&mut script, &asked, nothing);
        asked = one(script.run());
        assert_eq!(session(&asked), (SESSION, epoch), "at once");
        assert_eq!((wanted(&asked), forgotten(&asked)), (vec![], vec![]));
    }
    assert_eq!(retries(&mut script), 0);
    assert_eq!(script.engine.partition_delay("t", 0), None);
    // One of them has news, twice; the others stay.
    for offset in [10, 13] {
        tell(&mut script, &asked, SESSION, &[(1, &[batch(offset, 3)])]);
        asked = one(script.run());
        assert_eq!(wanted(&asked), [(1, offset + 3)]);
        assert!(forgotten(&asked).is_empty());
    }
    assert_eq!(script.engine.take(script.now).unwrap().fetched.partition, 1);
}

#[test]
fn what_is_not_asked_for_now_is_forgotten_and_comes_back() {
    let (mut script, asked) = going_on();
    let now = script.now;
    script.engine.set_paused(now, "t", 1, true).unwrap();
    // It comes after the pause has begun.
    tell(&mut script, &asked, SESSION, &[(1, &[batch(10, 3)])]);
    assert!(script.engine.take(now).is_none());
    let asked = one(script.run());
    assert_eq!((wanted(&asked), forgotten(&asked)), (vec![], vec![1]));
    script.engine.set_paused(now, "t", 1, false).unwrap();
    let other = one(script.run());
    assert_eq!(session(&other), NEW, "the other lane has its own");
    assert_eq!(wanted(&other), [(1, 10)]);
    tell(&mut script, &asked, SESSION, &[]);
    let asked = one(script.run());
    assert_eq!((wanted(&asked), forgotten(&asked)), (vec![], vec![]));
    tell(&mut script, &other, SESSION + 1, &[(1, &[batch(10, 3)])]);
    let other = one(script.run());
    assert_eq!(session(&other), (SESSION + 1, 1));
    assert_eq!(wanted(&other), [(1, 13)]);
    // Both are free: the first one takes all.
    script.engine.seek(now, "t", 1, Start::Offset(40)).unwrap();
    tell(&mut script, &asked, SESSION, &[]);
    let asked = one(script.run());
    assert_eq!(wanted(&asked), [(1, 40)]);
    assert!(forgotten(&asked).is_empty());
}

#[test]
fn nothing_is_asked_for_while_enough_waits_and_all_goes_on_after_it() {
    let mut script = of_three(&[("prefetch.max.bytes", "400")]);
    let first = one(script.run());
    let full = batch(10, 20);
    assert!(full.len() > 200);
    tell(
        &mut script,
        &first,
        SESSION,
        &[(0, &[full]), (1, &[]), (2, &[])],
    );
    assert!(script.run().is_empty());
    script.engine.take(script.now).unwrap();
    let asked = one(script.run());
    assert_eq!(session(&asked), (SESSION, 1));
    assert_eq!((wanted(&asked), forgotten(&asked)), (vec![(0, 30)], vec![]));
}

#[test]
fn a_topic_made_anew_is_forgotten_by_its_old_id() {
    let mut script = of_three(&[("metadata.max.age.ms", "1000")]);
    script.topic_id = Some(5);
    let first = one(script.run());
    tell(
        &mut script,
        &first,
        SESSION,
        &[(0, &[]), (1, &[]), (2, &[])],
    );
    let asked = one(script.run());
    script.topic_id = Some(6);
    let searches = script.pass(Duration::from_millis(1100));
    tell(&mut script, &asked, SESSION, &[]);
    find(&mut script, &searches, 0);
    let asked = one(script.run());
    assert_eq!(session(&asked), (SESSION, 2));
    let (new, old) = (
        &request(&asked).topics,
        &request(&asked).forgotten_topics_data,
    );
    assert_eq!(new[0].topic_id.0, [6; 16]);
    assert_eq!(old[0].topic_id.0, [5; 16]);
    assert_eq!(
        wanted(&asked),
        [(0, 0), (1, 0)],
        "the other lane has the rest"
    );
    assert_eq!(forgotten(&asked), [0, 1, 2]);
}

#[test]
fn a_broker_without_room_is_told_all_each_time() {
    let mut script = of_three(&[]);
    for _ in 0..3 {
        let asked = one(script.run());
        assert_eq!(session(&asked), NEW);
        assert_eq!(wanted(&asked), [(0, 10), (1, 10), (2, 10)]);
        tell(&mut script, &asked, 0, &[(0, &[]), (1, &[]), (2, &[])]);
    }
    // It is said to be missing in what is no session.
    let asked = one(script.run());
    tell(&mut script, &asked, 0, &[(0, &[]), (2, &[])]);
    assert_eq!(fetched(&script.run()), [(0, 10), (2, 10)]);
    assert_eq!(retries(&mut script), 1);
}

#[test]
fn a_session_that_the_broker_does_not_know_begins_anew_at_once() {
    for (code, id) in [
        (ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode::INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ] {
        let (mut script, asked) = going_on();
        refuse(&mut script, &asked, code);
        let asked = one(script.run());
        assert_eq!(session(&asked), (id, 0), "{code:?}");
        assert_eq!(wanted(&asked), [(0, 10), (1, 10), (2, 10)]);
        assert_eq!(retries(&mut script), 0);
        // What refuses to begin one is trouble, and asked again after a pause.
        refuse(&mut script, &asked, code);
        assert!(script.run().is_empty());
        assert_eq!(retries(&mut script), 1);
        let asked = script.pass(Duration::from_secs(2));
        assert_eq!(session(&asked[0]).1, 0);
        assert!(!wanted(&asked[0]).is_empty());
    }
}

#[test]
fn a_session_begins_anew_after_a_disconnect_or_an_error() {
    let (mut script, asked) = going_on();
    script.cut(asked.link);
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(session(&asked[0]), (SESSION, 0), "the old one ends by that");
    assert!(
        !wanted(&asked[0]).is_empty(),
        "each after a pause of its own"
    );

    let (mut script, asked) = going_on();
    refuse(&mut script, &asked, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(retries(&mut script), 1);
    let error = script.engine.partition_delay("t", 2).unwrap();
    assert_eq!(error.code(), Some(ErrorCode::KAFKA_STORAGE_ERROR));
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(session(&asked[0]), (SESSION, 0));
    assert!(!wanted(&asked[0]).is_empty());
}

#[test]
fn an_answer_that_is_out_of_step_counts_for_nothing() {
    let records: &[Bytes] = &[batch(10, 3)];
    for (id, rows) in [
        (SESSION + 1, &[(0, records)][..]),
        (SESSION, &[(0, records), (7, records)]),
    ] {
        let (mut script, asked) = going_on();
        tell(&mut script, &asked, id, rows);
        assert!(script.engine.take(script.now).is_none());
        let asked = one(script.run());
        assert_eq!(session(&asked), (SESSION, 0));
        assert_eq!(wanted(&asked), [(0, 10), (1, 10), (2, 10)]);
        assert_eq!(retries(&mut script), 0);
    }
    // The broker ended it, which is no reason to drop what it gave.
    let (mut script, asked) = going_on();
    tell(&mut script, &asked, 0, &[(0, records)]);
    assert_eq!(script.engine.take(script.now).unwrap().fetched.partition, 0);
    let asked = one(script.run());
    assert_eq!(session(&asked), NEW);
    assert_eq!(wanted(&asked), [(0, 13), (1, 10), (2, 10)]);
}

#[test]
fn a_broker_that_throttles_tells_nothing() {
    let throttled = |session_id| FetchResponse {
        session_id,
        throttle_time_ms: 700,
        ..Default::default()
    };
    let (mut script, asked) = going_on();
    say_nothing(&mut script, &asked, throttled(SESSION));
    assert!(script.run().is_empty(), "not before the pause is over");
    let asked = one(script.pass(Duration::from_millis(701)));
    assert_eq!(session(&asked), (SESSION, 2));
    assert_eq!(wanted(&asked), []);

    let mut script = of_three(&[]);
    let asked = one(script.run());
    say_nothing(&mut script, &asked, throttled(0));
    let asked = one(script.pass(Duration::from_millis(701)));
    assert_eq!(session(&asked), NEW);
    assert_eq!(wanted(&asked), [(0, 10), (1, 10), (2, 10)]);
    assert_eq!(retries(&mut script), 0);
    assert_eq!(positions(&script), [Some(10); 3]);
}

#[test]
fn what_was_told_of_a_log_holds_for_whoever_reads_it_next() {
    let (mut script, asked) = going_on();
    let mut answer = told_of(&[(1, &[])]);
    answer.responses[0].partitions[0].high_watermark = 30;
    answer.session_id = SESSION;
    script.answer(&asked, Response::Fetch(answer));
    let asked = one(script.run());
    assert_eq!(end_of(&script, 1), 30);
    // The partition was assigned again meanwhile, and nothing is known of it. The broker reports
    // the partition's end only when it moves on.
    let wanted = [("t".into(), 1, Start::Offset(12))];
    script.engine.assign(script.now, wanted).unwrap();
    let other = one(script.run());
    assert_eq!(end_of(&script, 1), -1);
    tell(&mut script, &asked, SESSION, &[]);
    tell(&mut script, &other, 0, &[]);
    let asked = one(script.pass(Duration::from_secs(2)));
    assert_eq!(session(&asked), (SESSION, 3));
    assert_eq!(forgotten(&asked), [0, 2]);
    tell(&mut script, &asked, SESSION, &[]);
    assert_eq!(end_of(&script, 1), 30);
}

/// The end of a partition's log, as far as it is known.
fn end_of(script: &Reader, partition: i32) -> i64 {
    let assignment = &script.engine.client.fetcher.assignment;
    assignment.get("t", partition).unwrap().bounds.1
}

/// Brokers that speak Fetch up to this version.
fn speaking(fetch: i16) -> Versions {
    let rows = HIGHEST
        .iter()
        .filter(|(api, _)| *api != ApiKey::GetTelemetrySubscriptions);
    let rows = rows.map(|&(api, highest)| ApiVersion {
        api_key: api.as_i16(),
        max_version: match api {
            ApiKey::Fetch => fetch,
            _ => highest,
        },
        ..Default::default()
    });
    Versions::new(&ApiVersionsResponse {
        api_keys: rows.collect(),
        ..Default::default()
    })
}

#[test]
fn another_release_of_a_broker_begins_another_session_or_none() {
    for (first, then, anew) in [
        (17, 12, Some((SESSION, 0))),
        (12, 13, Some((SESSION, 0))),
        (12, 6, None),
    ] {
        let mut script = of_three(&[]);
        script.topic_id = Some(5);
        script.versions = speaking(first);
        let asked = one(script.run());
        tell(
            &mut script,
            &asked,
            SESSION,
            &[(0, &[]), (1, &[]), (2, &[])],
        );
        let asked = one(script.run());
        assert_eq!((asked.version, session(&asked)), (first, (SESSION, 1)));
        script.versions = speaking(then);
        script.cut(asked.link);
        let asked = script.pass(Duration::from_secs(2));
        assert_eq!(asked[0].version, then);
        assert_eq!(session(&asked[0]), anew.unwrap_or((0, -1)));
        assert!(!wanted(&asked[0]).is_empty());
    }
}
