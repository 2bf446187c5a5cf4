//! A producer: [`Accumulator`] and [`Identification`] on one view of the cluster.

use std::sync::Arc;
use std::time::Instant;

use crate::api::Response;
use crate::cluster::LinkId;
use crate::config::Config;
use crate::engine::{Core, Dispatch, Engine, Failed, Work, closed_error};
use crate::error::Error;
use crate::operation::{Answer, OperationId};
use crate::produce::Accumulator;
use crate::produce::append::NewRecord;
use crate::produce::identity::Identification;

pub use crate::produce::{Appended, Done, NotAppended, Stored, check_topic};

/// The producer's part of an [`Engine`]. `T` is what each batch is opened with, and comes back with its fate.
#[derive(Debug)]
pub struct Producer<T> {
    pub(crate) accumulator: Accumulator<T>,
    identification: Identification,
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Engine<Producer<T>> {
    /// A producer. `seed` drives everything that is left to chance.
    pub fn producer(config: Arc<Config>, seed: u64) -> Engine<Producer<T>> {
        let work = Producer {
            accumulator: Accumulator::new(Arc::clone(&config)),
            identification: Identification::new(Arc::clone(&config)),
        };
        Engine::with_work(config, seed, work)
    }

    /// Makes the topic known; [`Engine::topic`] says when it is.
    pub fn want_topic(&mut self, now: Instant, name: &str) {
        let cluster = &mut self.core.cluster;
        self.work.accumulator.want_topic(now, cluster, name);
        self.settle(now);
    }

    /// Forgets a topic that never became known.
    pub fn give_up_topic(&mut self, name: &str) {
        let cluster = &mut self.core.cluster;
        self.work.accumulator.give_up_topic(cluster, name);
    }

    /// Encodes a record into the open batch of its partition. `make` gives what a new batch is opened with; `clock` is
    /// asked only then.
    ///
    /// # Errors
    /// See [`NotAppended`]; nothing was changed.
    #[allow(
        clippy::too_many_arguments,
        reason = "a record's parts, and two ways to make what is rarely needed"
    )]
    pub fn append<'a>(
        &mut self,
        clock: impl FnOnce() -> Instant,
        topic: &str,
        partition: Option<i32>,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Appended<'_, T>, NotAppended> {
        if self.closed().is_some() {
            return Err(NotAppended::Failed(closed_error()));
        }
        let record = NewRecord {
            partition,
            timestamp_ms,
            key,
            value,
            headers,
        };
        let cluster = &mut self.core.cluster;
        let placed = self
            .work
            .accumulator
            .append(cluster, clock, topic, record, make)?;
        if let Some(now) = placed.settle_at {
            self.settle(now);
        }
        let appended = self.work.accumulator.appended(&placed);
        appended.ok_or(NotAppended::Full)
    }

    /// The next fate that became known.
    pub fn poll_done(&mut self) -> Option<Done<T>> {
        self.work.accumulator.poll_done()
    }

    /// Bytes of records that have no fate yet, or that a request still owns.
    pub fn buffered_bytes(&self) -> usize {
        self.work.accumulator.buffered_bytes()
    }

    /// Whether a record of `bytes` would be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.work.accumulator.has_room(bytes)
    }

    /// Whether records of this topic can be appended.
    pub fn knows_topic(&self, name: &str) -> bool {
        self.work.accumulator.knows_topic(name)
    }

    /// Lets everything go that lingers. The mark stands for all records appended so far.
    pub fn flush(&mut self, now: Instant) -> u64 {
        let mark = self.work.accumulator.close_all();
        self.settle(now);
        mark
    }

    /// Whether all records up to a mark have their fate.
    pub fn is_flushed(&self, mark: u64) -> bool {
        self.work.accumulator.is_decided(mark)
    }

    /// Why records are still without a fate, as far as known; else whose they are.
    pub fn delay(&self) -> Option<Error> {
        self.work.accumulator.delay(&self.core.cluster)
    }
}

impl<T: Clone> Producer<T> {
    /// Carries the facts about the identity from one part to the other.
    fn carry(&mut self) {
        if let Some(spent) = self.accumulator.take_spent_identity() {
            self.identification.spend(spent);
        }
        if let Some(error) = self.identification.take_refusal() {
            self.accumulator.fail_all_unsent(&error);
        }
        let accumulator = &mut self.accumulator;
        accumulator.set_identity(self.identification.current());
        accumulator.set_identity_trouble(self.identification.trouble());
    }
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Work for Producer<T> {
    fn handle_answer(
        &mut self,
        now: Instant,
        core: &mut Core,
        link: LinkId,
        token: u64,
        response: Response,
    ) {
        let cluster = &mut core.cluster;
        match response {
            Response::InitProducerId(answer) => {
                let identification = &mut self.identification;
                identification.handle_answer(now, cluster, link, token, &answer);
            }
            Response::Produce(answer) => {
                let accumulator = &mut self.accumulator;
                accumulator.handle_answer(now, cluster, token, &answer);
            }
            _ => {}
        }
        self.carry();
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, Failed(orphan): Failed) {
        let cluster = &mut core.cluster;
        if !self.identification.handle_orphan(now, cluster, &orphan) {
            self.accumulator.handle_orphan(now, cluster, &orphan);
        }
        self.carry();
    }

    fn handle_written(&mut self, now: Instant, core: &mut Core, token: u64) {
        let accumulator = &mut self.accumulator;
        accumulator.handle_written(now, &mut core.cluster, token);
        self.carry();
    }

    fn handle_operation(
        &mut self,
        _: Instant,
        _: &mut Core,
        _: OperationId,
        _: Result<Answer, Error>,
    ) {
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        self.accumulator.pump(now, &mut core.cluster);
        if self.accumulator.wants_identity() {
            self.identification.pump(now, &mut core.cluster);
        }
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        let accumulator = &mut self.accumulator;
        let parcel = accumulator.next_request(now, &mut core.cluster, link);
        parcel.map(Dispatch::Produce)
    }

    fn abort(&mut self, _: Instant, _: &mut Core, cause: &Error) {
        self.accumulator.abort(cause);
    }
}
