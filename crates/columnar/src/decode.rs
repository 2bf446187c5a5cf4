//! Decodes record batches, and the older message sets, into columns.
#![allow(unsafe_code)] // rows are added without a capacity check per row

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::compression::{Compression, CompressionError};
use ottla_protocol::records::{
    AbortedTransaction, AbortedTransactions, Batch, Entry, Malformed, Message, Record,
    RecordsError, TimestampType, entries,
};

use crate::build;
use crate::columns::{Columns, Run, SharedRows};
use crate::error::ColumnarError;
use crate::memory::{Column, Memory};
use crate::values::{Copying, Fill, Viewing};

/// The partition that record bytes were fetched from, and how to decode them.
#[derive(Debug, Clone)]
pub struct FetchedPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The requested offset. A batch may begin before it; earlier records are left out.
    pub fetch_offset: i64,
    /// The aborted transactions of the Fetch response, in any order.
    pub aborted: Vec<AbortedTransaction>,
    /// Leave out the records of aborted transactions.
    pub read_committed: bool,
    /// Check the checksums of batches.
    pub check_crcs: bool,
    /// Maximum bytes that all compressed batches together may decompress to.
    pub decompress_limit: usize,
}

/// Decodes the records of one partition in a Fetch response, in any format: a log keeps what brokers before 0.11 wrote as it is.
/// Leaves out a last batch that is cut short, control batches, and with [`FetchedPartition::read_committed`] the records of
/// aborted transactions.
///
/// # Errors
/// Damaged bytes, with topic, partition and offset. A first batch that is cut short is an error, because the consumer could
/// never read past it.
pub fn decode(
    records: Bytes,
    source: &FetchedPartition,
    memory: &Memory,
) -> Result<Columns, ColumnarError> {
    let copying = Copying::new(memory, records.len());
    Decoder::new(copying, source, memory, records.len(), false).decode(records)
}

/// As [`decode`], but ends before the first record that columns cannot show, whose header has a key
/// that is not UTF-8: [`Columns::next_offset`] is its offset then. That record is an error only if
/// it is the one at [`FetchedPartition::fetch_offset`], so that a second call from there returns
/// the error.
///
/// # Errors
/// As [`decode`].
pub fn decode_shown(
    records: Bytes,
    source: &FetchedPartition,
    memory: &Memory,
) -> Result<Columns, ColumnarError> {
    let copying = Copying::new(memory, records.len());
    Decoder::new(copying, source, memory, records.len(), true).decode(records)
}

/// As [`decode_shown`], without a copy of keys and values: they are views of `records`, or of what batches decompressed to, and keep
/// all of it in memory.
///
/// # Errors
/// As [`decode`].
pub fn decode_in_place(
    records: Bytes,
    source: &FetchedPartition,
    memory: &Memory,
) -> Result<Columns, ColumnarError> {
    // Views reach no further.
    if records.len() > i32::MAX as usize {
        return decode_shown(records, source, memory);
    }
    let viewing = Viewing::new(memory, records.clone());
    Decoder::new(viewing, source, memory, records.len(), true).decode(records)
}

impl FetchedPartition {
    fn error(&self, next_offset: Option<i64>, source: RecordsError) -> ColumnarError {
        let next_offset = match source {
            RecordsError::HeaderKey { offset } => Some(offset.saturating_add(1)),
            _ => next_offset,
        };
        ColumnarError::Records {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            next_offset,
            source,
        }
    }
}

struct Decoder<'a, F> {
    fill: F,
    source: &'a FetchedPartition,
    memory: &'a Memory,
    /// Bytes of the records to decode.
    bytes: usize,
    /// Whether a record that cannot be shown ends the columns, rather than being an error.
    may_stop: bool,
    /// One did: nothing behind [`Self::next_offset`] is decoded.
    is_stopped: bool,
    aborted: AbortedTransactions,
    next_offset: i64,
    /// The offset after the last batch.
    end: Option<i64>,
    /// Bytes that batches may still decompress to.
    may_decompress: usize,
    scratch: Vec<u8>,
    /// Bytes of all payloads read so far: no column holds more.
    payload_bytes: usize,
    headers: build::Headers<'a>,
    offsets: Column<i64>,
    timestamps: Column<i64>,
    runs: Vec<Run>,
}

impl<'a, F: Fill> Decoder<'a, F> {
    fn new(
        fill: F,
        source: &'a FetchedPartition,
        memory: &'a Memory,
        bytes: usize,
        may_stop: bool,
    ) -> Self {
        memory.begin(bytes);
        Self {
            fill,
            source,
            memory,
            bytes,
            may_stop,
            is_stopped: false,
            aborted: AbortedTransactions::new(source.aborted.iter().copied()),
            next_offset: source.fetch_offset,
            end: None,
            may_decompress: source.decompress_limit,
            scratch: memory.scratch(),
            payload_bytes: 0,
            headers: build::Headers::new(memory),
            offsets: Column::default(),
            timestamps: Column::default(),
            runs: Vec::new(),
        }
    }

    fn decode(mut self, records: Bytes) -> Result<Columns, ColumnarError> {
        let mut entries = entries(records);
        for entry in entries.by_ref() {
            match entry.map_err(|cause| self.source.error(None, cause))? {
                Entry::Batch(batch) => self.batch(&batch)?,
                Entry::Message(message) => self.message(&message)?,
            }
            if self.is_stopped {
                return self.finish();
            }
        }
        match entries.cut() {
            Some(cut) if self.end.is_none() => Err(self.source.error(None, cut)),
            _ => self.finish(),
        }
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), ColumnarError> {
        let header = &batch.header;
        self.check_order(header.base_offset)?;
        self.end = Some(header.next_offset());
        if header.next_offset() > self.next_offset {
            let mut scratch = std::mem::take(&mut self.scratch);
            let done = self.records(batch, &mut scratch);
            self.scratch = scratch;
            done?;
            if !self.is_stopped {
                self.next_offset = header.next_offset();
            }
        }
        Ok(())
    }

    fn records(&mut self, batch: &Batch, scratch: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let header = &batch.header;
        let error = |cause| self.source.error(Some(header.next_offset()), cause);
        if self.source.check_crcs {
            batch.verify_crc().map_err(error)?;
        }
        if self.source.read_committed
            && self
                .aborted
                .hide(batch, self.source.decompress_limit)
                .map_err(error)?
        {
            return Ok(());
        }
        if header.is_control() {
            return Ok(());
        }
        let codec = header.compression().map_err(error)?;
        let payload = batch
            .payload_in(self.may_decompress, scratch)
            .map_err(|cause| error(self.with_whole_limit(cause)))?;
        self.take_payload(codec, payload.len())?;
        self.fill.payload(codec, payload);
        self.rows(batch, payload)
            .map_err(|cause| self.source.error(Some(header.next_offset()), cause))
    }

    fn rows(&mut self, batch: &Batch, payload: &[u8]) -> Result<(), RecordsError> {
        let records = batch.records(payload)?;
        // The number was checked against the payload's bytes, and records come one after the other in them.
        let count = batch.header.count.unsigned_abs() as usize;
        if self.offsets.data.is_empty() {
            let rows = self.rows_like(batch, count);
            self.offsets = self.memory.numbers(rows);
            self.timestamps = self.memory.numbers(rows);
            self.reserve(rows, 0);
        }
        self.reserve(count, payload.len());
        for record in records {
            let record = match record {
                Ok(record) => record,
                // Its caller has passed it.
                Err(RecordsError::HeaderKey { offset }) if offset < self.next_offset => continue,
                Err(RecordsError::HeaderKey { offset })
                    if self.may_stop && offset > self.source.fetch_offset =>
                {
                    self.is_stopped = true;
                    self.next_offset = offset;
                    break;
                }
                Err(error) => return Err(error),
            };
            if record.offset >= self.next_offset {
                // SAFETY: space was reserved for as many records as the iterator gives, with all
                // their bytes.
                unsafe { self.row(&record) };
            }
        }
        self.end_run(
            batch.header.timestamp_type().id(),
            batch.header.partition_leader_epoch,
        );
        Ok(())
    }

    fn message(&mut self, message: &Message) -> Result<(), ColumnarError> {
        self.check_order(message.offset)?;
        let next_offset = message.offset.saturating_add(1);
        if next_offset > self.next_offset {
            let mut scratch = std::mem::take(&mut self.scratch);
            let done = self.message_records(message, &mut scratch);
            self.scratch = scratch;
            done?;
            self.next_offset = next_offset;
        }
        self.end = Some(next_offset);
        Ok(())
    }

    fn message_records(
        &mut self,
        message: &Message,
        scratch: &mut Vec<u8>,
    ) -> Result<(), ColumnarError> {
        let error = |cause| {
            let next_offset = message.offset.saturating_add(1);
            self.source.error(Some(next_offset), cause)
        };
        if self.source.check_crcs {
            message.verify_crc().map_err(error)?;
        }
        let codec = message.compression().map_err(error)?;
        let payload = message
            .payload_in(self.may_decompress, scratch)
            .map_err(|cause| error(self.with_whole_limit(cause)))?;
        self.take_payload(codec, payload.len())?;
        self.fill.payload(codec, payload);
        self.message_rows(message, payload).map_err(|cause| {
            let next_offset = message.offset.saturating_add(1);
            self.source.error(Some(next_offset), cause)
        })
    }

    fn message_rows(&mut self, message: &Message, payload: &[u8]) -> Result<(), RecordsError> {
        let mut records = message.records(payload)?;
        if !self.source.check_crcs {
            records = records.without_crcs();
        }
        // The offsets in a wrapper are after the entry before it, ascend, and end with its own
        // offset.
        let mut due = self.end.unwrap_or(i64::MIN);
        for (index, record) in records.enumerate() {
            let record = record?;
            if record.offset < due || record.offset > message.offset {
                return Err(RecordsError::Record {
                    base_offset: message.offset,
                    index: i32::try_from(index).unwrap_or(i32::MAX),
                    what: Malformed::Offset,
                });
            }
            due = record.offset.saturating_add(1);
            if record.offset >= self.next_offset {
                let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
                self.reserve(1, bytes);
                // SAFETY: space was just reserved for it.
                unsafe { self.row(&record) };
            }
        }
        let timestamp_type = message.timestamp_type().map_or(-1, TimestampType::id);
        self.end_run(timestamp_type, -1);
        Ok(())
    }

    /// Checks that batches do not go back in the log.
    fn check_order(&self, base_offset: i64) -> Result<(), ColumnarError> {
        match self.end.filter(|end| base_offset < *end) {
            None => Ok(()),
            Some(expected) => Err(ColumnarError::OutOfOrder {
                topic: Arc::clone(&self.source.topic),
                partition: self.source.partition,
                base_offset,
                expected,
            }),
        }
    }

    /// Counts the bytes of a payload.
    fn take_payload(&mut self, codec: Compression, bytes: usize) -> Result<(), ColumnarError> {
        if codec != Compression::None {
            self.may_decompress -= bytes;
        }
        self.payload_bytes = self.payload_bytes.saturating_add(bytes);
        if self.payload_bytes > i32::MAX as usize {
            return Err(ColumnarError::TooLarge {
                topic: Arc::clone(&self.source.topic),
                partition: self.source.partition,
            });
        }
        Ok(())
    }

    /// Notes what the entry just read has for all its rows.
    fn end_run(&mut self, timestamp_type: i32, leader_epoch: i32) {
        let run = Run {
            end: self.offsets.data.len(),
            timestamp_type,
            leader_epoch,
        };
        match self.runs.last_mut() {
            Some(last)
                if (last.timestamp_type, last.leader_epoch)
                    == (run.timestamp_type, run.leader_epoch) =>
            {
                *last = run
            }
            _ => self.runs.push(run),
        }
    }

    /// Estimates the number of rows, as if all batches were like this one, plus a few; bounded by what the bytes can hold.
    fn rows_like(&self, batch: &Batch, count: usize) -> usize {
        let rows = count.saturating_mul(self.bytes) / batch.bytes.len().max(1);
        (rows + rows / 16).min(self.bytes / 16)
    }

    /// Reserves space for rows whose keys and values take this number of bytes together.
    fn reserve(&mut self, rows: usize, bytes: usize) {
        self.fill.reserve(rows, bytes);
        self.offsets.data.reserve(rows);
        self.timestamps.data.reserve(rows);
    }

    /// Adds a row.
    ///
    /// # Safety
    /// [`Self::reserve`] reserved space for it.
    #[inline(always)]
    unsafe fn row(&mut self, record: &Record<'_>) {
        let headers = record.headers();
        if headers.len() > 0 {
            self.headers.push(self.offsets.data.len(), headers);
        }
        // SAFETY: as the caller promises.
        unsafe {
            self.fill.push_within(record.key, record.value);
            build::append_within(&mut self.offsets.data, record.offset);
            build::append_within(&mut self.timestamps.data, record.timestamp);
        }
    }

    /// Names the limit of all batches together; the rest that was left for this batch would not
    /// help the reader.
    fn with_whole_limit(&self, mut cause: RecordsError) -> RecordsError {
        if let RecordsError::Compression {
            source: CompressionError::TooLarge { limit, .. },
            ..
        } = &mut cause
        {
            *limit = self.source.decompress_limit;
        }
        cause
    }

    fn finish(self) -> Result<Columns, ColumnarError> {
        let rows = self.offsets.data.len();
        self.memory.keep_scratch(self.scratch);
        let (keys, values) = self.fill.finish()?;
        Ok(Columns::new(SharedRows {
            topic: Arc::clone(&self.source.topic),
            partition: self.source.partition,
            next_offset: self.next_offset,
            keys,
            values,
            offsets: self.offsets.into_rows(),
            timestamps: self.timestamps.into_rows(),
            headers: self.headers.finish(rows)?,
            runs: self.runs,
        }))
    }
}
