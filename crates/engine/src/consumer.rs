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

/// The parts that make an [`Engine`] a consumer.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) fetcher: Fetcher,
}

impl Engine<Consumer> {
    /// A consumer. `seed` seeds all random choices.
    pub fn consumer(config: Arc<Config>, seed: u64) -> Engine<Consumer> {
        let fetcher = Fetcher::new(Arc::clone(&config));
        Engine::with_client(config, seed, Consumer { fetcher })
    }

    /// Reads these partitions and no others. A partition that was assigned before keeps its position if it comes with
    /// [`Start::Reset`].
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

    /// Reads all partitions of these topics and nothing else, also partitions that are added later. The first ones
    /// start where `auto.offset.reset` says, added ones at their beginning. Partitions that were read before keep their
    /// position. A topic that is deleted and made anew is read from its beginning (where brokers tell topic ids,
    /// KIP-516); while it is missing, it is waited for.
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub fn follow(&mut self, now: Instant, topics: Vec<Arc<str>>) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let cluster = &mut self.core.cluster;
        self.client.fetcher.follow(now, cluster, topics);
        self.settle(now);
        Ok(())
    }

    /// [`Engine::seek`] of all that is assigned, and of the partitions of followed topics that are not known yet.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative offset; nothing was changed.
    pub fn seek_all(&mut self, now: Instant, to: Start) -> Result<(), Error> {
        self.client.fetcher.seek_all(&mut self.core.cluster, to)?;
        self.settle(now);
        Ok(())
    }

    /// Sets the next offset to read. Fetched records that nobody has taken are dropped.
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
        let cluster = &mut self.core.cluster;
        self.client.fetcher.seek(cluster, topic, partition, to)?;
        self.settle(now);
        Ok(())
    }

    /// The offset of the next record that the caller gets; `None` until it was looked up.
    ///
    /// # Errors
    /// The partition is not assigned, or what keeps its offset from being known: for good, or until its leader accepts the
    /// client.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let fetcher = &self.client.fetcher;
        match fetcher.position(topic, partition)? {
            Some(next) => Ok(Some(next)),
            None => match fetcher.refusal(&self.core.cluster, topic, partition) {
                Some(refusal) => Err(refusal),
                None => Ok(None),
            },
        }
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
        let cluster = &mut self.core.cluster;
        self.client
            .fetcher
            .set_paused(cluster, topic, partition, paused)?;
        self.settle(now);
        Ok(())
    }

    /// Whether the partition is assigned and paused.
    pub fn is_paused(&self, topic: &str, partition: i32) -> bool {
        self.client.fetcher.is_paused(topic, partition)
    }

    /// The assigned partitions, sorted, and whether each is paused.
    pub fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32, bool)> {
        let each = self.client.fetcher.each();
        each.map(|(topic, partition, _, paused)| (topic, partition, paused))
    }

    /// The assigned partitions, sorted, and [`Engine::position`] of each.
    pub fn positions(&self) -> impl Iterator<Item = (&Arc<str>, i32, Option<i64>)> {
        let each = self.client.fetcher.each();
        each.map(|(topic, partition, next, _)| (topic, partition, next))
    }

    /// Whether there is something to read: partitions that are assigned, or topics that are followed.
    pub fn has_topics(&self) -> bool {
        self.client.fetcher.has_topics()
    }

    /// The oldest buffered records. Makes room for the next fetch.
    pub fn take(&mut self, now: Instant) -> Option<Taken> {
        if self.client.fetcher.must_pump() {
            self.settle(now);
        }
        self.client.fetcher.take(now, &mut self.core.cluster)
    }

    /// Whether records of this generation may still be given to the caller.
    pub fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.client.fetcher.is_current(topic, partition, generation)
    }

    /// Whether the caller still wants records of this generation that [`Engine::advance`] counted: no seek and no other
    /// assignment came since. A reset, a pause, or a broken batch behind them does not matter.
    pub fn is_wanted(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.client.fetcher.is_wanted(topic, partition, generation)
    }

    /// Notes that the caller gets everything before `next_offset`. False if a seek came in between: then the caller
    /// must not get it.
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

    /// Notes what a poll returned of a partition, after [`Engine::advance`], for metrics.
    pub fn handed_out(
        &mut self,
        now: Instant,
        topic: &Arc<str>,
        partition: i32,
        records: usize,
        bytes: usize,
    ) {
        let meters = &mut self.core.cluster.context.meters;
        let fetcher = &self.client.fetcher;
        fetcher.handed_out(now, meters, (topic, partition), records, bytes);
    }

    /// Notes that a caller begins to poll, for metrics.
    pub fn poll_began(&mut self, now: Instant) {
        self.core.cluster.context.meters.poll_began(now);
    }

    /// Notes that a poll returns, for metrics.
    pub fn poll_ended(&mut self, now: Instant) {
        self.core.cluster.context.meters.poll_ended(now);
    }

    /// Notes that the records at `offset` do not decode: the partition stays there and reports the error until a seek.
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

    /// An error that a poll has to raise: a partition cannot be read until a seek or a new assignment, and the caller got
    /// everything that stands before it; or a topic may not be read, or does not exist.
    pub fn stuck(&self) -> Option<&Error> {
        self.client.fetcher.stuck()
    }

    /// Why no records come, if a caller can act on it: [`Engine::stuck`], no broker can take a request at all, or the leader
    /// of a partition does not accept the client. A leader that moves, a node that is gone and a partition without a leader
    /// do not count: they pass, and are events.
    pub fn delay(&self) -> Option<Error> {
        let cluster = &self.core.cluster;
        let unknown = || {
            let is_blind = cluster.view().nodes().next().is_none();
            cluster.refresh_error().filter(|_| is_blind).cloned()
        };
        let refused = || {
            // It is rare, and there may be many partitions.
            if !cluster.is_refused_by_a_node() {
                return None;
            }
            let fetcher = &self.client.fetcher;
            self.assignment()
                .filter(|(_, _, paused)| !paused)
                .filter_map(|(topic, number, _)| fetcher.partition_delay(cluster, topic, number))
                .find(Error::is_refusal)
        };
        self.trouble()
            .or_else(|| self.stuck().cloned())
            .or_else(unknown)
            .or_else(refused)
    }

    /// Why one partition has no known offset or no records, whatever the reason is; `None` if it only has no new
    /// records.
    pub fn partition_delay(&self, topic: &str, partition: i32) -> Option<Error> {
        let cluster = &self.core.cluster;
        let fetcher = &self.client.fetcher;
        self.trouble()
            .or_else(|| fetcher.partition_delay(cluster, topic, partition))
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
