//! What happened in the clients of a process, for whoever watches them: logs, metrics, traces.
//!
//! ```text
//!   engine's observer ── after each step ──▶ Watch ──▶ Events (one queue for all clients) ──▶ drain
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ottla_engine::Role;
use ottla_engine::observe::{Level, Observed, Observer};
use parking_lot::Mutex;

/// The most events that wait to be drained; above it the oldest are dropped and counted.
const MOST: usize = 10_000;

/// Something that happened, and in which client.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// The client's `client.id`.
    pub client: Arc<str>,
    /// What the client is.
    pub role: Role,
    /// What happened.
    pub event: Observed,
}

/// A bounded queue of events. Many clients may share one; each gets it when it is made.
pub struct Events {
    level: AtomicU8,
    queue: Mutex<Queue>,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Queue {
    logged: VecDeque<Logged>,
    dropped: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("level", &self.level())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// A queue of events of at least this level. `wake` is called whenever the queue was empty and is no longer: on a thread of
    /// the runtime or on a caller's, where it must neither block nor attach to an interpreter.
    pub fn new(level: Level, wake: impl Fn() + Send + Sync + 'static) -> Arc<Events> {
        Arc::new(Events {
            level: AtomicU8::new(level as u8),
            queue: Mutex::default(),
            wake: Box::new(wake),
        })
    }

    /// Only events of at least `level` from now on. Each client follows at its next step.
    pub fn listen(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// The least level of an event that is kept.
    #[inline]
    pub fn level(&self) -> Level {
        const DEBUG: u8 = Level::Debug as u8;
        const INFO: u8 = Level::Info as u8;
        match self.level.load(Ordering::Relaxed) {
            DEBUG => Level::Debug,
            INFO => Level::Info,
            _ => Level::Warning,
        }
    }

    /// Takes everything that waits, oldest first.
    pub fn drain(&self) -> Vec<Logged> {
        let logged = std::mem::take(&mut self.queue.lock().logged);
        logged.into()
    }

    /// How many events were dropped since the last call, because nobody drained them.
    pub fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.queue.lock().dropped)
    }

    fn push(&self, logged: impl Iterator<Item = Logged>, dropped: u64) {
        let mut queue = self.queue.lock();
        let was_empty = queue.logged.is_empty();
        queue.dropped += dropped;
        for one in logged {
            if queue.logged.len() == MOST {
                queue.logged.pop_front();
                queue.dropped += 1;
            }
            queue.logged.push_back(one);
        }
        let wakes = was_empty && !queue.logged.is_empty();
        drop(queue);
        if wakes {
            (self.wake)();
        }
    }
}

/// Brings the events of one client from its engine to the queue.
#[derive(Debug)]
pub(crate) struct Watch {
    events: Option<Arc<Events>>,
    client: Arc<str>,
    role: Role,
}

/// Events on their way out of the engine, and how many were lost before.
#[derive(Debug)]
pub(crate) struct Seen(Vec<Observed>, u64);

impl Watch {
    pub(crate) fn new(events: Option<Arc<Events>>, client: &str, role: Role) -> Watch {
        Watch {
            events,
            client: client.into(),
            role,
        }
    }

    /// Sets which events the engine reports.
    #[inline]
    pub(crate) fn listen(&self, observer: &mut Observer) {
        let level = self.events.as_ref().map_or(Level::Warning, |e| e.level());
        observer.listen(level);
    }

    /// Takes what the engine kept; with the engine locked.
    pub(crate) fn collect(&self, observer: &mut Observer) -> Option<Seen> {
        let first = observer.poll()?;
        let mut seen = vec![first];
        seen.extend(std::iter::from_fn(|| observer.poll()));
        Some(Seen(seen, observer.take_dropped()))
    }

    /// Hands on what was taken; with the engine unlocked.
    pub(crate) fn tell(&self, seen: Seen) {
        let Some(events) = &self.events else {
            return;
        };
        let Seen(seen, dropped) = seen;
        let logged = seen.into_iter().map(|event| Logged {
            client: Arc::clone(&self.client),
            role: self.role,
            event,
        });
        events.push(logged, dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    fn moved(partition: i32) -> Observed {
        Observed::LeaderMoved {
            topic: "t".into(),
            partition,
            from: 1,
            to: 2,
            epoch: 3,
        }
    }

    fn answered() -> Observed {
        Observed::Answered {
            broker: "b:1".into(),
            api: "Fetch",
            version: 4,
            took: Duration::from_millis(1),
        }
    }

    fn counting() -> (Arc<Events>, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let events = Events::new(Level::Info, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (events, woken)
    }

    #[test]
    fn whoever_drains_is_woken_once_for_many() {
        let (events, woken) = counting();
        let watches =
            ["a", "b"].map(|client| Watch::new(Some(Arc::clone(&events)), client, Role::Admin));
        let mut observer = Observer::default();
        for round in 1..=2 {
            for watch in &watches {
                assert!(watch.collect(&mut observer).is_none());
                observer.tell(moved(7));
                watch.tell(watch.collect(&mut observer).unwrap());
            }
            assert_eq!(woken.load(Ordering::Relaxed), round);
            let clients: Vec<_> = events
                .drain()
                .into_iter()
                .map(|logged| logged.client)
                .collect();
            assert_eq!(clients, ["a".into(), "b".into()]);
        }
    }

    #[test]
    fn the_level_reaches_the_engine_with_its_next_step() {
        let (events, _) = counting();
        let watch = Watch::new(Some(Arc::clone(&events)), "a", Role::Consumer);
        let mut observer = Observer::default();
        let mut kept = |level| {
            events.listen(level);
            assert_eq!(events.level(), level);
            watch.listen(&mut observer);
            observer.tell(moved(0));
            observer.tell(answered());
            watch.collect(&mut observer).map_or(0, |seen| seen.0.len())
        };
        let counts = [Level::Debug, Level::Info, Level::Warning].map(&mut kept);
        assert_eq!(counts, [2, 1, 0]);
    }

    #[test]
    fn the_oldest_go_and_are_counted() {
        let (events, woken) = counting();
        let watch = Watch::new(Some(Arc::clone(&events)), "a", Role::Producer);
        let seen = (0..MOST + 5).map(|number| moved(number as i32));
        watch.tell(Seen(seen.collect(), 2));
        let logged = events.drain();
        assert_eq!((logged.len(), &logged[0].event), (MOST, &moved(5)));
        assert_eq!((events.take_dropped(), events.take_dropped()), (7, 0));
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn without_a_queue_nothing_is_kept() {
        let watch = Watch::new(None, "a", Role::Producer);
        let mut observer = Observer::default();
        watch.listen(&mut observer);
        observer.tell(moved(0));
        assert!(watch.collect(&mut observer).is_none());
    }
}
