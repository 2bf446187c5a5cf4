//! Reading records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_engine::{Config, Error};
use tokio::runtime::Handle;

use crate::PartitionInfo;

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    Offset(i64),
    /// At the first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// Where `auto.offset.reset` says.
    Reset,
}

/// A transaction that was aborted: its records are hidden from readers of committed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The transaction's producer.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: i64,
}

/// Records of one partition as they came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset asked for; the first batch may begin below it.
    pub fetch_offset: i64,
    /// The offset after the last whole batch.
    pub next_offset: i64,
    /// The leader's epoch of the last batch; -1 if unknown.
    pub leader_epoch: i32,
    /// The end of what consumers may read.
    pub high_watermark: i64,
    /// Whole record batches, a slice of the received frame.
    pub records: Bytes,
    /// Transactions to hide.
    pub aborted: Vec<Aborted>,
}

impl Fetched {
    /// An error that says these records do not decode.
    pub fn corrupt(&self, cause: impl std::fmt::Display) -> Error {
        todo!()
    }
}

/// Makes what `poll` returns from records as they came.
pub trait Decode: Send + Sync + 'static {
    /// What `poll` returns.
    type Chunk: Chunk;

    /// Decodes all batches; called outside of any lock, on the thread or task that polls.
    ///
    /// # Errors
    /// Records that do not decode; see [`Fetched::corrupt`].
    fn decode(&self, fetched: &Fetched) -> Result<Self::Chunk, Error>;
}

/// Decoded records of one partition, in order.
pub trait Chunk: Send + 'static {
    /// Records.
    fn len(&self) -> usize;

    /// Whether there are no records; there may still be offsets to skip.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first `n` records off; `self` keeps the others.
    #[must_use]
    fn split_to(&mut self, n: usize) -> Self;

    /// The offset after the last one covered, gaps and control batches included.
    fn next_offset(&self) -> i64;
}

/// An offset found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// The record's time in milliseconds since 1970 UTC.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
}

/// A consumer: a cheap handle. Threads may share it, polls wait for each other.
#[derive(Debug)]
pub struct Consumer<D: Decode> {
    decoder: Arc<D>,
}

impl<D: Decode> Clone for Consumer<D> {
    fn clone(&self) -> Self {
        Consumer {
            decoder: Arc::clone(&self.decoder),
        }
    }
}

impl<D: Decode> Consumer<D> {
    /// A consumer that runs on `runtime`. Never connects: the first assignment or question does.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(config: Config, decoder: D, runtime: &Handle) -> Result<Consumer<D>, Error> {
        todo!()
    }

    /// Reads these partitions and no others. A partition that was assigned before and is given with [`Start::Reset`] keeps
    /// its position.
    pub fn assign(
        &self,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Goes on reading there; records of the partition that were fetched and not polled are dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(&self, topic: &str, partition: i32, to: Start) -> Result<(), Error> {
        todo!()
    }

    /// The offset of the next record that poll returns; finds it out where only "beginning" or "end" is known.
    pub async fn position(
        &self,
        topic: &str,
        partition: i32,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        todo!()
    }

    /// Stops returning records of these partitions.
    pub fn pause(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        todo!()
    }

    /// Returns records of these partitions again.
    pub fn resume(&self, partitions: &[(Arc<str>, i32)]) -> Result<(), Error> {
        todo!()
    }

    /// The assigned partitions, sorted.
    pub fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        todo!()
    }

    /// The paused partitions, sorted.
    pub fn paused(&self) -> Vec<(Arc<str>, i32)> {
        todo!()
    }

    /// Records if some are there now, else an empty vector. Never waits, decodes on this thread.
    pub fn try_poll(&self, max_records: Option<usize>) -> Result<Vec<D::Chunk>, Error> {
        todo!()
    }

    /// At least one record as soon as there is one, at most `max_records` (`None`: `max.poll.records`); empty at the
    /// deadline if brokers were reached and there was nothing. Chunks are in offset order for each partition.
    ///
    /// # Errors
    /// The last cause if no broker could be reached by the deadline; an offset out of range under `auto.offset.reset=none`;
    /// records that do not decode (again at each poll until a seek goes past them); an unknown topic.
    pub async fn poll(
        &self,
        timeout: Duration,
        max_records: Option<usize>,
    ) -> Result<Vec<D::Chunk>, Error> {
        todo!()
    }

    /// The first offset of each partition.
    pub async fn beginning_offsets(
        &self,
        partitions: &[(Arc<str>, i32)],
        timeout: Option<Duration>,
    ) -> Result<Vec<i64>, Error> {
        todo!()
    }

    /// The offset after the last record of each partition (after the last committed one under `read_committed`).
    pub async fn end_offsets(
        &self,
        partitions: &[(Arc<str>, i32)],
        timeout: Option<Duration>,
    ) -> Result<Vec<i64>, Error> {
        todo!()
    }

    /// For each partition and time (ms since 1970 UTC) the first record at or after it, if any.
    pub async fn offsets_for_times(
        &self,
        times: &[(Arc<str>, i32, i64)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Option<OffsetAndTimestamp>>, Error> {
        todo!()
    }

    /// The topic's partitions, in order.
    pub async fn partitions_for(
        &self,
        topic: &str,
        timeout: Option<Duration>,
    ) -> Result<Vec<PartitionInfo>, Error> {
        todo!()
    }

    /// Wakes polls with `Kind::Closed`, joins every task within `timeout`. Idempotent.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        todo!()
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        todo!()
    }
}
