//! Consumers and share consumers.

pub mod consumer;
pub(crate) mod decode;
pub(crate) mod decoding;
pub(crate) mod membership;
pub(crate) mod pending_records;
pub(crate) mod raised_errors;
pub(crate) mod rebalances;
pub mod share;
