//! A call behind a pointer: what runs calls is compiled once, and not for each API.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use ottla_protocol::ApiKey;

use super::interface::{About, Asked, Call, Effect, Retry, left_out};
use super::target::Target;
use crate::api::{Request, Response};
use crate::config::Config;
use crate::error::{Error, Kind};

/// A call of any type.
#[derive(Debug)]
pub struct AnyCall(pub(super) Box<dyn Methods>);

impl AnyCall {
    /// This call.
    pub fn of<C: Call>(call: C) -> AnyCall {
        let found = Vec::new();
        AnyCall(Box::new(Typed { call, found }))
    }
}

/// The result of a call of any type.
pub struct AnyAnswer(Box<dyn Any + Send>);

impl fmt::Debug for AnyAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyAnswer")
    }
}

impl AnyAnswer {
    fn of<C: Call>(result: Result<C::Answer, Error>) -> AnyAnswer {
        AnyAnswer(Box::new(result))
    }

    /// The result, if the call was of this type.
    pub(super) fn get<C: Call>(self) -> Option<Result<C::Answer, Error>> {
        self.0.downcast().ok().map(|result| *result)
    }

    /// The result of a call of this type.
    ///
    /// # Errors
    /// The error of the call. The call was of another type.
    pub fn result<C: Call>(self) -> Result<C::Answer, Error> {
        self.get::<C>().unwrap_or_else(|| Err(of_another_call()))
    }
}

#[cold]
fn of_another_call() -> Error {
    let text = "the response does not belong to this call";
    Error::new(Kind::Protocol, text)
}

/// The methods of [`Call`], for any type of it. A slot is an item, or an item at one of all brokers.
pub(super) trait Methods: fmt::Debug + Send {
    fn api(&self) -> ApiKey;
    fn versions(&self) -> (i16, i16);
    fn patience(&self, config: &Config) -> Duration;
    fn items(&self) -> usize;
    fn is_alone(&self) -> bool;
    fn target(&self, item: usize) -> Target;
    fn request(&self, items: &[usize], about: &About<'_>) -> Request;
    fn changes(&self) -> bool;
    fn proves_nothing(&self, error: &Error) -> bool;
    fn effect(&self, item: usize) -> Option<Effect<'_>>;
    fn retry(&self, error: &Error, answers: u32) -> Retry;
    /// The error of each slot that has one in a response. The call keeps the results of the others.
    fn take(
        &mut self,
        slots: &[usize],
        items: &[Asked],
        response: Response,
    ) -> Vec<Result<(), Error>>;
    /// The result of the whole call: an error for each slot that has one, in order; the call has the results of the others.
    fn merge(self: Box<Self>, slots: Vec<Result<(), Error>>) -> AnyAnswer;
    /// The call ends with this error.
    fn fail(self: Box<Self>, error: Error) -> AnyAnswer;
}

/// A call with the results that it has so far.
struct Typed<C: Call> {
    call: C,
    /// By slot.
    found: Vec<Option<C::Found>>,
}

impl<C: Call> fmt::Debug for Typed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call.api().name())
    }
}

impl<C: Call> Methods for Typed<C> {
    fn api(&self) -> ApiKey {
        self.call.api()
    }

    fn versions(&self) -> (i16, i16) {
        self.call.versions()
    }

    fn patience(&self, config: &Config) -> Duration {
        self.call.patience(config)
    }

    fn items(&self) -> usize {
        self.call.items()
    }

    fn is_alone(&self) -> bool {
        self.call.is_alone()
    }

    fn target(&self, item: usize) -> Target {
        self.call.target(item)
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        self.call.request(items, about)
    }

    fn changes(&self) -> bool {
        self.call.changes()
    }

    fn proves_nothing(&self, error: &Error) -> bool {
        self.call.proves_nothing(error)
    }

    fn effect(&self, item: usize) -> Option<Effect<'_>> {
        self.call.effect(item)
    }

    fn retry(&self, error: &Error, answers: u32) -> Retry {
        self.call.retry(error, answers)
    }

    fn take(
        &mut self,
        slots: &[usize],
        items: &[Asked],
        response: Response,
    ) -> Vec<Result<(), Error>> {
        let mut results = self.call.take(items, response).into_iter();
        let mut errors = Vec::with_capacity(slots.len());
        for slot in slots {
            errors.push(match results.next() {
                Some(Ok(found)) => {
                    if self.found.len() <= *slot {
                        self.found.resize_with(slot + 1, || None);
                    }
                    if let Some(place) = self.found.get_mut(*slot) {
                        *place = Some(found);
                    }
                    Ok(())
                }
                Some(Err(error)) => Err(error),
                None => Err(left_out("an item")),
            });
        }
        errors
    }

    fn merge(self: Box<Self>, slots: Vec<Result<(), Error>>) -> AnyAnswer {
        let mut found = self.found.into_iter();
        let mut results = Vec::with_capacity(slots.len());
        for slot in slots {
            let found = found.next().flatten();
            results.push(match slot {
                Ok(()) => found.ok_or_else(|| left_out("an item")),
                Err(error) => Err(error),
            });
        }
        AnyAnswer::of::<C>(self.call.merge(results))
    }

    fn fail(self: Box<Self>, error: Error) -> AnyAnswer {
        AnyAnswer::of::<C>(Err(error))
    }
}
