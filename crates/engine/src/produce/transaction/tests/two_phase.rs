//! Two-phase commits: what is prepared is ended by its owner, or by the next one, and by nobody else.

use ottla_protocol::messages::InitProducerIdResponse;

use super::*;
use crate::produce::transaction::PreparedTransaction;

/// A producer of two-phase commits, not initialised, and what its broker speaks of InitProducerId.
fn two_phases(level: i16, init: i16) -> Sender {
    let pairs = [("transaction.two.phase.commit.enable", "true")];
    fresh_at(versions(level, init), &pairs)
}

fn token(epoch: i16) -> PreparedTransaction {
    PreparedTransaction::new(40, epoch).unwrap()
}

fn complete(epoch: i16, commits: bool) -> Verb {
    Verb::Complete {
        prepared: token(epoch),
        commits,
    }
}

/// Respond to InitProducerId: the producer has epoch 9, and may end the transaction of this epoch,
/// if one is open.
fn keep(script: &mut Sender, asked: &Asked, ongoing: Option<i16>) {
    let Request::InitProducerId(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert!(request.enable2_pc && request.keep_prepared_txn);
    assert_eq!(
        (asked.version, request.transaction_timeout_ms),
        (6, i32::MAX)
    );
    let answer = InitProducerIdResponse {
        producer_id: 40,
        producer_epoch: 9,
        ongoing_txn_producer_id: ongoing.map_or(-1, |_| 40),
        ongoing_txn_producer_epoch: ongoing.unwrap_or(-1),
        ..Default::default()
    };
    script.answer(asked, Response::InitProducerId(answer));
}

/// A producer whose transaction is prepared.
fn prepared() -> Sender {
    let mut script = two_phases(2, 6);
    let id = start(&mut script, &Verb::Begin);
    let asked = next(&mut script);
    let Request::InitProducerId(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert!(request.enable2_pc && !request.keep_prepared_txn);
    ok(&mut script, &asked);
    script.run();
    end(&mut script, id).unwrap();
    deliver(&mut script);
    let id = start(&mut script, &Verb::Prepare);
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(0))));
    script
}

/// A producer with an open transaction, of which nobody knows.
fn open(level: i16) -> Sender {
    let mut script = two_phases(level, 6);
    let id = start(&mut script, &Verb::Begin);
    let asked = next(&mut script);
    ok(&mut script, &asked);
    script.run();
    end(&mut script, id).unwrap();
    script
}

#[test]
fn a_transaction_is_prepared_when_all_its_records_are_delivered() {
    let mut script = open(2);
    try_send(&mut script, 0).unwrap();
    let id = start(&mut script, &Verb::Prepare);
    let late = try_send(&mut script, 1).unwrap_err();
    assert_eq!(late.kind(), Kind::Argument);
    let asked = next(&mut script);
    assert_eq!(script.engine.take_verb(id), None, "a record is under way");
    ok(&mut script, &asked);
    script.run();
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(0))));
    // A caller that lost the token calls again.
    let id = start(&mut script, &Verb::Prepare);
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(0))));
    assert!(
        !script.engine.is_in_transaction(),
        "to close it aborts nothing"
    );
}

#[test]
fn only_its_end_may_follow() {
    let mut script = prepared();
    for verb in [Verb::Init, Verb::Begin, offsets()] {
        let id = start(&mut script, &verb);
        let error = end(&mut script, id).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument);
        assert!(
            error.message().contains("complete_transaction()"),
            "{error}"
        );
    }
    let error = try_send(&mut script, 0).unwrap_err();
    assert!(error.message().contains("prepared"), "{error}");
    assert_eq!(error.written(), Some(Written::No));
}

#[test]
fn it_ends_as_its_token_says() {
    for (verb, sent, finished) in [
        (Verb::Commit, "commit", Finished::Committed),
        (Verb::Abort, "abort", Finished::Aborted),
        (complete(0, true), "commit", Finished::Committed),
        (complete(0, false), "abort", Finished::Aborted),
        (complete(3, true), "abort", Finished::Aborted),
    ] {
        let mut script = prepared();
        let id = start(&mut script, &verb);
        let asked = next(&mut script);
        assert_eq!(name(&asked), (sent, 0), "{verb:?}");
        reply(&mut script, &asked, ErrorCode::NONE, 1);
        script.run();
        assert_eq!(end(&mut script, id), Ok(finished));
        let id = start(&mut script, &complete(0, true));
        assert_eq!(end(&mut script, id), Ok(Finished::NothingOpen));
        begin(&mut script);
        assert_eq!(deliver(&mut script), (1, 0));
    }
}

#[test]
fn the_next_producer_ends_what_was_prepared() {
    for (verb, sent, finished) in [
        (complete(3, true), "commit", Finished::Committed),
        (complete(2, true), "abort", Finished::Aborted),
        (complete(3, false), "abort", Finished::Aborted),
    ] {
        let mut script = two_phases(2, 6);
        let id = start(&mut script, &verb);
        let asked = next(&mut script);
        keep(&mut script, &asked, Some(3));
        let asked = next(&mut script);
        assert_eq!((name(&asked), asked.version), ((sent, 9), 5));
        reply(&mut script, &asked, ErrorCode::NONE, 10);
        script.run();
        assert_eq!(end(&mut script, id), Ok(finished));
        begin(&mut script);
        assert_eq!(deliver(&mut script), (10, 0));
    }
}

#[test]
fn the_next_producer_may_look_first_and_finds_nothing_where_nothing_is() {
    for (ongoing, finished) in [
        (Some(3), Finished::Committed),
        (None, Finished::NothingOpen),
    ] {
        let mut script = two_phases(2, 6);
        let id = start(&mut script, &Verb::Keep);
        let asked = next(&mut script);
        keep(&mut script, &asked, ongoing);
        script.run();
        assert_eq!(end(&mut script, id), Ok(Finished::Done));
        let id = start(&mut script, &complete(3, true));
        if ongoing.is_some() {
            let asked = next(&mut script);
            reply(&mut script, &asked, ErrorCode::NONE, 10);
            script.run();
        }
        assert_eq!(end(&mut script, id), Ok(finished));
    }
}

#[test]
fn an_end_without_an_answer_is_asked_for_again_and_never_turned_round() {
    let mut script = prepared();
    let id = start(&mut script, &complete(0, true));
    next(&mut script);
    later(&mut script, MINUTE);
    let error = end(&mut script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    assert!(error.message().contains("same call again"), "{error}");
    for verb in [Verb::Abort, complete(0, false), complete(5, true)] {
        let id = start(&mut script, &verb);
        let error = end(&mut script, id).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument, "it may be committed");
    }
    let id = start(&mut script, &Verb::Commit);
    let asked = all(&mut script).pop().unwrap();
    assert_eq!(name(&asked), ("commit", 0));
    reply(&mut script, &asked, ErrorCode::NONE, 1);
    script.run();
    assert_eq!(end(&mut script, id), Ok(Finished::Committed));
}

#[test]
fn who_was_fenced_or_whose_transaction_somebody_ended_is_told_for_good() {
    for (code, kind) in [
        (ErrorCode::PRODUCER_FENCED, Kind::Fenced),
        (ErrorCode::INVALID_TXN_STATE, Kind::Fatal),
    ] {
        let mut script = prepared();
        let id = start(&mut script, &Verb::Commit);
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        script.run();
        assert_eq!(end(&mut script, id).unwrap_err().kind(), kind);
        let id = start(&mut script, &Verb::Begin);
        assert_eq!(end(&mut script, id).unwrap_err().kind(), kind);
    }
}

#[test]
fn an_end_that_may_be_done_is_never_reported_as_not_done() {
    for (verb, ends) in [(Verb::Commit, "commit"), (Verb::Abort, "abort")] {
        for (code, goes_on) in [
            (ErrorCode::UNKNOWN_SERVER_ERROR, true),
            (ErrorCode(9999), true),
            (ErrorCode::INVALID_TXN_STATE, false),
            (ErrorCode::PRODUCER_FENCED, false),
            (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, false),
        ] {
            let mut script = prepared();
            let id = start(&mut script, &verb);
            let asked = next(&mut script);
            script.cut(asked.link);
            let again = later(&mut script, Duration::from_secs(2)).remove(0);
            assert_eq!(name(&again), (ends, 0));
            reply(&mut script, &again, code, 0);
            script.run();
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.kind(), Kind::OutcomeUnknown, "{code}: {error}");
            let id = start(&mut script, &verb);
            if !goes_on {
                let kind = end(&mut script, id).unwrap_err().kind();
                assert!(matches!(kind, Kind::Fenced | Kind::Fatal), "{kind:?}");
                continue;
            }
            // The same call finds out, unless the producer was fenced meanwhile.
            let asked = next(&mut script);
            assert_eq!(name(&asked), (ends, 0));
            reply(&mut script, &asked, ErrorCode::PRODUCER_FENCED, 0);
            script.run();
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.kind(), Kind::OutcomeUnknown, "{code}: {error}");
        }
    }
}

#[test]
fn a_refused_login_leaves_a_transaction_prepared() {
    for verb in [Verb::Commit, Verb::Abort] {
        for sent in [true, false] {
            let mut script = prepared();
            let refusal = Error::from_code(ErrorCode::SASL_AUTHENTICATION_FAILED, None);
            let id = start(&mut script, &verb);
            let asked = next(&mut script);
            if !sent {
                reply(
                    &mut script,
                    &asked,
                    ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
                    0,
                );
            }
            script.refusal = Some(refusal);
            script.cut(asked.link);
            assert!(later(&mut script, MINUTE).is_empty());
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.kind() == Kind::OutcomeUnknown, sent, "{error}");
            assert!(error.message().contains("same call again"), "{error}");
            script.refusal = None;
            let id = start(&mut script, &verb);
            let asked = later(&mut script, Duration::from_millis(500)).remove(0);
            reply(&mut script, &asked, ErrorCode::NONE, 1);
            script.run();
            end(&mut script, id).unwrap();
        }
    }
}

#[test]
fn an_open_transaction_is_prepared_first() {
    let mut script = open(2);
    let id = start(&mut script, &complete(0, true));
    let error = end(&mut script, id).unwrap_err();
    assert!(error.message().contains("prepare_transaction()"), "{error}");
}

/// Otherwise the decision about one could be taken for that about the next.
#[test]
fn no_two_transactions_have_the_same_name_even_if_one_is_empty() {
    let mut script = open(2);
    let id = start(&mut script, &Verb::Prepare);
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(0))));
    let id = start(&mut script, &complete(0, true));
    let asked = next(&mut script);
    assert_eq!(name(&asked), ("abort", 0), "brokers commit nothing empty");
    reply(&mut script, &asked, ErrorCode::NONE, 1);
    script.run();
    assert_eq!(end(&mut script, id), Ok(Finished::Committed));
    begin(&mut script);
    deliver(&mut script);
    let id = start(&mut script, &Verb::Prepare);
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(1))));
}

#[test]
fn epochs_that_stay_name_no_transaction() {
    let mut script = open(1);
    let id = start(&mut script, &Verb::Prepare);
    let error = end(&mut script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.message().contains("transaction.version=2"), "{error}");
}

#[test]
fn who_gives_up_a_begin_that_others_have_used_ends_nothing() {
    let mut script = two_phases(2, 6);
    let given_up = start(&mut script, &Verb::Begin);
    let asked = next(&mut script);
    ok(&mut script, &asked);
    script.run();
    deliver(&mut script);
    let id = start(&mut script, &Verb::Prepare);
    assert_eq!(end(&mut script, id), Ok(Finished::Prepared(token(0))));
    script.engine.give_up_verb(given_up);
    let id = start(&mut script, &complete(0, true));
    let asked = next(&mut script);
    assert_eq!(name(&asked), ("commit", 0));
    assert_eq!(script.engine.take_verb(id), None);
}

#[test]
fn a_producer_of_one_phase_says_what_it_needs() {
    let mut script = begun(2);
    for verb in [Verb::Prepare, Verb::Keep, complete(0, true)] {
        let id = start(&mut script, &verb);
        let error = end(&mut script, id).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        let property = "transaction.two.phase.commit.enable=true";
        assert!(error.message().contains(property), "{error}");
    }
    assert_eq!(deliver(&mut script), (0, 0), "its transaction goes on");
}

#[test]
fn brokers_without_two_phases_are_told_by_what_they_need() {
    let mut script = two_phases(2, 5);
    let id = start(&mut script, &Verb::Begin);
    all(&mut script);
    let error = end(&mut script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    for part in [
        "KIP-939",
        "Kafka 4.4",
        "unstable.api.versions.enable=true",
        "InitProducerId 6",
    ] {
        assert!(error.message().contains(part), "{part}: {error}");
    }

    for (code, verb, kind, part) in [
        (
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Verb::Init,
            Kind::Broker,
            "TWO_PHASE_COMMIT",
        ),
        (
            ErrorCode::UNSUPPORTED_VERSION,
            complete(3, true),
            Kind::Unsupported,
            "force_terminate_transaction()",
        ),
    ] {
        let mut script = two_phases(2, 6);
        let id = start(&mut script, &verb);
        let asked = next(&mut script);
        reply(&mut script, &asked, code, 0);
        script.run();
        let error = end(&mut script, id).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
}
