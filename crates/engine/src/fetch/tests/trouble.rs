//! What goes wrong: what is raised, what is only told, and what goes on meanwhile.

use super::*;
use crate::change::Change;
use crate::cluster::Action;
use crate::error::Error;
use crate::fetch::answer::heals;

#[test]
fn a_partition_without_leader_raises_nothing() {
    let mut script = reader(&[], Start::Offset(0));
    script.topics = vec![("t", vec![1, -1])];
    let asked = script.pass(Duration::from_secs(70));
    assert_eq!(fetched(&asked), [(0, 0)]);
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    let error = script.engine.partition_delay("t", 1).unwrap();
    assert_eq!(error.code(), Some(ErrorCode::LEADER_NOT_AVAILABLE));
    assert_eq!(script.engine.partition_delay("t", 0), None);
    script.topics = vec![("t", vec![1, 2])];
    assert_eq!(fetched(&script.pass(Duration::from_secs(1))), [(1, 0)]);
}

#[test]
fn a_leader_that_moves_raises_nothing_and_is_told() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    told(&mut script);
    let code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    reply(&mut script, &asked[first], code, &[]);
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    let told = told(&mut script);
    assert!(
        told.iter()
            .any(|text| text.starts_with("retry in") && text.contains(code.name())),
        "{told:?}"
    );
    let error = script.engine.partition_delay("t", 0).unwrap();
    assert_eq!(error.code(), Some(code));
    assert_eq!(script.engine.partition_delay("t", 1), None);
}

#[test]
fn a_node_that_is_gone_raises_nothing_until_all_are() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let (first, second) = (to(&asked, &script, "b1"), to(&asked, &script, "b2"));
    script.dead.push("b1".to_owned());
    script.cut(asked[first].link);
    script.pass(Duration::from_secs(70));
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    let error = script.engine.partition_delay("t", 0).unwrap();
    assert_eq!(error.kind(), Kind::Unreachable);
    script.dead = ["b1", "b2", "boot"].map(str::to_owned).to_vec();
    let control = script.engine.core.cluster.any_link(script.now).unwrap();
    script.cut(asked[second].link);
    script.cut(control);
    script.pass(Duration::from_secs(5));
    let error = script.engine.delay().unwrap();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.message().contains("connection refused"), "{error}");
}

#[test]
fn a_node_that_refuses_the_client_is_told_to_a_poll_without_records() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    script.refusal = Some(Error::new(Kind::Authentication, "who is alice?"));
    script.refusing = vec!["b1".to_owned()];
    script.cut(asked[first].link);
    script.pass(Duration::from_secs(5));
    assert_eq!(script.engine.stuck(), None);
    let error = script.engine.delay().unwrap();
    assert_eq!(
        (error.kind(), error.partition()),
        (Kind::Authentication, Some(0))
    );
    assert!(error.message().contains("who is alice?"), "{error}");
    script.refusal = None;
    script.pass(Duration::from_secs(70));
    assert_eq!(script.engine.delay(), None);
}

#[test]
fn a_node_that_refuses_the_client_is_told_once_and_where_it_is_asked() {
    let mut script = reader(&[], Start::Beginning);
    script.refusal = Some(Error::new(Kind::Authentication, "who is alice?"));
    script.refusing = vec!["b1".to_owned()];
    while script.engine.poll_change().is_some() {}
    let asked = script.pass(Duration::from_secs(3));
    let changes: Vec<_> = std::iter::from_fn(|| script.engine.poll_change()).collect();
    assert!(
        changes.contains(&Change::Position),
        "who waits for it is woken"
    );
    // The other partition is read all the while.
    find(&mut script, &asked, 0);
    let asked = script.pass(Duration::from_secs(1));
    let second = to(&asked, &script, "b2");
    reply(&mut script, &asked[second], ErrorCode::NONE, &[batch(0, 2)]);
    assert_eq!(script.engine.stuck(), None);
    assert!(script.engine.take(script.now).is_some());
    assert_eq!(script.engine.position("t", 1), Ok(Some(0)));
    for error in [
        script.engine.position("t", 0).unwrap_err(),
        script.engine.partition_delay("t", 0).unwrap(),
    ] {
        assert_eq!(
            (error.kind(), error.broker(), error.partition()),
            (Kind::Authentication, Some("b1:9092"), Some(0))
        );
        assert!(error.message().contains("who is alice?"), "{error}");
    }
    script.pass(Duration::from_secs(60));
    let told = told(&mut script);
    let refused = told.iter().filter(|text| {
        text.starts_with("broker 1 (b1:9092) and this client do not accept each other")
    });
    assert_eq!(refused.count(), 1, "{told:?}");
    script.refusal = None;
    let asked = script.pass(Duration::from_secs(3));
    find(&mut script, &asked, 5);
    assert_eq!(script.engine.position("t", 0), Ok(Some(5)));
    assert_eq!(script.engine.delay(), None);
}

#[test]
fn a_paused_partition_of_a_node_that_refuses_hides_no_silence() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    script.refusal = Some(Error::new(Kind::Authentication, "who is alice?"));
    script.refusing = vec!["b1".to_owned()];
    script.cut(asked[first].link);
    script.pass(Duration::from_secs(5));
    assert!(script.engine.delay().is_some());
    script.engine.set_paused(script.now, "t", 0, true).unwrap();
    assert_eq!(script.engine.delay(), None);
}

#[test]
fn leaders_are_asked_for_ever_more_rarely_and_at_once_for_another_partition() {
    let mut script = reader(
        &[
            ("retry.backoff.max.ms", "8000"),
            ("fetch.max.wait.ms", "60000"),
        ],
        Start::Offset(0),
    );
    script.topics = vec![("t", vec![1, -1])];
    let asked = script.pass(Duration::from_secs(1));
    script.metadata_asked.clear();
    script.pass(Duration::from_secs(20));
    let times = script.metadata_asked.len();
    assert!((2..=10).contains(&times), "{times} times in 20 s");
    // Another partition loses its leader for a moment, as any does that moves.
    script.topics = vec![("t", vec![-1, -1])];
    let first = to(&asked, &script, "b1");
    reply(
        &mut script,
        &asked[first],
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        &[],
    );
    script.pass(Duration::from_millis(300));
    assert_eq!(
        script.engine.partition_delay("t", 0).unwrap().code(),
        Some(ErrorCode::LEADER_NOT_AVAILABLE)
    );
    script.topics = vec![("t", vec![2, -1])];
    let asked = script.pass(Duration::from_millis(500));
    assert_eq!(fetched(&asked), [(0, 0)]);
}

#[test]
fn a_pause_before_a_broken_batch_does_not_withhold_what_stands_before_it() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 3)]);
    let asked = script.run();
    let broken = Bytes::from(vec![0xff; 100]);
    reply(&mut script, &asked[0], ErrorCode::NONE, &[broken]);
    for paused in [true, false] {
        script
            .engine
            .set_paused(script.now, "t", 0, paused)
            .unwrap();
    }
    assert_eq!(script.engine.stuck(), None);
    let asked = script.run();
    assert_eq!(fetched(&asked), [(0, 0)]);
    reply(&mut script, &asked[0], ErrorCode::NONE, &[batch(0, 3)]);
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 3));
    // With nothing before it, a pause changes nothing.
    let asked = script.run();
    let broken = Bytes::from(vec![0xff; 100]);
    reply(&mut script, &asked[0], ErrorCode::NONE, &[broken]);
    for paused in [true, false] {
        script
            .engine
            .set_paused(script.now, "t", 0, paused)
            .unwrap();
        assert_eq!(script.engine.stuck().is_none(), paused);
    }
    let told = told(&mut script);
    let stuck = told
        .iter()
        .filter(|text| text.starts_with("t-0 cannot be read until a seek"));
    assert_eq!(stuck.count(), 2, "once each time: {told:?}");
}

#[test]
fn a_lane_that_is_up_is_used_while_another_is_not() {
    let mut script = reader(&[], Start::Offset(0));
    script.topics = vec![("t", vec![1, 1])];
    let asked = script.run();
    assert_eq!(fetched(&asked), [(0, 0), (1, 0)]);
    script
        .engine
        .seek(script.now, "t", 0, Start::Offset(50))
        .unwrap();
    let second = script.run();
    assert_eq!(fetched(&second), [(0, 50)]);
    assert_ne!(second[0].link, asked[0].link);
    reply(&mut script, &second[0], ErrorCode::NONE, &[batch(50, 1)]);
    let second = script.run();
    script.engine.set_paused(script.now, "t", 0, true).unwrap();
    reply(&mut script, &second[0], ErrorCode::NONE, &[]);
    assert!(script.run().is_empty(), "nothing to ask for");
    script.cut(asked[0].link);
    let mut actions = Vec::new();
    for _ in 0..20 {
        script.now += Duration::from_millis(50);
        script.engine.handle_timeout(script.now);
        actions.extend(std::iter::from_fn(|| script.engine.poll_action()));
    }
    assert!(
        actions.contains(&Action::Wake(second[0].link)),
        "{actions:?}"
    );
    assert_eq!(fetched(&script.run()), [(1, 0)]);
}

#[test]
fn what_a_seek_drops_makes_room() {
    let mut script = reader(&[("prefetch.max.bytes", "200")], Start::Offset(0));
    for offset in [10, 20, 30] {
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(
            &mut script,
            &asked[first],
            ErrorCode::NONE,
            &[batch(offset - 10, 10)],
        );
        assert!(script.run().is_empty(), "enough is buffered");
        script
            .engine
            .seek(script.now, "t", 0, Start::Offset(offset))
            .unwrap();
    }
    assert_eq!(fetched(&script.run()), [(0, 30)]);
}

#[test]
fn an_offset_reset_is_told_with_both_offsets() {
    let mut script = reader(&[("auto.offset.reset", "earliest")], Start::Offset(5));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(
        &mut script,
        &asked[first],
        ErrorCode::OFFSET_OUT_OF_RANGE,
        &[],
    );
    assert_eq!(script.engine.stuck(), None);
    let asked = script.pass(Duration::from_secs(1));
    find(&mut script, &asked, 42);
    assert!(
        told(&mut script)
            .contains(&"offset of t-0 was reset from 5 to 42: it is not in the log".to_owned())
    );
}

#[test]
fn a_broken_connection_is_told_once_for_all_its_partitions() {
    let mut script = reader(&[], Start::Offset(0));
    script.topics = vec![("t", vec![1, 1])];
    let asked = script.run();
    told(&mut script);
    script.cut(asked[0].link);
    let told = told(&mut script);
    let retries = told.iter().filter(|text| text.starts_with("retry in"));
    assert_eq!(retries.count(), 1, "{told:?}");
    assert_eq!(
        fetched(&script.pass(Duration::from_secs(1))),
        [(0, 0), (1, 0)]
    );
}

#[test]
fn a_consumer_that_closes_has_no_trouble_to_tell() {
    for start in [Start::Offset(0), Start::Beginning] {
        let mut script = reader(&[], start);
        assert!(!script.run().is_empty());
        told(&mut script);
        let cause = closed_error();
        script.engine.close(script.now, &cause);
        let told = told(&mut script);
        let trouble = told
            .iter()
            .filter(|text| text.contains("retry") || text.contains("seek"));
        assert_eq!(trouble.count(), 0, "{told:?}");
    }
}

#[test]
fn a_consumer_that_closes_during_a_lookup_dials_nobody() {
    let mut script = reader(&[("prefetch.max.bytes", "200")], Start::Offset(0));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(0, 10)]);
    let now = script.now;
    script.engine.seek(now, "t", 1, Start::Beginning).unwrap();
    assert_eq!(searched(&script.run()), [(1, EARLIEST)]);
    script.engine.close(now, &closed_error());
    let actions: Vec<_> = std::iter::from_fn(|| script.engine.poll_action()).collect();
    let is_dial = |action: &Action| matches!(action, Action::Dial(..));
    assert!(!actions.iter().any(is_dial), "{actions:?}");
}

#[test]
fn the_end_of_a_call_is_no_end_for_a_partition() {
    let gone = Error::from_code(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None);
    assert!(heals(&gone.retriable_is(false)));
    let refused = Error::from_code(ErrorCode::TOPIC_AUTHORIZATION_FAILED, None);
    assert!(!heals(&refused));
}
