//! What the transaction coordinator of a node waits for: records of its log and markers that are not on all replicas yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Instant;

use ottla_protocol::ErrorCode;
use parking_lot::Mutex;

use crate::cluster::controller::Asked;
use crate::replicas::Unreplicated;
use crate::storage::replica::Watcher;
use crate::topics::Topic;
use crate::transaction::{Effect, Home, Mark, Metadata, Step, TransactionConfig, Transactions};

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
    pub(super) taking_over: Vec<TakingOver>,
    pub(super) appending: Vec<Appending>,
    pub(super) marking: Vec<Marking>,
    /// The timeout that the driver of the timers knows.
    pub(super) told: Option<Instant>,
}

/// A part of the log that this node has begun to lead.
///
/// Its ids are coordinated once all of it is on all replicas in sync. Kafka acts at once on what it has read, and then a commit
/// that only the new leader has can be lost after its markers are written: the next leader aborts the same transaction.
#[derive(Debug)]
pub(super) struct TakingOver {
    pub(super) topic: Arc<Topic>,
    pub(super) partition: i32,
    pub(super) kept: BTreeMap<String, Metadata>,
    /// The end of the log that was read.
    pub(super) end: i64,
    pub(super) watcher: Arc<Watcher>,
}

impl TakingOver {
    /// Where the ids are kept, once the log is safe. `None`: not yet. An error: another node leads it by now.
    fn look(&self) -> Option<Result<Home, ErrorCode>> {
        let mut replica = match self.topic.partition(self.partition) {
            Ok(replica) => replica.lock(),
            Err(code) => return Some(Err(code)),
        };
        let epoch = replica.standing().epoch;
        let home = Home {
            partition: self.partition,
            epoch,
        };
        let is_safe = replica.committed(epoch, self.end, 1, &self.watcher)?;
        Some(is_safe.map(|()| home))
    }
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
                taking_over: Vec::new(),
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
    /// Coordinates the ids of parts of the log that are safe by now. Returns whether there were
    /// any.
    pub(super) fn take_over(&mut self) -> bool {
        let mut did = false;
        for part in std::mem::take(&mut self.taking_over) {
            match part.look() {
                None => self.taking_over.push(part),
                Some(Ok(home)) => {
                    did = true;
                    self.machine.lead(home, part.kept);
                }
                Some(Err(_)) => {}
            }
        }
        did
    }

    /// Another node coordinates the ids of such parts of the log from here on.
    pub(super) fn let_go(&mut self, is_gone: impl Fn(i32) -> bool) {
        self.taking_over.retain(|part| !is_gone(part.partition));
        self.machine.unload(is_gone);
    }

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

    /// Hands out replies, and leaves the rest for later.
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
