//! The timer: a task that handles an engine's timeouts at the times that the engine sets.

use std::time::Instant;

use tokio::sync::Notify;

use crate::net::transport::sleep_until;

/// When the timer's task will look at the engine. Kept with the engine, behind its lock.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// Takes in when the engine wants to be looked at; true if the timer's task would sleep beyond that and must be woken.
    pub(crate) fn set(&mut self, wanted: Option<Instant>) -> bool {
        let Some(wanted) = wanted else {
            return false;
        };
        let earlier = self.0.is_none_or(|at| wanted < at);
        if earlier {
            self.0 = Some(wanted);
        }
        earlier
    }

    /// When the timer's task looks next.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.0
    }

    /// The timer's task looks now.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Runs for ever: calls `ring` at the time that `alarm` gives, and calls `alarm` again when
/// `earlier` is notified.
pub(crate) async fn keep_time(
    earlier: &Notify,
    alarm: impl Fn() -> Option<Instant>,
    ring: impl Fn(),
) {
    loop {
        let Some(at) = alarm() else {
            earlier.notified().await;
            continue;
        };
        tokio::select! {
            biased;
            () = earlier.notified() => {}
            () = sleep_until(at) => ring(),
        }
    }
}
