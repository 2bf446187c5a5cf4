//! The sparse index of one segment: where to begin looking for an offset or a time.
//!
//! It lives in memory, is rebuilt by walking the segment at the start, and is written out as Kafka's `.index` (relative
//! last offset of a batch, position of the batch) and `.timeindex` (highest timestamp so far, relative offset of its
//! batch) when the segment is full or the broker stops.

use std::fs;
use std::io;
use std::path::Path;

use super::batch::Meta;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    last_offset: i64,
    position: u64,
    /// The highest timestamp up to and with this batch, and the last offset of the batch that has it.
    newest: Newest,
}

/// The highest timestamp of a run of batches and the last offset of the first batch that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) timestamp: i64,
    pub(crate) last_offset: i64,
}

#[derive(Debug)]
pub(crate) struct Index {
    base_offset: i64,
    interval: u64,
    entries: Vec<Entry>,
    unindexed: u64,
    newest: Option<Newest>,
}

impl Index {
    pub(crate) fn new(base_offset: i64, interval: u64) -> Self {
        Self {
            base_offset,
            interval,
            entries: Vec::new(),
            unindexed: 0,
            newest: None,
        }
    }

    /// Takes note of the batch at `position`.
    pub(crate) fn appended(&mut self, batch: &Meta, position: u64) {
        let newest = match self.newest {
            Some(known) if known.timestamp >= batch.max_timestamp => known,
            _ => Newest {
                timestamp: batch.max_timestamp,
                last_offset: batch.last_offset,
            },
        };
        self.newest = Some(newest);
        if self.unindexed > self.interval {
            self.entries.push(Entry {
                last_offset: batch.last_offset,
                position,
                newest,
            });
            self.unindexed = 0;
        }
        self.unindexed += batch.size;
    }

    pub(crate) fn newest(&self) -> Option<Newest> {
        self.newest
    }

    /// Position of a batch at or before the one that holds `offset`.
    pub(crate) fn before_offset(&self, offset: i64) -> u64 {
        let after = self
            .entries
            .partition_point(|entry| entry.last_offset <= offset);
        self.position_before(after)
    }

    /// Position of the last indexed batch that begins at or before `position`.
    pub(crate) fn before_position(&self, position: u64) -> u64 {
        let after = self
            .entries
            .partition_point(|entry| entry.position <= position);
        self.position_before(after)
    }

    /// Position of a batch at or before the first that reaches `timestamp`.
    pub(crate) fn before_timestamp(&self, timestamp: i64) -> u64 {
        let reaching = self
            .entries
            .partition_point(|entry| entry.newest.timestamp < timestamp);
        self.position_before(reaching)
    }

    fn position_before(&self, index: usize) -> u64 {
        index
            .checked_sub(1)
            .and_then(|index| self.entries.get(index))
            .map_or(0, |entry| entry.position)
    }

    /// Writes both index files next to the segment at `log`.
    pub(crate) fn write(&self, log: &Path) -> io::Result<()> {
        let mut offsets = Vec::with_capacity(self.entries.len() * 8);
        let mut times: Vec<u8> = Vec::new();
        let mut written = None;
        let last = self.newest.map(|newest| (None, newest));
        let all = self
            .entries
            .iter()
            .map(|entry| (Some(entry), entry.newest))
            .chain(last);
        for (entry, newest) in all {
            if let Some(entry) = entry {
                offsets.extend_from_slice(&self.relative(entry.last_offset).to_be_bytes());
                offsets.extend_from_slice(
                    &u32::try_from(entry.position)
                        .unwrap_or(u32::MAX)
                        .to_be_bytes(),
                );
            }
            if written.is_none_or(|timestamp| timestamp < newest.timestamp) {
                written = Some(newest.timestamp);
                times.extend_from_slice(&newest.timestamp.to_be_bytes());
                times.extend_from_slice(&self.relative(newest.last_offset).to_be_bytes());
            }
        }
        fs::write(log.with_extension("index"), offsets)?;
        fs::write(log.with_extension("timeindex"), times)
    }

    fn relative(&self, offset: i64) -> u32 {
        u32::try_from(offset - self.base_offset).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::new(100, 150);
        for i in 0..10_i64 {
            let max_timestamp = if i == 4 { 1000 } else { i };
            let batch = Meta {
                is_control: false,
                leader_epoch: 0,
                base_offset: 100 + 2 * i,
                last_offset: 101 + 2 * i,
                size: 100,
                max_timestamp,
                append_time: -1,
                sequenced: None,
            };
            index.appended(&batch, 100 * i as u64);
        }
        index
    }

    #[test]
    fn lookups_never_pass_what_is_looked_for() {
        let index = index();
        assert_eq!(index.entries.len(), 4, "every second batch but the first");
        for i in 0..10_i64 {
            for offset in [100 + 2 * i, 101 + 2 * i] {
                let found = index.before_offset(offset);
                assert!(
                    found <= 100 * i as u64 && found + 200 >= 100 * i as u64,
                    "{offset}: {found}"
                );
            }
            assert!(index.before_position(100 * i as u64 + 50) <= 100 * i as u64);
        }
        assert_eq!(index.before_timestamp(0), 0);
        assert!(index.before_timestamp(500) <= 400);
        assert_eq!(
            index.newest(),
            Some(Newest {
                timestamp: 1000,
                last_offset: 109
            })
        );
    }

    #[test]
    fn the_files_are_kafkas() {
        let dir = std::env::temp_dir().join(format!("ottla-index-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let log = dir.join("00000000000000000100.log");
        index().write(&log).unwrap();
        let offsets = fs::read(log.with_extension("index")).unwrap();
        assert_eq!(offsets.len(), 4 * 8);
        assert_eq!(offsets[..8], [0, 0, 0, 5, 0, 0, 0, 200]);
        let times = fs::read(log.with_extension("timeindex")).unwrap();
        assert_eq!(times.len(), 2 * 12, "timestamps must rise: 2, then 1000");
        assert_eq!(times[12..], [0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 9]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
