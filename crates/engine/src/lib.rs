//! What a Kafka client decides, as state machines without sockets or clocks.
//!
//! * [`config`]: the table of properties.
//! * [`engine`]: a whole client; [`producer`] and [`consumer`] are its kinds of work.
//! * [`connection`]: one connection's frames and versions.
//!
//! `now` is an argument everywhere; bytes come in and go out; chance comes from a seed. So a test is a script, and a
//! simulation repeats itself.

pub mod api;
mod cluster;
pub mod config;
pub mod connection;
pub mod consumer;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod frame;
pub mod metadata;
pub mod observe;
pub mod operation;
pub mod produce;
pub mod producer;
mod random;
#[cfg(test)]
mod script;

pub use cluster::{Action, LinkId};
pub use config::{Config, ConfigError, Role};
pub use engine::Engine;
pub use error::{Error, Kind, Written};
pub use fetch::fetched;
pub use ottla_protocol::{ErrorCode, Frame, messages};
