//! What `ottla.protocol` stands on: messages by name, records of internal topics, and the tables of messages,
//! APIs and error codes.

pub(crate) mod internal;
pub(crate) mod messages;
pub(crate) mod records;
pub(crate) mod segment;
pub(crate) mod tables;
