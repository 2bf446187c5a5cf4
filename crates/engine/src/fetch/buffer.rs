//! What was fetched and not yet taken, and how much more may be asked for.

use std::collections::VecDeque;

use crate::config::Config;
use crate::fetch::fetched::Fetched;
use crate::fetch::position::Generation;

/// Buffered records, taken out to be decoded.
#[derive(Debug)]
pub struct Taken {
    /// To be given back when the caller gets them.
    pub generation: Generation,
    /// The records.
    pub fetched: Fetched,
}

/// Fetched records in the order they came, within a budget of bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    queue: VecDeque<Taken>,
    bytes: usize,
    /// Half of the budget is for what is asked for, half for what waits here.
    half: usize,
    most: usize,
}

impl Buffer {
    pub(super) fn new(config: &Config) -> Buffer {
        Buffer {
            queue: VecDeque::new(),
            bytes: 0,
            half: (config.prefetch_max_bytes / 2).max(1),
            most: usize::try_from(config.fetch_max_bytes).unwrap_or(1),
        }
    }

    pub(super) fn push(&mut self, generation: Generation, fetched: Fetched) {
        self.bytes += fetched.records.len();
        self.queue.push_back(Taken {
            generation,
            fetched,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Taken> {
        let taken = self.queue.pop_front()?;
        self.bytes -= taken.fetched.records.len();
        Some(taken)
    }

    /// Drops the records that nobody will ask for.
    pub(super) fn retain(&mut self, is_current: impl Fn(&Taken) -> bool) {
        self.queue.retain(is_current);
        self.bytes = self
            .queue
            .iter()
            .map(|taken| taken.fetched.records.len())
            .sum();
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.half
    }

    /// The most that one of so many connections may ask for now; 0 if enough is buffered.
    pub(super) fn allowance(&self, connections: usize) -> usize {
        if self.is_full() {
            return 0;
        }
        (self.half / connections.max(1)).clamp(1, self.most)
    }
}
