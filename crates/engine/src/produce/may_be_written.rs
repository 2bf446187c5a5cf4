//! Whether a batch can be in the log after its leader responded with a code: the basis for
//! `written` of a failed record.
//!
//! A leader refuses most batches before it appends anything. But it also responds late, when
//! followers have a batch, or when they did not get it in time; and an error of its disk may come
//! after some or all of the bytes were written.

use ottla_protocol::ErrorCode;

/// Whether a batch can be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayBeWritten {
    /// It is.
    Written,
    /// This attempt surely did not write it.
    Unwritten,
    /// It may be.
    Unsure,
    /// It may be, if the leader responds only when followers have it too: then it can lose its
    /// leadership after it appended the batch.
    UnsureIfAwaited,
}

impl MayBeWritten {
    /// Whether this attempt may have written the batch. `awaits_followers` is whether the leader
    /// responds only when followers have it.
    pub(super) fn is_unsure(self, awaits_followers: bool) -> bool {
        match self {
            MayBeWritten::Written | MayBeWritten::Unwritten => false,
            MayBeWritten::Unsure => true,
            MayBeWritten::UnsureIfAwaited => awaits_followers,
        }
    }
}

/// What this code means for the attempt that it belongs to. Earlier attempts are another matter.
pub(super) fn may_be_written(code: ErrorCode) -> MayBeWritten {
    match code {
        // Appended now, or by an earlier attempt whose numbers the leader remembers.
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => MayBeWritten::Written,

        // The leader appended it, and then waited for followers without success.
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND | ErrorCode::REQUEST_TIMED_OUT => {
            MayBeWritten::Unsure
        }
        // Reading or writing the log failed, before, during or after the append.
        ErrorCode::KAFKA_STORAGE_ERROR => MayBeWritten::Unsure,
        // Anything went wrong, anywhere.
        ErrorCode::UNKNOWN_SERVER_ERROR => MayBeWritten::Unsure,
        // A proxy or a broker lost another broker's response.
        ErrorCode::NETWORK_EXCEPTION => MayBeWritten::Unsure,
        // Not the leader when the request came, or no longer when followers had the batch.
        ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::BROKER_NOT_AVAILABLE => MayBeWritten::UnsureIfAwaited,

        // The topic is not here. If it was when the batch came, its log was deleted since.
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::INCONSISTENT_TOPIC_ID
        | ErrorCode::INVALID_TOPIC_EXCEPTION => MayBeWritten::Unwritten,
        // The request was refused as a whole.
        ErrorCode::INVALID_REQUIRED_ACKS
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::THROTTLING_QUOTA_EXCEEDED
        | ErrorCode::ILLEGAL_SASL_STATE => MayBeWritten::Unwritten,
        // The principal is checked before the log is touched.
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => MayBeWritten::Unwritten,
        // So are followers: with too few in sync nothing is appended.
        ErrorCode::NOT_ENOUGH_REPLICAS => MayBeWritten::Unwritten,
        // The batch itself is checked, and refused as a whole.
        ErrorCode::CORRUPT_MESSAGE
        | ErrorCode::INVALID_RECORD
        | ErrorCode::INVALID_TIMESTAMP
        | ErrorCode::MESSAGE_TOO_LARGE
        | ErrorCode::RECORD_LIST_TOO_LARGE
        | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
        | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
        | ErrorCode::POLICY_VIOLATION => MayBeWritten::Unwritten,
        // Its numbers and its producer are checked against what the leader remembers, before the append.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
        | ErrorCode::UNKNOWN_PRODUCER_ID
        | ErrorCode::INVALID_PRODUCER_EPOCH
        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
        | ErrorCode::PRODUCER_FENCED
        | ErrorCode::FENCED_LEADER_EPOCH => MayBeWritten::Unwritten,
        // So is its transaction, which the leader verifies with the coordinator (KIP-890).
        ErrorCode::INVALID_TXN_STATE
        | ErrorCode::CONCURRENT_TRANSACTIONS
        | ErrorCode::TRANSACTION_ABORTABLE
        | ErrorCode::TRANSACTIONAL_ID_NOT_FOUND
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::NOT_COORDINATOR => MayBeWritten::Unwritten,

        // Nothing is known about what a broker means by it.
        _ => MayBeWritten::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that Kafka's ProduceResponse names, and what a leader forwards from a coordinator.
    #[test]
    fn only_what_is_checked_before_the_append_is_surely_unwritten() {
        let sure = |code: i16| !may_be_written(ErrorCode(code)).is_unsure(true);
        let unsure: Vec<_> = (-1..=133).filter(|code| !sure(*code)).collect();
        for code in [-1, 5, 6, 7, 8, 13, 20, 56, /* new ones */ 132, 133] {
            assert!(unsure.contains(&code), "{code}");
        }
        for code in [
            0, 2, 3, 10, 17, 18, 19, 21, 29, 31, 32, 43, 45, 46, 47, 48, 49, 51, 53, 59, 87, 90,
            100, 103, 120,
        ] {
            assert!(sure(code), "{code}");
        }
        // What only a wait for followers makes doubtful.
        let awaited: Vec<_> = unsure
            .iter()
            .filter(|code| !may_be_written(ErrorCode(**code)).is_unsure(false))
            .collect();
        assert_eq!(awaited, [&5, &6, &8]);
    }
}
