//! From a caller's record to the open batch of its partition.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::records::{BatchBuilder, BatchHeader};

use crate::cluster::{Cluster, Lane};
use crate::config::Config;
use crate::error::{Error, Kind, Written};
use crate::produce::accumulator::{Accumulator, no_headers};
use crate::produce::batch::Open;
use crate::produce::partitioner::{Place, Scene, hash};
use crate::produce::queue::Queue;
use crate::produce::row::{Row, Rows};

/// The longest name that a topic can have.
const LONGEST_NAME: usize = 249;

/// Why a record was not appended.
#[derive(Debug)]
pub enum NotAppended {
    /// The topic's partitions are not known yet.
    UnknownTopic,
    /// The topic has no such partition, as far as is known.
    UnknownPartition(Error),
    /// The buffer is full until batches are delivered.
    Full,
    /// The record can never be sent.
    Failed(Error),
}

/// Where an appended record stands.
#[derive(Debug)]
pub struct Appended<'a, T> {
    /// The value that the batch was opened with.
    pub batch: &'a T,
    /// The record's index in the batch.
    pub index: u32,
    /// How many records follow it there that were appended with it, itself included.
    pub count: u32,
}

/// Where a record went.
#[derive(Debug)]
pub(crate) struct Placed {
    queue: usize,
    /// Neither the record nor its key names the partition.
    is_free: bool,
    /// The number of the batch, if it was opened for this record.
    opened: Option<u64>,
    /// A batch was opened or closed, and only a pass over everything gets it sent.
    pub(crate) settle_at: Option<Instant>,
}

/// Refuses a name that no topic can have because of its length.
///
/// # Errors
/// `Kind::Argument`, with the rule.
pub fn check_topic(name: &str) -> Result<(), Error> {
    match name.chars().count() {
        1..=LONGEST_NAME => Ok(()),
        length => {
            let text = format!(
                "a topic's name has 1 to {LONGEST_NAME} characters, and this one has {length}"
            );
            Err(Error::new(Kind::Argument, text)
                .with_topic(&name.into())
                .with_written(Written::No))
        }
    }
}

impl<T: Clone> Accumulator<T> {
    /// Encodes a record into the open batch of its partition. `time_ms` is its time if it has none; `make` gives what a new batch is
    /// opened with; `clock` is read only if a batch is opened or closed, or another partition gets its turn.
    ///
    /// # Errors
    /// See [`NotAppended`]; no record was added.
    pub(crate) fn append<'a, H>(
        &mut self,
        cluster: &mut Cluster,
        clock: impl Fn() -> Instant,
        topic: &str,
        record: &Row<'_, H>,
        time_ms: i64,
        make: impl FnOnce(&Arc<str>, i32) -> T,
    ) -> Result<Placed, NotAppended>
    where
        H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    {
        let Some(topic) = self.topics.get_mut(topic) else {
            return Err(NotAppended::UnknownTopic);
        };
        let chosen = topic
            .partitions
            .choose(&self.queues, &self.config, record.partition, record.key)
            .map_err(|error| match record.partition {
                // A topic gets no partitions below 0, but may have got others.
                Some(0..) => NotAppended::UnknownPartition(error),
                _ => NotAppended::Failed(error),
            })?;
        let size =
            BatchBuilder::record_size_bound(record.key, record.value, record.headers.clone());
        let alone = size + BatchHeader::SIZE;
        if alone > size_limit(&self.config) {
            let error = too_large(&self.config, alone);
            return Err(NotAppended::Failed(match self.queues.get(chosen.index) {
                Some(queue) => queue.name(error),
                None => error,
            }));
        }
        if self.outcomes.used() + alone > self.config.buffer_memory {
            return Err(NotAppended::Full);
        }

        if self.checks_headers && record.headers.clone().next().is_some() {
            let queue = self.queues.get(chosen.index);
            queue
                .map_or(Ok(()), |queue| check_headers(cluster, queue))
                .map_err(NotAppended::Failed)?;
        }

        let (view, random) = cluster.view_and_random();
        let mut scene = Scene {
            config: &self.config,
            view,
            stalls: &self.stalls,
            random,
        };
        let Place { index, closed } =
            topic
                .partitions
                .place(&mut self.queues, chosen, size, &mut scene, &clock);
        let Some(queue) = self.queues.get_mut(index) else {
            return Err(NotAppended::UnknownTopic);
        };
        let now = (queue.open.is_none() || closed.is_some()).then(&clock);
        let mut opened = None;
        if let (None, Some(now)) = (&queue.open, now) {
            self.next_number += 1;
            opened = Some(self.next_number);
            let user = make(&queue.topic, queue.partition);
            let open = Open::new(now, self.next_number, &self.config, user);
            self.outcomes.opened(self.next_number);
            self.outcomes.take(open.bytes);
            queue.open = Some(open);
            topic.used_at = now;
        }
        let Some(open) = &mut queue.open else {
            return Err(NotAppended::Full);
        };
        open.builder
            .append(
                record.timestamp_ms.unwrap_or(time_ms),
                record.key,
                record.value,
                record.headers.clone(),
            )
            .map_err(|cause| NotAppended::Failed(Error::new(Kind::Argument, cause.to_string())))?;
        open.bytes += size;
        open.count += 1;
        open.largest = open.largest.max(size);
        self.outcomes.take(size);
        let settle_at = now.filter(|now| {
            let closed_waits = closed.is_some_and(|closed| self.stir(*now, cluster, closed));
            self.stir(*now, cluster, index) || closed_waits
        });
        Ok(Placed {
            queue: index,
            is_free: chosen.is_free,
            opened,
            settle_at,
        })
    }

    /// Appends the rows that follow a record into its batch, at most `most` of them, and returns
    /// how many. Stops at the first row that needs a decision of [`Accumulator::append`]: it goes
    /// elsewhere, is refused, or does not fit into the batch.
    pub(crate) fn append_following<'a, 'h, H>(
        &mut self,
        topic: &str,
        placed: &Placed,
        rows: &mut Rows<impl Fn(usize) -> Option<Row<'a, H>>>,
        time_ms: i64,
        most: u32,
    ) -> u32
    where
        H: Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone,
    {
        let queue = self.queues.get_mut(placed.queue);
        let (Some(topic), Some(queue)) = (self.topics.get_mut(topic), queue) else {
            return 0;
        };
        let mut room = self
            .config
            .buffer_memory
            .saturating_sub(self.outcomes.used() + BatchHeader::SIZE);
        if placed.is_free {
            room = room.min(topic.partitions.left_of_turn(queue, &self.config));
        }
        let largest = size_limit(&self.config).saturating_sub(BatchHeader::SIZE);
        let Some(open) = &mut queue.open else {
            return 0;
        };
        let (mut count, mut bytes) = (0, 0);
        while count < most {
            let Some(row) = rows.peek() else { break };
            let follows = match row.partition {
                Some(partition) => !placed.is_free && partition == queue.partition,
                None => placed.is_free && hash(&self.config, row.key).is_none(),
            };
            let size = BatchBuilder::record_size_bound(row.key, row.value, row.headers.clone());
            let fits = size <= largest
                && bytes + size <= room
                && open.builder.size() + size <= queue.batch_limit;
            if !follows || !fits || self.checks_headers && row.headers.clone().next().is_some() {
                break;
            }
            let time_ms = row.timestamp_ms.unwrap_or(time_ms);
            let appended = open
                .builder
                .append(time_ms, row.key, row.value, row.headers);
            if appended.is_err() {
                break;
            }
            rows.pass();
            count += 1;
            bytes += size;
            open.largest = open.largest.max(size);
        }
        open.count += count;
        open.bytes += bytes;
        self.outcomes.take(bytes);
        if placed.is_free {
            topic.partitions.took(bytes);
        }
        count
    }

    /// The last `count` records of the batch that [`Accumulator::append`] put a record into.
    pub(crate) fn appended(&self, placed: &Placed, count: u32) -> Option<Appended<'_, T>> {
        let open = self.queues.get(placed.queue)?.open.as_ref()?;
        Some(Appended {
            batch: &open.user,
            index: open.count - count,
            count,
        })
    }

    /// The batch that the record opened was abandoned at once: its record was not added, and this
    /// is why.
    pub(crate) fn retract(&mut self, placed: &Placed) -> Option<Error> {
        let is_open = self.queues.get(placed.queue)?.open.is_some();
        let opened = placed.opened.filter(|_| !is_open)?;
        self.outcomes.retract(opened)
    }

    /// Whether the buffer has space for a record of `bytes` now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let used = self.outcomes.used();
        used == 0 || used + bytes + BatchHeader::SIZE <= self.config.buffer_memory
    }

    /// A batch was opened or closed: makes sure that it is sent. True if that takes a pass over everything.
    fn stir(&mut self, now: Instant, cluster: &mut Cluster, index: usize) -> bool {
        self.list(index);
        let Some(queue) = self.queues.get(index) else {
            return false;
        };
        let is_up = |leader: &i32| cluster.up_link(*leader, Lane::Control).is_some();
        match queue.leader.filter(is_up) {
            Some(leader) if self.is_identified() && self.admits(queue) => {
                // A broker that is to be left alone for longer gets nothing, and nothing else may happen until then.
                cluster.set_alarm(now + self.config.delivery_timeout);
                self.nudge(now, cluster, leader, index);
                false
            }
            _ => true,
        }
    }
}

/// The bytes that a record in a batch of its own may have.
#[inline]
fn size_limit(config: &Config) -> usize {
    config.max_request_size.min(config.buffer_memory)
}

/// The error for a record that needs `size` bytes, more than any record may have.
fn too_large(config: &Config, size: usize) -> Error {
    let limit = size_limit(config);
    let name = if limit == config.max_request_size {
        "max.request.size"
    } else {
        "buffer.memory"
    };
    let text = format!(
        "a record of {size} bytes is larger than {name} ({limit}): raise the limit, or send a smaller record"
    );
    Error::new(Kind::TooLarge, text).with_written(Written::No)
}

/// Refuses a record with headers whose broker is too old for them, as far as that is known.
fn check_headers<T>(cluster: &Cluster, queue: &Queue<T>) -> Result<(), Error> {
    let leader = queue
        .leader
        .and_then(|leader| cluster.up_link(leader, Lane::Control));
    match no_headers(cluster, leader) {
        Some(error) => Err(queue.name(error).with_written(Written::No)),
        None => Ok(()),
    }
}
