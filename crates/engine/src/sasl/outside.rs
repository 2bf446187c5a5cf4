//! What mechanisms need from outside: random numbers, processor time, and results of other servers
//! or of the caller's code.

use std::fmt;
use std::num::NonZeroU32;

use super::hash::Hash;
use crate::config::Secret;
use crate::credentials::{Question, Reply};

/// A need of a mechanism before it can continue.
#[derive(Clone, PartialEq)]
pub enum Need {
    /// Random bytes that cannot be guessed.
    Nonce,
    /// Processor time: [`Stretch::run`], which may take up to about a second.
    Stretch(Stretch),
    /// A result of the [`Provider`](crate::credentials::Provider).
    Outside(Question),
}

impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Nonce => f.write_str("Nonce"),
            Need::Stretch(_) => f.write_str("Stretch"),
            Need::Outside(question) => question.fmt(f),
        }
    }
}

/// The fulfilled need.
#[derive(Clone, PartialEq)]
pub enum Given {
    /// For [`Need::Nonce`]: 24 bytes.
    Nonce([u8; 24]),
    /// For [`Need::Stretch`].
    Stretched(Vec<u8>),
    /// For [`Need::Outside`].
    Reply(Reply),
}

/// All of it is secret.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Given::Nonce(_) => "Nonce",
            Given::Stretched(_) => "Stretched",
            Given::Reply(_) => "Reply",
        })
    }
}

/// A password to be made expensive to guess (PBKDF2).
#[derive(Clone, PartialEq)]
pub struct Stretch {
    pub(super) hash: Hash,
    pub(super) password: Secret,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: NonZeroU32,
}

impl Stretch {
    /// Takes processor time.
    pub fn run(&self) -> Given {
        let password = self.password.expose().as_bytes();
        Given::Stretched(self.hash.stretch(password, &self.salt, self.iterations))
    }
}

impl fmt::Debug for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stretch({} iterations)", self.iterations)
    }
}
