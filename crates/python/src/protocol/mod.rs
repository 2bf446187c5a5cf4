//! What `ottla.protocol` stands on: messages by name, and the tables of messages, APIs and error codes.

pub(crate) mod messages;
pub(crate) mod tables;
