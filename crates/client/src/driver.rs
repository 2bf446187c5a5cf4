//! Moves bytes and keeps time for an engine: a task per connection, one for the timer, and a lock that is never held
//! across an await, a system call, compression or a caller's code. What is sent on a connection has a lock of its own, which
//! callers only try ([`crate::sending`]).
//!
//! ```text
//!   handle ──▶ engine (locked) ◀── connection tasks ◀─▶ sockets
//!                  ▲   └─ actions: dial, wake, close ──▶ connection tasks, or sending at once
//!                  └── timer task
//! ```

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use ottla_engine::connection::{Connection, Heard};
use ottla_engine::engine::{Event, closed_error};
use ottla_engine::part::Client;
use ottla_engine::{Action, Config, Engine, Error, Kind, LinkId, Role};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep_until, timeout_at};

use crate::buffers::{Buffers, Filling};
use crate::sending::Sending;
use crate::socket;

/// Work whose results must be handed on outside of the engine's lock.
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

/// An engine with its tasks. They end when it is closed or dropped.
pub(crate) struct Driver<W: Publish> {
    shared: Arc<Shared<W>>,
}

pub(crate) struct Shared<W: Publish> {
    locked: Mutex<Locked<W>>,
    config: Arc<Config>,
    runtime: Handle,
    links: Mutex<FxHashMap<LinkId, Connected>>,
    tasks: Mutex<JoinSet<()>>,
    /// Something happened that a waiting call may be waiting for.
    changed: Notify,
    /// How many threads are handing on what they took out of the engine.
    publishing: AtomicUsize,
    timer: Notify,
    /// Whether a caller's thread may send. Not what has to be compressed first, which takes its time, and not where nobody
    /// waits for an answer.
    sends_at_once: bool,
    /// For large answers of all connections.
    buffers: Arc<Buffers>,
}

struct Locked<W> {
    engine: Engine<W>,
    /// When the timer's task will look at the engine.
    armed: Option<Instant>,
}

impl<W: Client> Locked<W> {
    /// Notes when the engine wants to be looked at; true if the timer's task would sleep beyond that.
    fn arm(&mut self) -> bool {
        let Some(alarm) = self.engine.next_timeout() else {
            return false;
        };
        let earlier = self.armed.is_none_or(|at| alarm < at);
        if earlier {
            self.armed = Some(alarm);
        }
        earlier
    }
}

struct Connected {
    wake: Arc<Notify>,
    task: Option<AbortHandle>,
    /// There from the moment the socket is connected.
    sending: Option<Arc<Mutex<Sending<OwnedWriteHalf>>>>,
}

impl<W: Publish> fmt::Debug for Driver<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("bootstrap", &self.shared.config.bootstrap)
            .finish_non_exhaustive()
    }
}

impl<W: Publish> Driver<W> {
    /// Starts the tasks of an engine; no connection is made before the engine wants one.
    pub(crate) fn start(
        config: Config,
        role: Role,
        runtime: &Handle,
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
        let config = Arc::new(config);
        let shared = Arc::new(Shared {
            locked: Mutex::new(Locked {
                engine: engine(Arc::clone(&config), seed()),
                armed: None,
            }),
            sends_at_once: !config.compresses() && config.acks != 0,
            buffers: Buffers::new(config.prefetch_max_bytes),
            config,
            runtime: runtime.clone(),
            links: Mutex::new(FxHashMap::default()),
            tasks: Mutex::new(JoinSet::new()),
            changed: Notify::new(),
            publishing: AtomicUsize::new(0),
            timer: Notify::new(),
        });
        shared
            .tasks
            .lock()
            .spawn_on(keep_time(Arc::clone(&shared)), runtime);
        Ok(Driver { shared })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Runs `f` on the engine and does what follows from it.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Engine<W>, Instant) -> R) -> R {
        let now = Instant::now();
        self.shared.work(true, |engine| f(engine, now))
    }

    /// Runs `f` on the engine; `f` asks the clock itself, if it needs to.
    pub(crate) fn with_clock<R>(&self, f: impl FnOnce(&mut Engine<W>) -> R) -> R {
        self.shared.work(true, f)
    }

    /// Whether everything that left the engine has been handed on.
    pub(crate) fn is_published(&self) -> bool {
        self.shared.publishing.load(Ordering::Acquire) == 0
    }

    /// Becomes ready when something happened that a waiting call may be waiting for.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    /// Looks at the engine whenever something happened, until `look` finds a result or the deadline has passed; then
    /// `late` says what to return.
    pub(crate) async fn wait<R>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut Engine<W>, Instant) -> Option<R>,
        late: impl FnOnce(&mut Engine<W>, Instant) -> R,
    ) -> R {
        loop {
            let mut changed = pin!(self.changed());
            // Before looking, so that nothing that happens afterwards is missed.
            changed.as_mut().enable();
            if let Some(found) = self.with(&mut look) {
                return found;
            }
            if timeout_at(deadline.into(), changed).await.is_err() {
                return self
                    .with(|engine, now| look(engine, now).unwrap_or_else(|| late(engine, now)));
            }
        }
    }

    /// Runs work that takes processor time, but no longer than a moment, on another thread, unless this is closed. Closing
    /// waits for it.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        let mut tasks = self.shared.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // With the tasks locked, so that whoever closes afterwards finds it among them.
        if self.shared.locked.lock().engine.closed().is_none() {
            tasks.spawn_blocking_on(work, &self.shared.runtime);
        }
    }

    /// Closes the engine and joins every task, within `timeout`.
    pub(crate) async fn close(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = deadline(timeout);
        self.stop();
        let mut tasks = std::mem::take(&mut *self.shared.tasks.lock());
        tasks.abort_all();
        let joined = timeout_at(deadline.into(), async {
            while tasks.join_next().await.is_some() {}
        })
        .await;
        joined.map_err(|_| {
            Error::new(
                Kind::Timeout,
                format!("tasks did not end within {} ms", timeout.as_millis()),
            )
        })
    }

    fn stop(&self) {
        self.shared.event(Instant::now(), |engine, now| {
            if engine.closed().is_none() {
                engine.close(now, &closed_error());
            }
        });
    }
}

impl<W: Publish> Drop for Driver<W> {
    fn drop(&mut self) {
        self.stop();
        self.shared.tasks.lock().abort_all();
    }
}

/// The end of a wait that begins now. A wait too long for the clock is as good as one of a hundred years.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    Instant::now() + timeout.min(LONG)
}

/// Chance begins with the time of day and where in memory things are: enough for jitter.
fn seed() -> u64 {
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let place = std::ptr::from_ref(&time) as u64;
    u64::from(time.subsec_nanos()) ^ time.as_secs().rotate_left(32) ^ place.rotate_left(17)
}

async fn keep_time<W: Publish>(shared: Arc<Shared<W>>) {
    loop {
        let next = shared.locked.lock().armed;
        match next {
            Some(at) => {
                tokio::select! {
                    biased;
                    () = shared.timer.notified() => continue,
                    () = sleep_until(at.into()) => {}
                }
            }
            None => {
                shared.timer.notified().await;
                continue;
            }
        }
        shared.locked.lock().armed = None;
        shared.event(Instant::now(), |engine, now| engine.handle_timeout(now));
    }
}

impl<W: Publish> Shared<W> {
    /// Something happened to the engine from outside: waiting calls look again.
    pub(crate) fn event<R>(
        self: &Arc<Self>,
        now: Instant,
        f: impl FnOnce(&mut Engine<W>, Instant) -> R,
    ) -> R {
        let result = self.with(now, f);
        self.changed.notify_waiters();
        result
    }

    pub(crate) fn with<R>(
        self: &Arc<Self>,
        now: Instant,
        f: impl FnOnce(&mut Engine<W>, Instant) -> R,
    ) -> R {
        self.work(false, |engine| f(engine, now))
    }

    /// Runs `f` on the engine and does what follows from it. What there is to send is sent `at_once`, if that may be, by a
    /// caller's thread: tasks have others to look after.
    fn work<R>(self: &Arc<Self>, at_once: bool, f: impl FnOnce(&mut Engine<W>) -> R) -> R {
        let mut actions = Vec::new();
        let (result, news, earlier) = {
            let mut locked = self.locked.lock();
            let result = f(&mut locked.engine);
            while let Some(action) = locked.engine.poll_action() {
                actions.push(action);
            }
            let news = W::collect(&mut locked.engine);
            if !news.is_empty() {
                // While the engine is locked, so that nobody sees it emptied and this not begun.
                self.publishing.fetch_add(1, Ordering::AcqRel);
            }
            (result, news, locked.arm())
        };
        // What may take longer comes last.
        let (sends, others): (Vec<_>, Vec<_>) = actions
            .into_iter()
            .partition(|action| at_once && matches!(action, Action::Wake(_)));
        for action in others {
            self.act(action, false);
        }
        if earlier {
            self.timer.notify_one();
        }
        if !news.is_empty() {
            for item in news {
                W::publish(item);
            }
            self.publishing.fetch_sub(1, Ordering::AcqRel);
            self.changed.notify_waiters();
        }
        for action in sends {
            self.act(action, true);
        }
        result
    }

    fn act(self: &Arc<Self>, action: Action, at_once: bool) {
        match action {
            Action::Dial {
                link,
                host,
                port,
                timeout,
            } => self.dial(link, host, port, timeout),
            Action::Wake(link) => self.wake(link, at_once),
            Action::Close(link) => {
                let gone = self.links.lock().remove(&link);
                if let Some(task) = gone.and_then(|connected| connected.task) {
                    task.abort();
                }
            }
        }
    }

    /// Has something sent on a connection: here and now if that may be and the connection is idle, else by its task.
    fn wake(self: &Arc<Self>, link: LinkId, at_once: bool) {
        let (sending, wake) = match self.links.lock().get(&link) {
            Some(connected) => (connected.sending.clone(), Arc::clone(&connected.wake)),
            None => return,
        };
        let sent = sending
            .filter(|_| at_once && self.sends_at_once)
            .is_some_and(|sending| match sending.try_lock() {
                Some(mut sending) => sending.send_now(self, link),
                // Whoever has it locked is told as well, and looks again.
                None => false,
            });
        if !sent {
            wake.notify_one();
        }
    }

    fn dial(self: &Arc<Self>, link: LinkId, host: String, port: u16, timeout: Duration) {
        let wake = Arc::new(Notify::new());
        let task = {
            let (shared, wake) = (Arc::clone(self), Arc::clone(&wake));
            async move {
                let cause = match shared.run(link, &host, port, timeout, &wake).await {
                    Ok(never) => match never {},
                    Err(cause) => cause,
                };
                let gone = shared.links.lock().remove(&link);
                drop(gone);
                shared.event(Instant::now(), |engine, now| {
                    engine.handle(now, link, Event::Down(cause))
                });
            }
        };
        self.links.lock().insert(
            link,
            Connected {
                wake,
                task: None,
                sending: None,
            },
        );
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // Another thread may have closed the link, or everything, before this one came to do what the engine said. With the
        // tasks locked, whoever closes after this look finds the new one among them.
        if !self.locked.lock().engine.has_link(link) {
            self.links.lock().remove(&link);
            return;
        }
        let handle = tasks.spawn_on(task, &self.runtime);
        drop(tasks);
        match self.links.lock().get_mut(&link) {
            Some(connected) => connected.task = Some(handle),
            // It was closed, or failed, in the meantime.
            None => handle.abort(),
        }
    }

    /// One connection, from dialling to its end, which is always an error.
    async fn run(
        self: &Arc<Self>,
        link: LinkId,
        host: &str,
        port: u16,
        timeout: Duration,
        wake: &Notify,
    ) -> Result<std::convert::Infallible, Error> {
        let deadline = deadline(timeout);
        let late = |_| {
            let text = format!(
                "no connection within {} ms (socket.connection.setup.timeout.ms)",
                timeout.as_millis()
            );
            Error::new(Kind::Unreachable, text)
        };
        let stream = timeout_at(deadline.into(), socket::dial(host, port, &self.config))
            .await
            .map_err(late)??;
        let (reader, writer) = stream.into_split();
        let now = Instant::now();
        let connection = Connection::new(
            now,
            &self.config.client_id,
            deadline.saturating_duration_since(now),
            self.config.receive_message_max,
        )?;
        let sending = Arc::new(Mutex::new(Sending::new(connection, writer)));
        if let Some(connected) = self.links.lock().get_mut(&link) {
            connected.sending = Some(Arc::clone(&sending));
        }
        let mut traffic = Traffic {
            sending,
            reader,
            input: BytesMut::new(),
            large: None,
            buffers: Arc::clone(&self.buffers),
        };
        let ended = traffic.run(self, link, wake).await;
        traffic.sending.lock().stop();
        ended
    }
}

/// One connection: what its task reads, and what it shares with those who send.
struct Traffic<R, W> {
    sending: Arc<Mutex<Sending<W>>>,
    reader: R,
    input: BytesMut,
    /// A large answer, which goes into a buffer of its own.
    large: Option<Filling>,
    buffers: Arc<Buffers>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Traffic<R, W> {
    async fn run<P: Publish>(
        &mut self,
        shared: &Arc<Shared<P>>,
        link: LinkId,
        wake: &Notify,
    ) -> Result<std::convert::Infallible, Error> {
        let mut asks = true;
        loop {
            let (writes, look) = {
                let mut sending = self.sending.lock();
                // In the middle of a large answer there is nothing new to say.
                if std::mem::take(&mut asks) {
                    sending.fill(shared, link);
                }
                if self.large.is_none() {
                    self.input.reserve(sending.connection.room(&self.input));
                }
                let look = sending.next_look(shared.config.request_timeout);
                (sending.has_output(), look)
            };
            tokio::select! {
                biased;
                emptied = poll_fn(|context| self.sending.lock().poll_write(context)), if writes => {
                    asks = true;
                    if emptied? {
                        self.sending.lock().report_written(shared, link);
                    }
                }
                read = read(&mut self.reader, &mut self.input, &mut self.large) => match read {
                    Ok(0) => return Err(self.closed()),
                    Ok(_) => asks |= self.receive(shared, link)?,
                    // Who refuses what it was sent may reset instead of closing, as servers that want TLS do.
                    Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionReset => return Err(self.closed()),
                    Err(cause) => return Err(Error::new(Kind::Unreachable, socket::say(&cause))),
                },
                () = wake.notified() => asks = true,
                () = sleep_until(look.into()) => {
                    self.sending.lock().connection.handle_timeout(Instant::now())?;
                    asks = true;
                }
            }
        }
    }

    /// Takes in what was read; false in the middle of a large answer, where nothing has changed.
    fn receive<P: Publish>(
        &mut self,
        shared: &Arc<Shared<P>>,
        link: LinkId,
    ) -> Result<bool, Error> {
        let now = Instant::now();
        let was_large = self.large.is_some();
        let whole = self.large.take_if(|filling| filling.is_whole());
        if whole.is_none() && was_large {
            return Ok(false);
        }
        let outcome = {
            let mut sending = self.sending.lock();
            let outcome = match whole {
                Some(whole) => sending.connection.handle_frame(now, whole.freeze()),
                None => sending.connection.handle_bytes(now, &mut self.input),
            };
            if outcome.is_err() {
                sending.stop();
            }
            outcome
        };
        let mut answered = false;
        while let Some(heard) = self.heard() {
            answered = true;
            let event = match heard {
                Heard::Ready(versions) => {
                    self.sending.lock().set_ready();
                    Event::Up(versions)
                }
                Heard::Answer {
                    token, response, ..
                } => Event::Answer { token, response },
            };
            shared.event(now, |engine, now| engine.handle(now, link, event));
        }
        let large = self.sending.lock().connection.large(&self.input);
        if let Some(length) = large {
            let begun = self.input.split().split_off(4);
            let mut filling = self.buffers.take(length)?;
            if let Some(place) = filling.rest().get_mut(..begun.len()) {
                place.copy_from_slice(&begun);
                filling.advance(begun.len());
            }
            self.large = Some(filling);
        } else if answered && !was_large {
            // Who gets small answers has read all there was: the memory is better used by others.
            self.buffers.clear();
        }
        outcome.map(|()| true)
    }

    fn heard(&self) -> Option<Heard> {
        self.sending.lock().connection.poll_heard()
    }

    /// What it means that the peer closed the connection now.
    fn closed(&self) -> Error {
        let in_answer = !self.input.is_empty() || self.large.is_some();
        self.sending.lock().connection.closed(in_answer)
    }
}

/// Reads into the answer's own buffer if it has one, and never past its end.
async fn read<R: AsyncRead + Unpin>(
    reader: &mut R,
    input: &mut BytesMut,
    large: &mut Option<Filling>,
) -> std::io::Result<usize> {
    match large {
        Some(filling) => {
            let read = reader.read(filling.rest()).await?;
            filling.advance(read);
            Ok(read)
        }
        None => reader.read_buf(input).await,
    }
}
