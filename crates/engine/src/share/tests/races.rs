//! What happens while something else is under way.

use super::*;

#[test]
fn what_was_said_beside_a_renewal_that_is_said_again_counts() {
    let (mut script, acquired) = holding(EXPLICIT);
    let lock = acquired.lock;
    let renew = AcknowledgeType::Renew;
    script.engine.acknowledge(lock, (0, 3), renew).unwrap();
    commit(&mut script);
    let sent = only(asked(&mut script));
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (0, 0), accept).unwrap();
    commit(&mut script);
    answer_acknowledge(
        &mut script,
        &sent,
        &[(0, ErrorCode::COORDINATOR_NOT_AVAILABLE)],
    );
    let again = only(passed(&mut script, 1_000));
    assert_eq!(said(&again), [(0, 0, 0, 1), (0, 1, 3, 4)]);
}

#[test]
fn records_of_a_partition_that_went_to_others_are_released_by_themselves() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    let mut open = poll(&mut script);
    open.retain(|it| script.address(it.link) == "b1");
    let open = only(open);
    let beat = passed(&mut script, 5_000);
    let beat = beat
        .iter()
        .find(|it| matches!(it.request, Request::ShareGroupHeartbeat(_)));
    assign(&mut script, beat.unwrap(), 4, Some(&[1]));
    answer_fetch(
        &mut script,
        &open,
        ErrorCode::NONE,
        vec![row(0, &[(0, 4, 1)])],
    );
    assert!(script.engine.take().is_none());
    let release = only(asked(&mut script));
    acknowledge(&release);
    assert_eq!(said(&release), [(0, 0, 4, 2)]);
}

#[test]
fn nothing_is_requested_while_what_came_is_looked_at() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    answer_fetch(
        &mut script,
        &open,
        ErrorCode::NONE,
        vec![row(0, &[(0, 4, 1)])],
    );
    let acquired = script.engine.take().unwrap();
    let now = script.now;
    script.engine.dispose(now, acquired.lock, (1, 1), None);
    for asked in asked(&mut script) {
        acknowledge(&asked);
    }
}

#[test]
fn a_renewal_does_not_keep_what_waits_beside_it() {
    let (mut script, acquired) = {
        let mut script = joined(EXPLICIT, &[0]);
        let open = only(poll(&mut script));
        let rows = vec![row(0, &[(0, 9, 1)])];
        answer_fetch(&mut script, &open, ErrorCode::NONE, rows);
        let acquired = script.engine.take().unwrap();
        (script, acquired)
    };
    let (lock, now) = (acquired.lock, script.now);
    assert!(script.engine.give(now, lock, (0, 3), (5, 50)));
    script.engine.poll_ended(now);
    script.now += Duration::from_secs(25);
    let renew = AcknowledgeType::Renew;
    script.engine.acknowledge(lock, (0, 3), renew).unwrap();
    commit(&mut script);
    let all = asked(&mut script);
    let sent = all
        .iter()
        .find(|it| matches!(it.request, Request::ShareAcknowledge(_)))
        .unwrap();
    answer_acknowledge(&mut script, sent, &[(0, ErrorCode::NONE)]);
    script.now += Duration::from_secs(10);
    let now = script.now;
    assert!(
        !script.engine.give(now, lock, (4, 9), (5, 50)),
        "others have them"
    );
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (0, 3), accept).unwrap();
}

#[test]
fn a_partition_that_fails_is_told_once_and_keeps_no_other_from_being_read() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    let open = poll(&mut script);
    let (one, other) = (&open[0], &open[1]);
    let denied = |number| PartitionData {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        ..row(number, &[])
    };
    let number = |asked: &Asked| fetch(asked).topics[0].partitions[0].partition_index;
    let bad = denied(number(one));
    answer_fetch(&mut script, one, ErrorCode::NONE, vec![bad]);
    let good = row(number(other), &[(0, 4, 1)]);
    answer_fetch(&mut script, other, ErrorCode::NONE, vec![good]);
    assert_eq!(script.engine.stuck(), None);
    assert!(script.engine.take().is_some());
    let error = script.engine.take_failure().unwrap();
    let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    assert_eq!(error.code(), Some(code), "{error}");
    assert_eq!(script.engine.take_failure(), None);
    // The next poll sends a new request.
    let now = script.now;
    script.engine.poll_ended(now);
    script.engine.poll_began(now, true);
    let all = passed(&mut script, 2_000);
    assert!(all.iter().any(|it| it.link == one.link), "{all:?}");
}

#[test]
fn with_record_limits_a_broker_that_fails_does_not_hold_the_turn() {
    let pairs = &[("group.id", "g"), ("share.acquire.mode", "record_limit")];
    let mut script = joined(pairs, &[0, 1]);
    let one = only(poll(&mut script));
    let failed = ErrorCode::KAFKA_STORAGE_ERROR;
    answer_fetch(&mut script, &one, failed, Vec::new());
    let other = only(asked(&mut script));
    assert_ne!(other.link, one.link);
    answer_fetch(&mut script, &other, ErrorCode::NONE, Vec::new());
    // Its pause is not over.
    let again = only(asked(&mut script));
    assert_eq!(again.link, other.link);
}

#[test]
fn a_session_that_was_to_end_ends_also_if_somebody_subscribes_meanwhile() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    let now = script.now;
    script.engine.leave_group(now, now + Duration::from_secs(5));
    let topics = BTreeSet::from([Arc::from("t")]);
    script.engine.subscribe(now, topics).unwrap();
    let rows = vec![row(0, &[(0, 4, 1)])];
    answer_fetch(&mut script, &open, ErrorCode::NONE, rows);
    assert!(
        script.engine.take().is_none(),
        "they came for the one before"
    );
    let mut all = asked(&mut script);
    all.retain(|it| !matches!(it.request, Request::ShareGroupHeartbeat(_)));
    let end = only(all);
    assert_eq!(acknowledge(&end).share_session_epoch, -1);
    answer_acknowledge(&mut script, &end, &[]);
    let again = only(poll(&mut script));
    assert_eq!(fetch(&again).share_session_epoch, 0);
}

#[test]
fn a_session_does_not_end_with_a_renewal() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    let rows = vec![row(0, &[(0, 4, 1)])];
    answer_fetch(&mut script, &open, ErrorCode::NONE, rows);
    let lock = script.engine.take().unwrap().lock;
    let now = script.now;
    assert!(script.engine.give(now, lock, (0, 4), (5, 50)));
    script.engine.poll_goes_on(now);
    let under_way = only(asked(&mut script));
    let (accept, renew) = (AcknowledgeType::Accept, AcknowledgeType::Renew);
    script.engine.acknowledge(lock, (0, 0), accept).unwrap();
    script.engine.acknowledge(lock, (1, 4), renew).unwrap();
    commit(&mut script);
    script.engine.leave_group(now, now + Duration::from_secs(5));
    answer_fetch(&mut script, &under_way, ErrorCode::NONE, Vec::new());
    let end = only(asked(&mut script));
    assert_eq!(acknowledge(&end).share_session_epoch, -1);
    assert_eq!(said(&end), [(0, 0, 0, 1)]);
}

#[test]
fn what_was_said_under_a_lock_that_ended_does_not_count_for_the_next_one() {
    let (mut script, before) = holding(EXPLICIT);
    let accept = AcknowledgeType::Accept;
    let open = only(poll(&mut script));
    assert!(said(&open).is_empty());
    script
        .engine
        .acknowledge(before.lock, (0, 1), accept)
        .unwrap();
    let id = commit(&mut script);
    assert!(asked(&mut script).is_empty(), "a request is under way");
    // The lock of some has ended: the same member gets them once more.
    answer_fetch(
        &mut script,
        &open,
        ErrorCode::NONE,
        vec![row(0, &[(0, 2, 2)])],
    );
    let error = error_of(script.engine.take_commit(id));
    assert!(error.message().contains("delivered again"), "{error}");
    assert!(asked(&mut script).is_empty(), "nothing is left to be said");
    let refused = script.engine.acknowledge(before.lock, (2, 2), accept);
    assert_eq!(refused.unwrap_err().kind(), Kind::Argument);
    script
        .engine
        .acknowledge(before.lock, (3, 4), accept)
        .unwrap();
    let anew = script.engine.take().unwrap();
    let now = script.now;
    assert!(script.engine.give(now, anew.lock, (0, 2), (3, 30)));
    script
        .engine
        .acknowledge(anew.lock, (0, 2), accept)
        .unwrap();
    commit(&mut script);
    assert_eq!(
        said(&only(asked(&mut script))),
        [(0, 0, 2, 1), (0, 3, 4, 1)]
    );
}
