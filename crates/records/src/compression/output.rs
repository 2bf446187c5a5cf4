//! The output buffer of a decompressor, and why it stops.

use std::fmt;

/// Why a codec stopped.
#[derive(Debug)]
pub(super) enum Failure {
    TooLarge,
    /// The data may be sound: there is no memory for it.
    NoRoom(String),
    Corrupt(String),
}

impl Failure {
    pub(super) fn corrupt(reason: impl fmt::Display) -> Self {
        Self::Corrupt(reason.to_string())
    }
}

/// The decompressed bytes of a block codec, at the front of a buffer. The old contents behind them
/// serve as space, so that a reused buffer is not filled with zeros each time.
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

    /// Bytes left up to the limit.
    pub(super) fn left(&self) -> usize {
        self.limit - self.length
    }

    /// The bytes written so far, and space for `more` bytes after them; an error if that exceeds
    /// the limit.
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

    /// Counts filled bytes of the space.
    pub(super) fn wrote(&mut self, count: usize) {
        self.length += count;
    }

    /// Ends the output.
    pub(super) fn finish(self) {
        self.buffer.truncate(self.length);
    }
}
