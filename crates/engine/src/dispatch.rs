//! Something to send: a complete request, or one that must still be finished, which takes time and needs no engine.

use std::fmt;
use std::time::Duration;

use ottla_protocol::ApiKey;

use crate::api::Request;
use crate::error::Error;

/// A request on its way to the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Returned with the response.
    pub token: u64,
    /// The request.
    pub request: Request,
    /// The version to encode it at.
    pub version: i16,
    /// The timeout of the response.
    pub timeout: Duration,
    /// Whether there will be a response; a Produce with `acks=0` gets none.
    pub answered: bool,
    /// How many bytes of the response were requested; the reader reserves space for them before it
    /// sees them.
    pub expected_bytes: usize,
}

/// A request that still has to be finished, for example compressed.
pub trait Unfinished: fmt::Debug + Send {
    /// The request's token.
    fn token(&self) -> u64;

    /// Its API and version.
    fn about(&self) -> (ApiKey, i16);

    /// Finishes the request. Takes processor time; the engine must not be held.
    ///
    /// # Errors
    /// A request that cannot be finished; to be reported as [`crate::engine::Event::Unsendable`].
    fn finish(self: Box<Self>) -> Result<Outgoing, Error>;
}

/// Something to send.
#[derive(Debug)]
pub enum Dispatch {
    /// A complete request: boxed, as it goes through many hands.
    Ready(Box<Outgoing>),
    /// A request that still has to be finished.
    Unfinished(Box<dyn Unfinished>),
}

impl Dispatch {
    /// The request's token.
    pub fn token(&self) -> u64 {
        match self {
            Dispatch::Ready(outgoing) => outgoing.token,
            Dispatch::Unfinished(request) => request.token(),
        }
    }

    /// Its API and version.
    pub(crate) fn about(&self) -> (ApiKey, i16) {
        match self {
            Dispatch::Ready(outgoing) => (outgoing.request.api(), outgoing.version),
            Dispatch::Unfinished(request) => request.about(),
        }
    }

    /// The complete request.
    ///
    /// # Errors
    /// As [`Unfinished::finish`].
    pub fn into_outgoing(self) -> Result<Outgoing, Error> {
        match self {
            Dispatch::Ready(outgoing) => Ok(*outgoing),
            Dispatch::Unfinished(request) => request.finish(),
        }
    }
}
