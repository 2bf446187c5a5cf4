//! Bytes from a peer that means no good: each is refused, by an error that says what and where.
//!
//! What peers of this library fell for is named where it is tested. `tests/fuzz` has the bound on memory, for every message
//! and codec, and looks for what nobody has thought of.

// What stands outside a test function is test all the same.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod compression;
mod messages;
mod records;
mod round_trip;
mod writing;
