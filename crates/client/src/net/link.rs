//! One connection: a task that dials, reads and writes, and what others need to send on it.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ottla_engine::connection::Connection;
use ottla_engine::observe::Observed;
use ottla_engine::sasl::Given;
use ottla_engine::{Config, Dial, Error, Kind};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::net::buffers::Buffers;
use crate::net::credentials_task::{Giving, Proving, authentication};
use crate::net::receiving::{Receiving, hear};
use crate::net::sending::{LinkEngine, Sending};
use crate::net::transport::{self, Late, Tls, WriteHalf, deadline, now, sleep_until, timeout_at};

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
        // Whoever has it locked now, the task is notified, and looks again.
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
                    receiving: Receiving::new(reader, Arc::clone(buffers)),
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

/// A connected connection: what its task shares with callers' threads, and what is its own.
struct Traffic<'a> {
    wake: &'a Notify,
    sending: &'a Mutex<Sending<WriteHalf>>,
    receiving: Receiving,
    proving: &'a Proving,
    /// What the authentication needs, while it is looked after.
    giving: Option<Giving>,
}

impl Traffic<'_> {
    async fn run(
        mut self,
        engine: &impl LinkEngine,
        request_timeout: Duration,
    ) -> Result<Infallible, Error> {
        let mut asks = true;
        loop {
            let (writes, look) = {
                let mut sending = self.sending.lock();
                // In the middle of a large response there is nothing new to report.
                if std::mem::take(&mut asks) {
                    sending.fill(engine);
                }
                if let Some(need) = sending.connection.poll_need() {
                    self.giving = Some(self.proving.give(need));
                }
                (sending.has_output(), sending.next_look(request_timeout))
            };
            let (sending, receiving) = (self.sending, &mut self.receiving);
            tokio::select! {
                biased;
                emptied = poll_fn(|context| sending.lock().poll_write(context)), if writes => {
                    asks = true;
                    if emptied? {
                        sending.lock().report_written(engine);
                    }
                }
                heard = poll_fn(|context| receiving.poll_read(context, engine, sending)) => {
                    asks |= heard?;
                }
                given = given(&mut self.giving), if self.giving.is_some() => {
                    let now = now();
                    sending.lock().connection.handle_given(now, given)?;
                    hear(engine, sending, now);
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
