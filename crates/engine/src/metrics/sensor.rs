//! One measured quantity: its total, and its statistics over a sliding window.
//!
//! ```text
//!   metrics.sample.window.ms   ├── sample ──┤├── sample ──┤        metrics.num.samples = 2
//!                                   oldest       newest ▲ now
//! ```
//!
//! A value goes into the newest sample. When that one is as old as a sample may get, the oldest is dropped and a new one
//! begins. So a rate, an average or a maximum covers at least all full samples but one, as those of Kafka's own clients do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long values count in statistics, and in how many steps they leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) sample: Duration,
    pub(crate) samples: usize,
}

impl Window {
    /// The age at which a sample no longer counts.
    fn span(&self) -> Duration {
        let samples = u32::try_from(self.samples).unwrap_or(u32::MAX);
        self.sample.saturating_mul(samples)
    }
}

/// A moment at which statistics are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    pub(crate) window: Window,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    since: Instant,
    /// No value from then on goes into it.
    until: Instant,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

/// One measured quantity. A value changes nothing but the newest sample: many are recorded for each request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sensor {
    newest: Option<Sample>,
    /// Those before it, oldest first.
    older: VecDeque<Sample>,
    /// How many values there were before the newest sample, and their sum.
    count_before: u64,
    sum_before: f64,
}

impl Sensor {
    /// Takes in a value.
    pub(crate) fn record(&mut self, at: &Reading, value: f64) {
        #[cfg(test)]
        RECORDED.with(|recorded| recorded.set(recorded.get() + 1));
        match &mut self.newest {
            Some(sample) if at.now < sample.until => {
                sample.count += 1;
                sample.sum += value;
                // Not `f64::min` and `max`, which look for NaN first: no value is one.
                if value < sample.min {
                    sample.min = value;
                }
                if value > sample.max {
                    sample.max = value;
                }
            }
            _ => self.begin(at, value),
        }
    }

    /// Counts one event.
    pub(crate) fn count(&mut self, at: &Reading) {
        self.record(at, 1.0);
    }

    #[cold]
    fn begin(&mut self, at: &Reading, value: f64) {
        let sample = Sample {
            since: at.now,
            until: at.now + at.window.sample,
            count: 1,
            sum: value,
            min: value,
            max: value,
        };
        if let Some(ended) = self.newest.replace(sample) {
            self.count_before += ended.count;
            self.sum_before += ended.sum;
            self.older.push_back(ended);
        }
        if self.older.len() >= at.window.samples.max(1) {
            self.older.pop_front();
        }
    }

    /// The samples that still count.
    fn live(&self, at: &Reading) -> impl Iterator<Item = &Sample> {
        let (now, span) = (at.now, at.window.span());
        let live = move |sample: &&Sample| now.saturating_duration_since(sample.since) < span;
        self.older.iter().chain(&self.newest).filter(live)
    }

    /// How many values there were.
    pub(crate) fn times(&self) -> f64 {
        let newest = self.newest.map_or(0, |sample| sample.count);
        (self.count_before + newest) as f64
    }

    /// Their sum.
    pub(crate) fn total(&self) -> f64 {
        self.sum_before + self.newest.map_or(0.0, |sample| sample.sum)
    }

    /// The sum of the values of the window, by seconds.
    pub(crate) fn rate(&self, at: &Reading) -> f64 {
        self.recent(at) / self.elapsed(at)
    }

    /// How many values there were in the window, by seconds.
    pub(crate) fn times_rate(&self, at: &Reading) -> f64 {
        self.recent_times(at) / self.elapsed(at)
    }

    /// The sum of the values of the window.
    pub(crate) fn recent(&self, at: &Reading) -> f64 {
        sum(self.live(at).map(|sample| sample.sum))
    }

    /// How many values there were in the window.
    pub(crate) fn recent_times(&self, at: &Reading) -> f64 {
        sum(self.live(at).map(|sample| sample.count as f64))
    }

    /// Their average over the window; NaN without values.
    pub(crate) fn average(&self, at: &Reading) -> f64 {
        self.recent(at) / self.recent_times(at)
    }

    /// The largest value of the window; NaN without values.
    pub(crate) fn max(&self, at: &Reading) -> f64 {
        let values = self.live(at).map(|sample| sample.max);
        values.reduce(f64::max).unwrap_or(f64::NAN)
    }

    /// The smallest value of the window; NaN without values.
    pub(crate) fn min(&self, at: &Reading) -> f64 {
        let values = self.live(at).map(|sample| sample.min);
        values.reduce(f64::min).unwrap_or(f64::NAN)
    }

    /// The seconds that a rate covers: since the oldest sample, but at least all samples but one, so that the first values
    /// of a client give no rate that it could never keep.
    fn elapsed(&self, at: &Reading) -> f64 {
        let oldest = self.live(at).map(|sample| sample.since).min();
        let since = oldest.map_or(Duration::ZERO, |since| {
            at.now.saturating_duration_since(since)
        });
        let full = since.as_nanos() / at.window.sample.as_nanos().max(1);
        let missing = (at.window.samples as u128)
            .saturating_sub(1)
            .saturating_sub(full);
        let padding = u32::try_from(missing).unwrap_or(u32::MAX);
        let elapsed = since + at.window.sample.saturating_mul(padding);
        elapsed.max(Duration::from_millis(1)).as_secs_f64()
    }
}

/// The sum of values; 0.0 of none, for which `Iterator::sum` gives -0.0.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

#[cfg(test)]
thread_local! {
    /// How many values all sensors of this thread took in, for tests that count.
    pub(crate) static RECORDED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::start;

    const SECOND: Duration = Duration::from_secs(1);

    fn reading(now: Instant) -> Reading {
        let window = Window {
            sample: 30 * SECOND,
            samples: 2,
        };
        Reading { now, window }
    }

    #[test]
    fn statistics_leave_with_their_sample_and_totals_stay() {
        let begin = start();
        let mut sensor = Sensor::default();
        for (second, value) in [(0, 4.0), (10, 6.0), (35, 20.0), (70, 2.0)] {
            sensor.record(&reading(begin + second * SECOND), value);
        }
        // The samples begin at 35 and at 70: the first one was dropped.
        let at = reading(begin + 80 * SECOND);
        assert_eq!((sensor.times(), sensor.total()), (4.0, 32.0));
        assert_eq!(
            (sensor.average(&at), sensor.max(&at), sensor.min(&at)),
            (11.0, 20.0, 2.0)
        );
        assert_eq!(sensor.rate(&at), 22.0 / 45.0);
        assert_eq!(sensor.times_rate(&at), 2.0 / 45.0);
        let later = reading(begin + 100 * SECOND);
        assert_eq!((sensor.recent(&later), sensor.max(&later)), (2.0, 2.0));
        let last = reading(begin + 200 * SECOND);
        assert!(sensor.average(&last).is_nan() && sensor.max(&last).is_nan());
        assert_eq!((sensor.rate(&last), sensor.total()), (0.0, 32.0));
    }

    #[test]
    fn without_values_rates_and_sums_are_zero_and_not_negative() {
        let begin = start();
        let mut sensor = Sensor::default();
        let signs = |sensor: &Sensor, at: &Reading| {
            let read = [
                Sensor::rate,
                Sensor::times_rate,
                Sensor::recent,
                Sensor::recent_times,
            ];
            read.map(|read| read(sensor, at).to_bits())
        };
        assert_eq!(signs(&sensor, &reading(begin)), [0; 4]);
        assert_eq!(sensor.total().to_bits(), 0);
        sensor.record(&reading(begin), 4.0);
        assert_eq!(signs(&sensor, &reading(begin + 200 * SECOND)), [0; 4]);
    }

    #[test]
    fn a_first_value_counts_over_a_whole_sample() {
        let begin = start();
        let mut sensor = Sensor::default();
        assert_eq!(sensor.rate(&reading(begin)), 0.0);
        sensor.record(&reading(begin), 60.0);
        assert_eq!(sensor.rate(&reading(begin)), 2.0);
        assert_eq!(sensor.rate(&reading(begin + 30 * SECOND)), 2.0);
        assert_eq!(sensor.rate(&reading(begin + 40 * SECOND)), 1.5);
    }

    #[test]
    fn a_window_of_one_sample_forgets_all_at_once() {
        let begin = start();
        let window = Window {
            sample: SECOND,
            samples: 1,
        };
        let at = |now| Reading { now, window };
        let mut sensor = Sensor::default();
        sensor.record(&at(begin), 5.0);
        sensor.record(&at(begin + SECOND / 2), 7.0);
        assert_eq!(sensor.recent(&at(begin + SECOND / 2)), 12.0);
        sensor.record(&at(begin + SECOND), 1.0);
        assert_eq!(sensor.recent(&at(begin + SECOND)), 1.0);
    }
}
