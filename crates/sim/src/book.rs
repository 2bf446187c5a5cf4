//! The records of a run, and its clock.

use std::time::{Duration, Instant};

use ottla_engine::ErrorCode;
use ottla_engine::observe::Observed;

use crate::history::History;
use crate::tally::Tally;
use crate::trace::Trace;

/// The clock, and the records of a run.
#[derive(Debug)]
pub struct Book {
    /// When the run began. Only differences from it are ever shown.
    base: Instant,
    /// Now.
    pub now: Instant,
    /// The history for the checker.
    pub history: History,
    /// The trace for people.
    pub trace: Trace,
    /// The faults and states that were met.
    pub tally: Tally,
    /// Calls that ended, and for which the cluster's own state is not written down yet.
    pub unproven: Vec<usize>,
}

impl Book {
    /// A run that begins now. An `Instant` comes from nowhere but the clock; which one it is makes no difference.
    #[allow(clippy::disallowed_methods, reason = "it only has to be some time")]
    pub fn new(trace: bool) -> Book {
        let base = Instant::now();
        Book {
            base,
            now: base,
            history: History::default(),
            trace: Trace::new(trace),
            tally: Tally::default(),
            unproven: Vec::new(),
        }
    }

    /// How long the run has been going on.
    pub fn at(&self) -> Duration {
        self.now.saturating_duration_since(self.base)
    }

    /// The moment that is this far after the beginning.
    pub fn moment(&self, at: Duration) -> Instant {
        self.base + at
    }

    /// How far a moment is after the beginning.
    pub fn since(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.base)
    }

    /// Writes a line of the trace.
    pub fn say(&mut self, who: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.trace.say(self.at(), who, what);
    }

    /// Writes down what a client observed.
    pub fn observe(&mut self, who: &str, event: &Observed) {
        let state = match event {
            Observed::Connected { .. } => "client: connected",
            Observed::ConnectFailed { .. } => "client: could not connect",
            Observed::Disconnected { .. } => "client: disconnected",
            Observed::Throttled { .. } => "client: throttled",
            Observed::Retried { .. } => "client: retried",
            Observed::Rebootstrapped { .. } => "client: began again at the bootstrap servers",
            Observed::LeaderMoved { .. } => "client: saw a leader move",
            Observed::PartitionsAdded { .. } => "client: saw partitions added",
            Observed::TopicRecreated { .. } => "client: saw a recreated topic",
            Observed::TopicMissing { .. } => "client: missed a topic",
            Observed::OffsetReset { .. } => "client: reset an offset",
            Observed::LogTruncated { .. } => "client: learned that a log was truncated",
            Observed::PartitionStuck { .. } => "client: could not read on without a seek",
            Observed::PartitionDenied { .. } => "client: was denied a partition, and retried",
            Observed::BatchFailed { .. } => "client: gave a batch up",
            Observed::IdempotenceOff { .. } => "client: did without idempotence",
            Observed::ProducerIdentified { .. } => "client: got a producer id",
            Observed::TransactionProtocolChosen { .. } => {
                "client: chose a protocol of transactions"
            }
            Observed::TransactionSettled { .. } => "client: learned how a transaction ended",
            Observed::VersionsAssumed { .. } => "client: assumed a release",
            Observed::GroupJoined { .. } => "member: joined a generation",
            Observed::Rebalancing { .. } => "member: was to join again",
            Observed::MembershipLost { .. } => "member: was expelled",
            Observed::CommitFailed { .. } => "member: a commit that nobody waited for failed",
            _ => "client: observed something else",
        };
        self.tally.meet(state);
        if let Observed::Retried { cause, .. } = event {
            if cause.code() == Some(ErrorCode::MESSAGE_TOO_LARGE) {
                self.tally.meet("client: split a batch");
            }
            if cause.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) {
                let state = "client: did not believe at once that an offset is out of range";
                self.tally.meet(state);
            }
        }
        self.say(who, event);
    }
}
