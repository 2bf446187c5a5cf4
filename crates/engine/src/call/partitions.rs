//! Calls about partitions, each sent to its leader: rows by topic in the request, rows by partition
//! in the response.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::interface::left_out;
use super::target::Target;
use crate::error::Error;

/// Where the request about a partition goes; `None` stands for an item that the call does not have.
pub(crate) fn target(partition: Option<(&Arc<str>, i32)>) -> Target {
    match partition {
        Some((topic, partition)) => Target::Leader(Arc::clone(topic), partition),
        None => Target::Any,
    }
}

/// The rows of each topic, topics in the order of their first row.
pub(crate) fn by_topic<'a, R>(
    rows: impl Iterator<Item = (&'a Arc<str>, R)>,
) -> Vec<(&'a Arc<str>, Vec<R>)> {
    let mut topics: Vec<(&Arc<str>, Vec<R>)> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for (topic, row) in rows {
        let place = *places.entry(topic).or_insert_with(|| {
            topics.push((topic, Vec::new()));
            topics.len() - 1
        });
        if let Some((_, rows)) = topics.get_mut(place) {
            rows.push(row);
        }
    }
    topics
}

/// The row of each partition in a response; if it has two rows for one partition, the first.
pub(crate) fn results<'a, R, T>(
    wanted: impl Iterator<Item = (&'a Arc<str>, i32)>,
    answered: impl Iterator<Item = ((&'a str, i32), R)>,
    read: impl Fn(&R) -> Result<T, Error>,
) -> Vec<Result<T, Error>> {
    let mut rows = FxHashMap::default();
    for (partition, row) in answered {
        rows.entry(partition).or_insert(row);
    }
    let result = |(topic, partition): (&'a Arc<str>, i32)| {
        let found = match rows.get(&(&**topic, partition)) {
            Some(row) => read(row),
            None => Err(left_out("a partition")),
        };
        found.map_err(|error| error.with_partition(topic, partition))
    };
    wanted.map(result).collect()
}

/// The partitions that rows by topic name, sorted.
pub(crate) fn pairs<'a, N: Iterator<Item = i32>>(
    topics: impl Iterator<Item = (&'a str, N)>,
) -> Vec<(Arc<str>, i32)> {
    let mut pairs = Vec::new();
    for (topic, numbers) in topics {
        let topic: Arc<str> = Arc::from(topic);
        pairs.extend(numbers.map(|number| (Arc::clone(&topic), number)));
    }
    pairs.sort();
    pairs
}
