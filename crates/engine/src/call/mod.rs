//! Calls: requests to brokers with one result, and with retries in between.
//!
//! ```text
//! start ──▶ open ── a link to its target is up ──▶ asked ── responses for every item ──▶ ended
//!             ▲                                     │
//!             └── after a pause ◀───────────────────┴─ retriable error, link broke       deadline, from any state ──▶ ended
//! ```
//!
//! A call is a type that implements [`Call`]: the target of each item, the request for the items
//! that go to one broker, the result of each item from a response, and the result of the whole
//! call. Each file here is one API, or a family of APIs.

mod abort_transaction;
mod any;
mod calls;
mod consumer_groups;
mod consumer_heartbeat;
pub(crate) mod controller;
mod create_topics;
mod delete_topics;
mod describe_cluster;
mod describe_producers;
mod describe_topics;
mod epoch_ends;
mod fence_producers;
mod group_offsets;
pub(crate) mod groups;
mod init_producer_id;
pub(crate) mod interface;
mod list_offsets;
mod membership;
mod outcome;
pub(crate) mod partitions;
mod running;
mod share_heartbeat;
mod target;
#[cfg(test)]
mod tests;
mod ticket;
mod topic_ids;
mod topic_key;
mod topic_reads;
mod transactional;
mod transactions;
pub(crate) mod values;

pub use self::abort_transaction::AbortTransaction;
pub use self::any::{AnyAnswer, AnyCall};
pub(crate) use self::calls::Calls;
pub use self::consumer_groups::DescribeConsumerGroups;
pub(crate) use self::consumer_heartbeat::{
    ConsumerGroupHeartbeat, Declaration, IdPartition, Standing,
};
pub use self::create_topics::CreateTopics;
pub use self::delete_topics::DeleteTopics;
pub use self::describe_cluster::{ClusterDescription, ClusterMetadata, DescribeCluster, Node};
pub use self::describe_producers::DescribeProducers;
pub(crate) use self::describe_topics::{CONFIRMED, TopicNames};
pub use self::describe_topics::{DescribeTopics, ListTopics, PartitionInfo};
pub(crate) use self::epoch_ends::{EpochEnd, EpochEnds};
pub use self::fence_producers::{FenceProducers, FencedProducer};
pub(crate) use self::group_offsets::OffsetCommit;
pub use self::group_offsets::OffsetFetch;
pub use self::groups::{
    DescribeGroups, GroupDescription, GroupListing, ListGroups, MemberDescription,
};
pub use self::init_producer_id::{InitProducerId, ProducerIdentity};
pub use self::interface::{About, Asked, Call, Effect, Retry};
pub use self::list_offsets::{EARLIEST, FoundOffset, LATEST, ListOffsets};
pub use self::membership::GroupMetadata;
pub(crate) use self::membership::{
    Admission, Heartbeat, JoinGroup, Joined, JoinedMember, LeaveGroup, SyncGroup,
};
pub(crate) use self::share_heartbeat::ShareGroupHeartbeat;
pub use self::target::Target;
pub(crate) use self::target::{Absence, why_no_leader};
pub use self::ticket::Ticket;
pub(crate) use self::ticket::{Asker, Ended};
pub(crate) use self::topic_ids::{Naming, outdated as offset_outdated};
pub use self::topic_key::TopicKey;
pub use self::topic_reads::TopicRead;
pub(crate) use self::transactional::{
    AddOffsetsToTxn, AddPartitionsToTxn, EndTxn, InitTransactions, Initialized, Member,
    TxnOffsetCommit,
};
pub use self::transactional::{GroupOffset, TransactionProtocol};
pub use self::transactions::{
    DescribeTransactions, ListTransactions, TransactionDescription, TransactionListing,
};
pub use self::values::{ByItem, FROZENSET, ROWS, Rows, TopicPartition, UUID};
pub use crate::change::CallId;
