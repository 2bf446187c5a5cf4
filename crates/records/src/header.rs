//! The header of a batch.

use bytes::{Buf, BufMut};

use super::RecordsError;
use crate::compression::Compression;

/// Who sets the timestamps of a batch (bit 3 of its attributes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer sets one per record.
    #[default]
    Create,
    /// The broker sets one for all records when it appends the batch: the batch's maximum timestamp.
    LogAppend,
}

impl TimestampType {
    /// Kafka's number: 0 or 1.
    #[must_use]
    pub const fn id(self) -> i32 {
        match self {
            Self::Create => 0,
            Self::LogAppend => 1,
        }
    }
}

/// The 61 bytes before the records of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Number of bytes after this field; [`Self::size`] counts all.
    pub length: i32,
    /// Epoch of the leader that appended it, or -1.
    pub partition_leader_epoch: i32,
    /// Version of the format: 2.
    pub magic: i8,
    /// CRC-32C of all bytes after this field.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: i16,
    /// Offset of the last record minus that of the first, even if compaction removed records.
    pub last_offset_delta: i32,
    /// The base of the records' timestamps, in milliseconds; the delete horizon if [`Self::has_delete_horizon`].
    pub base_timestamp: i64,
    /// Maximum timestamp, in milliseconds, or -1.
    pub max_timestamp: i64,
    /// Id of the idempotent or transactional producer, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Number of records.
    pub count: i32,
}

const CODEC: i16 = 0b111;
const LOG_APPEND: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

impl BatchHeader {
    /// Bytes of a header.
    pub const SIZE: usize = 61;
    /// Bytes that [`Self::length`] does not count: the first offset and itself.
    pub const PREFIX: usize = 12;
    /// Position of the checksum.
    pub(super) const CRC_AT: usize = 17;
    /// Position of the first byte that the checksum covers.
    pub(super) const CRC_FROM: usize = 21;

    /// Parses a header; the rest of the batch may be missing.
    ///
    /// # Errors
    /// [`RecordsError::Cut`], [`RecordsError::Length`] or [`RecordsError::Magic`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        // Message sets have their magic at the same place and may be shorter.
        if let Some((mut start, &[magic])) =
            bytes.get(..Self::CRC_AT).and_then(<[u8]>::split_last_chunk)
        {
            if magic != 2 {
                return Err(RecordsError::Magic {
                    base_offset: start.get_i64(),
                    magic: magic as i8,
                });
            }
            check_length(start.get_i64(), start.get_i32())?;
        }
        let Some(mut bytes) = bytes.get(..Self::SIZE) else {
            return Err(RecordsError::Cut {
                needed: Self::SIZE,
                left: bytes.len(),
            });
        };
        Ok(Self {
            base_offset: bytes.get_i64(),
            length: bytes.get_i32(),
            partition_leader_epoch: bytes.get_i32(),
            magic: bytes.get_i8(),
            crc: bytes.get_u32(),
            attributes: bytes.get_i16(),
            last_offset_delta: bytes.get_i32(),
            base_timestamp: bytes.get_i64(),
            max_timestamp: bytes.get_i64(),
            producer_id: bytes.get_i64(),
            producer_epoch: bytes.get_i16(),
            base_sequence: bytes.get_i32(),
            count: bytes.get_i32(),
        })
    }

    /// Overwrites the first [`Self::SIZE`] bytes of a batch with the header, and does not check the checksum.
    ///
    /// # Errors
    /// [`RecordsError::Cut`] for fewer bytes than a header.
    pub fn write_to(&self, batch: &mut [u8]) -> Result<(), RecordsError> {
        let left = batch.len();
        let mut out = batch.get_mut(..Self::SIZE).ok_or(RecordsError::Cut {
            needed: Self::SIZE,
            left,
        })?;
        out.put_i64(self.base_offset);
        out.put_i32(self.length);
        out.put_i32(self.partition_leader_epoch);
        out.put_i8(self.magic);
        out.put_u32(self.crc);
        out.put_i16(self.attributes);
        out.put_i32(self.last_offset_delta);
        out.put_i64(self.base_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i64(self.producer_id);
        out.put_i16(self.producer_epoch);
        out.put_i32(self.base_sequence);
        out.put_i32(self.count);
        Ok(())
    }

    /// Overwrites the header of a whole batch, and sets the length and the checksum.
    ///
    /// # Errors
    /// [`RecordsError::Cut`] for fewer bytes than a header, [`RecordsError::TooLarge`] for more than 2 GiB.
    pub fn seal(&mut self, batch: &mut [u8]) -> Result<(), RecordsError> {
        let size = batch.len();
        let too_large = RecordsError::TooLarge {
            size: 0,
            batch: size,
            most: Self::PREFIX + i32::MAX as usize,
        };
        self.length = i32::try_from(size.saturating_sub(Self::PREFIX)).map_err(|_| too_large)?;
        self.write_to(batch)?;
        self.crc = super::crc::crc32c(batch.get(Self::CRC_FROM..).unwrap_or_default());
        self.write_to(batch)
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub const fn size(&self) -> usize {
        Self::PREFIX + self.length.unsigned_abs() as usize
    }

    /// Checks that the range of offsets is large enough for the records.
    pub(super) fn check_range(&self) -> Result<(), RecordsError> {
        let (delta, count) = (self.last_offset_delta, self.count);
        if delta < 0 || count.saturating_sub(1) > delta {
            return Err(RecordsError::LastOffset {
                base_offset: self.base_offset,
                delta,
                count,
            });
        }
        Ok(())
    }

    /// The codec of the record section.
    ///
    /// # Errors
    /// [`RecordsError::Codec`] for an unknown codec.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        let codec = self.attributes & CODEC;
        Compression::from_id(codec).ok_or(RecordsError::Codec {
            base_offset: self.base_offset,
            codec,
        })
    }

    /// Who set the timestamps.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND == 0 {
            TimestampType::Create
        } else {
            TimestampType::LogAppend
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether it holds a control record of the broker instead of an application's records.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether [`Self::base_timestamp`] is the time from which compaction may remove tombstones and markers (KIP-534).
    #[must_use]
    pub const fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// Sets the codec.
    pub const fn set_compression(&mut self, codec: Compression) {
        self.attributes = self.attributes & !CODEC | codec.id();
    }

    /// Sets the timestamp type.
    pub const fn set_timestamp_type(&mut self, kind: TimestampType) {
        self.set_flag(LOG_APPEND, matches!(kind, TimestampType::LogAppend));
    }

    /// Sets whether the batch belongs to a transaction.
    pub const fn set_transactional(&mut self, yes: bool) {
        self.set_flag(TRANSACTIONAL, yes);
    }

    /// Sets whether it is a control batch.
    pub const fn set_control(&mut self, yes: bool) {
        self.set_flag(CONTROL, yes);
    }

    const fn set_flag(&mut self, flag: i16, on: bool) {
        self.attributes = if on {
            self.attributes | flag
        } else {
            self.attributes & !flag
        };
    }

    /// Offset of the last record, even if compaction removed it.
    #[must_use]
    pub const fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(self.last_offset_delta as i64)
    }

    /// The offset to continue at after this batch.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Sequence number of the record at a relative offset; numbers restart at 0 after 2^31 - 1. -1 if the batch has none.
    #[must_use]
    pub const fn sequence(&self, offset_delta: i32) -> i32 {
        if self.base_sequence < 0 {
            return super::NONE;
        }
        let wide = self.base_sequence as i64 + offset_delta as i64;
        (wide & i32::MAX as i64) as i32
    }
}

/// Reads the length of a batch or message set from its first bytes, if they are present.
pub(super) fn whole_size(bytes: &[u8]) -> Result<Option<usize>, RecordsError> {
    let Some(mut start) = bytes.get(..BatchHeader::PREFIX) else {
        return Ok(None);
    };
    let base_offset = start.get_i64();
    let length = start.get_i32();
    // The least of all formats; a batch's own least is looked at with its magic.
    let least = 14;
    match usize::try_from(length) {
        Ok(length) if length >= least => Ok(Some(BatchHeader::PREFIX + length)),
        _ => Err(RecordsError::Length {
            base_offset,
            length,
        }),
    }
}

fn check_length(base_offset: i64, length: i32) -> Result<(), RecordsError> {
    let least = (BatchHeader::SIZE - BatchHeader::PREFIX) as i32;
    if length < least {
        Err(RecordsError::Length {
            base_offset,
            length,
        })
    } else {
        Ok(())
    }
}
