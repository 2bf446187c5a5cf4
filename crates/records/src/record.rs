//! Records, as slices of the batch or message that holds them.

use super::{BatchHeader, Malformed, RecordsError, TimestampType, varint};

/// Fewest bytes of a record: its size, attributes, two differences, two lengths and the number of headers.
const LEAST: usize = 7;

/// A record of a batch or message.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Its timestamp in milliseconds, -1 for none; the batch or message has its type: who set it.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub(super) headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Its headers, in order; keys may repeat.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.headers.clone()
    }
}

/// The headers of a record: keys and values. They were checked when the record was read, so that reading them cannot fail.
#[derive(Debug, Clone, Default)]
pub struct Headers<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    #[cold]
    fn read(count: i32, rest: &'a [u8]) -> Result<Self, Malformed> {
        let left = usize::try_from(count).map_err(|_| Malformed::HeaderCount)?;
        // A header is two lengths at least.
        if left > rest.len() / 2 {
            return Err(Malformed::HeaderCount);
        }
        let headers = Self { left, rest };
        let mut looked_at = headers.clone();
        while looked_at.left > 0 {
            looked_at.step()?;
        }
        if looked_at.rest.is_empty() {
            Ok(headers)
        } else {
            Err(Malformed::Size)
        }
    }

    fn step(&mut self) -> Result<(&'a str, Option<&'a [u8]>), Malformed> {
        self.left -= 1;
        let (key, rest) = nullable(self.rest)?;
        let key = key.ok_or(Malformed::NegativeLength)?;
        let key = std::str::from_utf8(key).map_err(|_| Malformed::HeaderKey)?;
        let (value, rest) = nullable(rest)?;
        self.rest = rest;
        Ok((key, value))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            None
        } else {
            self.step().ok()
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The records of a batch, in order. After an error it ends, unless only that record is concerned ([`RecordsError::HeaderKey`]).
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    index: i32,
    last_delta: i32,
    header: BatchHeader,
}

impl<'a> Records<'a> {
    pub(super) fn new(header: &BatchHeader, payload: &'a [u8]) -> Result<Self, RecordsError> {
        let base_offset = header.base_offset;
        let count = usize::try_from(header.count)
            .ok()
            .filter(|count| *count <= payload.len() / LEAST);
        if count.is_none() {
            return Err(RecordsError::Count {
                base_offset,
                count: header.count,
                bytes: payload.len(),
            });
        }
        Ok(Self {
            rest: payload,
            index: 0,
            last_delta: -1,
            header: *header,
        })
    }

    #[cold]
    fn refused(&mut self, index: i32, what: Malformed) -> RecordsError {
        let base_offset = self.header.base_offset;
        if what == Malformed::HeaderKey {
            // Its length and its offset were read, and the next record begins behind it.
            return RecordsError::HeaderKey {
                offset: base_offset.saturating_add(i64::from(self.last_delta)),
            };
        }
        (self.index, self.rest) = (self.header.count, &[]);
        RecordsError::Record {
            base_offset,
            index,
            what,
        }
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Record<'a>, Malformed> {
        let (size, rest) = varint::read_i32(self.rest)?;
        let (body, rest) = rest.split_at_checked(length(size)?).ok_or(Malformed::Cut)?;
        self.rest = rest;
        // Attributes: no bit has a meaning so far.
        let (_, body) = body.split_first().ok_or(Malformed::Cut)?;
        let (timestamp_delta, body) = varint::read_i64(body)?;
        let (delta, body) = varint::read_i32(body)?;
        if delta <= self.last_delta || delta > self.header.last_offset_delta {
            return Err(Malformed::Offset);
        }
        self.last_delta = delta;
        let (key, body) = nullable(body)?;
        let (value, body) = nullable(body)?;
        let headers = match varint::read_i32(body)? {
            (0, []) => Headers::default(),
            (0, _) => return Err(Malformed::Size),
            (count, body) => Headers::read(count, body)?,
        };
        let timestamp = match self.header.timestamp_type() {
            TimestampType::Create => self.header.base_timestamp.wrapping_add(timestamp_delta),
            TimestampType::LogAppend => self.header.max_timestamp,
        };
        Ok(Record {
            offset: self.header.base_offset.saturating_add(i64::from(delta)),
            timestamp,
            key,
            value,
            headers,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    // A record is larger than what registers return: it is to stay where the caller looks at it.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index < self.header.count {
            let index = self.index;
            self.index = index.saturating_add(1);
            return Some(self.read().map_err(|what| self.refused(index, what)));
        }
        let left = std::mem::take(&mut self.rest).len();
        (left > 0).then_some(Err(RecordsError::Left {
            base_offset: self.header.base_offset,
            left,
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (
            0,
            usize::try_from(self.header.count.saturating_sub(self.index))
                .ok()
                .map(|left| left + 1),
        )
    }
}

/// The type in the key of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The producer's transaction was aborted.
    Abort,
    /// The producer's transaction was committed.
    Commit,
    /// A type without meaning to a consumer.
    Other(i16),
}

impl ControlType {
    /// Reads the key of a control record: its version, which may be any, and its type.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let [_, _, high, low] = *key.first_chunk()?;
        Some(match i16::from_be_bytes([high, low]) {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }
}

#[inline]
fn length(value: i32) -> Result<usize, Malformed> {
    usize::try_from(value).map_err(|_| Malformed::NegativeLength)
}

/// A field after its length (-1 means null), and the bytes after it.
#[inline(always)]
fn nullable(input: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Malformed> {
    let (size, rest) = varint::read_i32(input)?;
    if size == -1 {
        return Ok((None, rest));
    }
    let (field, rest) = rest.split_at_checked(length(size)?).ok_or(Malformed::Cut)?;
    Ok((Some(field), rest))
}
