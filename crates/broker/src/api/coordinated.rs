//! Responses of the coordinators: of groups, which come when the group is ready for them and the
//! replicas in sync have what they are about, and of transactions.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;

use super::{Cx, Outcome, Wait};
use crate::bell::Slot;
use crate::cluster::controller::Asked;
use crate::core::{Replied, Ticket};
use crate::group::Reply;
use crate::now::Now;
use crate::replicas::{Unreplicated, for_clients};
use crate::storage::replica::Watcher;
use crate::transaction;

/// How long replicas have for it, as `offsets.commit.timeout.ms` in Kafka.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a coordinator sends to `ticket`, made an outcome by `then`.
pub(super) fn once_told<T: Send + 'static, R: 'static>(
    ticket: Arc<Slot<T>>,
    then: impl FnOnce(T, Now) -> Option<Outcome<R>> + Send + 'static,
) -> Outcome<R> {
    let awaited = Arc::clone(&ticket);
    let resume = move |now: Now| {
        let outcome = ticket.take().and_then(|told| then(told, now));
        outcome.unwrap_or_else(stopped)
    };
    Outcome::Wait(Wait {
        awaited,
        deadline: None,
        resume: Box::new(resume),
    })
}

fn stopped<R>() -> Outcome<R> {
    Outcome::Close("the coordinator stopped".to_owned())
}

/// A reply of the group coordinator that comes to `ticket`, made a response by `respond`.
pub(super) fn from_coordinator<R: Send + 'static>(
    cx: &Cx<'_>,
    ticket: Ticket,
    respond: impl FnOnce(Reply) -> Option<R> + Send + 'static,
) -> Outcome<R> {
    let waker = cx.client.waker.clone();
    once_told(ticket, move |replied, now| {
        let Replied {
            reply,
            unreplicated,
        } = replied;
        Some(once_replicated(unreplicated, waker, now, move |kept| {
            let reply = match kept {
                Ok(()) => reply,
                Err(code) => reply.refused(code),
            };
            respond(reply).map_or_else(stopped, Outcome::Answer)
        }))
    })
}

/// A reply of a transaction coordinator that comes to `ticket`, made a response by `respond`.
pub(super) fn from_transactions<R: 'static>(
    ticket: Asked,
    respond: impl FnOnce(transaction::Reply) -> Option<R> + Send + 'static,
) -> Outcome<R> {
    once_told(ticket, |reply, _| respond(reply).map(Outcome::Answer))
}

/// The error code that a producer gets for a partition that was to join its transaction, or to be
/// in it. `again` replaces errors of the coordinator that pass, and that producers do not know.
pub(super) fn joined(
    code: ErrorCode,
    knows_abortable: bool,
    adds: bool,
    again: ErrorCode,
) -> Result<(), ErrorCode> {
    match code {
        ErrorCode::NONE => Ok(()),
        ErrorCode::PRODUCER_FENCED => Err(ErrorCode::INVALID_PRODUCER_EPOCH),
        ErrorCode::TRANSACTION_ABORTABLE if !knows_abortable => Err(ErrorCode::INVALID_TXN_STATE),
        ErrorCode::CONCURRENT_TRANSACTIONS if adds => Err(code),
        ErrorCode::CONCURRENT_TRANSACTIONS
        | ErrorCode::NOT_COORDINATOR
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => Err(again),
        code => Err(code),
    }
}

/// Goes on with `then` when all replicas in sync have `unreplicated`, or with the code for clients if they will not.
pub(super) fn once_replicated<R: 'static>(
    unreplicated: Vec<Unreplicated>,
    waker: Waker,
    now: Now,
    then: impl FnOnce(Result<(), ErrorCode>) -> Outcome<R> + Send + 'static,
) -> Outcome<R> {
    let deadline = now.instant + TIMEOUT;
    Waiting {
        unreplicated,
        waker,
        deadline,
        then,
    }
    .look(now)
}

struct Waiting<F> {
    unreplicated: Vec<Unreplicated>,
    waker: Waker,
    deadline: Instant,
    then: F,
}

impl<F> Waiting<F> {
    fn look<R: 'static>(mut self, now: Now) -> Outcome<R>
    where
        F: FnOnce(Result<(), ErrorCode>) -> Outcome<R> + Send + 'static,
    {
        let watcher = Watcher::new(1, self.waker.clone());
        let is_late = now.instant >= self.deadline;
        let mut failed = None;
        self.unreplicated
            .retain(|waiting| match waiting.look(&watcher) {
                Some(Ok(())) => false,
                Some(Err(code)) => {
                    failed = Some(code);
                    false
                }
                None if is_late => {
                    failed = Some(ErrorCode::REQUEST_TIMED_OUT);
                    false
                }
                None => true,
            });
        if let Some(code) = failed {
            return (self.then)(Err(for_clients(code)));
        }
        if self.unreplicated.is_empty() {
            return (self.then)(Ok(()));
        }
        Outcome::Wait(Wait {
            awaited: watcher,
            deadline: Some(self.deadline),
            resume: Box::new(move |now| self.look(now)),
        })
    }
}
