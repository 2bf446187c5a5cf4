//! What befalls exchanges between clients and brokers, and with which codes a sound broker may refuse them.

use ottla_protocol::{ApiKey, ErrorCode};

use crate::chance::Chance;
use crate::keeper::Trouble;

/// What befalls an exchange, and which: those of admin clients, and of who authenticates, only where there are some.
pub(super) fn exchange(
    chance: &mut Chance,
    has_admins: bool,
    authenticated: bool,
) -> Option<(ApiKey, Trouble)> {
    let of_admins = [
        ApiKey::CreateTopics,
        ApiKey::CreateTopics,
        ApiKey::DeleteTopics,
    ];
    let of_logins = [ApiKey::SaslHandshake, ApiKey::SaslAuthenticate];
    let api = match chance.below(10) {
        0..=2 if has_admins => chance.pick(&of_admins)?,
        3 if authenticated => chance.pick(&of_logins)?,
        _ => of_all(chance)?,
    };
    let trouble = trouble(chance, api)?;
    Some((api, trouble))
}

/// An API that all kinds of clients use, or producers and consumers.
fn of_all(chance: &mut Chance) -> Option<ApiKey> {
    chance.pick(&[
        ApiKey::Produce,
        ApiKey::Produce,
        ApiKey::Produce,
        ApiKey::Fetch,
        ApiKey::Fetch,
        ApiKey::Metadata,
        ApiKey::ListOffsets,
        ApiKey::InitProducerId,
        ApiKey::ApiVersions,
    ])
}

fn trouble(chance: &mut Chance, api: ApiKey) -> Option<Trouble> {
    Some(match chance.below(14) {
        0..=2 => Trouble::Refused(refusal(chance, api)?),
        3 if api == ApiKey::Produce => Trouble::AppliedYet(chance.pick(&[
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ])?),
        3 => Trouble::Bytewise,
        4 => Trouble::Late(chance.millis(10, 12_000)),
        5 => Trouble::CutAfter(chance.below(60)),
        6 => Trouble::Lost,
        7 => Trouble::ClosedBefore,
        8 => Trouble::ClosedAfter,
        9 => Trouble::Silence,
        10 => Trouble::Swallowed,
        11 => Trouble::Twice,
        12 => Trouble::OutOfStep,
        _ => Trouble::Throttled(chance.from_to(1, 3000)),
    })
}

/// A code that a sound broker may refuse a request of this API with.
pub(super) fn refusal(chance: &mut Chance, api: ApiKey) -> Option<ErrorCode> {
    chance.pick(match api {
        ApiKey::Produce => &[
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::MESSAGE_TOO_LARGE,
            ErrorCode::UNKNOWN_PRODUCER_ID,
            ErrorCode::INVALID_RECORD,
            ErrorCode::CORRUPT_MESSAGE,
        ],
        ApiKey::Fetch => &[
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::FENCED_LEADER_EPOCH,
            ErrorCode::UNKNOWN_LEADER_EPOCH,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::OFFSET_NOT_AVAILABLE,
        ],
        ApiKey::Metadata => &[
            ErrorCode::LEADER_NOT_AVAILABLE,
            ErrorCode::REBOOTSTRAP_REQUIRED,
        ],
        ApiKey::ListOffsets => &[
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::LEADER_NOT_AVAILABLE,
            ErrorCode::OFFSET_NOT_AVAILABLE,
        ],
        ApiKey::CreateTopics => &[
            ErrorCode::NOT_CONTROLLER,
            ErrorCode::THROTTLING_QUOTA_EXCEEDED,
            ErrorCode::POLICY_VIOLATION,
            ErrorCode::UNKNOWN_SERVER_ERROR,
        ],
        ApiKey::DeleteTopics => &[
            ErrorCode::NOT_CONTROLLER,
            ErrorCode::THROTTLING_QUOTA_EXCEEDED,
            ErrorCode::TOPIC_DELETION_DISABLED,
        ],
        ApiKey::SaslAuthenticate => &[ErrorCode::SASL_AUTHENTICATION_FAILED],
        ApiKey::InitProducerId => &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::CONCURRENT_TRANSACTIONS,
        ],
        ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn | ApiKey::EndTxn => &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::CONCURRENT_TRANSACTIONS,
        ],
        ApiKey::TxnOffsetCommit => &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
        ],
        ApiKey::FindCoordinator => &[ErrorCode::COORDINATOR_NOT_AVAILABLE],
        _ => &[],
    })
}
