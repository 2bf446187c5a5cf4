//! A segment's bytes in memory, given out without copying.
//!
//! Batches are copied once, into chunks that never move, and no batch straddles two chunks. A full chunk is one `Bytes`,
//! and reads of it are slices. The chunk still being filled is cut where a reader looked at it: `parts` are the pieces
//! already shared, `tail` is what came since. Pieces that a later read finds too small are joined, so that a reader
//! catching up is not fed crumbs; that copies at most what the read returns.

use bytes::{Bytes, BytesMut};

const SMALLEST_CHUNK: usize = 4 << 10;
const LARGEST_CHUNK: usize = 1 << 20;
/// Pieces at least this long are worth a response of their own.
const WORTHWHILE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Full chunks and the position each begins at.
    sealed: Vec<(u64, Bytes)>,
    /// Pieces of the open chunk, each after the other.
    parts: Vec<(u64, Bytes)>,
    tail: BytesMut,
    size: u64,
}

impl Memory {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Appends `head` and `body` as one run of bytes.
    pub(crate) fn append(&mut self, head: &[u8], body: &[u8]) {
        let length = head.len() + body.len();
        if self.tail.capacity() - self.tail.len() < length {
            self.seal();
            let grown = usize::try_from(self.size).unwrap_or(LARGEST_CHUNK);
            self.tail =
                BytesMut::with_capacity(length.max(grown.clamp(SMALLEST_CHUNK, LARGEST_CHUNK)));
        }
        self.tail.extend_from_slice(head);
        self.tail.extend_from_slice(body);
        self.size += length as u64;
    }

    /// Up to `length` bytes from `position` on; fewer where a chunk ends, none only at the end.
    pub(crate) fn read(&mut self, position: u64, length: usize) -> Bytes {
        self.share_tail();
        if let Some(bytes) = slice(&self.sealed, position, length) {
            return bytes;
        }
        let Some(first) = holding(&self.parts, position) else {
            return Bytes::new();
        };
        let found = slice(&self.parts, position, length).unwrap_or_default();
        let is_last = first + 1 == self.parts.len();
        if is_last || found.len() >= length.min(WORTHWHILE) {
            return found;
        }
        self.join(first, position.saturating_add(length as u64));
        slice(&self.parts, position, length).unwrap_or_default()
    }

    /// Copies bytes from `position` on into `into`; returns whether there were enough.
    pub(crate) fn peek(&self, position: u64, into: &mut [u8]) -> bool {
        let found = slice(&self.sealed, position, into.len())
            .or_else(|| slice(&self.parts, position, into.len()))
            .or_else(|| {
                let start =
                    usize::try_from(position.checked_sub(self.size - self.tail.len() as u64)?)
                        .ok()?;
                let bytes = self.tail.get(start..start.checked_add(into.len())?)?;
                Some(Bytes::copy_from_slice(bytes))
            });
        match found {
            Some(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(&bytes);
                true
            }
            _ => false,
        }
    }

    fn share_tail(&mut self) {
        if !self.tail.is_empty() {
            let start = self.size - self.tail.len() as u64;
            self.parts.push((start, self.tail.split().freeze()));
        }
    }

    fn seal(&mut self) {
        self.share_tail();
        self.join(0, self.size);
        self.sealed.append(&mut self.parts);
    }

    /// Makes one piece of those from index `first` on that begin before `end`.
    fn join(&mut self, first: usize, end: u64) {
        let last = self.parts.partition_point(|(start, _)| *start < end);
        let Some(run) = self.parts.get(first..last).filter(|run| run.len() > 1) else {
            return;
        };
        let start = run.first().map_or(0, |(start, _)| *start);
        let mut joined = BytesMut::with_capacity(run.iter().map(|(_, bytes)| bytes.len()).sum());
        for (_, bytes) in run {
            joined.extend_from_slice(bytes);
        }
        self.parts.splice(first..last, [(start, joined.freeze())]);
    }
}

/// Index of the piece that holds `position`.
fn holding(pieces: &[(u64, Bytes)], position: u64) -> Option<usize> {
    let index = pieces
        .partition_point(|(start, _)| *start <= position)
        .checked_sub(1)?;
    let (start, bytes) = pieces.get(index)?;
    (position - start < bytes.len() as u64).then_some(index)
}

fn slice(pieces: &[(u64, Bytes)], position: u64, length: usize) -> Option<Bytes> {
    let (start, bytes) = pieces.get(holding(pieces, position)?)?;
    let from = usize::try_from(position - start).ok()?;
    let to = from.saturating_add(length).min(bytes.len());
    Some(bytes.slice(from..to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(memory: &mut Memory, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while (out.len() as u64) < memory.size() {
            let read = memory.read(out.len() as u64, step);
            assert!(!read.is_empty());
            out.extend_from_slice(&read);
        }
        out
    }

    #[test]
    fn reads_see_what_was_appended_however_they_interleave() {
        let mut memory = Memory::default();
        let mut model = Vec::new();
        for i in 0..3000_usize {
            let body = vec![i as u8; 1 + (i * 37) % 900];
            memory.append(&[0xEE], &body);
            model.push(0xEE);
            model.extend_from_slice(&body);
            if i % 3 == 0 {
                let position = (i * 7919) % model.len();
                let read = memory.read(position as u64, 1000);
                assert!(!read.is_empty());
                assert_eq!(read, model[position..position + read.len()]);
            }
            let mut last = [0; 2];
            assert!(memory.peek(model.len() as u64 - 2, &mut last));
            assert_eq!(last, model[model.len() - 2..]);
        }
        assert_eq!(all(&mut memory, 5000), model);
        assert!(memory.read(memory.size(), 10).is_empty());
        assert!(!memory.peek(memory.size() - 1, &mut [0; 2]));
    }

    #[test]
    fn a_full_chunk_is_read_without_copying() {
        let mut memory = Memory::default();
        memory.append(&[], &vec![1; LARGEST_CHUNK]);
        memory.append(&[], &vec![2; LARGEST_CHUNK]);
        let first = memory.read(0, LARGEST_CHUNK);
        let again = memory.read(0, LARGEST_CHUNK);
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(first.len(), LARGEST_CHUNK);
    }

    #[test]
    fn crumbs_are_joined() {
        let mut memory = Memory::default();
        memory.append(&[], &vec![0; LARGEST_CHUNK]);
        for i in 0..100_u64 {
            memory.append(&[], &[i as u8; 100]);
            memory.read(LARGEST_CHUNK as u64 + i * 100, 100);
        }
        let read = memory.read(LARGEST_CHUNK as u64, 10_000);
        assert_eq!(read.len(), 10_000);
        assert_eq!(
            read.as_ptr(),
            memory.read(LARGEST_CHUNK as u64, 10_000).as_ptr()
        );
    }
}
