//! An engine behind its lock, and what follows from it: bytes are moved, time is kept, callers are woken. The lock is never held
//! across an await, a system call, compression or a caller's code.
//!
//! ```text
//!   handle ──▶ engine (locked) ◀── links' tasks ◀─▶ sockets
//!                  │   ▲ └─ actions: dial, wake, close ──▶ links' tasks, or sending at once
//!                  │   └── timer's task
//!                  └── changes ──▶ waiters      news ──▶ deliveries      events ──▶ whoever watches
//! ```

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ottla_engine::dispatch::Dispatch;
use ottla_engine::engine::{Event, closed_error};
use ottla_engine::observe::Observed;
use ottla_engine::part::Client;
use ottla_engine::{Action, Change, Config, Dial, Engine, Error, LinkId, Role};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::net::buffers::Buffers;
use crate::net::link::Link;
use crate::net::sending::LinkEngine;
use crate::net::transport::{Tls, now, now_ns, seed};
use crate::runtime::client_ids;
use crate::runtime::events::{Events, Seen, Watch};
use crate::runtime::threads::Threads;
use crate::runtime::timer::{Alarm, keep_time};
use crate::runtime::wait::Waiters;

/// Looks at the engine's lock before a thread sleeps until it is free: a few microseconds.
const SPINS: usize = 100;

/// Work whose results must be handed on outside of the engine's lock. New results come with a [`Change`].
pub(crate) trait Publish: Client + Sized {
    type News: Send;

    fn collect(engine: &mut Engine<Self>) -> Vec<Self::News>;
    fn publish(news: Self::News);
}

impl Publish for ottla_engine::admin::Admin {
    type News = ();

    fn collect(_: &mut Engine<Self>) -> Vec<()> {
        Vec::new()
    }
    fn publish((): ()) {}
}

impl Publish for ottla_engine::consumer::Consumer {
    type News = ();

    fn collect(_: &mut Engine<Self>) -> Vec<()> {
        Vec::new()
    }
    fn publish((): ()) {}
}

impl Publish for ottla_engine::share_consumer::ShareConsumer {
    type News = ();

    fn collect(_: &mut Engine<Self>) -> Vec<()> {
        Vec::new()
    }
    fn publish((): ()) {}
}

/// One client: its engine, connections, tasks and waiting calls.
pub(crate) struct Shell<W: Publish> {
    pub(crate) config: Arc<Config>,
    pub(crate) waiters: Waiters,
    locked: Mutex<Locked<W>>,
    threads: Arc<Threads>,
    links: Mutex<FxHashMap<LinkId, Connected>>,
    tasks: Mutex<JoinSet<()>>,
    watch: Watch,
    /// How many threads are handing on what they took out of the engine.
    publishing: AtomicUsize,
    timer: Notify,
    /// Whether a caller's thread may send. It may not if batches are compressed, which takes time,
    /// or if nobody waits for a response.
    sends_at_once: bool,
    /// `None` for plaintext.
    tls: Option<Arc<Tls>>,
    /// For large responses of all connections.
    buffers: Arc<Buffers>,
}

struct Locked<W> {
    engine: Engine<W>,
    alarm: Alarm,
}

/// What follows from one step of the engine.
struct After<W: Publish> {
    actions: Vec<Action>,
    changes: Vec<Change>,
    news: Vec<W::News>,
    seen: Option<Seen>,
    /// The timer's task would sleep for too long.
    earlier: bool,
}

struct Connected {
    link: Arc<Link>,
    task: Option<AbortHandle>,
}

impl<W: Publish> Shell<W> {
    /// Starts the timer; no connection is made before the engine wants one.
    ///
    /// # Errors
    /// `Kind::Config` for certificates or keys that cannot be used.
    pub(crate) fn start(
        mut config: Config,
        role: Role,
        threads: &Arc<Threads>,
        events: Option<Arc<Events>>,
        engine: impl FnOnce(Arc<Config>, u64) -> Engine<W>,
    ) -> Result<Arc<Shell<W>>, Error> {
        if config.client_id.is_empty() {
            config.client_id = client_ids::default(&config);
        }
        let config = Arc::new(config);
        let tls = Tls::new(&config)?;
        let watch = Watch::new(events, &config.client_id, role);
        let mut engine = engine(Arc::clone(&config), seed());
        watch.listen(engine.observer());
        engine.set_time_of_day(now(), now_ns());
        let shell = Arc::new(Shell {
            locked: Mutex::new(Locked {
                engine,
                alarm: Alarm::default(),
            }),
            sends_at_once: !config.compresses() && config.acks != 0,
            tls,
            // Callers hold what they work on, and the next response is received, while as much as this is fetched ahead.
            buffers: Buffers::new(config.prefetch_max_bytes.saturating_mul(2)),
            config,
            threads: Arc::clone(threads),
            links: Mutex::default(),
            tasks: Mutex::default(),
            waiters: Waiters::new(threads.deadlines()),
            watch,
            publishing: AtomicUsize::new(0),
            timer: Notify::new(),
        });
        let ticking = Arc::clone(&shell).tick();
        shell.tasks.lock().spawn_on(ticking, threads.next());
        Ok(shell)
    }

    async fn tick(self: Arc<Self>) {
        let alarm = || self.locked.lock().alarm.at();
        let ring = || {
            self.locked.lock().alarm.clear();
            self.event(|engine, now| engine.handle_timeout(now));
        };
        keep_time(&self.timer, alarm, ring).await;
    }

    /// Whether everything that left the engine has been handed on.
    pub(crate) fn is_published(&self) -> bool {
        self.publishing.load(Ordering::Acquire) == 0
    }

    /// Runs work that takes processor time, but no longer than a moment, on another thread, unless this is closed. Closing
    /// waits for it.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // The tasks are locked, so that a close after this finds the new task among them.
        if self.locked.lock().engine.closed().is_none() {
            tasks.spawn_blocking_on(work, self.threads.first());
        }
    }

    /// Closes the engine and makes its tasks end. Returns these tasks.
    pub(crate) fn stop(self: &Arc<Self>) -> JoinSet<()> {
        self.event(|engine, now| {
            if engine.closed().is_none() {
                engine.close(now, &closed_error());
            }
        });
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.abort_all();
        tasks
    }

    /// Something happened to the engine from outside.
    fn event(self: &Arc<Self>, f: impl FnOnce(&mut Engine<W>, Instant)) {
        let now = now();
        self.work(false, |engine| f(engine, now));
    }

    /// Runs `f` on the engine and does what follows from it. What there is to send is sent `at_once`, if that may be, by a
    /// caller's thread: tasks have others to look after.
    pub(crate) fn work<R>(
        self: &Arc<Self>,
        at_once: bool,
        f: impl FnOnce(&mut Engine<W>) -> R,
    ) -> R {
        let mut locked = self.lock();
        let result = f(&mut locked.engine);
        let Locked { engine, alarm } = &mut *locked;
        self.watch.listen(engine.observer());
        let earlier = alarm.set(engine.next_timeout());
        // Most records change nothing but their batch.
        if earlier || engine.has_output() {
            let after = self.after(engine, earlier);
            drop(locked);
            self.follow(at_once, after);
        }
        result
    }

    /// The engine's lock. Whoever holds it is done within microseconds, sooner than a waiting thread could be put to sleep
    /// and woken.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Locked<W>> {
        for _ in 0..SPINS {
            if let Some(locked) = self.locked.try_lock() {
                return locked;
            }
            spin_loop();
        }
        self.locked.lock()
    }

    /// Takes out of the engine what follows from its last step.
    fn after(&self, engine: &mut Engine<W>, earlier: bool) -> After<W> {
        let after = After {
            actions: std::iter::from_fn(|| engine.poll_action()).collect(),
            changes: self.changes(engine),
            news: W::collect(engine),
            seen: self.watch.collect(engine.observer()),
            earlier,
        };
        if !after.news.is_empty() {
            // While the engine is locked, so that nobody sees it emptied and this not begun.
            self.publishing.fetch_add(1, Ordering::AcqRel);
        }
        after
    }

    /// Does what follows from a step. What may take longer comes last.
    fn follow(self: &Arc<Self>, at_once: bool, after: After<W>) {
        let is_last = |action: &&Action| at_once && matches!(action, Action::Wake(_));
        for action in after.actions.iter().filter(|action| !is_last(action)) {
            self.act(action, false);
        }
        if after.earlier {
            self.timer.notify_one();
        }
        self.publish(after.news);
        self.waiters.wake(&after.changes);
        if let Some(seen) = after.seen {
            self.watch.tell(seen);
        }
        for action in after.actions.iter().filter(is_last) {
            self.act(action, true);
        }
    }

    /// What changed for waiting callers. The engine is locked, so that a later caller sees the change in it.
    fn changes(&self, engine: &mut Engine<W>) -> Vec<Change> {
        let told = std::iter::from_fn(|| engine.poll_change());
        if self.waiters.is_empty() {
            told.for_each(drop);
            return Vec::new();
        }
        told.collect()
    }

    fn publish(&self, news: Vec<W::News>) {
        if news.is_empty() {
            return;
        }
        for item in news {
            W::publish(item);
        }
        self.publishing.fetch_sub(1, Ordering::AcqRel);
        self.waiters.wake(&[Change::Fate]);
    }

    fn act(self: &Arc<Self>, action: &Action, at_once: bool) {
        match action {
            Action::Dial(link, dial) => self.dial(*link, dial.clone()),
            Action::Wake(link) => self.wake(*link, at_once),
            Action::Close(link) => {
                let gone = self.links.lock().remove(link);
                if let Some(task) = gone.and_then(|connected| connected.task) {
                    task.abort();
                }
            }
        }
    }

    /// Has something sent on a connection.
    fn wake(self: &Arc<Self>, id: LinkId, at_once: bool) {
        let connected = self.links.lock();
        let Some(link) = connected.get(&id).map(|known| Arc::clone(&known.link)) else {
            return;
        };
        drop(connected);
        link.wake(&self.for_link(id), at_once && self.sends_at_once);
    }

    fn dial(self: &Arc<Self>, id: LinkId, dial: Box<Dial>) {
        let link = Arc::new(Link::default());
        let task = Arc::clone(self).connection(id, Arc::clone(&link), dial);
        self.links.lock().insert(id, Connected { link, task: None });
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // Another thread may have closed the link, or everything, before this one came to do what the engine said. With the
        // tasks locked, whoever closes after this look finds the new one among them.
        if !self.locked.lock().engine.has_link(id) {
            self.links.lock().remove(&id);
            return;
        }
        let handle = tasks.spawn_on(task, self.threads.next());
        drop(tasks);
        match self.links.lock().get_mut(&id) {
            Some(connected) => connected.task = Some(handle),
            // It was closed, or failed, in the meantime.
            None => handle.abort(),
        }
    }

    /// A connection's task.
    async fn connection(self: Arc<Self>, id: LinkId, link: Arc<Link>, dial: Box<Dial>) {
        let engine = self.for_link(id);
        let tls = self.tls.as_ref();
        let ended = link.run(&engine, &dial, &self.config, tls, &self.buffers);
        let cause = ended.await;
        let gone = self.links.lock().remove(&id);
        drop((gone, link));
        self.for_link(id).handle(now(), Event::Down(cause));
    }

    fn for_link(self: &Arc<Self>, id: LinkId) -> ForLink<'_, W> {
        ForLink { shell: self, id }
    }
}

/// The engine, as one connection sees it.
struct ForLink<'a, W: Publish> {
    shell: &'a Arc<Shell<W>>,
    id: LinkId,
}

impl<W: Publish> LinkEngine for ForLink<'_, W> {
    fn poll_send(&self, now: Instant) -> Option<Dispatch> {
        self.shell
            .work(false, |engine| engine.poll_send(now, self.id))
    }

    fn handle(&self, now: Instant, event: Event) {
        self.shell
            .work(false, |engine| engine.handle(now, self.id, event));
    }

    fn tell(&self, event: Observed) {
        self.shell
            .work(false, |engine| engine.observer().tell(event));
    }
}
