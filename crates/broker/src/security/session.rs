//! One connection's way through authentication, as Kafka's brokers go it.
//!
//! ```text
//!  listener without SASL ──────────────────────────────────────────────► open
//!  start ──ApiVersions──► asked ──SaslHandshake──► tokens ──the last──► open
//!    └──────SaslHandshake────────────────────────────▲                   │
//!                                                    └──SaslHandshake────┘ re-authentication (KIP-368)
//! ```
//!
//! After a handshake of version 0 tokens come without headers, after version 1 in SaslAuthenticate (KIP-152). Whatever else
//! comes before the connection is open ends it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ApiKey, ErrorCode, Str};

use super::sasl::{Authenticated, Exchange, Mechanism, Step, Verifiers};
use crate::now::Now;

/// Kafka's brokers begin no re-authentication sooner after the last.
const BETWEEN_REAUTHENTICATIONS: Duration = Duration::from_secs(1);

/// Who a client is: the name of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal(pub(crate) Str);

impl Principal {
    /// Who has not said.
    pub(crate) fn anonymous() -> Self {
        Self(Str::from_static("ANONYMOUS"))
    }
}

impl fmt::Display for Principal {
    /// As ACLs have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User:{}", &*self.0)
    }
}

/// Who does something, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) principal: Principal,
    pub(crate) host: IpAddr,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    stage: Stage,
    mechanisms: Arc<[Mechanism]>,
    max_reauthentication: Option<Duration>,
    principal: Principal,
    /// What it authenticated by; re-authentication must use it again.
    authenticated_by: Option<Mechanism>,
    expires: Option<Instant>,
    last_reauthentication: Option<Instant>,
    by_token: bool,
    failed: Option<String>,
}

#[derive(Debug)]
enum Stage {
    Start,
    Asked,
    Tokens {
        mechanism: Mechanism,
        exchange: Exchange,
        bare: bool,
    },
    Open,
}

/// The result of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) token: Vec<u8>,
    /// How long the session lasts; 0 is for ever, or not decided yet.
    pub(crate) lifetime_ms: i64,
}

impl Session {
    /// A connection without SASL, open for `principal`.
    pub(crate) fn open(principal: Principal) -> Self {
        Self::new(Stage::Open, principal, Arc::from([]), None)
    }

    /// A connection that must authenticate by one of `mechanisms`; `max_reauthentication` is `connections.max.reauth.ms`.
    pub(crate) fn sasl(
        mechanisms: Arc<[Mechanism]>,
        max_reauthentication: Option<Duration>,
    ) -> Self {
        Self::new(
            Stage::Start,
            Principal::anonymous(),
            mechanisms,
            max_reauthentication,
        )
    }

    fn new(
        stage: Stage,
        principal: Principal,
        mechanisms: Arc<[Mechanism]>,
        max_reauthentication: Option<Duration>,
    ) -> Self {
        Self {
            stage,
            mechanisms,
            max_reauthentication,
            principal,
            authenticated_by: None,
            expires: None,
            last_reauthentication: None,
            by_token: false,
            failed: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Is the next frame a token without a header?
    pub(crate) fn expects_bare_token(&self) -> bool {
        matches!(self.stage, Stage::Tokens { bare: true, .. })
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// May it ask for delegation tokens? Whoever did not authenticate, or did so by a token, may not (KIP-48).
    pub(crate) fn may_delegate(&self) -> bool {
        !self.by_token && self.principal != Principal::anonymous()
    }

    /// Why the connection must end after the response, if it must.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// May this request come now?
    ///
    /// # Errors
    /// Why it ends the connection.
    pub(crate) fn admits(&self, api: ApiKey, now: Now) -> Result<(), String> {
        let is_due = match &self.stage {
            Stage::Open if api == ApiKey::SaslHandshake && self.may_reauthenticate(now) => true,
            Stage::Open => {
                return if self.expires.is_some_and(|expires| expires <= now.instant) {
                    Err(format!(
                        "the session of {} has expired, and it did not authenticate again",
                        self.principal
                    ))
                } else {
                    Ok(())
                };
            }
            Stage::Start => matches!(api, ApiKey::ApiVersions | ApiKey::SaslHandshake),
            Stage::Asked => api == ApiKey::SaslHandshake,
            Stage::Tokens { .. } => api == ApiKey::SaslAuthenticate,
        };
        if is_due {
            Ok(())
        } else {
            Err(format!(
                "{} came before it had authenticated; is its security.protocol a SASL one?",
                api.name()
            ))
        }
    }

    /// ApiVersions got a response without an error.
    pub(crate) fn versions_told(&mut self) {
        if matches!(self.stage, Stage::Start) {
            self.stage = Stage::Asked;
        }
    }

    /// SaslHandshake: the error code of the response, besides [`Session::mechanisms`].
    pub(crate) fn handshake(&mut self, name: &str, version: i16, now: Now) -> ErrorCode {
        if self.is_open() {
            if !self.may_reauthenticate(now) {
                return ErrorCode::ILLEGAL_SASL_STATE;
            }
            self.last_reauthentication = Some(now.instant);
        }
        let mechanism = self.mechanisms.iter().copied().find(|m| m.name() == name);
        let Some(mechanism) = mechanism else {
            self.failed = Some(format!(
                "it asked for the SASL mechanism {name:?}; the listener has {}",
                self.mechanism_names().join(", ")
            ));
            return ErrorCode::UNSUPPORTED_SASL_MECHANISM;
        };
        self.stage = Stage::Tokens {
            mechanism,
            exchange: Exchange::new(mechanism),
            bare: version == 0,
        };
        ErrorCode::NONE
    }

    pub(crate) fn mechanism_names(&self) -> Vec<&'static str> {
        self.mechanisms.iter().map(|m| m.name()).collect()
    }

    /// One token of the exchange.
    ///
    /// # Errors
    /// The code and the text that the client gets; the connection ends after that.
    pub(crate) fn token(
        &mut self,
        token: &[u8],
        verifiers: &Verifiers,
        now: Now,
    ) -> Result<Reply, (ErrorCode, String)> {
        let Stage::Tokens {
            mechanism,
            exchange,
            ..
        } = &mut self.stage
        else {
            let why = "SaslAuthenticate came without a SaslHandshake before it";
            return Err((ErrorCode::ILLEGAL_SASL_STATE, why.to_owned()));
        };
        let mechanism = *mechanism;
        let done = match exchange.step(token, verifiers, now.unix_ms) {
            Step::Continue(token) => {
                return Ok(Reply {
                    token,
                    lifetime_ms: 0,
                });
            }
            Step::Failed(why) => Err(why),
            Step::Done(token, who) => self.check_same(mechanism, &who).map(|()| (token, who)),
        };
        let (token, who) = match done {
            Ok(done) => done,
            Err(why) => {
                self.failed = Some(format!("{why} ({mechanism})"));
                return Err((ErrorCode::SASL_AUTHENTICATION_FAILED, why));
            }
        };
        let lifetime = self.lifetime(&who, now);
        self.expires = lifetime.and_then(|lifetime| now.instant.checked_add(lifetime));
        self.by_token = who.by_token;
        self.principal = Principal(who.name.into());
        self.authenticated_by = Some(mechanism);
        self.stage = Stage::Open;
        // 0 would say "for ever".
        let in_ms = |lifetime: Duration| {
            i64::try_from(lifetime.as_millis()).map_or(i64::MAX, |ms| ms.max(1))
        };
        Ok(Reply {
            token,
            lifetime_ms: lifetime.map_or(0, in_ms),
        })
    }

    /// Ends the exchange against the client, whoever it is: the error for the client.
    pub(crate) fn refuse(&mut self, why: &str) -> (ErrorCode, String) {
        self.failed = Some(why.to_owned());
        (ErrorCode::SASL_AUTHENTICATION_FAILED, why.to_owned())
    }

    /// The sooner of what the broker grants and what the credential is good for.
    fn lifetime(&self, who: &Authenticated, now: Now) -> Option<Duration> {
        let of_credential = who.expires_ms.map(|expires| {
            let left = expires.saturating_sub(now.unix_ms);
            Duration::from_millis(u64::try_from(left).unwrap_or(0))
        });
        match (self.max_reauthentication, of_credential) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Re-authentication changes neither the mechanism nor the principal.
    fn check_same(&self, mechanism: Mechanism, who: &Authenticated) -> Result<(), String> {
        match self.authenticated_by {
            Some(before) if before != mechanism => Err(format!(
                "SASL mechanism {mechanism} cannot follow {before} in re-authentication"
            )),
            Some(_) if self.principal.0 != *who.name => Err(format!(
                "Cannot change principals during re-authentication from {} to User:{}",
                self.principal, who.name
            )),
            _ => Ok(()),
        }
    }

    fn may_reauthenticate(&self, now: Now) -> bool {
        let is_soon = self.last_reauthentication.is_some_and(|last| {
            now.instant.saturating_duration_since(last) < BETWEEN_REAUTHENTICATIONS
        });
        self.expires.is_some() && !is_soon
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::nonce::Nonces;
    use crate::security::sasl::oauth::Rules;
    use crate::security::secret::Secret;
    use crate::security::settings::SecuritySettings;

    fn verifiers() -> Verifiers {
        let settings = SecuritySettings {
            users: vec![
                ("alice".to_owned(), Secret::new("a-secret")),
                ("bob".to_owned(), Secret::new("b-secret")),
            ],
            ..SecuritySettings::default()
        };
        let lifetimes = crate::security::tokens::Lifetimes {
            expiry_ms: 1000,
            max_ms: 1000,
        };
        Verifiers::new(&settings, Rules::default(), lifetimes, Nonces::new([9; 32])).unwrap()
    }

    fn session(max: Option<u64>) -> Session {
        let mechanisms = [Mechanism::Plain, Mechanism::ScramSha256];
        Session::sasl(Arc::new(mechanisms), max.map(Duration::from_millis))
    }

    fn at(start: Instant, ms: u64) -> Now {
        Now {
            instant: start + Duration::from_millis(ms),
            unix_ms: 1_700_000_000_000 + i64::try_from(ms).unwrap(),
        }
    }

    const ALICE: &[u8] = b"\0alice\0a-secret";
    const BOB: &[u8] = b"\0bob\0b-secret";

    #[test]
    fn nothing_but_the_next_step_is_admitted() {
        let (now, verifiers) = (at(Instant::now(), 0), verifiers());
        let mut session = session(None);
        let admitted = |session: &Session| -> Vec<&str> {
            let apis = ApiKey::ALL
                .iter()
                .filter(|api| session.admits(**api, now).is_ok());
            apis.map(|api| api.name()).collect()
        };
        assert_eq!(admitted(&session), ["SaslHandshake", "ApiVersions"]);
        session.versions_told();
        assert_eq!(admitted(&session), ["SaslHandshake"]);
        assert_eq!(session.handshake("PLAIN", 1, now), ErrorCode::NONE);
        assert_eq!(admitted(&session), ["SaslAuthenticate"]);
        assert!(!session.is_open() && !session.expects_bare_token());
        assert_eq!(
            session.token(ALICE, &verifiers, now).unwrap().lifetime_ms,
            0
        );
        assert!(session.is_open());
        assert_eq!(session.principal().to_string(), "User:alice");
        assert_eq!(admitted(&session).len(), ApiKey::ALL.len());
        // It is not re-authenticated where sessions do not end.
        assert_eq!(
            session.handshake("PLAIN", 1, now),
            ErrorCode::ILLEGAL_SASL_STATE
        );
        assert_eq!(
            session.token(ALICE, &verifiers, now).unwrap_err().0,
            ErrorCode::ILLEGAL_SASL_STATE
        );
    }

    #[test]
    fn a_wrong_mechanism_or_password_ends_it() {
        let (now, verifiers) = (at(Instant::now(), 0), verifiers());
        let mut wrong = session(None);
        assert_eq!(
            wrong.handshake("SCRAM-SHA-512", 1, now),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM
        );
        assert!(wrong.failed().unwrap().contains("PLAIN, SCRAM-SHA-256"));
        let mut wrong = session(None);
        wrong.handshake("PLAIN", 0, now);
        assert!(wrong.expects_bare_token());
        let (code, why) = wrong
            .token(b"\0alice\0b-secret", &verifiers, now)
            .unwrap_err();
        assert_eq!(code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert!(!why.contains("secret") && wrong.failed().is_some());
        assert!(!wrong.is_open());
    }

    #[test]
    fn a_session_ends_unless_it_is_authenticated_again_by_the_same() {
        let (start, verifiers) = (Instant::now(), verifiers());
        let open = || {
            let mut session = session(Some(2000));
            session.handshake("PLAIN", 1, at(start, 0));
            assert_eq!(
                session
                    .token(ALICE, &verifiers, at(start, 0))
                    .unwrap()
                    .lifetime_ms,
                2000
            );
            session
        };
        assert!(open().admits(ApiKey::Produce, at(start, 1999)).is_ok());
        let why = open().admits(ApiKey::Produce, at(start, 2000)).unwrap_err();
        assert!(why.contains("User:alice has expired"), "{why}");

        let mut session = open();
        assert!(
            session
                .admits(ApiKey::SaslHandshake, at(start, 2500))
                .is_ok()
        );
        assert_eq!(
            session.handshake("PLAIN", 1, at(start, 2500)),
            ErrorCode::NONE
        );
        assert!(session.token(ALICE, &verifiers, at(start, 2500)).is_ok());
        assert!(session.admits(ApiKey::Produce, at(start, 4499)).is_ok());
        assert_eq!(
            session.handshake("PLAIN", 1, at(start, 3499)),
            ErrorCode::ILLEGAL_SASL_STATE
        );
        session.handshake("PLAIN", 1, at(start, 3500));
        let (_, why) = session.token(BOB, &verifiers, at(start, 3500)).unwrap_err();
        assert!(why.contains("from User:alice to User:bob"), "{why}");
    }
}
