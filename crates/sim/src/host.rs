//! One client's engine with its connections, as `ottla-client` runs them, but without sockets, tasks and a clock: bytes come in
//! and go out, and the owner keeps time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_engine::connection::{Authentication, Connection, Heard};
use ottla_engine::engine::Event;
use ottla_engine::observe::{Level, Observed};
use ottla_engine::part::Client;
use ottla_engine::release::Approach;
use ottla_engine::sasl::mechanism;
use ottla_engine::{Action, Change, Engine, Error, ErrorCode, Expected, Kind, LinkId};

use crate::chance::Chance;
use crate::meter::inside;
use crate::plant::{ClientSpoil, Plant};

/// What the owner must do for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// Connect to this address, and say how that went.
    Dial {
        /// The link to be.
        link: LinkId,
        /// The host's name.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Write these bytes.
    Send {
        /// The link.
        link: LinkId,
        /// The bytes.
        bytes: Bytes,
    },
    /// Close the connection.
    Close {
        /// The link.
        link: LinkId,
    },
}

/// How a connection ended, as a socket reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed it.
    Closed,
    /// The peer reset it.
    Reset,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a handful of links a client")]
enum Link {
    Dialing {
        until: Instant,
        setup: Duration,
        approach: Approach,
        expected: Option<Expected>,
    },
    Up {
        connection: Connection,
        input: BytesMut,
        ready: bool,
    },
}

/// A client's engine, its connections, and what they want done.
#[derive(Debug)]
pub struct Host<C: Client> {
    /// The engine.
    pub engine: Engine<C>,
    links: BTreeMap<LinkId, Link>,
    outs: VecDeque<Out>,
    observed: VecDeque<Observed>,
    /// What changed for waiting callers since the last look.
    changes: Vec<Change>,
    /// Authentications again, and refusals to authenticate, since the last look.
    logins: (u64, u64),
    chance: Chance,
    spoil: ClientSpoil,
    is_dead: bool,
}

impl<C: Client> Host<C> {
    /// A client that has not connected to anything.
    pub fn new(engine: Engine<C>, chance: Chance, plant: Option<Plant>) -> Host<C> {
        let mut engine = engine;
        engine.observer().listen(Level::Info);
        Host {
            engine,
            links: BTreeMap::new(),
            outs: VecDeque::new(),
            observed: VecDeque::new(),
            changes: Vec::new(),
            logins: (0, 0),
            chance,
            spoil: ClientSpoil::new(plant),
            is_dead: false,
        }
    }

    /// Runs `f` on the engine and does what follows from it.
    pub fn work<R>(&mut self, now: Instant, f: impl FnOnce(&mut Engine<C>) -> R) -> R {
        inside(|| {
            let result = f(&mut self.engine);
            self.follow(now);
            result
        })
    }

    /// Closes the client.
    pub fn close(&mut self, now: Instant) {
        self.work(now, |engine| {
            engine.close(now, &ottla_engine::engine::closed_error());
        });
    }

    /// Its process ends at once: connections close, and nothing happens any more.
    pub fn die(&mut self) {
        self.is_dead = true;
        for link in std::mem::take(&mut self.links).into_keys() {
            self.outs.push_back(Out::Close { link });
        }
    }

    /// Whether its process ended at once.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.engine.closed().is_some()
    }

    /// A dial was successful, or not.
    pub fn dialled(&mut self, now: Instant, link: LinkId, outcome: Result<(), Error>) {
        inside(|| self.take_dialled(now, link, outcome));
    }

    fn take_dialled(&mut self, now: Instant, link: LinkId, outcome: Result<(), Error>) {
        if let Err(cause) = outcome {
            self.down(now, link, cause);
        } else if self.links.contains_key(&link) {
            match self.connect(now, link) {
                Ok(()) => self.fill(now, link),
                Err(cause) => self.down(now, link, cause),
            }
        }
        self.follow(now);
    }

    fn connect(&mut self, now: Instant, link: LinkId) -> Result<(), Error> {
        let Some(Link::Dialing {
            until,
            approach,
            expected,
            ..
        }) = self.links.get(&link)
        else {
            return Ok(());
        };
        let config = self.engine.config();
        let seed = self.chance.number();
        let authentication = mechanism(config)?.map(|mechanism| Authentication {
            mechanism,
            again_within: config.request_timeout,
            seed,
        });
        let mut connection = Connection::authenticated(
            now,
            &config.client_id,
            until.saturating_duration_since(now),
            config.receive_message_max,
            authentication,
        )?
        .approaching(now, *approach, config.api_version_timeout)?;
        if let Some(expected) = expected {
            connection = connection.expecting(now, &expected.cluster_id, expected.node)?;
        }
        let up = Link::Up {
            connection,
            input: BytesMut::new(),
            ready: false,
        };
        self.links.insert(link, up);
        Ok(())
    }

    /// Bytes came in.
    pub fn received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        inside(|| self.take_received(now, link, bytes));
    }

    fn take_received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        let Some(Link::Up {
            connection, input, ..
        }) = self.links.get_mut(&link)
        else {
            return;
        };
        input.extend_from_slice(bytes);
        self.spoil.received(input, bytes);
        let outcome = connection.handle_bytes(now, input);
        self.hear(now, link);
        match outcome {
            Ok(()) => self.fill(now, link),
            Err(cause) => self.down(now, link, cause),
        }
        self.follow(now);
    }

    /// The peer ended the connection.
    pub fn ended(&mut self, now: Instant, link: LinkId, ending: Ending) {
        inside(|| self.take_ended(now, link, ending));
    }

    fn take_ended(&mut self, now: Instant, link: LinkId, ending: Ending) {
        let cause = match self.links.get(&link) {
            None => return,
            Some(Link::Dialing { .. }) => Error::new(Kind::Unreachable, "connection refused"),
            // The shell reads both as the peer's refusal to go on.
            Some(Link::Up {
                connection, input, ..
            }) => connection.closed(!input.is_empty() && ending == Ending::Closed),
        };
        self.down(now, link, cause);
        self.follow(now);
    }

    /// When [`Host::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let links = self.links.values().filter_map(|link| match link {
            Link::Dialing { until, .. } => Some(*until),
            Link::Up { connection, .. } => connection.next_timeout(),
        });
        let engine = self.engine.next_timeout().filter(|_| self.spoil.rings());
        links.chain(engine).min()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, now: Instant) {
        inside(|| self.ring(now));
    }

    fn ring(&mut self, now: Instant) {
        let due: Vec<LinkId> = self.links.keys().copied().collect();
        for link in due {
            let outcome = match self.links.get_mut(&link) {
                Some(Link::Dialing { until, setup, .. }) if *until <= now => {
                    let text = format!("no connection within {} ms", setup.as_millis());
                    Err(Error::new(Kind::Unreachable, text))
                }
                Some(Link::Up { connection, .. })
                    if connection.next_timeout().is_some_and(|at| at <= now) =>
                {
                    connection.handle_timeout(now)
                }
                _ => continue,
            };
            match outcome {
                Ok(()) => self.fill(now, link),
                Err(cause) => self.down(now, link, cause),
            }
        }
        if self.spoil.rings() && self.engine.next_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
        }
        self.follow(now);
    }

    /// The next thing to do for this client.
    pub fn poll_out(&mut self) -> Option<Out> {
        self.outs.pop_front()
    }

    /// The next thing that it observed.
    pub fn poll_observed(&mut self) -> Option<Observed> {
        self.observed.pop_front()
    }

    /// What changed for waiting callers since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// How often it authenticated again, and was refused by a broker, since the last call.
    pub fn take_logins(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.logins)
    }

    /// Whether this link is still wanted.
    pub fn has_link(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    fn down(&mut self, now: Instant, link: LinkId, cause: Error) {
        if self.links.remove(&link).is_none() {
            return;
        }
        self.outs.push_back(Out::Close { link });
        if cause.code() == Some(ErrorCode::SASL_AUTHENTICATION_FAILED) {
            self.logins.1 += 1;
        }
        if self.spoil.tells_end() {
            self.engine.handle(now, link, Event::Down(cause));
        }
    }

    /// Does what follows from a step of the engine, until nothing more follows.
    fn follow(&mut self, now: Instant) {
        while let Some(action) = self.engine.poll_action() {
            if self.is_dead {
                continue;
            }
            match action {
                Action::Dial(link, dial) => {
                    let dialing = Link::Dialing {
                        until: now + dial.timeout,
                        setup: dial.timeout,
                        approach: dial.approach,
                        expected: dial.expected,
                    };
                    let (host, port) = (dial.host, dial.port);
                    self.links.insert(link, dialing);
                    self.outs.push_back(Out::Dial { link, host, port });
                }
                Action::Wake(link) => {
                    if self.spoil.wakes() {
                        self.fill(now, link);
                    }
                }
                Action::Close(link) => {
                    if self.spoil.closes() {
                        self.links.remove(&link);
                        self.outs.push_back(Out::Close { link });
                    }
                }
            }
        }
        while let Some(change) = self.engine.poll_change() {
            self.changes.push(change);
        }
        while let Some(event) = self.engine.observer().poll() {
            self.observed.push_back(event);
        }
    }

    /// Sends what there is to send on a link.
    fn fill(&mut self, now: Instant, id: LinkId) {
        loop {
            let Some(Link::Up {
                connection, ready, ..
            }) = self.links.get_mut(&id)
            else {
                return;
            };
            while let Some(frame) = connection.poll_transmit() {
                let bytes = frame.into_bytes();
                self.outs.push_back(Out::Send { link: id, bytes });
            }
            if let Some(need) = connection.poll_need() {
                // PLAIN needs nothing; what other mechanisms need comes from outside.
                let text = format!("the simulation gives no {need:?}");
                let error = Error::new(Kind::Authentication, text);
                if connection.handle_given(now, Err(error)).is_err() {
                    let cause = Error::new(Kind::Authentication, "nothing was given");
                    return self.down(now, id, cause);
                }
            }
            if !*ready || !connection.is_ready() {
                return;
            }
            let Some(dispatch) = self.engine.poll_send(now, id) else {
                return;
            };
            let token = dispatch.token();
            let spoil = &mut self.spoil;
            let encoded = dispatch.into_outgoing().and_then(|mut outgoing| {
                spoil.request(&mut outgoing);
                connection.send(now, outgoing)
            });
            match encoded {
                Ok(frame) => {
                    let written = connection.handle_written();
                    let bytes = frame.into_bytes();
                    self.outs.push_back(Out::Send { link: id, bytes });
                    for (token, bytes) in written {
                        let event = Event::Written { token, bytes };
                        self.engine.handle(now, id, event);
                    }
                }
                Err(error) => {
                    let event = Event::Unsendable { token, error };
                    self.engine.handle(now, id, event);
                }
            }
        }
    }

    /// Passes to the engine what a connection received.
    fn hear(&mut self, now: Instant, id: LinkId) {
        loop {
            let Some(Link::Up {
                connection, ready, ..
            }) = self.links.get_mut(&id)
            else {
                return;
            };
            let Some(heard) = connection.poll_heard() else {
                return;
            };
            match heard {
                Heard::Renewed(took) => {
                    self.logins.0 += 1;
                    self.engine.handle(now, id, Event::Renewed(took));
                }
                Heard::Ready(versions) => {
                    *ready = true;
                    self.engine.handle(now, id, Event::Up(versions));
                }
                Heard::Answer {
                    token,
                    response,
                    sizes,
                    ..
                } => {
                    if let Some(response) = self.spoil.answer(response) {
                        let event = Event::Answer {
                            token,
                            response,
                            sizes,
                        };
                        self.engine.handle(now, id, event);
                    }
                }
            }
        }
    }
}
