//! Protobuf messages to columns, by the descriptors of their types.
//!
//! A field without presence that is not on the wire has its default; one with presence (proto2, `optional`, `oneof`, messages) is
//! null. Types are those of Spark's `from_protobuf`, but for unsigned numbers, which stay unsigned: an enum is the name of its value,
//! `google.protobuf.Timestamp` a timestamp in microseconds, UTC. A message that contains itself is refused. Files of an
//! edition are read by the features of their edition and those that they set.

mod descriptor;
mod message;
mod wire;

pub use descriptor::last_file;
pub(crate) use descriptor::{DELIMITED_MESSAGE, FieldType, File};
pub(crate) use message::Protobuf;
