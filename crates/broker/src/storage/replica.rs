//! What one node has of a partition: its log, its part as leader or follower, and the readers that
//! wait for more.
//!
//! A leader appends, and its high watermark follows the slowest replica in sync; a follower takes what the leader gives it,
//! after it has cut off what the leader never had (KIP-101). A partition with one replica is always in sync with itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use bytes::Bytes;
use ottla_protocol::ErrorCode;
use parking_lot::Mutex;

use super::batch::{Checked, Rejected};
use super::compaction::{Cleaned, Work};
use super::log::{Appended, Log, Read};
use super::segment::Span;
use super::transactions::Aborted;
use crate::bell::{Awaited, Bell};
use crate::error::BrokerError;

/// Nobody leads.
pub(crate) const NO_LEADER: i32 = -1;

/// Who leads a partition, and who follows, as the controller decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) leader: i32,
    pub(crate) epoch: i32,
    pub(crate) replicas: Vec<i32>,
    pub(crate) in_sync: Vec<i32>,
}

impl Standing {
    /// Of a partition with one replica.
    pub(crate) fn alone(node: i32) -> Self {
        Self {
            leader: node,
            epoch: 0,
            replicas: vec![node],
            in_sync: vec![node],
        }
    }
}

/// What a node has of a partition.
#[derive(Debug)]
pub(crate) struct Replica {
    node: i32,
    log: Log,
    standing: Standing,
    high_watermark: i64,
    /// Where the log ended when this node became the leader.
    epoch_start: i64,
    /// The batches above the high watermark of a leader: where each ends, and its bytes.
    uncommitted: VecDeque<(i64, u64)>,
    /// How far the followers of a leader have come.
    followers: BTreeMap<i32, i64>,
    /// Whether a follower still has to compare its log with the leader's.
    may_diverge: bool,
    /// Where a loss of power would cut the log.
    synced: i64,
    growth: Option<Growth>,
    watchers: Vec<Registered>,
    deleted: bool,
}

/// Called when a leader has something for its followers.
#[derive(Clone)]
pub(crate) struct Growth(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Growth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Growth")
    }
}

/// The offsets of a partition that clients may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) start: i64,
    pub(crate) high_watermark: i64,
    /// Before it every transaction has ended.
    pub(crate) last_stable: i64,
}

/// What a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// All records.
    Uncommitted,
    /// Those before the last stable offset.
    Committed,
}

impl Isolation {
    /// As requests say it.
    pub(crate) fn of(level: i8) -> Self {
        if level == 1 {
            Self::Committed
        } else {
            Self::Uncommitted
        }
    }
}

impl Visible {
    /// Up to where such a client reads.
    pub(crate) fn end(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::Uncommitted => self.high_watermark,
            Isolation::Committed => self.last_stable,
        }
    }
}

/// What a fetch of a client finds.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// With the aborted transactions in it, for those who read what is committed.
    Read(Visible, Option<Span>, Vec<Aborted>),
    OutOfRange,
    /// The client's log parts from this one where this epoch ends.
    Diverging(Visible, i32, i64),
}

/// What a leader gives a follower.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) cut: Option<Cut>,
    pub(crate) span: Option<Span>,
    pub(crate) visible: Visible,
}

/// Where a follower's log must be cut first: where the leader's part of `epoch` ends, or its own if that ends before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    epoch: Option<i32>,
    agreed: i64,
}

/// Which watcher is notified of growth, under which place of it, and as what kind of reader.
#[derive(Debug)]
struct Registered {
    watcher: Weak<Watcher>,
    place: usize,
    isolation: Isolation,
}

/// A watcher that waits until partitions together have grown by this many bytes.
#[derive(Debug)]
pub(crate) struct Watcher {
    missing: AtomicI64,
    /// The places of the partitions that have grown.
    grown: Mutex<BTreeSet<usize>>,
    bell: Bell,
}

impl Watcher {
    pub(crate) fn new(missing: usize, waker: Waker) -> Arc<Self> {
        let missing = i64::try_from(missing).unwrap_or(i64::MAX);
        Arc::new(Self {
            missing: AtomicI64::new(missing),
            grown: Mutex::default(),
            bell: Bell::new(waker),
        })
    }

    fn grown(&self, place: usize, bytes: u64) {
        self.grown.lock().insert(place);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.missing.fetch_sub(bytes, Ordering::Relaxed) <= bytes {
            self.bell.ring();
        }
    }

    /// The places, as the partitions were registered under them, where something happened.
    pub(crate) fn take_grown(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.grown.lock())
    }
}

impl Awaited for Watcher {
    fn bell(&self) -> &Bell {
        &self.bell
    }
}

impl Replica {
    /// The replica of `node`, as the only one there is.
    pub(crate) fn new(node: i32, log: Log) -> Self {
        let end = log.bounds().end;
        let mut replica = Self {
            node,
            log,
            standing: Standing::alone(node),
            high_watermark: end,
            epoch_start: end,
            uncommitted: VecDeque::new(),
            followers: BTreeMap::new(),
            may_diverge: false,
            synced: end,
            growth: None,
            watchers: Vec::new(),
            deleted: false,
        };
        replica.standing.epoch = replica.log.epochs().last().unwrap_or(0);
        replica
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    pub(crate) fn leads(&self) -> bool {
        self.standing.leader == self.node
    }

    fn is_alone(&self) -> bool {
        self.standing.replicas.len() == 1
    }

    pub(crate) fn visible(&self) -> Visible {
        let start = self.log.bounds().start;
        let high_watermark = self.high_watermark.max(start);
        Visible {
            start,
            high_watermark,
            last_stable: self.log.last_stable(high_watermark).max(start),
        }
    }

    /// The offset after the last record that such clients may see; `None` before a new leader knows what its predecessor had
    /// committed (KIP-207).
    pub(crate) fn end(&self, isolation: Isolation) -> Option<i64> {
        let visible = self.visible();
        let is_known = visible.high_watermark >= self.epoch_start;
        is_known.then_some(visible.end(isolation))
    }

    /// The leader epoch of a record, or the present one where nothing was written.
    pub(crate) fn epoch_at(&self, offset: i64) -> i32 {
        self.log.epochs().at(offset).unwrap_or(self.standing.epoch)
    }

    /// May a client that knows this leader epoch (below 0: none) deal with this node?
    pub(crate) fn check(&self, epoch: i32) -> Result<(), ErrorCode> {
        if self.deleted {
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        } else if epoch >= 0 && epoch < self.standing.epoch {
            Err(ErrorCode::FENCED_LEADER_EPOCH)
        } else if epoch >= 0 && epoch > self.standing.epoch {
            Err(ErrorCode::UNKNOWN_LEADER_EPOCH)
        } else if self.leads() {
            Ok(())
        } else {
            Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)
        }
    }

    /// Appends as the leader. `least_in_sync` is how many replicas must be in sync, if the producer cares.
    pub(crate) fn append(
        &mut self,
        batch: &Checked,
        least_in_sync: Option<usize>,
    ) -> Result<Appended, Rejected> {
        self.check(-1)
            .map_err(|code| Rejected::new(code, "this node does not lead the partition"))?;
        let in_sync = self.standing.in_sync.len();
        if least_in_sync.is_some_and(|least| in_sync < least) {
            return Err(Rejected::new(
                ErrorCode::NOT_ENOUGH_REPLICAS,
                format!("{in_sync} replicas are in sync, fewer than min.insync.replicas"),
            ));
        }
        let (before, segments) = (self.log.bounds().end, self.log.segments());
        let appended = self.log.append(batch, self.standing.epoch)?;
        let end = self.log.bounds().end;
        if end > before {
            self.uncommitted.push_back((end, batch.meta.size));
            self.advance();
            if self.log.segments() > segments {
                // What cannot be deleted now is deleted when all logs are looked at.
                let _ = self.log.cut_back(self.high_watermark);
            }
            if !self.is_alone() {
                self.tell_growth();
            }
        }
        Ok(appended)
    }

    /// Whether what was appended in `epoch` up to `end` is on all replicas in sync, and these are
    /// enough. `None`: not yet, and `watcher` is notified of progress.
    pub(crate) fn committed(
        &mut self,
        epoch: i32,
        end: i64,
        least_in_sync: usize,
        watcher: &Arc<Watcher>,
    ) -> Option<Result<(), ErrorCode>> {
        if self.deleted {
            Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
        } else if !self.leads() || self.standing.epoch != epoch {
            Some(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER))
        } else if self.high_watermark < end {
            self.register(watcher, 0, Isolation::Uncommitted);
            None
        } else if self.standing.in_sync.len() < least_in_sync {
            Some(Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        } else {
            Some(Ok(()))
        }
    }

    /// Reads what such a client may see from `offset` on. `last_epoch` is that of the record
    /// before, if the client sends it.
    pub(crate) fn fetch(
        &mut self,
        offset: i64,
        last_epoch: i32,
        isolation: Isolation,
        limit: usize,
        at_least_one: bool,
    ) -> io::Result<Fetched> {
        let visible = self.visible();
        if last_epoch >= 0 {
            match self.end_of_epoch(last_epoch) {
                Some((epoch, end)) if epoch < last_epoch || end < offset => {
                    return Ok(Fetched::Diverging(visible, epoch, end));
                }
                Some(_) => {}
                None => return Ok(Fetched::OutOfRange),
            }
        }
        let readable = visible.end(isolation);
        let below = (readable < self.log.bounds().end).then_some(readable);
        Ok(match self.log.read(offset, limit, at_least_one, below)? {
            Some(Read { span, end }) => {
                let aborted = match isolation {
                    Isolation::Uncommitted => Vec::new(),
                    Isolation::Committed => {
                        let end = end.min(readable);
                        self.log.aborted(offset, end).copied().collect()
                    }
                };
                Fetched::Read(visible, span, aborted)
            }
            None => Fetched::OutOfRange,
        })
    }

    /// The largest epoch up to `asked` and its end (KIP-320).
    pub(crate) fn end_of_epoch(&self, asked: i32) -> Option<(i32, i64)> {
        let end = self.log.bounds().end;
        if asked == self.standing.epoch {
            return Some((asked, end));
        }
        self.log.epochs().end_of(asked, end)
    }

    /// Deletes the records before `offset`; -1 means all that clients may see. A log that is only compacted rejects it.
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<i64, ErrorCode> {
        if !self.log.deletes() {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let visible = self.visible();
        let offset = if offset == -1 {
            visible.high_watermark
        } else {
            offset
        };
        if !(0..=visible.high_watermark).contains(&offset) {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        self.log
            .delete_before(offset)
            .map_err(|_| ErrorCode::KAFKA_STORAGE_ERROR)?;
        self.tell_growth();
        Ok(self.visible().start)
    }

    /// Deletes the segments that are too old or too many; of followers, those that their leader has deleted.
    pub(crate) fn retain(&mut self, now: i64) -> io::Result<()> {
        if self.deleted || !self.leads() {
            return Ok(());
        }
        if self.log.retain(self.high_watermark, now)? {
            self.tell_growth();
        }
        Ok(())
    }

    /// What there is to be compacted.
    pub(crate) fn compaction(&mut self, now: i64) -> Option<Work> {
        if self.deleted {
            return None;
        }
        let stable = self.visible().last_stable;
        self.log.compaction(stable, now)
    }

    /// Puts compacted segments in the place of what they were made from.
    pub(crate) fn install(&mut self, cleaned: Cleaned) -> io::Result<()> {
        if self.deleted {
            // Its folder has gone.
            return Ok(());
        }
        self.log.install(cleaned)
    }

    // Replication.

    /// Takes its part in the cluster.
    pub(crate) fn stand(&mut self, standing: Standing, growth: Option<Growth>) {
        let is_new_epoch =
            standing.epoch != self.standing.epoch || standing.leader != self.standing.leader;
        self.standing = standing;
        self.growth = growth;
        if is_new_epoch {
            self.followers.clear();
            self.uncommitted.clear();
            let end = self.log.bounds().end;
            if self.leads() {
                self.log.begin_epoch(self.standing.epoch);
                self.epoch_start = end;
                if end > self.high_watermark {
                    self.uncommitted
                        .push_back((end, end.abs_diff(self.high_watermark)));
                }
            } else {
                self.may_diverge = true;
            }
            self.wake_all();
        }
        self.advance();
        self.tell_growth();
    }

    /// What the leader has for a follower whose log ends at `end`, written by leaders up to `last_epoch`.
    pub(crate) fn give(
        &mut self,
        end: i64,
        last_epoch: Option<i32>,
        may_diverge: bool,
        limit: usize,
    ) -> io::Result<Copied> {
        let bounds = self.log.bounds();
        let mut copied = Copied {
            cut: None,
            span: None,
            visible: self.visible(),
        };
        if let Some(last) = last_epoch.filter(|_| may_diverge) {
            let (epoch, agreed) = self.end_of_epoch(last).unwrap_or((last, bounds.end));
            if epoch < last || agreed < end {
                copied.cut = Some(Cut {
                    epoch: Some(epoch),
                    agreed,
                });
                return Ok(copied);
            }
        }
        match self.log.read(end.max(bounds.start), limit, true, None)? {
            Some(read) => copied.span = read.span,
            None => {
                copied.cut = Some(Cut {
                    epoch: None,
                    agreed: bounds.end,
                });
            }
        }
        Ok(copied)
    }

    /// Takes what the leader gave, which clients of the leader see so much of.
    pub(crate) fn take(
        &mut self,
        cut: Option<Cut>,
        leader: Visible,
        records: Bytes,
    ) -> io::Result<()> {
        if let Some(Cut { epoch, agreed }) = cut {
            let end = self.log.bounds().end;
            let own = epoch.and_then(|epoch| self.log.epochs().end_of(epoch, end));
            let cut = own.map_or(agreed, |(_, end)| end.min(agreed));
            let before = self.tail();
            self.log.truncate(cut)?;
            // Each step leaves less to compare, or it is the last.
            self.may_diverge = self.tail() != before;
            self.synced = self.synced.min(cut);
        } else {
            self.may_diverge = false;
            self.log.copy(records)?;
            if self.log.bounds().start < leader.start {
                self.log.delete_before(leader.start)?;
            }
        }
        self.high_watermark = leader.high_watermark.min(self.log.bounds().end);
        self.log.settle(self.high_watermark);
        self.sync_if_due();
        Ok(())
    }

    /// Where this log ends, the last epoch in it, and whether it may differ from the leader's.
    pub(crate) fn tail(&self) -> (i64, Option<i32>, bool) {
        let end = self.log.bounds().end;
        (end, self.log.epochs().last(), self.may_diverge)
    }

    /// A follower of this leader has come to `end`. Returns whether it has all that is committed.
    pub(crate) fn followed(&mut self, follower: i32, end: i64) -> bool {
        self.followers.insert(follower, end);
        self.advance();
        end >= self.high_watermark
    }

    /// Its node is down: it leads nothing, and is to compare its log when it follows again.
    pub(crate) fn leave(&mut self) {
        self.standing.leader = NO_LEADER;
        self.may_diverge = true;
        self.wake_all();
    }

    /// Makes all that was appended survive a loss of power.
    pub(crate) fn sync(&mut self) {
        self.synced = self.log.bounds().end;
    }

    /// Loses what was not synced.
    pub(crate) fn lose_unsynced(&mut self) -> io::Result<()> {
        self.log.truncate(self.synced)?;
        let end = self.log.bounds().end;
        self.high_watermark = self.high_watermark.min(end);
        self.may_diverge = true;
        Ok(())
    }

    /// Moves the high watermark of a leader to what all replicas in sync have, and notifies
    /// watchers.
    fn advance(&mut self) {
        if !self.leads() {
            return;
        }
        let end = self.log.bounds().end;
        let others = self
            .standing
            .in_sync
            .iter()
            .filter(|node| **node != self.node);
        let slowest = others.map(|node| self.followers.get(node).copied().unwrap_or(0));
        let committed = slowest.min().map_or(end, |slowest| slowest.min(end));
        if committed <= self.high_watermark {
            return;
        }
        let before = self.visible();
        self.high_watermark = committed;
        self.log.settle(committed);
        let after = self.visible();
        let was_all_stable = before.last_stable == before.high_watermark;
        let mut bytes = 0;
        while let Some((_, size)) = self
            .uncommitted
            .front()
            .filter(|(end, _)| *end <= committed)
        {
            bytes += size;
            self.uncommitted.pop_front();
        }
        for it in &self.watchers {
            let grown = match it.isolation {
                Isolation::Uncommitted => bytes.max(1),
                Isolation::Committed if after.last_stable == before.last_stable => 0,
                Isolation::Committed if was_all_stable => bytes.max(1),
                // How much a transaction held back is not worth working out: the reader looks again.
                Isolation::Committed => u64::MAX,
            };
            if let Some(watcher) = it.watcher.upgrade().filter(|_| grown > 0) {
                watcher.grown(it.place, grown);
            }
        }
        self.sync_if_due();
    }

    fn sync_if_due(&mut self) {
        let end = self.log.bounds().end;
        if end.saturating_sub(self.synced) >= self.log.flush_messages() {
            self.synced = end;
        }
    }

    fn tell_growth(&self) {
        if let Some(Growth(tell)) = &self.growth {
            tell();
        }
    }

    // The watchers.

    /// Notifies `watcher` of growth at this place of it, counting at once what came after such
    /// clients could see up to `seen`.
    pub(crate) fn watch(
        &mut self,
        watcher: &Arc<Watcher>,
        place: usize,
        isolation: Isolation,
        seen: i64,
    ) {
        if self.deleted || self.visible().end(isolation) != seen {
            // How much came in between is not worth working out: the reader looks again.
            watcher.grown(place, u64::MAX);
        } else {
            self.register(watcher, place, isolation);
        }
    }

    fn register(&mut self, watcher: &Arc<Watcher>, place: usize, isolation: Isolation) {
        self.watchers.retain(|it| it.watcher.strong_count() > 0);
        let watcher = Arc::downgrade(watcher);
        self.watchers.push(Registered {
            watcher,
            place,
            isolation,
        });
    }

    fn wake_all(&mut self) {
        for it in self.watchers.drain(..) {
            if let Some(watcher) = it.watcher.upgrade() {
                watcher.grown(it.place, u64::MAX);
            }
        }
    }

    /// Makes all that was appended last, on disk.
    pub(crate) fn flush(&self) -> Result<(), BrokerError> {
        self.log.flush()
    }

    /// Ends the replica: appends are refused and waiting readers look again.
    pub(crate) fn close_deleted(&mut self) {
        self.deleted = true;
        self.wake_all();
    }
}
