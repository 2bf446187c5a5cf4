//! Reuses memory: fresh memory costs a page fault per 4 KiB, which takes longer than decompressing into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow_buffer::Buffer;
use parking_lot::Mutex;

/// The allocator serves smaller columns: it has such memory at hand.
const SMALL: usize = 128 << 10;
/// After this number of small columns in a row the consumer has caught up, and others can use the memory.
const CALM: usize = 16;

/// The memory that [`decode`](crate::decode()) keeps between calls: that of dropped columns, and the buffers for decompression.
/// It keeps memory only while many records arrive.
#[derive(Debug)]
pub struct Memory {
    columns: Arc<Free>,
    scratch: Free,
    fresh: fn(usize) -> Vec<u8>,
    small_in_a_row: AtomicUsize,
}

impl Memory {
    /// Keeps up to `most` bytes, half for columns and half for decompression. `fresh` allocates memory for a large column of
    /// this number of bytes, as `Vec::with_capacity` does; a caller that knows the system may have better memory.
    #[must_use]
    pub fn new(most: usize, fresh: fn(usize) -> Vec<u8>) -> Self {
        Self {
            columns: Arc::new(Free::new(most / 2)),
            scratch: Free::new(most / 2),
            fresh,
            small_in_a_row: AtomicUsize::new(0),
        }
    }

    /// Releases the kept memory.
    pub fn clear(&self) {
        self.columns.clear();
        self.scratch.clear();
    }

    /// A buffer for a column, with space for at least this number of bytes.
    pub(crate) fn column(&self, bytes: usize) -> Column {
        if bytes < SMALL {
            if self.small_in_a_row.fetch_add(1, Ordering::Relaxed) >= CALM {
                self.clear();
            }
            return Column {
                data: Vec::with_capacity(bytes),
                home: Weak::new(),
            };
        }
        self.small_in_a_row.store(0, Ordering::Relaxed);
        // What is too small would be moved as it grows.
        let free = self.columns.take().filter(|free| free.capacity() >= bytes);
        Column {
            data: free.unwrap_or_else(|| (self.fresh)(bytes)),
            home: Arc::downgrade(&self.columns),
        }
    }

    /// Bytes without meaning, to overwrite.
    pub(crate) fn scratch(&self) -> Vec<u8> {
        self.scratch.take().unwrap_or_default()
    }

    pub(crate) fn keep_scratch(&self, scratch: Vec<u8>) {
        self.scratch.keep(scratch);
    }
}

/// Unused memory.
#[derive(Debug)]
struct Free {
    kept: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl Free {
    const fn new(most: usize) -> Self {
        Self {
            kept: Mutex::new(Vec::new()),
            most,
        }
    }

    /// The last one returned, which is most likely still in the processor's cache.
    fn take(&self) -> Option<Vec<u8>> {
        self.kept.lock().pop()
    }

    fn keep(&self, memory: Vec<u8>) {
        // Never waits: a column may be dropped in a forked child, where another thread of the parent holds the lock for ever.
        let Some(mut kept) = self.kept.try_lock() else {
            return;
        };
        let bytes: usize = kept.iter().map(Vec::capacity).sum();
        if memory.capacity() >= SMALL && bytes + memory.capacity() <= self.most {
            kept.push(memory);
        }
    }

    fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept.lock());
        drop(kept);
    }
}

/// The bytes of a column, during and after building. When the last array that uses them is dropped, their memory returns to
/// the [`Memory`] that it came from.
#[derive(Debug, Default)]
pub(crate) struct Column {
    pub(crate) data: Vec<u8>,
    home: Weak<Free>,
}

impl Column {
    pub(crate) fn into_buffer(mut self) -> Buffer {
        // Who keeps a column of few bytes must not keep much memory.
        if self.data.len() < self.data.capacity() / 2 {
            if self.data.len() < SMALL {
                return Buffer::from_slice_ref(&self.data);
            }
            self.data.shrink_to_fit();
        }
        Buffer::from(bytes::Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for Column {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Column {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut data = std::mem::take(&mut self.data);
            data.clear();
            home.keep(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16 * SMALL;

    fn kept(free: &Free) -> Vec<usize> {
        free.kept.lock().iter().map(Vec::capacity).collect()
    }

    fn filled(memory: &Memory, bytes: usize) -> Buffer {
        let mut column = memory.column(bytes);
        column.data.resize(bytes, 7);
        column.into_buffer()
    }

    #[test]
    fn memory_goes_home_with_the_last_view_and_is_used_again() {
        let memory = Memory::new(MOST, Vec::with_capacity);
        let buffer = filled(&memory, SMALL);
        let (place, view) = (buffer.as_ptr(), buffer.slice(10));
        drop(buffer);
        assert!(kept(&memory.columns).is_empty());
        assert_eq!(view.as_slice(), vec![7; SMALL - 10]);
        drop(view);
        assert_eq!(kept(&memory.columns), [SMALL]);
        let again = filled(&memory, SMALL);
        assert_eq!((again.as_ptr(), again.len()), (place, SMALL));
        // Its home is gone, and it goes as well.
        drop(memory);
        drop(again);
    }

    #[test]
    fn few_bytes_keep_little_memory() {
        let memory = Memory::new(MOST, Vec::with_capacity);
        let part = |bytes| {
            let mut column = memory.column(4 * SMALL);
            column.data.resize(bytes, 7);
            column.into_buffer()
        };
        assert!(part(10).capacity() < 100);
        assert_eq!(kept(&memory.columns), [4 * SMALL]);
        let half = part(2 * SMALL - 1);
        assert!(kept(&memory.columns).is_empty());
        drop(half);
        assert_eq!(kept(&memory.columns), [2 * SMALL - 1]);
    }

    #[test]
    fn nothing_is_kept_while_little_comes() {
        let memory = Memory::new(MOST, Vec::with_capacity);
        memory.keep_scratch(vec![0; SMALL]);
        let late = filled(&memory, SMALL);
        let mut grown = memory.column(10);
        grown.data.resize(SMALL, 7);
        drop(grown.into_buffer());
        assert!(kept(&memory.columns).is_empty());
        for _ in 1..CALM {
            drop(filled(&memory, 10));
        }
        assert_eq!(kept(&memory.scratch), [SMALL]);
        drop(filled(&memory, 10));
        assert!(kept(&memory.scratch).is_empty());
        drop(late);
        assert_eq!(kept(&memory.columns), [SMALL]);
        drop(filled(&memory, 10));
        assert!(kept(&memory.columns).is_empty());
    }

    #[test]
    fn no_more_is_kept_than_allowed_and_nobody_waits_to_give_back() {
        let memory = Memory::new(MOST, Vec::with_capacity);
        let all: Vec<_> = (0..5).map(|_| filled(&memory, MOST / 8)).collect();
        drop(all);
        assert_eq!(kept(&memory.columns), [MOST / 8; 4]);
        let one = filled(&memory, SMALL);
        let locked = memory.columns.kept.lock();
        drop(one);
        drop(locked);
        assert_eq!(kept(&memory.columns), [MOST / 8; 3]);
    }
}
