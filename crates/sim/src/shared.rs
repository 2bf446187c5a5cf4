//! What happened in share groups, as the checker reads it: the records, acknowledgements and
//! results of applications, and what passed between their clients and brokers.

use std::time::Duration;

use ottla_engine::ErrorCode;
use ottla_engine::share_consumer::AcknowledgeType;

use crate::record::{Place, Value};

/// Offsets of a partition, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The partition.
    pub place: Place,
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
}

/// A leader of a partition from the moment that it knows so: the node, the leader's epoch, and how often the node had died before.
/// Locks are known to no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign {
    /// The node.
    pub node: i32,
    /// The epoch.
    pub epoch: i32,
    /// How often it had died.
    pub deaths: u32,
}

/// A connection, by its number, and the node that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The number.
    pub number: u64,
    /// The node.
    pub node: i32,
}

/// What a request is to a share session: it ends by itself when the connection does on which it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// It begins, in place of one before.
    Begins,
    /// It goes on.
    GoesOn,
    /// It ends.
    Ends,
}

/// The result of an acknowledgement, as reported to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It counts.
    Counts,
    /// It does not, or nobody knows.
    Fails,
}

/// What happened to a member of a share group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
    /// A poll gave out the record at this offset, which was said to be delivered for the so manieth time.
    Given(Place, i64, i16, Value),
    /// It said this of records.
    Said(Range, AcknowledgeType),
    /// It polled or committed: what it had said is for brokers to hear.
    Spoke,
    /// The result of an acknowledgement was reported, for records that it had been given or had
    /// not.
    Told(Range, Option<AcknowledgeType>, Outcome),
    /// It begins to leave: locks that were to be renewed end.
    Leaves,
    /// It left its group; `true` if it did so in time.
    Left(bool),
    /// Its process ended at once.
    Died,
    /// Its engine reports that the group continued without it.
    Expelled,
    /// A broker took a request of this number.
    Took {
        /// The request.
        number: usize,
        /// The connection that it came on.
        wire: Wire,
        /// What is said of which records, by Kafka's numbers.
        said: Vec<(Range, i8)>,
        /// Whether a session begins or ends with it.
        session: Session,
    },
    /// A broker responded to it: the code for the whole, and those of the acknowledged partitions.
    Answered {
        /// The request.
        number: usize,
        /// For the whole.
        code: ErrorCode,
        /// For partitions.
        codes: Vec<(Place, ErrorCode)>,
    },
    /// A broker gave it a lock on records.
    Acquired {
        /// The connection.
        wire: Wire,
        /// The leader; `None` where it does not know yet what was decided, so that nobody can say.
        reign: Option<Reign>,
        /// The records.
        range: Range,
        /// How often they were delivered.
        deliveries: i16,
        /// How long the lock lasts.
        lock: Duration,
    },
    /// A broker saw the end of a connection.
    Parted(Wire),
}

/// What holds for the records of a share group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `share.record.lock.duration.ms`.
    pub lock: Duration,
    /// `share.delivery.count.limit`.
    pub deliveries: i16,
    /// `share.partition.max.record.locks`.
    pub locks: i32,
    /// `share.isolation.level` is `read_committed`.
    pub committed: bool,
}
