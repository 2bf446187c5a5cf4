//! One authentication of a connection: names the mechanism, then carries its bytes to and fro.
//!
//! ```text
//! begin() ── SaslHandshake 1 ──▶ Naming ── the mechanism's first bytes ──▶ Exchanging ── it is done ──▶ Authenticated
//!                                                                           │      ▲
//!                                                                           └──────┘ SaslAuthenticate 0 to 2
//! ```
//!
//! Sources: KIP-43 (SaslHandshake), KIP-152 (SaslAuthenticate, brokers from 1.0 on), KIP-368 (`session_lifetime_ms`).
//! Brokers before 1.0 take the mechanism's bytes without headers, which this client does not speak: their versions
//! refuse them.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, ErrorCode};

use crate::api::{Request, Response, Versions};
use crate::error::{Error, Kind};
use crate::random::Random;
use crate::sasl::{Mechanism, Step};

/// The most of a broker's session that passes before the connection is authenticated again, in percent.
const LATEST_PERCENT: u64 = 95;
/// Connections that were made together come again at different times: within so many percent.
const SPREAD_PERCENT: usize = 10;
/// Sessions shorter than this are not kept up: a broker that asks for them would hear of nothing else.
const SHORTEST_SESSION: Duration = Duration::from_millis(100);

/// Who this client is, and how often it has to prove it.
#[derive(Debug)]
pub(super) struct Authenticator {
    mechanism: Box<dyn Mechanism>,
    handshake: i16,
    authenticate: i16,
    stage: Stage,
    random: Random,
}

#[derive(Debug, PartialEq)]
enum Stage {
    Naming,
    Exchanging,
}

/// What an answer leads to.
#[derive(Debug)]
pub(super) enum Next {
    /// This is to be sent, at this version.
    Ask(Request, i16),
    /// The broker accepted the client. If it limits the session: the time until the client must authenticate again.
    Authenticated(Option<Duration>),
}

impl Authenticator {
    /// An authentication in the `versions` that the broker speaks. `seed` seeds its random choices.
    ///
    /// # Errors
    /// The broker speaks no version that carries the mechanism's bytes.
    pub(super) fn new(
        mechanism: Box<dyn Mechanism>,
        versions: &Versions,
        seed: u64,
    ) -> Result<Authenticator, Error> {
        Ok(Authenticator {
            mechanism,
            handshake: versions.choose(ApiKey::SaslHandshake, i16::MAX)?,
            authenticate: versions.choose(ApiKey::SaslAuthenticate, i16::MAX)?,
            stage: Stage::Naming,
            random: Random::new(seed),
        })
    }

    /// The mechanism's name.
    pub(super) fn mechanism(&self) -> &'static str {
        self.mechanism.name()
    }

    /// Begins an authentication, the first or another: the request to send and its version.
    pub(super) fn begin(&mut self) -> (Request, i16) {
        self.stage = Stage::Naming;
        let request = SaslHandshakeRequest {
            mechanism: self.mechanism.name().into(),
        };
        (Request::SaslHandshake(request), self.handshake)
    }

    /// Takes the answer to the last request.
    ///
    /// # Errors
    /// The broker refuses, or the mechanism does.
    pub(super) fn take(&mut self, response: Response) -> Result<Next, Error> {
        match (&self.stage, response) {
            (Stage::Naming, Response::SaslHandshake(answer)) => self.take_names(&answer),
            (Stage::Exchanging, Response::SaslAuthenticate(answer)) => self.take_challenge(answer),
            _ => Err(Error::new(
                Kind::Protocol,
                "an answer came that does not belong to the authentication",
            )),
        }
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
            return Err(Error::from_code(code, None).calling(ApiKey::SaslHandshake.name()));
        }
        self.stage = Stage::Exchanging;
        self.mechanism.begin().map(|first| self.carry(first))
    }

    fn take_challenge(&mut self, answer: SaslAuthenticateResponse) -> Result<Next, Error> {
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer
                .error_message
                .as_deref()
                .filter(|text| !text.is_empty());
            let text = match text {
                Some(text) => text.to_owned(),
                None => format!("the broker refused what {} sent", self.mechanism.name()),
            };
            let error = Error::from_code(code, Some(&text));
            return Err(error.calling(ApiKey::SaslAuthenticate.name()));
        }
        Ok(match self.mechanism.step(answer.auth_bytes)? {
            Step::Send(bytes) => self.carry(bytes),
            Step::Done => Next::Authenticated(self.session(answer.session_lifetime_ms)),
        })
    }

    fn carry(&self, bytes: Bytes) -> Next {
        let request = SaslAuthenticateRequest {
            auth_bytes: bytes,
            ..Default::default()
        };
        Next::Ask(Request::SaslAuthenticate(request), self.authenticate)
    }

    /// When a session that lasts `lifetime` ms is to be renewed: early enough for the answers under way to come, and for clocks
    /// that differ. A lifetime of 0 or less has no end.
    fn session(&mut self, lifetime: i64) -> Option<Duration> {
        let lifetime = u64::try_from(lifetime).ok().filter(|ms| *ms > 0)?;
        let percent = LATEST_PERCENT.saturating_sub(self.random.below(SPREAD_PERCENT) as u64);
        let early = u128::from(lifetime) * u128::from(percent) / 100;
        let early = Duration::from_millis(u64::try_from(early).unwrap_or(u64::MAX));
        Some(early.max(SHORTEST_SESSION))
    }
}
