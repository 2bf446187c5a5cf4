//! Deliveries that nobody observes: `producer.send(...)` alone. The next flush or close reports
//! their failures, so that no record is lost in silence.

use std::sync::atomic::{AtomicBool, Ordering};

use ottla_client::{Deliveries, Delivery, Error, Producer, UnobservedFailures};
use pyo3::prelude::*;

use crate::bridge::errors;
use crate::sending::runs::Runs;

/// The error of a close, or else of the failures since the last time. A caller who gets the one does not need the
/// other.
pub(crate) fn after_close(
    py: Python<'_>,
    client: &Producer,
    closed: Result<(), Error>,
) -> PyResult<()> {
    let unobserved = raise(py, client);
    closed
        .map_err(|error| errors::to_python(py, &error))
        .and(unobserved)
}

/// The error of the failures since the last time, if there are any.
pub(crate) fn raise(py: Python<'_>, client: &Producer) -> PyResult<()> {
    let Some(UnobservedFailures { failed, first }) = client.take_unobserved_failures() else {
        return Ok(());
    };
    let raised = errors::to_python(py, &first);
    errors::note(
        py,
        &raised,
        &format!(
            "failed records whose deliveries nobody asked about: {failed}; this is the error of the first"
        ),
    )?;
    Err(raised)
}

/// The outcome of records, which a caller may ask about or leave.
pub(crate) trait Fate {
    fn leave(&self);

    /// Undoes `leave`. False if that cannot be undone.
    fn take_back(&self) -> bool {
        false
    }
}

impl Fate for Delivery {
    fn leave(&self) {
        Delivery::leave(self);
    }

    fn take_back(&self) -> bool {
        Delivery::take_back(self);
        true
    }
}

/// The runs of a call that goes on.
impl Fate for Vec<Deliveries> {
    fn leave(&self) {
        self.iter().for_each(Deliveries::leave);
    }
}

impl Fate for Runs {
    fn leave(&self) {
        Runs::leave(self);
    }
}

/// A delivery result, and whether a caller observed it.
pub(crate) struct Asked<F: Fate> {
    fate: F,
    asked: AtomicBool,
    /// It was left: a wait ended before the delivery result was known.
    left: AtomicBool,
}

impl<F: Fate> Asked<F> {
    pub(crate) fn new(fate: F) -> Self {
        let (asked, left) = (AtomicBool::new(false), AtomicBool::new(false));
        Asked { fate, asked, left }
    }

    /// The delivery result, for a caller that only looks.
    pub(crate) fn peek(&self) -> &F {
        &self.fate
    }

    /// Notes that a failure is or was reported to a caller.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Notes that a caller waits for the delivery result. If the wait ends before a failure was
    /// reported, by a timeout or because a task was cancelled, the next flush or close reports it:
    /// the caller may keep the delivery and never look again.
    pub(crate) fn waits(&self) -> Waits<'_, F> {
        if self.left.load(Ordering::Relaxed) && self.fate.take_back() {
            self.left.store(false, Ordering::Relaxed);
        }
        Waits(self)
    }

    fn leave(&self) {
        if !self.asked.load(Ordering::Relaxed) && !self.left.swap(true, Ordering::Relaxed) {
            self.fate.leave();
        }
    }

    /// The delivery result, for a caller that observes it. A wait that ended before the result was
    /// known has reported nothing.
    pub(crate) fn told<T>(&self, told: Option<T>) -> Option<T> {
        if told.is_some() {
            self.ask();
        }
        told
    }
}

impl Asked<Vec<Deliveries>> {
    pub(crate) fn push(&mut self, run: Deliveries) {
        self.fate.push(run);
    }

    /// All runs, which somebody may ask about together.
    pub(crate) fn into_runs(mut self) -> Asked<Runs> {
        Asked::new(Runs::new(std::mem::take(&mut self.fate)))
    }
}

impl<F: Fate> Drop for Asked<F> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A wait for a delivery result, until it ends.
pub(crate) struct Waits<'a, F: Fate>(&'a Asked<F>);

impl<F: Fate> Drop for Waits<'_, F> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
