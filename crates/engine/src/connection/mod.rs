//! One connection to a broker: negotiates versions, authenticates, pairs answers with requests, and notices when either side
//! falls out of step.
//!
//! ```text
//!   the client's transport: dial, then TLS where the listener speaks it. Here are the bytes above it.
//! ────────────────────────────────────────────────────────────────────────────────────────────────────
//!   new()
//!     │ ApiVersions 4
//!     ▼                  versions, no mechanism
//!   Negotiating ───────────────────────────────────────────┐
//!     │   ▲  │ error 35: ask at a lower version            │
//!     │   └──┘                                             ▼
//!     │ versions                                         Ready ── send ⇄ answers
//!     ▼                   the mechanism is done            │ ▲
//!   Authenticating ───────────────────────────────────────▶│ │
//!     │    ▲ SaslHandshake, SaslAuthenticate …             │ │ the mechanism is done
//!     └────┘                      the session is near its end│
//!                                                          ▼ │
//!                                            Reauthenticating: waits for the answers under way, then
//!                                                              SaslHandshake, SaslAuthenticate …
//!
//!   from everywhere: closed by the peer, a deadline passed, a bad frame, an answer out of step, a refusal ──▶ closed
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
use self::negotiate::Negotiated;
use crate::api::{Request, Response, Versions};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::sasl::Mechanism;

/// The events that a connection reports to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Versions are known and the broker accepted the client: requests may be sent.
    Ready(Versions),
    /// The answer to the request with this token.
    Answer {
        /// The request's token.
        token: u64,
        /// The version of both.
        version: i16,
        /// The answer.
        response: Response,
    },
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Negotiating,
    Authenticating,
    Ready,
    Reauthenticating {
        /// All answers are there, and the mechanism's bytes are on their way.
        begun: bool,
    },
}

/// The state of one connection. Bytes go in and come out; the owner moves them.
#[derive(Debug)]
pub struct Connection {
    client_id: String,
    /// The most bytes of an answer, once requests may be sent.
    limit: usize,
    stage: Stage,
    /// The deadline of the set-up, and the time that it has in all.
    deadline: Instant,
    within: Duration,
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
    passed_over: u64,
    /// Whether a request of the owner was answered.
    answered: bool,
}

impl Connection {
    /// A connection whose socket has just been connected, to a listener that wants no authentication; the broker's versions
    /// must arrive within `setup`. No answer may have more than `limit` bytes.
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

    /// A connection whose socket has just been connected; versions and `authentication` must be done within `setup`. No answer
    /// may have more than `limit` bytes.
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
            authentication,
            authenticator: None,
            renew_at: None,
            welcome: None,
            in_flight: InFlight::default(),
            next_correlation: 0,
            heard: VecDeque::new(),
            transmit: VecDeque::new(),
            passed_over: 0,
            answered: false,
        };
        connection.ask(now, negotiate::question(), negotiate::FIRST)?;
        Ok(connection)
    }

    /// Whether requests may be sent now. Not before [`Heard::Ready`], and not while the connection authenticates again; when it
    /// is done with that, bytes have just come in.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Encodes a request and expects its answer. The frame is to be written after all earlier ones.
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

    /// How much room to make in the read buffer before the next read.
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

    /// The next bytes to write that no request asked for: negotiation and authentication.
    pub fn poll_transmit(&mut self) -> Option<Frame> {
        self.transmit.pop_front()
    }

    /// What happened since the last call.
    pub fn poll_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// How many bytes after answers in their frames were skipped. A sound broker sends none.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Every frame was written: the tokens of the requests that have no answer.
    pub fn handle_written(&mut self) -> Vec<u64> {
        self.in_flight.written()
    }

    /// When [`Connection::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let renewal = self.renew_at.filter(|_| self.is_ready());
        self.in_flight.deadline().into_iter().chain(renewal).min()
    }

    /// Notices what is overdue, and begins to authenticate again where that is due: then there may be bytes to transmit.
    ///
    /// # Errors
    /// An answer is overdue: the connection must be closed, for the answers behind it can never be told apart from it.
    /// Or the broker takes no bytes.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        if let Some(overdue) = self.in_flight.overdue(now) {
            return Err(self.late(&overdue));
        }
        if self.is_ready() && self.renew_at.is_some_and(|at| at <= now) {
            self.stage = Stage::Reauthenticating { begun: false };
            self.authenticate_again(now)?;
        }
        Ok(())
    }

    /// The error if the peer closed the connection now, in the middle of an answer or not.
    pub fn closed(&self, in_answer: bool) -> Error {
        let text = match self.stage {
            _ if in_answer => "the connection was closed in the middle of an answer",
            Stage::Negotiating => {
                "the connection was closed when it asked for the broker's versions: the port wants TLS, the broker is older \
                 than 0.10, or it is not a Kafka broker"
            }
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
        };
        self.in_flight.push(sent, answered);
        Ok(frame)
    }

    /// Sends a request of the set-up, which has the time that is left of the whole.
    fn ask(&mut self, now: Instant, request: Request, version: i16) -> Result<(), Error> {
        let outgoing = Outgoing {
            token: 0,
            request,
            version,
            timeout: self.deadline.saturating_duration_since(now),
            answered: true,
            expected_bytes: 0,
        };
        let frame = self.encode(now, outgoing)?;
        self.transmit.push_back(frame);
        Ok(())
    }

    fn handle_versions(&mut self, now: Instant, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let (negotiated, left) = negotiate::take(sent.version, frame)?;
        self.passed_over += left as u64;
        let versions = match negotiated {
            Negotiated::AskAt(lower) => return self.ask(now, negotiate::question(), lower),
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

    /// The session is near its end. Requests that were sent before are answered first.
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
            Some((request, version)) => self.ask(now, request, version),
            None => Ok(()),
        }
    }

    fn handle_challenge(&mut self, now: Instant, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let response = self.decode(sent, frame)?;
        let Some(authenticator) = &mut self.authenticator else {
            return Ok(());
        };
        let session = match authenticator.take(response)? {
            Next::Ask(request, version) => return self.ask(now, request, version),
            Next::Authenticated(session) => session,
        };
        // A time beyond the clock's is as good as none.
        self.renew_at = session.and_then(|session| now.checked_add(session));
        self.stage = Stage::Ready;
        self.heard.extend(self.welcome.take());
        Ok(())
    }

    fn handle_answer(&mut self, sent: &Sent, frame: Bytes) -> Result<(), Error> {
        let response = self.decode(sent, frame)?;
        self.answered = true;
        self.heard.push_back(Heard::Answer {
            token: sent.token,
            version: sent.version,
            response,
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
                "the answer at version {} does not decode: {cause}",
                sent.version
            ),
            None => "an answer came to a request that this client never sends".to_owned(),
        };
        Err(Error::new(Kind::Protocol, text).calling(sent.api.name()))
    }

    fn late(&self, overdue: &Overdue<'_>) -> Error {
        let within = self.within.as_millis();
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
                    Stage::Negotiating => format!(
                        "connected, but no answer to ApiVersions within {within} ms: not a Kafka broker, one \
                         older than 0.10, or one that is overloaded"
                    ),
                    Stage::Authenticating | Stage::Reauthenticating { begun: true } => format!(
                        "connected, but {} was not done within {within} ms (socket.connection.setup.timeout.ms)",
                        self.mechanism()
                    ),
                    Stage::Ready | Stage::Reauthenticating { begun: false } => format!(
                        "no answer within request.timeout.ms ({} ms)",
                        sent.timeout.as_millis()
                    ),
                },
            ),
        };
        Error::new(Kind::Unreachable, text).calling(sent.api.name())
    }

    fn mechanism(&self) -> &'static str {
        let authenticator = self.authenticator.as_ref();
        authenticator.map_or("authentication", Authenticator::mechanism)
    }
}

#[cfg(test)]
mod tests;
