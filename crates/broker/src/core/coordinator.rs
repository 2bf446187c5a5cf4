//! What the transaction coordinator of a node waits for: records of its log and markers that are not on all replicas yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use crate::cluster::controller::Asked;
use crate::replicas::Unreplicated;
use crate::storage::replica::Watcher;
use crate::transaction::{Effect, Mark, Step, TransactionConfig, Transactions};

/// The transaction coordinator and what is on its way for it.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) state: Mutex<State>,
    /// Rung when something that it waits for is safe.
    pub(super) news: Arc<News>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) machine: Transactions<Asked>,
    pub(super) appending: Vec<Appending>,
    pub(super) marking: Vec<Marking>,
    /// The timeout that whoever drives the timers was told.
    pub(super) told: Option<Instant>,
}

/// A record of the log that is not on all replicas yet.
#[derive(Debug)]
pub(super) struct Appending {
    pub(super) step: Step,
    pub(super) record: Unreplicated,
    pub(super) watcher: Arc<Watcher>,
}

#[derive(Debug)]
pub(super) struct Marking {
    pub(super) mark: Mark,
    pub(super) stage: Stage,
}

/// How far a marker is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It is to be written from then on.
    Due(Option<Instant>),
    /// It is not on all replicas yet.
    Placed(Unreplicated, Arc<Watcher>),
}

#[derive(Debug)]
pub(super) struct News {
    pub(super) rung: AtomicBool,
    timer: Waker,
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.timer.wake_by_ref();
    }
}

impl Coordinator {
    pub(super) fn new(config: TransactionConfig, timer: Waker) -> Self {
        Self {
            state: Mutex::new(State {
                machine: Transactions::new(config),
                appending: Vec::new(),
                marking: Vec::new(),
                told: None,
            }),
            news: Arc::new(News {
                rung: AtomicBool::new(false),
                timer,
            }),
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.state.lock().next_timeout()
    }

    /// A watcher that rings for news.
    pub(super) fn watcher(&self) -> Arc<Watcher> {
        Watcher::new(1, Waker::from(Arc::clone(&self.news)))
    }
}

impl State {
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self
            .marking
            .iter()
            .filter_map(|marking| match marking.stage {
                Stage::Due(due) => due,
                Stage::Placed(..) => None,
            });
        due.chain(self.machine.next_timeout()).min()
    }

    /// The markers that are to be written by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Mark> {
        let is_due = |it: &Marking| matches!(it.stage, Stage::Due(Some(due)) if due <= now);
        let (due, rest): (Vec<_>, Vec<_>) = self.marking.drain(..).partition(is_due);
        self.marking = rest;
        due.into_iter().map(|it| it.mark).collect()
    }

    /// Hands out answers, and leaves the rest for later.
    pub(super) fn answer(&mut self) {
        let mut later = Vec::new();
        while let Some(effect) = self.machine.take_effect() {
            match effect {
                Effect::Reply(ticket, reply) => ticket.put(reply),
                effect => later.push(effect),
            }
        }
        self.machine.put_back(later);
    }
}
