//! One connection to a broker: negotiates versions, authenticates, pairs responses with requests,
//! and notices when either side falls out of step.
//!
//! ```text
//!   the client's transport: dial, then TLS where the listener uses it. Here are the bytes above it.
//! ────────────────────────────────────────────────────────────────────────────────────────────────────
//!   new()
//!     │ ApiVersions 4, or a probe of the broker's age; to a broker of 0.9, GSSAPI's bytes: Authenticating
//!     ▼                  versions, no mechanism
//!   Negotiating ───────────────────────────────────────────┐
//!     │   ▲  │ the next request: see `negotiate`           │
//!     │   └──┘                                             ▼
//!     │ versions                                         Ready ── send ⇄ responses
//!     ▼                   the mechanism is done            │ ▲
//!   Authenticating ───────────────────────────────────────▶│ │
//!     │    ▲ SaslHandshake, SaslAuthenticate …, and what   │ │ the mechanism is done
//!     └────┘ is needed from outside                        │ │
//!                                 the session is near its end│
//!                                                          ▼ │
//!                                            Reauthenticating: waits for responses in flight, then
//!                                                              SaslHandshake, SaslAuthenticate …
//!
//!   from everywhere: closed by the peer, a deadline passed, a bad frame, a response out of step, a refusal ──▶ closed
//! ```
//!
//! The set-up has one deadline, from the first byte to Ready, and until then frames are small. While a connection authenticates
//! again, its owner holds requests back ([`Connection::is_ready`]): brokers take no others between the mechanism's (KIP-368).
//!
//! Whatever closes a connection, everybody gets the first cause. Sources: the protocol guide, KIP-35 and KIP-511
//! (negotiation), KIP-43, KIP-152 and KIP-368 (authentication).

mod authenticate;
pub mod frame;
mod in_flight;
mod negotiate;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_protocol::Frame;

use self::authenticate::{Authenticator, Next};
use self::frame::{LIMIT_AT_FIRST, large, next_frame, room};
use self::in_flight::{InFlight, Overdue, Sent};
use self::negotiate::{Negotiated, Negotiation};
use crate::api::{Request, Response, Versions};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::release::{Approach, Era};
use crate::sasl::{Given, Mechanism, Need};

/// The events that a connection reports to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Versions are known and the broker accepted the client: requests may be sent.
    Ready(Versions),
    /// The response to the request with this token.
    Answer {
        /// The request's token.
        token: u64,
        /// The version of both.
        version: i16,
        /// The response: boxed, as it is moved often.
        response: Box<Response>,
        /// The bytes of the request, and of the response.
        sizes: (usize, usize),
    },
    /// The broker accepted the client again (KIP-368), after this time.
    Renewed(Duration),
}

/// The bytes in front of each frame.
const LENGTH: usize = 4;

/// How a connection authenticates.
#[derive(Debug)]
pub struct Authentication {
    /// Gives and takes the bytes.
    pub mechanism: Box<dyn Mechanism>,
    /// How long each authentication after the first may take. The first is a part of the set-up.
    pub again_within: Duration,
    /// The seed that spreads the times at which connections authenticate again.
    pub seed: u64,
}

impl Authentication {
    /// Whether brokers of 0.9 know it, which is how SASL began; 0.8 knows none.
    fn is_known_to_0_9(&self) -> bool {
        self.mechanism.name() == "GSSAPI"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Negotiating,
    Authenticating,
    Ready,
    Reauthenticating {
        /// All responses have arrived, and the mechanism's bytes are in flight.
        begun: bool,
    },
}

/// The next step that is not a response to a request.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// The broker.
    Broker,
    /// The client, which computes.
    Own,
    /// Code of the caller or another server: what it is, in words.
    Provider(&'static str),
}

/// The state of one connection. Bytes go in and come out; the owner moves them.
#[derive(Debug)]
pub struct Connection {
    client_id: String,
    /// The size limit of a response, once requests may be sent.
    limit: usize,
    stage: Stage,
    /// The deadline of the set-up, and the time that it has in all.
    deadline: Instant,
    within: Duration,
    negotiation: Negotiation,
    /// Until the broker's versions are known.
    authentication: Option<Authentication>,
    authenticator: Option<Authenticator>,
    /// How long a later authentication may take.
    again_within: Duration,
    /// When the client must authenticate again.
    renew_at: Option<Instant>,
    /// The event to report when the first authentication is done.
    welcome: Option<Heard>,
    in_flight: InFlight,
    next_correlation: i32,
    heard: VecDeque<Heard>,
    transmit: VecDeque<Frame>,
    /// What the mechanism needs, until the owner looks after it.
    need: Option<Need>,
    /// Something that is not a request is awaited: what the mechanism needs, or bytes without a header.
    awaits: Option<Awaited>,
    passed_over: u64,
    /// Whether a request of the owner got a response.
    answered: bool,
}

impl Connection {
    /// A connection whose socket has just been connected, to a listener without authentication; the
    /// broker's versions must arrive within `setup`. No response may have more than `limit` bytes.
    ///
    /// # Errors
    /// A client id that does not encode.
    pub fn new(
        now: Instant,
        client_id: &str,
        setup: Duration,
        limit: usize,
    ) -> Result<Connection, Error> {
        Connection::authenticated(now, client_id, setup, limit, None)
    }

    /// A connection whose socket has just been connected; versions and `authentication` must be
    /// done within `setup`. No response may have more than `limit` bytes.
    ///
    /// # Errors
    /// A client id that does not encode.
    pub fn authenticated(
        now: Instant,
        client_id: &str,
        setup: Duration,
        limit: usize,
        authentication: Option<Authentication>,
    ) -> Result<Connection, Error> {
        let mut connection = Connection {
            client_id: client_id.to_owned(),
            limit,
            stage: Stage::Negotiating,
            deadline: now + setup,
            within: setup,
            again_within: authentication
                .as_ref()
                .map_or(setup, |given| given.again_within),
            negotiation: Negotiation::new(Approach::Ask, setup),
            authentication,
            authenticator: None,
            renew_at: None,
            welcome: None,
            in_flight: InFlight::default(),
            next_correlation: 0,
            heard: VecDeque::new(),
            transmit: VecDeque::new(),
            need: None,
            awaits: None,
            passed_over: 0,
            answered: false,
        };
        connection.negotiate(now)?;
        Ok(connection)
    }

    /// Negotiates like this, where ApiVersions may take `within`. For a connection that was just made, before anything was
    /// taken from it to be sent.
    ///
    /// # Errors
    /// A client id that does not encode.
    pub fn approaching(
        mut self,
        now: Instant,
        approach: Approach,
        within: Duration,
    ) -> Result<Connection, Error> {
        self.transmit.clear();
        self.in_flight = InFlight::default();
        self.next_correlation = 0;
        let is_old = matches!(approach, Approach::Probe | Approach::Assume(Era::V0_9));
        let known = |wanted: &mut Authentication| is_old && wanted.is_known_to_0_9();
        if let Some(wanted) = self.authentication.take_if(known) {
            return self.begun_with_mechanism(now, wanted, within);
        }
        // Where another authentication is wanted, nothing can be found out.
        let approach = match self.authentication {
            Some(_) => Approach::Ask,
            None => approach,
        };
        self.negotiation = Negotiation::new(approach, within);
        self.negotiate(now)?;
        Ok(self)
    }

    /// Begins with the mechanism's bytes: if they are accepted, the broker is one of 0.9.
    fn begun_with_mechanism(
        mut self,
        now: Instant,
        wanted: Authentication,
        within: Duration,
    ) -> Result<Connection, Error> {
        self.negotiation = Negotiation::new(Approach::Assume(Era::V0_9), within);
        let authenticator = Authenticator::without_handshake(wanted.mechanism, wanted.seed);
        self.authenticator = Some(authenticator);
        self.welcome = Some(Heard::Ready(Versions::of(Era::V0_9)));
        self.stage = Stage::Authenticating;
        self.begin_authentication(now)?;
        Ok(self)
    }

    /// Sends the cluster and the broker that the connection is meant for (KIP-1242). For a
    /// connection that was just made, before anything was taken from it to be sent.
    ///
    /// # Errors
    /// A client id, or a cluster id, that does not encode.
    pub fn expecting(
        mut self,
        now: Instant,
        cluster_id: &str,
        node: i32,
    ) -> Result<Connection, Error> {
        // Where the broker's age is to be found out first, the client sends other requests.
        if !self.negotiation.asks_for_versions() {
            return Ok(self);
        }
        self.transmit.clear();
        self.in_flight = InFlight::default();
        self.next_correlation = 0;
        let question = negotiate::question_to(cluster_id, node);
        self.ask(now, question, negotiate::EXPECTING)?;
        Ok(self)
    }

    /// Whether requests may be sent now. Not before [`Heard::Ready`], and not while the connection authenticates again; when it
    /// is done with that, bytes have just come in.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Encodes a request and expects its response. The frame is to be written after all earlier
    /// ones.
    ///
    /// # Errors
    /// A request that its version cannot express, or that comes while none may be sent ([`Connection::is_ready`]). The
    /// connection stays usable.
    pub fn send(&mut self, now: Instant, outgoing: Outgoing) -> Result<Frame, Error> {
        if !self.is_ready() {
            let text = "the connection is not ready for requests: it authenticates";
            return Err(Error::new(Kind::Unreachable, text).calling(outgoing.request.api().name()));
        }
        self.encode(now, outgoing)
    }

    /// Takes whole frames off `buffer`.
    ///
    /// # Errors
    /// The stream is out of step or not Kafka's: the connection must be closed.
    pub fn handle_bytes(&mut self, now: Instant, buffer: &mut BytesMut) -> Result<(), Error> {
        while let Some(frame) = next_frame(buffer, self.limit())? {
            self.handle_frame(now, frame)?;
        }
        Ok(())
    }

    /// Takes one whole frame, without its length.
    ///
    /// # Errors
    /// The stream is out of step or not Kafka's, or the broker refuses this client: the connection must be closed.
    pub fn handle_frame(&mut self, now: Instant, frame: Bytes) -> Result<(), Error> {
        if self.is_bare() {
            let authenticator = self.authenticator.as_mut();
            let next = authenticator.map(|known| known.take_bare(frame));
            return next.map_or(Ok(()), |next| self.follow(now, next?));
        }
        let sent = self.in_flight.take(&frame)?;
        match self.stage {
            Stage::Negotiating => self.handle_versions(now, &sent, frame),
            Stage::Authenticating | Stage::Reauthenticating { begun: true } => {
                self.handle_challenge(now, &sent, frame)
            }
            Stage::Ready => self.handle_answer(&sent, frame),
            Stage::Reauthenticating { begun: false } => {
                self.handle_answer(&sent, frame)?;
                self.authenticate_again(now)
            }
        }
    }

    /// What the mechanism needs before it continues, once. The owner gets it elsewhere and passes
    /// it to [`Connection::handle_given`].
    pub fn poll_need(&mut self) -> Option<Need> {
        self.need.take()
    }

    /// Takes what the mechanism needed, or why it cannot be had.
    ///
    /// # Errors
    /// The client cannot authenticate: the connection must be closed.
    pub fn handle_given(&mut self, now: Instant, given: Result<Given, Error>) -> Result<(), Error> {
        let Some(authenticator) = &mut self.authenticator else {
            return Ok(());
        };
        let next = authenticator.given(given)?;
        self.follow(now, next)
    }

    /// How much space to reserve in the read buffer before the next read.
    pub fn room(&self, buffer: &BytesMut) -> usize {
        room(buffer, self.limit(), self.in_flight.expected_bytes())
    }

    /// The size of the frame that begins in `buffer`, if it is worth a buffer of its own: it is large and not whole, and no
    /// larger than what was requested.
    pub fn large(&self, buffer: &BytesMut) -> Option<usize> {
        let length = large(buffer)?;
        let most = self.in_flight.expected_bytes().min(self.limit());
        (length <= most).then_some(length)
    }

    /// The next bytes to write that are no request of the engine: negotiation and authentication.
    pub fn poll_transmit(&mut self) -> Option<Frame> {
        self.transmit.pop_front()
    }

    /// What happened since the last call.
    pub fn poll_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// How many bytes after responses in their frames were skipped. A conforming broker sends none.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.awaits.is_none()
    }

    /// Every frame was written: the tokens of the requests that have no response, and their bytes.
    pub fn handle_written(&mut self) -> Vec<(u64, usize)> {
        self.in_flight.written()
    }

    /// When [`Connection::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let renewal = self.renew_at.filter(|_| self.is_ready());
        let awaited = Some(self.deadline).filter(|_| self.awaits.is_some());
        let others = renewal.into_iter().chain(awaited);
        self.in_flight.deadline().into_iter().chain(others).min()
    }

    /// Notices what is overdue, and begins to authenticate again where that is due: then there may be bytes to transmit.
    ///
    /// # Errors
    /// A response is overdue: the connection must be closed, since later responses cannot be
    /// distinguished from it. Or the broker receives no bytes.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        if let Some(overdue) = self.in_flight.overdue(now) {
            return Err(self.late(&overdue));
        }
        if let Some(awaited) = self.awaits.filter(|_| self.deadline <= now) {
            let mut text = self.not_authenticated();
            if let Awaited::Provider(what) = awaited {
                text.push_str(": the client still waits for ");
                text.push_str(what);
            }
            return Err(Error::new(Kind::Unreachable, text));
        }
        if self.is_ready() && self.renew_at.is_some_and(|at| at <= now) {
            self.stage = Stage::Reauthenticating { begun: false };
            self.authenticate_again(now)?;
        }
        Ok(())
    }

    /// The error if the peer closed the connection now, in the middle of a response or not.
    pub fn closed(&self, in_answer: bool) -> Error {
        let refusal = self.authenticator.as_ref().and_then(Authenticator::closed);
        if let Some(error) = refusal.filter(|_| !in_answer && self.is_bare()) {
            return error;
        }
        let text = match self.stage {
            _ if in_answer => "the connection was closed in the middle of a response",
            Stage::Negotiating => return self.negotiation.closed(),
            Stage::Authenticating | Stage::Reauthenticating { begun: true } => {
                "the broker closed the connection during authentication: it does not accept this user or this mechanism"
            }
            Stage::Ready if !self.answered => {
                "the broker closed the connection at its first request: its listener may want SASL (see security.protocol)"
            }
            Stage::Ready | Stage::Reauthenticating { begun: false } => {
                "the broker closed the connection"
            }
        };
        Error::new(Kind::Unreachable, text)
    }

    /// Frames are small until the peer proved to be a broker and accepted the client.
    fn limit(&self) -> usize {
        match self.stage {
            Stage::Ready | Stage::Reauthenticating { begun: false } => self.limit,
            Stage::Negotiating
            | Stage::Authenticating
            | Stage::Reauthenticating { begun: true } => LIMIT_AT_FIRST.min(self.limit),
        }
    }

    fn encode(&mut self, now: Instant, outgoing: Outgoing) -> Result<Frame, Error> {
        let Outgoing {
            token,
            mut request,
            version,
            timeout,
            answered,
            expected_bytes,
        } = outgoing;
        request.fit(version);
        let api = request.api();
        let correlation = self.next_correlation;
        let frame = request
            .encode(version, correlation, &self.client_id)
            .map_err(|cause| {
                let text = format!("the request does not encode at version {version}: {cause}");
                Error::new(Kind::Argument, text).calling(api.name())
            })?;
        self.next_correlation = correlation.wrapping_add(1);
        let sent = Sent {
            correlation,
            api,
            version,
            token,
            deadline: now + timeout,
            timeout,
            expected_bytes,
            bytes: frame.len(),
        };
        self.in_flight.push(sent, answered);
        Ok(frame)
    }

    /// Sends the first request of the negotiation.
    fn negotiate(&mut self, now: Instant) -> Result<(), Error> {
        let (request, version) = self.negotiation.begin();
        self.ask(now, request, version)
    }

    /// Sends a request of the set-up, which has the time that is left of the whole.
    fn ask(&mut self, now: Instant, request: Request, version: i16) -> Result<(), Error> {
        let left = self.deadline.saturating_duration_since(now);
        let limit = match self.stage {
            Stage::Negotiating => self.negotiation.limit(),
            _ => None,
        };
        let outgoing = Outgoing {
            token: 0,
            request,
            version,
            timeout: limit.map_or(left, |limit| left.min(limit)),
            answered: true,
            expected_bytes: 0,
        };
        let frame = self.encode(now, outgoing)?;
        self.transmit.push_back(frame);
        Ok(())
    }

    fn handle_versions(&mut self, now: Instant, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let left = sent.deadline.saturating_duration_since(now);
        let took = sent.timeout.saturating_sub(left);
        let (next, left) = self.negotiation.take(sent.api, sent.version, frame, took)?;
        self.passed_over += left as u64;
        let versions = match next {
            Negotiated::Ask(request, version) => return self.ask(now, request, version),
            Negotiated::Done(versions) => versions,
        };
        let Some(Authentication {
            mechanism, seed, ..
        }) = self.authentication.take()
        else {
            self.stage = Stage::Ready;
            self.heard.push_back(Heard::Ready(versions));
            return Ok(());
        };
        let authenticator = Authenticator::new(mechanism, &versions, seed)?;
        self.authenticator = Some(authenticator);
        self.welcome = Some(Heard::Ready(versions));
        self.stage = Stage::Authenticating;
        self.begin_authentication(now)
    }

    /// The session is near its end. The responses to requests that were sent before come first.
    fn authenticate_again(&mut self, now: Instant) -> Result<(), Error> {
        if self.in_flight.owes_answers() {
            return Ok(());
        }
        self.stage = Stage::Reauthenticating { begun: true };
        self.within = self.again_within;
        self.deadline = now + self.within;
        self.begin_authentication(now)
    }

    fn begin_authentication(&mut self, now: Instant) -> Result<(), Error> {
        match self.authenticator.as_mut().map(Authenticator::begin) {
            Some(next) => self.follow(now, next?),
            None => Ok(()),
        }
    }

    fn handle_challenge(&mut self, now: Instant, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let response = self.decode(sent, frame)?;
        match self.authenticator.as_mut() {
            Some(authenticator) => {
                let next = authenticator.take(response)?;
                self.follow(now, next)
            }
            None => Ok(()),
        }
    }

    fn follow(&mut self, now: Instant, next: Next) -> Result<(), Error> {
        self.awaits = None;
        let session = match next {
            Next::Ask(request, version) => return self.ask(now, request, version),
            Next::Need(need) => {
                self.awaits = Some(match &need {
                    Need::Outside(question) => Awaited::Provider(question.provider()),
                    Need::Nonce | Need::Stretch(_) => Awaited::Own,
                });
                self.need = Some(need);
                return Ok(());
            }
            Next::Bare(bytes, answered) => {
                self.say(&bytes);
                if answered {
                    self.awaits = Some(Awaited::Broker);
                    return Ok(());
                }
                None
            }
            Next::Authenticated(session) => session,
        };
        // A time beyond the clock's is as good as none.
        self.renew_at = session.and_then(|session| now.checked_add(session));
        if matches!(self.stage, Stage::Reauthenticating { .. }) {
            let begun = self.deadline.checked_sub(self.within).unwrap_or(now);
            let took = now.saturating_duration_since(begun);
            self.heard.push_back(Heard::Renewed(took));
        }
        self.stage = Stage::Ready;
        self.heard.extend(self.welcome.take());
        Ok(())
    }

    /// Sends bytes of the mechanism without a header, but for their length.
    fn say(&mut self, bytes: &Bytes) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut frame = BytesMut::from(&length.to_be_bytes()[..]);
        frame.extend_from_slice(bytes);
        self.transmit.push_back(frame.freeze().into());
    }

    fn is_bare(&self) -> bool {
        let authenticates = matches!(
            self.stage,
            Stage::Authenticating | Stage::Reauthenticating { begun: true }
        );
        let authenticator = self.authenticator.as_ref();
        authenticates && authenticator.is_some_and(Authenticator::is_bare)
    }

    fn handle_answer(&mut self, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let sizes = (sent.bytes, frame.len() + LENGTH);
        let response = Box::new(self.decode(sent, frame)?);
        self.answered = true;
        self.heard.push_back(Heard::Answer {
            token: sent.token,
            version: sent.version,
            response,
            sizes,
        });
        Ok(())
    }

    fn decode(&mut self, sent: &Sent, frame: Bytes) -> Result<Response, Error> {
        let text = match Response::decode(sent.api, sent.version, frame) {
            Some(Ok((response, left))) => {
                self.passed_over += left as u64;
                return Ok(response);
            }
            Some(Err(cause)) => format!(
                "the response at version {} does not decode: {cause}",
                sent.version
            ),
            None => "a response came to a request that this client never sends".to_owned(),
        };
        Err(Error::new(Kind::Protocol, text).calling(sent.api.name()))
    }

    fn late(&self, overdue: &Overdue<'_>) -> Error {
        if let (Overdue::Unanswered(sent), Stage::Negotiating) = (overdue, self.stage) {
            let error = self.negotiation.silent(sent.api, sent.timeout, self.within);
            return error.calling(sent.api.name());
        }
        let (sent, text) = match *overdue {
            Overdue::Unwritten(sent) => (
                sent,
                format!(
                    "the broker did not take the request within request.timeout.ms ({} ms)",
                    sent.timeout.as_millis()
                ),
            ),
            Overdue::Unanswered(sent) => (
                sent,
                match self.stage {
                    Stage::Negotiating
                    | Stage::Authenticating
                    | Stage::Reauthenticating { begun: true } => self.not_authenticated(),
                    Stage::Ready | Stage::Reauthenticating { begun: false } => format!(
                        "no response within request.timeout.ms ({} ms)",
                        sent.timeout.as_millis()
                    ),
                },
            ),
        };
        Error::new(Kind::Unreachable, text).calling(sent.api.name())
    }

    fn not_authenticated(&self) -> String {
        format!(
            "connected, but {} was not done within {} ms (socket.connection.setup.timeout.ms)",
            self.mechanism(),
            self.within.as_millis()
        )
    }

    fn mechanism(&self) -> &'static str {
        let authenticator = self.authenticator.as_ref();
        authenticator.map_or("authentication", Authenticator::mechanism)
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
