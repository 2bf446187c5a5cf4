//! What time it is, as an argument.

use std::time::Instant;

/// A moment, by both of its clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For durations.
    pub instant: Instant,
    /// For timestamps: milliseconds since 1970.
    pub unix_ms: i64,
}
