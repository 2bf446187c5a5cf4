//! What a codec writes into, and why it stops.

use std::fmt;

/// Why a codec stopped.
#[derive(Debug)]
pub(super) enum Failure {
    TooLarge,
    Corrupt(String),
}

impl Failure {
    pub(super) fn corrupt(reason: impl fmt::Display) -> Self {
        Self::Corrupt(reason.to_string())
    }
}

/// What a block codec has decompressed, at the front of a buffer. What the buffer held before stays behind it as room, so that
/// a buffer used again and again is not filled with zeros each time.
pub(super) struct Output<'a> {
    buffer: &'a mut Vec<u8>,
    pub(super) length: usize,
    limit: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(buffer: &'a mut Vec<u8>, limit: usize) -> Self {
        Self {
            buffer,
            length: 0,
            limit,
        }
    }

    pub(super) fn written(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// How many bytes may follow.
    pub(super) fn left(&self) -> usize {
        self.limit - self.length
    }

    /// What is written, and room for `more` bytes after it, or nothing if that passes the limit.
    pub(super) fn room(&mut self, more: usize) -> Result<(&[u8], &mut [u8]), Failure> {
        if more > self.left() {
            return Err(Failure::TooLarge);
        }
        let end = self.length + more;
        if end > self.buffer.len() {
            self.buffer.resize(end, 0);
        }
        let (written, room) = self.buffer.split_at_mut(self.length);
        Ok((written, room.get_mut(..more).unwrap_or_default()))
    }

    /// So many bytes of the room were filled.
    pub(super) fn wrote(&mut self, count: usize) {
        self.length += count;
    }

    /// Nothing follows.
    pub(super) fn finish(self) {
        self.buffer.truncate(self.length);
    }
}
