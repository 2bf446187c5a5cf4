//! The log of one partition: segments, the offsets they cover, the producers that wrote them, and who waits for more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use ottla_protocol::ErrorCode;
use tokio::sync::Notify;

use super::batch::{Checked, Meta, Rejected};
use super::producers::{Producers, Sequenced, Verdict};
use super::segment::{Segment, Span, Trust};
use crate::config::{EventSink, LogConfig};
use crate::error::BrokerError;

/// The one epoch of every partition's only leader.
pub(crate) const LEADER_EPOCH: i32 = 0;

#[derive(Debug)]
pub(crate) struct Log {
    config: LogConfig,
    /// Folder of the partition; `None`: in memory.
    dir: Option<PathBuf>,
    sealed: Vec<Segment>,
    active: Segment,
    next_offset: i64,
    producers: Producers,
    watchers: Vec<Weak<Watcher>>,
    deleted: bool,
}

/// Where a batch ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// The broker's time where that is what the topic keeps, else -1.
    pub(crate) append_time: i64,
    pub(crate) log_start: i64,
}

/// What was read, and the bounds of the log then.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) span: Option<Span>,
    pub(crate) bounds: Bounds,
}

/// The first offset of a log, and the one the next record will get, which for a log without replicas is the high
/// watermark, and without transactions the last stable offset too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// A reader waiting until partitions together have grown by so many bytes.
#[derive(Debug)]
pub(crate) struct Watcher {
    missing: AtomicI64,
    woken: Notify,
}

impl Watcher {
    pub(crate) fn new(missing: usize) -> Arc<Self> {
        let missing = i64::try_from(missing).unwrap_or(i64::MAX);
        Arc::new(Self {
            missing: AtomicI64::new(missing),
            woken: Notify::new(),
        })
    }

    /// Completes when the bytes are there; at once if they came before.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    fn grown(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.missing.fetch_sub(bytes, Ordering::Relaxed) <= bytes {
            self.woken.notify_one();
        }
    }
}

impl Log {
    pub(crate) fn in_memory(config: LogConfig) -> Self {
        let active = Segment::in_memory(0, config.index_interval_bytes);
        Self::over(config, None, Vec::new(), active)
    }

    /// Opens the log in the folder `dir`, which must be there; an empty folder is an empty log. A torn batch at the end is
    /// cut off and told to `events`.
    pub(crate) fn open(
        dir: &Path,
        config: LogConfig,
        events: &EventSink,
    ) -> Result<Self, BrokerError> {
        let interval = config.index_interval_bytes;
        let mut found = segment_files(dir)?;
        let last = found.pop();
        let mut producers = Producers::default();
        let mut next_offset = 0;
        let mut visit = |meta: &Meta| {
            next_offset = meta.last_offset + 1;
            if let Some(sequenced) = meta.sequenced {
                producers.appended(sequenced, meta.base_offset, -1);
            }
        };
        let mut sealed = Vec::with_capacity(found.len());
        for (base, path) in found {
            let (segment, _) = Segment::recover(path, base, interval, Trust::Sealed, &mut visit)?;
            sealed.push(segment);
        }
        let active = match last {
            Some((base, path)) => {
                let (segment, cut) =
                    Segment::recover(path.clone(), base, interval, Trust::Tail, &mut visit)?;
                if cut > 0 {
                    events.say(format_args!(
                        "{}: cut {cut} bytes of an unfinished write off its end",
                        path.display()
                    ));
                }
                next_offset = next_offset.max(base);
                segment
            }
            None => Segment::create(dir, 0, interval).map_err(BrokerError::io(dir))?,
        };
        let mut log = Self::over(config, Some(dir.to_owned()), sealed, active);
        log.next_offset = next_offset;
        log.producers = producers;
        Ok(log)
    }

    fn over(
        config: LogConfig,
        dir: Option<PathBuf>,
        sealed: Vec<Segment>,
        active: Segment,
    ) -> Self {
        Self {
            config,
            dir,
            sealed,
            active,
            next_offset: 0,
            producers: Producers::default(),
            watchers: Vec::new(),
            deleted: false,
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        let start = self.sealed.first().unwrap_or(&self.active).base_offset();
        Bounds {
            start,
            end: self.next_offset,
        }
    }

    pub(crate) fn highest_producer_id(&self) -> Option<i64> {
        self.producers.highest_id()
    }

    /// Appends a checked batch, unless its producer sent it before: then its first place is the answer.
    pub(crate) fn append(&mut self, batch: &Checked) -> Result<Appended, Rejected> {
        if self.deleted {
            return Err(Rejected::new(
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                "the topic was deleted",
            ));
        }
        let sequenced = batch.meta.sequenced;
        if let Some(duplicate) = sequenced.map_or(Ok(None), |batch| self.known(batch))? {
            return Ok(duplicate);
        }
        let base_offset = self.next_offset;
        let meta = batch.meta.at(base_offset);
        self.write(&meta, batch).map_err(|cause| {
            Rejected::new(
                ErrorCode::KAFKA_STORAGE_ERROR,
                format!("the log could not be written: {cause}"),
            )
        })?;
        if let Some(sequenced) = sequenced {
            self.producers
                .appended(sequenced, base_offset, batch.append_time);
        }
        self.next_offset = meta.last_offset + 1;
        for watcher in self.watchers.iter().filter_map(Weak::upgrade) {
            watcher.grown(meta.size);
        }
        Ok(Appended {
            base_offset,
            append_time: batch.append_time,
            log_start: self.bounds().start,
        })
    }

    fn known(&self, batch: Sequenced) -> Result<Option<Appended>, Rejected> {
        match self.producers.check(batch) {
            Verdict::Next => Ok(None),
            Verdict::Duplicate {
                base_offset,
                append_time,
            } => Ok(Some(Appended {
                base_offset,
                append_time,
                log_start: self.bounds().start,
            })),
            Verdict::StaleEpoch { current } => Err(Rejected::new(
                ErrorCode::INVALID_PRODUCER_EPOCH,
                format!(
                    "producer {} wrote here with epoch {current} already, this batch has {}",
                    batch.producer_id, batch.epoch
                ),
            )),
            Verdict::OutOfOrder { wanted } => Err(Rejected::new(
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
                format!(
                    "producer {}: sequence {wanted} is due, this batch begins at {}",
                    batch.producer_id, batch.first
                ),
            )),
        }
    }

    fn write(&mut self, meta: &Meta, batch: &Checked) -> io::Result<()> {
        let size = self.active.size();
        let is_full = size > 0 && size + meta.size > self.config.segment_bytes;
        let is_too_long = meta.last_offset - self.active.base_offset() > i64::from(i32::MAX);
        if is_full || is_too_long {
            self.roll()?;
        }
        let (head, body) = batch.placed(meta.base_offset, LEADER_EPOCH);
        self.active.append(meta, &head, body)
    }

    fn roll(&mut self) -> io::Result<()> {
        let interval = self.config.index_interval_bytes;
        let next = match &self.dir {
            Some(dir) => Segment::create(dir, self.next_offset, interval)?,
            None => Segment::in_memory(self.next_offset, interval),
        };
        let full = std::mem::replace(&mut self.active, next);
        full.seal()?;
        self.sealed.push(full);
        self.cut_back()
    }

    /// Deletes the oldest segments while what is left is still as large as the topic wants to keep.
    fn cut_back(&mut self) -> io::Result<()> {
        let Some(kept) = self.config.retention_bytes else {
            return Ok(());
        };
        let mut size: u64 = self.sealed.iter().map(Segment::size).sum();
        let mut expired = 0;
        for segment in &self.sealed {
            size -= segment.size();
            if size < kept {
                break;
            }
            expired += 1;
        }
        self.sealed.drain(..expired).try_for_each(Segment::delete)
    }

    /// Reads whole batches from the one that holds `offset` on, as [`Segment::read`] does; `None` where `offset` is
    /// outside the log.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        limit: usize,
        at_least_one: bool,
    ) -> io::Result<Option<Read>> {
        let bounds = self.bounds();
        if offset < bounds.start || offset > bounds.end {
            return Ok(None);
        }
        if offset == bounds.end {
            return Ok(Some(Read { span: None, bounds }));
        }
        let first = self
            .sealed
            .partition_point(|segment| segment.base_offset() <= offset)
            .saturating_sub(1);
        let segments = self.sealed.iter_mut().skip(first).chain([&mut self.active]);
        for segment in segments {
            if let Some(span) = segment.read(offset, limit, at_least_one)? {
                return Ok(Some(Read {
                    span: Some(span),
                    bounds,
                }));
            }
        }
        Ok(Some(Read { span: None, bounds }))
    }

    /// The first batch with a record of `timestamp` or later.
    pub(crate) fn batch_at_time(&mut self, timestamp: i64) -> io::Result<Option<Span>> {
        let reaches = |segment: &Segment| {
            segment
                .newest()
                .is_some_and(|newest| newest.timestamp >= timestamp)
        };
        match self
            .sealed
            .iter_mut()
            .chain([&mut self.active])
            .find(|segment| reaches(segment))
        {
            Some(segment) => segment.batch_at_time(timestamp),
            None => Ok(None),
        }
    }

    /// The highest timestamp in the log.
    pub(crate) fn newest_timestamp(&self) -> Option<i64> {
        let segments = self.sealed.iter().chain([&self.active]);
        segments
            .filter_map(Segment::newest)
            .map(|newest| newest.timestamp)
            .max()
    }

    /// Has `watcher` told of growth, counting at once what came after the log ended at `seen`.
    pub(crate) fn watch(&mut self, watcher: &Arc<Watcher>, seen: i64) {
        self.watchers.retain(|watcher| watcher.strong_count() > 0);
        if self.deleted || self.next_offset != seen {
            // How much came in between is not worth working out: the reader looks again.
            watcher.grown(u64::MAX);
        } else {
            self.watchers.push(Arc::downgrade(watcher));
        }
    }

    /// Makes all that was appended last. As in Kafka, nothing does so before: a batch is answered once the operating system
    /// has it.
    pub(crate) fn flush(&self) -> Result<(), BrokerError> {
        let dir = self.dir.as_deref().unwrap_or(Path::new(""));
        let mut segments = self.sealed.iter().chain([&self.active]);
        let flushed = segments
            .try_for_each(Segment::sync)
            .and_then(|()| self.active.seal());
        flushed.map_err(BrokerError::io(dir))
    }

    /// Ends the log: appends are refused and waiting readers look again.
    pub(crate) fn close_deleted(&mut self) {
        self.deleted = true;
        for watcher in self
            .watchers
            .drain(..)
            .filter_map(|watcher| watcher.upgrade())
        {
            watcher.grown(u64::MAX);
        }
    }
}

/// The segment files of a folder and their base offsets, in order.
fn segment_files(dir: &Path) -> Result<Vec<(i64, PathBuf)>, BrokerError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(BrokerError::io(dir))? {
        let path = entry.map_err(BrokerError::io(dir))?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let base = stem
                .and_then(|stem| stem.parse().ok())
                .filter(|base| *base >= 0);
            let base = base.ok_or_else(|| {
                BrokerError::corrupt(&path, "its name is not a segment's base offset")
            })?;
            found.push((base, path));
        }
    }
    found.sort();
    Ok(found)
}
