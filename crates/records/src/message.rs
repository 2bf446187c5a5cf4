//! Messages of magic 0 and 1, the format of brokers before 0.11: one record each, or a wrapper whose value is a compressed
//! set of them (KIP-31, KIP-32).

use bytes::{Buf, Bytes};

use super::{BatchHeader, Headers, Malformed, NO_TIMESTAMP, Record, RecordsError, TimestampType};
use crate::compression::{self, Compression};

/// Offset and size, before each message.
pub(super) const PREFIX: usize = BatchHeader::PREFIX;
const ATTRIBUTES_AT: usize = 17;
/// Position of the first byte that the checksum covers, the magic.
pub(super) const CRC_FROM: usize = 16;
/// Checksum, magic and attributes, then the lengths of key and value.
const LEAST: i32 = 14;
/// Bytes of the timestamp, which magic 1 has before the key.
pub(super) const TIMESTAMP: usize = 8;

pub(super) const CODEC: u8 = 0b111;
pub(super) const LOG_APPEND: u8 = 1 << 3;

/// The first bytes of a message, with a checked size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    offset: i64,
    length: i32,
    pub(super) crc: u32,
    pub(super) magic: i8,
    attributes: u8,
}

impl Start {
    /// Parses the start of a message; the rest of it may be missing.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        let needed = ATTRIBUTES_AT + 1;
        let Some(mut start) = bytes.get(..needed) else {
            let left = bytes.len();
            return Err(RecordsError::Cut { needed, left });
        };
        let start = Self {
            offset: start.get_i64(),
            length: start.get_i32(),
            crc: start.get_u32(),
            magic: start.get_i8(),
            attributes: start.get_u8(),
        };
        if !(0..=1).contains(&start.magic) {
            return Err(RecordsError::Magic {
                base_offset: start.offset,
                magic: start.magic,
            });
        }
        if start.length < least_length(start.magic) {
            return Err(RecordsError::Length {
                base_offset: start.offset,
                length: start.length,
            });
        }
        Ok(start)
    }

    /// Offset of the message; of a wrapper, that of the last message inside.
    pub(super) const fn offset(&self) -> i64 {
        self.offset
    }

    /// Bytes of the whole message.
    pub(super) const fn size(&self) -> usize {
        PREFIX + self.length.unsigned_abs() as usize
    }
}

/// Minimum of the size field of a message of magic 0 or 1.
const fn least_length(magic: i8) -> i32 {
    if magic == 0 {
        LEAST
    } else {
        LEAST + TIMESTAMP as i32
    }
}

/// One whole message of magic 0 or 1. If it is compressed it is a wrapper: its value is a set of messages, whose offsets are
/// absolute in magic 0 and count from 0 in magic 1.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its offset; for a wrapper, that of the last message inside.
    pub offset: i64,
    /// CRC-32 of the bytes after it.
    pub crc: u32,
    /// Version of the format: 0 or 1.
    pub magic: i8,
    /// Codec and timestamp type.
    pub attributes: u8,
    /// All its bytes, offset and size included.
    pub bytes: Bytes,
}

impl Message {
    /// Parses bytes that hold exactly one message. It does not check the checksum, the key or the value.
    ///
    /// # Errors
    /// An impossible start, or bytes that are not exactly one message.
    pub fn parse(bytes: Bytes) -> Result<Self, RecordsError> {
        let start = Start::parse(&bytes)?;
        let needed = start.size();
        let left = bytes.len();
        if left < needed {
            return Err(RecordsError::Cut { needed, left });
        }
        if left > needed {
            return Err(RecordsError::Extra {
                base_offset: start.offset,
                extra: left - needed,
            });
        }
        Ok(Self {
            offset: start.offset,
            crc: start.crc,
            magic: start.magic,
            attributes: start.attributes,
            bytes,
        })
    }

    /// The codec; with any but [`Compression::None`] the message is a wrapper.
    ///
    /// # Errors
    /// [`RecordsError::Codec`] for an unknown codec, [`RecordsError::OldCodec`] for zstd, which needs record batches.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        let codec = i16::from(self.attributes & CODEC);
        let base_offset = self.offset;
        match Compression::from_id(codec) {
            None => Err(RecordsError::Codec { base_offset, codec }),
            Some(codec @ Compression::Zstd) => Err(RecordsError::OldCodec {
                offset: self.offset,
                magic: self.magic,
                codec,
            }),
            Some(codec) => Ok(codec),
        }
    }

    /// Who set the timestamp; magic 0 has none.
    #[must_use]
    pub const fn timestamp_type(&self) -> Option<TimestampType> {
        match self.magic {
            0 => None,
            _ if self.attributes & LOG_APPEND == 0 => Some(TimestampType::Create),
            _ => Some(TimestampType::LogAppend),
        }
    }

    /// The timestamp in milliseconds, for a wrapper the maximum of those inside; -1 for none.
    #[must_use]
    pub fn timestamp(&self) -> i64 {
        timestamp(self.magic, &self.bytes)
    }

    /// Writes its checksum into a whole message.
    pub(super) fn seal(message: &mut [u8]) {
        let crc = crc(message).to_be_bytes();
        if let Some(place) = message.get_mut(PREFIX..CRC_FROM) {
            place.copy_from_slice(&crc);
        }
    }

    /// Checks the checksum. [`Self::records`] checks those of the messages in a wrapper.
    ///
    /// # Errors
    /// [`RecordsError::Crc`] if the bytes changed after they were written.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        let computed = crc(&self.bytes);
        if computed == self.crc {
            Ok(())
        } else {
            Err(RecordsError::Crc {
                base_offset: self.offset,
                expected: self.crc,
                computed,
            })
        }
    }

    /// The bytes of its message set: its own, or for a wrapper its decompressed value, at most `limit` bytes.
    ///
    /// # Errors
    /// An unknown codec, a wrapper without a value, damaged data, or more than the limit.
    pub fn payload(&self, limit: usize) -> Result<Bytes, RecordsError> {
        if self.compression()? == Compression::None {
            return Ok(self.bytes.clone());
        }
        let mut payload = Vec::new();
        self.payload_in(limit, &mut payload)?;
        Ok(Bytes::from(payload))
    }

    /// As [`Self::payload`], into a buffer that several messages can share. It does not use `scratch` if the message is not a
    /// wrapper.
    ///
    /// # Errors
    /// As [`Self::payload`].
    pub fn payload_in<'a>(
        &'a self,
        limit: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], RecordsError> {
        let codec = self.compression()?;
        if codec == Compression::None {
            return Ok(&self.bytes);
        }
        let malformed = |what| RecordsError::Record {
            base_offset: self.offset,
            index: 0,
            what,
        };
        let fields = Fields::read(self.magic, &self.bytes).map_err(malformed)?;
        let value = fields.value.ok_or(RecordsError::NullWrapper {
            offset: self.offset,
        })?;
        let decompress = match self.magic {
            0 => compression::decompress_magic_0_into,
            _ => compression::decompress_into,
        };
        decompress(codec, value, limit, scratch).map_err(|source| RecordsError::Compression {
            base_offset: self.offset,
            source,
        })?;
        Ok(scratch)
    }

    /// The records of the payload that [`Self::payload`] returned: one, or those of the messages in a wrapper.
    ///
    /// # Errors
    /// A wrapper without messages, or with messages that do not match it; then one error per record.
    pub fn records<'a>(&self, payload: &'a [u8]) -> Result<MessageRecords<'a>, RecordsError> {
        let wrapper = self.compression()? != Compression::None;
        let inner = Inner {
            offset: self.offset,
            magic: self.magic,
        };
        let mut first_offset = 0;
        if wrapper {
            // Relative offsets end at that of the wrapper, so the last message must be known before the first is given out.
            let last = inner.last_offset(payload)?;
            // Some producers leave a wrapper's offset at 0; brokers put it right when they append.
            if self.magic == 1 && self.offset != 0 {
                first_offset = self
                    .offset
                    .checked_sub(last)
                    .filter(|_| last <= self.offset)
                    .ok_or(RecordsError::WrapperOffset {
                        offset: self.offset,
                        last,
                    })?;
            }
        }
        let append_time = matches!(self.timestamp_type(), Some(TimestampType::LogAppend));
        Ok(MessageRecords {
            rest: payload,
            index: 0,
            inner,
            wrapper,
            first_offset,
            append_time: append_time.then(|| self.timestamp()),
            check_crcs: true,
        })
    }
}

/// The values that the messages in a wrapper must match.
#[derive(Debug, Clone, Copy)]
struct Inner {
    offset: i64,
    magic: i8,
}

impl Inner {
    /// The offset of the last message, found by the starts of all.
    fn last_offset(&self, mut rest: &[u8]) -> Result<i64, RecordsError> {
        let (mut last, mut index) = (None, 0);
        while !rest.is_empty() {
            let (start, _, after) = self.next(rest, index)?;
            last = Some(start.offset);
            index = index.saturating_add(1);
            rest = after;
        }
        last.ok_or(RecordsError::EmptyWrapper {
            offset: self.offset,
        })
    }

    /// The next message, and the bytes after it.
    fn next<'a>(
        &self,
        rest: &'a [u8],
        index: i32,
    ) -> Result<(Start, &'a [u8], &'a [u8]), RecordsError> {
        let start = Start::parse(rest).map_err(|error| match error {
            RecordsError::Magic { magic, .. } => RecordsError::InnerMagic {
                offset: self.offset,
                index,
                magic: self.magic,
                inner: magic,
            },
            RecordsError::Length { length, .. } => RecordsError::InnerLength {
                offset: self.offset,
                index,
                length,
            },
            _ => self.malformed(index, Malformed::Cut),
        })?;
        if start.magic != self.magic {
            return Err(RecordsError::InnerMagic {
                offset: self.offset,
                index,
                magic: self.magic,
                inner: start.magic,
            });
        }
        let (message, after) = rest
            .split_at_checked(start.size())
            .ok_or_else(|| self.malformed(index, Malformed::Cut))?;
        Ok((start, message, after))
    }

    fn malformed(&self, index: i32, what: Malformed) -> RecordsError {
        RecordsError::Record {
            base_offset: self.offset,
            index,
            what,
        }
    }
}

/// The records of one message. After an error it ends.
#[derive(Debug, Clone)]
pub struct MessageRecords<'a> {
    rest: &'a [u8],
    index: i32,
    inner: Inner,
    wrapper: bool,
    /// The base of the offsets inside.
    first_offset: i64,
    /// The time of all messages, if the broker set it.
    append_time: Option<i64>,
    check_crcs: bool,
}

impl<'a> MessageRecords<'a> {
    /// Does not check the checksums of the messages in a wrapper.
    #[must_use]
    pub const fn without_crcs(mut self) -> Self {
        self.check_crcs = false;
        self
    }

    fn read(&mut self) -> Result<Record<'a>, RecordsError> {
        let (start, message, rest) = self.inner.next(self.rest, self.index)?;
        self.rest = rest;
        if self.wrapper {
            self.check(&start, message)?;
        }
        let fields = Fields::read(start.magic, message)
            .map_err(|what| self.inner.malformed(self.index, what))?;
        Ok(Record {
            offset: self.first_offset.wrapping_add(start.offset),
            timestamp: self
                .append_time
                .unwrap_or_else(|| timestamp(start.magic, message)),
            key: fields.key,
            value: fields.value,
            headers: Headers::default(),
        })
    }

    fn check(&self, start: &Start, message: &[u8]) -> Result<(), RecordsError> {
        let (offset, index) = (self.inner.offset, self.index);
        if start.attributes & CODEC != 0 {
            return Err(RecordsError::Nested { offset, index });
        }
        if self.check_crcs {
            let computed = crc(message);
            if computed != start.crc {
                return Err(RecordsError::InnerCrc {
                    offset,
                    index,
                    expected: start.crc,
                    computed,
                });
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for MessageRecords<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.rest = &[];
        }
        self.index = self.index.saturating_add(1);
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let least = PREFIX + least_length(self.inner.magic).unsigned_abs() as usize;
        // A last one may be cut short, and is then an error.
        (0, Some(self.rest.len() / least + 1))
    }
}

/// Key and value of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn read(magic: i8, message: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = message.get(fields_at(magic)..).ok_or(Malformed::Cut)?;
        let fields = Self {
            key: nullable(&mut rest)?,
            value: nullable(&mut rest)?,
        };
        if rest.is_empty() {
            Ok(fields)
        } else {
            Err(Malformed::Size)
        }
    }
}

const fn fields_at(magic: i8) -> usize {
    if magic == 0 {
        ATTRIBUTES_AT + 1
    } else {
        ATTRIBUTES_AT + 1 + TIMESTAMP
    }
}

fn timestamp(magic: i8, message: &[u8]) -> i64 {
    match message
        .get(ATTRIBUTES_AT + 1..)
        .and_then(<[u8]>::first_chunk)
    {
        Some(time) if magic == 1 => i64::from_be_bytes(*time),
        _ => NO_TIMESTAMP,
    }
}

/// A field after its length; a length of -1 means null.
fn nullable<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let (length, rest) = input.split_first_chunk().ok_or(Malformed::Cut)?;
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        *input = rest;
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| Malformed::NegativeLength)?;
    let (field, rest) = rest.split_at_checked(length).ok_or(Malformed::Cut)?;
    *input = rest;
    Ok(Some(field))
}

/// The checksum of a whole message.
fn crc(message: &[u8]) -> u32 {
    super::crc::crc32(message.get(CRC_FROM..).unwrap_or_default())
}
