//! What brokers that are wrong or mean ill cannot do to a member.

use super::*;

/// Respond to the first ShareFetch with these rows, and return the acquired records.
fn brought(script: &mut Member, rows: Vec<PartitionData>) -> Vec<Acquired> {
    let open = only(poll(script));
    answer_fetch(script, &open, ErrorCode::NONE, rows);
    std::iter::from_fn(|| script.engine.take()).collect()
}

#[test]
fn an_offset_that_comes_twice_in_one_batch_is_given_once_and_can_be_acknowledged() {
    let mut script = joined(EXPLICIT, &[0]);
    let came = brought(&mut script, vec![row(0, &[(0, 4, 1)])]);
    let (lock, now) = (came[0].lock, script.now);
    assert!(script.engine.give(now, lock, (0, 2), (3, 30)));
    for again in 0..3 {
        assert!(!script.engine.give(now, lock, (again, again), (1, 10)));
    }
    assert!(script.engine.give(now, lock, (3, 4), (2, 20)));
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (0, 4), accept).unwrap();
    assert!(!script.engine.has_unacknowledged());
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    assert_eq!(said(&sent), [(0, 0, 4, 1)]);
    answer_acknowledge(&mut script, &sent, &[(0, ErrorCode::NONE)]);
    let found = script.engine.take_commit(id).unwrap();
    assert_eq!(found[0].error, None);
}

#[test]
fn what_was_given_is_not_disposed_of_by_records_that_run_backwards() {
    let mut script = joined(EXPLICIT, &[0]);
    let came = brought(&mut script, vec![row(0, &[(0, 9, 1)])]);
    let (lock, now) = (came[0].lock, script.now);
    assert!(script.engine.give(now, lock, (5, 5), (1, 10)));
    script.engine.dispose(now, lock, (0, 9), None);
    let gaps = only(asked(&mut script));
    assert_eq!(said(&gaps), [(0, 0, 4, 0), (0, 6, 9, 0)]);
    answer_acknowledge(&mut script, &gaps, &[(0, ErrorCode::NONE)]);
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (5, 5), accept).unwrap();
    assert!(!script.engine.has_unacknowledged());
}

#[test]
fn records_that_two_rows_of_an_answer_bring_are_given_under_the_last_lock() {
    let mut script = joined(EXPLICIT, &[0]);
    let rows = vec![row(0, &[(0, 4, 1)]), row(0, &[(2, 6, 1)])];
    let came = brought(&mut script, rows);
    let (now, one, other) = (script.now, came[0].lock, came[1].lock);
    assert!(!script.engine.give(now, one, (2, 4), (3, 30)), "overtaken");
    assert!(script.engine.give(now, one, (0, 1), (2, 20)));
    assert!(script.engine.give(now, other, (2, 6), (5, 50)));
    let accept = AcknowledgeType::Accept;
    let error = script.engine.acknowledge(one, (2, 2), accept).unwrap_err();
    assert_eq!(error.kind(), Kind::Argument);
    script.engine.acknowledge(one, (0, 1), accept).unwrap();
    script.engine.acknowledge(other, (2, 6), accept).unwrap();
    assert!(!script.engine.has_unacknowledged());
}

#[test]
fn all_offsets_that_there_can_be_are_counted() {
    let mut script = joined(EXPLICIT, &[0]);
    let came = brought(&mut script, vec![row(0, &[(0, i64::MAX, 1)])]);
    let (lock, now) = (came[0].lock, script.now);
    assert!(script.engine.give(now, lock, (0, 0), (1, 10)));
    script.engine.dispose(now, lock, (1, 9), None);
    let rest = only(asked(&mut script));
    assert_eq!(said(&rest), [(0, 1, 9, 0), (0, 10, i64::MAX, 2)]);
    answer_acknowledge(&mut script, &rest, &[(0, ErrorCode::NONE)]);
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (0, 0), accept).unwrap();
}

#[test]
fn a_broker_brings_nothing_of_a_partition_that_another_one_was_asked_for() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    let all = poll(&mut script);
    let (leader, liar): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|it| script.address(it.link) == "b1");
    let (leader, liar) = (only(leader), only(liar));
    let rows = vec![row(0, &[(0, 4, 1)])];
    answer_fetch(&mut script, &leader, ErrorCode::NONE, rows);
    let lock = script.engine.take().unwrap().lock;
    let now = script.now;
    assert!(script.engine.give(now, lock, (0, 4), (5, 50)));
    let rows = vec![row(0, &[(0, 9, 2)])];
    answer_fetch(&mut script, &liar, ErrorCode::NONE, rows);
    assert!(script.engine.take().is_none());
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(lock, (0, 4), accept).unwrap();
}

#[test]
fn what_was_said_of_records_that_come_anew_is_told_by_the_next_commit() {
    let (mut script, old) = holding(EXPLICIT);
    let now = script.now;
    script.engine.keep_outcomes(true);
    script.engine.poll_began(now, true);
    let open = only(asked(&mut script));
    script.engine.poll_ended(now);
    let accept = AcknowledgeType::Accept;
    script.engine.acknowledge(old.lock, (0, 4), accept).unwrap();
    let rows = vec![row(0, &[(0, 2, 2)])];
    answer_fetch(&mut script, &open, ErrorCode::NONE, rows);
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    assert_eq!(said(&sent), [(0, 3, 4, 1)]);
    answer_acknowledge(&mut script, &sent, &[(0, ErrorCode::NONE)]);
    let error = error_of(script.engine.take_commit(id));
    assert!(error.to_string().contains("delivered again"), "{error}");
    let ended = script.engine.take_outcomes().into_iter();
    let ended: Vec<_> = ended
        .map(|it| (it.first, it.last, it.error.is_none()))
        .collect();
    assert_eq!(ended, [(0, 2, false), (3, 4, true)]);
}
