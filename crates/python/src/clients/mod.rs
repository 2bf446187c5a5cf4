//! The compiled cores of the clients, and what they are made with.

pub(crate) mod admin;
pub(crate) mod app_metric;
pub(crate) mod arguments;
pub(crate) mod assignors;
pub(crate) mod consumer;
pub(crate) mod initialized;
pub(crate) mod lifecycle;
pub(crate) mod login;
pub(crate) mod metrics;
pub(crate) mod options;
pub(crate) mod producer;
pub(crate) mod rebalances;
pub(crate) mod sasl;
pub(crate) mod share;
