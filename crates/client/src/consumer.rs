//! Reading records.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::{EARLIEST, FoundOffset, LATEST, ListOffsets};
use ottla_engine::consumer::{Consumer as Work, Generation};
use ottla_engine::engine::closed_error;
use ottla_engine::{Change, Config, Engine, Error, Kind, Role};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

pub use ottla_engine::consumer::Start;
pub use ottla_engine::fetched::{Aborted, Fetched};

pub use crate::decode::{Chunk, Decode};

use crate::PartitionInfo;
use crate::calls;
use crate::decoding::{Decoding, Outcome};
use crate::driver::{Driver, JOIN_TIMEOUT};
use crate::events::Events;
use crate::transport::{deadline, timeout_at};

/// A consumer: a cheap handle. Threads may share it, polls wait for each other.
pub struct Consumer<D: Decode> {
    inner: Arc<Inner<D>>,
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

struct Inner<D: Decode> {
    driver: Driver<Work>,
    decoding: Arc<Decoding<D>>,
    /// What was decoded and not yet given out.
    decoded: Mutex<VecDeque<Decoded<D::Chunk>>>,
}

struct Decoded<C> {
    topic: Arc<str>,
    partition: i32,
    generation: Generation,
    what: Outcome<C>,
}

impl<D: Decode> Consumer<D> {
    /// A consumer that runs on `runtime` and tells `events` what happens. Never connects: the first assignment or question
    /// does.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(
        config: Config,
        decoder: D,
        runtime: &Handle,
        events: Option<Arc<Events>>,
    ) -> Result<Consumer<D>, Error> {
        let driver = Driver::start(config, Role::Consumer, runtime, events, Engine::consumer)?;
        Ok(Consumer {
            inner: Arc::new(Inner {
                driver,
                decoding: Decoding::new(decoder),
                decoded: Mutex::default(),
            }),
        })
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
        self.inner
            .driver
            .with(|engine, now| engine.assign(now, partitions))
    }

    /// Goes on reading there; records of the partition that were fetched and not polled are dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(&self, topic: &str, partition: i32, to: Start) -> Result<(), Error> {
        self.inner
            .driver
            .with(|engine, now| engine.seek(now, topic, partition, to))
    }

    /// The offset of the next record that poll returns; finds it out where only "beginning" or "end" is known.
    ///
    /// # Errors
    /// The partition is not assigned, or its offset could not be found out by the deadline.
    pub async fn position(
        &self,
        topic: &str,
        partition: i32,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        let timeout = timeout.unwrap_or(self.config().default_api_timeout);
        let look = |engine: &mut Engine<Work>, _: Instant| {
            if let Some(error) = refusal(engine) {
                return Some(Err(error));
            }
            engine.position(topic, partition).transpose()
        };
        let late = |engine: &mut Engine<Work>, _: Instant| {
            Err(engine.delay().unwrap_or_else(|| late(timeout)))
        };
        let driver = &self.inner.driver;
        driver
            .wait(&[Change::Position], deadline(timeout), look, late)
            .await
    }

    /// Stops returning records of these partitions.
    ///
    /// # Errors
    /// `Kind::Argument` if one is not assigned.
    pub fn pause(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        self.set_paused(partitions, true)
    }

    /// Returns records of these partitions again.
    ///
    /// # Errors
    /// `Kind::Argument` if one is not assigned.
    pub fn resume(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        self.set_paused(partitions, false)
    }

    fn set_paused(&self, partitions: &[(Arc<str>, i32)], paused: bool) -> Result<(), Error> {
        self.inner.driver.with(|engine, now| {
            partitions.iter().try_for_each(|(topic, partition)| {
                engine.set_paused(now, topic, *partition, paused)
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

    /// Records if some are there now, else an empty vector. Never waits for a broker; decodes.
    ///
    /// # Errors
    /// As [`Consumer::poll`], but for what only time can tell.
    pub fn try_poll(&self, max_records: Option<usize>) -> Result<Vec<D::Chunk>, Error> {
        match self.inner.decoded.try_lock() {
            Ok(mut decoded) => self.inner.gather(&mut decoded, max_records),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// At least one record as soon as there is one, at most `max_records` (`None`: `max.poll.records`); empty at the
    /// deadline if brokers were reached and there was nothing. Chunks are in offset order for each partition.
    ///
    /// # Errors
    /// The last cause if no broker could be reached by the deadline; an offset out of range under `auto.offset.reset=none`;
    /// records that do not decode (again at each poll until a seek goes past them); an unknown topic; nothing assigned.
    pub async fn poll(
        &self,
        timeout: Duration,
        max_records: Option<usize>,
    ) -> Result<Vec<D::Chunk>, Error> {
        let deadline = deadline(timeout);
        let Ok(mut decoded) = timeout_at(deadline, self.inner.decoded.lock()).await else {
            return Ok(Vec::new());
        };
        // Before looking, so that nothing that happens afterwards is missed.
        let waiter = self.inner.driver.enter(&[Change::Records]);
        loop {
            let chunks = self.inner.gather(&mut decoded, max_records)?;
            if !chunks.is_empty() {
                return Ok(chunks);
            }
            if waiter.changed(deadline).await.is_err() {
                let chunks = self.inner.gather(&mut decoded, max_records)?;
                if !chunks.is_empty() {
                    return Ok(chunks);
                }
                self.inner.decoding.rest();
                return self.inner.driver.with(|engine, now| match engine.delay() {
                    Some(error) if !engine.is_starting(now) => Err(error),
                    _ => Ok(Vec::new()),
                });
            }
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
            let text = format!("a time is 0 or above, and was {time}");
            return Err(Error::new(Kind::Argument, text).partition_is(topic, *partition));
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

    /// Wakes polls with `Kind::Closed`, joins every task within `timeout`. Idempotent.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let closed = self
            .inner
            .driver
            .close(timeout.unwrap_or(JOIN_TIMEOUT))
            .await;
        self.inner.decoding.rest();
        closed
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.inner.driver.config()
    }
}

impl<D: Decode> Inner<D> {
    async fn found(
        &self,
        wanted: Vec<(Arc<str>, i32, i64)>,
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<FoundOffset, Error>>, Error> {
        calls::ask(&self.driver, ListOffsets { wanted }, timeout).await
    }

    /// Takes what is there, decodes it, and gives out as much as one poll may return.
    fn gather(
        &self,
        decoded: &mut VecDeque<Decoded<D::Chunk>>,
        max_records: Option<usize>,
    ) -> Result<Vec<D::Chunk>, Error> {
        // First of all: records of other partitions that never end must not hide it.
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
        while records > 0 && bytes > 0 {
            let Some(next) = decoded.pop_front() else {
                if !self.decode_next(decoded) {
                    break;
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
                    let current = self.driver.with(|engine, _| {
                        engine.advance(&topic, partition, generation, next_offset)
                    });
                    if !current {
                        continue;
                    }
                    bytes = bytes.saturating_sub(chunk.bytes());
                    if let Some(rest) = rest {
                        decoded.push_front(Decoded {
                            topic,
                            partition,
                            generation,
                            what: Outcome::Chunk(rest),
                        });
                    }
                    if !chunk.is_empty() {
                        records -= chunk.len().min(records);
                        chunks.push(chunk);
                    }
                }
                Outcome::Broken(offset, error) => {
                    self.driver.with(|engine, _| {
                        engine.reject(&topic, partition, generation, offset, error)
                    });
                }
            }
        }
        match self.obstacle() {
            Some(error) if chunks.is_empty() => Err(error),
            _ => Ok(chunks),
        }
    }

    /// What a poll has to say before it gives out more.
    fn obstacle(&self) -> Option<Error> {
        self.driver
            .with(|engine, _| refusal(engine).or_else(|| engine.stuck().cloned()))
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

    /// Lets other threads begin with what will be asked for.
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

    /// Decodes what comes next; false if there is nothing.
    fn decode_next(&self, decoded: &mut VecDeque<Decoded<D::Chunk>>) -> bool {
        self.take();
        let Some(done) = self.decoding.next() else {
            return false;
        };
        decoded.extend(done.outcomes.into_iter().map(|what| Decoded {
            topic: Arc::clone(&done.topic),
            partition: done.partition,
            generation: done.generation,
            what,
        }));
        true
    }
}

/// Why no call can succeed: closed, nothing but strangers at the addresses given, or nothing to read.
fn refusal(engine: &Engine<Work>) -> Option<Error> {
    if engine.closed().is_some() {
        return Some(closed_error());
    }
    if engine.assignment().next().is_none() {
        return Some(Error::new(
            Kind::Argument,
            "nothing is assigned: assign partitions first",
        ));
    }
    engine.hopeless()
}

fn late(timeout: Duration) -> Error {
    Error::new(
        Kind::Timeout,
        format!("no answer within {} ms", timeout.as_millis()),
    )
}

/// An offset found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// The record's time in milliseconds since 1970 UTC; -1 if the offset was not asked for by time.
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
