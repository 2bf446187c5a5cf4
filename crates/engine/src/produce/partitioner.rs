//! Which partition a record goes to: the one it names, else the one that its key chooses, else the one whose turn it is.
//!
//! Records without a key or a chosen partition go to one partition until it got `batch.size` bytes,
//! then to another (KIP-794): so batches are large, and a broker that responds late does not get
//! more records for it. The next partition has a leader. If possible, its leader accepts its
//! pending batches (`partitioner.availability.timeout.ms`) and is near (KIP-1123). Among those
//! partitions the turn goes round; but if more batches wait for some of them than for others, the
//! choice is random, and these get less.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::records::{BatchHeader, crc32};

use crate::config::{Config, Partitioner};
use crate::error::{Error, Kind, Written};
use crate::metadata::Metadata;
use crate::produce::hash::{fnv1a, murmur2};
use crate::produce::queue::Queue;
use crate::produce::stalls::Stalls;
use crate::random::Random;

/// The partitions of one topic, as indexes of queues.
#[derive(Debug)]
pub(super) struct Partitions {
    /// By partition number; never empty.
    pub(super) queues: Vec<usize>,
    /// The partition whose turn it is.
    current: usize,
    /// Whether any record had a turn to go to: the first turn is chosen by what is known when the first record comes.
    begun: bool,
    /// Bytes of records that went there since its turn began.
    taken: usize,
}

/// The queue of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) index: usize,
    /// Neither the record nor its key names the partition: any other is possible.
    pub(super) is_free: bool,
}

/// Where a record is put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: usize,
    /// The queue whose batch was closed for it.
    pub(super) closed: Option<usize>,
}

/// The facts that decide which partition is next.
pub(super) struct Scene<'a> {
    pub(super) config: &'a Config,
    pub(super) view: &'a Metadata,
    pub(super) stalls: &'a Stalls,
    pub(super) random: &'a mut Random,
}

/// How well a partition can take records: the greater, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fitness {
    has_leader: bool,
    takes: bool,
    is_near: bool,
}

impl Partitions {
    /// `current` is the partition whose turn is first, unless racks decide.
    pub(super) fn new(queues: Vec<usize>, current: usize) -> Partitions {
        Partitions {
            queues,
            current,
            begun: false,
            taken: 0,
        }
    }

    /// The queue of a record.
    pub(super) fn choose<T>(
        &self,
        queues: &[Queue<T>],
        config: &Config,
        partition: Option<i32>,
        key: Option<&[u8]>,
    ) -> Result<Chosen, Error> {
        let count = self.queues.len();
        let mut is_free = false;
        let position = match partition {
            Some(partition) => {
                if let Some(error) = self.lacks(queues, partition) {
                    return Err(error);
                }
                usize::try_from(partition).unwrap_or(usize::MAX)
            }
            None => match hash(config, key) {
                Some(hash) => (hash as usize).checked_rem(count).unwrap_or(0),
                None => {
                    is_free = true;
                    self.current % count.max(1)
                }
            },
        };
        let index = self.queues.get(position).copied();
        let index =
            index.ok_or_else(|| Error::new(Kind::Argument, "the topic has no partitions"))?;
        Ok(Chosen { index, is_free })
    }

    /// That there is no such partition, as far as is known; `None` if there is.
    pub(super) fn lacks<T>(&self, queues: &[Queue<T>], partition: i32) -> Option<Error> {
        let count = self.queues.len();
        if usize::try_from(partition).is_ok_and(|position| position < count) {
            return None;
        }
        let text =
            format!("there is no partition {partition}: the topic has {count}, numbered from 0");
        let error = Error::new(Kind::Argument, text).with_written(Written::No);
        let first = self.queues.first().and_then(|index| queues.get(*index));
        Some(match first.map(|queue| Arc::clone(&queue.topic)) {
            Some(topic) => error.with_partition(&topic, partition),
            None => error,
        })
    }

    /// Makes space for a record of `size` bytes: a full batch is closed, and a record that may go
    /// anywhere goes to the next partition when the turn of this one is over. `clock` is read only
    /// then.
    pub(super) fn place<T>(
        &mut self,
        queues: &mut [Queue<T>],
        chosen: Chosen,
        size: usize,
        scene: &mut Scene<'_>,
        clock: impl FnOnce() -> Instant,
    ) -> Place {
        let close = |index: usize, queues: &mut [Queue<T>]| {
            let queue = queues.get_mut(index);
            queue.is_some_and(|queue| queue.close_if_full(size))
        };
        let mut index = chosen.index;
        let closed = close(index, queues).then_some(index);
        if !chosen.is_free {
            return Place { index, closed };
        }
        if scene.config.partitioner == Partitioner::RoundRobin {
            self.advance_round(queues);
        } else if self.is_to_begin(scene.config) || self.is_over(queues, size, scene.config) {
            index = self.advance(queues, scene, clock());
            close(index, queues);
        }
        self.begun = true;
        self.took(size);
        Place { index, closed }
    }

    /// Whether the first turn is to be given to a partition that is near.
    fn is_to_begin(&self, config: &Config) -> bool {
        !self.begun && config.rack_aware
    }

    /// Whether the turn of the current partition is over before a record of `size` bytes. A batch that is still open is
    /// filled first, up to twice the bytes: records with keys may have come between.
    fn is_over<T>(&self, queues: &[Queue<T>], size: usize, config: &Config) -> bool {
        let Some(queue) = self.queue(queues, self.current) else {
            return true;
        };
        if queue.leader.is_none() {
            let mut others = self.queues.iter().filter_map(|index| queues.get(*index));
            return others.any(|queue| queue.leader.is_some());
        }
        let bytes = self.taken + size + BatchHeader::SIZE;
        self.taken > 0
            && (bytes > config.batch_size && queue.open.is_none()
                || bytes > config.batch_size.saturating_mul(2))
    }

    /// How many bytes more may go to `queue`, that of the current partition, before its turn is over if its batch stays open.
    pub(super) fn left_of_turn<T>(&self, queue: &Queue<T>, config: &Config) -> usize {
        if config.partitioner == Partitioner::RoundRobin || queue.leader.is_none() {
            return 0;
        }
        let most = config.batch_size.saturating_mul(2);
        most.saturating_sub(self.taken + BatchHeader::SIZE)
    }

    /// Records of this many bytes went to the current partition in its turn.
    pub(super) fn took(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Begins the turn of the next partition, and gives its queue.
    fn advance<T>(&mut self, queues: &[Queue<T>], scene: &mut Scene<'_>, now: Instant) -> usize {
        self.taken = 0;
        let fitness = |position: usize| {
            let leader = self.queue(queues, position).and_then(|queue| queue.leader);
            scene.fitness(leader, now)
        };
        let count = self.queues.len();
        let best = (0..count).map(fitness).max();
        let next = self.current + 1;
        let fit = (0..count)
            .map(|step| (next + step) % count.max(1))
            .filter(|position| Some(fitness(*position)) == best);
        // One batch that waits is as good as none: it may have been closed a moment ago.
        let excess = |position: usize| {
            let queue = self.queue(queues, position);
            queue.map_or(0, Queue::waiting).saturating_sub(1)
        };
        let fit: Vec<_> = fit.map(|position| (position, excess(position))).collect();
        let most = fit.iter().map(|(_, excess)| *excess).max().unwrap_or(0);
        let least = fit.iter().map(|(_, excess)| *excess).min().unwrap_or(0);
        let chosen = if scene.config.adaptive_partitioning && least < most {
            let weight = |excess: usize| most + 1 - excess;
            let mut left = scene
                .random
                .below(fit.iter().map(|(_, excess)| weight(*excess)).sum());
            fit.iter().find(|(_, excess)| {
                let mine = weight(*excess);
                let found = left < mine;
                left = left.saturating_sub(mine);
                found
            })
        } else {
            fit.first()
        };
        self.current = chosen.map_or(0, |(position, _)| *position);
        self.queues.get(self.current).copied().unwrap_or(usize::MAX)
    }

    /// Gives the turn to the next partition that has a leader.
    fn advance_round<T>(&mut self, queues: &[Queue<T>]) {
        let count = self.queues.len().max(1);
        let next = self.current + 1;
        let has_leader = |position: &usize| {
            let queue = self.queue(queues, *position);
            queue.is_some_and(|queue| queue.leader.is_some())
        };
        let mut positions = (0..count).map(|step| (next + step) % count);
        self.current = positions.find(has_leader).unwrap_or(next % count);
    }

    fn queue<'a, T>(&self, queues: &'a [Queue<T>], position: usize) -> Option<&'a Queue<T>> {
        queues.get(*self.queues.get(position)?)
    }
}

impl Scene<'_> {
    fn fitness(&self, leader: Option<i32>, now: Instant) -> Fitness {
        let Some(leader) = leader else {
            return Fitness {
                has_leader: false,
                takes: false,
                is_near: false,
            };
        };
        let adapts = self.config.adaptive_partitioning;
        let rack = || self.view.node(leader)?.rack.as_ref();
        Fitness {
            has_leader: true,
            takes: !adapts || !self.stalls.is_stalled(now, leader),
            is_near: self.config.rack_aware && rack() == self.config.client_rack.as_ref(),
        }
    }
}

/// The hash whose remainder is the partition of a record with this key; `None` where the key does not choose.
#[inline]
pub(super) fn hash(config: &Config, key: Option<&[u8]>) -> Option<u32> {
    match config.partitioner {
        Partitioner::Sticky | Partitioner::RoundRobin => {
            key.filter(|_| !config.ignores_keys).map(murmur2)
        }
        Partitioner::Consistent => Some(crc32(key.unwrap_or_default())),
        Partitioner::ConsistentRandom => key.filter(|key| !key.is_empty()).map(crc32),
        Partitioner::Murmur2 => Some(murmur2(key.unwrap_or_default())),
        Partitioner::Murmur2Random => key.map(murmur2),
        Partitioner::Fnv1a => Some(fnv1a(key.unwrap_or_default())),
        Partitioner::Fnv1aRandom => key.map(fnv1a),
    }
}
