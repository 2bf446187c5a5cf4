//! What every decision depends on besides the responses of brokers: settings, randomness, the
//! alarm, the listeners, and the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::change::Changes;
use crate::config::Config;
use crate::metrics::Meters;
use crate::observe::Observer;
use crate::random::Random;

/// Without any pause a failure that follows at once would be repeated for ever in the same moment.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// One for each engine.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) random: Random,
    pub(crate) observer: Observer,
    pub(crate) meters: Meters,
    pub(crate) changes: Changes,
    alarm: Option<Instant>,
}

impl Context {
    pub(crate) fn new(config: Arc<Config>, seed: u64) -> Context {
        Context {
            meters: Meters::new(&config),
            config,
            random: Random::new(seed),
            observer: Observer::default(),
            changes: Changes::default(),
            alarm: None,
        }
    }

    /// Sets the alarm to `at`, unless it is earlier already.
    pub(crate) fn set_alarm(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    /// Whether there is a change or an event to take.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        !self.changes.is_empty() || !self.observer.is_empty()
    }

    #[inline]
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// Forgets the alarm if it is due, so that everybody sets theirs again.
    pub(crate) fn take_alarm(&mut self, now: Instant) -> bool {
        let due = self.alarm.is_some_and(|alarm| alarm <= now);
        if due {
            self.alarm = None;
        }
        due
    }

    /// The pause before a request or a batch is sent again, after `failures` failures in a row.
    pub(crate) fn retry_pause(&mut self, failures: u32) -> Duration {
        let pause = self.random.backoff(
            self.config.retry_backoff,
            self.config.retry_backoff_max,
            failures,
        );
        pause.max(SHORTEST_PAUSE)
    }

    /// How long a connection may take to be set up, after `failures` failures in a row (KIP-601). The first has exactly what the
    /// settings say.
    pub(crate) fn setup_timeout(&mut self, failures: u32) -> Duration {
        let (first, max) = (self.config.setup_timeout, self.config.setup_timeout_max);
        match failures {
            0 => first,
            more => self.random.backoff(first, max, more.saturating_add(1)),
        }
    }

    /// The pause before a connection is dialled again, after `failures` failures in a row.
    pub(crate) fn reconnect_pause(&mut self, failures: u32) -> Duration {
        let pause = self.random.backoff(
            self.config.reconnect_backoff,
            self.config.reconnect_backoff_max,
            failures,
        );
        pause.max(SHORTEST_PAUSE)
    }
}
