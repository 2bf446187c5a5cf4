//! The compiled half of `ottla.protocol`: messages by name, frames, records, and the tables of messages, APIs and error
//! codes.
//!
//! A message goes from bytes to its struct and from there to Python's objects ([`objects`]), and the same way back
//! ([`given`]); JSON text is never made.

mod data;
pub(crate) mod frames;
mod given;
pub(crate) mod internal;
pub(crate) mod messages;
mod names;
mod notation;
mod objects;
pub(crate) mod records;
pub(crate) mod refusal;
pub(crate) mod segment;
pub(crate) mod tables;
pub(crate) mod writing;
