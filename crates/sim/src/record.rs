//! What a record is known by, and what was read of it.

use std::sync::Arc;

/// A partition of a topic.
pub type Place = (Arc<str>, i32);

/// Its name, as anomalies have it.
pub fn at(place: &Place) -> String {
    format!("{}-{}", place.0, place.1)
}

/// A record's number: no other record of the run has it.
pub type RecordId = usize;

/// What was read of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The record's number, from its value.
    pub id: RecordId,
    /// The topic that its value names.
    pub topic: String,
    /// Whether the checksum in it is right.
    pub sound: bool,
}
