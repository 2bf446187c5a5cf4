//! A leader reports that it does not have a batch which another replica may have.

use super::*;

const MISSING: ErrorCode = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;

/// A producer with a batch that its leader, `b1`, appended before it lost the leadership, and the request that is sent to `b2`.
fn moved(to: i32) -> (Sender, Asked, Asked) {
    let mut script = established(&[("linger.ms", "0")]);
    send(&mut script, 0, "a");
    let sent = one(script.run());
    script.nodes = 3;
    script.topics = vec![("t", vec![to, to])];
    reply(&mut script, &sent, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(script.address(again.link), format!("b{to}"));
    assert_eq!(seen(&again), seen(&sent));
    (script, sent, again)
}

#[test]
fn a_batch_keeps_its_numbers_while_another_replica_may_have_it() {
    let (mut script, sent, again) = moved(2);
    reply(&mut script, &again, MISSING, -1);
    // The first leader is elected again, before it has truncated its log.
    script.topics = vec![("t", vec![1, 1])];
    let back = one(script.pass(Duration::from_secs(3)));
    assert_eq!(script.address(back.link), "b1");
    assert_eq!(seen(&back), seen(&sent));
    reply(&mut script, &back, ErrorCode::DUPLICATE_SEQUENCE_NUMBER, 7);
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(7))]);
}

#[test]
fn a_leader_that_reports_it_missing_for_ten_seconds_proves_that_it_is_unwritten() {
    let (mut script, _, again) = moved(2);
    let begin = script.now;
    let renumbered = one(deny(&mut script, again, MISSING, Duration::from_secs(2)));
    assert!(script.now >= begin + Duration::from_secs(10));
    assert!(script.now < begin + Duration::from_secs(15));
    let found = &seen(&renumbered)[0];
    assert_eq!((found.epoch, found.sequence), (1, 0));
    assert_eq!(found.values, ["a"]);
    reply(&mut script, &renumbered, ErrorCode::NONE, 9);
    assert_eq!(fates(&mut script), [(0, 0, 1, Ok(9))]);
}

#[test]
fn the_reports_of_two_leaders_do_not_add_up() {
    let (mut script, sent, mut again) = moved(2);
    for leader in [3, 2, 3, 2, 3] {
        reply(&mut script, &again, MISSING, -1);
        script.topics = vec![("t", vec![leader, leader])];
        again = one(script.pass(Duration::from_secs(4)));
        assert_eq!(script.address(again.link), format!("b{leader}"));
        assert_eq!(seen(&again), seen(&sent));
    }
}

#[test]
fn a_batch_that_no_replica_can_have_gets_new_numbers_at_once() {
    let mut script = established(&[("linger.ms", "0")]);
    send(&mut script, 0, "a");
    let sent = one(script.run());
    reply(&mut script, &sent, MISSING, -1);
    let renumbered = one(script.pass(Duration::from_secs(1)));
    assert_eq!(
        (seen(&renumbered)[0].epoch, seen(&renumbered)[0].sequence),
        (1, 0)
    );
}

/// All before it is acknowledged, so the log has lost records: the broker closed an idle connection just when the batch was sent.
#[test]
fn a_batch_that_only_this_leader_can_have_gets_new_numbers_at_once() {
    let mut script = established(&[("linger.ms", "0")]);
    send(&mut script, 0, "a");
    let sent = one(script.run());
    script.cut(sent.link);
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(seen(&again), seen(&sent));
    reply(&mut script, &again, MISSING, -1);
    let renumbered = one(script.pass(Duration::from_secs(1)));
    let found = &seen(&renumbered)[0];
    assert_eq!((found.epoch, found.sequence), (1, 0));
}

/// With four newer batches behind it, a broker that remembers five would no longer recognize it.
#[test]
fn a_batch_that_others_have_overtaken_is_sent_alone() {
    let mut script = established(&[("batch.size", "100"), ("linger.ms", "0")]);
    for value in ["a", "b"] {
        send(&mut script, 0, &value.repeat(60));
    }
    let sent = script.run();
    assert_eq!(sent.len(), 2);
    reply(&mut script, &sent[0], ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    reply(&mut script, &sent[1], ErrorCode::NONE, 2);
    for value in ["c", "d"] {
        send(&mut script, 0, &value.repeat(60));
    }
    let again = one(script.pass(Duration::from_secs(3)));
    assert_eq!(seen(&again), seen(&sent[0]));
    reply(&mut script, &again, ErrorCode::DUPLICATE_SEQUENCE_NUMBER, 1);
    let rest = script.pass(Duration::from_secs(1));
    let numbers: Vec<_> = rest.iter().map(|asked| seen(asked)[0].sequence).collect();
    assert_eq!(numbers, [3, 4]);
}
