//! Moves bytes and keeps time for an engine: a task per connection, one for the timer, and a lock that is never held
//! across an await, a system call, compression or a caller's code.
//!
//! ```text
//!   handle ──▶ engine (locked) ◀── connection tasks ◀─▶ sockets
//!                  ▲   └─ actions: dial, wake, close ──▶ connection tasks
//!                  └── timer task
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Buf, Bytes, BytesMut};
use ottla_engine::connection::{Connection, Heard};
use ottla_engine::engine::{Event, Work, closed_error};
use ottla_engine::{Action, Config, Engine, Error, Frame, Kind, LinkId, Role};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep_until, timeout_at};

use crate::buffers::{Buffers, Filling};
use crate::socket;

/// Bytes waiting for the socket at which no more requests are encoded.
const ENOUGH_TO_WRITE: usize = 4 << 20;
/// Segments given to one write.
const SEGMENTS: usize = 64;

/// Work whose results must be handed on outside of the engine's lock.
pub(crate) trait Publish: Work + Sized {
    type News: Send;

    fn collect(engine: &mut Engine<Self>) -> Vec<Self::News>;
    fn publish(news: Self::News);
}

impl Publish for ottla_engine::engine::Questions {
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

struct Shared<W: Publish> {
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
    /// For large answers of all connections.
    buffers: Arc<Buffers>,
}

struct Locked<W> {
    engine: Engine<W>,
    /// When the timer's task will look at the engine.
    armed: Option<Instant>,
}

impl<W: Work> Locked<W> {
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
        self.shared.with(Instant::now(), f)
    }

    /// Runs `f` on the engine; `f` asks the clock itself, if it needs to.
    pub(crate) fn with_clock<R>(&self, f: impl FnOnce(&mut Engine<W>) -> R) -> R {
        self.shared.with_clock(f)
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

    /// Runs work that takes processor time and no longer than a moment on another thread. Closing waits for it.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        let mut tasks = self.shared.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_blocking_on(work, &self.shared.runtime);
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
    fn event<R>(self: &Arc<Self>, now: Instant, f: impl FnOnce(&mut Engine<W>, Instant) -> R) -> R {
        let result = self.with(now, f);
        self.changed.notify_waiters();
        result
    }

    fn with<R>(self: &Arc<Self>, now: Instant, f: impl FnOnce(&mut Engine<W>, Instant) -> R) -> R {
        self.with_clock(|engine| f(engine, now))
    }

    fn with_clock<R>(self: &Arc<Self>, f: impl FnOnce(&mut Engine<W>) -> R) -> R {
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
        for action in actions {
            self.act(action);
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
        result
    }

    fn act(self: &Arc<Self>, action: Action) {
        match action {
            Action::Dial {
                link,
                host,
                port,
                timeout,
            } => self.dial(link, host, port, timeout),
            Action::Wake(link) => {
                if let Some(connected) = self.links.lock().get(&link) {
                    connected.wake.notify_one();
                }
            }
            Action::Close(link) => {
                if let Some(task) = self
                    .links
                    .lock()
                    .remove(&link)
                    .and_then(|connected| connected.task)
                {
                    task.abort();
                }
            }
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
                shared.links.lock().remove(&link);
                shared.event(Instant::now(), |engine, now| {
                    engine.handle(now, link, Event::Down(cause))
                });
            }
        };
        self.links
            .lock()
            .insert(link, Connected { wake, task: None });
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
        let mut traffic = Traffic {
            connection,
            reader,
            writer,
            input: BytesMut::new(),
            large: None,
            buffers: Arc::clone(&self.buffers),
            output: VecDeque::new(),
            unwritten: 0,
            ready: false,
        };
        traffic.run(self, link, wake).await
    }
}

/// The bytes of one connection, both ways.
struct Traffic<R, W> {
    connection: Connection,
    reader: R,
    writer: W,
    input: BytesMut,
    /// A large answer, which goes into a buffer of its own.
    large: Option<Filling>,
    buffers: Arc<Buffers>,
    output: VecDeque<Bytes>,
    unwritten: usize,
    ready: bool,
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
            // In the middle of a large answer there is nothing new to say.
            if std::mem::take(&mut asks) {
                self.fill(shared, link);
            }
            if self.large.is_none() {
                let room = self.connection.room(&self.input);
                self.input.reserve(room);
            }
            let timeout = self.connection.next_timeout();
            tokio::select! {
                biased;
                written = write(&mut self.writer, &self.output), if !self.output.is_empty() => {
                    asks = true;
                    self.drain(written?);
                    if self.output.is_empty() {
                        self.report_written(shared, link);
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
                () = sleep_until(timeout.unwrap_or_else(Instant::now).into()), if timeout.is_some() => {
                    self.connection.handle_timeout(Instant::now())?;
                }
            }
        }
    }

    /// Encodes what there is to send, as long as the socket keeps up.
    fn fill<P: Publish>(&mut self, shared: &Arc<Shared<P>>, link: LinkId) {
        while let Some(frame) = self.connection.poll_transmit() {
            self.push(&frame);
        }
        while self.ready && self.unwritten < ENOUGH_TO_WRITE {
            let now = Instant::now();
            let Some(dispatch) = shared.with(now, |engine, now| engine.poll_send(now, link)) else {
                return;
            };
            let token = dispatch.token();
            let frame = dispatch
                .into_outgoing()
                .and_then(|outgoing| self.connection.send(now, outgoing));
            match frame {
                Ok(frame) => self.push(&frame),
                Err(error) => {
                    shared.event(now, |engine, now| {
                        engine.handle(now, link, Event::Unsendable { token, error })
                    });
                }
            }
        }
    }

    fn push(&mut self, frame: &Frame) {
        self.unwritten += frame.len();
        self.output.extend(frame.segments().iter().cloned());
    }

    fn drain(&mut self, mut written: usize) {
        self.unwritten = self.unwritten.saturating_sub(written);
        while let Some(first) = self.output.front_mut() {
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.output.pop_front();
        }
    }

    fn report_written<P: Publish>(&mut self, shared: &Arc<Shared<P>>, link: LinkId) {
        for token in self.connection.handle_written() {
            shared.event(Instant::now(), |engine, now| {
                engine.handle(now, link, Event::Written { token })
            });
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
        let outcome = match self.large.take_if(|filling| filling.is_whole()) {
            Some(whole) => self.connection.handle_frame(now, whole.freeze()),
            None if self.large.is_some() => return Ok(false),
            None => self.connection.handle_bytes(now, &mut self.input),
        };
        let mut answered = false;
        while let Some(heard) = self.connection.poll_heard() {
            answered = true;
            let event = match heard {
                Heard::Ready(versions) => {
                    self.ready = true;
                    Event::Up(versions)
                }
                Heard::Answer {
                    token, response, ..
                } => Event::Answer { token, response },
            };
            shared.event(now, |engine, now| engine.handle(now, link, event));
        }
        if let Some(length) = self.connection.large(&self.input) {
            let begun = self.input.split().split_off(4);
            let mut filling = self.buffers.take(length);
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

    /// What it means that the peer closed the connection now.
    fn closed(&self) -> Error {
        self.connection
            .closed(!self.input.is_empty() || self.large.is_some())
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

async fn write<W: AsyncWrite + Unpin>(
    writer: &mut W,
    output: &VecDeque<Bytes>,
) -> Result<usize, Error> {
    let mut slices = [IoSlice::new(&[]); SEGMENTS];
    let mut count = 0;
    for (slice, segment) in slices.iter_mut().zip(output) {
        *slice = IoSlice::new(segment);
        count += 1;
    }
    let slices = slices.get(..count).unwrap_or_default();
    match writer.write_vectored(slices).await {
        Ok(0) => Err(Error::new(
            Kind::Unreachable,
            "the connection takes no more bytes",
        )),
        Ok(written) => Ok(written),
        Err(cause) => Err(Error::new(Kind::Unreachable, socket::say(&cause))),
    }
}
