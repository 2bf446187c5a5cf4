//! Sending records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::PartitionInfo;
use ottla_engine::engine::closed_error;
use ottla_engine::metrics::{AppMetric, Metric};
use ottla_engine::producer::{Done, NotAppended, Producer as Work, Waited, check_topic};
pub use ottla_engine::producer::{NoHeaders, Row, Rows};
use ottla_engine::{Change, Config, Engine, Error, Kind, Role};

use crate::net::transport::{deadline, now, now_ms};
use crate::produce::deliveries::{Deliveries, DeliveriesBuilder};
use crate::produce::delivery::{Completion, Delivery, Ledger, UnobservedFailures};
use crate::runtime::calls;
use crate::runtime::driver::{Driver, JOIN_TIMEOUT};
use crate::runtime::events::Events;
use crate::runtime::shell::Publish;
use crate::runtime::threads::Threads;

pub(crate) type Batches = Work<Arc<Completion>>;

/// Rows that are appended while the lock is held.
const ROWS_AT_ONCE: u32 = 256;

impl Publish for Batches {
    type News = Done<Arc<Completion>>;

    fn collect(engine: &mut Engine<Self>) -> Vec<Self::News> {
        std::iter::from_fn(|| engine.poll_done()).collect()
    }

    fn publish(done: Self::News) {
        Completion::resolve(done);
    }
}

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError {
    /// The buffer is full, or the topic's partitions or the record's partition are not known yet:
    /// wait with [`Producer::ready`] and try again.
    #[error("the producer's buffer is full, or the topic or its partition is not known yet")]
    NotReady,
    /// This record can never be sent.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A producer: a cheap handle, to be cloned and shared between threads. Dropping the last one
/// without [`Producer::close`] abandons records that are not delivered.
#[derive(Clone, Debug)]
pub struct Producer {
    pub(crate) driver: Arc<Driver<Batches>>,
    ledger: Arc<Ledger>,
}

impl Producer {
    /// A producer that runs on `threads` and reports to `events`. It does not connect before the
    /// first send.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(
        config: Config,
        threads: &Arc<Threads>,
        events: Option<Arc<Events>>,
    ) -> Result<Producer, Error> {
        let driver = Driver::start(config, Role::Producer, threads, events, Engine::producer)?;
        let driver = Arc::new(driver);
        // Batches have the ledger, and the driver has the batches.
        let weak = Arc::downgrade(&driver);
        let delay = move || weak.upgrade()?.with(|engine, _| engine.delay());
        let ledger = Ledger::new(Box::new(delay), threads.deadlines());
        Ok(Producer {
            ledger: Arc::new(ledger),
            driver,
        })
    }

    /// Encodes one record into the open batch of its partition. Never waits; where the connection is idle it writes to the socket
    /// what that takes at once.
    ///
    /// # Errors
    /// [`TrySendError::NotReady`]: await [`Producer::ready`] for the same topic, partition and size, then try again.
    pub fn try_send<'a, H>(&self, topic: &str, row: &Row<'a, H>) -> Result<Delivery, TrySendError>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        let timestamp_ms = row.timestamp_ms.unwrap_or_else(now_ms);
        self.driver.with_clock(|engine| {
            let appended = engine.append(now, topic, row, timestamp_ms, open(&self.ledger))?;
            let batch = Arc::clone(appended.batch);
            Ok(Delivery::new(batch, appended.index, timestamp_ms))
        })
    }

    /// Waits until `topic` and its `partition`, if one is named, are known and the buffer has space
    /// for `bytes` more, at most `timeout` (`None`: `max.block.ms`). A partition that is not known
    /// is requested from brokers, since it may have been added.
    ///
    /// # Errors
    /// The cause at the deadline: no broker reachable, unknown topic or partition, buffer full. At once: a name that no topic
    /// can have.
    pub async fn ready(
        &self,
        topic: &str,
        partition: Option<i32>,
        bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        check_topic(topic)?;
        let lacking = |engine: &Engine<Batches>| engine.lacks_partition(topic, partition?);
        let timeout = timeout.unwrap_or(self.config().max_block);
        let deadline = deadline(timeout);
        let mut wish = Wish {
            driver: &self.driver,
            topic,
            made: false,
            partition: None,
            waits: None,
        };
        let look = |engine: &mut Engine<Batches>, now: Instant| {
            if engine.closed().is_some() {
                return Some(Err(closed_error()));
            }
            if let Some(error) = engine.hopeless() {
                return Some(Err(error));
            }
            let is_lacking = lacking(engine).is_some();
            if engine.knows_topic(topic) && !is_lacking {
                let has_room = engine.has_room(bytes);
                if !has_room {
                    wish.wait_for(engine, now, Waited::Room);
                }
                return has_room.then_some(Ok(()));
            }
            wish.wait_for(engine, now, Waited::Topic);
            if !std::mem::replace(&mut wish.made, true) {
                engine.want_topic(now, topic);
            }
            if let Some(partition) = partition.filter(|_| is_lacking) {
                wish.want_partition(engine, now, partition);
            }
            match engine.topic(topic) {
                Err(Some(error)) if !error.is_retriable() => Some(Err(error)),
                _ => None,
            }
        };
        let late = |engine: &mut Engine<Batches>, now: Instant| {
            let waited = timeout.as_millis();
            if let Some(error) = lacking(engine) {
                let absent = || error.adding(format!("it did not come within {waited} ms"));
                return Err(engine.trouble().unwrap_or_else(absent));
            }
            if engine.knows_topic(topic) {
                engine.exhausted(now);
                let text = format!(
                    "no space within {waited} ms: buffer.memory is full of undelivered records"
                );
                return Err(match engine.delay() {
                    Some(cause) => cause.wrap(Kind::Timeout, text).with_retriable(true),
                    None => Error::new(Kind::Timeout, text),
                });
            }
            let unknown = engine.topic(topic).err().flatten();
            Err(engine.trouble().or(unknown).unwrap_or_else(|| {
                Error::new(Kind::Timeout, format!("no metadata within {waited} ms"))
                    .with_topic(&topic.into())
            }))
        };
        self.driver
            .wait(&[Change::Topics, Change::Room], deadline, look, late)
            .await
    }

    /// [`Producer::try_send`], waiting for space where needed; `timeout` bounds that wait (`None`:
    /// `max.block.ms`).
    ///
    /// # Errors
    /// As [`Producer::ready`], or that the record can never be sent.
    pub async fn send<'a, H>(
        &self,
        topic: &str,
        row: &Row<'a, H>,
        timeout: Option<Duration>,
    ) -> Result<Delivery, Error>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        let deadline = deadline(timeout.unwrap_or(self.config().max_block));
        loop {
            match self.try_send(topic, row) {
                Ok(delivery) => return Ok(delivery),
                Err(TrySendError::Failed(error)) => return Err(error),
                Err(TrySendError::NotReady) => {
                    let left = deadline.saturating_duration_since(now());
                    self.ready(topic, row.partition, row.size(), Some(left))
                        .await?;
                }
            }
        }
    }

    /// Sends all rows, taking the lock once for many; waits for space where needed, `timeout` for
    /// each such wait.
    ///
    /// # Errors
    /// Only if no row was taken. Afterwards a row that could not be sent is an error inside
    /// [`Deliveries`], and the rows after a failed wait all have that wait's error. For a partition
    /// that does not exist, only its own rows fail. Once a wait for such a partition has timed out,
    /// other such partitions are not waited for.
    pub async fn send_many<'a, H>(
        &self,
        topic: &str,
        mut rows: Rows<impl Fn(usize) -> Option<Row<'a, H>>>,
        timeout: Option<Duration>,
    ) -> Result<Deliveries, Error>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        let mut deliveries = DeliveriesBuilder::new(&self.ledger);
        if self.config().transactional_id.is_some() {
            self.driver.with(|engine, _| engine.check_transaction())?;
        }
        let mut waits = true;
        while rows.peek().is_some() {
            if self.append_many(topic, &mut rows, &mut deliveries, waits) {
                continue;
            }
            let next = rows.peek().map(|row| (row.partition, row.size()));
            let (partition, size) = next.unwrap_or_default();
            let ready = self.ready(topic, partition.filter(|_| waits), size, timeout);
            if let Err(error) = ready.await {
                if waits && error.kind() == Kind::Argument && self.lacks(topic, partition) {
                    waits = false;
                    rows.pass();
                    deliveries.failed(error);
                    continue;
                }
                if deliveries.is_empty() {
                    return Err(error);
                }
                while rows.left() > 0 {
                    rows.pass();
                    deliveries.failed(error.clone());
                }
                deliveries.stopped(error);
            }
        }
        Ok(deliveries.finish())
    }

    /// Deliveries of rows that were not sent because a row before them could not be.
    pub fn unsent(&self, rows: usize, error: &Error) -> Deliveries {
        let mut deliveries = DeliveriesBuilder::new(&self.ledger);
        (0..rows).for_each(|_| deliveries.failed(error.clone()));
        deliveries.finish()
    }

    fn lacks(&self, topic: &str, partition: Option<i32>) -> bool {
        let lacks = |engine: &mut Engine<Batches>, _| engine.lacks_partition(topic, partition?);
        self.driver.with(lacks).is_some()
    }

    /// Appends rows under one lock; false if the next one has to wait, which those of unknown partitions may do if `waits`.
    fn append_many<'a, H>(
        &self,
        topic: &str,
        rows: &mut Rows<impl Fn(usize) -> Option<Row<'a, H>>>,
        deliveries: &mut DeliveriesBuilder,
        waits: bool,
    ) -> bool
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        let time = now_ms();
        self.driver.with(|engine, now| {
            let mut left = ROWS_AT_ONCE;
            while left > 0 {
                match engine.append_run(now, topic, rows, time, left, open(&self.ledger)) {
                    Ok(None) => break,
                    Ok(Some(run)) => {
                        deliveries.sent(run.batch, run.index, run.count);
                        left -= run.count;
                    }
                    Err(NotAppended::UnknownTopic | NotAppended::Full) => return false,
                    Err(NotAppended::UnknownPartition(_)) if waits => return false,
                    Err(NotAppended::UnknownPartition(error) | NotAppended::Failed(error)) => {
                        deliveries.failed(error);
                        rows.pass();
                        left -= 1;
                    }
                }
            }
            true
        })
    }

    /// Sends everything without lingering and waits until the delivery result of each record sent
    /// so far is known.
    ///
    /// # Errors
    /// `Kind::Timeout`, or the cause that keeps records from being delivered, if some are undecided at the deadline.
    /// Failures of single records are in their deliveries, not here.
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<(), Error> {
        // By then the delivery result of every record is known, if only that it expired.
        let timeout = timeout.unwrap_or(self.config().delivery_timeout + Duration::from_secs(1));
        let deadline = deadline(timeout);
        let (mark, begun) = self.driver.with(|engine, now| (engine.flush(now), now));
        let look = |engine: &mut Engine<Batches>, _: Instant| {
            (engine.is_flushed(mark) && self.driver.is_published()).then_some(Ok(()))
        };
        let late = |engine: &mut Engine<Batches>, _: Instant| {
            let text = format!(
                "records are still undelivered after {} ms",
                timeout.as_millis()
            );
            Err(match engine.delay() {
                Some(cause) => cause.wrap(Kind::Timeout, text).with_retriable(true),
                None => Error::new(Kind::Timeout, text),
            })
        };
        let flushed = self
            .driver
            .wait(&[Change::Fate], deadline, look, late)
            .await;
        self.driver.with(|engine, now| {
            let took = now.saturating_duration_since(begun);
            engine.waited(now, Waited::Flush, took);
        });
        flushed
    }

    /// Flushes at most `timeout` (`None`: `close.timeout.ms`), fails what is left, joins every task. Idempotent.
    ///
    /// # Errors
    /// As [`Producer::flush`]; the producer is closed anyway.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let end = deadline(timeout.unwrap_or(self.config().close_timeout));
        let left = || end.saturating_duration_since(now());
        if self.driver.with(|engine, _| engine.is_in_transaction()) {
            // Readers of committed records would wait for its end. If the abort cannot be sent now,
            // the coordinator ends the transaction in time.
            let _ = self.abort_transaction(Some(left())).await;
        }
        let flushed = self.flush(Some(left())).await;
        let joined = self.driver.close(left().min(JOIN_TIMEOUT)).await;
        flushed.and(joined)
    }

    /// The failures, since the last time, of records whose deliveries were [left](Delivery::leave).
    /// After a flush, those of all records sent before it. None with a transactional id: the ends
    /// of transactions report them.
    pub fn take_unobserved_failures(&self) -> Option<UnobservedFailures> {
        let unobserved = self.ledger.take();
        unobserved.filter(|_| self.config().transactional_id.is_none())
    }

    /// The topic's partitions, in order. Neither waits for space nor creates the topic.
    ///
    /// # Errors
    /// Several responses in a row report that the topic does not exist; or no broker could be
    /// reached by the deadline (`None`: `max.block.ms`).
    pub async fn partitions_for(
        &self,
        topic: &str,
        timeout: Option<Duration>,
    ) -> Result<Vec<PartitionInfo>, Error> {
        check_topic(topic)?;
        let timeout = timeout.unwrap_or(self.config().max_block);
        calls::partitions_for(&self.driver, topic, Some(timeout)).await
    }

    /// How many partitions a topic has whose records can be sent at once; `None`: await [`Producer::ready`] for it.
    pub fn partition_count(&self, topic: &str) -> Option<usize> {
        let count = self.driver.with(|engine, _| engine.partition_count(topic));
        Some(count).filter(|count| *count > 0)
    }

    /// Bytes of records whose delivery result is not known yet.
    pub fn buffered_bytes(&self) -> usize {
        self.driver.with(|engine, _| engine.buffered_bytes())
    }

    /// The id that brokers know this client by (KIP-714), at most after `timeout` (`None`: `default.api.timeout.ms`).
    ///
    /// # Errors
    /// No broker takes metrics of clients, or `enable.metrics.push` is false; or no broker
    /// responded by the deadline.
    pub async fn instance_id(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
        self.driver.instance(timeout).await
    }

    /// Pushes a metric of the program to brokers with the client's own (KIP-1076). It replaces a registered one of the same
    /// name and tags, but none of the client's.
    pub fn register_metric(&self, metric: Arc<AppMetric>) {
        self.driver
            .with(|engine, now| engine.register_metric(now, metric));
    }

    /// No longer pushes the registered metric of this name and these tags, if there is one.
    pub fn unregister_metric(&self, metric: &AppMetric) {
        self.driver
            .with(|engine, _| engine.unregister_metric(metric));
    }

    /// All metrics at this moment, named as Kafka's Java client names them.
    pub fn metrics(&self) -> Vec<Metric> {
        self.driver.with(|engine, now| engine.metrics(now))
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.driver.config()
    }
}

/// A caller's wait for a topic, which ends when the caller has its result or does not want it any more.
struct Wish<'a> {
    driver: &'a Driver<Batches>,
    topic: &'a str,
    /// The engine has the wish.
    made: bool,
    /// The partition of the wish that the engine has.
    partition: Option<(Arc<str>, i32)>,
    /// What the caller waits for, and since when.
    waits: Option<(Waited, Instant)>,
}

impl Wish<'_> {
    fn want_partition(&mut self, engine: &mut Engine<Batches>, now: Instant, partition: i32) {
        if self.partition.is_none() {
            let topic = self.topic.into();
            engine.want_partition(now, &topic, partition);
            self.partition = Some((topic, partition));
        }
    }

    fn wait_for(&mut self, engine: &mut Engine<Batches>, now: Instant, what: Waited) {
        if self.waits.is_none_or(|(before, _)| before != what) {
            self.end_wait(engine, now);
            self.waits = Some((what, now));
            if what == Waited::Room {
                engine.set_waiting(true);
            }
        }
    }

    fn end_wait(&mut self, engine: &mut Engine<Batches>, now: Instant) {
        let Some((what, since)) = self.waits.take() else {
            return;
        };
        engine.waited(now, what, now.saturating_duration_since(since));
        if what == Waited::Room {
            engine.set_waiting(false);
        }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if self.made || self.waits.is_some() {
            let driver = self.driver;
            driver.with(|engine, now| {
                self.end_wait(engine, now);
                if let Some((topic, partition)) = &self.partition {
                    engine.give_up_partition(topic, *partition);
                }
                if self.made {
                    engine.give_up_topic(self.topic);
                }
            });
        }
    }
}

/// What a batch is opened with.
fn open(ledger: &Arc<Ledger>) -> impl FnOnce(&Arc<str>, i32) -> Arc<Completion> {
    |topic, partition| Arc::new(Completion::new(topic, partition, ledger))
}

impl From<NotAppended> for TrySendError {
    fn from(not_appended: NotAppended) -> TrySendError {
        match not_appended {
            NotAppended::UnknownTopic | NotAppended::UnknownPartition(_) | NotAppended::Full => {
                TrySendError::NotReady
            }
            NotAppended::Failed(error) => TrySendError::Failed(error),
        }
    }
}
