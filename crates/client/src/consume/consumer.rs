//! Reading records.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ottla_engine::call::{EARLIEST, FoundOffset, LATEST, PartitionInfo};
use ottla_engine::consumer::{Consumer as Work, Generation, Pulse, Sharers};
use ottla_engine::engine::closed_error;
use ottla_engine::metrics::{AppMetric, Metric};
use ottla_engine::{Change, Config, Engine, Error, Kind, Role};
use parking_lot::Mutex;

pub use ottla_engine::consumer::{Rebalance, Start};
pub use ottla_engine::fetched::{Aborted, Fetched};

pub use crate::consume::decode::{Chunk, Decode};

use crate::consume::decode::Moment;
use crate::consume::decoding::{Decoding, Done, Next, Outcome};
use crate::consume::pending_records::Unread;
use crate::consume::raised_errors::Raised;
use crate::consume::rebalances::{LastCommit, Listeners, Polled, Turn};
use crate::net::transport::{deadline, now, timeout_at};
use crate::runtime::calls;
use crate::runtime::driver::{Driver, JOIN_TIMEOUT};
use crate::runtime::events::Events;
use crate::runtime::threads::Threads;

/// The consumers of this process.
static SHARERS: LazyLock<Sharers> = LazyLock::new(Sharers::default);

/// A consumer: a cheap handle. Threads may share it, polls wait for each other.
pub struct Consumer<D: Decode> {
    pub(crate) inner: Arc<Inner<D>>,
}

impl<D: Decode> fmt::Debug for Consumer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("driver", &self.inner.driver)
            .finish_non_exhaustive()
    }
}

impl<D: Decode> Clone for Consumer<D> {
    fn clone(&self) -> Self {
        Consumer {
            inner: Arc::clone(&self.inner),
        }
    }
}

pub(crate) struct Inner<D: Decode> {
    pub(crate) driver: Driver<Work>,
    decoding: Arc<Decoding<D>>,
    /// Records that were decoded and not yet given out. Locked by the call that polls, until its records are where they
    /// belong.
    decoded: tokio::sync::Mutex<VecDeque<Decoded<D::Chunk>>>,
    /// Records that an iteration took and did not hand out. Locked before the engine, never the other way round.
    pub(crate) unread: Mutex<Unread<D::Chunk>>,
    /// Locked before all others.
    pub(crate) following: Mutex<Following>,
    pulse: Arc<Pulse>,
    /// The rebalances that callers want to be notified of.
    pub(crate) listeners: Mutex<Listeners>,
    /// What is committed when the consumer leaves its group.
    pub(crate) last_commit: Mutex<LastCommit>,
    /// A close has begun: calls that have nothing left to read return that.
    pub(crate) closing: AtomicBool,
    /// The thread that polls has others to serve.
    is_brief: AtomicBool,
    raised: Raised,
}

/// Topics of which all partitions are read.
#[derive(Default)]
pub(crate) struct Following {
    topics: Vec<Arc<str>>,
    /// Where to begin; `None` once the engine follows them.
    to_begin: Option<Start>,
}

struct Decoded<C> {
    topic: Arc<str>,
    partition: i32,
    generation: Generation,
    what: Outcome<C>,
}

/// What a poll finds.
struct Gathered<C> {
    chunks: Vec<C>,
    /// More come when another thread has decoded them.
    more_elsewhere: bool,
}

/// Who gets the records of a poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Caller,
    /// What it does not hand out at once is unread.
    Iteration,
}

impl<D: Decode> Consumer<D> {
    /// A consumer that runs on `threads` and reports to `events`. It does not connect before the
    /// first call that needs a broker.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(
        config: Config,
        decoder: D,
        threads: &Arc<Threads>,
        events: Option<Arc<Events>>,
    ) -> Result<Consumer<D>, Error> {
        let engine = |config, seed| {
            let mut engine = Engine::consumer(config, seed);
            engine.share_prefetch(&SHARERS);
            engine
        };
        let driver = Driver::start(config, Role::Consumer, threads, events, engine)?;
        let pulse = driver.with(|engine, _| engine.pulse());
        Ok(Consumer {
            inner: Arc::new(Inner {
                driver,
                pulse,
                listeners: Mutex::default(),
                last_commit: Mutex::default(),
                closing: AtomicBool::new(false),
                is_brief: AtomicBool::new(false),
                raised: Raised::default(),
                decoding: Decoding::new(decoder),
                decoded: tokio::sync::Mutex::default(),
                unread: Mutex::default(),
                following: Mutex::default(),
            }),
        })
    }

    /// From now on polls hold their thread no longer than about a millisecond at a time, since it has others to serve: what takes
    /// longer to decode is decoded by another one, and the poll waits for that as it waits for brokers.
    pub fn poll_briefly(&self) {
        self.inner.is_brief.store(true, Ordering::Relaxed);
    }

    /// Reads all partitions of these topics and no others, also partitions that are added later.
    /// The first ones start at `auto.offset.reset`, added ones at their beginning. Reading begins
    /// with the first call that waits.
    pub fn follow(&self, topics: Vec<Arc<str>>) {
        *self.inner.following.lock() = Following {
            topics,
            to_begin: Some(Start::Reset),
        };
    }

    /// Reads these partitions and no others. A partition that was assigned before and is given with [`Start::Reset`] keeps
    /// its position.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative partition or offset; nothing was changed.
    pub fn assign(
        &self,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        let mut following = self.inner.following.lock();
        self.inner.assign(partitions.into_iter().collect())?;
        *following = Following::default();
        Ok(())
    }

    /// Sets the next offset to read. Fetched records of the partition that were not handed out are dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(&self, topic: &str, partition: i32, to: Start) -> Result<(), Error> {
        let mut unread = self.inner.unread.lock();
        self.inner
            .driver
            .with(|engine, now| engine.seek(now, topic, partition, to))?;
        unread.forget(topic, partition);
        Ok(())
    }

    /// Sets where all partitions are read next; partitions of followed topics that are not known yet begin there.
    ///
    /// # Errors
    /// `Kind::Argument` if the offset is negative.
    pub fn seek_all(&self, to: Start) -> Result<(), Error> {
        let mut following = self.inner.following.lock();
        if let Some(start) = &mut following.to_begin {
            *start = to;
        }
        let mut unread = self.inner.unread.lock();
        self.inner
            .driver
            .with(|engine, now| engine.seek_all(now, to))?;
        unread.clear();
        Ok(())
    }

    /// The offset of the next record that is handed out; looks it up if only "beginning" or "end" is known.
    ///
    /// # Errors
    /// The partition is not assigned, or its offset could not be looked up by the deadline.
    pub async fn position(
        &self,
        topic: &str,
        partition: i32,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        let wait = self.wait(timeout);
        self.begin_following()?;
        self.position_by(topic, partition, wait).await
    }

    async fn position_by(&self, topic: &str, partition: i32, wait: Wait) -> Result<i64, Error> {
        if let Some(offset) = self.inner.unread.lock().position(topic, partition) {
            return Ok(offset);
        }
        let look = |engine: &mut Engine<Work>, _: Instant| {
            if let Some(error) = self.inner.refusal(engine) {
                return Some(Err(error));
            }
            engine.position(topic, partition).transpose()
        };
        let late = |engine: &mut Engine<Work>, _: Instant| {
            let cause = engine.partition_delay(topic, partition);
            Err(cause.unwrap_or_else(|| late(wait.timeout)))
        };
        let driver = &self.inner.driver;
        driver
            .wait(&[Change::Position], wait.deadline, look, late)
            .await
    }

    /// How many offsets lie between the position and the end of each assigned partition.
    ///
    /// # Errors
    /// A position or an end could not be looked up by the deadline, which is one for all of them.
    pub async fn lag(
        &self,
        timeout: Option<Duration>,
    ) -> Result<Vec<((Arc<str>, i32), i64)>, Error> {
        let wait = self.wait(timeout);
        self.find_followed(wait).await?;
        let partitions = self.assignment();
        let ends = self.end_offsets(&partitions, Some(wait.left())).await?;
        let mut lags = Vec::with_capacity(partitions.len());
        for (partition, end) in partitions.into_iter().zip(ends) {
            let position = self.position_by(&partition.0, partition.1, wait).await?;
            lags.push((partition, (end - position).max(0)));
        }
        Ok(lags)
    }

    /// Stops returning records of these partitions.
    ///
    /// # Errors
    /// `Kind::Argument` if one is not assigned.
    pub fn pause(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        let mut unread = self.inner.unread.lock();
        self.inner.driver.with(|engine, now| {
            partitions.iter().try_for_each(|(topic, partition)| {
                engine.set_paused(now, topic, *partition, true)?;
                // Not to be fetched again after the pause: by then the topic may be another one.
                unread.hold(topic, *partition, true);
                Ok(())
            })
        })
    }

    /// Returns records of these partitions again.
    ///
    /// # Errors
    /// `Kind::Argument` if one is not assigned.
    pub fn resume(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        let mut unread = self.inner.unread.lock();
        self.inner.driver.with(|engine, now| {
            partitions.iter().try_for_each(|(topic, partition)| {
                engine.set_paused(now, topic, *partition, false)?;
                unread.hold(topic, *partition, false);
                Ok(())
            })
        })
    }

    /// The assigned partitions, sorted.
    pub fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        self.partitions(|_| true)
    }

    /// The paused partitions, sorted.
    pub fn paused(&self) -> Vec<(Arc<str>, i32)> {
        self.partitions(|paused| paused)
    }

    fn partitions(&self, choose: impl Fn(bool) -> bool) -> Vec<(Arc<str>, i32)> {
        self.inner.driver.with(|engine, _| {
            let chosen = engine.assignment().filter(|(_, _, paused)| choose(*paused));
            chosen
                .map(|(topic, partition, _)| (Arc::clone(topic), partition))
                .collect()
        })
    }

    /// What a poll returns: records, or the notice that listeners have to be called for a rebalance
    /// by [`Consumer::take_rebalance`] first. At least one record as soon as there is one, at most
    /// `max_records` (`None`: `max.poll.records`); empty at the deadline if brokers were reached
    /// and there was nothing. Chunks are in offset order for each partition. A poll begins with
    /// what an iteration left.
    ///
    /// # Errors
    /// By the deadline: the last cause if no broker of the cluster was ever reached, or if the leader of a partition does not accept
    /// the client; an outage after the first contact raises nothing. An error that an earlier poll raised, unless one without
    /// an error came in between. At once: an offset out of range under `auto.offset.reset=none`;
    /// records that do not decode, after all that stand before them; an unknown topic; nothing assigned; once, an error that the client
    /// goes on to retry, such as a denied permission. A partition stops only
    /// itself: until a seek, its error comes again only at a deadline by which nothing else came.
    pub async fn poll(
        &self,
        timeout: Duration,
        max_records: Option<usize>,
    ) -> Result<Polled<Vec<D::Chunk>>, Error> {
        let deadline = deadline(timeout);
        let Ok(mut decoded) = timeout_at(deadline, self.inner.decoded.lock()).await else {
            return Ok(Polled::Done(Vec::new()));
        };
        let most = max_records.unwrap_or(self.config().max_poll_records);
        let receiver = Receiver::Caller;
        let chunks = self.chunks(&mut decoded, deadline, max_records, receiver);
        let Polled::Done(chunks) = chunks.await? else {
            return Ok(Polled::Rebalance);
        };
        if chunks.is_empty() && !self.inner.driver.with(|engine, _| engine.is_held()) {
            return Ok(Polled::Done(self.inner.unread.lock().take(most)));
        }
        Ok(Polled::Done(chunks))
    }

    /// Polls for an iteration over records, at most `timeout`, unless [`Consumer::next_record`] has one.
    ///
    /// # Errors
    /// As [`Consumer::poll`].
    pub async fn poll_to_iterate(&self, timeout: Duration) -> Result<Polled<()>, Error> {
        let deadline = deadline(timeout);
        let Ok(mut decoded) = timeout_at(deadline, self.inner.decoded.lock()).await else {
            return Ok(Polled::Done(()));
        };
        let chunks = self.chunks(&mut decoded, deadline, None, Receiver::Iteration);
        Ok(match chunks.await? {
            Polled::Done(_) => Polled::Done(()),
            Polled::Rebalance => Polled::Rebalance,
        })
    }

    /// The next record of [`Consumer::poll_to_iterate`] that was not handed out: its chunk, and its row there. None also if a
    /// rebalance or a commit needs a poll first.
    pub fn next_record(&self) -> Option<(Arc<D::Chunk>, usize)> {
        if self.inner.pulse.needs_poll() {
            return None;
        }
        let next = self.inner.unread.lock().next();
        self.inner.pulse.beat();
        next
    }

    /// What a poll gives out; nothing if an iteration left something that comes first, or gets it all.
    async fn chunks(
        &self,
        decoded: &mut VecDeque<Decoded<D::Chunk>>,
        deadline: Instant,
        max_records: Option<usize>,
        receiver: Receiver,
    ) -> Result<Polled<Vec<D::Chunk>>, Error> {
        let polled = self.find_chunks(decoded, deadline, max_records, receiver);
        let polled = polled.await;
        match &polled {
            Ok(Polled::Done(_)) => self.inner.raised.clear(),
            Ok(Polled::Rebalance) => {}
            Err(error) => {
                self.inner.raised.note(error);
                self.inner
                    .driver
                    .with(|engine, _| engine.note_raised(error));
            }
        }
        polled
    }

    async fn find_chunks(
        &self,
        decoded: &mut VecDeque<Decoded<D::Chunk>>,
        deadline: Instant,
        max_records: Option<usize>,
        receiver: Receiver,
    ) -> Result<Polled<Vec<D::Chunk>>, Error> {
        self.begin_following()?;
        let _poll = Polling::new(&self.inner.driver);
        self.inner.unread.lock().done();
        // Before looking, so that nothing that happens afterwards is missed.
        let waiter = self.inner.driver.enter(&[Change::Records, Change::Group]);
        let mut is_late = false;
        loop {
            match self.inner.rebalance() {
                Turn::Tell => return Ok(Polled::Rebalance),
                Turn::Wait => {}
                // Another thread that shares the consumer may have polled, or ended a pause.
                Turn::Go if !self.inner.unread.lock().is_empty() => {
                    return Ok(Polled::Done(Vec::new()));
                }
                Turn::Go => {
                    let found = match self.inner.gather(decoded, max_records, receiver) {
                        Err(error) if !is_late && self.inner.raised.is_repeated(&error) => {
                            is_late = waiter.changed(deadline).await.is_err();
                            continue;
                        }
                        found => found?,
                    };
                    let is_any = match receiver {
                        Receiver::Caller => !found.chunks.is_empty(),
                        Receiver::Iteration => !self.inner.unread.lock().is_empty(),
                    };
                    if is_any {
                        return Ok(Polled::Done(found.chunks));
                    }
                    if found.more_elsewhere {
                        // Past the deadline, too, as a thread of its own would go on decoding.
                        self.inner.decode_elsewhere().await;
                        continue;
                    }
                }
            }
            if is_late {
                self.inner.decoding.rest();
                return self.inner.driver.with(|engine, _| match engine.delay() {
                    Some(error) if !engine.is_starting() => Err(error),
                    _ => Ok(Polled::Done(Vec::new())),
                });
            }
            is_late = waiter.changed(deadline).await.is_err();
        }
    }

    /// Has the engine follow the topics, unless it does already.
    fn begin_following(&self) -> Result<(), Error> {
        let mut following = self.inner.following.lock();
        let Some(start) = following.to_begin.filter(|_| !following.topics.is_empty()) else {
            return Ok(());
        };
        let topics = following.topics.clone();
        let mut unread = self.inner.unread.lock();
        unread.retain(|topic, _| topics.iter().any(|followed| **followed == *topic));
        self.inner.driver.with(|engine, now| {
            engine.follow(now, topics)?;
            match start {
                Start::Reset => Ok(()),
                _ => engine.seek_all(now, start),
            }
        })?;
        following.to_begin = None;
        Ok(())
    }

    /// Waits until the partitions of all followed topics are known.
    async fn find_followed(&self, wait: Wait) -> Result<(), Error> {
        self.begin_following()?;
        let topics = self.inner.following.lock().topics.clone();
        let look = |engine: &mut Engine<Work>, _: Instant| {
            if let Some(error) = self.inner.refusal(engine) {
                return Some(Err(error));
            }
            for topic in &topics {
                // While a topic is awaited, partition 0 is as unknown as the others.
                if let Err(error) = engine.position(topic, 0) {
                    return Some(Err(error));
                }
            }
            let is_known =
                |topic: &Arc<str>| engine.assignment().any(|(known, _, _)| known == topic);
            topics.iter().all(is_known).then_some(Ok(()))
        };
        let late = |engine: &mut Engine<Work>, _: Instant| {
            Err(engine.delay().unwrap_or_else(|| late(wait.timeout)))
        };
        let changes = [Change::Topics, Change::Position];
        let driver = &self.inner.driver;
        driver.wait(&changes, wait.deadline, look, late).await
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Wait {
        let timeout = timeout.unwrap_or(self.config().default_api_timeout);
        Wait {
            timeout,
            deadline: deadline(timeout),
        }
    }

    /// The first offset of each partition.
    ///
    /// # Errors
    /// The first partition's failure.
    pub async fn beginning_offsets(
        &self,
        partitions: &[(Arc<str>, i32)],
        timeout: Option<Duration>,
    ) -> Result<Vec<i64>, Error> {
        self.offsets(partitions, EARLIEST, timeout).await
    }

    /// The offset after the last record of each partition (after the last committed one under `read_committed`).
    ///
    /// # Errors
    /// The first partition's failure.
    pub async fn end_offsets(
        &self,
        partitions: &[(Arc<str>, i32)],
        timeout: Option<Duration>,
    ) -> Result<Vec<i64>, Error> {
        self.offsets(partitions, LATEST, timeout).await
    }

    async fn offsets(
        &self,
        partitions: &[(Arc<str>, i32)],
        time: i64,
        timeout: Option<Duration>,
    ) -> Result<Vec<i64>, Error> {
        let wanted: Vec<_> = partitions
            .iter()
            .map(|(topic, partition)| (Arc::clone(topic), *partition, time))
            .collect();
        let found = self.inner.found(wanted, timeout).await?;
        found
            .into_iter()
            .map(|result| result.map(|found| found.offset))
            .collect()
    }

    /// For each partition and time (ms since 1970 UTC) the first record at or after it, if any.
    ///
    /// # Errors
    /// The first partition's failure; `Kind::Argument` for a negative time.
    pub async fn offsets_for_times(
        &self,
        times: &[(Arc<str>, i32, i64)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Option<OffsetAndTimestamp>>, Error> {
        if let Some((topic, partition, time)) = times.iter().find(|(_, _, time)| *time < 0) {
            let text = format!("a time must be 0 or above, and was {time}");
            return Err(Error::new(Kind::Argument, text).with_partition(topic, *partition));
        }
        let found = self.inner.found(times.to_vec(), timeout).await?;
        found
            .into_iter()
            .map(|result| result.map(OffsetAndTimestamp::of))
            .collect()
    }

    /// The topic's partitions, in order.
    ///
    /// # Errors
    /// The topic is unknown, or no broker could be reached, at the deadline.
    pub async fn partitions_for(
        &self,
        topic: &str,
        timeout: Option<Duration>,
    ) -> Result<Vec<PartitionInfo>, Error> {
        calls::partitions_for(&self.inner.driver, topic, timeout).await
    }

    /// [`Consumer::close`] that commits nothing, for a consumer that nobody closed: it is not known what was processed.
    ///
    /// # Errors
    /// As [`Consumer::close`].
    pub async fn abandon(&self, timeout: Option<Duration>) -> Result<(), Error> {
        *self.inner.last_commit.lock() = LastCommit::Nothing;
        self.close(timeout).await
    }

    /// Leaves the group, after a last commit where polls commit; wakes polls with `Kind::Closed`,
    /// joins every task, all within `timeout`. Listeners are not called: [`Consumer::leave`] calls
    /// them before this. Idempotent.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = timeout.unwrap_or(JOIN_TIMEOUT);
        let end = deadline(timeout);
        self.leave_quietly(timeout).await;
        let left = end.saturating_duration_since(now());
        let closed = self.inner.driver.close(left).await;
        self.inner.unread.lock().clear();
        self.inner.decoding.rest();
        closed
    }

    /// The id that brokers know this client by (KIP-714), at most after `timeout` (`None`: `default.api.timeout.ms`).
    ///
    /// # Errors
    /// No broker takes metrics of clients, or `enable.metrics.push` is false; or no broker
    /// responded by the deadline.
    pub async fn instance_id(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
        self.inner.driver.instance(timeout).await
    }

    /// Pushes a metric of the program to brokers with the client's own (KIP-1076). It replaces a registered one of the same
    /// name and tags, but none of the client's.
    pub fn register_metric(&self, metric: Arc<AppMetric>) {
        self.inner
            .driver
            .with(|engine, now| engine.register_metric(now, metric));
    }

    /// No longer pushes the registered metric of this name and these tags, if there is one.
    pub fn unregister_metric(&self, metric: &AppMetric) {
        self.inner
            .driver
            .with(|engine, _| engine.unregister_metric(metric));
    }

    /// All metrics at this moment, named as Kafka's Java client names them.
    pub fn metrics(&self) -> Vec<Metric> {
        self.inner.driver.with(|engine, now| engine.metrics(now))
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.inner.driver.config()
    }
}

/// A poll, from its beginning until it returns or is dropped.
pub(crate) struct Polling<'a>(&'a Driver<Work>);

impl Polling<'_> {
    pub(crate) fn new(driver: &Driver<Work>) -> Polling<'_> {
        driver.with(|engine, now| engine.poll_began(now));
        Polling(driver)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.with(|engine, now| engine.poll_ended(now));
    }
}

/// How long a call waits in all, however many brokers and partitions it needs.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) timeout: Duration,
    pub(crate) deadline: Instant,
}

impl Wait {
    fn left(self) -> Duration {
        self.deadline.saturating_duration_since(now())
    }
}

impl<D: Decode> Inner<D> {
    pub(crate) fn assign(&self, wanted: Vec<(Arc<str>, i32, Start)>) -> Result<(), Error> {
        let going_on: Vec<_> = wanted
            .iter()
            .filter(|(_, _, start)| *start == Start::Reset)
            .map(|(topic, partition, _)| (Arc::clone(topic), *partition))
            .collect();
        let mut unread = self.unread.lock();
        self.driver.with(|engine, now| engine.assign(now, wanted))?;
        unread.retain(|topic, partition| {
            going_on
                .iter()
                .any(|going_on| *going_on.0 == *topic && going_on.1 == partition)
        });
        Ok(())
    }

    async fn found(
        &self,
        wanted: Vec<(Arc<str>, i32, i64)>,
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<FoundOffset, Error>>, Error> {
        calls::list_offsets(&self.driver, wanted, timeout).await
    }

    /// Takes what is there, decodes it, and gives out as much as one poll may return.
    fn gather(
        &self,
        decoded: &mut VecDeque<Decoded<D::Chunk>>,
        max_records: Option<usize>,
        receiver: Receiver,
    ) -> Result<Gathered<D::Chunk>, Error> {
        // The error comes first: an endless stream of records of other partitions must not hide it.
        if let Some(error) = self.obstacle() {
            return Err(error);
        }
        // Before any position moves on: to start a thread can fail.
        self.decode_ahead();
        let config = self.driver.config();
        let mut records = max_records.unwrap_or(config.max_poll_records);
        // As many bytes as one partition may bring are enough for one poll; more would only be held longer.
        let mut bytes = usize::try_from(config.max_partition_fetch_bytes).unwrap_or(usize::MAX);
        let mut chunks = Vec::new();
        let mut is_any = false;
        let mut more_elsewhere = false;
        let is_brief = self.is_brief.load(Ordering::Relaxed);
        let mut moment = is_brief.then(Moment::new);
        while records > 0 && bytes > 0 {
            let Some(next) = decoded.pop_front() else {
                match self.decode_next(&mut moment) {
                    Next::Done(done) => decoded.extend(pieces(done)),
                    Next::Nothing => break,
                    Next::Elsewhere => {
                        more_elsewhere = true;
                        break;
                    }
                }
                continue;
            };
            let Decoded {
                topic,
                partition,
                generation,
                what,
            } = next;
            match what {
                Outcome::Chunk(mut chunk) => {
                    let rest = (chunk.len() > records).then(|| {
                        let head = chunk.split_to(records);
                        std::mem::replace(&mut chunk, head)
                    });
                    let next_offset = chunk.next_offset();
                    let (records_of_it, bytes_of_it) = (chunk.len(), chunk.bytes());
                    // Until the records are noted, the position is behind them already: nobody may
                    // commit it.
                    let mut unread = self.unread.lock();
                    let current = self.driver.with(|engine, now| {
                        let current = engine.advance(&topic, partition, generation, next_offset);
                        if current {
                            engine.handed_out(now, &topic, partition, records_of_it, bytes_of_it);
                        }
                        current.then(|| engine.is_paused(&topic, partition))
                    });
                    let Some(is_held) = current else {
                        continue;
                    };
                    bytes = bytes.saturating_sub(bytes_of_it);
                    if let Some(rest) = rest {
                        decoded.push_front(Decoded {
                            topic: Arc::clone(&topic),
                            partition,
                            generation,
                            what: Outcome::Chunk(rest),
                        });
                    }
                    if !chunk.is_empty() {
                        is_any = true;
                        records -= chunk.len().min(records);
                        match receiver {
                            Receiver::Iteration => unread.push(topic, partition, chunk, is_held),
                            Receiver::Caller => {
                                unread.returned(&topic, partition, chunk.offset(0));
                                chunks.push(chunk);
                            }
                        }
                    }
                }
                Outcome::Broken(offset, error) => {
                    self.driver.with(|engine, _| {
                        engine.reject(&topic, partition, generation, offset, error)
                    });
                }
            }
        }
        if is_any {
            return Ok(Gathered {
                chunks,
                more_elsewhere,
            });
        }
        match self.obstacle() {
            Some(error) => Err(error),
            None => Ok(Gathered {
                chunks,
                more_elsewhere,
            }),
        }
    }

    /// Why no call can succeed: the client is closed, no address is a Kafka broker's, or there is nothing to read.
    fn refusal(&self, engine: &Engine<Work>) -> Option<Error> {
        if engine.closed().is_some() {
            return Some(closed_error());
        }
        if !engine.has_topics() {
            if self.closing.load(Ordering::Relaxed) {
                return Some(closed_error());
            }
            return Some(Error::new(
                Kind::Argument,
                "nothing is assigned: assign partitions, or subscribe to topics, first",
            ));
        }
        engine.hopeless()
    }

    /// The error that a poll must report before it gives out more.
    fn obstacle(&self) -> Option<Error> {
        self.driver.with(|engine, _| {
            if let Some(error) = self.refusal(engine) {
                return Some(error);
            }
            engine.obstacle().cloned()
        })
    }

    /// Takes from the engine what is to be decoded soon.
    fn take(&self) {
        while self.decoding.wants_more() {
            match self.driver.with(|engine, now| engine.take(now)) {
                Some(taken) => self.decoding.push(taken),
                None => return,
            }
        }
    }

    /// Lets other threads begin with the next records.
    fn decode_ahead(&self) {
        self.driver.with(|engine, _| {
            self.decoding.drop_stale(|fetched, generation| {
                engine.is_current(&fetched.topic, fetched.partition, generation)
            });
        });
        self.take();
        for helper in self.decoding.helpers() {
            self.driver.spawn_blocking(|| helper.run());
        }
    }

    /// Decodes what comes next; with a moment, only what that is enough for.
    fn decode_next(&self, moment: &mut Option<Moment>) -> Next<D::Chunk> {
        self.take();
        match moment {
            Some(moment) => self.decoding.next_at_once(moment),
            None => self.decoding.next().map_or(Next::Nothing, Next::Done),
        }
    }

    /// Waits until other threads have decoded what comes next.
    async fn decode_elsewhere(&self) {
        if let Some(deputy) = self.decoding.deputy() {
            self.driver.spawn_blocking(|| deputy.run());
        }
        self.decoding.first_passed().await;
    }
}

/// What became of a piece, one by one.
fn pieces<C>(done: Done<C>) -> impl Iterator<Item = Decoded<C>> {
    done.outcomes.into_iter().map(move |what| Decoded {
        topic: Arc::clone(&done.topic),
        partition: done.partition,
        generation: done.generation,
        what,
    })
}

pub(crate) fn late(timeout: Duration) -> Error {
    Error::new(
        Kind::Timeout,
        format!("no response within {} ms", timeout.as_millis()),
    )
}

/// An offset found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// The record's time in milliseconds since 1970 UTC; -1 if the offset was not looked up by time.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
}

impl OffsetAndTimestamp {
    pub(crate) fn of(found: FoundOffset) -> Option<OffsetAndTimestamp> {
        (found.offset >= 0).then_some(OffsetAndTimestamp {
            offset: found.offset,
            timestamp_ms: found.timestamp_ms,
            leader_epoch: found.leader_epoch,
        })
    }
}
