//! Reuses memory: fresh memory costs a page fault per 4 KiB, which takes longer than decompressing into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer, ToByteSlice};
use parking_lot::Mutex;

/// The allocator serves smaller columns: it has such memory at hand.
const SMALL: usize = 128 << 10;
/// After this number of small columns in a row the consumer has caught up, and others can use the memory.
const CALM: usize = 16;

/// The memory that [`decode`](crate::decode()) keeps between calls: that of dropped columns, and the buffers for decompression.
/// It keeps memory only while many records arrive.
#[derive(Debug)]
pub struct Memory {
    columns: Arc<Free<u8>>,
    offsets: Arc<Free<i32>>,
    numbers: Arc<Free<i64>>,
    views: Arc<Free<u128>>,
    scratch: Free<u8>,
    fresh: fn(usize) -> Vec<u8>,
    small_in_a_row: AtomicUsize,
}

impl Memory {
    /// Keeps up to `most` bytes: half for the bytes of columns, a quarter for their numbers, and a quarter for decompression.
    /// `fresh` allocates memory for a large column of this number of bytes, as `Vec::with_capacity` does; a caller that knows the
    /// system may have better memory.
    #[must_use]
    pub fn new(most: usize, fresh: fn(usize) -> Vec<u8>) -> Self {
        Self {
            columns: Arc::new(Free::new(most / 2)),
            offsets: Arc::new(Free::new(most / 16)),
            numbers: Arc::new(Free::new(most / 8)),
            views: Arc::new(Free::new(most / 16)),
            scratch: Free::new(most / 4),
            fresh,
            small_in_a_row: AtomicUsize::new(0),
        }
    }

    /// Releases the kept memory.
    pub fn clear(&self) {
        self.columns.clear();
        self.offsets.clear();
        self.numbers.clear();
        self.views.clear();
        self.scratch.clear();
    }

    /// Some records of this number of bytes are decoded. Nothing is kept once few come at a time.
    pub(crate) fn begin(&self, bytes: usize) {
        if bytes >= SMALL {
            self.small_in_a_row.store(0, Ordering::Relaxed);
        } else if self.small_in_a_row.fetch_add(1, Ordering::Relaxed) >= CALM {
            self.clear();
        }
    }

    /// A buffer for a column, with space for at least this number of bytes.
    pub(crate) fn column(&self, bytes: usize) -> Column<u8> {
        self.columns.column(bytes, self.fresh)
    }

    /// A buffer for the offsets of a column, with space for at least this number of them.
    pub(crate) fn offsets(&self, count: usize) -> Column<i32> {
        self.offsets.column(count, Vec::with_capacity)
    }

    /// A buffer for a column of numbers, with space for at least this number of rows.
    pub(crate) fn numbers(&self, rows: usize) -> Column<i64> {
        self.numbers.column(rows, Vec::with_capacity)
    }

    /// A buffer for a column of views, with space for at least this number of rows.
    pub(crate) fn views(&self, rows: usize) -> Column<u128> {
        self.views.column(rows, Vec::with_capacity)
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
struct Free<T> {
    kept: Mutex<Vec<Vec<T>>>,
    /// In bytes.
    most: usize,
}

/// The bytes that a vector has space for.
const fn room<T>(memory: &Vec<T>) -> usize {
    memory.capacity() * size_of::<T>()
}

impl<T> Free<T> {
    const fn new(most: usize) -> Self {
        Self {
            kept: Mutex::new(Vec::new()),
            most,
        }
    }

    /// A buffer for a column of this many rows, one that was used before if it is large, or else one that is `fresh`.
    fn column(self: &Arc<Self>, rows: usize, fresh: fn(usize) -> Vec<T>) -> Column<T> {
        if rows * size_of::<T>() < SMALL {
            return Column {
                data: Vec::with_capacity(rows),
                home: Weak::new(),
            };
        }
        // What is too small would be moved as it grows.
        let free = self.take().filter(|free| free.capacity() >= rows);
        Column {
            data: free.unwrap_or_else(|| fresh(rows)),
            home: Arc::downgrade(self),
        }
    }

    /// The last one returned, which is most likely still in the processor's cache.
    fn take(&self) -> Option<Vec<T>> {
        self.kept.lock().pop()
    }

    fn keep(&self, memory: Vec<T>) {
        // Never waits: a column may be dropped in a forked child, where another thread of the parent holds the lock for ever.
        let Some(mut kept) = self.kept.try_lock() else {
            return;
        };
        let bytes: usize = kept.iter().map(room).sum();
        if room(&memory) >= SMALL && bytes + room(&memory) <= self.most {
            kept.push(memory);
        }
    }

    fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept.lock());
        drop(kept);
    }
}

/// The rows of a column, or its bytes, during and after building. When the last array that uses them is dropped, their memory
/// returns to the [`Memory`] that it came from.
#[derive(Debug)]
pub(crate) struct Column<T> {
    pub(crate) data: Vec<T>,
    home: Weak<Free<T>>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            home: Weak::new(),
        }
    }
}

impl<T: ArrowNativeType + Send + Sync> Column<T> {
    pub(crate) fn into_buffer(mut self) -> Buffer {
        // Who keeps a column of few bytes must not keep much memory.
        if self.data.len() < self.data.capacity() / 2 {
            if size_of_val(self.data.as_slice()) < SMALL {
                return Buffer::from_slice_ref(&self.data);
            }
            self.data.shrink_to_fit();
        }
        Buffer::from(bytes::Bytes::from_owner(self))
    }

    /// The rows.
    pub(crate) fn into_rows(self) -> ScalarBuffer<T> {
        let rows = self.data.len();
        ScalarBuffer::new(self.into_buffer(), 0, rows)
    }
}

impl<T: ArrowNativeType> AsRef<[u8]> for Column<T> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_slice().to_byte_slice()
    }
}

impl<T> Drop for Column<T> {
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

    fn kept<T>(free: &Free<T>) -> Vec<usize> {
        free.kept.lock().iter().map(Vec::capacity).collect()
    }

    fn filled(memory: &Memory, bytes: usize) -> Buffer {
        memory.begin(bytes);
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
    fn numbers_and_views_go_home_too() {
        let memory = Memory::new(MOST, Vec::with_capacity);
        let (mut numbers, mut views) = (memory.numbers(SMALL / 8), memory.views(SMALL / 16));
        numbers.data.resize(SMALL / 8, -7);
        views.data.resize(SMALL / 16, 1 << 100);
        let (numbers, views) = (numbers.into_rows(), views.into_rows());
        assert_eq!(
            (numbers.last(), views.last()),
            (Some(&-7), Some(&(1 << 100)))
        );
        let places = (numbers.as_ptr(), views.as_ptr());
        drop((numbers, views));
        let (numbers, views) = (memory.numbers(SMALL / 8), memory.views(SMALL / 16));
        assert_eq!((numbers.data.as_ptr(), views.data.as_ptr()), places);
        assert!(numbers.data.is_empty() && views.data.is_empty());
        drop((numbers, views));
        memory.clear();
        assert!(kept(&memory.numbers).is_empty() && kept(&memory.views).is_empty());
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
        for _ in 0..CALM {
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
