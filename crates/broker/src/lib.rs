//! The embedded broker: one node or several that speak Kafka's protocol, and keep their logs in memory or, one node, in a
//! folder.
//!
//! * [`Broker`] is the shell: a tokio listener and a task per [`connection`], which are the only users of sockets and of
//!   the [`clock`]. [`node`] is the same broker without them, for simulations.
//! * [`core`] is what both share; [`conversation`] one connection as a state machine; [`api`] has one file per API.
//! * [`cluster`] is what several nodes share, as Kafka's metadata log is: leaders, who is in sync, who copies from whom.
//! * [`security`] decides who may connect, and what they may do: TLS, SASL, ACLs, quotas.
//! * [`group`] is the group coordinator and [`transaction`] the transaction coordinator, state machines both; [`storage`] the
//!   partitions' logs, in Kafka's segment format.
//! * [`sharing`] is who has which records of share groups.
//! * [`fetch_session`] is what consumers need not say again.
//! * [`release`] is which release of Kafka it speaks as. [`fault`] injects faults for tests; [`telemetry`] keeps the metrics that clients push.

mod api;
mod bell;
mod clock;
mod cluster;
mod config;
mod connection;
mod conversation;
mod core;
mod door;
mod error;
mod fault;
mod fetch_session;
mod group;
mod handshake;
mod ids;
pub mod node;
mod now;
mod pattern;
mod release;
mod replicas;
mod security;
mod server;
mod sharing;
mod storage;
mod telemetry;
mod topics;
mod transaction;

pub use config::{BROKER_KEYS, BrokerConfig, EventSink, Key, TOPIC_KEYS, ValueType};
pub use error::BrokerError;
pub use fault::Fault;
pub use release::Release;
pub use security::certificates::{Authority, Issued};
pub use security::listener::{ClientAuth, ListenerConfig, SecurityProtocol};
pub use security::sasl::Mechanism;
pub use security::secret::Secret;
pub use security::settings::{SecuritySettings, TlsFiles, TokenKeys};
pub use server::{Broker, OpenListener};
pub use telemetry::Push;
