//! Errors: which are raised, which are only reported, and what goes on meanwhile.

use super::*;
use crate::change::Change;
use crate::cluster::Action;
use crate::error::Error;
use crate::fetch::answer::heals;
use crate::observe::Level;

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
fn a_damaged_partition_stops_only_itself_and_is_raised_in_turn() {
    let mut script = reader(&[], Start::Offset(0));
    let asked = script.run();
    for address in ["b1", "b2"] {
        let one = to(&asked, &script, address);
        reply(&mut script, &asked[one], ErrorCode::NONE, &[batch(0, 3)]);
    }
    script.run();
    let reject = |script: &mut Reader| {
        let Taken {
            generation,
            fetched,
        } = script.engine.take(script.now).unwrap();
        let error = fetched.name_in(fetched.corrupt("bad sum"));
        let damage = error.damage().unwrap();
        assert_eq!((damage.offset, damage.next_offset), (0, Some(3)));
        assert_eq!(damage.data, fetched.records);
        let partition = fetched.partition;
        let engine = &mut script.engine;
        engine.reject("t", partition, generation, 0, error);
        partition
    };
    let raise = |script: &mut Reader| {
        let error = script.engine.obstacle().cloned()?;
        script.engine.note_raised(&error);
        error.partition()
    };
    let damaged = reject(&mut script);
    assert_eq!(raise(&mut script), Some(damaged));
    assert_eq!(raise(&mut script), None, "the other one can be read");
    let late = script.engine.delay().unwrap();
    assert_eq!(
        (late.kind(), late.partition()),
        (Kind::Corrupt, Some(damaged))
    );
    // Once both are damaged, none hides the other.
    let other = reject(&mut script);
    let raised: Vec<_> = (0..4).map(|_| raise(&mut script).unwrap()).collect();
    assert_eq!(raised[0], other);
    assert!(raised[1..].contains(&damaged) && raised[1..].contains(&other));
    // A pause is no way past it, and a seek is.
    script
        .engine
        .set_paused(script.now, "t", other, true)
        .unwrap();
    assert_eq!(raise(&mut script), Some(damaged));
    for partition in [damaged, other] {
        let to = Start::Offset(3);
        script.engine.seek(script.now, "t", partition, to).unwrap();
    }
    assert_eq!((raise(&mut script), script.engine.delay()), (None, None));
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
fn an_outage_after_the_first_contact_raises_nothing() {
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
    warnings(&mut script);
    script.pass(Duration::from_secs(59));
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    for address in ["b1:9092", "b2:9092"] {
        // Two connections to each broker fail; `b1` was warned of before.
        let warnings = warnings_of(&mut script, address);
        assert!(warnings.len() <= 1, "{warnings:?}");
    }
    script.pass(Duration::from_secs(61));
    let again = warnings_of(&mut script, "b2:9092");
    assert_eq!(again.len(), 1, "one more after a minute: {again:?}");
    assert!(again[0].contains("connection refused"), "{again:?}");
    // The engine still reports why a position is not known.
    let error = script.engine.partition_delay("t", 0).unwrap();
    assert_eq!(error.kind(), Kind::Unreachable);
    script.dead.clear();
    let asked = script.pass(Duration::from_secs(5));
    assert_eq!(fetched(&asked), [(0, 0), (1, 0)]);
}

#[test]
fn brokers_that_were_never_reached_at_their_addresses_are_no_outage() {
    let mut script = reader(&[], Start::Offset(0));
    script.dead = ["b1", "b2"].map(str::to_owned).to_vec();
    script.pass(Duration::from_secs(5));
    let error = script.engine.delay().unwrap();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.message().contains("connection refused"), "{error}");
    assert!(!script.engine.is_starting());
}

/// Warnings since the last call.
fn warnings(script: &mut Reader) -> Vec<String> {
    let observer = script.engine.observer();
    std::iter::from_fn(|| observer.poll())
        .filter(|event| event.level() == Level::Warning)
        .map(|event| event.to_string())
        .collect()
}

fn warnings_of(script: &mut Reader, address: &str) -> Vec<String> {
    let warnings = warnings(script).into_iter();
    warnings.filter(|text| text.contains(address)).collect()
}

/// The codes of all errors, known or not.
fn codes() -> impl Iterator<Item = ErrorCode> {
    (-1..200).map(ErrorCode).filter(|code| code.is_error())
}

/// Raises what a poll would, as it would.
fn raised(script: &mut Reader) -> Option<ErrorCode> {
    let error = script.engine.obstacle().cloned()?;
    script.engine.note_raised(&error);
    error.code()
}

#[test]
fn each_error_of_a_fetch_is_retried_and_raised_at_most_once() {
    for code in codes().filter(|code| *code != ErrorCode::OFFSET_OUT_OF_RANGE) {
        let mut script = reader(&[], Start::Offset(5));
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(&mut script, &asked[first], code, &[]);
        let report = Some(code).filter(|code| !heals(&Error::from_code(*code, None)));
        assert_eq!(raised(&mut script), report, "{code:?}");
        let mut requests = 0;
        for _ in 0..40 {
            let asked = script.pass(Duration::from_millis(250));
            for fetch in asked
                .iter()
                .filter(|it| fetched(std::slice::from_ref(it)) == [(0, 5)])
            {
                requests += 1;
                reply(&mut script, fetch, code, &[]);
            }
            assert_eq!(raised(&mut script), None, "{code:?} again");
            assert_eq!(script.engine.delay(), None, "{code:?} again");
        }
        assert!((5..=25).contains(&requests), "{code:?}: {requests} in 10 s");
        // It is allowed again.
        let asked = script.pass(Duration::from_secs(2));
        let fetch = asked
            .iter()
            .find(|it| fetched(std::slice::from_ref(it)) == [(0, 5)]);
        let fetch = fetch.unwrap_or_else(|| panic!("{code:?} is not retried"));
        reply(&mut script, fetch, ErrorCode::NONE, &[batch(5, 2)]);
        let taken = script.engine.take(script.now);
        let generation = taken
            .unwrap_or_else(|| panic!("{code:?}: no records"))
            .generation;
        // Another denial is another report, after the records before it.
        let asked = script.run();
        let first = to(&asked, &script, "b1");
        reply(&mut script, &asked[first], code, &[]);
        assert_eq!(raised(&mut script), None, "{code:?}");
        assert!(script.engine.advance("t", 0, generation, 7));
        assert_eq!(raised(&mut script), report, "{code:?}");
    }
}

#[test]
fn each_error_of_a_lookup_is_retried_and_raised_at_most_once() {
    for code in codes() {
        let mut script = reader(&[], Start::Beginning);
        let mut raises = 0;
        let mut requests = 0;
        for _ in 0..40 {
            for it in script.pass(Duration::from_millis(250)) {
                if searched(std::slice::from_ref(&it)) == [(0, EARLIEST)] {
                    requests += 1;
                    reply_offsets(&mut script, &it, code, -1);
                }
            }
            raises += usize::from(raised(&mut script).is_some());
        }
        assert!(raises <= 1, "{code:?} was raised {raises} times");
        assert!((2..=60).contains(&requests), "{code:?}: {requests} in 10 s");
        let asked = script.pass(Duration::from_secs(2));
        find(&mut script, &asked, 7);
        assert_eq!(script.engine.position("t", 0), Ok(Some(7)), "{code:?}");
    }
}

#[test]
fn one_denial_is_one_report_for_all_partitions_of_a_topic() {
    let mut script = reader(&[], Start::Offset(5));
    let asked = script.run();
    for address in ["b1", "b2"] {
        let one = to(&asked, &script, address);
        let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        reply(&mut script, &asked[one], code, &[]);
    }
    let raises: Vec<_> = (0..4).filter_map(|_| raised(&mut script)).collect();
    assert_eq!(raises, [ErrorCode::TOPIC_AUTHORIZATION_FAILED]);
    let warnings = warnings(&mut script);
    assert!(
        warnings
            .iter()
            .any(|text| text.starts_with("t-0 cannot be read at the moment")),
        "{warnings:?}"
    );
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
    assert!(heals(&gone.with_retriable(false)));
    let refused = Error::from_code(ErrorCode::TOPIC_AUTHORIZATION_FAILED, None);
    assert!(!heals(&refused));
}
