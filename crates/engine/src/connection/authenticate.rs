//! One authentication of a connection: names the mechanism, then carries its bytes to and fro.
//!
//! ```text
//! begin() ── SaslHandshake ──▶ Naming ── the mechanism's first bytes ──▶ Exchanging ── it is done ──▶ Authenticated
//!                                          │    ▲                         │   ▲  │
//!                                          ▼    │ given()                 │   │  │ SaslAuthenticate 0 to 2, or bare bytes
//!                                        what it needs from outside ◀─────┘   └──┘
//! ```
//!
//! Sources: KIP-43 (SaslHandshake), KIP-152 (SaslAuthenticate, brokers since 1.0), KIP-368
//! (`session_lifetime_ms`). Brokers before 1.0 know SaslHandshake 0 only, after which both sides
//! send the mechanism's bytes with nothing but their length before them. Such a broker refuses a
//! client by closing the connection. 0.9 knows no SaslHandshake and no mechanism but GSSAPI, whose
//! bytes are the first of the connection; newer brokers still accept this form.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, ErrorCode};

use crate::api::{Request, Response, Versions};
use crate::error::{Error, Kind};
use crate::random::Random;
use crate::sasl::{Given, Mechanism, Need, Step, refused};

/// The most of a broker's session that passes before the connection is authenticated again, in percent.
const LATEST_PERCENT: u64 = 95;
/// Connections that were made together reconnect at different times: within this many percent.
const SPREAD_PERCENT: usize = 10;
/// Sessions shorter than this are not renewed: the broker would receive nothing but
/// authentications.
const SHORTEST_SESSION: Duration = Duration::from_millis(100);
/// The size limit of a challenge: more than a Kerberos token with many groups.
const LONGEST_CHALLENGE: usize = 64 << 10;
/// The number of challenges that a broker may send in one authentication.
const MOST_CHALLENGES: u32 = 16;

/// The client's authentication, and when it must be renewed.
#[derive(Debug)]
pub(super) struct Authenticator {
    mechanism: Box<dyn Mechanism>,
    /// The version of SaslHandshake; `None` where the mechanism's bytes are the first.
    handshake: Option<i16>,
    /// The version of SaslAuthenticate; `None` where the mechanism's bytes are sent as they are.
    authenticate: Option<i16>,
    stage: Stage,
    challenges: u32,
    random: Random,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Naming,
    /// Something is needed from outside.
    Needing,
    Exchanging {
        /// The mechanism has sent its last message.
        last: bool,
    },
}

/// What follows after a response.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time for a connection")]
pub(super) enum Next {
    /// This is to be sent, at this version.
    Ask(Request, i16),
    /// Bytes to send without a frame header; the flag is whether the response has none either.
    Bare(Bytes, bool),
    /// This is needed first; [`Authenticator::given`] takes it.
    Need(Need),
    /// The broker accepted the client. If it limits the session: the time until the client must authenticate again.
    Authenticated(Option<Duration>),
}

impl Authenticator {
    /// An authentication in the `versions` that the broker supports. `seed` seeds its random
    /// choices.
    ///
    /// # Errors
    /// The broker takes no authentication.
    pub(super) fn new(
        mechanism: Box<dyn Mechanism>,
        versions: &Versions,
        seed: u64,
    ) -> Result<Authenticator, Error> {
        let handshake = versions.choose(ApiKey::SaslHandshake, i16::MAX)?;
        let authenticate = match handshake {
            0 => None,
            _ => Some(versions.choose(ApiKey::SaslAuthenticate, i16::MAX)?),
        };
        Ok(Authenticator {
            handshake: Some(handshake),
            authenticate,
            ..Authenticator::without_handshake(mechanism, seed)
        })
    }

    /// An authentication with a broker of 0.9.
    pub(super) fn without_handshake(mechanism: Box<dyn Mechanism>, seed: u64) -> Authenticator {
        Authenticator {
            mechanism,
            handshake: None,
            authenticate: None,
            stage: Stage::Naming,
            challenges: 0,
            random: Random::new(seed),
        }
    }

    /// The mechanism's name.
    pub(super) fn mechanism(&self) -> &'static str {
        self.mechanism.name()
    }

    /// Whether the next bytes of the broker are the mechanism's own, without a header.
    pub(super) fn is_bare(&self) -> bool {
        self.authenticate.is_none() && matches!(self.stage, Stage::Exchanging { .. })
    }

    /// Begins an authentication, the first or another.
    ///
    /// # Errors
    /// The mechanism cannot begin.
    pub(super) fn begin(&mut self) -> Result<Next, Error> {
        self.stage = Stage::Naming;
        self.challenges = 0;
        let Some(version) = self.handshake else {
            return self.begin_mechanism();
        };
        let request = SaslHandshakeRequest {
            mechanism: self.mechanism.name().into(),
        };
        Ok(Next::Ask(Request::SaslHandshake(request), version))
    }

    fn begin_mechanism(&mut self) -> Result<Next, Error> {
        let step = self.mechanism.begin();
        let step = step.map_err(|error| self.failed(error))?;
        Ok(self.follow(step, 0))
    }

    /// Handles the response to the last request.
    ///
    /// # Errors
    /// The broker refuses, or the mechanism does.
    pub(super) fn take(&mut self, response: Response) -> Result<Next, Error> {
        match (self.stage, response) {
            (Stage::Naming, Response::SaslHandshake(answer)) => self.take_names(&answer),
            (Stage::Exchanging { last }, Response::SaslAuthenticate(answer)) => {
                self.take_challenge(answer, last)
            }
            _ => Err(Error::new(
                Kind::Protocol,
                "a response came that does not belong to the authentication",
            )),
        }
    }

    /// Handles a response without a header.
    ///
    /// # Errors
    /// The mechanism refuses it.
    pub(super) fn take_bare(&mut self, challenge: Bytes) -> Result<Next, Error> {
        let step = self.challenged(challenge)?;
        Ok(self.follow(step, 0))
    }

    /// Takes what was needed.
    ///
    /// # Errors
    /// It could not be had, or the mechanism refuses it.
    pub(super) fn given(&mut self, given: Result<Given, Error>) -> Result<Next, Error> {
        if self.stage != Stage::Needing {
            return Err(Error::new(
                Kind::Protocol,
                "something came that the authentication does not need",
            ));
        }
        let step = given
            .and_then(|given| self.mechanism.take(given))
            .map_err(|error| self.failed(error))?;
        Ok(self.follow(step, 0))
    }

    /// The error if the broker closes the connection now, where that is how it refuses.
    pub(super) fn closed(&self) -> Option<Error> {
        if !self.is_bare() {
            return None;
        }
        let advice = self.mechanism.advice();
        let error = if self.handshake.is_some() {
            refused(format!(
                "the broker closed the connection, as brokers before 1.0 do to refuse: {advice}"
            ))
        } else {
            let text = format!(
                "the connection was closed when it asked for the broker's versions, and another on the first bytes of GSSAPI, as \
                 brokers of Kafka 0.9 do to refuse: {advice}; or the port wants TLS (security.protocol=SASL_SSL), or it is not \
                 a Kafka broker"
            );
            Error::new(Kind::Unreachable, text)
        };
        Some(self.failed(error))
    }

    fn take_names(&mut self, answer: &SaslHandshakeResponse) -> Result<Next, Error> {
        let code = ErrorCode(answer.error_code);
        if code == ErrorCode::UNSUPPORTED_SASL_MECHANISM {
            let offered: Vec<_> = answer.mechanisms.iter().map(|name| name.as_str()).collect();
            let offered = match offered.as_slice() {
                [] => "no mechanism".to_owned(),
                names => names.join(", "),
            };
            let text = format!(
                "the broker does not take {}; it takes {offered}: set sasl.mechanism to one of its own",
                self.mechanism.name()
            );
            return Err(Error::from_code(code, Some(&text)).calling(ApiKey::SaslHandshake.name()));
        }
        if code.is_error() {
            let error = Error::from_code(code, None).calling(ApiKey::SaslHandshake.name());
            return Err(self.failed(error));
        }
        self.begin_mechanism()
    }

    fn take_challenge(
        &mut self,
        answer: SaslAuthenticateResponse,
        last: bool,
    ) -> Result<Next, Error> {
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref().unwrap_or_default();
            let error = Error::from_code(code, Some(text)).calling(ApiKey::SaslAuthenticate.name());
            return Err(self.failed(error));
        }
        let step = if last {
            Step::Done
        } else {
            self.challenged(answer.auth_bytes)?
        };
        Ok(self.follow(step, answer.session_lifetime_ms))
    }

    fn challenged(&mut self, challenge: Bytes) -> Result<Step, Error> {
        self.challenges += 1;
        let step = if challenge.len() > LONGEST_CHALLENGE {
            let length = challenge.len();
            let text = format!(
                "the broker's challenge has {length} bytes; {LONGEST_CHALLENGE} are allowed"
            );
            Err(refused(text))
        } else if self.challenges > MOST_CHALLENGES {
            Err(refused("the broker does not come to an end"))
        } else {
            self.mechanism.step(challenge)
        };
        step.map_err(|error| self.failed(error))
    }

    fn follow(&mut self, step: Step, lifetime: i64) -> Next {
        let (bytes, last) = match step {
            Step::Done => return Next::Authenticated(self.session(lifetime)),
            Step::Need(need) => {
                self.stage = Stage::Needing;
                return Next::Need(need);
            }
            Step::Send(bytes) => (bytes, false),
            Step::Last(bytes) => (bytes, true),
        };
        self.stage = Stage::Exchanging { last };
        let Some(version) = self.authenticate else {
            return Next::Bare(bytes, !last);
        };
        let request = SaslAuthenticateRequest {
            auth_bytes: bytes,
            ..Default::default()
        };
        Next::Ask(Request::SaslAuthenticate(request), version)
    }

    /// Adds to the error which principal was not authenticated and what to check. A transient
    /// error, such as of a server that cannot be reached, stays transient.
    fn failed(&self, error: Error) -> Error {
        let mechanism = self.mechanism.name();
        let who = match self.mechanism.user() {
            Some(user) => format!("{user} is not authenticated by {mechanism}"),
            None => format!("the client is not authenticated by {mechanism}"),
        };
        let code = error.code();
        match error.kind() {
            Kind::Broker => error
                .wrap(Kind::Authentication, who)
                .and_say(&format!(": {}", self.advice(code))),
            kind => error.wrap(kind, who),
        }
    }

    /// The advice for a broker's error.
    fn advice(&self, code: Option<ErrorCode>) -> &'static str {
        match code {
            Some(ErrorCode::SASL_AUTHENTICATION_FAILED) => self.mechanism.advice(),
            Some(ErrorCode::ILLEGAL_SASL_STATE) => {
                "the broker expects no authentication there: if the listener has none, set security.protocol to PLAINTEXT or \
                 SSL, else put the port of one that has SASL into bootstrap.servers"
            }
            Some(ErrorCode::UNSUPPORTED_SASL_MECHANISM) => {
                "set sasl.mechanism to one of the listener's sasl.enabled.mechanisms"
            }
            Some(code) if code.is_retriable() => "it may pass, and the client tries again",
            _ => "the broker's log has the reason",
        }
    }

    /// When to renew a session that lasts `lifetime` ms: early enough for the responses in flight
    /// to arrive, and for clocks that differ. A lifetime of 0 or less has no end.
    fn session(&mut self, lifetime: i64) -> Option<Duration> {
        let lifetime = u64::try_from(lifetime).ok().filter(|ms| *ms > 0)?;
        let percent = LATEST_PERCENT.saturating_sub(self.random.below(SPREAD_PERCENT) as u64);
        let early = u128::from(lifetime) * u128::from(percent) / 100;
        let early = Duration::from_millis(u64::try_from(early).unwrap_or(u64::MAX));
        Some(early.max(SHORTEST_SESSION))
    }
}
