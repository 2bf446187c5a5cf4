//! The meaning of a coordinator's error for a member, and the advice for the caller.

use std::sync::Arc;

use ottla_protocol::{ApiKey, ErrorCode};

use crate::error::{Error, Kind};

/// The consequence of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// Another broker coordinates the group, or will.
    Elsewhere,
    /// The same again after a pause.
    Again,
    /// The member joins the running rebalance.
    Rejoin,
    /// The group continues without the member, which rejoins; it keeps its id.
    LoseGeneration,
    /// As above, and its id is no longer valid.
    LoseId,
    /// A caller has to act, and may: the member tries again.
    Tell,
    /// Nothing helps but another client.
    End,
}

pub(crate) fn consequence(error: &Error) -> Consequence {
    match error.code() {
        Some(ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE) => {
            Consequence::Elsewhere
        }
        Some(ErrorCode::REBALANCE_IN_PROGRESS) => Consequence::Rejoin,
        Some(ErrorCode::ILLEGAL_GENERATION | ErrorCode::FENCED_MEMBER_EPOCH) => {
            Consequence::LoseGeneration
        }
        // The next heartbeat brings the epoch.
        Some(ErrorCode::STALE_MEMBER_EPOCH) => Consequence::Again,
        Some(ErrorCode::UNKNOWN_MEMBER_ID) => Consequence::LoseId,
        Some(ErrorCode::FENCED_INSTANCE_ID) => Consequence::End,
        Some(_) if error.is_retriable() => Consequence::Again,
        None if error.is_retriable() => Consequence::Elsewhere,
        _ => Consequence::Tell,
    }
}

/// The consequence of an error for a client that is a member already.
pub(crate) fn consequence_inside(error: &Error) -> Consequence {
    match error.code() {
        // The group is gone, or is of another type: a join recreates it, or returns the error of
        // its type.
        Some(ErrorCode::GROUP_ID_NOT_FOUND) => Consequence::LoseId,
        _ => consequence(error),
    }
}

const NO_CONSUMER_PROTOCOL: &str = "groups of the consumer protocol need Kafka 4.0 or newer, with group.version=1 at \
    least and consumer in group.coordinator.rebalance.protocols: set group.protocol=classic or auto";

/// Whether a member that takes the consumer protocol where it can be had joins with the classic one instead: the cluster does not
/// serve it, or the group has members whom it cannot take over.
pub(super) fn is_without_consumer_protocol(error: &Error) -> bool {
    match error.code() {
        Some(code) => matches!(
            code,
            ErrorCode::UNSUPPORTED_VERSION | ErrorCode::GROUP_ID_NOT_FOUND
        ),
        None => error.kind() == Kind::Unsupported,
    }
}

/// The coordinator is to match topics, and the protocol has no such thing.
pub(crate) fn no_regex() -> Error {
    let text = "a SubscriptionPattern is matched by the group's coordinator, which needs group.protocol=consumer or auto, and brokers \
                of Kafka 4.0 or newer: subscribe to re.compile(...) instead";
    Error::new(Kind::Argument, text)
}

/// A commit into ZooKeeper names no member, so that nothing would keep who was replaced from committing.
pub(crate) fn no_members() -> Error {
    let text = "with offsets.storage=zookeeper a consumer is no member of its group, and nothing is assigned to it: assign partitions, \
                or leave the property out";
    Error::new(Kind::Argument, text)
}

pub(crate) fn no_metadata() -> Error {
    let text = "ZooKeeper keeps no metadata of an offset: commit without it, or leave offsets.storage=zookeeper out";
    Error::new(Kind::Argument, text)
}

/// The error that polls raise.
pub(super) fn explained(error: Error, assignors: &[Arc<str>]) -> Error {
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
        Some(ErrorCode::UNRELEASED_INSTANCE_ID) => error.adding(
            "another member has the same group.instance.id: close it, or wait until the brokers' group.consumer.session.timeout.ms is \
             over if it was killed; this member tries again",
        ),
        Some(ErrorCode::UNSUPPORTED_ASSIGNOR) => error.adding(
            "group.remote.assignor must be one of the brokers' group.consumer.assignors, such as uniform or range",
        ),
        Some(ErrorCode::INVALID_REGULAR_EXPRESSION) => error.adding(
            "a SubscriptionPattern must be a regular expression of RE2, which the brokers read",
        ),
        Some(ErrorCode::GROUP_ID_NOT_FOUND) => error.adding(
            "the group has members of another protocol, whom the brokers cannot take over (group.consumer.migration.policy): set \
             group.protocol=classic, or give this member another group.id",
        ),
        Some(ErrorCode::UNSUPPORTED_VERSION) => error.adding(NO_CONSUMER_PROTOCOL),
        None if error.api() == Some(ApiKey::ConsumerGroupHeartbeat.name())
            && error.kind() == Kind::Unsupported =>
        {
            error.adding(NO_CONSUMER_PROTOCOL)
        }
        Some(ErrorCode::FENCED_INSTANCE_ID) => error.wrap(
            Kind::Fenced,
            "another member has the same group.instance.id: give each member its own, and make a new consumer",
        ),
        _ => error,
    }
}

/// A commit of a client that is not a member at the moment.
pub(super) fn not_a_member(group: &Arc<str>) -> Error {
    let text = "nothing was committed: this consumer is not a member of the group at the moment. Poll to join it";
    Error::new(Kind::CommitFailed, text).with_group(group)
}

/// A commit while the partitions are revoked for a rebalance.
pub(super) fn rebalancing(group: &Arc<str>) -> Error {
    let text =
        "nothing was committed: the group rebalances. Poll, and commit what is assigned then";
    Error::new(Kind::CommitFailed, text).with_group(group)
}

/// A commit that was not sent before its partitions were revoked.
pub(super) fn given_up(group: &Arc<str>) -> Error {
    let text = "partitions of this commit were revoked for other members before it could be sent, and are read from the last commit \
                on: poll, and commit what is assigned then";
    Error::new(Kind::CommitFailed, text).with_group(group)
}

/// A method that needs a group was called on a consumer without one.
pub(crate) fn no_group(what: &str) -> Error {
    let text = format!("{what} needs a consumer group: make the consumer with group_id=...");
    Error::new(Kind::Argument, text)
}
