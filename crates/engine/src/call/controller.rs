//! Changes that the controller makes: which of its answers are retried.

use ottla_protocol::ErrorCode;

use crate::error::Error;

/// Whether a change is retried: another broker is the controller, or the controller wants it later (KIP-599).
pub(super) fn is_retried(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::NOT_CONTROLLER | ErrorCode::THROTTLING_QUOTA_EXCEEDED)
    )
}
