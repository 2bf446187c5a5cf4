//! The one table of properties: Kafka's own names, with kind, range, default, the clients it is for and a line of text.
//!
//! * [`tables`]: the rows. A new property is one row: from it come the field of [`Config`], its default, what its text may be,
//!   its documentation and Python's typed dictionary. A property is listed only if it does something.
//! * [`property`]: what a row is, and what kinds of values there are.
//! * `secret`: values that are never shown; rows of the kind `secret` have them.
//! * `network`: what addresses stand for, and proxies.
//! * `settings`: makes [`Config`] and [`PROPERTIES`] of the rows.
//! * `authentication`: rules about who the client is; [`jaas`]: the login of a Java client.
//! * `parse`: goes from pairs of text to a [`Config`], through the table and nothing else, defaults included.
//! * `moved`: names that other clients and old releases have, and what to write instead.

mod authentication;
pub mod jaas;
mod moved;
mod network;
mod parse;
pub mod property;
mod secret;
mod settings;
pub mod tables;

pub(crate) use network::is_host;
pub use network::{AddressMap, DnsLookup, Proxy, ProxyProtocol, Route};
pub use parse::{ConfigError, find};
pub use property::{Property, Role, Value};
pub use secret::{Secret, is_secret};
pub use settings::{Config, PROPERTIES};
pub use tables::{
    AcknowledgementMode, AcquireMode, CustomAssignor, GroupProtocol, OfferedAssignor, OffsetReset,
    OffsetsStorage, Partitioner, SaslMechanism, SecurityProtocol, StoreType, TlsVersion,
    offered_assignors,
};
