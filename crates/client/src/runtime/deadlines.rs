//! The deadlines of waiting calls.
//!
//! Nearly every wait ends long before its deadline. A timer of the runtime for each of them would wake an I/O thread whenever a wait
//! begins. So all share one timer, which goes off at the deadline that it was set for even if that wait has ended: it is set again only
//! for a deadline before that.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::net::transport::{Late, now};
use crate::runtime::timer::{Alarm, keep_time};

/// The waits with a deadline, and their timer.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    waits: Mutex<Waits>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Waits {
    alarm: Alarm,
    next: u64,
    wakers: BTreeMap<Key, Waker>,
}

/// A deadline, and the number of the wait.
type Key = (Instant, u64);

impl Deadlines {
    /// Starts the timer on a runtime. Without one no deadline wakes a wait.
    pub(crate) fn start(runtime: &Handle) -> Arc<Deadlines> {
        let deadlines = Arc::new(Deadlines::default());
        let kept = Arc::clone(&deadlines);
        runtime.spawn(async move {
            let alarm = || kept.waits.lock().alarm.at();
            keep_time(&kept.earlier, alarm, || kept.ring(now())).await;
        });
        deadlines
    }

    /// Waits for `future`, at most until the deadline. A future that is ready is preferred to a deadline that has passed.
    pub(crate) async fn timeout_at<F: Future>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Result<F::Output, Late> {
        let mut future = pin!(future);
        let mut wait = Wait {
            deadlines: self,
            key: None,
        };
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(value));
            }
            if now() >= deadline {
                return Poll::Ready(Err(Late));
            }
            wait.enter(deadline, context.waker());
            Poll::Pending
        })
        .await
    }

    /// Wakes those whose deadline has come.
    fn ring(&self, now: Instant) {
        let mut waits = self.waits.lock();
        let mut due = Vec::new();
        while let Some(first) = waits.wakers.first_entry().filter(|it| it.key().0 <= now) {
            due.push(first.remove());
        }
        let first = waits.wakers.keys().next().map(|(at, _)| *at);
        waits.alarm.clear();
        waits.alarm.set(first);
        drop(waits);
        due.into_iter().for_each(Waker::wake);
    }
}

/// One wait. It is in the list until it is dropped, or its deadline has come.
struct Wait<'a> {
    deadlines: &'a Deadlines,
    key: Option<Key>,
}

impl Wait<'_> {
    fn enter(&mut self, deadline: Instant, waker: &Waker) {
        let mut waits = self.deadlines.waits.lock();
        let key = *self.key.get_or_insert_with(|| {
            waits.next += 1;
            (deadline, waits.next)
        });
        let before = waits.wakers.insert(key, waker.clone());
        let is_earlier = waits.alarm.set(Some(deadline));
        drop(waits);
        // Not while the list is locked: a waker may be the last that holds a caller's objects.
        drop(before);
        if is_earlier {
            self.deadlines.earlier.notify_one();
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let left = self.deadlines.waits.lock().wakers.remove(&key);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};
    use std::time::Duration;

    use super::*;
    use crate::net::transport::deadline;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_deadline_that_has_passed_still_gives_what_is_ready() {
        let (deadlines, past) = (Deadlines::default(), now());
        assert_eq!(deadlines.timeout_at(past, async { 7 }).await, Ok(7));
        let never = deadlines.timeout_at(past, pending::<()>());
        assert_eq!(never.await, Err(Late));
        assert!(deadlines.waits.lock().wakers.is_empty());
    }

    #[tokio::test]
    async fn each_wait_ends_after_its_deadline() {
        let deadlines = Deadlines::start(&Handle::current());
        let begin = now();
        let wait = async |ms| {
            let at = begin + Duration::from_millis(ms);
            let late = deadlines.timeout_at(at, pending::<()>()).await;
            assert_eq!(late, Err(Late));
            assert!(now() >= at);
        };
        tokio::join!(wait(60), wait(20), wait(40), wait(1));
        assert!(deadlines.waits.lock().wakers.is_empty());
        assert_eq!(deadlines.waits.lock().alarm.at(), None);
    }

    #[test]
    fn only_waits_whose_deadline_has_come_are_woken() {
        let deadlines = Deadlines::default();
        let begin = now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut waits =
            [30, 10, 20].map(|s| Box::pin(deadlines.timeout_at(at(s), pending::<()>())));
        for (wait, woken) in waits.iter_mut().zip(&woken) {
            let waker = Waker::from(Arc::clone(woken));
            assert!(
                wait.as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        let counts = || {
            woken
                .each_ref()
                .map(|woken| woken.0.load(Ordering::Relaxed))
        };
        assert_eq!(deadlines.waits.lock().alarm.at(), Some(at(10)));
        deadlines.ring(at(20));
        assert_eq!(counts(), [0, 1, 1]);
        assert_eq!(deadlines.waits.lock().alarm.at(), Some(at(30)));
        deadlines.ring(at(30));
        assert_eq!(counts(), [1, 1, 1]);
    }

    #[test]
    fn only_an_earlier_deadline_sets_the_timer_again() {
        let deadlines = Deadlines::default();
        let (woken, begin) = (Arc::new(Woken::default()), now());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut set = Vec::new();
        for seconds in [20, 21, 30, 10, 11] {
            let mut wait = pin!(deadlines.timeout_at(at(seconds), pending::<()>()));
            assert!(wait.as_mut().poll(&mut context).is_pending());
            set.push(deadlines.waits.lock().alarm.at());
        }
        assert_eq!(set, [20, 20, 20, 10, 10].map(|seconds| Some(at(seconds))));
        // All of them have ended: the timer goes off once, and wakes nobody.
        deadlines.ring(at(10));
        assert_eq!(deadlines.waits.lock().alarm.at(), None);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_wait_that_is_polled_again_wakes_its_last_task() {
        let deadlines = Deadlines::start(&Handle::current());
        let (before, at) = (
            Arc::new(Woken::default()),
            deadline(Duration::from_millis(20)),
        );
        let mut wait = pin!(deadlines.timeout_at(at, pending::<()>()));
        let waker = Waker::from(Arc::clone(&before));
        let first = wait.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(first.is_pending());
        assert_eq!(wait.await, Err(Late));
        assert_eq!(before.0.load(Ordering::Relaxed), 0);
    }
}
