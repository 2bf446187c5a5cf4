//! Acknowledgements: their way to brokers, and their results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ApiKey;

use super::{Acquirer, length};
use crate::change::Change;
use crate::cluster::Cluster;
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::share::acknowledgement::{
    AcknowledgeType, Acknowledged, ByPartition, Key, LockId, Pending, Verdict,
};
use crate::share::errors::{came_anew, lost, unknown};
use crate::share::lock::{Held, State};
use crate::share::runs::{Run, Runs};

impl Acquirer {
    /// Queues an acknowledgement for the broker, if the lock is still known.
    pub(super) fn say(
        &mut self,
        now: Instant,
        id: LockId,
        (first, last): (i64, i64),
        verdict: Verdict,
    ) {
        let Some(lock) = self.locks.get(&id) else {
            return;
        };
        let default = now + self.config.default_api_timeout;
        let pending = Pending {
            verdict,
            lock: id,
            turn: self.turn,
            until: lock.renewed_until.max(lock.until).unwrap_or(default),
        };
        let (node, key, number) = (lock.node, lock.key, lock.session);
        let session = self.sessions.get_mut(&node);
        match session.filter(|session| session.number == number && session.is_open()) {
            Some(session) => {
                let outbox = session.outbox.entry(key).or_default();
                outbox.set(first, last, pending);
            }
            None => {
                let cause = Error::new(Kind::Broker, "the connection on which they came is gone");
                let run = Run {
                    first,
                    last,
                    value: pending,
                };
                self.unsaid.push((run, self.in_partition(lost(cause), id)));
            }
        }
    }

    /// The caller's acknowledgement cannot be sent any more: the next commit reports it.
    pub(super) fn not_said(
        &mut self,
        now: Instant,
        lock: LockId,
        (first, last): (i64, i64),
        kind: AcknowledgeType,
    ) {
        let value = Pending {
            verdict: Verdict::Of(kind),
            lock,
            turn: self.turn + 1,
            until: now,
        };
        let run = Run { first, last, value };
        self.unsaid
            .push((run, self.in_partition(came_anew(), lock)));
    }

    pub(super) fn fail(&mut self, cluster: &mut Cluster, pending: ByPartition, error: &Error) {
        for pending in pending.values() {
            let error = self.placed(error, pending);
            for run in pending.iter() {
                self.resolve(cluster, run, Err(&error));
            }
        }
    }

    /// Names the partition, once for all runs: there may be many, and a broker's text may be long.
    pub(super) fn placed(&self, error: &Error, pending: &Runs<Pending>) -> Error {
        let mut runs = pending.iter();
        match runs.find(|run| self.locks.contains_key(&run.value.lock)) {
            Some(run) => self.in_partition(error.clone(), run.value.lock),
            None => error.clone(),
        }
    }

    pub(super) fn in_partition(&self, error: Error, lock: LockId) -> Error {
        match self.locks.get(&lock) {
            Some(lock) => error.with_partition(&lock.topic, lock.key.1),
            None => error,
        }
    }

    /// An acknowledgement counts, since then, or does not, which the error names with the partition.
    pub(super) fn resolve(
        &mut self,
        cluster: &mut Cluster,
        run: Run<Pending>,
        result: Result<Instant, &Error>,
    ) {
        let Run { first, last, value } = run;
        let Some(lock) = self.locks.get_mut(&value.lock) else {
            return;
        };
        let (topic, key) = (Arc::clone(&lock.topic), lock.key);
        if value.verdict == Verdict::RENEW {
            match result {
                Ok(at) => {
                    lock.renewed_until = self.lock_timeout.and_then(|time| at.checked_add(time));
                }
                Err(_) => self.unlock(key, value.lock, first, last),
            }
        } else {
            self.settle(value.lock, first, last);
        }
        let Verdict::Of(kind) = value.verdict else {
            // No caller wants the result.
            return;
        };
        let meters = &mut cluster.context.meters;
        meters.acknowledged(length(first, last), result.is_ok());
        let error = result.err().cloned();
        let is_awaited = self
            .commits
            .note(value.turn, (&topic, key.1), error.as_ref());
        if let (Some(cause), false) = (&error, is_awaited) {
            cluster.context.observer.tell(Observed::AcknowledgeFailed {
                first,
                last,
                cause: cause.clone(),
            });
        }
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(Acknowledged {
                topic,
                partition: key.1,
                first,
                last,
                kind: Some(kind),
                error,
            });
        }
    }

    /// The lock of these records was not renewed: what the caller has not said of them meanwhile cannot be said.
    fn unlock(&mut self, key: Key, lock: LockId, first: i64, last: i64) {
        let Some(held) = self.held.get_mut(&key) else {
            return;
        };
        let renewed = Held {
            lock,
            state: State::Renewed,
        };
        let within = held.within(first, last).into_iter();
        let gone: Vec<_> = within.filter(|run| run.value == renewed).collect();
        for run in &gone {
            held.take(run.first, run.last);
        }
        for run in gone {
            self.settle(lock, run.first, run.last);
        }
    }

    /// Nothing more is to be said of these offsets.
    pub(super) fn settle(&mut self, id: LockId, first: i64, last: i64) {
        if let Some(lock) = self.locks.get_mut(&id) {
            lock.left = lock.left.saturating_sub(length(first, last));
            if lock.left == 0 {
                self.locks.remove(&id);
            }
        }
    }

    pub(super) fn check_commits(&mut self, now: Instant, cluster: &mut Cluster) {
        let unsaid = std::mem::take(&mut self.unsaid).into_iter();
        let turn = self.turn;
        let (due, later): (Vec<_>, _) = unsaid.partition(|(run, _)| run.value.turn <= turn);
        self.unsaid = later;
        for (run, error) in due {
            self.resolve(cluster, run, Err(&error));
        }
        let mut changed = self.commits.end_settled(self.earliest());
        for id in self.commits.late(now) {
            let open = self.open();
            self.commits.end_late(id, open);
            changed = true;
        }
        if let Some(at) = self.commits.next_deadline() {
            cluster.set_alarm(at);
        }
        if changed {
            cluster.context.changes.tell(Change::Group);
        }
    }

    fn pending(&self) -> impl Iterator<Item = (bool, Pending)> {
        self.sessions.values().flat_map(|session| {
            let waiting = session.outbox.values().flat_map(Runs::iter);
            let sent = session
                .sent
                .iter()
                .flat_map(|sent| sent.acknowledged.values());
            let sent = sent.flat_map(Runs::iter).map(|run| (true, run.value));
            waiting.map(|run| (false, run.value)).chain(sent)
        })
    }

    /// The first turn of which something is not settled.
    fn earliest(&self) -> Option<u64> {
        self.pending().map(|(_, pending)| pending.turn).min()
    }

    /// The acknowledgements without a result, by turn, with the error for waiters whose deadline
    /// passed.
    fn open(&self) -> Vec<(u64, Arc<str>, i32, Error)> {
        let mut open = BTreeMap::new();
        for (was_sent, pending) in self.pending() {
            if let Some(lock) = self.locks.get(&pending.lock) {
                let place = (pending.turn, Arc::clone(&lock.topic), lock.key.1);
                *open.entry(place).or_insert(false) |= was_sent;
            }
        }
        let open = open.into_iter().map(|((turn, topic, number), was_sent)| {
            let text = "the broker has not responded in time";
            let error = Error::new(Kind::Timeout, text).calling(ApiKey::ShareAcknowledge.name());
            let error = match was_sent {
                true => unknown(error),
                false => error.adding("it goes on, and may still count"),
            };
            let error = error.with_partition(&topic, number);
            (turn, topic, number, error)
        });
        open.collect()
    }
}
