//! The orders of Java that show in an assignment: of strings, and of what its hash tables iterate over.
//!
//! Kafka's assignors walk `HashMap`s, so the order decides who is served first among equals. Tables that an adversary fills, with nine
//! keys or more in one bucket, are in another order there; then the assignment may differ, and is as good.

use std::cmp::{Ordering, Reverse};

/// The number of buckets of an empty table.
const BUCKETS: usize = 16;

/// As `String.compareTo`: by UTF-16 units, so that U+FFFD comes after U+1F600.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

/// The order in which a `HashMap` or `HashSet` iterates over these different keys, as places in `keys`, after they were put into
/// it one by one.
pub(super) fn iteration_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let hashes: Vec<u32> = keys.into_iter().map(spread_of).collect();
    let buckets = buckets_for(hashes.len(), BUCKETS);
    // Within a bucket, keys stand in the order in which they came; a larger table does not change that.
    ordered(&hashes, |hash, place| (bucket(hash, buckets), place))
}

/// The same for keys that `computeIfAbsent` put into it: each comes before those of its bucket, and the table grows one key later.
pub(super) fn computed_order<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let hashes: Vec<u32> = keys.into_iter().map(spread_of).collect();
    let buckets = buckets_for(hashes.len().saturating_sub(1), BUCKETS);
    ordered(&hashes, |hash, place| {
        (bucket(hash, buckets), Reverse(place))
    })
}

fn ordered<K: Ord>(hashes: &[u32], key: impl Fn(u32, usize) -> K) -> Vec<usize> {
    let mut order: Vec<(K, usize)> = hashes
        .iter()
        .enumerate()
        .map(|(place, hash)| (key(*hash, place), place))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, place)| place).collect()
}

/// A `HashSet` of partitions of one topic.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    /// The partitions and their hashes, in the order in which they came.
    held: Vec<(usize, u32)>,
    /// It never shrinks.
    buckets: usize,
}

impl Default for Partitions {
    fn default() -> Self {
        Partitions {
            held: Vec::new(),
            buckets: BUCKETS,
        }
    }
}

impl Partitions {
    /// Adds a partition, which it does not hold yet, under its [`partition_hash`].
    pub(super) fn insert(&mut self, partition: usize, hash: u32) {
        self.held.push((partition, spread(hash)));
        self.buckets = buckets_for(self.held.len(), self.buckets);
    }

    pub(super) fn remove(&mut self, partition: usize) {
        self.held.retain(|(held, _)| *held != partition);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The one that its iterator gives first.
    pub(super) fn first(&self) -> Option<usize> {
        let first = self
            .held
            .iter()
            .min_by_key(|(_, hash)| bucket(*hash, self.buckets));
        first.map(|(partition, _)| *partition)
    }
}

/// The `hashCode` of a partition, by that of its topic's name.
pub(super) fn partition_hash(topic: u32, number: u32) -> u32 {
    31_u32
        .wrapping_add(number)
        .wrapping_mul(31)
        .wrapping_add(topic)
}

/// `String.hashCode`.
pub(super) fn string_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0_u32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(unit))
    })
}

fn spread_of(text: &str) -> u32 {
    spread(string_hash(text))
}

/// The hash as a Java table uses it: only the lower bits choose the bucket, so the upper ones are
/// mixed in.
fn spread(hash: u32) -> u32 {
    hash ^ (hash >> 16)
}

fn bucket(spread: u32, buckets: usize) -> usize {
    // The number of buckets is a power of two, and fits: more keys than that do not fit into
    // memory.
    (spread as usize) & (buckets - 1)
}

/// The number of buckets of a table that had `buckets` and now has `keys` keys: at most three
/// quarters of the buckets are used.
fn buckets_for(keys: usize, mut buckets: usize) -> usize {
    while keys > buckets / 4 * 3 {
        buckets *= 2;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java 17 prints for them.
    #[test]
    fn hashes_and_orders_are_those_of_java() {
        assert_eq!(string_hash("consumer-1"), 4_128_728_090);
        assert_eq!(string_hash("\u{1F600}\u{e9}"), 54_960_102);
        assert_eq!(compare("\u{FFFD}", "\u{1F600}"), Ordering::Greater);
        let order = |keys: &[&str]| -> Vec<String> {
            let order = iteration_order(keys.iter().copied());
            order
                .into_iter()
                .map(|place| keys[place].to_owned())
                .collect()
        };
        assert_eq!(
            order(&["topic-a", "topic-b", "orders", "payments", "a.b", "x"]),
            ["a.b", "payments", "x", "orders", "topic-a", "topic-b"]
        );
        // More than a table of 16 buckets takes.
        let many: Vec<String> = (0..14).map(|i| format!("m{}", i * 37)).collect();
        assert_eq!(
            order(&many.iter().map(String::as_str).collect::<Vec<_>>()),
            [
                "m0", "m74", "m370", "m37", "m296", "m481", "m185", "m333", "m444", "m111", "m222",
                "m148", "m259", "m407"
            ]
        );
    }
}
