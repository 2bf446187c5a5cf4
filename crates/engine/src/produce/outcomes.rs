//! Counts over all batches: bytes in use, batches without a delivery result, and the results that
//! were not taken yet.

use std::collections::{BTreeSet, VecDeque};

use crate::change::Change;
use crate::cluster::Context;
use crate::error::{Error, Written};
use crate::observe::Observed;
use crate::produce::batch::{Batch, BatchId, Done, Stored};

#[derive(Debug)]
pub(super) struct Outcomes<T> {
    used: usize,
    undecided: BTreeSet<BatchId>,
    /// With the number of each batch.
    done: VecDeque<(u64, Done<T>)>,
    /// The failures in the open transaction; `None` without transactions.
    losses: Option<Losses>,
}

/// The failures in a transaction.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The first failure, until it is taken.
    failure: Option<Error>,
    /// A batch that has sequence numbers was abandoned.
    gap: bool,
}

impl<T> Default for Outcomes<T> {
    fn default() -> Outcomes<T> {
        Outcomes {
            used: 0,
            undecided: BTreeSet::new(),
            done: VecDeque::new(),
            losses: None,
        }
    }
}

impl<T: Clone> Outcomes<T> {
    /// From here on, notes what goes wrong in the transaction that begins.
    pub(super) fn begin(&mut self) {
        self.losses = Some(Losses::default());
    }

    /// The first failure of the transaction, once.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.losses.as_mut()?.failure.take()
    }

    /// Whether a failure of the transaction waits to be taken.
    pub(super) fn has_failure(&self) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|losses| losses.failure.is_some())
    }

    /// Whether a batch of the transaction that has sequence numbers was abandoned.
    pub(super) fn has_gap(&self) -> bool {
        self.losses.as_ref().is_some_and(|losses| losses.gap)
    }

    /// Bytes of records that have no delivery result yet, or that a request still owns.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// A batch was opened.
    pub(super) fn opened(&mut self, number: u64) {
        self.undecided.insert((number, 0));
    }

    /// An open batch takes more bytes.
    pub(super) fn take(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Whether all batches up to `mark` have their delivery result.
    pub(super) fn is_decided(&self, mark: u64) -> bool {
        let first = self.undecided.first();
        first.is_none_or(|(number, _)| *number > mark)
    }

    /// The next delivery result.
    pub(super) fn poll(&mut self) -> Option<Done<T>> {
        self.done.pop_front().map(|(_, fate)| fate)
    }

    /// Takes back the delivery result of a batch that was not reported yet: why it failed.
    pub(super) fn retract(&mut self, number: u64) -> Option<Error> {
        let at = self.done.iter().rposition(|(other, _)| *other == number)?;
        self.done.remove(at)?.1.result.err()
    }

    /// A batch was written, and no request holds it.
    pub(super) fn delivered(&mut self, context: &mut Context, batch: &Batch<T>, stored: Stored) {
        self.release(context, batch);
        if !batch.decided {
            self.tell(context, batch, Ok(stored));
        }
    }

    /// Abandons a batch that no request holds any more. `error` names the partition.
    pub(super) fn failed(&mut self, context: &mut Context, batch: &Batch<T>, error: Error) {
        self.release(context, batch);
        if let Some(losses) = &mut self.losses {
            losses.gap |= batch.stamp.is_some();
        }
        if !batch.decided {
            self.tell_failure(context, batch, batch.failure(error));
        }
    }

    /// Abandons a batch while a request still owns its bytes. `error` names the partition.
    pub(super) fn abandoned(&mut self, context: &mut Context, batch: &mut Batch<T>, error: Error) {
        batch.decided = true;
        batch.set_may_be_written();
        self.undecided.remove(&batch.id);
        let error = error.after(batch.attempts).with_written(Written::Unknown);
        self.tell_failure(context, batch, error);
    }

    /// A batch gave way to two.
    pub(super) fn split(
        &mut self,
        context: &mut Context,
        batch: &Batch<T>,
        halves: &[Batch<T>; 2],
    ) {
        self.release(context, batch);
        for half in halves {
            self.used += half.bytes;
            self.undecided.insert(half.id);
        }
    }

    fn release(&mut self, context: &mut Context, batch: &Batch<T>) {
        self.used -= batch.bytes;
        self.undecided.remove(&batch.id);
        context.changes.tell(Change::Room);
    }

    fn tell_failure(&mut self, context: &mut Context, batch: &Batch<T>, error: Error) {
        if let Some(losses) = &mut self.losses {
            losses.failure.get_or_insert_with(|| error.clone());
        }
        let meters = &mut context.meters;
        meters.batch_failed(error.topic(), batch.count);
        context.observer.tell(Observed::BatchFailed {
            records: batch.count,
            cause: error.clone(),
        });
        self.tell(context, batch, Err(error));
    }

    fn tell(&mut self, context: &mut Context, batch: &Batch<T>, result: Result<Stored, Error>) {
        self.done.push_back((batch.id.0, batch.fate(result)));
        context.changes.tell(Change::Fate);
    }
}
