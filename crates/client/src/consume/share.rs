//! Reading records as a member of a share group (KIP-932).

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ottla_engine::config::AcknowledgementMode;
use ottla_engine::engine::closed_error;
use ottla_engine::fetched::Fetched;
use ottla_engine::metrics::{AppMetric, Metric};
use ottla_engine::share_consumer::{Acquired, AcquiredRange, CommitId, ShareConsumer as Work};
use ottla_engine::{Change, Config, Engine, Error, Kind, Role};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use ottla_engine::share_consumer::{AcknowledgeType, Acknowledged, Committed, LockId};

use crate::consume::decode::{Chunk, Decode, Moment};
use crate::consume::raised_errors::Raised;
use crate::net::transport::{deadline, now, timeout_at};
use crate::runtime::driver::{Driver, JOIN_TIMEOUT};
use crate::runtime::events::Events;
use crate::runtime::threads::Threads;

/// A consumer in a share group: a cheap handle. Threads may share it, polls wait for each other.
pub struct ShareConsumer<D: Decode> {
    inner: Arc<Inner<D>>,
}

impl<D: Decode> fmt::Debug for ShareConsumer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareConsumer")
            .field("driver", &self.inner.driver)
            .finish_non_exhaustive()
    }
}

impl<D: Decode> Clone for ShareConsumer<D> {
    fn clone(&self) -> Self {
        ShareConsumer {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<D: Decode> {
    driver: Driver<Work>,
    decoder: D,
    /// Locked by the call that polls.
    polling: tokio::sync::Mutex<()>,
    /// Acquired records that no caller has yet. Locked before the engine, never the other way round.
    ready: Mutex<VecDeque<Ready<D::Chunk>>>,
    /// A close has begun.
    closing: AtomicBool,
    /// The thread that polls has others to serve.
    is_brief: AtomicBool,
    /// A poll does not divide a batch.
    keeps_batches: AtomicBool,
    /// Another thread decodes what comes next.
    is_elsewhere: AtomicBool,
    raised: Raised,
    /// It does so no longer.
    back: Notify,
}

/// What became of what comes next.
enum Next {
    /// It is ready.
    Decoded,
    /// Another thread decodes it.
    Elsewhere,
    Nothing,
}

/// Records of consecutive offsets that were acquired together.
#[derive(Debug)]
pub struct Given<C> {
    /// The records.
    pub chunk: C,
    /// What an acknowledgement has to name.
    pub lock: LockId,
    /// How often they were delivered, this time included.
    pub delivery_count: i16,
}

enum Ready<C> {
    /// The rows from this one on.
    Records {
        given: Given<Arc<C>>,
        /// Bytes of the whole chunk. To know them, each record is looked at.
        bytes: usize,
        row: usize,
    },
    /// Records that cannot be shown, and what became of them: for the next poll to raise.
    Broken(Error),
}

impl<D: Decode> ShareConsumer<D> {
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
    ) -> Result<ShareConsumer<D>, Error> {
        let role = Role::ShareConsumer;
        let driver = Driver::start(config, role, threads, events, Engine::share_consumer)?;
        Ok(ShareConsumer {
            inner: Arc::new(Inner {
                driver,
                decoder,
                polling: tokio::sync::Mutex::default(),
                ready: Mutex::default(),
                closing: AtomicBool::new(false),
                is_brief: AtomicBool::new(false),
                keeps_batches: AtomicBool::new(false),
                is_elsewhere: AtomicBool::new(false),
                raised: Raised::default(),
                back: Notify::new(),
            }),
        })
    }

    /// From now on polls hold their thread no longer than about a millisecond at a time, since it has others to serve: what takes
    /// longer to decode is decoded by another one, and the poll waits for that as it waits for brokers.
    pub fn poll_briefly(&self) {
        self.inner.is_brief.store(true, Ordering::Relaxed);
    }

    /// From now on a poll returns the rest of a batch as a whole, although it then returns more records than it was asked for: as
    /// Java's client and librdkafka do with share.acquire.mode=batch_optimized (KIP-1206).
    pub fn keep_batches(&self) {
        self.inner.keeps_batches.store(true, Ordering::Relaxed);
    }

    /// Joins the group, and shares the partitions of these topics with its other members.
    ///
    /// # Errors
    /// `Kind::Argument` without a topic; `Kind::Closed`.
    pub fn subscribe(&self, topics: BTreeSet<Arc<str>>) -> Result<(), Error> {
        let driver = &self.inner.driver;
        driver.with(|engine, now| engine.subscribe(now, topics))
    }

    /// The topics subscribed to, sorted.
    pub fn subscription(&self) -> Vec<Arc<str>> {
        self.inner.driver.with(|engine, _| engine.subscription())
    }

    /// The partitions that this member fetches at the moment, as others may too, sorted.
    pub fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        self.inner.driver.with(|engine, _| engine.assignment())
    }

    /// How long brokers keep records for this member, as they said last; `None` before the first records.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.inner.driver.with(|engine, _| engine.lock_timeout())
    }

    /// Waits for records: at least one as soon as there is one, at most `max_records` (`None`:
    /// `max.poll.records`); empty at the deadline if brokers were reached and there was nothing.
    /// What the last poll returned is accepted, with implicit acknowledgement; acknowledgements are
    /// sent to brokers.
    ///
    /// # Errors
    /// At once: `Kind::Argument` without a subscription, or with explicit acknowledgement if nothing was said of some record; a group
    /// or a topic that does not take the client; records that do not decode, once, after the ones before them. At the deadline: the
    /// last cause if no broker could be reached.
    pub async fn poll(
        &self,
        timeout: Duration,
        max_records: Option<usize>,
    ) -> Result<Vec<Given<D::Chunk>>, Error> {
        let most = max_records.unwrap_or(self.config().max_poll_records);
        let gather = || self.inner.gather(most);
        let given = self.polled(timeout, gather).await?;
        Ok(given.unwrap_or_default())
    }

    /// Waits for records that [`ShareConsumer::next_record`] gives out, at most `timeout`.
    ///
    /// # Errors
    /// As [`ShareConsumer::poll`].
    pub async fn poll_to_iterate(&self, timeout: Duration) -> Result<(), Error> {
        let look = || self.inner.has_records().map(|any| any.then_some(()));
        self.polled(timeout, look).await?;
        Ok(())
    }

    /// The next record that is there: the chunk that holds it, its row there, its lock and how often it was delivered.
    pub fn next_record(&self) -> Option<(Given<Arc<D::Chunk>>, usize)> {
        let mut ready = self.inner.ready.lock();
        loop {
            let Ready::Records { given, bytes, row } = ready.front_mut()? else {
                return None;
            };
            let (lock, at) = (given.lock, *row);
            if at >= given.chunk.len() {
                ready.pop_front();
                continue;
            }
            *row += 1;
            let offset = given.chunk.offset(at);
            let found = Given {
                chunk: Arc::clone(&given.chunk),
                lock,
                delivery_count: given.delivery_count,
            };
            // Its share of the chunk's bytes, so that all rows together have them all.
            let rows = found.chunk.len();
            let bytes = *bytes * (at + 1) / rows - *bytes * at / rows;
            let driver = &self.inner.driver;
            if driver.with(|engine, now| engine.give(now, lock, (offset, offset), (1, bytes))) {
                return Some((found, at));
            }
        }
    }

    /// Polls until `look` finds something, or until the deadline.
    async fn polled<R>(
        &self,
        timeout: Duration,
        look: impl FnMut() -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        let found = self.find(timeout, look).await;
        match &found {
            Ok(_) => self.inner.raised.clear(),
            Err(error) => {
                self.inner.raised.note(error);
                self.inner
                    .driver
                    .with(|engine, _| engine.note_raised(error));
            }
        }
        found
    }

    async fn find<R>(
        &self,
        timeout: Duration,
        mut look: impl FnMut() -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        let inner = &self.inner;
        let deadline = deadline(timeout);
        let Ok(_turn) = timeout_at(deadline, inner.polling.lock()).await else {
            return Ok(None);
        };
        let is_dry = inner.ready.lock().is_empty();
        inner
            .driver
            .with(|engine, now| inner.begin(engine, now, is_dry))?;
        let _poll = Polling(&inner.driver);
        // Before looking, so that nothing that happens afterwards is missed.
        let waiter = inner.driver.enter(&[Change::Records, Change::Group]);
        let mut is_late = false;
        loop {
            match inner.obstacle() {
                Some(error) if !is_late && inner.raised.is_repeated(&error) => {
                    is_late = waiter.changed(deadline).await.is_err();
                    continue;
                }
                Some(error) => return Err(error),
                None => {}
            }
            // Before looking: a thread that a cancelled poll left behind may end in between, and rings nobody here.
            let was_elsewhere = inner.is_elsewhere.load(Ordering::Acquire);
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            match inner.decode_next() {
                Next::Decoded => continue,
                Next::Nothing if was_elsewhere => continue,
                Next::Elsewhere => {
                    // Past the deadline, too, as a thread of its own would go on decoding.
                    inner.decoded_elsewhere().await;
                    continue;
                }
                Next::Nothing => {}
            }
            if let Some(error) = inner.driver.with(|engine, _| engine.take_failure()) {
                return Err(error);
            }
            if is_late {
                inner.decoder.rest();
                return inner.driver.with(|engine, _| match engine.delay() {
                    Some(error) if !engine.is_starting() => Err(error),
                    _ => Ok(None),
                });
            }
            inner.driver.with(|engine, now| engine.poll_goes_on(now));
            is_late = waiter.changed(deadline).await.is_err();
        }
    }

    /// Acknowledges records that polls or an iteration returned: ranges of offsets, both ends
    /// included. The next poll or commit sends the acknowledgements; until then they can be
    /// replaced.
    ///
    /// # Errors
    /// `Kind::Argument` with implicit acknowledgement, or if a record is not this consumer's any more; `Kind::Unsupported` for a
    /// renewal that the broker cannot do. What stands before the record with the error was said.
    pub fn acknowledge(
        &self,
        ranges: impl IntoIterator<Item = (LockId, i64, i64)>,
        kind: AcknowledgeType,
    ) -> Result<(), Error> {
        if !self.inner.is_explicit() {
            let text = "records are acknowledged by the next poll or commit: set share.acknowledgement.mode=explicit to say what \
                        becomes of each";
            return Err(Error::new(Kind::Argument, text));
        }
        self.inner.driver.with(|engine, _| {
            if engine.closed().is_some() {
                return Err(closed_error());
            }
            let mut ranges = ranges.into_iter();
            ranges.try_for_each(|(lock, first, last)| engine.acknowledge(lock, (first, last), kind))
        })
    }

    /// Sends acknowledgements to brokers, and waits for their responses at most `timeout` (`None`:
    /// `default.api.timeout.ms`). With implicit acknowledgement it accepts all records that were
    /// returned. One result for each partition concerned.
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub async fn commit(&self, timeout: Option<Duration>) -> Result<Vec<Committed>, Error> {
        let driver = &self.inner.driver;
        let timeout = timeout.unwrap_or(self.config().default_api_timeout);
        let deadline = deadline(timeout);
        let id = self.inner.start_commit(deadline)?;
        let mut committing = Committing {
            driver,
            id: Some(id),
        };
        let look = |engine: &mut Engine<Work>, now: Instant| {
            let found = engine.take_commit(id).or_else(|| {
                // The alarm of its deadline may come a moment later than this caller's.
                engine.handle_timeout(now);
                engine.take_commit(id)
            });
            found.map(Ok)
        };
        let late = |_: &mut Engine<Work>, _: Instant| {
            let text = format!("no response within {} ms", timeout.as_millis());
            Err(Error::new(Kind::Timeout, text).calling("ShareAcknowledge"))
        };
        let found = driver.wait(&[Change::Group], deadline, look, late).await;
        if found.is_ok() {
            committing.id = None;
        }
        found
    }

    /// As [`ShareConsumer::commit`], without waiting: what does not count is an event.
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub fn commit_later(&self) -> Result<(), Error> {
        let timeout = self.config().default_api_timeout;
        let id = self.inner.start_commit(deadline(timeout))?;
        let driver = &self.inner.driver;
        driver.with(|engine, _| engine.give_up_commit(id));
        Ok(())
    }

    /// Keeps how each acknowledgement ends for [`ShareConsumer::take_outcomes`], or no longer.
    pub fn keep_outcomes(&self, keep: bool) {
        self.inner
            .driver
            .with(|engine, _| engine.keep_outcomes(keep));
    }

    /// How acknowledgements ended since the last call.
    pub fn take_outcomes(&self) -> Vec<Acknowledged> {
        self.inner.driver.with(|engine, _| engine.take_outcomes())
    }

    /// Leaves the group, at most within `timeout` (`None`: `default.api.timeout.ms`). It sends
    /// pending acknowledgements; all other records are free for other members.
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub async fn unsubscribe(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = timeout.unwrap_or(self.config().default_api_timeout);
        let (inner, deadline) = (&self.inner, deadline(timeout));
        let begins = inner.driver.with(|engine, now| {
            if engine.closed().is_some() {
                return Err(closed_error());
            }
            engine.leave_group(now, deadline);
            Ok(())
        });
        begins?;
        inner.ready.lock().clear();
        let look =
            |engine: &mut Engine<Work>, _: Instant| (!engine.is_leaving_group()).then_some(());
        let late = |engine: &mut Engine<Work>, now: Instant| engine.abandon_group(now);
        inner
            .driver
            .wait(&[Change::Group], deadline, look, late)
            .await;
        Ok(())
    }

    /// Leaves the group, wakes polls with `Kind::Closed`, joins every task, all within `timeout`. Idempotent.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = timeout.unwrap_or(JOIN_TIMEOUT);
        let end = deadline(timeout);
        self.inner.closing.store(true, Ordering::Relaxed);
        // It may be closed already.
        let _left = self.unsubscribe(Some(timeout)).await;
        let left = end.saturating_duration_since(now());
        let closed = self.inner.driver.close(left).await;
        self.inner.decoder.rest();
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

/// A poll, until it returns or is dropped.
struct Polling<'a>(&'a Driver<Work>);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.with(|engine, now| engine.poll_ended(now));
    }
}

/// A caller's wait for a commit. Who stops waiting does not take the result any more.
struct Committing<'a> {
    driver: &'a Driver<Work>,
    id: Option<CommitId>,
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.driver.with(|engine, _| engine.give_up_commit(id));
        }
    }
}

/// The most ranges of records that are taken out of one batch by themselves; it is decoded again
/// for each.
const MOST_ALONE: usize = 64;

/// What becomes of offsets that no caller gets: their range, and `None` where there is no record.
type Disposal = (i64, i64, Option<AcknowledgeType>);

impl<D: Decode> Inner<D> {
    fn is_explicit(&self) -> bool {
        let mode = self.driver.config().share_acknowledgement_mode;
        mode == AcknowledgementMode::Explicit
    }

    fn begin(&self, engine: &mut Engine<Work>, now: Instant, is_dry: bool) -> Result<(), Error> {
        if let Some(error) = self.refusal(engine) {
            return Err(error);
        }
        if !self.is_explicit() {
            engine.accept_given();
        } else if engine.has_unacknowledged() {
            let text = "some records of the last poll are not acknowledged: with share.acknowledgement.mode=explicit, acknowledge all of \
                        them before the next poll";
            return Err(Error::new(Kind::Argument, text));
        }
        engine.poll_began(now, is_dry);
        Ok(())
    }

    fn start_commit(&self, deadline: Instant) -> Result<CommitId, Error> {
        let is_explicit = self.is_explicit();
        self.driver.with(|engine, now| {
            if !is_explicit {
                engine.accept_given();
            }
            engine.commit(now, deadline)
        })
    }

    /// Why no call can succeed: the client is closed, no address is a Kafka broker's, or there is nothing to read.
    fn refusal(&self, engine: &Engine<Work>) -> Option<Error> {
        if engine.closed().is_some() || self.closing.load(Ordering::Relaxed) {
            return Some(closed_error());
        }
        if !engine.is_subscribed() {
            let text = "nothing is subscribed to: subscribe to topics first";
            return Some(Error::new(Kind::Argument, text));
        }
        engine.hopeless()
    }

    fn obstacle(&self) -> Option<Error> {
        self.driver
            .with(|engine, _| self.refusal(engine).or_else(|| engine.stuck().cloned()))
    }

    /// Whether an iteration has something to give out; raises what comes first.
    fn has_records(&self) -> Result<bool, Error> {
        let mut ready = self.ready.lock();
        loop {
            match ready.front() {
                None => return Ok(false),
                Some(Ready::Records { given, row, .. }) if *row < given.chunk.len() => {
                    return Ok(true);
                }
                Some(Ready::Records { .. }) => {
                    ready.pop_front();
                }
                Some(Ready::Broken(_)) => {
                    return match ready.pop_front() {
                        Some(Ready::Broken(error)) => Err(error),
                        _ => Ok(false),
                    };
                }
            }
        }
    }

    /// Gives out what is there.
    fn gather(&self, most: usize) -> Result<Option<Vec<Given<D::Chunk>>>, Error> {
        let mut all = Vec::new();
        let mut left = most;
        let keeps_batches = self.keeps_batches.load(Ordering::Relaxed);
        let mut ready = self.ready.lock();
        while left > 0 {
            match ready.front_mut() {
                None => break,
                Some(Ready::Broken(_)) if !all.is_empty() => break,
                Some(Ready::Broken(_)) => {
                    if let Some(Ready::Broken(error)) = ready.pop_front() {
                        return Err(error);
                    }
                }
                Some(Ready::Records { given, row, .. }) => {
                    let rest = given.chunk.len().saturating_sub(*row);
                    if rest == 0 {
                        ready.pop_front();
                        continue;
                    }
                    let count = if keeps_batches { rest } else { rest.min(left) };
                    let chunk = given.chunk.slice(*row, count);
                    *row += count;
                    let (lock, first, last) =
                        (given.lock, chunk.offset(0), chunk.offset(count - 1));
                    let what = (count, chunk.bytes());
                    if self
                        .driver
                        .with(|engine, now| engine.give(now, lock, (first, last), what))
                    {
                        left = left.saturating_sub(count);
                        all.push(Given {
                            chunk,
                            lock,
                            delivery_count: given.delivery_count,
                        });
                    }
                }
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// Decodes what was acquired next, or has another thread do so.
    fn decode_next(self: &Arc<Self>) -> Next {
        // One after the other: a poll that was cancelled may have left a thread behind.
        if self.is_elsewhere.load(Ordering::Acquire) {
            return Next::Elsewhere;
        }
        let Some(acquired) = self.driver.with(|engine, _| engine.take()) else {
            return Next::Nothing;
        };
        let whole = match self.is_brief.load(Ordering::Relaxed) {
            true => self.decode_at_once(&acquired),
            false => Some(self.decoder.decode(&acquired.fetched)),
        };
        let Some(whole) = whole else {
            let elsewhere = Elsewhere::begin(self, acquired);
            self.driver.spawn_blocking(move || elsewhere.run());
            return Next::Elsewhere;
        };
        self.make_ready(&acquired, whole);
        Next::Decoded
    }

    fn decode_at_once(&self, acquired: &Acquired) -> Option<Result<D::Chunk, Error>> {
        let (mut moment, fetched) = (Moment::new(), &acquired.fetched);
        let is_compressed = fetched.is_compressed();
        if !moment.is_enough(fetched, is_compressed) {
            return None;
        }
        moment.decode(&self.decoder, fetched, is_compressed)
    }

    /// Waits while another thread decodes.
    async fn decoded_elsewhere(&self) {
        loop {
            let mut back = pin!(self.back.notified());
            // Before looking, so that nothing that happens afterwards is missed.
            back.as_mut().enable();
            if !self.is_elsewhere.load(Ordering::Acquire) {
                return;
            }
            back.await;
        }
    }

    /// Lines up what decoding made of acquired records.
    fn make_ready(&self, acquired: &Acquired, whole: Result<D::Chunk, Error>) {
        let lock = acquired.lock;
        let (found, disposals) = Decoded::of(&self.decoder, acquired, whole);
        self.driver.with(|engine, now| {
            for (first, last, kind) in disposals {
                engine.dispose(now, lock, (first, last), kind);
            }
        });
        self.ready.lock().extend(found);
    }
}

/// A thread that decodes in place of a poll, until it is dropped.
struct Elsewhere<D: Decode> {
    inner: Arc<Inner<D>>,
    /// What it has to decode.
    acquired: Option<Acquired>,
}

impl<D: Decode> Elsewhere<D> {
    fn begin(inner: &Arc<Inner<D>>, acquired: Acquired) -> Self {
        inner.is_elsewhere.store(true, Ordering::Release);
        Elsewhere {
            inner: Arc::clone(inner),
            acquired: Some(acquired),
        }
    }

    fn run(mut self) {
        if let Some(acquired) = &self.acquired {
            let whole = self.inner.decoder.decode(&acquired.fetched);
            self.inner.make_ready(acquired, whole);
        }
        self.acquired = None;
    }
}

impl<D: Decode> Drop for Elsewhere<D> {
    fn drop(&mut self) {
        // Nothing came of it, since the decoder panicked: others may have the records, and need not wait for the end of their lock.
        if let Some(Acquired { lock, ranges, .. }) = self.acquired.take() {
            self.inner.driver.with(|engine, now| {
                for range in ranges.iter() {
                    let offsets = (range.first, range.last);
                    engine.dispose(now, lock, offsets, Some(AcknowledgeType::Release));
                }
            });
        }
        self.inner.is_elsewhere.store(false, Ordering::Release);
        self.inner.back.notify_waiters();
    }
}

/// What decoding made of acquired records.
struct Decoded<C> {
    lock: LockId,
    found: Vec<Ready<C>>,
    disposals: Vec<Disposal>,
}

impl<C: Chunk> Decoded<C> {
    fn of<D: Decode<Chunk = C>>(
        decoder: &D,
        acquired: &Acquired,
        whole: Result<C, Error>,
    ) -> (Vec<Ready<C>>, Vec<Disposal>) {
        let mut decoded = Decoded {
            lock: acquired.lock,
            found: Vec::new(),
            disposals: Vec::new(),
        };
        let fetched = &acquired.fetched;
        match whole {
            Ok(chunk) if chunk.next_offset() >= fetched.next_offset => {
                decoded.take(&chunk, &acquired.ranges);
            }
            Ok(_) => {
                let whole = fetched.corrupt("a record cannot be shown");
                decoded.take_apart(decoder, acquired, &whole);
            }
            Err(whole) => decoded.take_apart(decoder, acquired, &whole),
        }
        (decoded.found, decoded.disposals)
    }

    /// Decodes batch by batch, to find those that are broken.
    fn take_apart<D: Decode<Chunk = C>>(
        &mut self,
        decoder: &D,
        acquired: &Acquired,
        whole: &Error,
    ) {
        let mut end = i64::MIN;
        let mut any = false;
        for part in acquired.fetched.split() {
            if any && !part.begins_in_order() {
                break;
            }
            any = true;
            let ranges = clip(&acquired.ranges, end, part.next_offset);
            end = end.max(part.next_offset);
            if ranges.is_empty() {
                continue;
            }
            self.take_batch(decoder, part, &ranges);
        }
        let rest = clip(&acquired.ranges, end, i64::MAX);
        // Behind what was split off, the response may be damaged, and not the log.
        let kind = match any {
            true => AcknowledgeType::Release,
            false => verdict(whole),
        };
        self.give_up(&rest, kind, whole);
    }

    /// Takes what was acquired of one batch, without the records in it that cannot be shown.
    fn take_batch<D: Decode<Chunk = C>>(
        &mut self,
        decoder: &D,
        mut batch: Fetched,
        ranges: &[AcquiredRange],
    ) {
        for alone in 0.. {
            let (from, end) = (batch.fetch_offset, batch.next_offset);
            let reached = match decoder.decode(&batch) {
                Ok(chunk) => {
                    let reached = chunk.next_offset();
                    let shown = if reached < end { reached } else { i64::MAX };
                    self.take(&chunk, &clip(ranges, from, shown));
                    reached
                }
                Err(error) => {
                    let next = error.damage().and_then(|damage| damage.next_offset);
                    let reached = next.filter(|_| alone < MOST_ALONE).unwrap_or(end);
                    let refused = clip(ranges, from, reached);
                    let error = match error.kind() {
                        // Nobody gets it any more.
                        Kind::Corrupt => batch.name_in(error),
                        _ => error,
                    };
                    self.give_up(&refused, verdict(&error), &error);
                    reached
                }
            };
            if reached <= from || reached >= end {
                return;
            }
            batch.fetch_offset = reached;
        }
    }

    /// Records that nobody can be shown.
    fn give_up(&mut self, ranges: &[AcquiredRange], kind: AcknowledgeType, cause: &Error) {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return;
        };
        for range in ranges {
            self.disposals.push((range.first, range.last, Some(kind)));
        }
        let disposal = match kind {
            AcknowledgeType::Reject => "rejected: the group does not get them again",
            _ => "released: they are delivered again, until the group's delivery count limit",
        };
        let text = format!(
            "acquired records from offset {} to {} were {disposal}",
            first.first, last.last
        );
        let error = cause.clone().wrap(cause.kind(), text);
        self.found.push(Ready::Broken(error));
    }

    /// Takes what was acquired of a chunk: runs of consecutive offsets, and the gaps between them.
    fn take(&mut self, chunk: &C, ranges: &[AcquiredRange]) {
        for range in ranges {
            let mut row = row_at(chunk, range.first);
            let end = row_at(chunk, range.last.saturating_add(1)).max(row);
            let mut due = range.first;
            while row < end {
                let first = chunk.offset(row);
                if first > due {
                    self.disposals.push((due, first - 1, None));
                }
                let length = consecutive(chunk, row, end);
                let given = Given {
                    chunk: Arc::new(chunk.slice(row, length)),
                    lock: self.lock,
                    delivery_count: range.delivery_count,
                };
                due = chunk.offset(row + length - 1).saturating_add(1);
                self.found.push(Ready::Records {
                    bytes: given.chunk.bytes(),
                    given,
                    row: 0,
                });
                row += length;
            }
            if due <= range.last {
                self.disposals.push((due, range.last, None));
            }
        }
    }
}

/// How to acknowledge records that do not decode: rejects damaged ones, so that nobody ever gets
/// them. Releases those that only this client cannot show or has no memory for: other clients may
/// read them.
fn verdict(error: &Error) -> AcknowledgeType {
    match error.kind() {
        Kind::Corrupt => AcknowledgeType::Reject,
        _ => AcknowledgeType::Release,
    }
}

/// The parts of the ranges from `first` on, before `end`.
fn clip(ranges: &[AcquiredRange], first: i64, end: i64) -> Vec<AcquiredRange> {
    let parts = ranges.iter().map(|range| AcquiredRange {
        first: range.first.max(first),
        last: range.last.min(end.saturating_sub(1)),
        ..*range
    });
    parts.filter(|range| range.first <= range.last).collect()
}

/// The first row at this offset or behind it.
fn row_at<C: Chunk>(chunk: &C, offset: i64) -> usize {
    let (mut low, mut high) = (0, chunk.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if chunk.offset(middle) < offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// How many rows from `row` on, before `end`, have consecutive offsets.
fn consecutive<C: Chunk>(chunk: &C, row: usize, end: usize) -> usize {
    let span = |last: usize| chunk.offset(last).checked_sub(chunk.offset(row));
    let is_dense =
        |last: usize| span(last).and_then(|it| usize::try_from(it).ok()) == Some(last - row);
    if is_dense(end - 1) {
        return end - row;
    }
    let next = (row + 1..end).find(|last| !is_dense(*last));
    next.unwrap_or(end) - row
}

#[cfg(test)]
mod tests;
