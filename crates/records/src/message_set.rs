//! Writes message sets, the format of brokers before 0.11.

use bytes::Bytes;

use super::message::{CODEC, LOG_APPEND, PREFIX, TIMESTAMP};
use super::{Message, NO_TIMESTAMP, RecordsError};
use crate::compression::{self, Compression};

/// The formats before record batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OldMagic {
    /// The format of brokers before 0.10: no timestamps, and absolute offsets in a wrapper.
    Zero,
    /// The format of 0.10: timestamps, and offsets from 0 in a wrapper (KIP-31, KIP-32).
    One,
}

impl OldMagic {
    /// The magic byte.
    #[must_use]
    pub const fn id(self) -> i8 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
        }
    }
}

/// The maximum of a message's length field.
const MOST: usize = PREFIX + i32::MAX as usize;

/// Encodes records as a set of messages of magic 0 or 1; with a codec, as one message that wraps the compressed set. They have
/// no headers.
///
/// ```
/// use ottla_records::compression::Compression;
/// use ottla_records::{self as records, MessageSetBuilder, OldMagic};
///
/// let mut builder = MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, 100)?;
/// builder.append(1_700_000_000_000, Some(b"key"), Some(b"first"))?;
/// builder.append(1_700_000_000_001, None, Some(b"second"))?;
/// let bytes = builder.finish()?;
/// for entry in records::entries(bytes) {
///     let entry = entry?;
///     entry.verify_crc()?;
///     let payload = entry.payload(1 << 20)?;
///     let offsets: Vec<_> = entry.records(&payload)?.map(|record| record.unwrap().offset).collect();
///     assert_eq!(offsets, [100, 101]);
/// }
/// # Ok::<(), records::RecordsError>(())
/// ```
#[derive(Debug)]
pub struct MessageSetBuilder {
    magic: OldMagic,
    codec: Compression,
    level: Option<i32>,
    base_offset: i64,
    append_time: Option<i64>,
    set: Vec<u8>,
    last_offset: Option<i64>,
    max_timestamp: i64,
}

impl MessageSetBuilder {
    /// A builder of a set whose first offset is `base_offset`. An invalid level is an error when the set is
    /// finished; [`Compression::check_level`] finds it earlier.
    ///
    /// # Errors
    /// [`RecordsError::OldCodec`] for zstd, which needs record batches.
    pub fn new(
        magic: OldMagic,
        codec: Compression,
        level: Option<i32>,
        base_offset: i64,
    ) -> Result<Self, RecordsError> {
        if codec == Compression::Zstd {
            return Err(RecordsError::OldCodec {
                offset: base_offset,
                magic: magic.id(),
                codec,
            });
        }
        Ok(Self {
            magic,
            codec,
            level,
            base_offset,
            append_time: None,
            set: Vec::new(),
            last_offset: None,
            max_timestamp: NO_TIMESTAMP,
        })
    }

    /// Sets the broker's time, in milliseconds, for the records that follow. Magic 0 has no timestamps.
    pub const fn set_append_time(&mut self, timestamp: i64) {
        self.append_time = Some(timestamp);
    }

    /// Adds a record after the last one. The timestamp is in milliseconds; magic 0 has none.
    ///
    /// # Errors
    /// [`RecordsError::TooLarge`] if the set would exceed 2 GiB; the set is unchanged then.
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), RecordsError> {
        let offset = match self.last_offset {
            None => self.base_offset,
            Some(last) => last.saturating_add(1),
        };
        self.append_at(offset, timestamp, key, value)
    }

    /// Adds a record at an offset, for sets with gaps.
    ///
    /// # Errors
    /// As [`Self::append`], or [`RecordsError::SetOrder`] if the offset is not above that of the last record, or below the first
    /// offset of the set.
    pub fn append_at(
        &mut self,
        offset: i64,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), RecordsError> {
        let after = self.last_offset.unwrap_or(self.base_offset);
        if offset < after || self.last_offset == Some(offset) {
            return Err(RecordsError::SetOrder { offset, after });
        }
        let timestamp = self.append_time.unwrap_or(timestamp);
        let relative = self.codec != Compression::None && self.magic == OldMagic::One;
        let written = if relative {
            offset.wrapping_sub(self.base_offset)
        } else {
            offset
        };
        let mut message = self.message(Compression::None);
        message.offset = written;
        message.timestamp = timestamp;
        message.write(key, value, &mut self.set)?;
        self.last_offset = Some(offset);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(())
    }

    /// Finishes the set and returns its bytes, ready to send. Without records it returns no bytes.
    ///
    /// # Errors
    /// The codec's errors, and [`RecordsError::TooLarge`] for more than 2 GiB.
    pub fn finish(self) -> Result<Bytes, RecordsError> {
        let Some(offset) = self.last_offset.filter(|_| self.codec != Compression::None) else {
            return Ok(self.set.into());
        };
        let compress = match self.magic {
            OldMagic::Zero => compression::compress_magic_0,
            OldMagic::One => compression::compress,
        };
        let mut value = Vec::new();
        compress(self.codec, self.level, &self.set, &mut value).map_err(|source| {
            RecordsError::Compression {
                base_offset: offset,
                source,
            }
        })?;
        let mut wrapper = self.message(self.codec);
        wrapper.offset = offset;
        wrapper.timestamp = self.max_timestamp;
        let mut bytes = Vec::new();
        wrapper.write(None, Some(&value), &mut bytes)?;
        Ok(bytes.into())
    }

    fn message(&self, codec: Compression) -> Head {
        let append_time = self.append_time.is_some() && self.magic == OldMagic::One;
        Head {
            magic: self.magic,
            attributes: codec.id() as u8 & CODEC | if append_time { LOG_APPEND } else { 0 },
            offset: 0,
            timestamp: NO_TIMESTAMP,
        }
    }
}

/// The fields before key and value.
struct Head {
    magic: OldMagic,
    attributes: u8,
    offset: i64,
    timestamp: i64,
}

impl Head {
    fn write(
        &self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordsError> {
        let length = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        // Checksum, magic, attributes and the two lengths.
        let mut size = length(key).saturating_add(length(value)).saturating_add(14);
        if self.magic == OldMagic::One {
            size = size.saturating_add(TIMESTAMP);
        }
        let too_large = RecordsError::TooLarge {
            size,
            batch: out.len(),
            most: MOST,
        };
        let Ok(length) = i32::try_from(size) else {
            return Err(too_large);
        };
        if out.len().saturating_add(PREFIX).saturating_add(size) > MOST {
            return Err(too_large);
        }
        let start = out.len();
        out.reserve(PREFIX + size);
        out.extend(self.offset.to_be_bytes());
        out.extend(length.to_be_bytes());
        out.extend([0; 4]);
        out.extend([self.magic.id() as u8, self.attributes]);
        if self.magic == OldMagic::One {
            out.extend(self.timestamp.to_be_bytes());
        }
        for field in [key, value] {
            // Their sum fits 31 bits.
            out.extend(field.map_or(-1, |field| field.len() as i32).to_be_bytes());
            out.extend_from_slice(field.unwrap_or_default());
        }
        Message::seal(out.get_mut(start..).unwrap_or_default());
        Ok(())
    }
}
