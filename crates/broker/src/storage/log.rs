//! The log of one partition: segments, the offsets they cover, the producers and the leaders that wrote them.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::batch::{self, Checked, Meta, Origin, Piece, Rejected};
use super::compaction::{Cleaned, Full, Work};
use super::epochs::Epochs;
use super::naming::{self, segment_files};
use super::producers::{Active, Marker, Producers, Sequenced, Unmarked, Verdict};
use super::retention::{self, Extent};
use super::segment::{Part, Segment, Span, Trust};
use super::source::Source;
use super::swap;
use super::transactions::{Aborted, Transactions};
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
    learnt: Learnt,
    /// What is before this offset was compacted.
    clean: i64,
    /// Counts what took segments away or put others in their place.
    generation: u64,
}

/// What a log knows from its batches, one after the other.
#[derive(Debug, Default)]
struct Learnt {
    producers: Producers,
    transactions: Transactions,
    epochs: Epochs,
}

impl Learnt {
    /// A batch was appended. `append_time` is -1 where the client's time stands.
    fn learn(&mut self, meta: &Meta, marker: Option<Marker>, append_time: i64) {
        self.epochs.wrote(meta.leader_epoch, meta.base_offset);
        let offset = meta.base_offset;
        if let Some(batch) = meta.sequenced {
            let producers = &mut self.producers;
            if producers.appended(batch, offset, append_time, meta.max_timestamp) {
                self.transactions.begin(batch.producer_id, offset);
            }
        }
        if let Some(marker) = marker
            && let Some(first) = self.producers.ended(marker, meta.max_timestamp)
        {
            let (producer, commits) = (marker.producer_id, marker.commits);
            self.transactions.end(producer, first, offset, commits);
        }
    }
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
    /// Before this offset, at least, is all of it.
    pub(crate) end: i64,
}

impl Read {
    fn nothing(at: i64) -> Self {
        Self {
            span: None,
            end: at,
        }
    }
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

    /// Opens the log in the folder `dir`, which must be there; an empty folder is an empty log. A
    /// torn batch at the end is cut off and reported to `events`.
    pub(crate) fn open(
        dir: &Path,
        config: LogConfig,
        events: &EventSink,
    ) -> Result<Self, BrokerError> {
        let interval = config.index_interval_bytes;
        swap::recover(dir)?;
        let mut found = segment_files(dir)?;
        let last = found.pop();
        let mut learnt = Learnt::default();
        let mut next_offset = 0;
        let mut visit = |meta: &Meta, marker: Option<Marker>| {
            next_offset = meta.last_offset + 1;
            learnt.learn(meta, marker, meta.append_time);
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
        log.learnt = learnt;
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
            learnt: Learnt::default(),
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
        self.learnt.producers.highest_id()
    }

    /// The idempotent producers that have written here.
    pub(crate) fn active_producers(&self) -> Vec<Active> {
        self.learnt.producers.active()
    }

    /// The offset that read_committed clients come to, where others come to `high_watermark`.
    pub(crate) fn last_stable(&self, high_watermark: i64) -> i64 {
        self.learnt.transactions.last_stable(high_watermark)
    }

    /// Clients can see so much.
    pub(crate) fn settle(&mut self, high_watermark: i64) {
        self.learnt.transactions.settle(high_watermark);
    }

    /// The aborted transactions that have records from `from` on and before `end`.
    pub(crate) fn aborted(&self, from: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        self.learnt.transactions.aborted(from, end)
    }

    /// Whether a producer's coordinator must verify before the producer writes here in a
    /// transaction; and the number of the verification if so.
    pub(crate) fn question(&mut self, (producer_id, epoch): (i64, i16)) -> Option<u64> {
        let producers = &mut self.learnt.producers;
        let is_open = producers.is_in_transaction(producer_id, epoch);
        (!is_open).then(|| producers.verify(producer_id, epoch))
    }

    /// Who wrote what.
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.learnt.epochs
    }

    /// A leader of this epoch writes from here on.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.learnt.epochs.wrote(epoch, self.next_offset);
    }

    /// After how many records they are synced (`flush.messages`).
    pub(crate) fn flush_messages(&self) -> i64 {
        self.config.flush_messages
    }

    /// Appends a checked batch as the leader of `epoch`, unless its producer sent it before: then
    /// it returns the first place.
    pub(crate) fn append(&mut self, batch: &Checked, epoch: i32) -> Result<Appended, Rejected> {
        if let Some(duplicate) = self.known(batch)? {
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
        let marker = match batch.origin {
            Origin::Marker(marker) => Some(marker),
            Origin::Producer | Origin::Broker => None,
        };
        self.learnt.learn(&meta, marker, batch.append_time);
        Ok(Appended {
            base_offset,
            next_offset: self.next_offset,
            append_time: batch.append_time,
            log_start: self.bounds().start,
        })
    }

    /// Where a batch is already, if it may be in the log at all.
    fn known(&self, batch: &Checked) -> Result<Option<Appended>, Rejected> {
        if let Origin::Marker(marker) = batch.origin {
            return self.check_marker(marker).map(|()| None);
        }
        let Some(sequenced) = batch.meta.sequenced else {
            return Ok(None);
        };
        let producers = &self.learnt.producers;
        let (producer_id, epoch) = (sequenced.producer_id, sequenced.epoch);
        let verdict = match batch.origin {
            Origin::Broker => producers.check_epoch(producer_id, epoch),
            _ => producers.check(sequenced, batch.remembered),
        };
        let known = self.judge(sequenced, verdict)?;
        let is_open = || producers.is_in_transaction(producer_id, epoch);
        let holds = |question| producers.is_verified(producer_id, question);
        let begins = known.is_none() && sequenced.is_transactional && !is_open();
        if begins && !batch.question.is_some_and(holds) {
            return Err(Rejected::new(
                ErrorCode::INVALID_TXN_STATE,
                format!("producer {producer_id} has no transaction with this partition"),
            ));
        }
        Ok(known)
    }

    fn check_marker(&self, marker: Marker) -> Result<(), Rejected> {
        let producer = marker.producer_id;
        self.learnt
            .producers
            .check_marker(marker)
            .map_err(|unmarked| match unmarked {
                Unmarked::StaleEpoch { current } => Rejected::new(
                    ErrorCode::INVALID_PRODUCER_EPOCH,
                    format!("a marker of epoch {}, producer {producer} has {current}", marker.epoch),
                ),
                Unmarked::StaleCoordinator { current } => Rejected::new(
                    ErrorCode::TRANSACTION_COORDINATOR_FENCED,
                    format!(
                        "a marker of coordinator epoch {}, producer {producer} has one of {current}",
                        marker.coordinator_epoch
                    ),
                ),
            })
    }

    fn judge(&self, batch: Sequenced, verdict: Verdict) -> Result<Option<Appended>, Rejected> {
        match verdict {
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
            Verdict::OutsideTransaction => Err(Rejected::new(
                ErrorCode::INVALID_TXN_STATE,
                format!(
                    "producer {} has a transaction open here, this batch is in none",
                    batch.producer_id
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
        Ok(())
    }

    /// Appends what a leader has at the end of this log, as it is there.
    pub(crate) fn copy(&mut self, batches: Bytes) -> io::Result<()> {
        batch::each_batch(batches, |meta, bytes| {
            if meta.base_offset < self.next_offset {
                return Err(io::Error::other("a copied batch begins inside the log"));
            }
            self.write(meta, NEVER, &bytes, &[])?;
            let marker = if meta.is_control {
                batch::marker_of(bytes).map_err(io::Error::other)?
            } else {
                None
            };
            self.learnt.learn(meta, marker, meta.append_time);
            Ok(())
        })
    }

    /// Takes away all batches that reach `end` or come after it. What is left is written again, so
    /// that what the log has learnt is what is left.
    pub(crate) fn truncate(&mut self, end: i64) -> io::Result<()> {
        const STEP: usize = 1 << 20;
        // A leader that wrote nothing has an epoch without a part of the log.
        self.learnt.epochs.cut(end);
        if end >= self.next_offset {
            return Ok(());
        }
        let end = self.boundary(end)?;
        self.learnt.epochs.cut(end);
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
        let new = self.segment(first)?;
        let old = std::mem::replace(&mut self.active, new);
        if old.base_offset() != first {
            old.delete()?;
        }
        self.next_offset = first;
        // No batch shows any more which leaders wrote what was compacted away.
        self.learnt = Learnt {
            epochs: std::mem::take(&mut self.learnt.epochs),
            ..Learnt::default()
        };
        kept.into_iter().try_for_each(|bytes| self.copy(bytes))?;
        if self.next_offset < end {
            // What was last was compacted away: its offsets are not given again, even after a restart.
            self.next_offset = end;
            self.roll()?;
        }
        self.start = start.min(self.next_offset);
        Ok(())
    }

    /// Where the batch begins that holds `end`; `end` itself where one begins, or none is.
    fn boundary(&mut self, end: i64) -> io::Result<i64> {
        let mut boundary = end;
        let read = self.read(end, 0, true, None)?;
        if let Some(span) = read.and_then(|read| read.span) {
            batch::each_batch(span.load()?, |meta, _| {
                boundary = boundary.min(meta.base_offset);
                Ok(())
            })?;
        }
        Ok(boundary)
    }

    /// Deletes what is before `offset`, segments that lie before it too. A log that ends before it goes on there.
    pub(crate) fn delete_before(&mut self, offset: i64) -> io::Result<()> {
        self.start = self.start.max(offset);
        self.generation += 1;
        self.learnt.transactions.forget_before(self.start);
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
        let transactions = &self.learnt.transactions;
        full.seal(transactions.index(full.base_offset(), self.next_offset))?;
        self.sealed.push(full);
        Ok(())
    }

    /// Deletes the segments that are too old or too many, of those that clients have seen. Returns
    /// whether there were any.
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
        let start = self.bounds().start;
        self.learnt.transactions.forget_before(start);
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

    /// Whether `cleanup.policy` has `delete`.
    pub(crate) fn deletes(&self) -> bool {
        self.config.deletes
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
            last_offsets: self.learnt.producers.last_offsets(),
            aborted: self
                .learnt
                .transactions
                .aborted(0, until)
                .copied()
                .collect(),
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
        // Of aborted transactions before it no record is left.
        self.learnt.transactions.forget_before(cleaned.until);
        for (new, count) in cleaned.segments.into_iter().zip(cleaned.counts) {
            let first = self
                .sealed
                .partition_point(|segment| segment.base_offset() < new.base_offset());
            let old = self.sealed.get(first..first + count).unwrap_or_default();
            let paths = old.iter().filter_map(Segment::path);
            let paths: Vec<PathBuf> = paths.map(Path::to_owned).collect();
            if let Some((log, others)) = paths.split_first() {
                naming::replace(log, others)?;
                new.seal(&[])?;
            }
            self.sealed.splice(first..first + count, [new]);
        }
        self.clean = cleaned.until;
        Ok(())
    }

    /// Forgets the producers that wrote last at this time or before.
    pub(crate) fn expire_producers(&mut self, until: i64) {
        self.learnt.producers.expire(until);
    }

    /// Takes new settings, which hold from the next append on.
    pub(crate) fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The size of all segments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let sealed = self.sealed.iter().map(Segment::size);
        sealed.sum::<u64>() + self.active.size()
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
            return Ok(Some(Read::nothing(offset)));
        }
        let first = self
            .sealed
            .partition_point(|segment| segment.base_offset() <= offset)
            .saturating_sub(1);
        let segments = self.sealed.iter_mut().skip(first).chain([&mut self.active]);
        for segment in segments {
            if let Some(Part { span, next }) = segment.read(offset, limit, at_least_one, below)? {
                return Ok(Some(Read {
                    span: Some(span),
                    end: next.unwrap_or(bounds.end),
                }));
            }
        }
        Ok(Some(Read::nothing(offset)))
    }

    /// Calls `visit` with each piece of a log of the broker's own.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn each_piece(&mut self, mut visit: impl FnMut(&Piece<'_>)) -> Result<(), String> {
        const STEP: usize = 1 << 20;
        let text = |cause: io::Error| cause.to_string();
        let mut offset = self.bounds().start;
        while let Some(span) = self
            .read(offset, STEP, true, None)
            .map_err(text)?
            .and_then(|read| read.span)
        {
            offset = batch::each_piece(span.load().map_err(text)?, &mut visit)?;
        }
        Ok(())
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

    /// Makes all that was appended last. As in Kafka, nothing does so before: the response for a
    /// batch is sent once the operating system has it.
    pub(crate) fn flush(&self) -> Result<(), BrokerError> {
        let dir = self.dir.as_deref().unwrap_or(Path::new(""));
        let mut segments = self.sealed.iter().chain([&self.active]);
        let flushed = segments.try_for_each(Segment::sync).and_then(|()| {
            let active = &self.active;
            let transactions = &self.learnt.transactions;
            active.seal(transactions.index(active.base_offset(), self.next_offset))
        });
        flushed.map_err(BrokerError::io(dir))
    }
}
