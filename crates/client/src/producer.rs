//! Sending records.

use std::time::Duration;

use ottla_engine::{Config, Error};
use tokio::runtime::Handle;

use crate::PartitionInfo;
use crate::delivery::{Deliveries, Delivery};

/// One record to be sent. Everything is borrowed: it is encoded into the open batch at once.
#[derive(Clone, Debug)]
pub struct Row<'a, H> {
    /// The partition; `None` lets the key decide, or the partitioner if there is no key.
    pub partition: Option<i32>,
    /// Milliseconds since 1970 UTC; `None` is now.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values of headers.
    pub headers: H,
}

impl<'a> Row<'a, std::iter::Empty<(&'a str, Option<&'a [u8]>)>> {
    /// A row without headers.
    pub fn new(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Self {
        Row {
            partition: None,
            timestamp_ms: None,
            key,
            value,
            headers: std::iter::empty(),
        }
    }
}

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError {
    /// There is no room, or the topic's partitions are not known yet: wait with [`Producer::ready`] and try again.
    #[error("the producer's buffer is full or the topic is not known yet")]
    NotReady,
    /// This record can never be sent.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A producer: a cheap handle, to be cloned and shared between threads.
#[derive(Clone, Debug)]
pub struct Producer {}

impl Producer {
    /// A producer that runs on `runtime`. Never connects: the first send does.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(config: Config, runtime: &Handle) -> Result<Producer, Error> {
        todo!()
    }

    /// Encodes one record into the open batch of its partition. Takes one lock, never waits.
    ///
    /// # Errors
    /// [`TrySendError::NotReady`]: await [`Producer::ready`] for the same topic and size, then try again.
    pub fn try_send<'a, H>(&self, topic: &str, row: Row<'a, H>) -> Result<Delivery, TrySendError>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        todo!()
    }

    /// Waits until `topic` is known and the buffer has room for `bytes` more, at most `timeout` (`None`: `max.block.ms`).
    ///
    /// # Errors
    /// What kept it from being ready at the deadline: no broker reachable, unknown topic, buffer full.
    pub async fn ready(
        &self,
        topic: &str,
        bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        todo!()
    }

    /// [`Producer::try_send`], waiting for room where needed; `timeout` bounds that wait (`None`: `max.block.ms`).
    pub async fn send<'a, H>(
        &self,
        topic: &str,
        row: Row<'a, H>,
        timeout: Option<Duration>,
    ) -> Result<Delivery, Error>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        todo!()
    }

    /// Sends all rows, taking the lock once for many; waits for room where needed, `timeout` for each such wait.
    ///
    /// # Errors
    /// Only if no row was taken. Afterwards a row that could not be sent is an error inside [`Deliveries`], and the rows
    /// after a failed wait all have that wait's error.
    pub async fn send_many<'a, H>(
        &self,
        topic: &str,
        rows: impl Iterator<Item = Row<'a, H>>,
        timeout: Option<Duration>,
    ) -> Result<Deliveries, Error>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        todo!()
    }

    /// Sends everything without lingering and waits until each record sent so far has its fate.
    ///
    /// # Errors
    /// `Kind::Timeout`, or the cause that keeps records from being delivered, if some are undecided at the deadline.
    /// Failures of single records are in their deliveries, not here.
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<(), Error> {
        todo!()
    }

    /// Flushes at most `timeout` (`None`: `delivery.timeout.ms`), fails what is left, joins every task. Idempotent.
    ///
    /// # Errors
    /// As [`Producer::flush`]; the producer is closed all the same.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
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

    /// Bytes of records that have no fate yet.
    pub fn buffered_bytes(&self) -> usize {
        todo!()
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        todo!()
    }
}
