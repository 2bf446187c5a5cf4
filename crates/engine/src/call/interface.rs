//! What a call is.

use std::fmt;

use ottla_protocol::ApiKey;

use super::target::Target;
use crate::api::{Request, Response};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::metadata::Metadata;

/// Something that is asked of brokers.
pub trait Call: fmt::Debug + Send + 'static {
    /// What is found out about one item.
    type Found: fmt::Debug + Send + 'static;
    /// What all of it amounts to.
    type Answer: fmt::Debug + Send + 'static;
    /// The API.
    const API: ApiKey;

    /// How many things are asked about. An answer about one does not hide an error about another.
    fn items(&self) -> usize {
        1
    }

    /// Where the question about an item goes.
    fn target(&self, item: usize) -> Target;

    /// The request about these items, which go to one broker.
    fn request(&self, items: &[usize], about: &About<'_>) -> Request;

    /// What an answer says about each of these items, in their order; fewer are a broker's fault.
    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>>;

    /// Whether the question about an item is asked again after this error; if so, where it goes is looked up again too.
    fn is_retried(&self, error: &Error) -> bool {
        error.is_retriable()
    }

    /// What all of it amounts to: one result for each item in order; for [`Target::EveryNode`], one for each broker.
    ///
    /// # Errors
    /// Where one error stands for all.
    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error>;
}

/// An item that a broker was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The item.
    pub item: usize,
    /// An earlier attempt may have reached a broker, and its answer was lost: what is found may be the attempt's own work.
    pub repeated: bool,
}

/// What a request may depend on.
#[derive(Debug)]
pub struct About<'a> {
    /// The version that the broker speaks.
    pub version: i16,
    /// The view of the cluster.
    pub view: &'a Metadata,
    /// The settings.
    pub config: &'a Config,
}

/// The error about an item that an answer leaves out.
pub(crate) fn left_out(what: &str) -> Error {
    Error::new(Kind::Protocol, format!("the answer leaves out {what}"))
}
