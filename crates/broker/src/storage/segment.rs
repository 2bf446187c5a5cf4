//! One segment of a partition's log: a run of batches in memory or in a file, with its sparse index.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::batch::{self, Meta, RawHeader};
use super::file::{FileRange, LogFile};
use super::index::{Index, Newest};
use super::memory::Memory;
use super::naming::{ABORTED, cleaned, remove, remove_if_there};
use super::producers::Marker;
use super::transactions::Aborted;
use crate::error::BrokerError;

#[derive(Debug)]
pub(crate) struct Segment {
    base_offset: i64,
    store: Store,
    index: Index,
    age: Age,
}

/// When the batches of a segment are from, in milliseconds since 1970; -1 where nobody knows.
#[derive(Debug, Clone, Copy)]
struct Age {
    /// The newest timestamp of its first batch, and when that was written.
    first_timestamp: i64,
    first_written: i64,
    last_written: i64,
}

impl Age {
    const UNKNOWN: Self = Self {
        first_timestamp: -1,
        first_written: -1,
        last_written: -1,
    };
}

#[derive(Debug)]
enum Store {
    Memory(Memory),
    File { file: LogFile, path: PathBuf },
}

/// Stored bytes: at hand, or to be read from a file once the log is unlocked.
#[derive(Debug)]
pub(crate) enum Span {
    Memory(Bytes),
    File(FileRange),
}

impl Span {
    pub(crate) fn len(&self) -> usize {
        match self {
            Span::Memory(bytes) => bytes.len(),
            Span::File(range) => range.len(),
        }
    }

    pub(crate) fn load(self) -> io::Result<Bytes> {
        match self {
            Span::Memory(bytes) => Ok(bytes),
            Span::File(range) => range.load(),
        }
    }
}

/// What was read from a segment.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) span: Span,
    /// Where the batch after it begins; `None` at the end of the segment.
    pub(crate) next: Option<i64>,
}

/// How much of a segment a walk at the start believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It was full and is whole: only headers are looked at, and a bad one is an error.
    Sealed,
    /// It was being written to: checksums are verified, and it is cut at the first bad batch.
    Tail,
}

impl Segment {
    pub(crate) fn in_memory(base_offset: i64, index_interval: u64) -> Self {
        let store = Store::Memory(Memory::default());
        Self {
            base_offset,
            store,
            index: Index::new(base_offset, index_interval),
            age: Age::UNKNOWN,
        }
    }

    /// Begins a segment file in `dir`, empty.
    pub(crate) fn create(dir: &Path, base_offset: i64, index_interval: u64) -> io::Result<Self> {
        let path = dir.join(format!("{base_offset:020}.log"));
        let mut file = LogFile::open(&path)?;
        file.truncate(0)?;
        let store = Store::File { file, path };
        Ok(Self {
            base_offset,
            store,
            index: Index::new(base_offset, index_interval),
            age: Age::UNKNOWN,
        })
    }

    /// Begins the file that is to take the place of the segment file at `log`.
    pub(crate) fn create_cleaned(
        log: &Path,
        base_offset: i64,
        index_interval: u64,
    ) -> io::Result<Self> {
        let mut file = LogFile::open(&cleaned(log))?;
        file.truncate(0)?;
        let path = log.to_owned();
        Ok(Self {
            base_offset,
            store: Store::File { file, path },
            index: Index::new(base_offset, index_interval),
            age: Age::UNKNOWN,
        })
    }

    /// Opens the segment file at `path` and walks it, calling `visit` with each batch, and with its
    /// marker if it ends a transaction. Returns how many bytes were cut off.
    pub(crate) fn recover(
        path: PathBuf,
        base_offset: i64,
        index_interval: u64,
        trust: Trust,
        mut visit: impl FnMut(&Meta, Option<Marker>),
    ) -> Result<(Self, u64), BrokerError> {
        let file = LogFile::open(&path).map_err(BrokerError::io(&path))?;
        let mut index = Index::new(base_offset, index_interval);
        let written = written(&path);
        let mut age = Age {
            first_written: written,
            last_written: written,
            ..Age::UNKNOWN
        };
        let mut position = 0;
        let mut next_offset = base_offset;
        while position < file.size() {
            match next_batch(&file, position, next_offset, trust) {
                Ok((meta, marker)) => {
                    visit(&meta, marker);
                    if position == 0 {
                        age.first_timestamp = meta.max_timestamp;
                    }
                    index.appended(&meta, position);
                    position += meta.size;
                    next_offset = meta.last_offset + 1;
                }
                Err(Damage::Io(cause)) => return Err(BrokerError::io(&path)(cause)),
                Err(Damage::Bytes(_)) if trust == Trust::Tail => break,
                Err(Damage::Bytes(what)) => {
                    let what = format!(
                        "the batch at byte {position} is damaged ({what}), and newer segments follow; move this \
                         partition's folder away to start without it"
                    );
                    return Err(BrokerError::corrupt(&path, what));
                }
            }
        }
        let cut = file.size() - position;
        let mut segment = Self {
            base_offset,
            store: Store::File {
                file,
                path: path.clone(),
            },
            index,
            age,
        };
        if let (Store::File { file, .. }, true) = (&mut segment.store, cut > 0) {
            file.truncate(position).map_err(BrokerError::io(&path))?;
        }
        Ok((segment, cut))
    }

    pub(crate) fn base_offset(&self) -> i64 {
        self.base_offset
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.store {
            Store::Memory(memory) => memory.size(),
            Store::File { file, .. } => file.size(),
        }
    }

    pub(crate) fn newest(&self) -> Option<Newest> {
        self.index.newest()
    }

    /// The time of its newest record: its timestamp, or where records have none, when the last of them was written.
    pub(crate) fn newest_time(&self) -> Option<i64> {
        let timestamp = self.newest().map_or(-1, |newest| newest.timestamp);
        let time = if timestamp >= 0 {
            timestamp
        } else {
            self.age.last_written
        };
        (time >= 0).then_some(time)
    }

    /// The milliseconds from its first batch to one with this timestamp that is written `now`.
    pub(crate) fn waited(&self, timestamp: i64, now: i64) -> i64 {
        if self.age.first_timestamp >= 0 {
            timestamp.saturating_sub(self.age.first_timestamp)
        } else if self.age.first_written >= 0 {
            now.saturating_sub(self.age.first_written)
        } else {
            0
        }
    }

    /// Appends the batch whose bytes are `head` and then `body`, which came at `now`.
    pub(crate) fn append(
        &mut self,
        meta: &Meta,
        now: i64,
        head: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let position = self.size();
        match &mut self.store {
            Store::Memory(memory) => memory.append(head, body),
            Store::File { file, .. } => file.append(head, body)?,
        }
        if position == 0 {
            self.age.first_timestamp = meta.max_timestamp;
            self.age.first_written = now;
        }
        self.age.last_written = now;
        self.index.appended(meta, position);
        Ok(())
    }

    /// Whole batches from the one that holds `offset` on, `limit` bytes at most; if already the first is larger, it alone
    /// where `at_least_one`, else nothing. Batches that reach `below`, if that is said, are left out. `None` if the segment
    /// ends before `offset`.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        limit: usize,
        at_least_one: bool,
        below: Option<i64>,
    ) -> io::Result<Option<Part>> {
        let start = self.find(self.index.before_offset(offset), |meta| {
            meta.last_offset >= offset
        })?;
        let Some((start, first)) = start else {
            return Ok(None);
        };
        let end = self.whole_until(start, start.saturating_add(limit as u64))?;
        let end = if end > start {
            end
        } else if at_least_one {
            start + first.size
        } else {
            start
        };
        let end = match below {
            Some(below) => end.min(self.position_of(below)?.max(start)),
            None => end,
        };
        let next = self.meta_at(end)?.map(|meta| meta.base_offset);
        let span = self.span(start, end);
        Ok(Some(Part { span, next }))
    }

    /// Where the batch begins that holds `offset`; the end of the segment if none does.
    fn position_of(&self, offset: i64) -> io::Result<u64> {
        let found = self.find(self.index.before_offset(offset), |meta| {
            meta.last_offset >= offset
        })?;
        Ok(found.map_or(self.size(), |(position, _)| position))
    }

    /// The first batch that reaches `timestamp`.
    pub(crate) fn batch_at_time(&mut self, timestamp: i64) -> io::Result<Option<Span>> {
        let found = self.find(self.index.before_timestamp(timestamp), |meta| {
            meta.max_timestamp >= timestamp
        })?;
        Ok(found.map(|(position, meta)| self.span(position, position + meta.size)))
    }

    /// Writes the index files of a segment that gets no more batches, and in which these transactions were aborted.
    pub(crate) fn seal(&self, aborted: &[Aborted]) -> io::Result<()> {
        let Store::File { path, .. } = &self.store else {
            return Ok(());
        };
        self.index.write(path)?;
        let path = path.with_extension(ABORTED);
        if aborted.is_empty() {
            return remove_if_there(&path);
        }
        let mut entries = Vec::new();
        aborted.iter().for_each(|it| it.encode(&mut entries));
        fs::write(path, entries)
    }

    /// Makes the segment's bytes last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match &self.store {
            Store::Memory(_) => Ok(()),
            Store::File { file, .. } => file.sync(),
        }
    }

    /// Removes the segment's files. Readers that hold a span of it can still read it.
    pub(crate) fn delete(self) -> io::Result<()> {
        match self.path() {
            Some(path) => remove(path),
            None => Ok(()),
        }
    }

    /// Its file; `None` in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.store {
            Store::Memory(_) => None,
            Store::File { path, .. } => Some(path),
        }
    }

    /// All its batches, to be read when the log is no longer locked.
    pub(crate) fn spans(&mut self) -> Vec<Span> {
        let (mut spans, mut position) = (Vec::new(), 0);
        while position < self.size() {
            let span = self.span(position, self.size());
            if span.len() == 0 {
                break;
            }
            position += span.len() as u64;
            spans.push(span);
        }
        spans
    }

    /// The time of its first batch, and when it was written to last; -1 where nobody knows.
    pub(crate) fn times(&self) -> (i64, i64) {
        (self.age.first_timestamp, self.age.last_written)
    }

    /// Walks batches from the one at `position` on to the first that `wanted` accepts.
    fn find(
        &self,
        mut position: u64,
        wanted: impl Fn(&Meta) -> bool,
    ) -> io::Result<Option<(u64, Meta)>> {
        while let Some(meta) = self.meta_at(position)? {
            if wanted(&meta) {
                return Ok(Some((position, meta)));
            }
            position += meta.size;
        }
        Ok(None)
    }

    /// The end of the last whole batch before `limit`, or `start` without one.
    fn whole_until(&self, start: u64, limit: u64) -> io::Result<u64> {
        if limit >= self.size() {
            return Ok(self.size());
        }
        let mut end = self.index.before_position(limit).max(start);
        while let Some(meta) = self.meta_at(end)? {
            if end + meta.size > limit {
                break;
            }
            end += meta.size;
        }
        Ok(end)
    }

    fn meta_at(&self, position: u64) -> io::Result<Option<Meta>> {
        let mut raw: RawHeader = [0; size_of::<RawHeader>()];
        let there = match &self.store {
            Store::Memory(memory) => memory.peek(position, &mut raw),
            Store::File { file, .. } => file.peek(position, &mut raw)?,
        };
        if !there {
            return Ok(None);
        }
        Meta::parse(&raw).map(Some).map_err(io::Error::other)
    }

    fn span(&mut self, start: u64, end: u64) -> Span {
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        match &mut self.store {
            Store::Memory(memory) => Span::Memory(memory.read(start, length)),
            Store::File { file, .. } => Span::File(file.range(start, length)),
        }
    }
}

/// When a file was written to the last time, in milliseconds since 1970, or -1.
fn written(path: &Path) -> i64 {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let since = modified
        .ok()
        .and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    since.map_or(-1, |since| i64::try_from(since.as_millis()).unwrap_or(-1))
}

enum Damage {
    Io(io::Error),
    Bytes(String),
}

/// The batch at `position` of a file, if it is whole and its offsets follow; and the marker that it is, if it is one.
fn next_batch(
    file: &LogFile,
    position: u64,
    next_offset: i64,
    trust: Trust,
) -> Result<(Meta, Option<Marker>), Damage> {
    let mut raw: RawHeader = [0; size_of::<RawHeader>()];
    if !file.peek(position, &mut raw).map_err(Damage::Io)? {
        return Err(Damage::Bytes("its header is cut short".to_owned()));
    }
    let meta = Meta::parse(&raw).map_err(Damage::Bytes)?;
    if position + meta.size > file.size() {
        return Err(Damage::Bytes(format!(
            "{} bytes needed, {} left",
            meta.size,
            file.size() - position
        )));
    }
    if meta.base_offset < next_offset || meta.last_offset < meta.base_offset {
        return Err(Damage::Bytes(format!(
            "offset {} where {next_offset} or more is due",
            meta.base_offset
        )));
    }
    if trust == Trust::Sealed && !meta.is_control {
        return Ok((meta, None));
    }
    let length = usize::try_from(meta.size).unwrap_or(usize::MAX);
    let bytes = file.range(position, length).load().map_err(Damage::Io)?;
    if trust == Trust::Tail {
        batch::verify(bytes.clone()).map_err(Damage::Bytes)?;
    }
    let marker = if meta.is_control {
        batch::marker_of(bytes).map_err(Damage::Bytes)?
    } else {
        None
    };
    Ok((meta, marker))
}
