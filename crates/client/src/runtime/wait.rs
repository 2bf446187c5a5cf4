//! Waiting calls, each woken by what it waits for and by nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ottla_engine::Change;
use ottla_engine::call::CallId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::net::transport::Late;
use crate::runtime::deadlines::Deadlines;

/// The waiters, and the change that each waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many wait, to be read without the lock.
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    deadlines: Arc<Deadlines>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    calls: FxHashMap<CallId, Arc<Notify>>,
    others: FxHashMap<u64, (Kinds, Arc<Notify>)>,
}

/// One bit for each kind of change that names no call.
type Kinds = u16;

impl Waiters {
    pub(crate) fn new(deadlines: &Arc<Deadlines>) -> Waiters {
        Waiters {
            deadlines: Arc::clone(deadlines),
            ..Waiters::default()
        }
    }

    /// Whether nobody waits. With the engine locked this is certain: a later caller looks at the engine first.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A waiter for these changes, of which at most one is a call, and one that nobody else waits for. Make it before
    /// looking whether the change is there already: every later change wakes it.
    pub(crate) fn enter(&self, changes: &[Change]) -> Waiter<'_> {
        let bell = Arc::new(Notify::new());
        let kinds = changes.iter().fold(0, |kinds, change| kinds | change.bit());
        let call = changes.iter().find_map(|change| match change {
            Change::Call(id) => Some(*id),
            _ => None,
        });
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        if let Some(id) = call {
            waiting.calls.insert(id, Arc::clone(&bell));
        }
        if kinds != 0 {
            waiting.others.insert(number, (kinds, Arc::clone(&bell)));
        }
        drop(waiting);
        self.count.fetch_add(1, Ordering::AcqRel);
        Waiter {
            waiters: self,
            number,
            call,
            bell,
        }
    }

    /// Wakes those who wait for one of these changes; [`Change::Closed`] wakes all.
    pub(crate) fn wake(&self, changes: &[Change]) {
        if changes.is_empty() || self.is_empty() {
            return;
        }
        if changes.contains(&Change::Closed) {
            return self.wake_all();
        }
        let waiting = self.waiting.lock();
        let mut kinds = 0;
        for change in changes {
            match change {
                Change::Call(id) => {
                    if let Some(bell) = waiting.calls.get(id) {
                        bell.notify_one();
                    }
                }
                other => kinds |= other.bit(),
            }
        }
        if kinds != 0 {
            for (wanted, bell) in waiting.others.values() {
                if wanted & kinds != 0 {
                    bell.notify_one();
                }
            }
        }
    }

    /// Nothing is worth waiting for.
    fn wake_all(&self) {
        let waiting = self.waiting.lock();
        let others = waiting.others.values().map(|(_, bell)| bell);
        for bell in waiting.calls.values().chain(others) {
            bell.notify_one();
        }
    }
}

/// One waiting call. It waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    number: u64,
    call: Option<CallId>,
    bell: Arc<Notify>,
}

impl Waiter<'_> {
    /// Waits until something changed since the last call of this, or since the waiter was made; at most until the deadline.
    pub(crate) async fn changed(&self, deadline: Instant) -> Result<(), Late> {
        let deadlines = &self.waiters.deadlines;
        deadlines.timeout_at(deadline, self.bell.notified()).await
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        if let Some(id) = self.call {
            waiting.calls.remove(&id);
        }
        waiting.others.remove(&self.number);
        drop(waiting);
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ottla_engine::call::ListTopics;
    use ottla_engine::{Config, Engine, Role};

    use super::*;
    use crate::net::transport::{deadline, now};

    fn calls(count: usize) -> Vec<CallId> {
        let pairs = [("bootstrap.servers", "boot:1")];
        let config = Config::parse(Role::Admin, pairs).unwrap();
        let mut engine = Engine::admin(Arc::new(config), 7);
        let end = deadline(Duration::from_secs(60));
        (0..count)
            .map(|_| engine.ask(now(), ListTopics, end).id())
            .collect()
    }

    /// Which of them were woken since the last look.
    async fn woken(waiters: &[Waiter<'_>]) -> Vec<usize> {
        let mut woken = Vec::new();
        for (index, waiter) in waiters.iter().enumerate() {
            if waiter.changed(now()).await.is_ok() {
                woken.push(index);
            }
        }
        woken
    }

    #[tokio::test]
    async fn of_a_hundred_calls_the_answered_one_wakes() {
        let (waiters, ids) = (Waiters::default(), calls(100));
        let waiting = ids.iter().map(|id| waiters.enter(&[Change::Call(*id)]));
        let mut waiting: Vec<_> = waiting.collect();
        waiters.wake(&[Change::Call(ids[42]), Change::Records, Change::Topics]);
        assert_eq!(woken(&waiting).await, [42]);
        assert!(woken(&waiting).await.is_empty());
        waiting.truncate(1);
        // Nobody waits for the other calls any more.
        waiters.wake(&[Change::Call(ids[42]), Change::Call(ids[0])]);
        assert_eq!(woken(&waiting).await, [0]);
    }

    #[tokio::test]
    async fn each_kind_wakes_those_who_wait_for_it() {
        let (waiters, ids) = (Waiters::default(), calls(1));
        let wanted: [&[Change]; 5] = [
            &[Change::Records],
            &[Change::Position],
            &[Change::Room, Change::Topics],
            &[Change::Fate],
            &[Change::Call(ids[0])],
        ];
        let waiting = wanted.map(|changes| waiters.enter(changes));
        let mut seen = Vec::new();
        for change in wanted.concat() {
            waiters.wake(&[change]);
            seen.extend(woken(&waiting).await);
        }
        assert_eq!(seen, [0, 1, 2, 2, 3, 4]);
        waiters.wake(&[Change::Closed]);
        assert_eq!(woken(&waiting).await, [0, 1, 2, 3, 4]);
        drop(waiting);
        assert!(waiters.is_empty());
    }

    #[tokio::test]
    async fn who_sleeps_is_woken_and_who_is_not_is_late() {
        let waiters = Waiters::default();
        let waiter = waiters.enter(&[Change::Fate]);
        assert_eq!(waiter.changed(now()).await, Err(Late));
        let waking = async {
            tokio::task::yield_now().await;
            waiters.wake(&[Change::Fate]);
        };
        let (changed, ()) = tokio::join!(waiter.changed(deadline(Duration::MAX)), waking);
        assert_eq!(changed, Ok(()));
    }
}
