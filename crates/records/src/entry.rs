//! Entries of any format in a buffer: record batches, and messages of older brokers.

use bytes::Bytes;

use super::walk::Walk;
use super::{
    Batch, BatchHeader, Message, MessageRecords, Record, Records, RecordsError, TimestampType,
};
use crate::compression::Compression;

/// Walks the entries of a Fetch response of any version or of a log segment: batches (magic 2) and messages (magic 0 and 1),
/// also mixed. A last entry that is cut short ends the walk: a Fetch response may end in the middle of one.
#[must_use]
pub fn entries(records: Bytes) -> Entries {
    Entries {
        walk: Walk::new(records),
    }
}

/// The iterator of [`entries`]. After an error it ends.
#[derive(Debug, Clone)]
pub struct Entries {
    walk: Walk,
}

impl Entries {
    /// The number of bytes that are not walked yet: at the end, those of an entry that is cut short, or 0.
    #[must_use]
    pub fn leftover(&self) -> usize {
        self.walk.rest.len()
    }

    /// The error for a last entry that is cut short, if there is one. Report it if no whole entry came before, because a consumer
    /// cannot continue then.
    #[must_use]
    pub fn cut(&self) -> Option<RecordsError> {
        self.walk.cut(LEAST)
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.next(Entry::parse)
    }
}

/// Bytes of the smallest message, which has magic 0 and neither key nor value.
pub(super) const LEAST: usize = BatchHeader::PREFIX + 14;
/// The index of the format's version, the same in all formats.
pub(super) const MAGIC_AT: usize = 16;

/// An entry of a log.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A batch of records, since 0.11.
    Batch(Batch),
    /// A message of brokers before 0.11: one record, or a wrapper of several.
    Message(Message),
}

impl Entry {
    /// Parses bytes that hold exactly one entry. It does not check the checksum.
    ///
    /// # Errors
    /// An impossible start, an unknown magic, or bytes that are not exactly one entry.
    pub fn parse(bytes: Bytes) -> Result<Self, RecordsError> {
        match bytes.get(MAGIC_AT) {
            Some(0 | 1) => Message::parse(bytes).map(Self::Message),
            _ => Batch::parse(bytes).map(Self::Batch),
        }
    }

    /// All its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::Batch(batch) => &batch.bytes,
            Self::Message(message) => &message.bytes,
        }
    }

    /// Number of its bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes().len()
    }

    /// Version of its format: 0, 1 or 2.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        match self {
            Self::Batch(batch) => batch.header.magic,
            Self::Message(message) => message.magic,
        }
    }

    /// The offset in its first bytes: that of the first record, but for a wrapper of magic 0 or 1 that of the last record. Only
    /// the messages inside know the first one ([`Self::first_offset`]).
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.header.base_offset,
            Self::Message(message) => message.offset,
        }
    }

    /// Offset of the first record, also of a wrapper; `payload` is the result of [`Self::payload`].
    ///
    /// # Errors
    /// The errors of [`Self::records`] and of the first record of a wrapper.
    pub fn first_offset(&self, payload: &[u8]) -> Result<i64, RecordsError> {
        match self {
            Self::Batch(batch) => Ok(batch.header.base_offset),
            // What is asked is its place; whoever reads it checks what it holds.
            Self::Message(message) => match message.records(payload)?.without_crcs().next() {
                Some(first) => Ok(first?.offset),
                None => Ok(message.offset),
            },
        }
    }

    /// Offset of the last record, even if compaction removed it.
    #[must_use]
    pub const fn last_offset(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.header.last_offset(),
            Self::Message(message) => message.offset,
        }
    }

    /// The offset to continue at after this entry.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Its codec.
    ///
    /// # Errors
    /// An unknown codec, or one that the format does not support.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        match self {
            Self::Batch(batch) => batch.header.compression(),
            Self::Message(message) => message.compression(),
        }
    }

    /// Who set the timestamps; `None` for magic 0, which has none.
    #[must_use]
    pub const fn timestamp_type(&self) -> Option<TimestampType> {
        match self {
            Self::Batch(batch) => Some(batch.header.timestamp_type()),
            Self::Message(message) => message.timestamp_type(),
        }
    }

    /// Greatest timestamp of its records in milliseconds, or -1.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.header.max_timestamp,
            Self::Message(message) => message.timestamp(),
        }
    }

    /// Epoch of the leader that appended it, or -1; messages have none.
    #[must_use]
    pub const fn leader_epoch(&self) -> i32 {
        match self {
            Self::Batch(batch) => batch.header.partition_leader_epoch,
            Self::Message(_) => super::NONE,
        }
    }

    /// The stored checksum: CRC-32C for magic 2, CRC-32 before.
    #[must_use]
    pub const fn crc(&self) -> u32 {
        match self {
            Self::Batch(batch) => batch.header.crc,
            Self::Message(message) => message.crc,
        }
    }

    /// Checks the checksum.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if the bytes changed after they were written.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        match self {
            Self::Batch(batch) => batch.verify_crc(),
            Self::Message(message) => message.verify_crc(),
        }
    }

    /// The bytes for [`Self::records`], decompressed to at most `limit` bytes; a slice of the entry if it is not compressed.
    ///
    /// # Errors
    /// An unknown codec, damaged data, or more than the limit.
    pub fn payload(&self, limit: usize) -> Result<Bytes, RecordsError> {
        match self {
            Self::Batch(batch) => batch.payload(limit),
            Self::Message(message) => message.payload(limit),
        }
    }

    /// The records of the payload that [`Self::payload`] returned, with their offsets and timestamps in the log.
    ///
    /// # Errors
    /// A payload that is too small for its records; then one error per record.
    pub fn records<'a>(&self, payload: &'a [u8]) -> Result<EntryRecords<'a>, RecordsError> {
        Ok(match self {
            Self::Batch(batch) => EntryRecords::Batch(batch.records(payload)?),
            Self::Message(message) => EntryRecords::Message(message.records(payload)?),
        })
    }
}

/// The records of an entry, in order. After an error it ends.
#[derive(Debug, Clone)]
pub enum EntryRecords<'a> {
    /// Those of a batch.
    Batch(Records<'a>),
    /// Those of a message.
    Message(MessageRecords<'a>),
}

impl EntryRecords<'_> {
    /// Does not check the checksums of messages in a wrapper; records of a batch have none.
    #[must_use]
    pub fn without_crcs(self) -> Self {
        match self {
            Self::Batch(_) => self,
            Self::Message(records) => Self::Message(records.without_crcs()),
        }
    }
}

impl<'a> Iterator for EntryRecords<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Batch(records) => records.next(),
            Self::Message(records) => records.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Batch(records) => records.size_hint(),
            Self::Message(records) => records.size_hint(),
        }
    }
}
