//! The waiter for the end of a call, and its result.

use std::fmt;
use std::marker::PhantomData;

use super::any::AnyAnswer;
use super::interface::Call;
use crate::change::CallId;
use crate::cluster::PartId;
use crate::error::Error;

/// A call with a waiter.
#[derive(Debug)]
pub struct Ticket<C> {
    id: CallId,
    call: PhantomData<fn() -> C>,
}

impl<C> Ticket<C> {
    /// A ticket for a call of this type.
    pub(crate) fn new(id: CallId) -> Ticket<C> {
        Ticket {
            id,
            call: PhantomData,
        }
    }

    /// The call's name.
    pub fn id(&self) -> CallId {
        self.id
    }
}

/// The waiter for the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Caller,
    Part(PartId),
    /// A part that retries by itself, so that it has the other results at once.
    PartOnce(PartId),
}

/// A call of a part that has ended.
pub(crate) struct Ended {
    pub(crate) part: PartId,
    pub(crate) id: CallId,
    pub(super) answer: AnyAnswer,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ended({:?})", self.id)
    }
}

impl Ended {
    /// The result, if the call was of this type.
    pub(crate) fn answer<C: Call>(self) -> Option<Result<C::Answer, Error>> {
        self.answer.get::<C>()
    }
}
