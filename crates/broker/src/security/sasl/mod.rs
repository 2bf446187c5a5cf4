//! The server's side of the SASL mechanisms: tokens in, tokens out, and at the end a name or a failure.
//!
//! References: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 and KIP-255, 342 (OAUTHBEARER); `AWS_MSK_IAM` is that
//! of Amazon's published client.

pub(crate) mod iam;
mod jws;
pub(crate) mod oauth;
mod plain;
mod scram;
mod step;

use std::fmt;

pub(crate) use self::step::{Authenticated, Step};
use super::nonce::Nonces;
use super::secret::Secret;
use super::settings::SecuritySettings;
use super::tokens::{Lifetimes, Tokens};
use super::users::{ScramHash, Users};

/// A SASL mechanism, in the order in which a listener names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// User and password as they are.
    Plain,
    /// Challenge and response under SHA-256.
    ScramSha256,
    /// Challenge and response under SHA-512.
    ScramSha512,
    /// A bearer token.
    OauthBearer,
    /// A request signed with an AWS access key.
    AwsMskIam,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Plain,
        Self::ScramSha256,
        Self::ScramSha512,
        Self::OauthBearer,
        Self::AwsMskIam,
    ];

    /// The registered name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
            Self::AwsMskIam => "AWS_MSK_IAM",
        }
    }

    /// The mechanism of that name.
    ///
    /// # Errors
    /// A sentence that lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name);
        found.ok_or_else(|| {
            let more = if name == "GSSAPI" {
                "; the embedded broker has no Kerberos"
            } else {
                ""
            };
            format!(
                "there is no mechanism \"{name}\"; there are {}{more}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One exchange, from its first token.
#[derive(Debug)]
pub(crate) enum Exchange {
    Plain,
    Scram(scram::Server),
    OauthBearer(oauth::Server),
    AwsMskIam,
}

impl Exchange {
    pub(crate) fn new(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => Self::Plain,
            Mechanism::ScramSha256 => Self::Scram(scram::Server::new(ScramHash::Sha256)),
            Mechanism::ScramSha512 => Self::Scram(scram::Server::new(ScramHash::Sha512)),
            Mechanism::OauthBearer => Self::OauthBearer(oauth::Server::default()),
            Mechanism::AwsMskIam => Self::AwsMskIam,
        }
    }

    pub(crate) fn step(&mut self, token: &[u8], verifiers: &Verifiers, now_ms: i64) -> Step {
        match self {
            Self::Plain => plain::step(token, &verifiers.users),
            Self::Scram(server) => server.step(token, verifiers.credentials(), now_ms),
            Self::OauthBearer(server) => {
                server.step(token, &verifiers.oauth, &verifiers.aws_keys, now_ms)
            }
            Self::AwsMskIam => {
                iam::step(token, &verifiers.aws_keys, now_ms, verifiers.nonces.bytes())
            }
        }
    }
}

/// What the mechanisms check claims against.
#[derive(Debug)]
pub(crate) struct Verifiers {
    pub(crate) users: Users,
    pub(crate) tokens: Tokens,
    pub(crate) nonces: Nonces,
    oauth: oauth::Verifier,
    aws_keys: Vec<(String, Secret)>,
    has_passwords: bool,
}

impl Verifiers {
    pub(super) fn new(
        settings: &SecuritySettings,
        rules: oauth::Rules,
        lifetimes: Lifetimes,
        nonces: Nonces,
    ) -> Result<Self, String> {
        Ok(Self {
            users: Users::new(&settings.users, &nonces),
            tokens: Tokens::new(lifetimes),
            oauth: oauth::Verifier::new(&settings.token_keys, rules)?,
            aws_keys: settings.aws_keys.clone(),
            has_passwords: !settings.users.is_empty(),
            nonces,
        })
    }

    fn credentials(&self) -> scram::Credentials<'_> {
        scram::Credentials {
            users: &self.users,
            tokens: &self.tokens,
            nonces: &self.nonces,
        }
    }

    /// The mechanisms of a listener: those that were requested, or all that have a user.
    ///
    /// # Errors
    /// A requested mechanism has no user, or there is no mechanism at all.
    pub(crate) fn mechanisms(&self, asked: Option<&[Mechanism]>) -> Result<Vec<Mechanism>, String> {
        let Some(asked) = asked else {
            let possible = Mechanism::ALL
                .into_iter()
                .filter(|mechanism| match mechanism {
                    Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
                        self.has_passwords
                    }
                    // Unsecured tokens let everybody in, so they must be asked for.
                    Mechanism::OauthBearer => self.oauth.has_keys(),
                    Mechanism::AwsMskIam => !self.aws_keys.is_empty(),
                });
            let possible: Vec<_> = possible.collect();
            return if possible.is_empty() {
                Err("a SASL listener needs users, AWS keys, or keys of tokens, or its mechanisms named".to_owned())
            } else {
                Ok(possible)
            };
        };
        let lacks = |mechanism: &Mechanism| match mechanism {
            Mechanism::Plain if !self.has_passwords => Some("users with passwords"),
            Mechanism::AwsMskIam if self.aws_keys.is_empty() => Some("AWS keys"),
            _ => None,
        };
        for mechanism in asked {
            if let Some(what) = lacks(mechanism) {
                return Err(format!("{mechanism} needs {what}, and there are none"));
            }
        }
        let mut asked = asked.to_vec();
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            return Err("a SASL listener needs at least one mechanism".to_owned());
        }
        Ok(asked)
    }
}
