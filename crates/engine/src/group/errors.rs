//! What an error of the coordinator means for a member, and what a caller can do about it.

use std::sync::Arc;

use ottla_protocol::ErrorCode;

use crate::error::{Error, Kind};

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// Another broker coordinates the group, or will.
    Elsewhere,
    /// The same again after a pause.
    Again,
    /// The member joins the rebalance that is under way.
    Rejoin,
    /// The group goes on without the member, which joins anew; it keeps its id.
    LoseGeneration,
    /// As above, and its id means nothing any more.
    LoseId,
    /// A caller has to act, and may: the member tries again.
    Tell,
    /// Nothing helps but another client.
    End,
}

pub(super) fn consequence(error: &Error) -> Consequence {
    match error.code() {
        Some(ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE) => {
            Consequence::Elsewhere
        }
        Some(ErrorCode::REBALANCE_IN_PROGRESS) => Consequence::Rejoin,
        Some(ErrorCode::ILLEGAL_GENERATION) => Consequence::LoseGeneration,
        Some(ErrorCode::UNKNOWN_MEMBER_ID) => Consequence::LoseId,
        Some(ErrorCode::FENCED_INSTANCE_ID) => Consequence::End,
        Some(_) if error.is_retriable() => Consequence::Again,
        None if error.is_retriable() => Consequence::Elsewhere,
        _ => Consequence::Tell,
    }
}

/// The error that polls raise.
pub(super) fn explained(error: Error, assignors: &[&'static str]) -> Error {
    match error.code() {
        Some(ErrorCode::INCONSISTENT_GROUP_PROTOCOL) => {
            let ours = assignors.join(", ");
            error.adding(format!(
                "the other members of the group are no consumers, or know none of this member's assignors ({ours}): set \
                 partition.assignment.strategy to what they have"
            ))
        }
        Some(ErrorCode::INVALID_SESSION_TIMEOUT) => error.adding(
            "session.timeout.ms must lie between the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms",
        ),
        Some(ErrorCode::GROUP_MAX_SIZE_REACHED) => {
            error.adding("the brokers' group.max.size allows no further member")
        }
        Some(ErrorCode::FENCED_INSTANCE_ID) => error.wrap(
            Kind::Fenced,
            "another member has the same group.instance.id: give each member its own, and make a new consumer",
        ),
        _ => error,
    }
}

/// A commit of somebody who is no member at the moment.
pub(super) fn not_a_member(group: &Arc<str>) -> Error {
    let text = "nothing was committed: this consumer is not a member of the group at the moment. Poll to join it";
    Error::new(Kind::CommitFailed, text).group_is(group)
}

/// A commit while the partitions are given up for a rebalance.
pub(super) fn rebalancing(group: &Arc<str>) -> Error {
    let text =
        "nothing was committed: the group rebalances. Poll, and commit what is assigned then";
    Error::new(Kind::CommitFailed, text).group_is(group)
}

/// What needs a group is asked of a consumer without one.
pub(crate) fn no_group(what: &str) -> Error {
    let text = format!("{what} needs a consumer group: make the consumer with group_id=...");
    Error::new(Kind::Argument, text)
}
