//! Producers, deliveries and transactions.

pub(crate) mod deliveries;
pub mod delivery;
pub mod producer;
pub(crate) mod transaction;
