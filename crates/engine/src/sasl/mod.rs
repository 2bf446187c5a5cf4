//! How a client proves who it is: mechanisms without sockets (RFC 4422, KIP-43).
//!
//! The connection carries a mechanism's bytes in SaslAuthenticate and knows nothing else of it.

use std::fmt;

use bytes::Bytes;

use crate::error::Error;

/// One mechanism with what it needs to know: name and password, a source of tokens, a ticket.
///
/// A connection that is authenticated again (KIP-368) uses its mechanism again, from [`Mechanism::begin`] on.
///
/// The output of an implementation's `Debug` may end in a log: it shows no secret.
pub trait Mechanism: fmt::Debug + Send {
    /// The mechanism's registered name, such as `SCRAM-SHA-256`.
    fn name(&self) -> &'static str;

    /// Forgets any exchange before, and gives the first bytes for the broker.
    ///
    /// # Errors
    /// There is nothing to begin with, such as no token.
    fn begin(&mut self) -> Result<Bytes, Error>;

    /// Takes what the broker said to the bytes before.
    ///
    /// # Errors
    /// The broker's bytes are not what the mechanism expects, or do not prove who the broker is.
    fn step(&mut self, challenge: Bytes) -> Result<Step, Error>;
}

/// What a mechanism does next.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// These bytes go to the broker, which answers them.
    Send(Bytes),
    /// Both sides are content.
    Done,
}

/// The bytes of a mechanism can hold a password.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send(bytes) => write!(f, "Send({} bytes)", bytes.len()),
            Step::Done => f.write_str("Done"),
        }
    }
}
