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
    // The response is of no use any more, and does no harm.
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

/// The rounds, of 200, in which the coordinator got a request and responded so late that all
/// markers were written. In the round `early_in` it first responds that they are not written.
fn asked_in(takes: Duration, early_in: usize) -> Vec<usize> {
    let mut script = begun(2);
    deliver(&mut script);
    let mut asked_in = Vec::new();
    for round in 1..=200 {
        conclude(&mut script, &Verb::Commit, 1);
        begin(&mut script);
        try_send(&mut script, 0).unwrap();
        let mut asked = script.pass(NOW);
        if is_question(&asked) {
            asked_in.push(round);
            if round == early_in {
                described(&mut script, &asked[0], "PrepareCommit");
                asked = script.pass(NOW);
            }
            assert!(script.pass(takes).is_empty());
            described(&mut script, &asked[0], "CompleteCommit");
            asked = script.pass(NOW);
        }
        ok(&mut script, &asked[0]);
    }
    asked_in
}

#[test]
fn who_is_never_early_asks_less_and_less_often_once_that_took_as_long_as_an_early_batch_would() {
    let takes = Duration::from_millis(5);
    let wanted: Vec<_> = (1..=4).chain([6, 10, 18, 34, 66, 130, 194]).collect();
    assert_eq!(asked_in(takes, 0), wanted);
    // Once a batch was early, the producer sends a request in each round, until the requests took
    // as long again.
    let wanted = [1, 2, 3, 4, 6, 10, 11, 12, 13, 14, 16, 20, 28, 44, 76, 140];
    assert_eq!(asked_in(takes, 10), wanted);
}

#[test]
fn it_asks_each_time_while_that_took_less() {
    let takes = Duration::from_micros(99);
    assert_eq!(asked_in(takes, 0), (1..=200).collect::<Vec<_>>());
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
