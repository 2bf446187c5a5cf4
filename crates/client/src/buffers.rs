//! Buffers for large answers, used again and again: fresh memory costs a page fault for every 4 KiB, as much as reading into it.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

/// Sizes are multiples of this, so that answers of about the same size fit each other's buffers.
const STEP: usize = 1 << 20;

/// Buffers that are free. What is in use comes back by itself.
#[derive(Debug)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
    /// Bytes of free buffers that are kept.
    most: usize,
}

impl Buffers {
    /// Keeps buffers of up to `most` bytes in all.
    pub(crate) fn new(most: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            free: Mutex::default(),
            most,
        })
    }

    /// A buffer for `length` bytes. Memory that was never used is only promised by the system until it is written to.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Filling {
        let mut free = self.free.lock();
        let fits = free
            .iter()
            .enumerate()
            .filter(|(_, bytes)| bytes.len() >= length)
            .min_by_key(|(_, bytes)| bytes.len())
            .map(|(index, _)| index);
        let bytes = match fits {
            Some(index) => free.swap_remove(index),
            None => vec![0; length.next_multiple_of(STEP)],
        };
        Filling {
            buffer: Buffer {
                bytes,
                home: Arc::downgrade(self),
            },
            length,
            filled: 0,
        }
    }

    /// Gives the memory of free buffers back to the system.
    pub(crate) fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }

    fn give_back(&self, bytes: Vec<u8>) {
        let mut free = self.free.lock();
        let kept: usize = free.iter().map(Vec::len).sum();
        if kept + bytes.len() <= self.most {
            free.push(bytes);
        }
    }
}

/// A buffer in use.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    home: Weak<Buffers>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

/// A frame on its way into a buffer.
#[derive(Debug)]
pub(crate) struct Filling {
    buffer: Buffer,
    length: usize,
    filled: usize,
}

impl Filling {
    /// Where the next bytes go. Empty when the frame is whole.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        let rest = self.buffer.bytes.get_mut(self.filled..self.length);
        rest.unwrap_or_default()
    }

    /// Bytes were written to the front of the rest.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.length);
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.filled == self.length
    }

    /// The frame. The buffer goes home when the last slice of it is dropped.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self.buffer).slice(..self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(buffers: &Arc<Buffers>, length: usize) -> Bytes {
        let mut filling = buffers.take(length);
        while !filling.is_whole() {
            filling.rest()[0] = 7;
            filling.advance(1 << 18);
        }
        filling.freeze()
    }

    fn free(buffers: &Buffers) -> Vec<usize> {
        buffers.free.lock().iter().map(Vec::len).collect()
    }

    #[test]
    fn a_buffer_comes_back_with_its_last_slice() {
        let buffers = Buffers::new(4 * STEP);
        let whole = frame(&buffers, STEP + 1);
        assert_eq!((whole.len(), whole[1 << 18]), (STEP + 1, 7));
        let (place, slice) = (whole.as_ptr(), whole.slice(5..));
        drop(whole);
        assert!(free(&buffers).is_empty());
        drop(slice);
        assert_eq!(free(&buffers), [2 * STEP]);
        assert_eq!(frame(&buffers, STEP).as_ptr(), place);
    }

    #[test]
    fn the_smallest_that_fits_is_taken_and_no_more_is_kept_than_allowed() {
        let buffers = Buffers::new(4 * STEP);
        let frames = [3, 1, 2].map(|steps| frame(&buffers, steps * STEP));
        drop(frames);
        assert_eq!(free(&buffers), [3 * STEP, STEP]);
        let small = frame(&buffers, STEP / 2);
        assert_eq!(free(&buffers), [3 * STEP]);
        buffers.clear();
        drop(buffers);
        // Its home is gone, and it goes as well.
        drop(small);
    }
}
