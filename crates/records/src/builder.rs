//! Writes record batches.

use bytes::Bytes;

use super::{BatchHeader, NO_TIMESTAMP, RecordsError, varint};
use crate::compression::{self, Compression};

/// The producer of a batch, for idempotence and transactions (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer's id, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
}

impl ProducerState {
    /// A producer that is not idempotent.
    pub const NONE: Self = Self {
        producer_id: -1,
        epoch: -1,
        base_sequence: -1,
    };
}

impl Default for ProducerState {
    fn default() -> Self {
        Self::NONE
    }
}

/// The least capacity of a new batch, in bytes: a record or a few, in memory that allocators keep at hand.
const ROOM: usize = 960;
/// Space after the last record, for the zeros of [`Out::short`].
const SHORT: usize = 32;
/// The maximum of a batch's length field.
const MOST: usize = BatchHeader::PREFIX + i32::MAX as usize;

/// Encodes records directly into the bytes of a batch. If the batch is not compressed, those bytes are the batch; otherwise
/// [`Self::finish`] compresses the record section once.
///
/// ```
/// use ottla_records::compression::Compression;
/// use ottla_records::{self as records, BatchBuilder, ProducerState};
///
/// let mut builder = BatchBuilder::new(Compression::None, None);
/// builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), std::iter::empty())?;
/// let bytes = builder.finish(ProducerState::NONE)?;
/// let batch = records::Batch::parse(bytes)?;
/// batch.verify_crc()?;
/// let payload = batch.payload(1 << 20)?;
/// for record in batch.records(&payload)? {
///     assert_eq!(record?.value, Some(&b"value"[..]));
/// }
/// # Ok::<(), records::RecordsError>(())
/// ```
#[derive(Debug)]
pub struct BatchBuilder {
    codec: Compression,
    level: Option<i32>,
    transactional: bool,
    /// Nothing, or space for the header and then the records.
    buffer: Vec<u8>,
    /// Size of the last batch before compression: the next one of a steady producer will be about as large.
    last_size: usize,
    count: i32,
    last_delta: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    has_headers: bool,
}

impl BatchBuilder {
    /// A builder of batches whose timestamps the producer sets. An invalid level is an error when a batch is
    /// finished; [`Compression::check_level`] finds it earlier.
    #[must_use]
    pub fn new(codec: Compression, level: Option<i32>) -> Self {
        Self {
            codec,
            level,
            transactional: false,
            buffer: Vec::new(),
            last_size: 0,
            count: 0,
            last_delta: -1,
            base_timestamp: None,
            max_timestamp: NO_TIMESTAMP,
            has_headers: false,
        }
    }

    /// Sets the codec of this batch and the following ones, with its default level.
    pub const fn set_compression(&mut self, codec: Compression) {
        self.codec = codec;
        self.level = None;
    }

    /// Marks this batch and the following ones as parts of a transaction.
    pub const fn set_transactional(&mut self, yes: bool) {
        self.transactional = yes;
    }

    /// Sets the base of this batch's timestamps. Call it before the first record is added; the default base is the first
    /// record's timestamp.
    pub const fn set_base_timestamp(&mut self, timestamp: i64) {
        self.base_timestamp = Some(timestamp);
    }

    /// Adds a record after the last one and returns its index in the batch. The timestamp is in milliseconds.
    ///
    /// # Errors
    /// [`RecordsError::TooLarge`] if the batch would exceed 2 GiB; the batch is unchanged then.
    #[inline]
    pub fn append<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Result<i32, RecordsError> {
        let delta = self.last_delta.wrapping_add(1);
        self.append_at(delta, timestamp, key, value, headers)?;
        Ok(delta)
    }

    /// Adds a record at an offset relative to the first one of the batch, for batches with gaps.
    ///
    /// # Errors
    /// As [`Self::append`], or [`RecordsError::Order`] if the relative offset is not above that of the last record.
    #[inline]
    pub fn append_at<'h>(
        &mut self,
        delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    ) -> Result<(), RecordsError> {
        if delta <= self.last_delta {
            return Err(RecordsError::Order {
                delta,
                last: self.last_delta,
            });
        }
        let base_timestamp = self.base_timestamp.unwrap_or(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        let (header_count, header_bytes) = measure(headers.clone());
        let body = 1
            + varint::size(timestamp_delta)
            + varint::size(i64::from(delta))
            + nullable_size(key)
            + nullable_size(value)
            + varint::size(wide(header_count))
            + header_bytes;
        let mut out = Out(self.room(varint::size(wide(body)) + body)?);
        // Size 5, attributes 1, timestamp 10, offset 5; then the lengths up to the next bytes of the caller.
        out.short::<31>(|short| {
            short.varint(wide(body));
            short.byte(0);
            short.varint(timestamp_delta);
            short.varint(i64::from(delta));
            short.length(key);
            if key.is_none() {
                short.length(value);
            }
        });
        match key {
            Some(key) => {
                out.bytes(key);
                out.nullable(value);
            }
            None => out.bytes(value.unwrap_or_default()),
        }
        out.short::<5>(|short| short.varint(wide(header_count)));
        for (key, value) in headers {
            out.nullable(Some(key.as_bytes()));
            out.nullable(value);
        }
        self.count += 1;
        self.last_delta = delta;
        self.base_timestamp = Some(base_timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.has_headers |= header_count > 0;
        Ok(())
    }

    /// Maximum bytes of a record in a batch, before compression.
    #[inline]
    #[must_use]
    pub fn record_size_bound<'h>(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>,
    ) -> usize {
        let (header_count, header_bytes) = measure(headers);
        // Size 5, attributes 1, timestamp 10, offset 5.
        21 + nullable_size(key)
            + nullable_size(value)
            + varint::size(wide(header_count))
            + header_bytes
    }

    /// Records added.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count.unsigned_abs() as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch so far, header included, before compression.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.buffer.len().max(BatchHeader::SIZE)
    }

    /// Greatest timestamp so far, in milliseconds; -1 for none.
    #[must_use]
    pub const fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Whether any record so far has headers.
    #[must_use]
    pub const fn has_headers(&self) -> bool {
        self.has_headers
    }

    /// Finishes the batch and returns its bytes, ready to send. The builder is empty then and can build the next batch. Without
    /// records it returns no bytes.
    ///
    /// # Errors
    /// The codec's errors, and [`RecordsError::TooLarge`] for more than 2 GiB. The builder keeps the records then.
    pub fn finish(&mut self, state: ProducerState) -> Result<Bytes, RecordsError> {
        if self.is_empty() {
            return Ok(Bytes::new());
        }
        let compressed = self.compress()?;
        let mut header = BatchHeader {
            base_offset: 0,
            length: 0,
            partition_leader_epoch: super::NONE,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: self.last_delta,
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: self.max_timestamp,
            producer_id: state.producer_id,
            producer_epoch: state.epoch,
            base_sequence: state.base_sequence,
            count: self.count,
        };
        header.set_compression(self.codec);
        header.set_transactional(self.transactional);
        let mut batch = compressed.unwrap_or_else(|| {
            self.last_size = self.buffer.len();
            std::mem::take(&mut self.buffer)
        });
        header.seal(&mut batch)?;
        self.clear();
        Ok(Bytes::from(batch))
    }

    /// Drops the records.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.count = 0;
        self.last_delta = -1;
        self.base_timestamp = None;
        self.max_timestamp = NO_TIMESTAMP;
        self.has_headers = false;
    }

    #[cfg(test)]
    pub(super) fn bytes_so_far(&self) -> &[u8] {
        &self.buffer
    }

    /// A batch with space for its header and the records compressed, if it has a codec.
    fn compress(&self) -> Result<Option<Vec<u8>>, RecordsError> {
        if self.codec == Compression::None {
            return Ok(None);
        }
        let records = self.buffer.get(BatchHeader::SIZE..).unwrap_or_default();
        let mut batch = vec![0; BatchHeader::SIZE];
        compression::compress(self.codec, self.level, records, &mut batch).map_err(|source| {
            RecordsError::Compression {
                base_offset: 0,
                source,
            }
        })?;
        if batch.len() > MOST {
            return Err(RecordsError::TooLarge {
                size: 0,
                batch: batch.len(),
                most: MOST,
            });
        }
        Ok(Some(batch))
    }

    /// The buffer, with a header and space for `size` bytes.
    #[inline]
    fn room(&mut self, size: usize) -> Result<&mut Vec<u8>, RecordsError> {
        let end = self.size().saturating_add(size);
        if end.saturating_add(SHORT) > self.buffer.capacity() {
            self.grow(end)?;
        }
        if self.buffer.is_empty() {
            self.buffer.resize(BatchHeader::SIZE, 0);
        }
        Ok(&mut self.buffer)
    }

    #[cold]
    fn grow(&mut self, end: usize) -> Result<(), RecordsError> {
        if end > MOST {
            let batch = self.size();
            return Err(RecordsError::TooLarge {
                size: end.saturating_sub(batch),
                batch,
                most: MOST,
            });
        }
        let enough = end.max(2 * self.buffer.len()).max(self.last_size).max(ROOM);
        // Capped, so that a batch above the limit comes here again and gets the error.
        let enough = enough.min(MOST);
        self.buffer
            .reserve_exact(enough + SHORT - self.buffer.len());
        Ok(())
    }
}

/// The number of headers, and their bytes.
#[inline]
fn measure<'h>(headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>) -> (usize, usize) {
    headers.fold((0, 0), |(count, bytes), (key, value)| {
        (
            count + 1,
            bytes + nullable_size(Some(key.as_bytes())) + nullable_size(value),
        )
    })
}

#[inline]
fn nullable_size(field: Option<&[u8]>) -> usize {
    match field {
        None => 1,
        Some(field) => varint::size(wide(field.len())) + field.len(),
    }
}

/// A length for a varint. No slice is longer than `isize::MAX`.
#[inline]
const fn wide(length: usize) -> i64 {
    length as i64
}

/// The end of the buffer, where there is space for a record.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    /// Writes at most `N` bytes one by one, over zeros that take their place first.
    #[inline]
    fn short<const N: usize>(&mut self, write: impl FnOnce(&mut Short<'_>)) {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; N]);
        let mut short = Short(self.0.get_mut(start..).unwrap_or_default());
        write(&mut short);
        let left = short.0.len();
        self.0.truncate(start + N - left);
    }

    #[inline]
    fn nullable(&mut self, field: Option<&[u8]>) {
        self.short::<5>(|short| short.length(field));
        self.bytes(field.unwrap_or_default());
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// What is left of the space for a few bytes.
struct Short<'a>(&'a mut [u8]);

impl Short<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        if let Some((room, rest)) = std::mem::take(&mut self.0).split_first_mut() {
            *room = byte;
            self.0 = rest;
        }
    }

    /// The length of a field; -1 if it is null.
    #[inline]
    fn length(&mut self, field: Option<&[u8]>) {
        self.varint(field.map_or(-1, |field| wide(field.len())));
    }

    #[inline]
    fn varint(&mut self, value: i64) {
        let written = varint::write(self.0, value);
        self.0 = std::mem::take(&mut self.0)
            .get_mut(written..)
            .unwrap_or_default();
    }
}
