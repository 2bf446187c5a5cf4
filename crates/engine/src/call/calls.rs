//! All calls of one engine.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::any::{AnyAnswer, AnyCall};
use super::running::Running;
use super::ticket::{Asker, Ended};
use crate::api::Response;
use crate::change::{CallId, Change};
use crate::cluster::{Cluster, LinkId, Orphan};
use crate::error::Error;

/// All calls of one engine.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    next_id: u64,
    running: BTreeMap<CallId, Running>,
    asked: FxHashMap<u64, (CallId, Vec<usize>)>,
    for_callers: FxHashMap<CallId, AnyAnswer>,
    for_parts: VecDeque<Ended>,
}

impl Calls {
    pub(crate) fn start(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        call: AnyCall,
        asker: Asker,
        deadline: Instant,
    ) -> CallId {
        self.next_id += 1;
        let id = CallId(self.next_id);
        let running = Running::new(now, cluster, call, asker, deadline);
        self.running.insert(id, running);
        self.step(now, cluster, id);
        id
    }

    /// The result, once.
    pub(crate) fn take(&mut self, id: CallId) -> Option<AnyAnswer> {
        self.for_callers.remove(&id)
    }

    pub(crate) fn poll_ended(&mut self) -> Option<Ended> {
        self.for_parts.pop_front()
    }

    /// The last error of a running call.
    pub(crate) fn trouble(&self, id: CallId) -> Option<&Error> {
        self.running.get(&id)?.last_error()
    }

    /// The caller no longer waits.
    pub(crate) fn cancel(&mut self, cluster: &mut Cluster, id: CallId) {
        self.for_callers.remove(&id);
        if let Some(running) = self.running.remove(&id) {
            running.release(cluster);
            self.withdraw(cluster, id);
        }
    }

    /// The call has ended: what was not sent yet must not be carried out afterwards.
    fn withdraw(&mut self, cluster: &mut Cluster, id: CallId) {
        let mut tokens = Vec::new();
        self.asked.retain(|token, (call, _)| {
            if *call == id {
                tokens.push(*token);
            }
            *call != id
        });
        if !tokens.is_empty() {
            cluster.withdraw(&tokens);
        }
    }

    /// Fails everything.
    pub(crate) fn abort(&mut self, cluster: &mut Cluster, cause: &Error) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.end(cluster, id, Some(cause.clone()));
        }
    }

    /// Sends requests that can be sent, and ends calls whose deadline has passed.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        if self.running.is_empty() {
            return;
        }
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.step(now, cluster, id);
        }
    }

    fn step(&mut self, now: Instant, cluster: &mut Cluster, id: CallId) {
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        if running.is_late(now, cluster) {
            let error = running.late(cluster);
            return self.end(cluster, id, Some(error));
        }
        for (token, slots) in running.ask(now, cluster) {
            self.asked.insert(token, (id, slots));
        }
        self.end_if_done(cluster, id);
    }

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        link: LinkId,
        response: Response,
    ) {
        let Some((id, slots)) = self.asked.remove(&token) else {
            return;
        };
        if let Some(running) = self.running.get_mut(&id) {
            running.take(now, cluster, link, &slots, response);
            self.end_if_done(cluster, id);
        }
    }

    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some((id, slots)) = self.asked.remove(&orphan.token) else {
            return;
        };
        if let Some(running) = self.running.get_mut(&id) {
            running.lose(now, cluster, &slots, orphan);
            self.end_if_done(cluster, id);
        }
    }

    fn end_if_done(&mut self, cluster: &mut Cluster, id: CallId) {
        if self.running.get(&id).is_some_and(Running::is_done) {
            self.end(cluster, id, None);
        }
    }

    fn end(&mut self, cluster: &mut Cluster, id: CallId, error: Option<Error>) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        running.release(cluster);
        self.withdraw(cluster, id);
        let asker = running.asker();
        let answer = running.end(error);
        match asker {
            Asker::Caller => {
                self.for_callers.insert(id, answer);
                cluster.context.changes.tell(Change::Call(id));
            }
            Asker::Part(part) | Asker::PartOnce(part) => {
                self.for_parts.push_back(Ended { part, id, answer });
            }
        }
    }
}
