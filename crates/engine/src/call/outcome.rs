//! Whether a request that failed may still have been carried out.

use ottla_protocol::ErrorCode;

use crate::error::{Error, Kind};

/// Whether a broker that responds with this error may have carried out the request.
///
/// Brokers return these codes after they have written something, or from a place that does not know whether they have. All
/// other codes of Kafka refuse the request before it changes anything.
pub(super) fn proves_nothing(error: &Error) -> bool {
    match error.code() {
        Some(
            // Any exception, anywhere.
            ErrorCode::UNKNOWN_SERVER_ERROR
            // The broker waited for the controller or for replicas, which may still carry it out.
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
            // The broker lost the response of another broker.
            | ErrorCode::NETWORK_EXCEPTION
            // The disk failed before, during or after the write.
            | ErrorCode::KAFKA_STORAGE_ERROR
            // A controller that resigns returns this for changes that it wrote and that its
            // successor may keep.
            | ErrorCode::NOT_CONTROLLER,
        ) => true,
        Some(code) => !ErrorCode::ALL.contains(&code),
        // The response contains nothing about the item, or does not fit the request.
        None => error.kind() == Kind::Protocol,
    }
}
