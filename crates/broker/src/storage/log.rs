//! The log of one partition: segments, the offsets they cover, the producers and the leaders that wrote them.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::batch::{self, Checked, Meta, Rejected};
use super::compaction::{Cleaned, Full, Work};
use super::epochs::Epochs;
use super::naming::{self, segment_files};
use super::producers::{Producers, Sequenced, Verdict};
use super::retention::{self, Extent};
use super::segment::{Segment, Span, Trust};
use super::source::Source;
use super::swap;
use crate::config::{EventSink, LogConfig};
use crate::error::BrokerError;

/// When a batch came that was copied: nobody knows.
const NEVER: i64 = -1;

#[derive(Debug)]
pub(crate) struct Log {
    config: LogConfig,
    /// Folder of the partition; `None`: in memory.
    dir: Option<PathBuf>,
    sealed: Vec<Segment>,
    active: Segment,
    next_offset: i64,
    /// Records before this offset are deleted, even where their segment is still there.
    start: i64,
    producers: Producers,
    epochs: Epochs,
    /// What is before this offset was compacted.
    clean: i64,
    /// Counts what took segments away or put others in their place.
    generation: u64,
}

/// Where a batch ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// The offset after its last record.
    pub(crate) next_offset: i64,
    /// The broker's time where that is what the topic keeps, else -1.
    pub(crate) append_time: i64,
    pub(crate) log_start: i64,
}

/// What was read from within a log: nothing at its end.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) span: Option<Span>,
}

/// The first offset of a log, and the one the next record will get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start: i64,
    pub(crate) end: i64,
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
        swap::recover(dir)?;
        let mut found = segment_files(dir)?;
        let last = found.pop();
        let mut producers = Producers::default();
        let mut epochs = Epochs::default();
        let mut next_offset = 0;
        let mut visit = |meta: &Meta| {
            next_offset = meta.last_offset + 1;
            epochs.wrote(meta.leader_epoch, meta.base_offset);
            if let Some(sequenced) = meta.sequenced {
                producers.appended(
                    sequenced,
                    meta.base_offset,
                    meta.append_time,
                    meta.max_timestamp,
                );
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
        log.epochs = epochs;
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
            start: 0,
            producers: Producers::default(),
            epochs: Epochs::default(),
            clean: 0,
            generation: 0,
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        let first = self.sealed.first().unwrap_or(&self.active).base_offset();
        Bounds {
            start: first.max(self.start),
            end: self.next_offset,
        }
    }

    pub(crate) fn highest_producer_id(&self) -> Option<i64> {
        self.producers.highest_id()
    }

    /// Who wrote what.
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// A leader of this epoch writes from here on.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epochs.wrote(epoch, self.next_offset);
    }

    /// After how many records they are synced (`flush.messages`).
    pub(crate) fn flush_messages(&self) -> i64 {
        self.config.flush_messages
    }

    /// Appends a checked batch as the leader of `epoch`, unless its producer sent it before: then its first place is the
    /// answer.
    pub(crate) fn append(&mut self, batch: &Checked, epoch: i32) -> Result<Appended, Rejected> {
        let sequenced = batch.meta.sequenced;
        if let Some(duplicate) = sequenced.map_or(Ok(None), |batch| self.known(batch))? {
            return Ok(duplicate);
        }
        let base_offset = self.next_offset;
        let meta = batch.meta.at(base_offset, epoch);
        let (head, body) = batch.placed(base_offset, epoch);
        self.write(&meta, batch.at, &head, body).map_err(|cause| {
            Rejected::new(
                ErrorCode::KAFKA_STORAGE_ERROR,
                format!("the log could not be written: {cause}"),
            )
        })?;
        if let Some(sequenced) = sequenced {
            self.producers.appended(
                sequenced,
                base_offset,
                batch.append_time,
                meta.max_timestamp,
            );
        }
        Ok(Appended {
            base_offset,
            next_offset: self.next_offset,
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
                next_offset: base_offset + i64::from(batch.count),
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

    fn write(&mut self, meta: &Meta, now: i64, head: &[u8], body: &[u8]) -> io::Result<()> {
        let size = self.active.size();
        let is_full = size > 0 && size + meta.size > self.config.segment_bytes;
        let waited = self.active.waited(meta.max_timestamp, now);
        let is_old = size > 0 && waited > self.config.segment_ms;
        let is_too_long = meta.last_offset - self.active.base_offset() > i64::from(i32::MAX);
        if is_full || is_old || is_too_long {
            self.roll()?;
        }
        self.active.append(meta, now, head, body)?;
        self.next_offset = meta.last_offset + 1;
        self.epochs.wrote(meta.leader_epoch, meta.base_offset);
        Ok(())
    }

    /// Appends what a leader has at the end of this log, as it is there.
    pub(crate) fn copy(&mut self, batches: Bytes) -> io::Result<()> {
        batch::each_batch(batches, |meta, bytes| {
            if meta.base_offset < self.next_offset {
                return Err(io::Error::other("a copied batch begins inside the log"));
            }
            self.write(meta, NEVER, &bytes, &[])?;
            if let Some(sequenced) = meta.sequenced {
                self.producers.appended(
                    sequenced,
                    meta.base_offset,
                    meta.append_time,
                    meta.max_timestamp,
                );
            }
            Ok(())
        })
    }

    /// Takes away all batches that reach `end` or come after it. What is left is written anew, so that producers and
    /// epochs are those of what is left.
    pub(crate) fn truncate(&mut self, end: i64) -> io::Result<()> {
        const STEP: usize = 1 << 20;
        // A leader that wrote nothing has an epoch without a part of the log.
        self.epochs.cut(end);
        if end >= self.next_offset {
            return Ok(());
        }
        self.generation += 1;
        self.clean = self.clean.min(end);
        let first = self.sealed.first().unwrap_or(&self.active).base_offset();
        let start = std::mem::replace(&mut self.start, first);
        let (mut kept, mut offset) = (Vec::new(), first);
        while let Some(span) = self
            .read(offset, STEP, true, Some(end))?
            .and_then(|it| it.span)
        {
            if span.len() == 0 {
                break;
            }
            let bytes = span.load()?;
            batch::each_batch(bytes.clone(), |meta, _| {
                offset = meta.last_offset + 1;
                Ok(())
            })?;
            kept.push(bytes);
        }
        for segment in self.sealed.drain(..) {
            segment.delete()?;
        }
        self.active = self.segment(first)?;
        self.next_offset = first;
        self.producers = Producers::default();
        self.epochs = Epochs::default();
        kept.into_iter().try_for_each(|bytes| self.copy(bytes))?;
        self.next_offset = self.next_offset.max(start.min(end));
        self.start = start.min(self.next_offset);
        Ok(())
    }

    /// Deletes what is before `offset`, segments that lie before it too. A log that ends before it goes on there.
    pub(crate) fn delete_before(&mut self, offset: i64) -> io::Result<()> {
        self.start = self.start.max(offset);
        self.generation += 1;
        if offset > self.next_offset {
            let next = self.segment(offset)?;
            std::mem::replace(&mut self.active, next).delete()?;
            self.next_offset = offset;
            return self.sealed.drain(..).try_for_each(Segment::delete);
        }
        if offset >= self.next_offset && self.active.size() > 0 {
            self.roll()?;
        }
        let next_bases = self.sealed.iter().skip(1).map(Segment::base_offset);
        let ends = next_bases.chain([self.active.base_offset()]);
        let ends = ends.take(self.sealed.len());
        let gone = ends.take_while(|end| *end <= offset).count();
        self.sealed.drain(..gone).try_for_each(Segment::delete)
    }

    /// An empty segment.
    fn segment(&self, base_offset: i64) -> io::Result<Segment> {
        let interval = self.config.index_interval_bytes;
        match &self.dir {
            Some(dir) => Segment::create(dir, base_offset, interval),
            None => Ok(Segment::in_memory(base_offset, interval)),
        }
    }

    fn roll(&mut self) -> io::Result<()> {
        let next = self.segment(self.next_offset)?;
        let full = std::mem::replace(&mut self.active, next);
        full.seal()?;
        self.sealed.push(full);
        Ok(())
    }

    /// Deletes the segments that are too old or too many, of those that clients have seen. Says whether there were any.
    pub(crate) fn retain(&mut self, high_watermark: i64, now: i64) -> io::Result<bool> {
        let count = retention::expired(&self.config, &self.extents(), high_watermark, now);
        self.delete_first(count)
    }

    /// Deletes the segments that are too many.
    pub(crate) fn cut_back(&mut self, high_watermark: i64) -> io::Result<bool> {
        if self.config.retention_bytes.is_none() {
            return Ok(false);
        }
        let count = retention::oversized(&self.config, &self.extents(), high_watermark);
        self.delete_first(count)
    }

    fn delete_first(&mut self, count: usize) -> io::Result<bool> {
        if count > self.sealed.len() {
            self.roll()?;
        }
        let gone = count.min(self.sealed.len());
        self.generation += 1;
        self.sealed.drain(..gone).try_for_each(Segment::delete)?;
        Ok(gone > 0)
    }

    /// Its segments, the oldest first.
    pub(super) fn extents(&self) -> Vec<Extent> {
        let segments = self.sealed.iter().chain([&self.active]);
        let next_bases = segments.clone().skip(1).map(Segment::base_offset);
        let ends = next_bases.chain([self.next_offset]);
        let extents = segments.zip(ends).map(|(segment, end)| Extent {
            end,
            bytes: segment.size(),
            newest: segment.newest_time(),
        });
        extents.collect()
    }

    /// What there is to be compacted, of what is before `stable`; `None` if that is not worth it yet.
    pub(crate) fn compaction(&mut self, stable: i64, now: i64) -> Option<Work> {
        let compaction = self.config.compaction?;
        let segments = self.sealed.iter().chain([&self.active]);
        let ends: Vec<i64> = segments.skip(1).map(Segment::base_offset).collect();
        let fulls = self.sealed.iter().zip(&ends).map(|(segment, end)| Full {
            end: *end,
            bytes: segment.size(),
            first: segment.times().0,
            newest: segment.newest_time().unwrap_or(-1),
        });
        let fulls: Vec<Full> = fulls.collect();
        let until = compaction.until(&fulls, self.clean, stable, now)?;
        let mut groups: Vec<Vec<Source>> = Vec::new();
        let most = self.config.segment_bytes;
        for (segment, end) in self.sealed.iter_mut().zip(ends) {
            if end > until {
                break;
            }
            let source = Source {
                base_offset: segment.base_offset(),
                end,
                bytes: segment.size(),
                written: segment.times().1,
                spans: segment.spans(),
                path: segment.path().map(Path::to_owned),
                index_interval: self.config.index_interval_bytes,
            };
            match groups.last_mut() {
                Some(group) if source.fits(group, most) => group.push(source),
                _ => groups.push(vec![source]),
            }
        }
        Some(Work {
            compaction,
            groups,
            clean: self.clean,
            until,
            last_offsets: self.producers.last_offsets(),
            now,
            generation: self.generation,
        })
    }

    /// Puts compacted segments in the place of those that they were made from; if these are not there any more, nothing
    /// happens.
    pub(crate) fn install(&mut self, cleaned: Cleaned) -> io::Result<()> {
        if cleaned.generation != self.generation {
            return cleaned.discard();
        }
        self.generation += 1;
        for (new, count) in cleaned.segments.into_iter().zip(cleaned.counts) {
            let first = self
                .sealed
                .partition_point(|segment| segment.base_offset() < new.base_offset());
            let old = self.sealed.get(first..first + count).unwrap_or_default();
            let paths = old.iter().filter_map(Segment::path);
            let paths: Vec<PathBuf> = paths.map(Path::to_owned).collect();
            if let Some((log, others)) = paths.split_first() {
                naming::replace(log, others)?;
                new.seal()?;
            }
            self.sealed.splice(first..first + count, [new]);
        }
        self.clean = cleaned.until;
        Ok(())
    }

    /// Forgets the producers that wrote last at this time or before.
    pub(crate) fn expire_producers(&mut self, until: i64) {
        self.producers.expire(until);
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.sealed.len() + 1
    }

    /// Reads whole batches from the one that holds `offset` on, as [`Segment::read`] does; `None` where `offset` is
    /// outside the log.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        limit: usize,
        at_least_one: bool,
        below: Option<i64>,
    ) -> io::Result<Option<Read>> {
        let bounds = self.bounds();
        if offset < bounds.start || offset > bounds.end {
            return Ok(None);
        }
        if offset == bounds.end || below.is_some_and(|below| offset >= below) {
            return Ok(Some(Read { span: None }));
        }
        let first = self
            .sealed
            .partition_point(|segment| segment.base_offset() <= offset)
            .saturating_sub(1);
        let segments = self.sealed.iter_mut().skip(first).chain([&mut self.active]);
        for segment in segments {
            if let Some(span) = segment.read(offset, limit, at_least_one, below)? {
                return Ok(Some(Read { span: Some(span) }));
            }
        }
        Ok(Some(Read { span: None }))
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
}
