mod aborted;
mod corpus;
mod messages;
mod outlines;
mod segments;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::compression::{Compression, CompressionError};

const LIMIT: usize = 1 << 20;
const TIME: i64 = 1_700_000_000_000;

type Owned = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(String, Option<Vec<u8>>)>,
);

fn append(builder: &mut BatchBuilder, (time, key, value, headers): &Owned) {
    let headers = headers
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_deref()));
    let bound = BatchBuilder::record_size_bound(key.as_deref(), value.as_deref(), headers.clone());
    let before = builder.size();
    builder
        .append(*time, key.as_deref(), value.as_deref(), headers)
        .unwrap();
    assert!(
        builder.size() - before <= bound,
        "{} bytes, bound {bound}",
        builder.size() - before
    );
}

fn read(batch: &Batch) -> Result<Vec<Owned>, RecordsError> {
    let payload = batch.payload(LIMIT)?;
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let records = batch.records(&payload)?.enumerate().map(|(index, record)| {
        let record = record?;
        assert_eq!(record.offset, batch.header.base_offset + index as i64);
        let headers = record
            .headers()
            .map(|(key, value)| (key.to_owned(), owned(value)))
            .collect();
        Ok((
            record.timestamp,
            owned(record.key),
            owned(record.value),
            headers,
        ))
    });
    records.collect()
}

/// A batch of two records: a=1 and b=null.
fn two(codec: Compression) -> BytesMut {
    let mut builder = BatchBuilder::new(codec, None);
    builder
        .append(
            TIME,
            Some(b"a"),
            Some(b"1"),
            [("h", Some(&b"x"[..])), ("h", None)].into_iter(),
        )
        .unwrap();
    builder
        .append(TIME - 5, Some(b"b"), None, std::iter::empty())
        .unwrap();
    builder.finish(ProducerState::NONE).unwrap().into()
}

/// The batch with other bytes in its record section, and a header that is right for them.
fn with_section(count: i32, section: &[u8]) -> Batch {
    let mut bytes = two(Compression::None);
    bytes.truncate(BatchHeader::SIZE);
    bytes.extend_from_slice(section);
    let mut header = BatchHeader::parse(&two(Compression::None)).unwrap();
    header.count = count;
    header.last_offset_delta = 9;
    header.seal(&mut bytes).unwrap();
    let batch = Batch::parse(bytes.freeze()).unwrap();
    batch.verify_crc().unwrap();
    batch
}

fn edited(edit: impl FnOnce(&mut BatchHeader)) -> Result<Batch, RecordsError> {
    let mut bytes = two(Compression::None);
    let mut header = BatchHeader::parse(&bytes).unwrap();
    edit(&mut header);
    header.seal(&mut bytes).unwrap();
    Batch::parse(bytes.freeze())
}

#[test]
fn an_uncompressed_batch_is_not_copied_when_it_is_finished() {
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder
        .append(TIME, None, Some(&[7; 100_000]), std::iter::empty())
        .unwrap();
    let place = builder.bytes_so_far().as_ptr();
    let bytes = builder.finish(ProducerState::NONE).unwrap();
    assert_eq!(bytes.as_ptr(), place);
}

#[test]
fn a_builder_is_used_again_and_again() {
    for codec in Compression::ALL {
        let mut builder = BatchBuilder::new(codec, None);
        assert_eq!(builder.finish(ProducerState::NONE), Ok(Bytes::new()));
        for round in 0..3 {
            assert!(builder.is_empty());
            assert_eq!(builder.size(), BatchHeader::SIZE);
            let records: Vec<Owned> = (0..5)
                .map(|i| {
                    (
                        TIME + round * 10 - i,
                        None,
                        Some(format!("{round}-{i}").into()),
                        Vec::new(),
                    )
                })
                .collect();
            records
                .iter()
                .for_each(|record| append(&mut builder, record));
            assert_eq!(
                (builder.len(), builder.max_timestamp()),
                (5, TIME + round * 10)
            );
            let state = ProducerState {
                producer_id: 7,
                epoch: 3,
                base_sequence: round as i32,
            };
            let batch = validate_batch(builder.finish(state).unwrap()).unwrap();
            assert_eq!(read(&batch).unwrap(), records, "{codec}");
            let header = &batch.header;
            assert_eq!(
                (
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence
                ),
                (7, 3, round as i32)
            );
            assert_eq!(
                (header.base_timestamp, header.max_timestamp),
                (TIME + round * 10, TIME + round * 10)
            );
            assert_eq!(header.compression(), Ok(codec));
        }
    }
}

#[test]
fn a_level_that_is_not_there_shows_at_the_end_and_keeps_the_records() {
    let mut builder = BatchBuilder::new(Compression::Lz4, Some(18));
    builder
        .append(TIME, None, Some(b"x"), std::iter::empty())
        .unwrap();
    let error = builder.finish(ProducerState::NONE).unwrap_err();
    assert!(
        error.to_string().contains("compression level 18 of lz4"),
        "{error}"
    );
    assert_eq!(builder.len(), 1);
}

#[test]
fn offsets_of_a_builder_ascend() {
    let mut builder = BatchBuilder::new(Compression::None, None);
    let mut at = |delta| builder.append_at(delta, TIME, None, None, std::iter::empty());
    assert_eq!(
        at(-1),
        Err(RecordsError::Order {
            delta: -1,
            last: -1
        })
    );
    assert_eq!(at(4), Ok(()));
    assert_eq!(at(4), Err(RecordsError::Order { delta: 4, last: 4 }));
    assert_eq!(at(i32::MAX), Ok(()));
    assert!(
        builder
            .append(TIME, None, None, std::iter::empty())
            .is_err(),
        "there is no offset after the last"
    );
    let batch = Batch::parse(builder.finish(ProducerState::NONE).unwrap()).unwrap();
    assert_eq!(batch.header.last_offset(), i64::from(i32::MAX));
    assert!(
        validate_batch(batch.bytes).is_err(),
        "a broker takes no gaps from a producer"
    );
}

#[test]
fn a_transactional_batch_says_so() {
    let mut builder = BatchBuilder::new(Compression::Zstd, None);
    builder.set_transactional(true);
    builder
        .append(TIME, None, None, std::iter::empty())
        .unwrap();
    let header = BatchHeader::parse(&builder.finish(ProducerState::NONE).unwrap()).unwrap();
    assert!(header.is_transactional() && !header.is_control());
    assert_eq!(header.compression(), Ok(Compression::Zstd));
}

#[test]
fn sequences_begin_again_at_zero() {
    let mut header = BatchHeader::parse(&two(Compression::None)).unwrap();
    assert_eq!(header.sequence(5), -1);
    header.base_sequence = i32::MAX - 1;
    assert_eq!(
        [0, 1, 2, 3].map(|delta| header.sequence(delta)),
        [i32::MAX - 1, i32::MAX, 0, 1]
    );
}

#[test]
fn a_broker_patches_in_place() {
    let mut bytes = two(Compression::Snappy);
    assign_offsets(&mut bytes, 1 << 40, 12).unwrap();
    let batch = validate_batch(bytes.clone().freeze()).unwrap();
    assert_eq!(
        (
            batch.header.base_offset,
            batch.header.partition_leader_epoch
        ),
        (1 << 40, 12)
    );
    assert_eq!(
        (batch.header.last_offset(), batch.header.next_offset()),
        ((1 << 40) + 1, (1 << 40) + 2)
    );

    set_producer_state(
        &mut bytes,
        ProducerState {
            producer_id: 9,
            epoch: 2,
            base_sequence: 40,
        },
    )
    .unwrap();
    let batch = validate_batch(bytes.clone().freeze()).unwrap();
    assert_eq!(
        (
            batch.header.producer_id,
            batch.header.producer_epoch,
            batch.header.base_sequence
        ),
        (9, 2, 40)
    );

    set_log_append_time(&mut bytes, 99).unwrap();
    let batch = validate_batch(bytes.freeze()).unwrap();
    assert_eq!(batch.header.timestamp_type(), TimestampType::LogAppend);
    assert_eq!(
        read(&batch)
            .unwrap()
            .iter()
            .map(|record| record.0)
            .collect::<Vec<_>>(),
        [99, 99]
    );
    assert_eq!(batch.header.base_offset, 1 << 40);

    assert_eq!(
        assign_offsets(&mut [0; 60], 0, 0),
        Err(RecordsError::Cut {
            needed: 61,
            left: 60
        })
    );
}

#[test]
fn a_walk_ends_at_a_batch_that_is_cut() {
    let whole = two(Compression::None).freeze();
    for cut in 0..whole.len() {
        let mut walk = batches([&whole[..], &whole[..cut]].concat().into());
        assert_eq!(walk.next().unwrap().unwrap().bytes, whole);
        assert!(walk.next().is_none());
        assert_eq!(walk.leftover(), cut);
        let expected = if cut < 12 {
            BatchHeader::SIZE
        } else {
            whole.len()
        };
        assert_eq!(
            walk.cut(),
            (cut > 0).then_some(RecordsError::Cut {
                needed: expected,
                left: cut
            })
        );
    }
}

#[test]
fn a_walk_ends_after_an_error() {
    let mut bytes = two(Compression::None);
    bytes[16] = 1;
    bytes.extend_from_slice(&two(Compression::None));
    let mut walk = batches(bytes.freeze());
    assert_eq!(
        walk.next().unwrap().unwrap_err(),
        RecordsError::Magic {
            base_offset: 0,
            magic: 1
        }
    );
    assert!(walk.next().is_none());
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let length_at = 8..12;
    for (length, error) in [
        (
            48,
            RecordsError::Length {
                base_offset: 0,
                length: 48,
            },
        ),
        (
            13,
            RecordsError::Length {
                base_offset: 0,
                length: 13,
            },
        ),
        (
            -1,
            RecordsError::Length {
                base_offset: 0,
                length: -1,
            },
        ),
        (
            i32::MIN,
            RecordsError::Length {
                base_offset: 0,
                length: i32::MIN,
            },
        ),
    ] {
        let mut bytes = two(Compression::None);
        bytes[length_at.clone()].copy_from_slice(&length.to_be_bytes());
        assert_eq!(batches(bytes.freeze()).next().unwrap().unwrap_err(), error);
    }
    let mut bytes = two(Compression::None);
    bytes[16] = 3;
    let error = batches(bytes.freeze()).next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record batch at offset 0 has an unknown magic, 3"
    );
    let whole = two(Compression::None).freeze();
    let size = whole.len();
    assert_eq!(
        Batch::parse(whole.slice(..size - 1)).unwrap_err(),
        RecordsError::Cut {
            needed: size,
            left: size - 1
        }
    );
    let two_batches = Bytes::from([&whole[..], &whole].concat());
    assert_eq!(
        Batch::parse(two_batches).unwrap_err(),
        RecordsError::Extra {
            base_offset: 0,
            extra: size
        }
    );

    let base_offset = 0;
    assert_eq!(
        edited(|header| header.last_offset_delta = -1).unwrap_err(),
        RecordsError::LastOffset {
            base_offset,
            delta: -1,
            count: 2
        }
    );
    assert_eq!(
        edited(|header| header.last_offset_delta = 0).unwrap_err(),
        RecordsError::LastOffset {
            base_offset,
            delta: 0,
            count: 2
        }
    );
    let unknown = edited(|header| header.attributes = 5).unwrap();
    assert_eq!(
        unknown.payload(LIMIT),
        Err(RecordsError::Codec {
            base_offset,
            codec: 5
        })
    );
    for (delta, count) in [(4, 2), (1, 1), (1, 0), (1, -1)] {
        let batch =
            edited(|header| (header.last_offset_delta, header.count) = (delta, count)).unwrap();
        assert_eq!(
            validate_batch(batch.bytes).unwrap_err(),
            RecordsError::LastOffset {
                base_offset,
                delta,
                count
            }
        );
    }
    let mut bytes = two(Compression::None);
    *bytes.last_mut().unwrap() ^= 1;
    assert!(matches!(
        validate_batch(bytes.freeze()),
        Err(RecordsError::Crc { .. })
    ));
}

#[test]
fn counts_that_the_bytes_do_not_hold_are_refused() {
    for (count, bytes) in [(-1, 7), (1, 0), (1, 6), (2, 13), (i32::MAX, 100)] {
        let mut header = BatchHeader::parse(&two(Compression::None)).unwrap();
        header.count = count;
        let batch = Batch {
            header,
            bytes: Bytes::new(),
        };
        let error = batch.records(&vec![0; bytes]).unwrap_err();
        assert_eq!(
            error,
            RecordsError::Count {
                base_offset: 0,
                count,
                bytes
            }
        );
    }
    // What compaction left of a batch.
    let empty = with_section(0, &[]);
    assert_eq!(read(&empty), Ok(Vec::new()));
    assert_eq!(empty.header.next_offset(), 10);
}

#[test]
fn a_header_key_that_is_not_text_hides_no_other_record() {
    // size, attributes, timestamp, offset, key, value, headers; of the last two the first has a header of one byte.
    let section = [
        &[12, 0, 0, 0, 1, 1, 0][..],
        &[18, 0, 0, 8, 1, 1, 2, 2, 0xff, 1],
        &[12, 0, 0, 10, 1, 1, 0],
    ]
    .concat();
    let batch = with_section(3, &section);
    let mut records = batch.records(&section).unwrap();
    assert_eq!(records.next().unwrap().unwrap().offset, 0);
    assert_eq!(
        records.next().unwrap().unwrap_err(),
        RecordsError::HeaderKey { offset: 4 }
    );
    assert_eq!(records.next().unwrap().unwrap().offset, 5);
    assert!(records.next().is_none());
}

#[test]
fn malformed_records_are_refused() {
    use Malformed::{Cut, HeaderCount, NegativeLength, Offset, Size, Varint};
    // size, attributes, timestamp, offset, key, value, headers; lengths are zigzag: 1 is -1, 2 is 1.
    let good = [12, 0, 0, 0, 1, 1, 0];
    assert_eq!(
        read(&with_section(1, &good)),
        Ok(vec![(TIME, None, None, Vec::new())])
    );
    let cases: [(&[u8], Malformed); 17] = [
        (&[14, 0, 0, 0, 1, 1, 0], Cut),
        (&[11, 0, 0, 0, 1, 1, 0], NegativeLength),
        (&[10, 0, 0, 0, 1, 1, 0], Cut),
        (&[14, 0, 0, 0, 1, 1, 0, 0], Size),
        (&[0, 0, 0, 0, 0, 0, 0], Cut),
        (&[12, 0, 0, 0, 3, 1, 0], NegativeLength),
        (&[12, 0, 0, 0, 1, 3, 0], NegativeLength),
        (&[12, 0, 0, 0, 4, 1, 0], Cut),
        (&[12, 0, 0, 0, 1, 8, 0], Cut),
        (&[12, 0, 0, 1, 1, 1, 0], Offset),
        (&[12, 0, 0, 20, 1, 1, 0], Offset),
        (&[12, 0, 0, 0, 1, 1, 1], HeaderCount),
        (&[12, 0, 0, 0, 1, 1, 2], HeaderCount),
        (&[16, 0, 0, 0, 1, 1, 2, 1, 1], NegativeLength),
        (&[18, 0, 0, 0, 1, 1, 2, 0, 1, 0], Size),
        (&[16, 0, 0, 0, 1, 1, 2, 0, 2], Cut),
        (
            &[
                30, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1, 1, 0,
            ],
            Varint,
        ),
    ];
    for (section, what) in cases {
        let batch = with_section(1, section);
        let records: Vec<_> = batch.records(section).unwrap().collect();
        assert_eq!(records.len(), 1, "an error ends the records");
        let error = records.into_iter().next().unwrap().unwrap_err();
        assert_eq!(
            error,
            RecordsError::Record {
                base_offset: 0,
                index: 0,
                what
            },
            "{section:?}"
        );
    }
    let twice = [good, good].concat();
    let error = read(&with_section(2, &twice)).unwrap_err();
    assert_eq!(
        error,
        RecordsError::Record {
            base_offset: 0,
            index: 1,
            what: Offset
        },
        "two records at one offset"
    );
    assert_eq!(
        read(&with_section(1, &twice)),
        Err(RecordsError::Left {
            base_offset: 0,
            left: 7
        })
    );
    assert_eq!(
        read(&with_section(0, &good)),
        Err(RecordsError::Left {
            base_offset: 0,
            left: 7
        })
    );
}

#[test]
fn only_the_first_record_of_a_control_batch_counts() {
    let marker = |kind: u8| [&[20, 0, 0, 0, 8][..], &[0, 0, 0, kind], &[1, 0]].concat();
    let control = |section: &[u8], count| {
        let mut batch = with_section(count, section);
        batch.header.set_control(true);
        batch.control_type(LIMIT)
    };
    assert_eq!(control(&marker(0), 1), Ok(Some(ControlType::Abort)));
    assert_eq!(control(&marker(1), 1), Ok(Some(ControlType::Commit)));
    assert_eq!(control(&marker(6), 1), Ok(Some(ControlType::Other(6))));
    assert_eq!(
        control(&[marker(1), marker(0)].concat(), 2),
        Ok(Some(ControlType::Commit))
    );
    assert_eq!(control(&[], 0), Ok(None), "compaction took the marker");
    assert_eq!(
        control(&[12, 0, 0, 0, 1, 1, 0], 1),
        Ok(None),
        "a marker without a key"
    );
    assert_eq!(
        with_section(1, &marker(0)).control_type(LIMIT),
        Ok(None),
        "not a control batch"
    );
}

#[test]
fn the_limit_of_decompression_is_that_of_a_batch() {
    for codec in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let mut builder = BatchBuilder::new(codec, None);
        builder
            .append(TIME, None, Some(&[0; 5000]), std::iter::empty())
            .unwrap();
        let size = builder.size() - BatchHeader::SIZE;
        let batch = Batch::parse(builder.finish(ProducerState::NONE).unwrap()).unwrap();
        assert_eq!(batch.payload(size).unwrap().len(), size);
        let source = CompressionError::TooLarge {
            codec,
            limit: size - 1,
        };
        assert_eq!(
            batch.payload(size - 1),
            Err(RecordsError::Compression {
                base_offset: 0,
                source
            })
        );
    }
}

#[test]
fn timestamps_at_the_ends_of_their_range() {
    let records: Vec<Owned> = [0, i64::MIN, i64::MAX, -1]
        .map(|time| (time, None, None, Vec::new()))
        .to_vec();
    let mut builder = BatchBuilder::new(Compression::None, None);
    records
        .iter()
        .for_each(|record| append(&mut builder, record));
    let batch = Batch::parse(builder.finish(ProducerState::NONE).unwrap()).unwrap();
    assert_eq!(read(&batch).unwrap(), records);
    assert_eq!(batch.header.max_timestamp, i64::MAX);
}

fn bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..200))
}

fn record() -> impl Strategy<Value = Owned> {
    (
        any::<i64>(),
        bytes(),
        bytes(),
        prop::collection::vec(("[a-c中]{0,3}", bytes()), 0..4),
    )
}

proptest! {
    #[test]
    fn round_trip(codec in 0_i16..5, records in prop::collection::vec(record(), 1..30)) {
        let mut builder = BatchBuilder::new(Compression::from_id(codec).unwrap(), None);
        records.iter().for_each(|record| append(&mut builder, record));
        let batch = validate_batch(builder.finish(ProducerState::NONE).unwrap()).unwrap();
        prop_assert_eq!(read(&batch).unwrap(), records);
    }

    #[test]
    fn damage_under_a_right_checksum_never_panics(
        codec in 0_i16..5,
        records in prop::collection::vec(record(), 1..10),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut builder = BatchBuilder::new(Compression::from_id(codec).unwrap(), None);
        records.iter().for_each(|record| append(&mut builder, record));
        let mut bytes = BytesMut::from(builder.finish(ProducerState::NONE).unwrap());
        for (place, value) in damage {
            let place = BatchHeader::SIZE - 40 + place.index(bytes.len() - BatchHeader::SIZE + 40);
            bytes[place] = value;
        }
        if let Ok(mut header) = BatchHeader::parse(&bytes) {
            header.seal(&mut bytes).unwrap();
            if let Ok(batch) = Batch::parse(bytes.freeze()) {
                batch.verify_crc().unwrap();
                let payload = batch.payload(LIMIT).unwrap_or_default();
                let records = batch.records(&payload).map_or(0, |records| records.flatten().count());
                prop_assert!(records <= payload.len() / 7);
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        for batch in batches(Bytes::from(input.clone())).flatten() {
            let payload = batch.payload(LIMIT).unwrap_or_default();
            if let Ok(records) = batch.records(&payload) {
                records.for_each(drop);
            }
        }
        let mut header = BatchHeader::parse(&two(Compression::None)).unwrap();
        header.count = input.first().map_or(0, |count| i32::from(*count) / 4);
        header.last_offset_delta = i32::MAX;
        if let Ok(records) = (Batch { header, bytes: Bytes::new() }).records(&input) {
            prop_assert!(records.count() <= header.count.unsigned_abs() as usize + 1);
        }
    }
}
