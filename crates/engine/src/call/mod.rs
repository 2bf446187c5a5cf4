//! Calls: what is asked of brokers once, and answered once, with retries in between.
//!
//! ```text
//! start ──▶ open ── a link to its target is up ──▶ asked ── answers about every item ──▶ ended
//!             ▲                                     │
//!             └── after a pause ◀───────────────────┴─ retriable error, link broke       deadline, from any state ──▶ ended
//! ```
//!
//! A call is a type that implements [`Call`]: where each of its items goes, the request about those items that go to one
//! broker, what an answer says about each, and what all of it amounts to. An API, or a family of them, is one file here.

mod controller;
mod create_topics;
mod delete_topics;
mod describe_topics;
mod init_producer_id;
mod list_offsets;
mod running;
mod target;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::time::Instant;

use ottla_protocol::ApiKey;
use rustc_hash::FxHashMap;

pub use self::create_topics::CreateTopics;
pub use self::delete_topics::DeleteTopics;
pub use self::describe_topics::{DescribeCluster, DescribeTopics, ListTopics};
pub use self::init_producer_id::{InitProducerId, ProducerIdentity};
pub use self::list_offsets::{EARLIEST, FoundOffset, LATEST, ListOffsets};
use self::running::{Run, Running};
pub use self::target::Target;
pub(crate) use self::target::{Absence, why_no_leader};
use crate::api::{Request, Response};
pub use crate::change::CallId;
use crate::change::Change;
use crate::cluster::{Cluster, LinkId, Orphan, PartId};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::metadata::Metadata;

/// Something that is asked of brokers.
pub trait Call: fmt::Debug + Send + 'static {
    /// What is found out about one item.
    type Found: fmt::Debug + Send + 'static;
    /// What all of it amounts to.
    type Answer: fmt::Debug + Send + 'static;
    /// The API.
    const API: ApiKey;

    /// How many things are asked about. An answer about one does not hide an error about another.
    fn items(&self) -> usize {
        1
    }

    /// Where the question about an item goes.
    fn target(&self, item: usize) -> Target;

    /// The request about these items, which go to one broker.
    fn request(&self, items: &[usize], about: &About<'_>) -> Request;

    /// What an answer says about each of these items, in their order; fewer are a broker's fault.
    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>>;

    /// Whether the question about an item is asked again after this error; if so, where it goes is looked up again too.
    fn is_retried(&self, error: &Error) -> bool {
        error.is_retriable()
    }

    /// What all of it amounts to: one result for each item in order; for [`Target::EveryNode`], one for each broker.
    ///
    /// # Errors
    /// Where one error stands for all.
    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error>;
}

/// An item that a broker was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The item.
    pub item: usize,
    /// An earlier attempt may have reached a broker, and its answer was lost: what is found may be the attempt's own work.
    pub repeated: bool,
}

/// What a request may depend on.
#[derive(Debug)]
pub struct About<'a> {
    /// The version that the broker speaks.
    pub version: i16,
    /// The view of the cluster.
    pub view: &'a Metadata,
    /// The settings.
    pub config: &'a Config,
}

/// A call that somebody waits for.
#[derive(Debug)]
pub struct Ticket<C> {
    id: CallId,
    call: PhantomData<fn() -> C>,
}

impl<C> Ticket<C> {
    /// The call's name.
    pub fn id(&self) -> CallId {
        self.id
    }
}

/// Who waits for the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Caller,
    Part(PartId),
    /// A part that asks again itself what may succeed later, so that it has the rest at once.
    PartOnce(PartId),
}

/// The answer of a call, whatever its type.
type AnyAnswer = Box<dyn Any + Send>;

/// A call of a part that has ended.
pub(crate) struct Ended {
    pub(crate) part: PartId,
    pub(crate) id: CallId,
    answer: AnyAnswer,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ended({:?})", self.id)
    }
}

impl Ended {
    /// The answer, if the call was of this type.
    pub(crate) fn answer<C: Call>(self) -> Option<Result<C::Answer, Error>> {
        self.answer.downcast().ok().map(|answer| *answer)
    }
}

/// All calls of one engine.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    next_id: u64,
    running: BTreeMap<CallId, Box<dyn Run>>,
    asked: FxHashMap<u64, (CallId, Vec<usize>)>,
    for_callers: FxHashMap<CallId, AnyAnswer>,
    for_parts: VecDeque<Ended>,
}

impl Calls {
    pub(crate) fn start<C: Call>(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        call: C,
        asker: Asker,
        deadline: Instant,
    ) -> CallId {
        self.next_id += 1;
        let id = CallId(self.next_id);
        let running = Running::new(now, cluster, call, asker, deadline);
        self.running.insert(id, Box::new(running));
        self.step(now, cluster, id);
        id
    }

    /// A ticket for a call of this type.
    pub(crate) fn ticket<C: Call>(id: CallId) -> Ticket<C> {
        Ticket {
            id,
            call: PhantomData,
        }
    }

    /// The answer, once.
    pub(crate) fn take<C: Call>(&mut self, ticket: &Ticket<C>) -> Option<Result<C::Answer, Error>> {
        let answer = self.for_callers.remove(&ticket.id)?;
        let answer = answer.downcast().map(|answer| *answer);
        Some(answer.unwrap_or_else(|_| {
            let text = "the answer is not the one to this call";
            Err(Error::new(Kind::Protocol, text))
        }))
    }

    pub(crate) fn poll_ended(&mut self) -> Option<Ended> {
        self.for_parts.pop_front()
    }

    /// What went wrong last in a call that is under way.
    pub(crate) fn trouble(&self, id: CallId) -> Option<&Error> {
        self.running.get(&id)?.last_error()
    }

    /// Nobody waits any more.
    pub(crate) fn cancel(&mut self, cluster: &mut Cluster, id: CallId) {
        self.for_callers.remove(&id);
        if let Some(running) = self.running.remove(&id) {
            running.release(cluster);
        }
    }

    /// Fails everything.
    pub(crate) fn abort(&mut self, cluster: &mut Cluster, cause: &Error) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.end(cluster, id, Some(cause.clone()));
        }
    }

    /// Asks what can be asked, and gives up what is late.
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
        if self
            .running
            .get(&id)
            .is_some_and(|running| running.is_done())
        {
            self.end(cluster, id, None);
        }
    }

    fn end(&mut self, cluster: &mut Cluster, id: CallId, error: Option<Error>) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        running.release(cluster);
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

/// The error about an item that an answer leaves out.
pub(crate) fn left_out(what: &str) -> Error {
    Error::new(Kind::Protocol, format!("the answer leaves out {what}"))
}
