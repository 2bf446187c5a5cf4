//! One connection: a task that dials, reads and writes, and what others need to send on it.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ottla_engine::connection::{Connection, Heard};
use ottla_engine::engine::Event;
use ottla_engine::observe::Observed;
use ottla_engine::sasl::Given;
use ottla_engine::{Config, Dial, Error, Kind};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::Notify;

use crate::buffers::{Buffers, Filling};
use crate::proving::{Giving, Proving, authentication};
use crate::sending::{LinkEngine, Sending};
use crate::transport::{self, Late, Tls, WriteHalf, deadline, hold, now, sleep_until, timeout_at};

/// A read of a large answer that gives less than this has caught up with the network.
const LITTLE: usize = 64 << 10;

/// How long bytes may then pile up in the socket before the next read, as network cards do with their interrupts: to be woken
/// for each segment costs more than what is done with it. Every other connection waits as long at most.
const PILING: Duration = Duration::from_micros(100);

/// What a connection's task shares with the threads that send on it.
#[derive(Default)]
pub(crate) struct Link {
    wake: Notify,
    /// There from the moment the socket is connected.
    sending: OnceLock<Mutex<Sending<WriteHalf>>>,
}

impl Link {
    /// Sends what is due: on this thread if that is allowed and the connection is idle, else by its task.
    pub(crate) fn wake(&self, engine: &impl LinkEngine, at_once: bool) {
        let sending = self.sending.get().filter(|_| at_once);
        // The thread that has it locked is notified as well, and looks again.
        let sent = sending
            .and_then(|sending| sending.try_lock())
            .is_some_and(|mut sending| sending.send_now(engine));
        if !sent {
            self.wake.notify_one();
        }
    }

    /// The connection's task, from dialling to the end, which is always an error.
    pub(crate) async fn run(
        &self,
        engine: &impl LinkEngine,
        dial: &Dial,
        config: &Config,
        tls: Option<&Arc<Tls>>,
        buffers: &Arc<Buffers>,
    ) -> Error {
        if let Some(Err(cause)) = match tls {
            Some(tls) => Some(tls.refresh().await),
            None => None,
        } {
            engine.tell(Observed::CertificatesKept { cause });
        }
        let proving = Proving::new(config, &dial.host);
        let connected = self.connect(dial, config, tls).await;
        let ended = match connected {
            Ok((reader, sending)) => {
                let traffic = Traffic {
                    wake: &self.wake,
                    sending,
                    reader,
                    input: BytesMut::new(),
                    large: None,
                    buffers,
                    proving: &proving,
                    giving: None,
                };
                let ended = traffic.run(engine, config.request_timeout).await;
                sending.lock().stop();
                ended
            }
            Err(cause) => Err(cause),
        };
        match ended {
            Ok(never) => match never {},
            Err(cause) => {
                proving.ended(&cause);
                cause
            }
        }
    }

    async fn connect(
        &self,
        dial: &Dial,
        config: &Config,
        tls: Option<&Arc<Tls>>,
    ) -> Result<(transport::ReadHalf, &Mutex<Sending<WriteHalf>>), Error> {
        let deadline = deadline(dial.timeout);
        let late = |what: &str| {
            let text = format!(
                "{what} within {} ms (socket.connection.setup.timeout.ms)",
                dial.timeout.as_millis()
            );
            Error::new(Kind::Unreachable, text)
        };
        let dialled = timeout_at(deadline, transport::dial(dial, config));
        let dialled = dialled.await.map_err(|Late| late("no connection"))??;
        let mut halves = dialled.halves;
        if let Some(tls) = tls {
            let secured = timeout_at(deadline, transport::secure(tls, &dialled.name, halves));
            halves = secured
                .await
                .map_err(|Late| late("connected, but the TLS handshake was not done"))??;
        }
        let (reader, writer) = halves;
        let now = now();
        let mut connection = Connection::authenticated(
            now,
            &config.client_id,
            deadline.saturating_duration_since(now),
            config.receive_message_max,
            authentication(config)?,
        )?
        .approaching(now, dial.approach, config.api_version_timeout)?;
        if let Some(expected) = &dial.expected {
            connection = connection.expecting(now, &expected.cluster_id, expected.node)?;
        }
        let sending = self
            .sending
            .get_or_init(|| Mutex::new(Sending::new(connection, writer)));
        Ok((reader, sending))
    }
}

/// A connected connection: what its task reads, and what it shares with the threads that send.
struct Traffic<'a, R, W> {
    wake: &'a Notify,
    sending: &'a Mutex<Sending<W>>,
    reader: R,
    input: BytesMut,
    /// A large answer, which goes into a buffer of its own.
    large: Option<Filling>,
    buffers: &'a Arc<Buffers>,
    proving: &'a Proving,
    /// What the authentication needs, while it is looked after.
    giving: Option<Giving>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Traffic<'_, R, W> {
    async fn run(
        mut self,
        engine: &impl LinkEngine,
        request_timeout: Duration,
    ) -> Result<Infallible, Error> {
        let mut asks = true;
        loop {
            let (writes, look) = {
                let mut sending = self.sending.lock();
                // In the middle of a large answer there is nothing new to say.
                if std::mem::take(&mut asks) {
                    sending.fill(engine);
                }
                if let Some(need) = sending.connection.poll_need() {
                    self.giving = Some(self.proving.give(need));
                }
                if self.large.is_none() {
                    self.input.reserve(sending.connection.room(&self.input));
                }
                (sending.has_output(), sending.next_look(request_timeout))
            };
            let sending = self.sending;
            tokio::select! {
                biased;
                emptied = poll_fn(|context| sending.lock().poll_write(context)), if writes => {
                    asks = true;
                    if emptied? {
                        sending.lock().report_written(engine);
                    }
                }
                read = read(&mut self.reader, &mut self.input, &mut self.large) => {
                    asks |= self.take(engine, read)?;
                }
                given = given(&mut self.giving), if self.giving.is_some() => {
                    let now = now();
                    sending.lock().connection.handle_given(now, given)?;
                    self.hear(engine, now);
                    asks = true;
                }
                () = self.wake.notified() => asks = true,
                () = sleep_until(look) => {
                    sending.lock().connection.handle_timeout(now())?;
                    asks = true;
                }
            }
        }
    }

    /// Takes in how a read went; true if there may be something new to send.
    fn take(&mut self, engine: &impl LinkEngine, read: io::Result<usize>) -> Result<bool, Error> {
        match read {
            Ok(0) => Err(self.closed()),
            Ok(_) => self.receive(engine),
            // A peer that refuses what it received may reset instead of closing, as servers that want TLS do.
            Err(cause) if cause.kind() == ErrorKind::ConnectionReset => Err(self.closed()),
            Err(cause) => Err(transport::broken(&cause)),
        }
    }

    /// Takes in what was read; false in the middle of a large answer, where nothing has changed.
    fn receive(&mut self, engine: &impl LinkEngine) -> Result<bool, Error> {
        let now = now();
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
        let answered = self.hear(engine, now);
        self.make_room(answered && !was_large)?;
        outcome.map(|()| true)
    }

    /// Tells the engine what the connection heard; false if that was nothing.
    fn hear(&self, engine: &impl LinkEngine, now: Instant) -> bool {
        let mut answered = false;
        while let Some(heard) = self.heard() {
            answered = true;
            let event = match heard {
                Heard::Ready(versions) => {
                    self.sending.lock().set_ready();
                    Event::Up(versions)
                }
                Heard::Answer {
                    token,
                    response,
                    sizes,
                    ..
                } => Event::Answer {
                    token,
                    response,
                    sizes,
                },
                Heard::Renewed(took) => Event::Renewed(took),
            };
            engine.handle(now, event);
        }
        answered
    }

    /// Gives a large answer that has begun a buffer of its own.
    fn make_room(&mut self, were_small: bool) -> Result<(), Error> {
        let large = self.sending.lock().connection.large(&self.input);
        if let Some(length) = large {
            let begun = self.input.split().split_off(4);
            let mut filling = self.buffers.take(length)?;
            if let Some(place) = filling.rest().get_mut(..begun.len()) {
                place.copy_from_slice(&begun);
                filling.advance(begun.len());
            }
            self.large = Some(filling);
        } else if were_small {
            // A connection with small answers has read all there was: others have a better use for the memory.
            self.buffers.clear();
        }
        Ok(())
    }

    fn heard(&self) -> Option<Heard> {
        self.sending.lock().connection.poll_heard()
    }

    /// The error if the peer closed the connection now.
    fn closed(&self) -> Error {
        let in_answer = !self.input.is_empty() || self.large.is_some();
        self.sending.lock().connection.closed(in_answer)
    }
}

/// What the authentication needed, once.
async fn given(giving: &mut Option<Giving>) -> Result<Given, Error> {
    match giving {
        Some(on_its_way) => {
            let given = on_its_way.await;
            *giving = None;
            given
        }
        None => pending().await,
    }
}

/// Reads into the answer's own buffer if it has one, and never past its end.
async fn read<R: AsyncRead + Unpin>(
    reader: &mut R,
    input: &mut BytesMut,
    large: &mut Option<Filling>,
) -> io::Result<usize> {
    match large {
        Some(filling) => {
            let read = reader.read(filling.rest()).await?;
            filling.advance(read);
            if (1..LITTLE).contains(&read) && filling.rest().len() > LITTLE {
                hold(PILING);
            }
            Ok(read)
        }
        None => reader.read_buf(input).await,
    }
}
