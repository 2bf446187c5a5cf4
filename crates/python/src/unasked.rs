//! Deliveries that nobody asks about: `producer.send(...)` alone. Their failures are kept and told by the next flush or
//! close, so that no record is lost in silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ottla_client::{Delivery, Error};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::delivery::Runs;
use crate::errors;
use crate::runtime::Native;

/// Undecided fates are looked through when there are so many, or twice as many as last remained.
const LOOK_THROUGH: usize = 1024;

pub(crate) enum Fate {
    One(Delivery),
    Many(Runs),
}

impl From<Delivery> for Fate {
    fn from(one: Delivery) -> Self {
        Fate::One(one)
    }
}

impl From<Runs> for Fate {
    fn from(many: Runs) -> Self {
        Fate::Many(many)
    }
}

impl Fate {
    /// How many records failed and why the first did, once that is known.
    fn failures(&self) -> Option<(usize, Option<Error>)> {
        match self {
            Fate::One(one) => one
                .result()
                .map(|result| (usize::from(result.is_err()), result.err())),
            Fate::Many(many) => {
                let mut errors = many.report()?.errors;
                let first = (!errors.is_empty()).then(|| errors.swap_remove(0).1);
                Some((errors.len() + usize::from(first.is_some()), first))
            }
        }
    }
}

/// What became of the records of a producer that nobody asks about.
pub(crate) struct Unasked(Native<Mutex<Ledger>>);

impl Default for Unasked {
    fn default() -> Self {
        Unasked(Native::new("Producer", Mutex::default()))
    }
}

#[derive(Default)]
struct Ledger {
    undecided: Vec<Fate>,
    look_through_at: usize,
    failed: usize,
    first: Option<Error>,
}

impl Ledger {
    /// True when the fate is decided and in the books.
    fn enter(&mut self, fate: &Fate) -> bool {
        let Some((failed, first)) = fate.failures() else {
            return false;
        };
        self.failed += failed;
        if self.first.is_none() {
            self.first = first;
        }
        true
    }

    fn look_through(&mut self) {
        let mut undecided = std::mem::take(&mut self.undecided);
        undecided.retain(|fate| !self.enter(fate));
        self.look_through_at = LOOK_THROUGH.max(2 * undecided.len());
        self.undecided = undecided;
    }
}

impl Unasked {
    fn add(&self, fate: Fate) {
        let Ok(ledger) = self.0.get() else { return };
        let mut ledger = ledger.lock();
        if !ledger.enter(&fate) {
            ledger.undecided.push(fate);
            if ledger.undecided.len() >= ledger.look_through_at.max(LOOK_THROUGH) {
                ledger.look_through();
            }
        }
    }

    /// The error of a close, or else of the failures since the last time. Who hears of the one need not hear of the other.
    pub(crate) fn after_close(&self, py: Python<'_>, closed: Result<(), Error>) -> PyResult<()> {
        let unasked = self.raise(py);
        closed
            .map_err(|error| errors::to_python(py, &error))
            .and(unasked)
    }

    /// The error of the failures since the last time, if there are any.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyResult<()> {
        let (failed, first) = {
            let mut ledger = self.0.get()?.lock();
            ledger.look_through();
            (std::mem::take(&mut ledger.failed), ledger.first.take())
        };
        let Some(first) = first else { return Ok(()) };
        let raised = errors::to_python(py, &first);
        errors::note(
            py,
            &raised,
            &format!(
                "records that were not delivered, and whose delivery nobody asked about: {failed}; this is the first"
            ),
        )?;
        Err(raised)
    }
}

/// A fate, and whether anybody asked for it.
pub(crate) struct Asked<F: Clone + Into<Fate>> {
    fate: F,
    asked: AtomicBool,
    unasked: Arc<Unasked>,
}

impl<F: Clone + Into<Fate>> Asked<F> {
    pub(crate) fn new(fate: F, unasked: &Arc<Unasked>) -> Self {
        Asked {
            fate,
            asked: AtomicBool::new(false),
            unasked: Arc::clone(unasked),
        }
    }

    /// The fate, for someone who only looks.
    pub(crate) fn peek(&self) -> &F {
        &self.fate
    }

    /// From now on it is known that somebody hears, or has heard, of a failure.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// What is told to somebody who asked. A wait that ended before the fate was known has told nothing.
    pub(crate) fn told<T>(&self, told: Option<T>) -> Option<T> {
        if told.is_some() {
            self.ask();
        }
        told
    }
}

impl<F: Clone + Into<Fate>> Drop for Asked<F> {
    fn drop(&mut self) {
        if !self.asked.load(Ordering::Relaxed) {
            self.unasked.add(self.fate.clone().into());
        }
    }
}
