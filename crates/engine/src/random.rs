//! The one source of chance: seeded from outside, so that a simulation repeats itself.

use std::time::Duration;

/// A small generator (xorshift64*). Good for jitter and for spreading load, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        // The high bits are the good ones.
        usize::try_from((self.next() >> 32).checked_rem(bound).unwrap_or(0)).unwrap_or(0)
    }

    /// The pause after `failures` failures in a row: `first`, doubled each time, at most `max`, 20 % more or less.
    pub(crate) fn backoff(&mut self, first: Duration, max: Duration, failures: u32) -> Duration {
        let doubled = first.saturating_mul(
            1_u32
                .checked_shl(failures.saturating_sub(1))
                .unwrap_or(u32::MAX),
        );
        let percent = 80 + u32::try_from(self.below(41)).unwrap_or(0);
        doubled.min(max) * percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_bound() {
        let mut random = Random::new(7);
        let (first, max) = (Duration::from_millis(50), Duration::from_millis(1000));
        for (failures, centre) in [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1000), (40, 1000)] {
            let pause = random.backoff(first, max, failures).as_millis();
            assert!(
                pause * 10 >= centre * 8 && pause * 10 <= centre * 12,
                "{failures}: {pause}"
            );
        }
    }

    #[test]
    fn below_stays_below() {
        let mut random = Random::new(1);
        assert_eq!(random.below(0), 0);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
