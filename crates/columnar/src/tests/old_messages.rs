//! Message sets of brokers before 0.11, and logs of several ages.

use bytes::Bytes;
use ottla_protocol::compression::{Compression, CompressionError};
use ottla_protocol::records::{
    BatchBuilder, Malformed, MessageSetBuilder, OldMagic, ProducerState, RecordsError,
    assign_offsets,
};

use super::decode;
use crate::{ColumnarError, Columns, FetchedPartition};

const TIME: i64 = 1_700_000_000_000;

fn source() -> FetchedPartition {
    FetchedPartition {
        topic: "flights".into(),
        partition: 3,
        fetch_offset: 0,
        aborted: Vec::new(),
        read_committed: true,
        check_crcs: true,
        decompress_limit: 1 << 20,
    }
}

fn set(magic: OldMagic, codec: Compression, offsets: &[i64]) -> Bytes {
    let mut builder = MessageSetBuilder::new(magic, codec, None, offsets[0]).unwrap();
    for offset in offsets {
        let value = format!("value {offset}");
        let key = (offset % 2 == 0).then_some(&b"key"[..]);
        builder
            .append_at(*offset, TIME + offset, key, Some(value.as_bytes()))
            .unwrap();
    }
    builder.finish().unwrap()
}

fn stamped(codec: Compression, offsets: &[i64], time: i64) -> Bytes {
    let mut builder = MessageSetBuilder::new(OldMagic::One, codec, None, offsets[0]).unwrap();
    builder.set_append_time(time);
    for offset in offsets {
        builder.append_at(*offset, TIME, None, None).unwrap();
    }
    builder.finish().unwrap()
}

fn batch(offset: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::Lz4, None);
    builder
        .append(TIME, None, Some(b"new"), [("h", None)].into_iter())
        .unwrap();
    let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, offset, 7).unwrap();
    bytes.into()
}

/// Offset, timestamp, its type, leader epoch.
fn rows(columns: &Columns) -> Vec<(i64, i64, i32, i32)> {
    (0..columns.len())
        .map(|row| {
            (
                columns.offset(row),
                columns.timestamp_ms(row),
                columns.timestamp_type(row),
                columns.leader_epoch(row),
            )
        })
        .collect()
}

#[test]
fn a_log_of_all_ages_is_read_in_one_go() {
    let log = Bytes::from(
        [
            set(OldMagic::Zero, Compression::None, &[0, 1]),
            set(OldMagic::Zero, Compression::Lz4, &[2, 4]),
            set(OldMagic::One, Compression::None, &[5]),
            set(OldMagic::One, Compression::Snappy, &[6, 9]),
            stamped(Compression::Gzip, &[10, 11], 99),
            stamped(Compression::None, &[12], 98),
            batch(13),
            set(OldMagic::Zero, Compression::Gzip, &[14]),
        ]
        .concat(),
    );
    let expected = vec![
        (0, -1, -1, -1),
        (1, -1, -1, -1),
        (2, -1, -1, -1),
        (4, -1, -1, -1),
        (5, TIME + 5, 0, -1),
        (6, TIME + 6, 0, -1),
        (9, TIME + 9, 0, -1),
        (10, 99, 1, -1),
        (11, 99, 1, -1),
        (12, 98, 1, -1),
        (13, TIME, 0, 7),
        (14, -1, -1, -1),
    ];
    for fetch_offset in 0..16 {
        let source = FetchedPartition {
            fetch_offset,
            ..source()
        };
        let columns = decode(log.clone(), &source).unwrap();
        let wanted: Vec<_> = expected
            .iter()
            .copied()
            .filter(|row| row.0 >= fetch_offset)
            .collect();
        assert_eq!(rows(&columns), wanted, "from {fetch_offset}");
        assert_eq!(columns.next_offset(), fetch_offset.max(15));
        assert_eq!(columns.record_batch().unwrap().num_rows(), wanted.len());
    }
    let columns = decode(log, &source()).unwrap();
    assert_eq!(
        (columns.key(5), columns.value(5)),
        (Some(&b"key"[..]), Some(&b"value 6"[..]))
    );
    assert_eq!((columns.key(6), columns.headers(6).len()), (None, 0));
    assert_eq!(columns.headers(10).len(), 1);
}

#[test]
fn a_last_message_that_is_cut_is_left_out() {
    let (first, last) = (
        set(OldMagic::Zero, Compression::None, &[0]),
        set(OldMagic::One, Compression::Gzip, &[1, 2]),
    );
    for left in 0..last.len() {
        let bytes = Bytes::from([&first[..], &last[..left]].concat());
        let columns = decode(bytes, &source()).unwrap();
        assert_eq!((columns.len(), columns.next_offset()), (1, 1));
    }
    let alone = decode(last.slice(..last.len() - 1), &source()).unwrap_err();
    assert!(matches!(
        alone,
        ColumnarError::Records {
            source: RecordsError::Cut { .. },
            ..
        }
    ));
}

fn refused(bytes: Bytes, source: &FetchedPartition) -> (Option<i64>, RecordsError) {
    match decode(bytes, source).unwrap_err() {
        ColumnarError::Records {
            next_offset,
            source,
            ..
        } => (next_offset, source),
        other => panic!("{other}"),
    }
}

#[test]
fn damage_names_the_offset_to_go_on_at() {
    for codec in [Compression::None, Compression::Gzip] {
        let mut damaged = set(OldMagic::One, codec, &[3]).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let bytes = Bytes::from([&set(OldMagic::Zero, codec, &[0])[..], &damaged].concat());
        let (next, cause) = refused(bytes.clone(), &source());
        assert!(matches!(cause, RecordsError::Crc { base_offset: 3, .. }));
        assert_eq!(next, Some(4));
        let unchecked = FetchedPartition {
            check_crcs: false,
            ..source()
        };
        assert_eq!(
            decode(bytes, &unchecked).is_ok(),
            codec == Compression::None
        );
    }
}

#[test]
fn the_limit_is_that_of_all_wrappers_together() {
    let part = set(OldMagic::One, Compression::Gzip, &[0]);
    let next = set(OldMagic::One, Compression::Gzip, &[1]);
    // Offset, size, checksum, magic, attributes, time, two lengths.
    let inside = 12 + 22 + b"key".len() + b"value 0".len();
    let bytes = Bytes::from([part, next].concat());
    let limited = |decompress_limit| FetchedPartition {
        decompress_limit,
        ..source()
    };
    // The second has no key.
    assert_eq!(
        decode(bytes.clone(), &limited(2 * inside - 3))
            .unwrap()
            .len(),
        2
    );
    let limit = 2 * inside - 4;
    let too_large = CompressionError::TooLarge {
        codec: Compression::Gzip,
        limit,
    };
    assert_eq!(
        refused(bytes, &limited(limit)),
        (
            Some(2),
            RecordsError::Compression {
                base_offset: 1,
                source: too_large
            }
        )
    );
}

#[test]
fn offsets_that_go_back_are_refused() {
    let log = |parts: &[Bytes]| Bytes::from(parts.concat());
    let zero = |codec, offsets: &[i64]| set(OldMagic::Zero, codec, offsets);
    let error = decode(log(&[zero(Compression::None, &[5]), batch(5)]), &source()).unwrap_err();
    assert!(matches!(
        error,
        ColumnarError::OutOfOrder {
            base_offset: 5,
            expected: 6,
            ..
        }
    ));
    let error = decode(log(&[batch(5), zero(Compression::None, &[5])]), &source()).unwrap_err();
    assert!(matches!(
        error,
        ColumnarError::OutOfOrder { expected: 6, .. }
    ));

    // The last one is in order, what is inside is not.
    let inside = RecordsError::Record {
        base_offset: 6,
        index: 0,
        what: Malformed::Offset,
    };
    let bytes = log(&[batch(5), zero(Compression::Gzip, &[5, 6])]);
    assert_eq!(refused(bytes, &source()), (Some(7), inside));
    // A wrapper that a producer left at offset 0: no broker's log holds such.
    let mut bytes = set(OldMagic::One, Compression::Gzip, &[4, 5]).to_vec();
    bytes[..8].fill(0);
    let beyond = RecordsError::Record {
        base_offset: 0,
        index: 1,
        what: Malformed::Offset,
    };
    assert_eq!(refused(bytes.into(), &source()), (Some(1), beyond));
}
