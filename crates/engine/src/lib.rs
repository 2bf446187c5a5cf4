//! The decisions of a Kafka client, as state machines without sockets or clocks.
//!
//! * [`config`]: the table of properties.
//! * [`engine`]: a whole client. [`producer`], [`consumer`], [`share_consumer`] and [`admin`] are compositions of [`part`]s.
//! * [`call`]: a request to brokers with one result, retried until then; an API or a family of APIs in each file.
//! * [`credentials`]: what a client gets from outside to prove who it is.
//! * [`group`]: groups of consumers, and who of them gets which partition. [`share`]: groups that share records one by one.
//! * [`connection`]: one connection's stages, from versions and authentication ([`sasl`]) to requests.
//! * [`observe`]: what happened, as events. [`metrics`]: how much of it, as numbers.
//!
//! `now` is an argument everywhere; bytes come in and go out; chance comes from a seed. So a test is a script, and a
//! simulation repeats itself.

pub mod admin;
pub mod api;
pub mod call;
pub mod change;
mod cluster;
pub mod config;
pub mod connection;
pub mod consumer;
pub mod credentials;
mod denials;
pub mod dispatch;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod group;
pub mod metadata;
pub mod metrics;
pub mod observe;
pub mod part;
pub mod produce;
pub mod producer;
mod random;
pub mod release;
pub mod sasl;
#[cfg(test)]
mod script;
pub mod share;
pub mod share_consumer;
mod telemetry;

pub use change::Change;
pub use cluster::{Action, CoordinatorType, Dial, Expected, LinkId};
pub use config::{Config, ConfigError, Role};
pub use connection::frame;
pub use engine::Engine;
pub use error::{Damage, Error, Item, Kind, Truncation, Written};
pub use fetch::fetched;
pub use ottla_protocol::{ErrorCode, Frame, messages};
