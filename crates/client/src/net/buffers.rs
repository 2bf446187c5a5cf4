//! Buffers for large responses, used again and again: fresh memory costs a page fault for every 4
//! KiB, as much as reading into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use memmap2::MmapMut;
use ottla_engine::{Error, Kind};
use parking_lot::Mutex;

/// Sizes are multiples of this, so that responses of about the same size fit each other's buffers.
/// It is the size of a huge page on most machines.
const STEP: usize = 2 << 20;

/// Buffers that are free. What is in use comes back by itself.
#[derive(Debug)]
pub(crate) struct Buffers {
    free: Mutex<Vec<MmapMut>>,
    /// Bytes of buffers in use.
    used: AtomicUsize,
    /// Free buffers are kept as long as there are no more bytes than this together with those in use.
    most: usize,
}

impl Buffers {
    /// Keeps free buffers as long as all have up to `most` bytes.
    pub(crate) fn new(most: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            free: Mutex::default(),
            used: AtomicUsize::new(0),
            most,
        })
    }

    /// A buffer for `length` bytes. Memory that was never used is only promised by the system until it is written to.
    ///
    /// # Errors
    /// `Kind::Unreachable` if the system has no more memory: the response cannot be received.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Result<Filling, Error> {
        let free = self.smallest_free(length);
        let memory = free
            .map_or_else(|| self.fresh(length), Ok)
            .map_err(|cause| {
                let text = format!("no memory for a response of {length} bytes: {cause}");
                Error::new(Kind::Unreachable, text)
            })?;
        self.used.fetch_add(memory.len(), Ordering::Relaxed);
        Ok(Filling {
            buffer: Buffer {
                memory: Some(memory),
                home: Arc::downgrade(self),
            },
            length,
            filled: 0,
        })
    }

    fn smallest_free(&self, length: usize) -> Option<MmapMut> {
        let mut free = self.free.lock();
        let fits = free
            .iter()
            .enumerate()
            .filter(|(_, memory)| memory.len() >= length)
            .min_by_key(|(_, memory)| memory.len())
            .map(|(index, _)| index);
        fits.map(|index| free.swap_remove(index))
    }

    /// Memory that was never used, in the place of free buffers where there would be too much with them.
    fn fresh(&self, length: usize) -> std::io::Result<MmapMut> {
        let length = length.next_multiple_of(STEP);
        let rest = self
            .most
            .saturating_sub(self.used.load(Ordering::Relaxed) + length);
        let mut free = self.free.lock();
        while free.iter().map(|memory| memory.len()).sum::<usize>() > rest {
            // The smallest are the least likely to fit.
            let smallest =
                (0..free.len()).min_by_key(|index| free.get(*index).map(|memory| memory.len()));
            let Some(smallest) = smallest else { break };
            free.swap_remove(smallest);
        }
        drop(free);
        memory(length)
    }

    /// Gives the memory of free buffers back to the system.
    pub(crate) fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }

    fn give_back(&self, memory: MmapMut) {
        let used = self.used.fetch_sub(memory.len(), Ordering::Relaxed) - memory.len();
        // Never waits: a buffer may be dropped in a forked child, where another thread of the parent holds the lock for ever.
        let Some(mut free) = self.free.try_lock() else {
            return;
        };
        let kept: usize = free.iter().map(|memory| memory.len()).sum();
        if used + kept + memory.len() <= self.most {
            free.push(memory);
        }
    }
}

/// Fresh memory, in huge pages if it is large and the system has them: a response is read through a
/// few times, and to look up where each 4 KiB of it are takes a tenth of the time.
fn memory(length: usize) -> std::io::Result<MmapMut> {
    let memory = MmapMut::map_anon(length)?;
    #[cfg(target_os = "linux")]
    if length >= STEP {
        // Advice: where it is not taken, all works as well.
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    Ok(memory)
}

/// A buffer in use.
#[derive(Debug)]
struct Buffer {
    /// There until it goes home.
    memory: Option<MmapMut>,
    home: Weak<Buffers>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(home), Some(memory)) = (self.home.upgrade(), self.memory.take()) {
            home.give_back(memory);
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
        let memory = self.buffer.memory.as_deref_mut();
        let rest = memory.and_then(|memory| memory.get_mut(self.filled..self.length));
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
        let mut filling = buffers.take(length).unwrap();
        while !filling.is_whole() {
            filling.rest()[0] = 7;
            filling.advance(1 << 18);
        }
        filling.freeze()
    }

    fn free(buffers: &Buffers) -> Vec<usize> {
        buffers.free.lock().iter().map(|m| m.len()).collect()
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
        // The first one comes back while the others are in use.
        drop(frames);
        assert_eq!(free(&buffers), [STEP, 2 * STEP]);
        let small = frame(&buffers, STEP / 2);
        assert_eq!(free(&buffers), [2 * STEP]);
        // One more would be too much with what is free.
        let other = frame(&buffers, 3 * STEP);
        assert!(free(&buffers).is_empty());
        let locked = buffers.free.lock();
        // Nobody waits to give back.
        drop(other);
        drop(locked);
        assert!(free(&buffers).is_empty());
        buffers.clear();
        drop(buffers);
        // Its home is gone, and it goes as well.
        drop(small);
    }
}
