//! The records in a Produce request, a Fetch response or a log segment: record batches (magic 2, KIP-98) and messages of brokers
//! before 0.11 (magic 0 and 1).
//!
//! To read, walk the entries of a buffer with [`entries`], decompress an entry with
//! [`Entry::payload`], and walk its records with [`Entry::records`]. [`batches`] and [`Batch`] do
//! the same for buffers with batches only. Only decompression copies bytes. To write, use
//! [`BatchBuilder`] or [`MessageSetBuilder`]; [`to_message_set`] makes one of the other. A broker
//! changes a finished batch in place. [`segment`] walks a file of a broker's log and continues
//! after damage; [`Outline`] has the places of its entries without their records. [`compression`] has the codecs.
//!
//! Each record that a client sends or reads goes through this crate, so it is compiled for speed, and the other code of the
//! wire protocol for size: see the profiles in Cargo.toml. `ottla-protocol` exports it as `records` and `compression`.

mod aborted;
mod batch;
mod builder;
pub mod compression;
mod crc;
mod downgrade;
mod entry;
mod error;
mod header;
mod message;
mod message_set;
mod outline;
mod range_crc;
mod record;
mod segment;
mod stored;
mod varint;
mod walk;

pub use aborted::{AbortedTransaction, AbortedTransactions};
pub use batch::{Batch, Batches, batches};
pub use builder::{BatchBuilder, ProducerState};
pub use crc::crc32;
pub use downgrade::to_message_set;
pub use entry::{Entries, Entry, EntryRecords, entries};
pub use error::{Malformed, RecordsError};
pub use header::{BatchHeader, TimestampType};
pub use message::{Message, MessageRecords};
pub use message_set::{MessageSetBuilder, OldMagic};
pub use outline::{Outline, TransactionStep};
pub use record::{ControlType, Headers, Record, Records};
pub use segment::{Damage, Found, Segment, segment};
pub use stored::{assign_offsets, set_log_append_time, set_producer_state, validate_batch};

/// An unknown producer id, epoch, sequence or leader epoch.
pub const NONE: i32 = -1;

/// No timestamp.
pub const NO_TIMESTAMP: i64 = -1;

#[cfg(test)]
mod tests;
