//! The user data of the sticky assignors in a subscription: written and read.
//!
//! `sticky` (KIP-54, KIP-341): an array of topic (string) and partitions (array of int32), then the generation (int32), which
//! clients before 2.3 leave out. `cooperative-sticky`: the generation (int32), for readers of subscriptions before version 2.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use ottla_protocol::Reader;

use super::consumer_protocol::by_topic;
use super::java;

/// The partitions that a member had, by its user data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Previous {
    pub(super) partitions: Vec<(Arc<str>, i32)>,
    /// `None` where the user data contains no generation at all.
    pub(super) generation: Option<i32>,
}

impl Previous {
    /// The value for a member whose user data is missing or does not decode.
    fn unreadable() -> Previous {
        Previous {
            partitions: Vec::new(),
            generation: Some(-1),
        }
    }
}

/// The user data of `sticky`; a topic whose name is longer than any topic's can be is left out.
pub(super) fn write_sticky(partitions: &[(Arc<str>, i32)], generation: i32) -> Bytes {
    let mut rows = by_topic(partitions);
    rows.retain(|(topic, _)| i16::try_from(topic.len()).is_ok());
    let mut out = BytesMut::new();
    put_count(&mut out, rows.len());
    for row in java::computed_order(rows.iter().map(|(topic, _)| *topic)) {
        let Some((topic, numbers)) = rows.get(row) else {
            continue;
        };
        out.put_i16(i16::try_from(topic.len()).unwrap_or(0));
        out.put_slice(topic.as_bytes());
        put_count(&mut out, numbers.len());
        numbers.iter().for_each(|number| out.put_i32(*number));
    }
    out.put_i32(generation);
    out.freeze()
}

fn put_count(out: &mut BytesMut, count: usize) {
    // The partitions came in one response of a broker, whose counts are of this type.
    out.put_i32(i32::try_from(count).unwrap_or(0));
}

/// Reads the user data of `sticky`. As in Kafka, data that does not decode counts as none.
pub(super) fn read_sticky(data: Option<&Bytes>) -> Previous {
    match data {
        Some(data) if !data.is_empty() => {
            let mut input = Reader::new(data.clone());
            match read_rows(&mut input) {
                Some(partitions) => Previous {
                    partitions,
                    generation: input.i32().ok(),
                },
                None => Previous::unreadable(),
            }
        }
        _ => Previous::default(),
    }
}

/// The user data of `cooperative-sticky`.
pub(super) fn write_generation(generation: i32) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

/// The generation in the user data of `cooperative-sticky`; -1 where it does not decode.
pub(super) fn read_generation(data: Option<&Bytes>) -> Option<i32> {
    let data = data?;
    Some(Reader::new(data.clone()).i32().unwrap_or(-1))
}

/// Partitions with a negative number are left out. A count allocates nothing: the bytes end where it was a lie.
fn read_rows(input: &mut Reader) -> Option<Vec<(Arc<str>, i32)>> {
    let mut partitions = Vec::new();
    for _ in 0..count(input)? {
        let length = usize::try_from(input.i16().ok()?).ok()?;
        let name = input.raw(length).ok()?;
        let topic: Arc<str> = Arc::from(String::from_utf8_lossy(&name));
        for _ in 0..count(input)? {
            let number = input.i32().ok()?;
            if number >= 0 {
                partitions.push((Arc::clone(&topic), number));
            }
        }
    }
    Some(partitions)
}

fn count(input: &mut Reader) -> Option<usize> {
    usize::try_from(input.i32().ok()?).ok()
}
