//! A full segment that is read without its log's lock, to be written again.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;

use super::batch;
use super::segment::{Segment, Span};

/// Bytes of a file that are read at once.
const STEP: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) base_offset: i64,
    /// The offset after its last record, where the next segment begins.
    pub(crate) end: i64,
    pub(crate) bytes: u64,
    /// When it was written to last, in milliseconds since 1970, or -1.
    pub(crate) written: i64,
    /// Of whole batches, all that there are.
    pub(crate) spans: Vec<Span>,
    /// `None`: in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) index_interval: u64,
}

impl Source {
    /// Whether it can be in one segment of at most `most` bytes with those of a group before it.
    pub(crate) fn fits(&self, group: &[Self], most: u64) -> bool {
        let bytes: u64 = group.iter().map(|source| source.bytes).sum();
        let first = group
            .first()
            .map_or(self.base_offset, |source| source.base_offset);
        bytes + self.bytes <= most && self.end - first <= i64::from(i32::MAX)
    }

    /// Calls `visit` with each batch.
    pub(crate) fn each_batch(
        &self,
        mut visit: impl FnMut(Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        for span in &self.spans {
            match span {
                Span::Memory(bytes) => {
                    batch::each_batch(bytes.clone(), |_, bytes| visit(bytes))?;
                }
                Span::File(range) => {
                    let mut position = 0;
                    while position < range.len() {
                        let bytes = range.part(position, STEP).load()?;
                        let whole = batch::whole(&bytes)?;
                        let bytes = if whole.is_empty() {
                            let size = batch::first_size(&bytes)?;
                            range.part(position, size).load()?
                        } else {
                            whole
                        };
                        position += bytes.len();
                        batch::each_batch(bytes, |_, bytes| visit(bytes))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// An empty segment that begins where this one does, and is to take its place.
    pub(crate) fn cleaned(&self) -> io::Result<Segment> {
        match &self.path {
            None => Ok(Segment::in_memory(self.base_offset, self.index_interval)),
            Some(path) => Segment::create_cleaned(path, self.base_offset, self.index_interval),
        }
    }
}
