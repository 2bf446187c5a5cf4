//! The trait of calls.

use std::fmt;
use std::time::Duration;

use ottla_protocol::ApiKey;

use super::outcome;
use super::target::Target;
use crate::api::{Request, Response};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::metadata::Metadata;

/// A request to brokers, with one result.
pub trait Call: fmt::Debug + Send + 'static {
    /// The result of one item.
    type Found: fmt::Debug + Send + 'static;
    /// The result of the whole call.
    type Answer: fmt::Debug + Send + 'static;
    /// The API.
    const API: ApiKey;

    /// The API, for a call that can be about any.
    fn api(&self) -> ApiKey {
        Self::API
    }

    /// The lowest and the highest version that can carry it.
    fn versions(&self) -> (i16, i16) {
        (0, i16::MAX)
    }

    /// How long a broker may take to respond to one request.
    fn patience(&self, config: &Config) -> Duration {
        config.request_timeout
    }

    /// The number of items. The result of one does not hide the error of another.
    fn items(&self) -> usize {
        1
    }

    /// Whether a request is about one item only.
    fn is_alone(&self) -> bool {
        false
    }

    /// The target of an item.
    fn target(&self, item: usize) -> Target;

    /// The request for these items, which go to one broker.
    fn request(&self, items: &[usize], about: &About<'_>) -> Request;

    /// The result of each of these items from a response, in the order of the items. Too few
    /// results are a broker's fault.
    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>>;

    /// Whether it changes something, so that an attempt whose response was lost may have changed
    /// it.
    fn changes(&self) -> bool {
        false
    }

    /// Whether a broker that responds with this error may still have carried out the request. Only for calls that change something.
    fn proves_nothing(&self, error: &Error) -> bool {
        outcome::proves_nothing(error)
    }

    /// The effect of an item on a topic, if it was successful.
    #[allow(
        unused_variables,
        reason = "the name documents what implementations get"
    )]
    fn effect(&self, item: usize) -> Option<Effect<'_>> {
        None
    }

    /// Whether and when an item is requested again after this error. `answers` is the number of responses that the call has
    /// received so far.
    #[allow(
        unused_variables,
        reason = "the name documents what implementations get"
    )]
    fn retry(&self, error: &Error, answers: u32) -> Retry {
        Retry::after_pause_if(error.is_retriable())
    }

    /// The result of the whole call: one result for each item in order; for [`Target::EveryNode`], one for each broker.
    ///
    /// # Errors
    /// One error stands for all items.
    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error>;
}

/// Whether and when an item is requested again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The error is the item's result.
    Never,
    /// After a pause. Its target is looked up again.
    AfterPause,
    /// Soon, from the same broker, which has not finished an earlier request.
    Soon,
    /// After a pause, from another broker: this one does not know yet that the client created the topic. The running call finds
    /// that out; no call returns it.
    Elsewhere,
}

impl Retry {
    pub(crate) fn after_pause_if(is_retried: bool) -> Retry {
        match is_retried {
            true => Retry::AfterPause,
            false => Retry::Never,
        }
    }
}

/// The effect of a call on a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// It was made.
    Created(&'a str),
    /// It was deleted.
    Deleted(&'a str),
}

/// An item of a request to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The item.
    pub item: usize,
    /// An earlier attempt may have been carried out: what this response reports may be the work of that attempt.
    pub repeated: bool,
    /// The version of request and response.
    pub version: i16,
    /// The id of the broker that responded, if the link leads to a known one.
    pub node: Option<i32>,
}

/// What a request may depend on.
#[derive(Debug)]
pub struct About<'a> {
    /// The version that the broker supports.
    pub version: i16,
    /// The metadata of the cluster.
    pub view: &'a Metadata,
    /// The settings.
    pub config: &'a Config,
    /// The time that the broker may take, in ms, for requests that name it.
    pub timeout_ms: i32,
}

/// The error about an item that is missing in a response.
pub(crate) fn left_out(what: &str) -> Error {
    Error::new(
        Kind::Protocol,
        format!("the response does not contain {what}"),
    )
}

/// The result of each item. If a response has none for an item, the error reports that `what` is
/// missing.
pub(crate) fn results<T>(
    items: &[Asked],
    what: &str,
    result: impl Fn(&Asked) -> Option<Result<T, Error>>,
) -> Vec<Result<T, Error>> {
    items
        .iter()
        .map(|asked| result(asked).unwrap_or_else(|| Err(left_out(what))))
        .collect()
}

/// The lists of all brokers, sorted by id. An entry that moves from one broker to another meanwhile
/// may be listed by both, and counts once.
pub(crate) fn listed<T>(
    found: Vec<Result<Vec<T>, Error>>,
    id: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Error> {
    let each: Result<Vec<_>, Error> = found.into_iter().collect();
    let mut all: Vec<_> = each?.into_iter().flatten().collect();
    all.sort_by(|one, other| id(one).cmp(id(other)));
    all.dedup_by(|one, other| id(one) == id(other));
    Ok(all)
}

/// The result of a call with one item, which is `what`.
pub(crate) fn only<T>(found: Vec<Result<T, Error>>, what: &str) -> Result<T, Error> {
    let mut found = found.into_iter();
    found.next().unwrap_or_else(|| Err(left_out(what)))
}
