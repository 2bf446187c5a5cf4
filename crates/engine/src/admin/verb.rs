//! An admin call as callers see it: a name, arguments, and an outcome.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::error::Error;

/// A call of an admin client, by the name that callers know. Its fields are the arguments, under
/// their names; the fields of its outcome are the fields that callers get. A [`Call`] whose
/// arguments can be deserialized and whose result can be serialized is a verb without further code.
/// A verb that makes several calls implements this trait.
pub trait Verb: DeserializeOwned + Send + 'static {
    /// The result.
    type Outcome: Serialize + Send + 'static;

    /// Makes the calls.
    ///
    /// # Errors
    /// Fails with a timeout at the deadline, or with the error of the first item that failed,
    /// together with the errors of all items ([`Error::failures`]).
    fn run(self, admin: &impl Ask) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;
}

impl<C> Verb for C
where
    C: Call + DeserializeOwned,
    C::Answer: Serialize,
{
    type Outcome = C::Answer;

    fn run(self, admin: &impl Ask) -> impl Future<Output = Result<Self::Outcome, Error>> + Send {
        admin.ask(self)
    }
}

/// An admin client with a deadline.
pub trait Ask: Sync {
    /// Makes a call and waits for its end, until the deadline.
    fn ask<C: Call>(&self, call: C) -> impl Future<Output = Result<C::Answer, Error>> + Send;

    /// The time that a broker may take itself, in ms, for requests that name it.
    fn broker_timeout_ms(&self) -> i32;
}

/// Work for a verb whose type is known only by its name.
pub trait Visitor: Sized {
    /// What it gives.
    type Value;

    /// Called with the verb's type.
    fn visit<V: Verb>(self) -> Self::Value;
}

/// The verbs of a file, by their names.
macro_rules! verbs {
    ($($name:ident: $verb:ty,)*) => {
        /// Calls `visitor` with the verb of this name; returns the visitor if this file has no such verb.
        pub(super) fn find<V: crate::admin::Visitor>(name: &str, visitor: V) -> Result<V::Value, V> {
            match name {
                $(stringify!($name) => Ok(visitor.visit::<$verb>()),)*
                _ => Err(visitor),
            }
        }
    };
}

pub(super) use verbs;
