//! A partition's leader and the client do not accept each other.

use super::*;
use crate::observe::Observed;

/// The leader of partition 0 refuses from now on, and nobody else does.
fn refuse(script: &mut Sender) {
    script.refusal = Some(Error::new(Kind::Authentication, "the password is wrong"));
    script.refusing = vec!["b1".to_owned()];
}

fn refusals_told(script: &mut Sender) -> Vec<(i32, Option<String>)> {
    let observer = script.engine.observer();
    let events = std::iter::from_fn(|| observer.poll());
    let refusals = events.filter_map(|event| match event {
        Observed::Refused { node, cause } => Some((node, cause.broker().map(str::to_owned))),
        _ => None,
    });
    refusals.collect()
}

#[test]
fn records_for_a_leader_that_refuses_fail_long_before_their_deadline() {
    let mut script = sender(&[("linger.ms", "0")]);
    refuse(&mut script);
    send(&mut script, 0, "refused");
    send(&mut script, 1, "taken");
    let asked = one(script.pass(Duration::from_secs(1)));
    assert_eq!(script.address(asked.link), "b2");
    reply(&mut script, &asked, ErrorCode::NONE, 7);
    let mut fates = fates(&mut script);
    fates.sort_by_key(|(partition, ..)| *partition);
    let [(0, 0, 1, Err(error)), (1, 0, 1, Ok(7))] = &fates[..] else {
        panic!("{fates:?}")
    };
    assert_eq!(
        (
            error.kind(),
            error.broker(),
            error.topic(),
            error.partition()
        ),
        (Kind::Authentication, Some("b1:9092"), Some("t"), Some(0))
    );
    assert_eq!(
        (error.written(), error.is_retriable()),
        (Some(Written::No), false)
    );
    assert!(error.message().contains("the password is wrong"), "{error}");
    assert_eq!(script.engine.buffered_bytes(), 0);
    // Reported once, however often the broker is asked again.
    script.pass(Duration::from_secs(10));
    send(&mut script, 0, "refused too");
    script.pass(Duration::from_secs(10));
    let told = refusals_told(&mut script);
    assert_eq!(told, [(1, Some("b1:9092".to_owned()))]);
}

#[test]
fn a_refusal_that_passes_loses_nothing() {
    let mut script = sender(&[("linger.ms", "0"), ("reconnect.backoff.max.ms", "1000")]);
    refuse(&mut script);
    send(&mut script, 0, "kept");
    script.run();
    // The second attempt.
    script.pass(Duration::from_millis(70));
    assert_eq!(script.dials.iter().filter(|host| *host == "b1").count(), 2);
    script.refusal = None;
    let asked = one(script.pass(Duration::from_secs(1)));
    reply(&mut script, &asked, ErrorCode::NONE, 3);
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(3))]);
    assert_eq!(refusals_told(&mut script), []);
}

#[test]
fn a_node_that_cannot_be_reached_is_waited_for_until_the_deadline() {
    let mut script = sender(&[("linger.ms", "0"), ("delivery.timeout.ms", "30000")]);
    script.dead = vec!["b1".to_owned()];
    send(&mut script, 0, "waits");
    script.pass(Duration::from_secs(29));
    assert_eq!(fates(&mut script), []);
    script.pass(Duration::from_secs(2));
    let fates = fates(&mut script);
    let [(0, 0, 1, Err(error))] = &fates[..] else {
        panic!("{fates:?}")
    };
    assert_eq!(
        (error.kind(), error.broker()),
        (Kind::Timeout, Some("b1:9092"))
    );
    assert_eq!(refusals_told(&mut script), []);
}

#[test]
fn a_refusal_from_before_a_record_proves_nothing_about_it() {
    let second = ("reconnect.backoff.ms", "1000");
    let mut script = sender(&[
        ("linger.ms", "0"),
        second,
        ("reconnect.backoff.max.ms", "60000"),
    ]);
    refuse(&mut script);
    send(&mut script, 0, "first");
    // Attempts at 0, about 1, 3 and 7 s.
    script.pass(Duration::from_secs(5));
    assert_eq!(fates(&mut script).len(), 1);
    send(&mut script, 0, "second");
    script.pass(Duration::from_millis(500));
    assert_eq!(fates(&mut script), []);
    script.refusal = None;
    let asked = one(script.pass(Duration::from_secs(10)));
    assert_eq!(values(&[asked]), [["second"]]);
}

#[test]
fn what_was_under_way_when_the_leader_began_to_refuse_may_have_been_written() {
    let mut script = established(&[("linger.ms", "0")]);
    send(&mut script, 0, "sent");
    let asked = one(script.run());
    refuse(&mut script);
    script.cut(asked.link);
    script.pass(Duration::from_secs(2));
    let fates = fates(&mut script);
    let [(0, 0, 1, Err(error))] = &fates[..] else {
        panic!("{fates:?}")
    };
    assert_eq!(error.kind(), Kind::Authentication);
    assert_eq!(error.written(), Some(Written::Unknown));
    // What is sent once the leader accepts the client again is numbered so that the broker takes it.
    script.refusal = None;
    send(&mut script, 0, "later");
    let asked = one(script.pass(Duration::from_secs(5)));
    assert_eq!(values(&[asked]), [["later"]]);
    assert_eq!(refusals_told(&mut script).len(), 1);
}

#[test]
fn a_partition_without_leader_is_asked_for_ever_more_rarely() {
    let mut script = sender(&[("linger.ms", "0"), ("retry.backoff.max.ms", "2000")]);
    script.topics = vec![("t", vec![-1, 2])];
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(1));
    send(&mut script, 0, "waits");
    script.metadata_asked.clear();
    script.pass(Duration::from_secs(60));
    let asked = script.metadata_asked.len();
    assert!((20..=50).contains(&asked), "{asked} times in 60 s");
    script.topics = vec![("t", vec![1, 2])];
    let asked = one(script.pass(Duration::from_millis(2500)));
    assert_eq!(values(&[asked]), [["waits"]]);
}
