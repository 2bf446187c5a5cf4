//! How a client proves who it is: mechanisms without sockets (RFC 4422, KIP-43).
//!
//! ```text
//! begin() ──▶ Step ── Send: bytes for the broker, whose response goes to step() ──▶ Step …
//!                 ├── Last: bytes for the broker, which has nothing to say to them but that it accepts
//!                 ├── Need: something from outside, which goes to take() ──▶ Step …
//!                 └── Done
//! ```
//!
//! The connection carries a mechanism's bytes in SaslAuthenticate and does not interpret them. What
//! takes time, needs other servers or is the caller's own code is returned as a [`Need`]: the owner
//! of the connection handles it elsewhere.
//!
//! * `plain`, `scram`, `oauthbearer`, `msk_iam`, `gssapi`: the mechanisms
//! * `login`: `plain` or `scram` with a user and a password that may change
//! * `outside`: what they need from outside
//! * `choose`: from settings to a mechanism

mod choose;
mod gssapi;
mod hash;
mod login;
mod msk_iam;
mod oauthbearer;
mod outside;
mod plain;
mod scram;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;

pub use self::choose::mechanism;
pub use self::outside::{Given, Need, Stretch};
use crate::error::{Error, Kind};

/// One mechanism with what it needs to know: name and password, or what to ask for outside.
///
/// A connection that is authenticated again (KIP-368) uses its mechanism again, from [`Mechanism::begin`] on.
///
/// The output of an implementation's `Debug` may end in a log: it shows no secret.
pub trait Mechanism: fmt::Debug + Send {
    /// The mechanism's registered name, such as `SCRAM-SHA-256`.
    fn name(&self) -> &'static str;

    /// Who is authenticated, for errors, where that is known; never a secret.
    fn user(&self) -> Option<&str> {
        None
    }

    /// What to check when the broker refuses, for errors.
    fn advice(&self) -> &'static str;

    /// Forgets any exchange before, and begins another.
    ///
    /// # Errors
    /// There is nothing to begin with.
    fn begin(&mut self) -> Result<Step, Error>;

    /// Takes what the broker said to the bytes before.
    ///
    /// # Errors
    /// The broker's bytes are not what the mechanism expects, or do not prove who the broker is.
    fn step(&mut self, challenge: Bytes) -> Result<Step, Error>;

    /// Takes what was needed.
    ///
    /// # Errors
    /// It is not what was asked for.
    fn take(&mut self, given: Given) -> Result<Step, Error> {
        let _ = given;
        Err(out_of_turn())
    }
}

/// What a mechanism does next.
#[derive(PartialEq)]
pub enum Step {
    /// These bytes go to the broker, which responds to them.
    Send(Bytes),
    /// These bytes go to the broker and end the exchange.
    Last(Bytes),
    /// This is needed first.
    Need(Need),
    /// Both sides are content.
    Done,
}

/// The bytes of a mechanism can hold a password.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send(bytes) => write!(f, "Send({} bytes)", bytes.len()),
            Step::Last(bytes) => write!(f, "Last({} bytes)", bytes.len()),
            Step::Need(need) => write!(f, "Need({need:?})"),
            Step::Done => f.write_str("Done"),
        }
    }
}

/// An error of an authentication, which a later attempt does not mend.
pub(crate) fn refused(text: impl Into<String>) -> Error {
    Error::new(Kind::Authentication, text)
}

fn out_of_turn() -> Error {
    Error::new(
        Kind::Protocol,
        "something came that the mechanism did not ask for",
    )
}

/// What a broker said, for an error: short, and without characters that could upset a terminal.
fn quoted(text: &str) -> String {
    const MOST: usize = 200;
    let shown: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().count() > MOST {
        format!("{shown}…")
    } else {
        shown
    }
}
