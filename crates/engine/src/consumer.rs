//! A consumer: a cluster and a [`Fetcher`], composed.

use std::sync::Arc;
use std::time::Instant;

use crate::config::Config;
use crate::engine::{Engine, closed_error};
use crate::error::Error;
use crate::fetch::Fetcher;
pub use crate::fetch::{Generation, Start, Taken};
use crate::part::sealed::Composition;
use crate::part::{Client, Part};

/// What an [`Engine`] is composed of to be a consumer.
#[derive(Debug)]
pub struct Consumer {
    fetcher: Fetcher,
}

impl Engine<Consumer> {
    /// A consumer. `seed` drives everything that is left to chance.
    pub fn consumer(config: Arc<Config>, seed: u64) -> Engine<Consumer> {
        let fetcher = Fetcher::new(Arc::clone(&config));
        Engine::with_client(config, seed, Consumer { fetcher })
    }

    /// Reads these partitions and no others. One that was assigned before and comes with [`Start::Reset`] goes on as it was.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative partition or offset; nothing was changed.
    pub fn assign(
        &mut self,
        now: Instant,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let cluster = &mut self.core.cluster;
        self.client.fetcher.assign(now, cluster, partitions)?;
        self.settle(now);
        Ok(())
    }

    /// Goes on reading there; what was fetched and not taken is dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        self.client.fetcher.seek(now, topic, partition, to)?;
        self.settle(now);
        Ok(())
    }

    /// The offset of the next record that the caller gets; `None` until it was looked up.
    ///
    /// # Errors
    /// The partition is not assigned, or what keeps its offset from being known for good.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        self.client.fetcher.position(topic, partition)
    }

    /// Stops or resumes giving out records of a partition.
    ///
    /// # Errors
    /// The partition is not assigned.
    pub fn set_paused(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        self.client.fetcher.set_paused(topic, partition, paused)?;
        self.settle(now);
        Ok(())
    }

    /// The assigned partitions, sorted, and whether each is paused.
    pub fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32, bool)> {
        self.client.fetcher.assignment()
    }

    /// The oldest buffered records. Makes room for the next fetch.
    pub fn take(&mut self, now: Instant) -> Option<Taken> {
        self.client.fetcher.take(now, &mut self.core.cluster)
    }

    /// Whether something of this generation may still be given to the caller.
    pub fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.client.fetcher.is_current(topic, partition, generation)
    }

    /// The caller gets everything before `next_offset`; false if a seek came in between, then it must not.
    pub fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        let fetcher = &mut self.client.fetcher;
        fetcher.advance(topic, partition, generation, next_offset)
    }

    /// The records at `offset` do not decode: the partition stays there, and says so, until a seek.
    pub fn reject(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        offset: i64,
        error: Error,
    ) {
        let fetcher = &mut self.client.fetcher;
        fetcher.reject(topic, partition, generation, offset, error);
    }

    /// An error that keeps a partition from being read until a seek or a new assignment; once the caller got everything
    /// that stands before it.
    pub fn stuck(&self) -> Option<&Error> {
        self.client.fetcher.stuck()
    }

    /// Why nothing comes, if it is not just that there is nothing: no broker, an unknown topic, no leader.
    pub fn delay(&self) -> Option<Error> {
        let delay = || self.client.fetcher.delay(&self.core.cluster);
        self.trouble().or_else(delay)
    }
}

impl Composition for Consumer {
    #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
    fn part(&mut self, number: u8) -> Option<&mut dyn Part> {
        match number {
            0 => Some(&mut self.fetcher),
            _ => None,
        }
    }
}

impl Client for Consumer {}
