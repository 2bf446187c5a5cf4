//! Changes that the controller makes: what its answers say, and which of them are retried.

use ottla_protocol::ErrorCode;

use super::TopicKey;
use super::interface::Retry;
use crate::error::Error;

/// A change is retried if another broker is the controller, or if the controller wants it later (KIP-599).
pub(crate) fn retry(error: &Error) -> Retry {
    Retry::after_pause_if(matches!(
        error.code(),
        Some(ErrorCode::NOT_CONTROLLER | ErrorCode::THROTTLING_QUOTA_EXCEEDED)
    ))
}

/// What the controller's row says about a topic. `earlier` is what an earlier attempt of the call may have done to it, if that
/// would explain the code: whether that attempt or somebody else did it is not known.
pub(crate) fn result(
    topic: &TopicKey,
    code: ErrorCode,
    text: Option<&str>,
    earlier: Option<&str>,
) -> Result<(), Error> {
    if !code.is_error() {
        return Ok(());
    }
    let error = topic.blame(Error::from_code(code, text));
    Err(match earlier {
        Some(done) => error.adding(format_args!(
            "an earlier attempt of this call may have {done} it"
        )),
        None => error,
    })
}
