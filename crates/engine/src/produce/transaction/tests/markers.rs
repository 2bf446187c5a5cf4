//! The first batch of a transaction, while the markers of the one before are being written.

use super::*;

const NOW: Duration = Duration::ZERO;

/// A producer whose last transaction ended this moment, with a record in the next one.
fn next_one(script: &mut Sender) {
    deliver(script);
    conclude(script, &Verb::Commit, 1);
    begin(script);
    try_send(script, 0).unwrap();
}

fn is_question(asked: &[Asked]) -> bool {
    matches!(asked, [one] if matches!(one.request, Request::DescribeTransactions(_)))
}

#[test]
fn it_waits_until_the_coordinator_says_that_they_are_written() {
    for state in ["CompleteCommit", "CompleteAbort", "Empty", "Ongoing"] {
        let mut script = begun(2);
        next_one(&mut script);
        for _ in 0..8 {
            let asked = script.pass(NOW);
            assert!(is_question(&asked), "{asked:?}");
            described(&mut script, &asked[0], "PrepareCommit");
        }
        // Then with pauses.
        assert!(script.pass(NOW).is_empty());
        let asked = script.pass(Duration::from_millis(1));
        assert!(is_question(&asked), "{asked:?}");
        described(&mut script, &asked[0], state);
        assert_eq!(names(&script.pass(NOW)), [("produce", 1)], "{state}");
    }
}

#[test]
fn it_waits_no_longer_than_a_leader_would_make_it_wait() {
    let mut script = begun(2);
    next_one(&mut script);
    assert!(is_question(&script.pass(Duration::from_millis(19))));
    assert_eq!(
        names(&script.pass(Duration::from_millis(1))),
        [("produce", 1)]
    );
    // The answer is of no use any more, and of no harm.
    let mut script = begun(2);
    next_one(&mut script);
    let asked = script.pass(NOW);
    let sent = script.pass(Duration::from_millis(20));
    described(&mut script, &asked[0], "PrepareCommit");
    ok(&mut script, &sent[0]);
    conclude(&mut script, &Verb::Commit, 2);
}

#[test]
fn it_waits_for_nothing_where_the_coordinator_does_not_tell() {
    let mut script = begun(2);
    next_one(&mut script);
    let asked = script.pass(NOW);
    let denied = TransactionState {
        error_code: ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.0,
        transactional_id: "tx".into(),
        ..Default::default()
    };
    script.answer(
        &asked[0],
        Response::DescribeTransactions(DescribeTransactionsResponse {
            transaction_states: vec![denied],
            ..Default::default()
        }),
    );
    assert_eq!(names(&script.pass(NOW)), [("produce", 1)]);
}

#[test]
fn who_is_never_early_is_asked_about_less_and_less_often() {
    let mut script = begun(2);
    deliver(&mut script);
    let mut asked_in = Vec::new();
    for round in 1..200 {
        conclude(&mut script, &Verb::Commit, 1);
        begin(&mut script);
        try_send(&mut script, 0).unwrap();
        let mut asked = script.pass(NOW);
        if is_question(&asked) {
            asked_in.push(round);
            described(&mut script, &asked[0], "CompleteCommit");
            asked = script.pass(NOW);
        }
        ok(&mut script, &asked[0]);
    }
    let wanted: Vec<_> = (1..=9).chain([11, 15, 23, 39, 71, 135, 199]).collect();
    assert_eq!(asked_in, wanted);
}

#[test]
fn nobody_is_asked_if_nothing_waits_or_partitions_join_by_themselves() {
    let mut script = begun(2);
    deliver(&mut script);
    conclude(&mut script, &Verb::Commit, 1);
    begin(&mut script);
    assert!(script.pass(Duration::from_millis(20)).is_empty());
    try_send(&mut script, 0).unwrap();
    assert_eq!(names(&script.pass(NOW)), [("produce", 1)]);

    let mut script = begun(1);
    next_one(&mut script);
    assert_eq!(names(&script.pass(NOW)), [("add partitions", 0)]);
}
