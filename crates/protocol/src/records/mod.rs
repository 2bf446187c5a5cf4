//! What a Produce request carries, a Fetch response returns and a log segment holds: record batches (magic 2, KIP-98) and the
//! messages of brokers before 0.11 (magic 0 and 1).
//!
//! Reading goes from outside in: [`entries`] walks a buffer, [`Entry::payload`] gives what an entry holds, decompressed,
//! [`Entry::records`] walks that. [`batches`] and [`Batch`] do the same where there is nothing but batches. Nothing is copied
//! but what decompression writes. Writing goes through [`BatchBuilder`] or [`MessageSetBuilder`]. What a broker changes in a finished batch, it
//! changes in place. [`segment`] walks a file of a broker's log, past damage if there is some.

mod aborted;
mod batch;
mod builder;
mod entry;
mod error;
mod header;
mod message;
mod message_set;
mod range_crc;
mod record;
mod segment;
mod stored;
mod varint;
mod walk;

pub use aborted::{AbortedTransaction, AbortedTransactions};
pub use batch::{Batch, Batches, batches};
pub use builder::{BatchBuilder, ProducerState};
pub use entry::{Entries, Entry, EntryRecords, entries};
pub use error::{Malformed, RecordsError};
pub use header::{BatchHeader, TimestampType};
pub use message::{Message, MessageRecords};
pub use message_set::{MessageSetBuilder, OldMagic};
pub use record::{ControlType, Headers, Record, Records};
pub use segment::{Damage, Found, Segment, segment};
pub use stored::{assign_offsets, set_log_append_time, set_producer_state, validate_batch};

/// No producer id, epoch, sequence or leader epoch is known.
pub const NONE: i32 = -1;

/// Stands for "no timestamp".
pub const NO_TIMESTAMP: i64 = -1;

#[cfg(test)]
mod tests;
