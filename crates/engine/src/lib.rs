//! What a Kafka client decides, as state machines without sockets or clocks.

pub mod config;
pub mod error;
#[doc(hidden)]
pub mod ottla_protocol;

pub use config::{Config, ConfigError, Role};
pub use error::{Error, Kind, Written};
pub use ottla_protocol::ErrorCode;
