//! Which partition a record goes to.

use std::sync::Arc;

use crate::config::Partitioner;
use crate::error::{Error, Kind, Written};
use crate::produce::queue::Queue;

/// The partitions of one topic, as indexes of queues.
#[derive(Debug)]
pub(super) struct Partitions {
    /// By partition number; never empty.
    pub(super) queues: Vec<usize>,
    /// The partition that takes unkeyed records at the moment.
    current: usize,
}

impl Partitions {
    /// `current` is the partition that takes the first unkeyed records.
    pub(super) fn new(queues: Vec<usize>, current: usize) -> Partitions {
        Partitions { queues, current }
    }

    /// The queue of a record.
    pub(super) fn choose<T>(
        &self,
        queues: &[Queue<T>],
        partition: Option<i32>,
        key: Option<&[u8]>,
    ) -> Result<usize, Error> {
        let count = self.queues.len();
        let position = match (partition, key) {
            (Some(partition), _) => {
                let position = usize::try_from(partition).unwrap_or(usize::MAX);
                if position >= count {
                    return Err(self.no_partition(queues, partition));
                }
                position
            }
            (None, Some(key)) => of_key(key, count),
            (None, None) => self.current % count.max(1),
        };
        self.queues
            .get(position)
            .copied()
            .ok_or_else(|| Error::new(Kind::Argument, "the topic has no partitions"))
    }

    fn no_partition<T>(&self, queues: &[Queue<T>], partition: i32) -> Error {
        let count = self.queues.len();
        let text =
            format!("there is no partition {partition}: the topic has {count}, numbered from 0");
        let error = Error::new(Kind::Argument, text).written_is(Written::No);
        let first = self.queues.first().and_then(|index| queues.get(*index));
        match first.map(|queue| Arc::clone(&queue.topic)) {
            Some(topic) => error.partition_is(&topic, partition),
            None => error,
        }
    }

    /// Makes room for a record of `size` bytes in the queue that was chosen for it: a full batch is closed, and an unkeyed
    /// record goes to the next partition then. Gives the queue to use, and the one whose batch was closed.
    pub(super) fn place<T>(
        &mut self,
        queues: &mut [Queue<T>],
        chosen: usize,
        size: usize,
        unkeyed: bool,
        partitioner: Partitioner,
    ) -> (usize, Option<usize>) {
        let mut index = chosen;
        let close = |index: usize, queues: &mut [Queue<T>]| {
            let queue = queues.get_mut(index);
            queue.is_some_and(|queue| queue.close_if_full(size))
        };
        let closed = close(index, queues).then_some(index);
        if closed.is_some() && unkeyed {
            index = self.advance(queues);
            close(index, queues);
        }
        if unkeyed && partitioner == Partitioner::RoundRobin {
            self.advance(queues);
        }
        (index, closed)
    }

    /// Lets unkeyed records go to the next partition if they go to this one.
    pub(super) fn leave<T>(&mut self, queues: &[Queue<T>], index: usize) {
        if self.queues.get(self.current) == Some(&index) {
            self.advance(queues);
        }
    }

    /// Lets unkeyed records go to the next partition that has a leader.
    fn advance<T>(&mut self, queues: &[Queue<T>]) -> usize {
        let count = self.queues.len().max(1);
        let has_leader = |position: &usize| {
            let queue = self
                .queues
                .get(*position)
                .and_then(|index| queues.get(*index));
            queue.is_some_and(|queue| queue.leader.is_some())
        };
        let next = (self.current + 1) % count;
        self.current = (0..count)
            .map(|step| (next + step) % count)
            .find(has_leader)
            .unwrap_or(next);
        self.queues.get(self.current).copied().unwrap_or(usize::MAX)
    }
}

/// The partition of a key: Java's murmur2, made positive, modulo the number of partitions.
fn of_key(key: &[u8], partitions: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    (positive as usize).checked_rem(partitions).unwrap_or(0)
}

/// 32-bit MurmurHash2 with the seed that Kafka's Java client uses.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref().filter_map(|word| word.first_chunk::<4>()) {
        let k = u32::from_le_bytes(*word).wrapping_mul(M);
        let k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that Java's `Utils.murmur2` gives.
    #[test]
    fn agrees_with_java() {
        for (key, hash) in [
            (&b"21"[..], -973_932_308_i32),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key) as i32, hash, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn stays_in_range() {
        assert_eq!(of_key(b"k", 0), 0);
        for partitions in 1..20 {
            assert!(of_key(b"foobar", partitions) < partitions);
        }
    }
}
