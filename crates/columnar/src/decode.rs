//! Record batches to columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_buffer::ScalarBuffer;
use bytes::Bytes;
use ottla_protocol::compression::{Compression, CompressionError};
use ottla_protocol::records::{Batch, ControlType, Record, RecordsError, batches};

use crate::build;
use crate::columns::{Columns, Decoded, Run};
use crate::error::ColumnarError;

/// A transaction that was aborted, as a Fetch response tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted {
    /// The producer.
    pub producer_id: i64,
    /// Offset of the transaction's first record in the partition.
    pub first_offset: i64,
}

/// Where bytes came from, and how to read them.
#[derive(Debug, Clone)]
pub struct Source {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset that was asked for. A batch may begin before it: those records are left out.
    pub fetch_offset: i64,
    /// The aborted transactions of the answer, in any order.
    pub aborted: Vec<Aborted>,
    /// Leave out the records of aborted transactions.
    pub read_committed: bool,
    /// Check the checksums of batches.
    pub check_crcs: bool,
    /// The most bytes that the compressed batches may decompress to, together.
    pub decompress_limit: usize,
}

/// Reads the records of one partition in a Fetch response. A last batch that is cut short is left out, as is all that is no
/// application's record: control batches, and with [`Source::read_committed`] those of aborted transactions.
///
/// # Errors
/// What is wrong with the bytes, with topic, partition and offset. A first batch that is cut short is an error, as nothing
/// could be read past it.
pub fn decode(records: Bytes, source: &Source) -> Result<Columns, ColumnarError> {
    let mut decoder = Decoder::new(source, records.len());
    let mut batches = batches(records);
    for batch in batches.by_ref() {
        let batch = batch.map_err(|cause| source.error(None, cause))?;
        decoder.batch(&batch)?;
    }
    match batches.cut() {
        Some(cut) if decoder.end.is_none() => Err(source.error(None, cut)),
        _ => decoder.finish(),
    }
}

impl Source {
    fn error(&self, next_offset: Option<i64>, source: RecordsError) -> ColumnarError {
        ColumnarError::Records {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            next_offset,
            source,
        }
    }
}

struct Decoder<'a> {
    source: &'a Source,
    aborted: AbortedProducers,
    next_offset: i64,
    /// The offset after the last batch.
    end: Option<i64>,
    /// Bytes that batches may still decompress to.
    may_decompress: usize,
    scratch: Vec<u8>,
    /// Bytes of all payloads that were read: no column holds more.
    payload_bytes: usize,
    keys: build::Bytes,
    values: build::Bytes,
    headers: build::Headers,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    runs: Vec<Run>,
}

impl<'a> Decoder<'a> {
    fn new(source: &'a Source, bytes: usize) -> Self {
        let mut values = build::Bytes::new();
        // What is not compressed is mostly values; the pages of what they do not need are never touched.
        values.reserve(0, bytes);
        Self {
            source,
            aborted: AbortedProducers::new(if source.read_committed {
                &source.aborted
            } else {
                &[]
            }),
            next_offset: source.fetch_offset,
            end: None,
            may_decompress: source.decompress_limit,
            scratch: Vec::new(),
            payload_bytes: 0,
            keys: build::Bytes::new(),
            values,
            headers: build::Headers::new(),
            offsets: Vec::new(),
            timestamps: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), ColumnarError> {
        let header = &batch.header;
        if let Some(expected) = self.end.filter(|end| header.base_offset < *end) {
            return Err(ColumnarError::OutOfOrder {
                topic: Arc::clone(&self.source.topic),
                partition: self.source.partition,
                base_offset: header.base_offset,
                expected,
            });
        }
        self.end = Some(header.next_offset());
        if header.next_offset() > self.next_offset {
            let mut scratch = std::mem::take(&mut self.scratch);
            let done = self.records(batch, &mut scratch);
            self.scratch = scratch;
            done?;
            self.next_offset = header.next_offset();
        }
        Ok(())
    }

    fn records(&mut self, batch: &Batch, scratch: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let header = &batch.header;
        let error = |cause| self.source.error(Some(header.next_offset()), cause);
        if self.source.check_crcs {
            batch.verify_crc().map_err(error)?;
        }
        if self.source.read_committed {
            self.aborted.begin_up_to(header.last_offset());
            if header.is_control() && header.is_transactional() {
                if batch
                    .control_type(self.source.decompress_limit)
                    .map_err(error)?
                    == Some(ControlType::Abort)
                {
                    self.aborted.end(header.producer_id);
                }
            } else if header.is_transactional() && self.aborted.contains(header.producer_id) {
                return Ok(());
            }
        }
        if header.is_control() {
            return Ok(());
        }
        let codec = header.compression().map_err(error)?;
        let payload = batch
            .payload_in(self.may_decompress, scratch)
            .map_err(|cause| error(self.with_whole_limit(cause)))?;
        if codec != Compression::None {
            self.may_decompress -= payload.len();
            self.values.reserve(0, payload.len());
        }
        self.payload_bytes = self.payload_bytes.saturating_add(payload.len());
        if self.payload_bytes > i32::MAX as usize {
            return Err(ColumnarError::TooLarge {
                topic: Arc::clone(&self.source.topic),
                partition: self.source.partition,
            });
        }
        self.rows(batch, payload)
            .map_err(|cause| self.source.error(Some(header.next_offset()), cause))
    }

    fn rows(&mut self, batch: &Batch, payload: &[u8]) -> Result<(), RecordsError> {
        let records = batch.records(payload)?;
        // The number was checked against the payload's bytes.
        let count = batch.header.count.unsigned_abs() as usize;
        self.keys.reserve(count, 0);
        self.values.reserve(count, 0);
        self.offsets.reserve(count);
        self.timestamps.reserve(count);
        for record in records {
            let record = record?;
            if record.offset >= self.next_offset {
                self.row(&record);
            }
        }
        let run = Run {
            end: self.offsets.len(),
            timestamp_type: batch.header.timestamp_type().id(),
            leader_epoch: batch.header.partition_leader_epoch,
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
        Ok(())
    }

    #[inline]
    fn row(&mut self, record: &Record<'_>) {
        let headers = record.headers();
        if headers.len() > 0 {
            self.headers.push(self.offsets.len(), headers);
        }
        self.keys.push(record.key);
        self.values.push(record.value);
        self.offsets.push(record.offset);
        self.timestamps.push(record.timestamp);
    }

    /// The limit is that of all batches; what was left of it for this one says little.
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
        let rows = self.offsets.len();
        Ok(Columns::new(Decoded {
            topic: Arc::clone(&self.source.topic),
            partition: self.source.partition,
            next_offset: self.next_offset,
            keys: self.keys.binary()?,
            values: self.values.binary()?,
            offsets: ScalarBuffer::from(self.offsets),
            timestamps: ScalarBuffer::from(self.timestamps),
            headers: self.headers.finish(rows)?,
            runs: self.runs,
        }))
    }
}

/// The producers whose open transaction will be aborted, while batches go by.
struct AbortedProducers {
    /// Those that have not begun, last first.
    to_come: Vec<Aborted>,
    open: HashSet<i64>,
}

impl AbortedProducers {
    fn new(aborted: &[Aborted]) -> Self {
        let mut to_come = aborted.to_vec();
        to_come.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            to_come,
            open: HashSet::new(),
        }
    }

    fn begin_up_to(&mut self, offset: i64) {
        while let Some(begun) = self
            .to_come
            .last()
            .filter(|transaction| transaction.first_offset <= offset)
        {
            self.open.insert(begun.producer_id);
            self.to_come.pop();
        }
    }

    /// More than one marker may end a transaction.
    fn end(&mut self, producer_id: i64) {
        self.open.remove(&producer_id);
    }

    fn contains(&self, producer_id: i64) -> bool {
        self.open.contains(&producer_id)
    }
}
