//! What a client's handle holds: an engine with its tasks, which end when the handle is closed or dropped.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::engine::closed_error;
use ottla_engine::{Change, Config, Engine, Error, Kind, Role};

use crate::net::transport::{deadline, now, timeout_at};
use crate::runtime::events::Events;
use crate::runtime::shell::{Publish, Shell};
use crate::runtime::threads::Threads;
use crate::runtime::wait::Waiter;

/// Tasks end at their next await; this is for a machine that is very busy.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The response to the last metrics is awaited no longer, however much time a close has.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Tasks get this long even if the caller has no time left: a quick close is no failure.
const JOIN_AT_LEAST: Duration = Duration::from_secs(1);

/// An engine with its tasks. They end when it is closed or dropped.
pub(crate) struct Driver<W: Publish> {
    shell: Arc<Shell<W>>,
}

impl<W: Publish> fmt::Debug for Driver<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("bootstrap", &self.shell.config.bootstrap)
            .finish_non_exhaustive()
    }
}

impl<W: Publish> Driver<W> {
    /// Starts the tasks of an engine; no connection is made before the engine wants one. Events are
    /// reported to `events`.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role, or names certificates or keys that cannot be used.
    pub(crate) fn start(
        config: Config,
        role: Role,
        threads: &Arc<Threads>,
        events: Option<Arc<Events>>,
        engine: impl FnOnce(Arc<Config>, u64) -> Engine<W>,
    ) -> Result<Driver<W>, Error> {
        if config.role != role {
            let text = format!(
                "settings of a {} were given to a {}",
                config.role.name(),
                role.name()
            );
            return Err(Error::new(Kind::Config, text));
        }
        let shell = Shell::start(config, role, threads, events, engine)?;
        Ok(Driver { shell })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shell.config
    }

    /// Runs `f` on the engine and does what follows from it.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Engine<W>, Instant) -> R) -> R {
        let now = now();
        self.shell.work(true, |engine| f(engine, now))
    }

    /// Runs `f` on the engine; `f` reads the clock itself, if it needs to.
    pub(crate) fn with_clock<R>(&self, f: impl FnOnce(&mut Engine<W>) -> R) -> R {
        self.shell.work(true, f)
    }

    /// Whether everything that left the engine has been handed on.
    pub(crate) fn is_published(&self) -> bool {
        self.shell.is_published()
    }

    /// A waiter that one of these changes wakes.
    pub(crate) fn enter(&self, changes: &[Change]) -> Waiter<'_> {
        self.shell.waiters.enter(changes)
    }

    /// Looks at the engine now and after each of these changes, until `look` finds a result or the
    /// deadline has passed; then it returns the result of `late`.
    pub(crate) async fn wait<R>(
        &self,
        changes: &[Change],
        deadline: Instant,
        mut look: impl FnMut(&mut Engine<W>, Instant) -> Option<R>,
        late: impl FnOnce(&mut Engine<W>, Instant) -> R,
    ) -> R {
        // Before looking, so that nothing that happens afterwards is missed.
        let waiter = self.enter(changes);
        loop {
            if let Some(found) = self.with(&mut look) {
                return found;
            }
            if waiter.changed(deadline).await.is_err() {
                return self
                    .with(|engine, now| look(engine, now).unwrap_or_else(|| late(engine, now)));
            }
        }
    }

    /// Runs work that takes processor time, but no longer than a moment, on another thread, unless this is closed. Closing
    /// waits for it.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.shell.spawn_blocking(work);
    }

    /// The id that brokers know this client by (KIP-714), at most after `timeout` (`None`: `default.api.timeout.ms`).
    ///
    /// # Errors
    /// No broker takes metrics of clients, or this client pushes none; or no broker responded by
    /// the deadline.
    pub(crate) async fn instance(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
        let timeout = timeout.unwrap_or(self.config().default_api_timeout);
        self.with(|engine, now| engine.want_instance(now));
        let look = |engine: &mut Engine<W>, _: Instant| {
            if engine.closed().is_some() {
                return Some(Err(closed_error()));
            }
            let found = engine.instance().map(|found| found.map(|id| id.0));
            found.or_else(|| engine.hopeless().map(Err))
        };
        let late = |engine: &mut Engine<W>, _: Instant| {
            Err(engine.trouble().unwrap_or_else(|| {
                let text = format!("no response within {} ms", timeout.as_millis());
                Error::new(Kind::Timeout, text).calling("GetTelemetrySubscriptions")
            }))
        };
        let changes = [Change::Telemetry];
        self.wait(&changes, deadline(timeout), look, late).await
    }

    /// Pushes metrics for the last time, if a broker wants any, and waits for its response at most
    /// `timeout`.
    async fn take_leave(&self, timeout: Duration) {
        if self.with(|engine, now| engine.take_leave(now)) {
            let look = |engine: &mut Engine<W>, _: Instant| (!engine.is_leaving()).then_some(());
            let changes = [Change::Telemetry];
            let deadline = deadline(timeout.min(LEAVE_TIMEOUT));
            self.wait(&changes, deadline, look, |_, _| ()).await;
        }
    }

    /// Closes the engine and joins every task, within `timeout` or one second, whichever is longer. Before that, brokers
    /// that want metrics get the last ones, if `timeout` allows it.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub(crate) async fn close(&self, timeout: Duration) -> Result<(), Error> {
        let begun = now();
        self.take_leave(timeout).await;
        let timeout = timeout.saturating_sub(now().saturating_duration_since(begun));
        let timeout = timeout.max(JOIN_AT_LEAST);
        let deadline = deadline(timeout);
        let mut tasks = self.shell.stop();
        let joined = timeout_at(deadline, async {
            while tasks.join_next().await.is_some() {}
        });
        joined.await.map_err(|_| {
            let text = format!("tasks did not end within {} ms", timeout.as_millis());
            Error::new(Kind::Timeout, text)
        })
    }
}

impl<W: Publish> Drop for Driver<W> {
    fn drop(&mut self) {
        self.shell.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ottla_engine::observe::{Level, Observed};

    use super::*;

    #[tokio::test]
    async fn what_the_engine_observed_is_told_before_the_call_returns() {
        let pairs = [("bootstrap.servers", "boot:1"), ("client.id", "me")];
        let config = Config::parse(Role::Admin, pairs).unwrap();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let events = Events::new(Level::Debug, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (threads, queue) = (Threads::current(), Some(Arc::clone(&events)));
        let driver = Driver::start(config, Role::Admin, &threads, queue, Engine::admin).unwrap();
        let answered = Observed::Answered {
            broker: "boot:1".to_owned(),
            api: "Metadata",
            version: 9,
            took: Duration::from_millis(1),
        };
        for round in 1..=2 {
            driver.with(|engine, _| engine.observer().tell(answered.clone()));
            driver.with(|_, _| ());
            let told = events.drain();
            assert_eq!((told.len(), woken.load(Ordering::Relaxed)), (1, round));
            assert_eq!((&*told[0].client, told[0].role), ("me", Role::Admin));
            assert_eq!(told[0].event, answered);
        }
    }

    #[tokio::test]
    async fn a_close_without_time_still_joins_what_is_about_to_end() {
        let config = Config::parse(Role::Admin, [("bootstrap.servers", "boot:1")]).unwrap();
        let threads = Threads::current();
        let driver = Driver::start(config, Role::Admin, &threads, None, Engine::admin).unwrap();
        let (send, stages) = std::sync::mpsc::channel();
        driver.spawn_blocking(move || {
            send.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            send.send(()).unwrap();
        });
        stages.recv().unwrap();
        driver.close(Duration::ZERO).await.unwrap();
        stages.try_recv().unwrap();
    }
}
