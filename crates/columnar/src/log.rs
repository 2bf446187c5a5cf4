//! Decodes parts of log segments: the `.log` files in a broker's data folder.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::records::{AbortedTransaction, Entry, entries};

use crate::columns::Columns;
use crate::decode::{FetchedPartition, decode};
use crate::error::ColumnarError;
use crate::memory::Memory;

/// Bytes that a row takes besides its key, value and headers.
const ROW: usize = 24;

/// Which records of a partition's log are wanted.
#[derive(Debug, Clone)]
pub struct LogRange {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first offset.
    pub start: i64,
    /// The offset after the last one.
    pub end: i64,
    /// The segment's first offset and the one after its last: no entry of it is outside.
    pub segment: (i64, i64),
    /// The aborted transactions whose records are left out.
    pub aborted: Vec<AbortedSpan>,
    /// Maximum bytes that one entry may decompress to. A part ends behind the entries that have taken as much together.
    pub decompress_limit: usize,
}

/// Where an aborted transaction stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedSpan {
    /// The producer.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of its abort marker.
    pub last_offset: i64,
}

/// What a part of a segment holds.
#[derive(Debug)]
pub struct LogPart {
    /// The records that are wanted, in order.
    pub columns: Vec<Columns>,
    /// Bytes of the whole entries that were read or passed over.
    pub used: usize,
    /// The offset after them; `None` if there are none.
    pub next_offset: Option<i64>,
    /// Whether an entry follows that begins after the range.
    pub ended: bool,
    /// What is wrong with the bytes that follow them, if something is.
    pub damage: Option<LogDamage>,
}

/// An entry that does not decode, or bytes that are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDamage {
    /// The offset that its first bytes claim, or the one that was due.
    pub offset: Option<i64>,
    /// Why.
    pub cause: String,
}

impl LogPart {
    /// Decodes the entries at the beginning of the bytes, up to the first that is not whole or begins at the end of the range.
    /// Checksums are checked, and control batches left out. `due` is the offset after the entries before, if there are some: a log
    /// never goes back.
    #[must_use]
    pub fn decode(bytes: &Bytes, range: &LogRange, due: Option<i64>, memory: &Memory) -> Self {
        let mut part = Self {
            columns: Vec::new(),
            used: 0,
            next_offset: due,
            ended: false,
            damage: None,
        };
        // The size of each, and the offset after it.
        let mut whole = Vec::new();
        for entry in entries(bytes.clone()) {
            let found = entry.map_err(|cause| LogDamage {
                offset: part.next_offset,
                cause: cause.to_string(),
            });
            match found.and_then(|entry| part.follow(&entry, range)) {
                Ok(Some(size)) => whole.push((size, due_after(part.next_offset, range))),
                Ok(None) => {
                    part.ended = true;
                    break;
                }
                Err(damage) => {
                    part.damage = Some(damage);
                    break;
                }
            }
        }
        let used = whole.iter().map(|(size, _)| size).sum();
        let due = due_after(due, range);
        match range.read(bytes.slice(..used), due, memory) {
            Ok(columns) => {
                part.columns.extend(columns);
                part.used = used;
            }
            // Only entries that are read alone show which one it is; and each has the whole limit.
            Err(_) => part.one_by_one(bytes, &whole, due, range, memory),
        }
        part
    }

    /// The size of an entry that belongs to the range and follows those before; `None` after the end of the range.
    fn follow(&mut self, entry: &Entry, range: &LogRange) -> Result<Option<usize>, LogDamage> {
        let first = entry.base_offset();
        // The checksum of a batch does not cover its offset.
        let (least, beyond) = range.segment;
        if first < least || entry.last_offset() >= beyond {
            return Err(LogDamage {
                offset: Some(first),
                cause: format!(
                    "the record batch at offset {first} does not belong to the segment, which has the offsets from {least} to \
                     {beyond}"
                ),
            });
        }
        // A wrapper of messages names its last offset: what it holds may begin before.
        let begun = match entry {
            Entry::Batch(_) => first < range.end,
            Entry::Message(_) => self.next_offset.is_none_or(|due| due < range.end),
        };
        if !begun {
            return Ok(None);
        }
        if let Some(due) = self.next_offset.filter(|due| first < *due) {
            return Err(LogDamage {
                offset: Some(first),
                cause: format!(
                    "the record batch at offset {first} is out of order: it should be at offset {due} or later"
                ),
            });
        }
        self.next_offset = Some(entry.next_offset());
        Ok(Some(entry.size()))
    }

    /// Decodes entry by entry, up to damage or to those that fill the limit.
    fn one_by_one(
        &mut self,
        bytes: &Bytes,
        whole: &[(usize, i64)],
        mut due: i64,
        range: &LogRange,
        memory: &Memory,
    ) {
        let mut held = 0;
        for (index, (size, next_offset)) in whole.iter().enumerate() {
            let entry = bytes.slice(self.used..self.used + size);
            match range.read(entry.clone(), due, memory) {
                Ok(columns) => {
                    held += columns
                        .as_ref()
                        .map_or(0, |columns| columns.bytes() + columns.len() * ROW);
                    self.columns.extend(columns);
                }
                Err(cause) => {
                    self.damage = Some(LogDamage {
                        offset: first_offset(entry),
                        cause,
                    });
                    return;
                }
            }
            self.used += size;
            due = *next_offset;
            if held >= range.decompress_limit && index + 1 < whole.len() {
                // What follows is for the next part to find.
                self.next_offset = Some(due);
                self.ended = false;
                self.damage = None;
                return;
            }
        }
    }
}

impl LogRange {
    /// The records of whole entries, or what is wrong with them. `due` is the first offset that they may have.
    fn read(&self, bytes: Bytes, due: i64, memory: &Memory) -> Result<Option<Columns>, String> {
        let Some(first) = first_offset(bytes.clone()) else {
            return Ok(None);
        };
        let aborted = self.aborted.iter().filter(|span| span.last_offset >= first);
        let source = FetchedPartition {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            fetch_offset: self.start,
            aborted: aborted
                .map(|span| AbortedTransaction {
                    producer_id: span.producer_id,
                    first_offset: span.first_offset,
                })
                .collect(),
            read_committed: true,
            check_crcs: true,
            decompress_limit: self.decompress_limit,
        };
        let columns = decode(bytes, &source, memory)
            .map_err(cause)?
            .before(self.end);
        if columns.is_empty() {
            return Ok(None);
        }
        // The checksum of a wrapper does not cover its offset, from which those in it are counted.
        match columns.offset(0) {
            first if first < due => Err(format!(
                "the record at offset {first} is out of order: it should be at offset {due} or later"
            )),
            _ => Ok(Some(columns)),
        }
    }
}

/// The offset that what follows has at least.
fn due_after(next_offset: Option<i64>, range: &LogRange) -> i64 {
    next_offset.unwrap_or(range.segment.0)
}

fn first_offset(bytes: Bytes) -> Option<i64> {
    entries(bytes)
        .next()
        .and_then(Result::ok)
        .map(|entry| entry.base_offset())
}

/// What is wrong; who reads a file cannot seek in a topic.
fn cause(error: ColumnarError) -> String {
    match error {
        ColumnarError::Records { source, .. } => source.to_string(),
        ColumnarError::TooLarge { .. } => "its records take more than 2 GiB".to_owned(),
        error => error.to_string(),
    }
}
