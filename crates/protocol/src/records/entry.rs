//! Entries of any age in a buffer: record batches and the messages before them.

use bytes::Bytes;

use super::walk::Walk;
use super::{
    Batch, BatchHeader, Message, MessageRecords, Record, Records, RecordsError, TimestampType,
};
use crate::compression::Compression;

/// Walks what a Fetch response of any version or a segment of any age holds: batches (magic 2) and messages (magic 0 and 1),
/// also mixed. A last one that is cut short ends the walk: Fetch gives as many bytes as were asked for.
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
    /// Bytes not walked yet: after the end those of an entry that was cut short, or 0.
    #[must_use]
    pub fn leftover(&self) -> usize {
        self.walk.rest.len()
    }

    /// How the entry at the end was cut short, if there is one: what to say where it is the only one, so that reading could
    /// not go on.
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
/// All formats have their version here.
pub(super) const MAGIC_AT: usize = 16;

/// What a log is made of.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A batch of records, from 0.11 on.
    Batch(Batch),
    /// A message of brokers before 0.11: one record, or a wrapper of several.
    Message(Message),
}

impl Entry {
    /// Reads the one entry that `bytes` hold. Its checksum is not looked at.
    ///
    /// # Errors
    /// A start that cannot be, an unknown magic, or bytes that are not those of one entry.
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

    /// The offset in its first bytes: that of the first record, but in a wrapper of magic 0 or 1 that of the last one, as its
    /// first one is known only to what is inside ([`Self::first_offset`]).
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.header.base_offset,
            Self::Message(message) => message.offset,
        }
    }

    /// Offset of the first record, in a wrapper too; `payload` is what [`Self::payload`] gave.
    ///
    /// # Errors
    /// Those of [`Self::records`] and of the first record of a wrapper.
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

    /// Offset of the last record, also if compaction took it away.
    #[must_use]
    pub const fn last_offset(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.header.last_offset(),
            Self::Message(message) => message.offset,
        }
    }

    /// The offset to go on at after this entry.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Its codec.
    ///
    /// # Errors
    /// An id that no codec has, or a codec that its format does not have.
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

    /// The checksum as written: CRC-32C for magic 2, CRC-32 before.
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
    /// [`RecordsError::Crc`] if the bytes are not those that were written.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        match self {
            Self::Batch(batch) => batch.verify_crc(),
            Self::Message(message) => message.verify_crc(),
        }
    }

    /// What [`Self::records`] reads, decompressed to at most `limit` bytes; a slice of the entry if it is not compressed.
    ///
    /// # Errors
    /// An unknown codec, damaged data, or more than the limit.
    pub fn payload(&self, limit: usize) -> Result<Bytes, RecordsError> {
        match self {
            Self::Batch(batch) => batch.payload(limit),
            Self::Message(message) => message.payload(limit),
        }
    }

    /// The records of a payload that [`Self::payload`] gave, with the offsets and timestamps they have in the log.
    ///
    /// # Errors
    /// A payload that cannot hold what the entry says; then per record.
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
    /// Leaves the checksums of messages inside of a wrapper unread; records of a batch have none of their own.
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
