//! Changes that the controller makes: the meaning of its responses, and which errors are retried.

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

/// The result in the controller's row about a topic. `earlier` is what an earlier attempt of the
/// call may have done to the topic, if that would explain the code: it is not known whether that
/// attempt or another client did it.
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
