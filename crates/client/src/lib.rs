//! The tokio shell around ottla-engine: sockets, timers, tasks, and the handles that callers hold.
#![allow(clippy::todo, unused_variables, dead_code)]

pub mod admin;
pub mod consumer;
pub mod delivery;
pub mod producer;

pub use admin::{
    Admin, ClusterDescription, Each, NewTopic, Node, OffsetSpec, TopicDescription, TopicListing,
};
pub use consumer::{Aborted, Chunk, Consumer, Decode, Fetched, OffsetAndTimestamp, Start};
pub use delivery::{Deliveries, Delivery, RecordMetadata, Report};
pub use ottla_engine::config;
pub use ottla_engine::{Config, ConfigError, Error, ErrorCode, Kind, Role, Written};
pub use producer::{Producer, Row, TrySendError};

/// A partition as metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The partition's number.
    pub partition: i32,
    /// The leader's broker id; -1 if there is none at the moment.
    pub leader: i32,
    /// Ids of the brokers that hold a replica.
    pub replicas: Vec<i32>,
    /// Ids of the brokers whose replica is in sync.
    pub in_sync: Vec<i32>,
}
