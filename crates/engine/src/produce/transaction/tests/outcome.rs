//! A commit or an abort that may have been carried out is never reported as not done.

use super::*;
use crate::cluster::LinkId;

/// Codes by which a coordinator refuses EndTxn for good before it writes anything, if no earlier attempt did.
const REFUSALS: [ErrorCode; 6] = [
    ErrorCode::INVALID_TXN_STATE,
    ErrorCode::PRODUCER_FENCED,
    ErrorCode::INVALID_PRODUCER_EPOCH,
    ErrorCode::INVALID_PRODUCER_ID_MAPPING,
    ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode::TRANSACTION_ABORTABLE,
];

/// Codes that a coordinator also returns after it wrote the end of a transaction. None of them is retriable.
const AMBIGUOUS: [ErrorCode; 2] = [ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode(9999)];

/// Codes of logins: EndTxn was not sent.
const LOGINS: [ErrorCode; 3] = [
    ErrorCode::SASL_AUTHENTICATION_FAILED,
    ErrorCode::UNSUPPORTED_SASL_MECHANISM,
    ErrorCode::ILLEGAL_SASL_STATE,
];

/// All codes of `schemas/errors.json` that are no success and are not retried.
fn final_codes() -> impl Iterator<Item = ErrorCode> {
    let all = ErrorCode::ALL.iter().copied();
    all.filter(|code| code.is_error() && !code.is_retriable())
}

/// A transaction with a record, whose commit is under way.
fn committing(level: i16) -> (Sender, VerbId) {
    let mut script = begun(level);
    deliver(&mut script);
    let id = start(&mut script, &Verb::Commit);
    (script, id)
}

/// Loses the response to EndTxn, and returns the retry.
fn lose(script: &mut Sender) -> Asked {
    let asked = next(script);
    script.cut(asked.link);
    let mut again = later(script, Duration::from_secs(2));
    assert_eq!(name(&again[0]), name(&asked));
    again.remove(0)
}

fn fails(script: &mut Sender, id: VerbId) -> Error {
    script.run();
    end(script, id).unwrap_err()
}

#[test]
fn a_commit_whose_response_was_lost_stays_unknown_whatever_the_retry_returns() {
    for level in [1, 2] {
        for code in final_codes().chain([ErrorCode(9999)]) {
            let (mut script, id) = committing(level);
            let again = lose(&mut script);
            reply(&mut script, &again, code, 0);
            let error = fails(&mut script, id);
            assert_eq!(error.kind(), Kind::OutcomeUnknown, "{code}: {error}");
            assert!(error.may_have_been_done() && !error.is_retriable());
            assert_eq!(error.code(), Some(code));
        }
    }
}

#[test]
fn the_only_attempt_of_a_commit_is_unknown_where_its_code_proves_nothing() {
    for level in [1, 2] {
        for code in final_codes().chain([ErrorCode(9999)]) {
            let (mut script, id) = committing(level);
            let asked = next(&mut script);
            reply(&mut script, &asked, code, 0);
            let error = fails(&mut script, id);
            let unknown = AMBIGUOUS.contains(&code);
            assert_eq!(
                error.kind() == Kind::OutcomeUnknown,
                unknown,
                "{code}: {error}"
            );
            assert_eq!(error.may_have_been_done(), unknown, "{code}: {error}");
        }
    }
}

#[test]
fn the_next_begin_finds_out_how_a_refused_commit_ended() {
    for level in [1, 2] {
        for code in AMBIGUOUS {
            for committed in [true, false] {
                let (mut script, id) = committing(level);
                let again = lose(&mut script);
                reply(&mut script, &again, code, 0);
                assert_eq!(fails(&mut script, id).kind(), Kind::OutcomeUnknown);
                let id = start(&mut script, &Verb::Begin);
                settle(&mut script, level, committed);
                end(&mut script, id).unwrap();
                assert_eq!(deliver(&mut script), (1, 0));
            }
        }
    }
}

/// Responds to the abort that settles a commit, and to what follows.
fn settle(script: &mut Sender, level: i16, committed: bool) {
    let asked = later(script, Duration::from_millis(500)).remove(0);
    assert_eq!(name(&asked), ("abort", 0));
    let code = match committed {
        true => ErrorCode::INVALID_TXN_STATE,
        false => ErrorCode::NONE,
    };
    reply(script, &asked, code, 1);
    if level == 1 || committed {
        let bump = next(script);
        assert_eq!(name(&bump), ("init", 0));
        reply(script, &bump, ErrorCode::NONE, 1);
    }
    script.run();
    let told: Vec<_> = std::iter::from_fn(|| script.engine.observer().poll())
        .map(|event| event.to_string())
        .collect();
    let wanted = if committed { "committed" } else { "aborted" };
    let wanted = format!("the transaction of tx whose commit got no response was {wanted}");
    assert!(told.contains(&wanted), "{told:?}");
}

/// From now on every login is refused, and open connections break.
fn refuse_logins(script: &mut Sender, code: ErrorCode, link: LinkId) {
    script.refusal = Some(Error::from_code(code, None));
    script.cut(link);
}

#[test]
fn a_commit_whose_retry_is_refused_at_login_is_unknown_and_settled_when_the_login_works() {
    for level in [1, 2] {
        for code in LOGINS {
            let (mut script, id) = committing(level);
            let asked = next(&mut script);
            refuse_logins(&mut script, code, asked.link);
            assert!(later(&mut script, MINUTE).is_empty());
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
            assert_eq!(error.code(), Some(code));

            // As long as the login is refused, nothing begins; the producer is not lost.
            let id = start(&mut script, &Verb::Begin);
            assert!(later(&mut script, MINUTE).is_empty());
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.code(), Some(code), "{error}");
            assert!(error.message().contains("begin_transaction"), "{error}");
            script.refusal = None;
            let id = start(&mut script, &Verb::Begin);
            settle(&mut script, level, true);
            end(&mut script, id).unwrap();
            assert_eq!(deliver(&mut script), (1, 0));
        }
    }
}

#[test]
fn an_abort_whose_retry_is_refused_at_login_can_be_repeated() {
    for level in [1, 2] {
        for code in LOGINS {
            let mut script = begun(level);
            deliver(&mut script);
            let id = start(&mut script, &Verb::Abort);
            let asked = next(&mut script);
            refuse_logins(&mut script, code, asked.link);
            assert!(later(&mut script, MINUTE).is_empty());
            let error = end(&mut script, id).unwrap_err();
            assert_eq!(error.code(), Some(code), "{error}");
            assert!(error.message().contains("abort_transaction"), "{error}");
            script.refusal = None;
            let id = start(&mut script, &Verb::Abort);
            let asked = later(&mut script, Duration::from_millis(500)).remove(0);
            assert_eq!(name(&asked), ("abort", 0));
            reply(&mut script, &asked, ErrorCode::NONE, 1);
            if level == 1 {
                let bump = next(&mut script);
                refuse_logins(&mut script, code, bump.link);
                assert!(later(&mut script, MINUTE).is_empty());
                assert_eq!(end(&mut script, id).unwrap_err().code(), Some(code));
                script.refusal = None;
                let id = start(&mut script, &Verb::Begin);
                let asked = later(&mut script, Duration::from_millis(500)).remove(0);
                assert_eq!(name(&asked), ("abort", 0));
                reply(&mut script, &asked, ErrorCode::INVALID_TXN_STATE, 1);
                let bump = next(&mut script);
                assert_eq!(name(&bump), ("init", 0));
                reply(&mut script, &bump, ErrorCode::NONE, 1);
                script.run();
                end(&mut script, id).unwrap();
            } else {
                script.run();
                end(&mut script, id).unwrap();
                begin(&mut script);
            }
            assert_eq!(deliver(&mut script), (1, 0));
        }
    }
}

#[test]
fn an_abort_of_unknown_outcome_can_be_repeated() {
    for level in [1, 2] {
        for code in AMBIGUOUS {
            let mut script = begun(level);
            deliver(&mut script);
            let id = start(&mut script, &Verb::Abort);
            let asked = next(&mut script);
            reply(&mut script, &asked, code, 0);
            let error = fails(&mut script, id);
            assert_eq!((error.kind(), error.is_retriable()), (Kind::Timeout, true));
            let id = start(&mut script, &Verb::Abort);
            let asked = next(&mut script);
            reply(&mut script, &asked, ErrorCode::NONE, 1);
            if level == 1 {
                let bump = next(&mut script);
                reply(&mut script, &bump, ErrorCode::NONE, 1);
            }
            script.run();
            end(&mut script, id).unwrap();
            begin(&mut script);
            assert_eq!(deliver(&mut script), (1, 0));
        }
    }
}

#[test]
fn a_producer_that_was_fenced_after_its_commit_learns_of_it_at_the_next_begin() {
    for level in [1, 2] {
        let (mut script, id) = committing(level);
        let again = lose(&mut script);
        reply(&mut script, &again, ErrorCode::PRODUCER_FENCED, 0);
        assert_eq!(fails(&mut script, id).kind(), Kind::OutcomeUnknown);
        let id = start(&mut script, &Verb::Begin);
        let asked = next(&mut script);
        assert_eq!(name(&asked), ("abort", 0));
        reply(&mut script, &asked, ErrorCode::PRODUCER_FENCED, 0);
        assert_eq!(fails(&mut script, id).kind(), Kind::Fenced);
    }
}

#[test]
fn a_commit_under_way_is_unknown_when_the_producer_is_closed() {
    for level in [1, 2] {
        let (mut script, id) = committing(level);
        next(&mut script);
        script
            .engine
            .close(script.now, &crate::engine::closed_error());
        assert_eq!(
            end(&mut script, id).unwrap_err().kind(),
            Kind::OutcomeUnknown
        );
    }
}

#[test]
fn a_refusal_of_the_only_attempt_is_what_it_was() {
    for level in [1, 2] {
        for code in REFUSALS {
            let (mut script, id) = committing(level);
            let asked = next(&mut script);
            reply(&mut script, &asked, code, 0);
            let error = fails(&mut script, id);
            assert!(!error.may_have_been_done(), "{code}: {error}");
        }
    }
}

#[test]
fn partitions_whose_first_request_was_lost_need_the_next_epoch() {
    let mut script = begun(1);
    try_send(&mut script, 0).unwrap();
    let asked = next(&mut script);
    assert_eq!(name(&asked).0, "add partitions");
    script.cut(asked.link);
    let again = later(&mut script, Duration::from_secs(2)).remove(0);
    reply(&mut script, &again, ErrorCode::INVALID_TXN_STATE, 0);
    script.run();
    let id = start(&mut script, &Verb::Abort);
    let asked = next(&mut script);
    assert_eq!(name(&asked), ("abort", 0));
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    let bump = next(&mut script);
    assert_eq!(
        name(&bump),
        ("init", 0),
        "the lost request may still arrive"
    );
    reply(&mut script, &bump, ErrorCode::NONE, 1);
    script.run();
    end(&mut script, id).unwrap();
}

#[test]
fn an_abort_after_a_commit_that_was_carried_out_is_no_success() {
    for level in [1, 2] {
        let (mut script, id) = committing(level);
        assert_eq!(name(&next(&mut script)), ("commit", 0));
        later(&mut script, MINUTE);
        assert_eq!(
            end(&mut script, id).unwrap_err().kind(),
            Kind::OutcomeUnknown
        );

        let id = start(&mut script, &Verb::Abort);
        let asked = later(&mut script, Duration::from_millis(500)).remove(0);
        assert_eq!(name(&asked), ("abort", 0));
        reply(&mut script, &asked, ErrorCode::INVALID_TXN_STATE, 0);
        let error = fails(&mut script, id);
        assert_eq!(error.kind(), Kind::Argument, "{error}");
        assert!(error.message().contains("was carried out"), "{error}");
        // The second abort sends no request for the outcome.
        let id = start(&mut script, &Verb::Abort);
        assert!(script.run().is_empty());
        let error = end(&mut script, id).unwrap_err();
        assert!(error.message().contains("was carried out"), "{error}");

        let id = start(&mut script, &Verb::Begin);
        let asked = later(&mut script, Duration::from_millis(500)).remove(0);
        assert_eq!(
            name(&asked),
            ("abort", 0),
            "a commit that is still on its way must find another epoch"
        );
        reply(&mut script, &asked, ErrorCode::INVALID_TXN_STATE, 0);
        let bump = next(&mut script);
        assert_eq!(name(&bump), ("init", 0));
        reply(&mut script, &bump, ErrorCode::NONE, 1);
        script.run();
        end(&mut script, id).unwrap();
        assert_eq!(deliver(&mut script), (1, 0));
    }
}

#[test]
fn a_next_epoch_whose_request_fails_without_a_code_can_be_requested_again() {
    let (mut script, id) = committing(1);
    later(&mut script, MINUTE);
    assert_eq!(
        end(&mut script, id).unwrap_err().kind(),
        Kind::OutcomeUnknown
    );
    let id = start(&mut script, &Verb::Begin);
    let asked = later(&mut script, Duration::from_millis(500)).remove(0);
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    let bump = next(&mut script);
    assert_eq!(name(&bump), ("init", 0));
    reply(&mut script, &bump, ErrorCode::UNKNOWN_SERVER_ERROR, 0);
    let error = fails(&mut script, id);
    assert!(error.message().contains("begin_transaction"), "{error}");
    let id = start(&mut script, &Verb::Begin);
    let asked = later(&mut script, Duration::from_millis(500)).remove(0);
    assert_eq!(name(&asked), ("abort", 0));
    reply(&mut script, &asked, ErrorCode::INVALID_TXN_STATE, 0);
    let bump = next(&mut script);
    assert_eq!(name(&bump), ("init", 0));
    reply(&mut script, &bump, ErrorCode::NONE, 1);
    script.run();
    end(&mut script, id).unwrap();
    assert_eq!(deliver(&mut script), (1, 0));
}
