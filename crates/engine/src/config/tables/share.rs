//! The properties that only a share consumer has (KIP-932).

macro_rules! share {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* SHARE_CONSUMER {
        /// How records are acknowledged: implicit, where the next poll or commit accepts what the last one returned; or explicit,
        /// where the application acknowledges each record before it polls again.
        "share.acknowledgement.mode" => share_acknowledgement_mode: AcknowledgementMode = "implicit", choice(
            "implicit" => AcknowledgementMode::Implicit,
            "explicit" => AcknowledgementMode::Explicit
        );
        /// How many records a broker returns at once: whole batches, so that it may be more than max.poll.records
        /// (batch_optimized); or never more than that, from one broker after the other (record_limit, KIP-1206; brokers
        /// since Kafka 4.2).
        "share.acquire.mode" => share_acquire_mode: AcquireMode = "batch_optimized", choice(
            "batch_optimized" => AcquireMode::BatchOptimized,
            "record_limit" => AcquireMode::RecordLimit
        );
    } } };
}
pub(in crate::config) use share;

/// How records are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcknowledgementMode {
    /// The next poll or commit accepts what the last poll returned.
    #[default]
    Implicit,
    /// The application acknowledges each record explicitly.
    Explicit,
}

/// How many records a broker gives at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole batches.
    #[default]
    BatchOptimized,
    /// As many as were asked for at most.
    RecordLimit,
}
