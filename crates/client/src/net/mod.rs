//! Connections: sockets, TLS, requests and responses on their way.

pub(crate) mod buffers;
pub(crate) mod credentials_task;
pub(crate) mod link;
pub(crate) mod receiving;
pub(crate) mod sending;
pub mod signing;
pub(crate) mod transport;
