//! Parts of logs, wherever they are divided.

use bytes::{Bytes, BytesMut};
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{MessageSetBuilder, OldMagic};

use super::decoding::{batch, in_transaction, joined, marker, texts, values};
use crate::{AbortedSpan, LogDamage, LogPart, LogRange, Memory};

fn range(start: i64, end: i64) -> LogRange {
    LogRange {
        topic: "flights".into(),
        partition: 3,
        start,
        end,
        segment: (0, 100),
        aborted: Vec::new(),
        decompress_limit: 1 << 20,
    }
}

/// A compressed batch of one record.
fn compressed(offset: i64, value: &str) -> BytesMut {
    let record = (0, None, Some(value.as_bytes().to_vec()), Vec::new());
    batch(Compression::Gzip, offset, &[record], |_| ())
}

/// A compressed message set of magic 1.
fn wrapper(base_offset: i64, values: &[String]) -> BytesMut {
    let mut set =
        MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, base_offset).unwrap();
    for value in values {
        set.append(0, None, Some(value.as_bytes())).unwrap();
    }
    BytesMut::from(&set.finish().unwrap()[..])
}

/// The values of parts of this many bytes, one after the other, and where they end.
fn read(bytes: &Bytes, range: &LogRange, window: usize) -> (Vec<String>, usize, Option<LogDamage>) {
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    let (mut found, mut position, mut due) = (Vec::new(), 0, None);
    loop {
        let mut end = bytes.len().min(position + window);
        let part = loop {
            let part = LogPart::decode(&bytes.slice(position..end), range, due, &memory);
            if part.used > 0 || part.ended || part.damage.is_some() || end == bytes.len() {
                break part;
            }
            end += 1;
        };
        found.extend(part.columns.iter().flat_map(texts).map(ToOwned::to_owned));
        position += part.used;
        due = part.next_offset;
        if part.used == 0 || part.ended || part.damage.is_some() {
            return (found, position, part.damage);
        }
    }
}

#[test]
fn ranges_and_transactions_wherever_parts_end() {
    let log = joined(&[
        values(0, &["a", "b", "c"]),
        in_transaction(3, 1, "aborted"),
        in_transaction(4, 2, "committed"),
        marker(5, 1, 0),
        in_transaction(6, 1, "committed too"),
        marker(7, 2, 1),
        in_transaction(8, 2, "aborted too"),
        marker(9, 1, 1),
        marker(10, 2, 0),
        // What stood between was compacted.
        values(30, &["d", "e"]),
    ]);
    let span = |producer_id, first_offset, last_offset| AbortedSpan {
        producer_id,
        first_offset,
        last_offset,
    };
    let committed = LogRange {
        aborted: vec![span(1, 3, 5), span(2, 8, 10)],
        ..range(0, 100)
    };
    for window in [1, 100, 150, 10_000] {
        let (found, end, damage) = read(&log, &committed, window);
        assert_eq!(
            found,
            ["a", "b", "c", "committed", "committed too", "d", "e"]
        );
        assert_eq!((end, damage), (log.len(), None));
        let (found, _, _) = read(&log, &range(1, 5), window);
        assert_eq!(found, ["b", "c", "aborted", "committed"]);
        let (found, _, _) = read(&log, &range(9, 31), window);
        assert_eq!(found, ["d"]);
    }
}

#[test]
fn damage_comes_after_what_stands_before_it() {
    let good = values(0, &["a"]);
    let mut flipped = values(1, &["b"]);
    *flipped.last_mut().unwrap() ^= 1;
    let log = joined(&[good.clone(), flipped, values(2, &["c"])]);
    for window in [1, 10_000] {
        let (found, position, damage) = read(&log, &range(0, 100), window);
        assert_eq!((found, position), (vec!["a".to_owned()], good.len()));
        let damage = damage.unwrap();
        assert_eq!(damage.offset, Some(1));
        assert!(damage.cause.contains("CRC"), "{}", damage.cause);
        assert!(!damage.cause.contains("seek"), "{}", damage.cause);
    }
    let far = joined(&[values(0, &["a"]), values(200, &["b"])]);
    let (found, _, damage) = read(&far, &range(0, 50), 10_000);
    assert_eq!(found, ["a"]);
    assert!(damage.unwrap().cause.contains("does not belong"));
    let back = joined(&[values(5, &["a"]), values(5, &["b"])]);
    let (found, _, damage) = read(&back, &range(0, 100), 1);
    assert_eq!(found, ["a"]);
    assert!(damage.unwrap().cause.contains("out of order"));
}

#[test]
fn a_part_ends_where_its_entries_fill_the_limit() {
    let value = "v".repeat(1_000);
    let batches: Vec<_> = (0..50).map(|offset| compressed(offset, &value)).collect();
    let log = joined(&batches);
    let range = LogRange {
        decompress_limit: 5_000,
        ..range(0, 100)
    };
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    let part = LogPart::decode(&log, &range, None, &memory);
    let held: usize = part.columns.iter().map(|columns| columns.bytes()).sum();
    assert!((4_000..8_000).contains(&held), "{held}");
    assert_eq!(part.next_offset, Some(part.columns.len() as i64));
    assert_eq!(part.used, joined(&batches[..part.columns.len()]).len());
    let (found, end, damage) = read(&log, &range, 10_000);
    assert_eq!((found.len(), end, damage), (50, log.len(), None));
    // What is behind it is reported when its turn comes.
    let torn = joined(&[BytesMut::from(&log[..]), BytesMut::from(&[0xff; 61][..])]);
    let part = LogPart::decode(&torn, &range, None, &memory);
    assert_eq!((part.ended, part.damage), (false, None));
    let (found, end, damage) = read(&torn, &range, 10_000);
    assert_eq!((found.len(), end), (50, log.len()));
    assert!(damage.is_some());
}

#[test]
fn a_wrapper_does_not_go_back() {
    let values: Vec<_> = (0..10).map(|value| value.to_string()).collect();
    let good = wrapper(10, &values);
    let mut back = wrapper(20, &values);
    // Its records would have offsets that begin at 16.
    back[..8].copy_from_slice(&25_i64.to_be_bytes());
    let log = joined(&[good.clone(), back.clone()]);
    for window in [1, 10_000] {
        let (found, position, damage) = read(&log, &range(0, 100), window);
        assert_eq!((found.len(), position), (10, good.len()));
        let cause = damage.unwrap().cause;
        assert!(cause.contains("offset 16 is out of order"), "{cause}");
    }
    // Nor before the segment.
    let later = LogRange {
        segment: (20, 100),
        ..range(0, 100)
    };
    let (found, _, damage) = read(&joined(&[back]), &later, 10_000);
    assert_eq!(found.len(), 0);
    assert!(damage.is_some());
}

#[test]
fn an_entry_has_the_whole_limit_and_not_a_part_of_it() {
    let log = joined(&[values(0, &["a"]), values(1, &["b"])]);
    let range = LogRange {
        decompress_limit: 0,
        ..range(0, 100)
    };
    // What is not compressed takes nothing of it.
    assert_eq!(read(&log, &range, 10_000).0, ["a", "b"]);
}
