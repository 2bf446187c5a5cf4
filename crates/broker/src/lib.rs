//! The embedded broker: one node that speaks Kafka's protocol, and keeps its logs in memory or in a folder.
//!
//! * [`Broker`] is the shell: a tokio listener and a task per [`connection`], which are the only users of sockets and of
//!   the [`clock`].
//! * [`core`] is the broker without them; [`api`] has one file per API.
//! * [`group`] is the group coordinator, a state machine; [`storage`] the partitions' logs, in Kafka's segment format.
//! * [`fault`] injects faults for tests.
//!
//! It has no replicas, transactions, compaction, retention by time, TLS, SASL or ACLs, and ApiVersions does not advertise them.

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
