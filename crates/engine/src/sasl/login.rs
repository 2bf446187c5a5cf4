//! PLAIN or SCRAM with a user and a password that may change while the client runs.
//!
//! ```text
//! begin() ── login ──▶ the mechanism's begin() ──▶ its exchange
//! ```
//!
//! The mechanism is made again for each authentication, so a connection that is authenticated again (KIP-368) uses
//! the user and the password of that time.

use bytes::Bytes;

use super::hash::Hash;
use super::outside::{Given, Need};
use super::plain::Plain;
use super::scram::Scram;
use super::{Mechanism, Step, out_of_turn, refused};
use crate::config::Secret;
use crate::credentials::Question;
use crate::error::Error;

/// A mechanism that needs a user and a password.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    Plain,
    /// The flag is whether user and password are those of a delegation token.
    Scram(Hash, bool),
}

impl Named {
    fn name(self) -> &'static str {
        match self {
            Named::Plain => Plain::NAME,
            Named::Scram(hash, _) => Scram::name_of(hash),
        }
    }

    /// The mechanism with a user and a password.
    ///
    /// # Errors
    /// The mechanism cannot carry the name or the password.
    pub(super) fn with(self, user: &str, password: &Secret) -> Result<Box<dyn Mechanism>, Error> {
        Ok(match self {
            Named::Plain => Box::new(Plain::new(user, password)?),
            Named::Scram(hash, token) => Box::new(Scram::new(hash, user, password, token)),
        })
    }
}

/// A client whose provider has the user and the password.
#[derive(Debug)]
pub(super) struct Login {
    named: Named,
    exchange: Option<Box<dyn Mechanism>>,
}

impl Login {
    pub(super) fn new(named: Named) -> Login {
        Login {
            named,
            exchange: None,
        }
    }
}

impl Mechanism for Login {
    fn name(&self) -> &'static str {
        self.named.name()
    }

    fn user(&self) -> Option<&str> {
        self.exchange.as_ref()?.user()
    }

    fn advice(&self) -> &'static str {
        match &self.exchange {
            Some(exchange) => exchange.advice(),
            None => "check that the client has a user and a password",
        }
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.exchange = None;
        Ok(Step::Need(Need::Outside(Question::Login)))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        self.exchange
            .as_mut()
            .ok_or_else(out_of_turn)?
            .step(challenge)
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        if let Some(exchange) = &mut self.exchange {
            return exchange.take(given);
        }
        let Given::Reply(reply) = given else {
            return Err(out_of_turn());
        };
        let (user, password) = std::str::from_utf8(&reply.bytes)
            .ok()
            .and_then(|text| text.split_once('\0'))
            .ok_or_else(|| refused("the provider returned no user with a password"))?;
        let exchange = self.named.with(user, &Secret::new(password))?;
        self.exchange.insert(exchange).begin()
    }
}
