//! Acknowledgements of acquired records, and their results.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;

use crate::error::Error;
use crate::share::runs::Runs;

/// A caller's acknowledgement of a record that it acquired (KIP-932, KIP-1222).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AcknowledgeType {
    /// It was processed.
    Accept,
    /// It was not, and another delivery may do better.
    Release,
    /// It can never be processed: it is not delivered again.
    Reject,
    /// It takes longer: its lock is renewed.
    Renew,
}

impl AcknowledgeType {
    /// The name in lower case, as Kafka's tools write it.
    pub fn name(self) -> &'static str {
        match self {
            AcknowledgeType::Accept => "accept",
            AcknowledgeType::Release => "release",
            AcknowledgeType::Reject => "reject",
            AcknowledgeType::Renew => "renew",
        }
    }

    /// The type with this name.
    pub fn parse(name: &str) -> Option<AcknowledgeType> {
        let all = [Self::Accept, Self::Release, Self::Reject, Self::Renew];
        all.into_iter().find(|it| it.name() == name)
    }
}

/// What is sent to brokers about offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is no record, or none that consumers see.
    Gap,
    Of(AcknowledgeType),
}

impl Verdict {
    pub(super) const RENEW: Verdict = Verdict::Of(AcknowledgeType::Renew);

    /// Its number in requests.
    pub(super) fn number(self) -> i8 {
        match self {
            Verdict::Gap => 0,
            Verdict::Of(AcknowledgeType::Accept) => 1,
            Verdict::Of(AcknowledgeType::Release) => 2,
            Verdict::Of(AcknowledgeType::Reject) => 3,
            Verdict::Of(AcknowledgeType::Renew) => 4,
        }
    }
}

/// The lock of the records of one partition in one response. An acknowledgement of records counts
/// only for the lock under which they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId(pub(super) u64);

/// A partition by its topic's id and its number.
pub(super) type Key = (Uuid, i32);

/// A pending acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) verdict: Verdict,
    pub(super) lock: LockId,
    /// Commits of this number and later ones wait for it.
    pub(super) turn: u64,
    /// It is worth nothing afterwards: the lock ends, or the time to retry.
    pub(super) until: Instant,
}

/// Acknowledgements by partition.
pub(super) type ByPartition = std::collections::BTreeMap<Key, Runs<Pending>>;

/// How the acknowledgement of some records ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Acknowledged {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
    /// The acknowledgement; `None` for offsets without a record.
    pub kind: Option<AcknowledgeType>,
    /// Why it does not count, or is not known to.
    pub error: Option<Error>,
}
