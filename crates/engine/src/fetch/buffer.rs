//! Records that were fetched and not yet taken, and how many more bytes may be requested.
//!
//! The consumers of a process have the same part of `prefetch.total.max.bytes` each. So none waits for another, and all of them
//! together are bounded; one that begins makes the others' parts smaller, which come down to them as their records are taken.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::config::Config;
use crate::fetch::fetched::Fetched;
use crate::fetch::position::Generation;

/// Buffered records, taken out to be decoded.
#[derive(Debug)]
pub struct Taken {
    /// The consumer returns it when the caller gets the records.
    pub generation: Generation,
    /// The records.
    pub fetched: Fetched,
}

/// How many consumers share the bytes of a process.
#[derive(Clone, Debug, Default)]
pub struct Sharers(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
struct Share(Sharers);

impl Share {
    fn of(sharers: &Sharers) -> Share {
        sharers.0.fetch_add(1, Ordering::Relaxed);
        Share(sharers.clone())
    }

    fn part_of(&self, bytes: usize) -> usize {
        bytes / self.0.0.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fetched records in the order they came, within a budget of bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    queue: BTreeMap<u64, Taken>,
    /// Where the records of each generation stand in the queue.
    places: FxHashMap<Generation, VecDeque<u64>>,
    pushed: u64,
    bytes: usize,
    budget: usize,
    /// Of all consumers of the process.
    total: usize,
    /// `None` once it is closed.
    share: Option<Share>,
    most: usize,
}

impl Buffer {
    pub(super) fn new(config: &Config) -> Buffer {
        Buffer {
            queue: BTreeMap::new(),
            places: FxHashMap::default(),
            pushed: 0,
            bytes: 0,
            budget: config.prefetch_max_bytes,
            total: config.prefetch_total_max_bytes,
            share: Some(Share::of(&Sharers::default())),
            most: usize::try_from(config.fetch_max_bytes).unwrap_or(1),
        }
    }

    /// Shares the bytes of the process with these from now on.
    pub(super) fn share(&mut self, sharers: &Sharers) {
        self.share = Some(Share::of(sharers));
    }

    pub(super) fn push(&mut self, generation: Generation, fetched: Fetched) {
        self.pushed += 1;
        self.bytes += fetched.records.len();
        let places = self.places.entry(generation).or_default();
        places.push_back(self.pushed);
        let taken = Taken {
            generation,
            fetched,
        };
        self.queue.insert(self.pushed, taken);
    }

    pub(super) fn pop(&mut self) -> Option<Taken> {
        let (_, taken) = self.queue.pop_first()?;
        self.bytes -= taken.fetched.records.len();
        if let Some(places) = self.places.get_mut(&taken.generation) {
            // The oldest of all is the oldest of its generation.
            places.pop_front();
            if places.is_empty() {
                self.places.remove(&taken.generation);
            }
        }
        Some(taken)
    }

    /// Drops the records of a generation that is over.
    pub(super) fn drop_all(&mut self, generation: Generation) {
        for place in self.places.remove(&generation).into_iter().flatten() {
            if let Some(taken) = self.queue.remove(&place) {
                self.bytes -= taken.fetched.records.len();
            }
        }
    }

    /// The end: the buffer is empty and stays empty.
    pub(super) fn close(&mut self) {
        self.share = None;
        self.queue.clear();
        self.places.clear();
        self.bytes = 0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.half()
    }

    /// The byte limit for the next request of each of `connections` connections; 0 if enough is
    /// buffered.
    pub(super) fn allowance(&self, connections: usize) -> usize {
        if self.is_full() {
            return 0;
        }
        (self.half() / connections.max(1)).clamp(1, self.most)
    }

    /// Half of the budget is for bytes that are requested, half for bytes that wait here.
    fn half(&self) -> usize {
        let part = self.share.as_ref().map(|share| share.part_of(self.total));
        (self.budget.min(part.unwrap_or(0)) / 2).max(1)
    }
}
