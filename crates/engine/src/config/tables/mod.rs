//! The rows of the table, by the clients they are for.
//!
//! A row is its documentation, its name, the field it fills, that field's type, the default as it would be written (none
//! where being absent is a state of its own) and what its text may be:
//!
//! ```text
//! /// How long a request waits for its response before its connection is closed.
//! "request.timeout.ms" => request_timeout: Duration = "30000", millis(1);
//! ```
//!
//! | written | text |
//! |---|---|
//! | `bool()` | `true` or `false` |
//! | `millis(min)`, `bytes(min)`, `bytes(min, max)`, `whole(min, max)` | a whole number |
//! | `choice("word" => value, ...)` | one of these words, in any case |
//! | `text(function)` | what the function takes; it returns the value, or a description of what it accepts |
//! | `secret(function)` | as `text`, and neither the text nor a part of it is ever shown: the field is a [`super::Secret`], or holds some |
//!
//! A table is a macro that gives its rows to the table after it, so that all of them make one flat struct.

mod common;
mod consumer;
mod group;
mod network;
mod producer;
mod sasl;
mod security;
mod share;

pub use common::SecurityProtocol;
pub(super) use common::{addresses, client_id, common, protocols, security_protocol};
pub use consumer::OffsetReset;
pub(super) use consumer::{consumer, offset_reset};
pub use group::{
    CustomAssignor, GroupProtocol, OfferedAssignor, OffsetsStorage, offered_assignors,
};
pub(super) use group::{group, strategies};
pub(super) use network::network;
pub use producer::Partitioner;
pub(super) use producer::producer;
pub use sasl::SaslMechanism;
pub(super) use sasl::{algorithm, grant, jaas, mechanism, optional, sasl, text, whole_secret};
pub use security::{StoreType, TlsVersion};
pub(super) use security::{hidden, path, pem, security, versions, words};
pub(super) use share::share;
pub use share::{AcknowledgementMode, AcquireMode};
