//! Chance: one generator, seeded, from which every choice of a run comes.

use std::time::Duration;

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// A generator that always gives the same choices for the same seed.
    pub fn new(seed: u64) -> Chance {
        Chance(fastrand::Rng::with_seed(seed))
    }

    /// A generator for one purpose: what others draw does not change what it gives.
    #[must_use]
    pub fn fork(&mut self) -> Chance {
        Chance(self.0.fork())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.0.usize(..bound) }
    }

    /// A number from `least` to `most`.
    pub fn from_to(&mut self, least: i32, most: i32) -> i32 {
        self.0.i32(least..=most.max(least))
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    /// True in this many of ten thousand cases.
    pub fn myriad(&mut self, parts: u32) -> bool {
        self.0.u32(..10_000) < parts
    }

    /// A time from `least` to `most`, to the microsecond.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (least, most) = (micros(least), micros(most));
        Duration::from_micros(self.0.u64(least..=most.max(least)))
    }

    /// A time from `least` to `most` milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        self.time(Duration::from_millis(least), Duration::from_millis(most))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }
}
