//! Credentials from outside of the engine: users with passwords, tokens, signed documents, steps of a security context.
//!
//! Other servers or the caller's own code have them, so a request for them may take its time; an
//! engine never waits for it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;

/// A request to the provider.
#[derive(Clone, PartialEq, Eq)]
pub enum Question {
    /// A user and a password for PLAIN or SCRAM, with a NUL between them.
    Login,
    /// A bearer token (RFC 7628).
    Token,
    /// The document that AWS_MSK_IAM sends to this broker.
    Payload,
    /// A step of a GSSAPI security context, from the broker's last token; nothing begins another context.
    Context(Bytes),
    /// The content of a message of the broker, by the security context.
    Unwrap(Bytes),
    /// A message for the broker, by the security context.
    Wrap(Bytes),
}

impl Question {
    /// The request in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Question::Login => "login",
            Question::Token => "token",
            Question::Payload => "payload",
            Question::Context(_) => "context",
            Question::Unwrap(_) => "unwrap",
            Question::Wrap(_) => "wrap",
        }
    }

    /// The provider in words: for the error of a request without a reply.
    pub(crate) fn provider(&self) -> &'static str {
        match self {
            Question::Login => "a user and a password",
            Question::Token => "a token, from sasl_token or from the token endpoint",
            Question::Payload => {
                "AWS credentials, from sasl_token or from where they are looked up"
            }
            Question::Context(_) | Question::Unwrap(_) | Question::Wrap(_) => {
                "the system's Kerberos library, or its key distribution centre"
            }
        }
    }

    /// The bytes of the request.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Question::Login | Question::Token | Question::Payload => &[],
            Question::Context(bytes) | Question::Unwrap(bytes) | Question::Wrap(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The provider's reply.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The login, the token, the payload, or the bytes of the step.
    pub bytes: Vec<u8>,
    /// Whether a security context is complete.
    pub complete: bool,
    /// Extensions that go along with a token (RFC 7628, KIP-342).
    pub extensions: Vec<(String, String)>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// A pending reply. Dropping it cancels the request.
pub type Replying = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

/// Provides credentials: the owner of the client, where its code may run.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Handles a request of connection number `connection` to `host`. The connection sends one
    /// request at a time, until [`Provider::ended`] is called for it.
    fn ask(&self, connection: u64, host: &str, question: Question) -> Replying;

    /// The broker did not accept what it was given: a token that is kept is not given again.
    fn refused(&self);

    /// Connection number `connection` has ended.
    fn ended(&self, connection: u64);

    /// Grows when the caller replaces the credentials: an earlier refusal proves nothing for the new ones.
    fn version(&self) -> u64 {
        0
    }
}

/// The provider that settings name, if they name one.
#[derive(Clone, Default)]
pub struct Credentials(pub Option<Arc<dyn Provider>>);

impl Credentials {
    /// The provider's version; 0 without a provider.
    pub(crate) fn version(&self) -> u64 {
        self.0.as_ref().map_or(0, |provider| provider.version())
    }
}

/// The same provider.
impl PartialEq for Credentials {
    fn eq(&self, other: &Credentials) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some" } else { "None" })
    }
}
