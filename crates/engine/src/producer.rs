//! A producer: [`Accumulator`] and [`Identification`] on one set of metadata.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::engine::{Engine, closed_error};
use crate::error::Error;
use crate::part::sealed::Composition;
use crate::part::{Client, Core, Part, Parts};
use crate::produce::Accumulator;
use crate::produce::append::Placed;
use crate::produce::identity::Identification;
use crate::produce::transaction::{Transaction, no_id};

pub use crate::produce::transaction::{Finished, PreparedTransaction, Verb, VerbId};
pub use crate::produce::{Appended, Done, NoHeaders, NotAppended, Row, Rows, Stored, check_topic};

/// The thing that a caller waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Space in the buffer.
    Room,
    /// The partitions of a topic.
    Topic,
    /// The delivery results of all records.
    Flush,
    /// The producer's identity for transactions.
    Init,
    /// The beginning of a transaction.
    Begin,
    /// Offsets that join a transaction.
    Offsets,
    /// The delivery of a transaction's records before it ends.
    Prepare,
    /// The commit of a transaction.
    Commit,
    /// The abort of a transaction.
    Abort,
}

/// The parts that make an [`Engine`] a producer. Each batch is opened with a `T`, which is returned
/// with the batch's delivery result.
#[derive(Debug)]
pub struct Producer<T> {
    pub(crate) accumulator: Accumulator<T>,
    identification: Identification,
    /// Instead of `identification`, if there is a transactional id.
    transaction: Option<Transaction>,
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Engine<Producer<T>> {
    /// A producer. `seed` seeds all random choices.
    pub fn producer(config: Arc<Config>, seed: u64) -> Engine<Producer<T>> {
        let client = Producer {
            accumulator: Accumulator::new(Arc::clone(&config)),
            identification: Identification::default(),
            transaction: Transaction::new(&config),
        };
        let mut engine = Engine::with_client(config, seed, client);
        engine.core.cluster.ask_for_new_topics_alone();
        engine
    }

    /// A caller waits for the topic, until it calls [`Engine::give_up_topic`];
    /// [`Engine::knows_topic`] is true when it is known.
    pub fn want_topic(&mut self, now: Instant, name: &str) {
        let cluster = &mut self.core.cluster;
        self.client.accumulator.want_topic(now, cluster, name);
        self.settle(now);
    }

    /// A caller no longer waits for the topic. A topic that did not become known is not requested again.
    pub fn give_up_topic(&mut self, name: &str) {
        let cluster = &mut self.core.cluster;
        self.client.accumulator.give_up_topic(cluster, name);
    }

    /// A caller waits for a partition of a topic that it waits for, until it calls
    /// [`Engine::give_up_partition`]; [`Engine::lacks_partition`] is `None` when it is known.
    pub fn want_partition(&mut self, now: Instant, topic: &Arc<str>, partition: i32) {
        let cluster = &mut self.core.cluster;
        cluster.want_partition(now, topic, partition);
        self.settle(now);
    }

    /// A caller no longer waits for the partition.
    pub fn give_up_partition(&mut self, topic: &Arc<str>, partition: i32) {
        self.core.cluster.unwant_partition(topic, partition);
    }

    /// That a known topic has no such partition, as far as is known; `None` if it has, or the topic is not known.
    pub fn lacks_partition(&self, topic: &str, partition: i32) -> Option<Error> {
        self.client.accumulator.lacks_partition(topic, partition)
    }

    /// Encodes a record into the open batch of its partition. `time_ms` is its time if it has none; `make` gives what a new batch is
    /// opened with; `clock` is read only then, and when another partition gets its turn.
    ///
    /// # Errors
    /// See [`NotAppended`]; nothing was changed.
    pub fn append<'h, H>(
        &mut self,
        clock: impl Fn() -> Instant,
        topic: &str,
        row: &Row<'_, H>,
        time_ms: i64,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Appended<'_, T>, NotAppended>
    where
        H: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    {
        let placed = self.place(clock, topic, row, time_ms, make)?;
        let appended = self.client.accumulator.appended(&placed, 1);
        appended.ok_or(NotAppended::Full)
    }

    /// [`Engine::append`] of the next row, and with it of the rows that follow it into the same
    /// batch: at least one and at most `most`. The look-ups for the first are not repeated. `None`
    /// if there is no row.
    ///
    /// # Errors
    /// Those of the next row, which stays the next; nothing was changed.
    pub fn append_run<'a, 'h, H>(
        &mut self,
        now: Instant,
        topic: &str,
        rows: &mut Rows<impl Fn(usize) -> Option<Row<'a, H>>>,
        time_ms: i64,
        most: u32,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Option<Appended<'_, T>>, NotAppended>
    where
        H: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    {
        let Some(row) = rows.peek() else {
            return Ok(None);
        };
        let placed = self.place(|| now, topic, &row, time_ms, make)?;
        rows.pass();
        let accumulator = &mut self.client.accumulator;
        let following =
            accumulator.append_following(topic, &placed, rows, time_ms, most.saturating_sub(1));
        let appended = accumulator.appended(&placed, 1 + following);
        appended.map(Some).ok_or(NotAppended::Full)
    }

    fn place<'h, H>(
        &mut self,
        clock: impl Fn() -> Instant,
        topic: &str,
        row: &Row<'_, H>,
        time_ms: i64,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Placed, NotAppended>
    where
        H: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    {
        if self.closed().is_some() {
            return Err(NotAppended::Failed(closed_error()));
        }
        if let Some(transaction) = &self.client.transaction {
            transaction.accepts().map_err(NotAppended::Failed)?;
        }
        let cluster = &mut self.core.cluster;
        let placed = self
            .client
            .accumulator
            .append(cluster, clock, topic, row, time_ms, make)?;
        if let Some(now) = placed.settle_at {
            self.settle(now);
            if let Some(error) = self.client.accumulator.retract(&placed) {
                return Err(NotAppended::Failed(error));
            }
            if self.client.accumulator.appended(&placed, 1).is_none() {
                return Err(NotAppended::Full);
            }
        }
        Ok(placed)
    }

    /// Whether records can be sent now, as far as transactions are concerned.
    ///
    /// # Errors
    /// The producer has a transactional id, and no transaction is open that takes records.
    pub fn check_transaction(&self) -> Result<(), Error> {
        let transaction = self.client.transaction.as_ref();
        transaction.map_or(Ok(()), Transaction::accepts)
    }

    /// Starts a verb of transactions, to be ended by the deadline; `None` while another one runs.
    /// After [`crate::Change::Transaction`], look again, also at [`Engine::take_verb`].
    ///
    /// # Errors
    /// The producer has no transactional id, or it was closed.
    pub fn start_verb(
        &mut self,
        now: Instant,
        verb: &Verb,
        deadline: Instant,
    ) -> Result<Option<VerbId>, Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let Some(transaction) = &mut self.client.transaction else {
            return Err(no_id());
        };
        let id = transaction.start(verb, deadline);
        if id.is_some() {
            self.settle(now);
        }
        Ok(id)
    }

    /// How a verb ended, once.
    pub fn take_verb(&mut self, id: VerbId) -> Option<Result<Finished, Error>> {
        self.client.transaction.as_mut()?.take(id)
    }

    /// The caller no longer waits for a verb. The verb continues.
    pub fn give_up_verb(&mut self, id: VerbId) {
        if let Some(transaction) = &mut self.client.transaction {
            transaction.set_facts(self.client.accumulator.facts());
            transaction.give_up(id);
        }
    }

    /// Whether a transaction is open, or the end of one is not known. A prepared one waits for its owner, and does not count.
    pub fn is_in_transaction(&self) -> bool {
        let transaction = self.client.transaction.as_ref();
        transaction.is_some_and(Transaction::is_open)
    }

    /// Whether there is nothing that the end of a block would have to end: it is done, or prepared for its owner.
    pub fn is_transaction_settled(&self) -> bool {
        let transaction = self.client.transaction.as_ref();
        transaction.is_some_and(Transaction::is_settled)
    }

    /// The next delivery result.
    pub fn poll_done(&mut self) -> Option<Done<T>> {
        self.client.accumulator.poll_done()
    }

    /// Bytes of records that have no delivery result yet, or that a request still owns.
    pub fn buffered_bytes(&self) -> usize {
        self.client.accumulator.buffered_bytes()
    }

    /// Whether the buffer has space for a record of `bytes` now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.client.accumulator.has_room(bytes)
    }

    /// Whether records of this topic can be appended.
    pub fn knows_topic(&self, name: &str) -> bool {
        self.client.accumulator.knows_topic(name)
    }

    /// How many partitions the topic has; none if its records cannot be appended yet.
    pub fn partition_count(&self, name: &str) -> usize {
        self.client.accumulator.partition_count(name)
    }

    /// Ends the lingering of every batch. The mark stands for all records appended so far.
    pub fn flush(&mut self, now: Instant) -> u64 {
        let mark = self.client.accumulator.close_all();
        self.settle(now);
        mark
    }

    /// Whether all records up to a mark have their delivery result.
    pub fn is_flushed(&self, mark: u64) -> bool {
        self.client.accumulator.is_decided(mark)
    }

    /// Notes that a caller waits for space in the buffer, or no longer does, for metrics.
    pub fn set_waiting(&mut self, waits: bool) {
        let waiting = &mut self.core.cluster.context.meters.sending.waiting;
        *waiting = if waits {
            *waiting + 1
        } else {
            waiting.saturating_sub(1)
        };
    }

    /// Notes how long a caller waited, for metrics.
    pub fn waited(&mut self, now: Instant, what: Waited, took: Duration) {
        let meters = &mut self.core.cluster.context.meters;
        let at = meters.at(now);
        let sending = &mut meters.sending;
        let sensor = match what {
            Waited::Room => &mut sending.waited_for_room,
            Waited::Topic => &mut sending.waited_for_topics,
            Waited::Flush => &mut sending.flushed,
            Waited::Init => &mut sending.initialised,
            Waited::Begin => &mut sending.began,
            Waited::Offsets => &mut sending.sent_offsets,
            Waited::Prepare => &mut sending.prepared,
            Waited::Commit => &mut sending.committed,
            Waited::Abort => &mut sending.aborted,
        };
        sensor.record(&at, took.as_nanos() as f64);
    }

    /// Notes that a send failed for lack of buffer space, for metrics.
    pub fn exhausted(&mut self, now: Instant) {
        let meters = &mut self.core.cluster.context.meters;
        let at = meters.at(now);
        meters.sending.exhausted.count(&at);
    }

    /// Why records still have no delivery result, as far as known; else an error that names the
    /// first partition with such records.
    pub fn delay(&self) -> Option<Error> {
        self.client.accumulator.delay(&self.core.cluster)
    }
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Composition for Producer<T> {
    #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
    fn parts(&mut self) -> Parts<'_> {
        let identity: &mut dyn Part = match &mut self.transaction {
            Some(transaction) => transaction,
            None => &mut self.identification,
        };
        [Some(identity), Some(&mut self.accumulator)]
    }

    /// Carries the facts about the identity from one part to the other.
    fn exchange(&mut self, now: Instant, core: &mut Core) -> bool {
        let Producer {
            identification,
            accumulator,
            transaction,
        } = self;
        if let Some(transaction) = transaction {
            exchange_transaction(now, transaction, accumulator, core);
            return false;
        }
        let before = identification.current();
        if let Some(spent) = accumulator.take_spent_identity() {
            identification.spend(core, spent);
        }
        if let Some(error) = identification.take_refusal() {
            accumulator.fail_all_unsent(&mut core.cluster, &error);
        }
        if identification.is_absent() {
            accumulator.do_without_identity();
        }
        let current = identification.current();
        accumulator.set_identity(current);
        accumulator.set_identity_trouble(identification.trouble(core));
        identification.set_wanted(accumulator.wants_identity());
        before != current
    }
}

/// Carries the facts about the transaction from one part to the other. Both are pumped afterwards.
fn exchange_transaction<T: Clone>(
    now: Instant,
    transaction: &mut Transaction,
    accumulator: &mut Accumulator<T>,
    core: &mut Core,
) {
    if let Some(failure) = accumulator.take_failure() {
        transaction.record_failed(failure);
    }
    if let Some(cause) = transaction.purge() {
        accumulator.fail_all_unsent(&mut core.cluster, &cause);
        // The accumulator knows the cause.
        accumulator.take_failure();
    }
    if transaction.flushes() {
        accumulator.close_all();
    }
    while let Some(partition) = transaction.poll_joined() {
        accumulator.set_joined(&partition);
    }
    accumulator.set_scope(transaction.scope());
    accumulator.set_identity(transaction.identity(now));
    accumulator.set_identity_trouble(transaction.delay(core));
    if transaction.admits() {
        transaction.wish(accumulator.partitions_to_join());
    }
    transaction.set_facts(accumulator.facts());
}

impl<T: Clone + std::fmt::Debug + Send + 'static> Client for Producer<T> {}
