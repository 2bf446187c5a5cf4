//! Memory that is used again: fresh memory costs a page fault for every 4 KiB, more than decompressing into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_buffer::Buffer;
use parking_lot::Mutex;

/// Smaller columns are left to the allocator, which has such memory at hand.
const SMALL: usize = 128 << 10;
/// Bytes that are kept of each kind.
const MOST: usize = 32 << 20;
/// After so many small columns in a row all there was has been read, and the memory is better used by others.
const CALM: usize = 16;

/// What [`decode`](crate::decode()) keeps from one call to the next: the memory of columns that were dropped, and that in which
/// batches were decompressed. At most 64 MiB, until only little comes. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    columns: Arc<Free>,
    scratch: Arc<Free>,
    small_in_a_row: Arc<AtomicUsize>,
}

impl Memory {
    /// Room for a column that may take so many bytes, or more.
    pub(crate) fn column(&self, bytes: usize) -> Column {
        let data = if bytes < SMALL {
            if self.small_in_a_row.fetch_add(1, Ordering::Relaxed) == CALM {
                self.columns.clear();
                self.scratch.clear();
            }
            Vec::with_capacity(bytes)
        } else {
            self.small_in_a_row.store(0, Ordering::Relaxed);
            self.columns
                .take()
                .unwrap_or_else(|| Vec::with_capacity(bytes))
        };
        Column {
            data,
            home: Some(Arc::clone(&self.columns)),
        }
    }

    /// Bytes of no meaning, to be written over.
    pub(crate) fn scratch(&self) -> Vec<u8> {
        self.scratch.take().unwrap_or_default()
    }

    pub(crate) fn keep_scratch(&self, scratch: Vec<u8>) {
        self.scratch.keep(scratch);
    }
}

#[derive(Debug, Default)]
struct Free(Mutex<Vec<Vec<u8>>>);

impl Free {
    /// The one that came last, which is the likeliest to be in the processor's cache.
    fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }

    fn keep(&self, memory: Vec<u8>) {
        let mut free = self.0.lock();
        let kept: usize = free.iter().map(Vec::capacity).sum();
        if memory.capacity() >= SMALL && kept + memory.capacity() <= MOST {
            free.push(memory);
        }
    }

    fn clear(&self) {
        let free = std::mem::take(&mut *self.0.lock());
        drop(free);
    }
}

/// The bytes of a column, in the making and afterwards. Their memory goes home, if it has one, when the last array that shows
/// them is dropped.
#[derive(Debug, Default)]
pub(crate) struct Column {
    pub(crate) data: Vec<u8>,
    home: Option<Arc<Free>>,
}

impl Column {
    pub(crate) fn into_buffer(self) -> Buffer {
        // Who keeps a column of few bytes must not keep much memory.
        if self.data.len() < self.data.capacity() / 2 {
            return Buffer::from_slice_ref(&self.data);
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
        if let Some(home) = &self.home {
            let mut data = std::mem::take(&mut self.data);
            data.clear();
            home.keep(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(free: &Free) -> Vec<usize> {
        free.0.lock().iter().map(Vec::capacity).collect()
    }

    fn filled(memory: &Memory, bytes: usize) -> Buffer {
        let mut column = memory.column(bytes);
        column.data.resize(bytes, 7);
        column.into_buffer()
    }

    #[test]
    fn memory_goes_home_with_the_last_view_and_is_used_again() {
        let memory = Memory::default();
        let buffer = filled(&memory, SMALL);
        let (place, view) = (buffer.as_ptr(), buffer.slice(10));
        drop(buffer);
        assert!(kept(&memory.columns).is_empty());
        assert_eq!(view.as_slice(), vec![7; SMALL - 10]);
        drop(view);
        assert_eq!(kept(&memory.columns), [SMALL]);
        let again = filled(&memory, SMALL);
        assert_eq!((again.as_ptr(), again.len()), (place, SMALL));
    }

    #[test]
    fn few_bytes_keep_little_memory_and_many_small_columns_free_the_rest() {
        let memory = Memory::default();
        let mut column = memory.column(8 * SMALL);
        column.data.extend_from_slice(&[7; 10]);
        assert!(column.into_buffer().capacity() < 100);
        memory.keep_scratch(vec![0; SMALL]);
        assert_eq!(kept(&memory.columns), [8 * SMALL]);
        for _ in 0..CALM {
            drop(filled(&memory, 10));
        }
        assert_eq!(kept(&memory.scratch), [SMALL]);
        drop(filled(&memory, 10));
        assert!(kept(&memory.columns).is_empty() && kept(&memory.scratch).is_empty());
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let memory = Memory::default();
        let all: Vec<_> = (0..5).map(|_| filled(&memory, MOST / 4)).collect();
        drop(all);
        assert_eq!(kept(&memory.columns), [MOST / 4; 4]);
    }
}
