//! Which topics are asked for, for how long, and which requests may create one.

use super::*;
use crate::observe::Observed;

const MINUTE: Duration = Duration::from_secs(60);

/// The topics of all requests for metadata since the last call, and whether any might have created one.
fn asked_for(script: &mut Sender) -> (Vec<String>, bool) {
    let asked = std::mem::take(&mut script.metadata_asked);
    let may_create = asked.iter().any(|(_, may_create)| *may_create);
    let mut names: Vec<_> = asked.into_iter().flat_map(|(names, _)| names).collect();
    names.sort_unstable();
    names.dedup();
    (names, may_create)
}

/// Make the producer request metadata, and return the requested topics.
fn refreshed(script: &mut Sender) -> Vec<String> {
    script.run();
    asked_for(script);
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(1));
    asked_for(script).0
}

fn send_one(script: &mut Sender) -> Vec<Seen> {
    send(script, 0, "v");
    let asked = one(script.pass(Duration::from_millis(5)));
    reply(script, &asked, ErrorCode::NONE, 0);
    seen(&asked)
}

#[test]
fn a_topic_that_nobody_waits_for_any_more_is_not_asked_for() {
    let mut script = sender(&[]);
    for name in ["nope", "nope", "also not"] {
        script.engine.want_topic(script.now, name);
    }
    assert_eq!(refreshed(&mut script), ["also not", "nope", "t"]);
    script.engine.give_up_topic("nope");
    script.engine.give_up_topic("also not");
    assert_eq!(refreshed(&mut script), ["nope", "t"]);
    script.engine.give_up_topic("nope");
    assert_eq!(refreshed(&mut script), ["t"]);
    let (_, may_create) = asked_for(&mut script);
    assert!(!may_create);
}

/// KIP-526.
#[test]
fn a_new_topic_is_asked_for_alone() {
    let mut script = sender(&[]);
    script.run();
    asked_for(&mut script);
    script.topics.push(("second", vec![1]));
    script.engine.want_topic(script.now, "second");
    script.run();
    assert_eq!(asked_for(&mut script).0, ["second"]);
    assert!(script.engine.knows_topic("second") && script.engine.knows_topic("t"));

    script.engine.want_topic(script.now, "third");
    script.pass(Duration::from_secs(2));
    let times = script.metadata_asked.len();
    assert!((2..10).contains(&times), "with pauses: {times}");
    assert_eq!(asked_for(&mut script).0, ["third"]);
    script.topics.push(("third", vec![1]));
    script.pass(Duration::from_secs(2));
    assert!(script.engine.knows_topic("third"));
    asked_for(&mut script);
    script.pass(MINUTE);
    assert!(asked_for(&mut script).0.is_empty(), "it is known");
    script.pass(5 * MINUTE);
    assert_eq!(asked_for(&mut script).0, ["second", "t", "third"], "by age");

    script.metadata_code = ErrorCode::UNKNOWN_SERVER_ERROR;
    script.topics.push(("fourth", vec![1]));
    script.engine.want_topic(script.now, "fourth");
    script.run();
    script.metadata_code = ErrorCode::NONE;
    script.pass(Duration::from_secs(2));
    assert_eq!(asked_for(&mut script).0, ["fourth", "second", "t", "third"]);
    assert!(script.engine.knows_topic("fourth"));
}

/// Otherwise the first records of a thousand topics would look at half a million.
#[test]
fn metadata_of_a_new_topic_leaves_the_others_alone() {
    let mut script = sender(&[]);
    script.run();
    let before = script.engine.core.cluster.known_version();
    for name in ["second", "third"] {
        script.topics.push((name, vec![1]));
        script.engine.want_topic(script.now, name);
        script.run();
        assert!(script.engine.knows_topic(name));
    }
    assert_eq!(script.engine.core.cluster.known_version(), before);
    assert_eq!(script.engine.partition_count("t"), 2);
    refreshed(&mut script);
    assert!(script.engine.core.cluster.known_version() > before);
}

#[test]
fn a_new_topic_that_was_lost_again_is_found_when_it_comes_back() {
    let mut script = sender(&[("delivery.timeout.ms", "120000")]);
    script.run();
    // The second partition has no leader yet, so the topic is requested again.
    script.topics.push(("second", vec![1, -1]));
    script.engine.want_topic(script.now, "second");
    script.run();
    let mut row = Row::new(None, Some(b"v"));
    row.partition = Some(1);
    let (now, make) = (script.now, |_: &Arc<str>, partition| partition);
    let appended = script.engine.append(|| now, "second", &row, 1, make);
    appended.unwrap();
    let lost = script.topics.pop();
    script.pass(Duration::from_secs(2));
    assert!(script.engine.metadata().topic("second").is_none());
    script
        .topics
        .extend(lost.map(|(name, _)| (name, vec![1, 1])));
    assert_eq!(values(&script.pass(Duration::from_secs(5))), [["v"]]);
    let names: Vec<_> = script
        .metadata_asked
        .iter()
        .flat_map(|(names, _)| names)
        .collect();
    assert!(!names[2..].contains(&&"t".to_owned()), "alone: {names:?}");
}

/// A topic whose last caller left is in the view until the next response about all topics.
#[test]
fn a_topic_that_is_wanted_again_has_its_new_partitions() {
    let mut script = sender(&[]);
    script.topics.push(("second", vec![1]));
    script.engine.want_topic(script.now, "second");
    script.run();
    script.engine.give_up_topic("second");
    script.pass(6 * MINUTE);
    assert!(!script.engine.knows_topic("second"));
    script.topics.pop();
    script.topics.push(("second", vec![1, 1, 1]));
    script.engine.want_topic(script.now, "second");
    script.run();
    assert_eq!(script.engine.partition_count("second"), 3);
}

#[test]
fn a_known_topic_stays_when_its_last_caller_goes() {
    let mut script = sender(&[]);
    script.engine.give_up_topic("t");
    assert_eq!(refreshed(&mut script), ["t"]);
    send_one(&mut script);
}

#[test]
fn a_topic_without_a_send_for_five_minutes_is_not_asked_for() {
    let mut script = sender(&[("metadata.max.age.ms", "60000")]);
    script.engine.give_up_topic("t");
    script.pass(4 * MINUTE);
    assert_eq!(send_one(&mut script)[0].sequence, 0);
    script.pass(4 * MINUTE);
    assert_eq!(refreshed(&mut script), ["t"]);
    script.pass(MINUTE);
    assert!(refreshed(&mut script).is_empty());
    assert!(!script.engine.knows_topic("t"));
    assert!(matches!(
        try_send(&mut script, 0, "v"),
        Err(NotAppended::UnknownTopic)
    ));
    script.engine.want_topic(script.now, "t");
    script.run();
    assert_eq!(
        send_one(&mut script)[0].sequence,
        1,
        "the broker still knows the producer"
    );
}

#[test]
fn a_topic_with_undecided_batches_is_never_idle() {
    let mut script = sender(&[("delivery.timeout.ms", "3600000")]);
    script.engine.give_up_topic("t");
    send(&mut script, 0, "v");
    let asked = one(script.run());
    script.pass(20 * MINUTE);
    assert!(script.engine.knows_topic("t"));
    reply(&mut script, &asked, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    let again = one(script.pass(MINUTE));
    reply(&mut script, &again, ErrorCode::NONE, 0);
    script.pass(6 * MINUTE);
    assert!(!script.engine.knows_topic("t"));
}

#[test]
fn a_topic_that_a_caller_waits_for_is_never_idle() {
    let mut script = sender(&[]);
    script.pass(20 * MINUTE);
    assert!(script.engine.knows_topic("t"));
}

#[test]
fn an_idle_producer_does_not_create_a_deleted_topic() {
    let mut script = sender(&[("metadata.max.age.ms", "60000")]);
    script.engine.give_up_topic("t");
    send_one(&mut script);
    script.topics.clear();
    asked_for(&mut script);
    script.pass(2 * MINUTE);
    assert_eq!(asked_for(&mut script), (vec!["t".to_owned()], false));
    assert!(!script.engine.knows_topic("t"));
    assert!(refreshed(&mut script).is_empty());
}

#[test]
fn a_record_that_waits_for_a_deleted_topic_may_create_it() {
    let mut script = sender(&[]);
    script.engine.give_up_topic("t");
    send_one(&mut script);
    send(&mut script, 0, "v");
    let asked = one(script.pass(Duration::from_millis(5)));
    script.topics.clear();
    reply(
        &mut script,
        &asked,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    );
    asked_for(&mut script);
    script.pass(Duration::from_secs(5));
    assert_eq!(asked_for(&mut script), (vec!["t".to_owned()], true));
    script.topics = vec![("t", vec![1, 2])];
    assert_eq!(values(&script.pass(Duration::from_secs(5))), [["v"]]);
}

#[test]
fn a_caller_that_waits_for_a_topic_may_create_it_and_its_absence_is_told() {
    let mut script = sender(&[]);
    asked_for(&mut script);
    script.engine.want_topic(script.now, "nope");
    script.pass(Duration::from_secs(5));
    assert_eq!(asked_for(&mut script), (vec!["nope".to_owned()], true));
    let told = std::iter::from_fn(|| script.engine.observer().poll());
    let missing: Vec<_> = told
        .filter_map(|event| match event {
            Observed::TopicMissing { topic, cause } => Some((topic, cause.is_retriable())),
            _ => None,
        })
        .collect();
    assert_eq!(
        missing,
        [("nope".into(), true), ("nope".into(), false)],
        "once at the first answer, and once when it is believed"
    );
    script.engine.give_up_topic("nope");
    asked_for(&mut script);
    script.engine.core.cluster.refresh(script.now);
    script.pass(Duration::from_secs(5));
    assert!(!asked_for(&mut script).1);
}

#[test]
fn a_refusal_by_the_id_of_a_topic_that_was_made_anew_is_no_doubt() {
    let mut script = sender(&[("delivery.timeout.ms", "120000")]);
    script.topic_id = Some(1);
    refreshed(&mut script);
    send(&mut script, 0, "v");
    let asked = one(script.pass(Duration::from_millis(5)));
    assert_eq!(asked.version, 13);
    script.topic_id = Some(2);
    assert_eq!(refreshed(&mut script), ["t"]);
    reply(&mut script, &asked, ErrorCode::UNKNOWN_TOPIC_ID, -1);
    let again = one(script.pass(Duration::from_secs(1)));
    let Request::Produce(request) = &again.request else {
        panic!("not a Produce")
    };
    assert_eq!(request.topic_data[0].topic_id, Uuid([2; 16]));
    // The first attempt was surely not written, so this failure leaves no doubt either.
    reply(&mut script, &again, ErrorCode::INVALID_RECORD, -1);
    let (.., result) = fates(&mut script).remove(0);
    assert_eq!(result.unwrap_err().written(), Some(Written::No));
}

/// The log of a topic that was recreated has no record of the producer, and takes any sequence number: several batches at once could
/// be appended in another order.
#[test]
fn a_recreated_topic_gets_its_first_batch_alone() {
    let mut script = sender(&[("batch.size", "100"), ("delivery.timeout.ms", "120000")]);
    script.topic_id = Some(1);
    refreshed(&mut script);
    send(&mut script, 0, "first");
    let first = one(script.pass(Duration::from_millis(5)));
    reply(&mut script, &first, ErrorCode::NONE, 0);
    send(&mut script, 0, &"last".repeat(20));
    let last = one(script.pass(Duration::from_millis(5)));

    script.topic_id = Some(2);
    assert_eq!(refreshed(&mut script), ["t"]);
    // That the deleted topic had the batch proves nothing of the new one.
    reply(&mut script, &last, ErrorCode::NONE, 1);
    for value in ["a", "b", "c"] {
        send(&mut script, 0, &value.repeat(80));
    }
    let alone = one(script.pass(Duration::from_millis(5)));
    assert_eq!(values(std::slice::from_ref(&alone)), [["a".repeat(80)]]);
    assert!(script.pass(Duration::from_millis(50)).is_empty());
    reply(&mut script, &alone, ErrorCode::NONE, 0);
    let beside = script.run();
    assert_eq!(values(&beside), [["b".repeat(80)], ["c".repeat(80)]]);
}

#[test]
fn a_late_hint_of_a_deleted_topic_moves_no_leader_of_the_topic_recreated_under_its_name() {
    let mut script = sender(&[("delivery.timeout.ms", "120000")]);
    script.topic_id = Some(1);
    refreshed(&mut script);
    send(&mut script, 0, "v");
    let asked = one(script.pass(Duration::from_millis(5)));
    script.topic_id = Some(2);
    refreshed(&mut script);
    let mut late = answer_to(&asked, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    late.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch {
        leader_id: 2,
        leader_epoch: 9,
        ..Default::default()
    };
    script.answer(&asked, Response::Produce(late));
    let leader = script.engine.metadata().leader("t", 0);
    assert_eq!(leader.map(|(node, _)| node), Some(1));
    let again = one(script.pass(Duration::from_secs(1)));
    assert_eq!(script.address(again.link), "b1");
    reply(&mut script, &again, ErrorCode::NONE, 0);
    assert_eq!(fates(&mut script).len(), 1);
}

#[test]
fn a_partition_that_is_not_known_is_asked_for_until_it_is_there() {
    let mut script = sender(&[]);
    let error = match try_send(&mut script, 2, "v") {
        Err(NotAppended::UnknownPartition(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(
        error
            .message()
            .contains("there is no partition 2: the topic has 2"),
        "{error}"
    );
    assert_eq!((error.topic(), error.partition()), (Some("t"), Some(2)));
    assert!(matches!(
        try_send(&mut script, -1, "v"),
        Err(NotAppended::Failed(_))
    ));
    asked_for(&mut script);
    script.pass(MINUTE);
    assert_eq!(asked_for(&mut script), (vec![], false));

    let topic: Arc<str> = "t".into();
    script.engine.want_partition(script.now, &topic, 2);
    script.run();
    assert_eq!(asked_for(&mut script).0, ["t"], "at once");
    script.pass(Duration::from_secs(2));
    let times = script.metadata_asked.len();
    assert!((2..10).contains(&times), "with pauses: {times}");
    script.topics = vec![("t", vec![1, 2, 1])];
    script.pass(Duration::from_secs(2));
    assert!(script.engine.lacks_partition("t", 2).is_none());
    send(&mut script, 2, "v");
    asked_for(&mut script);
    script.pass(MINUTE);
    assert_eq!(
        asked_for(&mut script),
        (vec![], false),
        "nobody waits for it any more"
    );
    script.engine.give_up_partition(&topic, 2);

    script.engine.want_partition(script.now, &topic, 9);
    script.engine.give_up_partition(&topic, 9);
    script.pass(Duration::from_secs(2));
    asked_for(&mut script);
    script.pass(MINUTE);
    assert_eq!(asked_for(&mut script), (vec![], false));
}
