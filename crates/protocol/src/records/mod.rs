//! Record batches (magic 2, KIP-98): what a Produce request carries, a Fetch response returns and a log segment holds.
//!
//! Reading goes from outside in: [`batches`] walks a buffer, [`Batch::payload`] gives the record section of a batch,
//! decompressed, [`Batch::records`] walks that. Nothing is copied but what decompression writes. Writing goes through
//! [`BatchBuilder`]. What a broker changes in a finished batch, it changes in place.
//!
//! Message sets (magic 0 and 1) are refused with [`RecordsError::Magic`].

mod batch;
mod builder;
mod error;
mod header;
mod record;
mod stored;
mod varint;

pub use batch::{Batch, Batches, batches};
pub use builder::{BatchBuilder, ProducerState};
pub use error::{Malformed, RecordsError};
pub use header::{BatchHeader, TimestampType};
pub use record::{ControlType, Headers, Record, Records};
pub use stored::{assign_offsets, set_log_append_time, set_producer_state, validate_batch};

/// No producer id, epoch, sequence or leader epoch is known.
pub const NONE: i32 = -1;

/// Stands for "no timestamp".
pub const NO_TIMESTAMP: i64 = -1;

#[cfg(test)]
mod tests;
