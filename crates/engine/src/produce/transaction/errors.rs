//! The meaning of an error for a transaction (KIP-1050), and the advice in its text.

use ottla_protocol::ErrorCode;

use super::prepared::PreparedTransaction;
use crate::error::{Error, Kind};

/// The possible steps after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The transaction can be aborted, and another one begun.
    Abortable,
    /// The identity belongs to another producer, or the coordinator ended the transaction: nothing, but to close.
    Fenced,
    /// Nothing, but to make a new producer.
    Fatal,
}

pub(super) fn severity(error: &Error) -> Severity {
    if error.kind() == Kind::Unsupported {
        return Severity::Fatal;
    }
    match error.code() {
        Some(ErrorCode::PRODUCER_FENCED) => Severity::Fenced,
        // A partition's leader may only lag behind: the coordinator's response to the abort that
        // follows is reliable.
        Some(ErrorCode::INVALID_PRODUCER_EPOCH) if error.api() != Some("Produce") => {
            Severity::Fenced
        }
        Some(
            // The principal may not have transactions of this id.
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ) => Severity::Fatal,
        // The coordinator has forgotten the transactional id, so there is nothing that it could abort.
        Some(ErrorCode::INVALID_PRODUCER_ID_MAPPING | ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)
            if error.api() != Some("Produce") =>
        {
            Severity::Fatal
        }
        _ => Severity::Abortable,
    }
}

/// Whether the coordinator may still do as requested after this error: it did not respond, it may have carried
/// out the request, or the login was refused, which an administrator can mend.
pub(super) fn may_pass(error: &Error) -> bool {
    let silent = error.code().is_none() && error.kind() != Kind::Unsupported;
    let unknown = error.may_have_been_done() && severity(error) == Severity::Abortable;
    error.is_retriable() || silent || error.is_refusal() || unknown
}

/// The transaction can only be aborted.
pub(super) fn abortable(cause: Error, what: &str) -> Error {
    let text = format!(
        "{what}, so that the transaction can only be aborted: call abort_transaction(), and do its work again in another one"
    );
    cause.wrap(Kind::Abortable, text).with_retriable(false)
}

/// Another producer took over.
pub(super) fn fenced(cause: Error, id: &str, two_phase: bool) -> Error {
    let otherwise = if two_phase {
        "an administrator ended its transaction"
    } else {
        "a transaction was open for longer than transaction.timeout.ms and its coordinator aborted it"
    };
    let text = format!(
        "this producer is fenced: another one with transactional.id={id} took over, or {otherwise}. Close this producer; if \
         no other one is meant to run, make a new one"
    );
    cause.wrap(Kind::Fenced, text).with_retriable(false)
}

/// The producer cannot continue with any transaction.
pub(super) fn fatal(cause: Error, two_phase: bool) -> Error {
    let rest = what_stays_open(two_phase);
    let text = format!(
        "this producer can have no further transaction: close it, mend the cause, and make a new one. {rest}"
    );
    cause.wrap(Kind::Fatal, text).with_retriable(false)
}

/// What happens to a transaction that its producer does not end.
fn what_stays_open(two_phase: bool) -> &'static str {
    if two_phase {
        "What is open stays so, and holds back readers of what is committed: a new producer ends it with \
         complete_transaction(), or Admin.force_terminate_transaction() aborts it"
    } else {
        "The coordinator aborts what is open, at the latest after transaction.timeout.ms"
    }
}

/// A record that was not sent before its transaction was aborted. The producer continues: it is an
/// error of the transaction alone (KIP-654).
pub(super) fn aborted() -> Error {
    Error::new(
        Kind::Abortable,
        "the transaction was aborted before the record was delivered",
    )
}

/// A commit that the coordinator did not confirm, and that it may have carried out.
pub(super) fn outcome_unknown(cause: Error) -> Error {
    let text = "whether the transaction was committed is not known: its coordinator did not confirm the commit, and may have \
                carried it out. The next begin_transaction() settles it first, and a log line reports how it ended; until that \
                is known, do its work again only if doing it twice does no harm";
    cause.wrap(Kind::OutcomeUnknown, text).with_retriable(false)
}

/// The producer was closed while its coordinator was requested to commit.
pub(super) fn closed_in_commit(cause: Error) -> Error {
    let text = "whether the transaction was committed is not known: the producer was closed before its coordinator confirmed \
                the commit";
    cause.wrap(Kind::OutcomeUnknown, text).with_retriable(false)
}

/// An abort did not end in time.
pub(super) fn not_aborted(cause: Option<Error>, two_phase: bool) -> Error {
    let rest = what_stays_open(two_phase);
    let text = format!(
        "the transaction is not known to be aborted yet: call abort_transaction() or begin_transaction() again, which end it \
         first. {rest}"
    );
    match cause {
        // The same call helps when the login works again.
        Some(cause) if cause.is_refusal() => {
            let kind = cause.kind();
            cause.wrap(kind, text)
        }
        Some(cause) => cause.wrap(Kind::Timeout, text).with_retriable(true),
        None => Error::new(Kind::Timeout, text),
    }
}

/// The deadline of a commit, or of a prepare, passed before all records were delivered.
pub(super) fn not_flushed(prepares: bool) -> Error {
    let call = if prepares {
        "prepare_transaction()"
    } else {
        "commit_transaction()"
    };
    let text = format!(
        "records of the transaction are still undelivered, and it is still open: call {call} again to wait longer, or \
         abort_transaction()"
    );
    Error::new(Kind::Timeout, text)
}

/// The caller gave no time at all.
pub(super) fn no_time() -> Error {
    Error::new(
        Kind::Timeout,
        "the time was up before the coordinator was asked: give the call more time",
    )
}

/// No identity in time, or none at all.
pub(super) fn not_initialised(cause: Error, two_phase: bool, keeps: bool) -> Error {
    if two_phase && cause.kind() == Kind::Unsupported {
        return cause.wrap(Kind::Unsupported, NO_TWO_PHASES);
    }
    let kind = cause.kind();
    let text = match cause.code() {
        Some(ErrorCode::UNSUPPORTED_VERSION) if keeps => {
            return cause.wrap(Kind::Unsupported, KEEPS_NOTHING);
        }
        Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED) if two_phase => {
            "two-phase commits (KIP-939) are not allowed: the brokers need transaction.two.phase.commit.enable=true, and the \
             principal the permissions WRITE and TWO_PHASE_COMMIT on the transactional.id"
        }
        Some(ErrorCode::INVALID_TRANSACTION_TIMEOUT) => {
            "transaction.timeout.ms is larger than the brokers allow (transaction.max.timeout.ms)"
        }
        _ => "the producer's transactions could not be initialised",
    };
    cause.wrap(kind, text)
}

/// The advice for brokers that lack the version of InitProducerId for two-phase commits.
const NO_TWO_PHASES: &str = "the brokers have no two-phase commits (KIP-939): these need Kafka 4.4 or newer, with \
    transaction.two.phase.commit.enable=true and, as long as they are not final there, unstable.api.versions.enable=true";

/// Kafka 4.4 has only the first half of KIP-939.
const KEEPS_NOTHING: &str = "the brokers cannot hand a prepared transaction to another producer: Kafka 4.4 has two-phase \
    commits (KIP-939) without that. The transaction stays open until the producer that prepared it ends it, or \
    Admin.force_terminate_transaction() or init_transactions() aborts it";

/// The producer commits in one phase.
pub(super) fn one_phase() -> Error {
    Error::new(
        Kind::Config,
        "to prepare a transaction, or to complete a prepared one, the producer needs \
         transaction.two.phase.commit.enable=true (KIP-939)",
    )
}

/// The cluster has the first protocol of transactions only.
pub(super) fn names_repeat() -> Error {
    Error::new(
        Kind::Unsupported,
        "a transaction is prepared only where each has an epoch of its own: brokers need transaction.version=2 (KIP-890; \
         kafka-features.sh upgrade --feature transaction.version=2)",
    )
}

/// Nothing but its end may follow.
pub(super) fn prepared() -> Error {
    Error::new(
        Kind::Argument,
        "the transaction is prepared, and only its end may follow: call commit_transaction(), abort_transaction() or \
         complete_transaction()",
    )
}

/// An open transaction is not prepared.
pub(super) fn not_prepared() -> Error {
    Error::new(
        Kind::Argument,
        "the open transaction is not prepared: call prepare_transaction() first, or end it with commit_transaction() or \
         abort_transaction()",
    )
}

/// The other end was requested before, and may have been carried out.
pub(super) fn decided(token: PreparedTransaction, commits: bool) -> Error {
    let text = format!(
        "the coordinator was asked to {} the prepared transaction {token} before, and may have done so: the same must be asked \
         again",
        if commits { "commit" } else { "abort" }
    );
    Error::new(Kind::Argument, text)
}

/// The end of a prepared transaction was not confirmed.
pub(super) fn not_completed(cause: Error, commits: bool) -> Error {
    let end = if commits { "committed" } else { "aborted" };
    let text = format!(
        "whether the prepared transaction was {end} is not known: its coordinator did not confirm that, and may have done it. \
         Make the same call again, here or in another process; it does no harm twice"
    );
    cause.wrap(Kind::OutcomeUnknown, text).with_retriable(false)
}

/// The end of a prepared transaction was not confirmed, and this producer cannot request it again. `cause` is what ends the
/// producer.
pub(super) fn never_completed(cause: Error, commits: bool) -> Error {
    let end = if commits { "committed" } else { "aborted" };
    let text = format!(
        "whether the prepared transaction was {end} is not known: an earlier attempt may have done it, and this producer cannot \
         find out"
    );
    cause.wrap(Kind::OutcomeUnknown, text).with_retriable(false)
}

/// The login was refused before the end of a prepared transaction was requested.
pub(super) fn still_prepared(cause: Error) -> Error {
    let kind = cause.kind();
    let text = "the transaction is still prepared: make the same call again when the login works";
    cause.wrap(kind, text)
}

/// There is nothing to send to, to commit or to abort.
pub(super) fn none_open() -> Error {
    Error::new(
        Kind::Argument,
        "no transaction is open, and a producer with a transactional.id sends only inside of one: call begin_transaction() \
         first, or write `with producer.transaction():`",
    )
}

/// An abort came after a commit that was carried out, and whose response was lost.
pub(super) fn was_committed() -> Error {
    Error::new(
        Kind::Argument,
        "there is nothing to abort: the last commit was carried out, though its response was lost. Do not do its work again; \
         begin_transaction() begins the next transaction",
    )
}

/// Another one must end first.
pub(super) fn still_open() -> Error {
    Error::new(
        Kind::Argument,
        "a transaction is open: call commit_transaction() or abort_transaction() first",
    )
}

/// A record comes too late.
pub(super) fn ending() -> Error {
    Error::new(
        Kind::Argument,
        "the transaction is being ended: send before commit_transaction() is called, or in the next transaction",
    )
}

/// The producer has no transactional id.
pub(crate) fn no_id() -> Error {
    Error::new(
        Kind::Config,
        "transactions need a transactional.id: make the producer with one that no other running producer has",
    )
}
