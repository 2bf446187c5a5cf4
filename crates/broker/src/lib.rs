//! The embedded broker: one node that speaks Kafka's protocol, in memory or on a folder.
//!
//! * [`Broker`] is the shell: a tokio listener and a task per [`connection`], which are the only users of sockets and of
//!   the [`clock`].
//! * [`core`] is the broker without them; [`api`] has one file per API.
//! * [`group`] is the group coordinator, a state machine; [`storage`] the partitions' logs, in Kafka's segment format.
//! * [`fault`] makes it misbehave for tests.
//!
//! What it does not do: replicas, transactions, compaction, expiry by time, TLS, SASL and ACLs. What is not done is not
//! advertised in ApiVersions.

mod api;
mod clock;
mod config;
mod connection;
mod core;
mod error;
mod fault;
mod group;
mod ids;
mod server;
mod storage;
mod topics;

pub use config::{BROKER_KEYS, BrokerConfig, EventSink, Key, TOPIC_KEYS, ValueType};
pub use error::BrokerError;
pub use fault::Fault;
pub use server::Broker;
