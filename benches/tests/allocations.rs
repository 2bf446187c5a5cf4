//! Counts allocations: neither producing nor consuming allocates per record. Counts do not depend on the machine, so that
//! they show a loss of speed where a clock cannot.

#![allow(
    clippy::unwrap_used,
    reason = "a test; the lint's own exception covers only functions marked as one"
)]
#![allow(unsafe_code, reason = "a global allocator cannot be had without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use ottla_benches::Sample;
use ottla_columnar::{FetchedPartition, Memory, decode};

const RECORDS: usize = 1_000;
const BATCHES: usize = 20;
const SIZE: usize = 100;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The system's allocator, with a count of each thread's calls.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no cell any more.
    let _ = CALLS.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: every call goes on to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of the work, and its number of allocations.
fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let calls = CALLS.get();
    let done = work();
    (done, CALLS.get() - calls)
}

fn source() -> FetchedPartition {
    FetchedPartition {
        topic: Arc::from("topic"),
        partition: 0,
        fetch_offset: 0,
        aborted: Vec::new(),
        read_committed: false,
        check_crcs: true,
        decompress_limit: 64 << 20,
    }
}

/// Decoding a fetched partition into columns takes two or three allocations per batch.
#[test]
fn columns() {
    for name in CODECS {
        let sample = Sample::new(RECORDS, SIZE);
        let fetched = sample.fetched(name.parse().unwrap(), BATCHES).unwrap();
        let (columns, calls) =
            counted(|| decode(fetched, &source(), &Memory::new(0, Vec::with_capacity)).unwrap());
        assert_eq!(columns.len(), RECORDS * BATCHES);
        assert!(
            calls < 8 * BATCHES,
            "{name}: {calls} calls for {BATCHES} batches"
        );
    }
}

/// Writing a batch takes seven to twelve allocations.
#[test]
fn batch() {
    for name in CODECS {
        let sample = Sample::new(RECORDS, SIZE);
        let (batch, calls) = counted(|| sample.batch(name.parse().unwrap()).unwrap());
        assert!(!batch.is_empty());
        assert!(calls < 36, "{name}: {calls} calls for a batch");
    }
}
