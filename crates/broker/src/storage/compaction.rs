//! Compaction: of each key the last record stays (`cleanup.policy=compact`), as Kafka's log cleaner does it.
//!
//! Segments from the log's start up to the first that may not be cleaned are written again without
//! what later records replace. Offsets, the ranges of batches and producers' sequences stay as they
//! are, so that readers, followers and idempotent producers notice nothing but gaps. The last batch
//! of a producer stays even when it is empty. A tombstone gets a time at which it goes (KIP-534),
//! and goes when the log is cleaned after that.
//!
//! Only what is before the last stable offset is cleaned, so all transactions there have ended. Records of aborted ones go and
//! replace nothing; markers stay, since a reader may be on its way to them.
//!
//! A cleaning has three steps, of which only the first and the last need the log's lock: [`Work`] is taken from a log, done
//! elsewhere, and its [`Cleaned`] segments take the place of those that they were made from.

use std::fs;
use std::io;

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{
    Batch, BatchBuilder, BatchHeader, ProducerState, RecordsError, TimestampType,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batch::{self, DECOMPRESS_LIMIT};
use super::naming;
use super::segment::Segment;
use super::source::Source;
use super::transactions::Aborted;
use crate::config::Compaction;

/// The attribute of a batch whose base of timestamps is the time at which its tombstones go (KIP-534).
const DELETE_HORIZON: i16 = 1 << 6;

/// A full segment, as far as it matters to when a log is cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// The offset after its last record, where the next segment begins.
    pub(crate) end: i64,
    pub(crate) bytes: u64,
    /// The time of its first batch, and of its newest record; -1 where nobody knows.
    pub(crate) first: i64,
    pub(crate) newest: i64,
}

impl Compaction {
    /// Up to which offset a log is to be cleaned now whose full segments are these; `None` if that is not worth it yet. What is
    /// before `clean` was cleaned already; `stable` is the first offset that may still change its meaning.
    pub(crate) fn until(
        &self,
        segments: &[Full],
        clean: i64,
        stable: i64,
        now: i64,
    ) -> Option<i64> {
        let is_ripe = |segment: &&Full| {
            let lags = segment.end > clean && self.min_lag_ms > 0;
            segment.end <= stable && !(lags && segment.newest > now.saturating_sub(self.min_lag_ms))
        };
        let ripe: Vec<&Full> = segments.iter().take_while(is_ripe).collect();
        let until = ripe.last()?.end;
        let bytes = |it: &[&Full]| it.iter().map(|segment| segment.bytes).sum::<u64>();
        let dirty: Vec<&Full> = ripe.iter().copied().filter(|it| it.end > clean).collect();
        let (dirty_bytes, all) = (bytes(&dirty), bytes(&ripe));
        if dirty_bytes == 0 {
            return None;
        }
        let oldest = segments.iter().filter(|segment| segment.end > clean);
        let oldest = oldest.map(|it| it.first).filter(|first| *first > 0).min();
        let waits_too_long =
            oldest.is_some_and(|oldest| oldest < now.saturating_sub(self.max_lag_ms));
        let is_worth = dirty_bytes as f64 / all as f64 > self.dirty_ratio;
        (waits_too_long || is_worth).then_some(until)
    }
}

/// What is to be cleaned, and how.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) compaction: Compaction,
    /// All segments before this offset, in groups: each group becomes one segment.
    pub(crate) groups: Vec<Vec<Source>>,
    /// What is before this offset was cleaned already: no key is there twice.
    pub(crate) clean: i64,
    pub(crate) until: i64,
    /// Of each producer, the offset of the last record that it wrote.
    pub(crate) last_offsets: FxHashSet<(i64, i64)>,
    /// The aborted transactions that have records in it.
    pub(crate) aborted: Vec<Aborted>,
    pub(crate) now: i64,
    /// The cleanings and cuts that the log had seen.
    pub(crate) generation: u64,
}

/// The segments that take the place of those before an offset.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) segments: Vec<Segment>,
    /// How many segments each of them was made from.
    pub(crate) counts: Vec<usize>,
    pub(crate) until: i64,
    pub(crate) generation: u64,
}

impl Cleaned {
    /// Removes what was written.
    pub(crate) fn discard(self) -> io::Result<()> {
        let paths = self.segments.iter().filter_map(Segment::path);
        paths.map(naming::cleaned).try_for_each(fs::remove_file)
    }
}

/// By key, the offset of its last record.
type Last = FxHashMap<Bytes, i64>;

impl Work {
    /// Writes the segments again.
    pub(crate) fn clean(self) -> io::Result<Cleaned> {
        let mut last = Last::default();
        let all = self.groups.iter().flatten();
        for source in all.filter(|source| source.end > self.clean) {
            source.each_batch(|bytes| {
                let batch = Batch::parse(bytes).map_err(io::Error::other)?;
                if !self.is_aborted(&batch.header) {
                    note_keys(&mut last, &batch);
                }
                Ok(())
            })?;
        }
        let mut segments = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            segments.push(self.clean_group(group, &last)?);
        }
        Ok(Cleaned {
            segments,
            counts: self.groups.iter().map(Vec::len).collect(),
            until: self.until,
            generation: self.generation,
        })
    }

    fn clean_group(&self, group: &[Source], last: &Last) -> io::Result<Segment> {
        let first = group.first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut cleaned = first.cleaned()?;
        for source in group {
            source.each_batch(|bytes| {
                if let Some(bytes) = self.kept(bytes, last)? {
                    batch::each_batch(bytes, |meta, bytes| {
                        cleaned.append(meta, source.written, &bytes, &[])
                    })?;
                }
                Ok(())
            })?;
        }
        cleaned.sync()?;
        Ok(cleaned)
    }

    /// What stays of a batch.
    fn kept(&self, bytes: Bytes, last: &Last) -> io::Result<Option<Bytes>> {
        let batch = Batch::parse(bytes).map_err(io::Error::other)?;
        let header = &batch.header;
        if header.is_control() {
            return Ok(Some(batch.bytes));
        }
        let is_last = header.producer_id >= 0
            && self
                .last_offsets
                .contains(&(header.producer_id, header.last_offset()));
        let filtered = if self.is_aborted(header) {
            Ok(Filtered::Nothing)
        } else {
            self.filtered(&batch, last)
        };
        match filtered {
            Ok(Filtered::All) => Ok(Some(batch.bytes)),
            Ok(Filtered::Some(bytes)) => Ok(Some(bytes)),
            Ok(Filtered::Nothing) if is_last => empty(header).map(Some).map_err(io::Error::other),
            Ok(Filtered::Nothing) => Ok(None),
            // What cannot be read is replaced by nothing.
            Err(_) => Ok(Some(batch.bytes)),
        }
    }

    /// Whether these are records of an aborted transaction.
    fn is_aborted(&self, header: &BatchHeader) -> bool {
        let holds = |it: &Aborted| {
            let offsets = it.first..it.last;
            it.producer_id == header.producer_id && offsets.contains(&header.base_offset)
        };
        header.is_transactional() && !header.is_control() && self.aborted.iter().any(holds)
    }

    fn filtered(&self, batch: &Batch, last: &Last) -> Result<Filtered, RecordsError> {
        let header = &batch.header;
        if header.count == 0 {
            return Ok(Filtered::Nothing);
        }
        let horizon = header.has_delete_horizon().then_some(header.base_timestamp);
        let tombstones_go = horizon.is_some_and(|horizon| horizon <= self.now);
        let payload = batch.payload(DECOMPRESS_LIMIT)?;
        let (mut kept, mut has_tombstones) = (Vec::new(), false);
        for record in batch.records(&payload)? {
            let record = record?;
            let is_last = match record.key {
                Some(key) => last.get(key).is_none_or(|last| *last <= record.offset),
                None => false,
            };
            let is_tombstone = record.value.is_none();
            if is_last && !(is_tombstone && tombstones_go) {
                has_tombstones |= is_tombstone;
                kept.push(record);
            }
        }
        let gets_horizon = has_tombstones && horizon.is_none();
        if kept.is_empty() {
            return Ok(Filtered::Nothing);
        }
        if kept.len() == header.count.unsigned_abs() as usize && !gets_horizon {
            return Ok(Filtered::All);
        }
        let horizon = if gets_horizon {
            Some(self.now.saturating_add(self.compaction.delete_retention_ms))
        } else {
            horizon
        };
        let mut builder = BatchBuilder::new(header.compression()?, None);
        if let Some(horizon) = horizon {
            builder.set_base_timestamp(horizon);
        }
        for record in kept {
            let delta = record.offset - header.base_offset;
            let delta = i32::try_from(delta).unwrap_or(i32::MAX);
            let (key, value) = (record.key, record.value);
            builder.append_at(delta, record.timestamp, key, value, record.headers())?;
        }
        let built = builder.finish(ProducerState::NONE)?;
        as_before(header, horizon.is_some(), built).map(Filtered::Some)
    }
}

enum Filtered {
    All,
    Some(Bytes),
    Nothing,
}

/// Notes where the records of a batch are the last of their keys so far. One that cannot be read replaces nothing.
fn note_keys(last: &mut Last, batch: &Batch) {
    if batch.header.is_control() {
        return;
    }
    let payload = batch.payload(DECOMPRESS_LIMIT);
    let Ok(payload) = payload else { return };
    let records = batch.records(&payload).into_iter().flatten();
    let records = records.map_while(Result::ok);
    for (key, offset) in records.filter_map(|record| Some((record.key?, record.offset))) {
        match last.get_mut(key) {
            Some(last) => *last = offset,
            None => drop(last.insert(Bytes::copy_from_slice(key), offset)),
        }
    }
}

/// A batch built of some records of another, with the place, the producer and the kind of that one.
fn as_before(old: &BatchHeader, has_horizon: bool, built: Bytes) -> Result<Bytes, RecordsError> {
    let mut bytes = Vec::from(built);
    let built = BatchHeader::parse(&bytes)?;
    let mut header = BatchHeader {
        length: built.length,
        base_timestamp: built.base_timestamp,
        max_timestamp: match old.timestamp_type() {
            TimestampType::Create => built.max_timestamp,
            TimestampType::LogAppend => old.max_timestamp,
        },
        count: built.count,
        ..*old
    };
    header.attributes = old.attributes & !DELETE_HORIZON;
    if has_horizon {
        header.attributes |= DELETE_HORIZON;
    }
    header.seal(&mut bytes)?;
    Ok(bytes.into())
}

/// A batch without records: its place, and its producer's sequence.
fn empty(old: &BatchHeader) -> Result<Bytes, RecordsError> {
    let mut header = BatchHeader {
        base_timestamp: -1,
        count: 0,
        ..*old
    };
    header.attributes &= !DELETE_HORIZON;
    header.set_compression(Compression::None);
    let mut bytes = vec![0; BatchHeader::SIZE];
    header.seal(&mut bytes)?;
    Ok(bytes.into())
}
