//! A thread that waits, and the sockets that its answer may come from.
//!
//! To be put to sleep, and woken by the thread that reads, takes about as long as a broker nearby takes to answer. A thread that has
//! to wait therefore looks for its answer in the sockets itself for a moment, and gives the processor to whoever wants it after
//! each look. Where answers take longer it soon stops trying.
//!
//! What is waited for may be one answer, or several of which each is asked for after the one before: [`Soon`].

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread::yield_now;
use std::time::Duration;

use crate::net::transport::{deadline, now};

/// After so many looks in vain, one after the other, no more waits are let pass before the next look: two to the power of it, less one.
const MOST_MISSES: u32 = 6;

thread_local! {
    static OFFERED: RefCell<Option<Offer>> = const { RefCell::new(None) };
}

/// The connections of a client, as a thread that waits sees them.
pub(crate) trait Attended: Send + Sync {
    /// Whether small answers wake the tasks that read.
    fn wakes_tasks(&self, wakes: bool);

    /// Reads what the sockets have, and takes it in.
    fn read_now(self: Arc<Self>);
}

/// What a thread waits for that comes soon, if the brokers are near.
#[derive(Debug)]
pub(crate) struct Soon {
    /// How long a thread looks: longer than brokers on the same machine take, shorter than those in the next city.
    moment: Duration,
    looks: Looks,
}

/// The answer to one request.
pub(crate) static ANSWER: Soon = Soon::within(Duration::from_micros(300));
/// A step of a transaction. Its end takes several answers: that the markers of the one before are written, that its records are,
/// and that of EndTxn.
pub(crate) static TRANSACTION: Soon = Soon::within(Duration::from_millis(2));

impl Soon {
    const fn within(moment: Duration) -> Soon {
        Soon {
            moment,
            looks: Looks::new(&LOOKING),
        }
    }
}

/// A client's sockets, as long as the client is there.
#[derive(Clone, Default)]
pub(crate) struct Sockets(Option<Weak<dyn Attended>>);

impl Sockets {
    pub(crate) fn of(client: Weak<dyn Attended>) -> Sockets {
        Sockets(Some(client))
    }

    /// Waits for `future`, which is ready `soon`; a thread that finds it pending is offered these sockets.
    pub(crate) async fn offering<F: Future>(&self, soon: &'static Soon, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            if polled.is_pending() {
                OFFERED.set(Some(Offer {
                    sockets: self.clone(),
                    soon: Some(soon),
                }));
            }
            polled
        })
        .await
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sockets")
    }
}

/// Polls a future of this crate on a thread that can wait for it and has nothing else to do; if it is pending, says what the
/// thread can look at.
///
/// # Errors
/// The future is pending.
pub fn poll<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Result<F::Output, Offer> {
    // What was offered before, maybe to the process that this one was forked from, is not to be looked at.
    OFFERED.take();
    match future.poll(context) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(OFFERED.take().unwrap_or_default()),
    }
}

/// What a thread that has to wait can look at, if anything.
#[derive(Debug, Default)]
pub struct Offer {
    sockets: Sockets,
    soon: Option<&'static Soon>,
}

impl Offer {
    /// Looks until the thread is woken, as `came` tells, and for two milliseconds at most; not at all if that was in vain lately, or
    /// while another thread looks.
    pub fn look(self, came: impl Fn() -> bool) {
        let client = self.sockets.0.and_then(|client| client.upgrade());
        if let (Some(client), Some(Soon { moment, looks })) = (client, self.soon)
            && let Some(look) = looks.begin()
        {
            Attention::to(client, look).look(*moment, came);
        }
    }
}

/// A thread's attention to a client's sockets. Meanwhile small answers wake no other thread.
struct Attention<'a> {
    client: Arc<dyn Attended>,
    look: Look<'a>,
}

impl<'a> Attention<'a> {
    fn to(client: Arc<dyn Attended>, look: Look<'a>) -> Attention<'a> {
        client.wakes_tasks(false);
        Attention { client, look }
    }

    fn look(mut self, moment: Duration, came: impl Fn() -> bool) {
        let end = deadline(moment);
        loop {
            Arc::clone(&self.client).read_now();
            if came() {
                self.look.found = true;
                return;
            }
            if now() >= end {
                return;
            }
            yield_now();
        }
    }
}

impl Drop for Attention<'_> {
    fn drop(&mut self) {
        self.client.wakes_tasks(true);
    }
}

/// Whether a thread of the process looks. One does at a time: more would take processors from brokers and from each other. A
/// child that is forked while another thread looks does not look.
static LOOKING: AtomicBool = AtomicBool::new(false);

/// Whether it is worth to look.
#[derive(Debug)]
struct Looks {
    one: &'static AtomicBool,
    /// How many were in vain since one that was not.
    misses: AtomicU32,
    /// How many waits to let pass.
    passes: AtomicU32,
}

impl Looks {
    const fn new(one: &'static AtomicBool) -> Looks {
        Looks {
            one,
            misses: AtomicU32::new(0),
            passes: AtomicU32::new(0),
        }
    }

    /// A look, unless this wait is to pass without one. Whoever is counted wrongly by two threads at once loses a look.
    fn begin(&self) -> Option<Look<'_>> {
        let passes = self.passes.load(Ordering::Relaxed);
        if passes > 0 {
            self.passes.store(passes - 1, Ordering::Relaxed);
            return None;
        }
        let taken = self.one.swap(true, Ordering::Acquire);
        (!taken).then(|| Look {
            looks: self,
            found: false,
        })
    }
}

/// One look, in vain unless told otherwise.
struct Look<'a> {
    looks: &'a Looks,
    found: bool,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let Looks {
            one,
            misses,
            passes,
        } = self.looks;
        let missed = match self.found {
            true => 0,
            false => MOST_MISSES.min(misses.load(Ordering::Relaxed) + 1),
        };
        misses.store(missed, Ordering::Relaxed);
        passes.store((1 << missed) - 1, Ordering::Relaxed);
        one.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use super::*;

    /// How many waits pass until the next look, which this then takes.
    fn passing(looks: &Looks, found: bool) -> usize {
        let passed = (0..).find_map(|passed| looks.begin().map(|look| (passed, look)));
        let (passed, mut look) = passed.unwrap();
        look.found = found;
        passed
    }

    #[test]
    fn looks_in_vain_become_rare_until_one_finds_something() {
        static ONE: AtomicBool = AtomicBool::new(false);
        let looks = Looks::new(&ONE);
        let passed: Vec<_> = (0..8).map(|_| passing(&looks, false)).collect();
        assert_eq!(passed, [0, 1, 3, 7, 15, 31, 63, 63]);
        assert_eq!([passing(&looks, true), passing(&looks, true)], [63, 0]);
        assert_eq!([passing(&looks, false), passing(&looks, false)], [0, 1]);
    }

    #[test]
    fn one_thread_looks_at_a_time() {
        static ONE: AtomicBool = AtomicBool::new(false);
        let looks = Looks::new(&ONE);
        let first = looks.begin();
        assert!(first.is_some() && looks.begin().is_none() && looks.begin().is_none());
        drop(first);
        assert!(looks.begin().is_none(), "it was in vain");
        assert!(looks.begin().is_some());
    }

    #[derive(Default)]
    struct Client {
        reads: AtomicUsize,
        quiet: AtomicBool,
    }

    impl Attended for Client {
        fn wakes_tasks(&self, wakes: bool) {
            self.quiet.store(!wakes, Ordering::Relaxed);
        }

        fn read_now(self: Arc<Self>) {
            assert!(self.quiet.load(Ordering::Relaxed));
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thread_reads_what_it_waits_for_and_wakes_tasks_again_afterwards() {
        let client = Arc::new(Client::default());
        let weak: Weak<Client> = Arc::downgrade(&client);
        let sockets = Sockets::of(weak);
        let mut context = Context::from_waker(Waker::noop());
        let waiting = pin!(sockets.offering(&ANSWER, pending::<()>()));
        let offer = poll(waiting, &mut context).unwrap_err();
        static ONE: AtomicBool = AtomicBool::new(false);
        let looks = Looks::new(&ONE);
        let reads = || client.reads.load(Ordering::Relaxed);
        let offered = offer.sockets.0.unwrap().upgrade().unwrap();
        Attention::to(offered, looks.begin().unwrap()).look(Duration::MAX, || reads() == 1);
        assert_eq!(reads(), 1);
        assert!(!client.quiet.load(Ordering::Relaxed));

        // An offer that nobody took is not that of the next wait.
        let _ = pin!(sockets.offering(&ANSWER, pending::<()>())).poll(&mut context);
        let other = poll(pin!(pending::<()>()), &mut context).unwrap_err();
        assert!(other.soon.is_none());
    }
}
