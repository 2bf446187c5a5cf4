//! The errors of acknowledgements that do not count, or whose result is unknown.

use ottla_protocol::ErrorCode;

use crate::error::{Error, Kind};

pub(super) fn not_held(first: i64, last: i64) -> Error {
    let text = format!(
        "the records from offset {first} to {last} cannot be acknowledged: some are acknowledged, or their lock ended"
    );
    Error::new(Kind::Argument, text)
}

/// It was not sent in time: the records came again before.
pub(super) fn came_anew() -> Error {
    let text =
        "the lock had ended before the acknowledgement was sent: the records are delivered again";
    Error::new(Kind::Broker, text)
}

/// An acknowledgement that surely does not count: the broker releases the records of a connection
/// when it ends.
pub(super) fn lost(cause: Error) -> Error {
    cause.adding("the acknowledgement was not sent, and the lock ended with the session: the records are delivered again")
}

/// It is unknown whether it counts.
pub(super) fn unknown(cause: Error) -> Error {
    let text =
        "whether the acknowledgement counts is not known; the records may be delivered again";
    cause.wrap(Kind::OutcomeUnknown, text).with_retriable(false)
}

pub(super) fn explained(error: Error) -> Error {
    match error.code() {
        Some(ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH) => error.adding(
            "the partition has another leader now, which knows nothing of the lock: the records are delivered again",
        ),
        Some(ErrorCode::INVALID_RECORD_STATE) => error.adding(
            "the lock on some of the records had ended before (share.record.lock.duration.ms of the group): they are delivered again, or were; what takes longer is to be renewed",
        ),
        _ => error,
    }
}
