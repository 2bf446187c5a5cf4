//! Malformed bytes from a peer: each is refused, by an error with the cause and the place.
//!
//! What peers of this library fell for is named where it is tested. `tests/fuzz` has the bound on memory, for every message
//! and codec, and looks for what nobody has thought of.

// What is outside a test function is still test code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod compression;
mod messages;
mod records;
mod round_trip;
mod writing;
