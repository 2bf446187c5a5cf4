//! Messages of magic 0 and 1, and what wrappers must not hold.

use super::*;

const CODECS: [Compression; 4] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
];
const MAGICS: [OldMagic; 2] = [OldMagic::Zero, OldMagic::One];

/// Offset, timestamp, key, value.
type Read = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(entry: &Entry) -> Result<Vec<Read>, RecordsError> {
    let payload = entry.payload(LIMIT)?;
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let records = entry.records(&payload)?.map(|record| {
        let record = record?;
        assert!(entry.magic() == 2 || record.headers().len() == 0);
        Ok((
            record.offset,
            record.timestamp,
            owned(record.key),
            owned(record.value),
        ))
    });
    records.collect()
}

fn read_all(bytes: Bytes) -> Result<Vec<Read>, RecordsError> {
    let mut walk = entries(bytes);
    let all: Result<Vec<_>, _> = walk
        .by_ref()
        .map(|entry| {
            let entry = entry?;
            entry.verify_crc()?;
            read(&entry)
        })
        .collect();
    assert!(all.is_err() || walk.leftover() == 0);
    Ok(all?.concat())
}

/// A set of two, at offsets 10 and 12.
fn set(magic: OldMagic, codec: Compression) -> Bytes {
    let mut builder = MessageSetBuilder::new(magic, codec, None, 10).unwrap();
    builder.append(TIME, Some(b"a"), Some(b"1")).unwrap();
    builder.append_at(12, TIME - 5, None, None).unwrap();
    builder.finish().unwrap()
}

fn one(bytes: Bytes) -> Entry {
    let mut walk = entries(bytes);
    let entry = walk.next().unwrap().unwrap();
    assert_eq!(walk.leftover(), 0);
    entry.verify_crc().unwrap();
    entry
}

/// The message with other bytes, and its checksum made right again.
fn edited(bytes: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    edit(&mut bytes);
    let size = (bytes.len() - 12) as i32;
    bytes[8..12].copy_from_slice(&size.to_be_bytes());
    Message::seal(&mut bytes);
    bytes
}

/// A wrapper at an offset whose value is `inner`, compressed.
fn wrapper(magic: u8, offset: i64, inner: &[u8]) -> Entry {
    let mut value = Vec::new();
    compression::compress(Compression::Gzip, None, inner, &mut value).unwrap();
    let wrapper = edited(&[0; 12], |bytes| {
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes.extend([0, 0, 0, 0, magic, 1]);
        if magic == 1 {
            bytes.extend(TIME.to_be_bytes());
        }
        bytes.extend((-1_i32).to_be_bytes());
        bytes.extend((value.len() as i32).to_be_bytes());
        bytes.extend(value);
    });
    one(wrapper.into())
}

fn plain(magic: OldMagic, offset: i64) -> Bytes {
    let mut builder = MessageSetBuilder::new(magic, Compression::None, None, offset).unwrap();
    builder.append(TIME, None, Some(b"value")).unwrap();
    builder.finish().unwrap()
}

#[test]
fn what_is_written_is_read_with_its_offsets_and_times() {
    for codec in CODECS {
        for magic in MAGICS {
            let time = |time| if magic == OldMagic::Zero { -1 } else { time };
            let expected: Vec<Read> = vec![
                (10, time(TIME), Some(b"a".to_vec()), Some(b"1".to_vec())),
                (12, time(TIME - 5), None, None),
            ];
            assert_eq!(
                read_all(set(magic, codec)),
                Ok(expected),
                "{codec} {magic:?}"
            );
        }
        let mut builder = MessageSetBuilder::new(OldMagic::One, codec, None, 0).unwrap();
        builder.set_append_time(77);
        builder.append(TIME, None, None).unwrap();
        builder.append(TIME, None, None).unwrap();
        let bytes = builder.finish().unwrap();
        let first = entries(bytes.clone()).next().unwrap().unwrap();
        assert_eq!(first.timestamp_type(), Some(TimestampType::LogAppend));
        assert_eq!(first.max_timestamp(), 77);
        let read = read_all(bytes).unwrap();
        assert_eq!(
            read.iter().map(|record| record.1).collect::<Vec<_>>(),
            [77, 77]
        );
    }
    let builder = MessageSetBuilder::new(OldMagic::One, Compression::Gzip, None, 0).unwrap();
    assert_eq!(builder.finish(), Ok(Bytes::new()));
}

#[test]
fn a_wrapper_says_what_it_wraps() {
    for (magic, base) in [(OldMagic::Zero, 10_i64), (OldMagic::One, 0)] {
        let entry = one(set(magic, Compression::Snappy));
        assert_eq!(
            (entry.magic(), entry.compression()),
            (magic.id(), Ok(Compression::Snappy))
        );
        assert_eq!(
            (
                entry.base_offset(),
                entry.last_offset(),
                entry.next_offset()
            ),
            (12, 12, 13)
        );
        let payload = entry.payload(LIMIT).unwrap();
        assert_eq!(entry.first_offset(&payload), Ok(10));
        assert_eq!(
            payload[..8],
            base.to_be_bytes(),
            "absolute in magic 0, relative in magic 1"
        );
        let times = match magic {
            OldMagic::Zero => (None, -1),
            OldMagic::One => (Some(TimestampType::Create), TIME),
        };
        assert_eq!((entry.timestamp_type(), entry.max_timestamp()), times);
        assert_eq!(entry.leader_epoch(), -1);
    }
}

#[test]
fn the_time_of_a_wrapper_that_the_broker_stamped_is_that_of_all() {
    // The broker changes the wrapper alone.
    let stamped = edited(&set(OldMagic::One, Compression::Gzip), |bytes| {
        bytes[17] |= 8;
        bytes[18..26].copy_from_slice(&99_i64.to_be_bytes());
    });
    let times: Vec<_> = read(&one(stamped.into()))
        .unwrap()
        .iter()
        .map(|record| record.1)
        .collect();
    assert_eq!(times, [99, 99]);
}

#[test]
fn relative_offsets_end_at_that_of_the_wrapper() {
    // Compaction took the last record but not the first ones' numbers.
    let inner = [plain(OldMagic::One, 1), plain(OldMagic::One, 4)].concat();
    let offsets = |wrapper: &Entry| {
        read(wrapper).map(|read| read.iter().map(|record| record.0).collect::<Vec<_>>())
    };
    assert_eq!(offsets(&wrapper(1, 104, &inner)), Ok(vec![101, 104]));
    // Of a producer that left it at 0, as librdkafka did.
    assert_eq!(offsets(&wrapper(1, 0, &inner)), Ok(vec![1, 4]));
    assert_eq!(
        offsets(&wrapper(1, 3, &inner)),
        Err(RecordsError::WrapperOffset { offset: 3, last: 4 })
    );
    let far = plain(OldMagic::One, i64::MIN);
    assert_eq!(
        offsets(&wrapper(1, 5, &far)),
        Err(RecordsError::WrapperOffset {
            offset: 5,
            last: i64::MIN
        }),
        "no number holds the first offset"
    );
}

#[test]
fn wrappers_that_cannot_be_are_refused() {
    let (zero, newer) = (plain(OldMagic::Zero, 0), plain(OldMagic::One, 0));
    let error = |magic, inner: &[u8]| read(&wrapper(magic, 9, inner)).unwrap_err();
    let offset = 9;
    assert_eq!(error(1, &[]), RecordsError::EmptyWrapper { offset });
    assert_eq!(
        error(1, &[&newer[..], &zero].concat()),
        RecordsError::InnerMagic {
            offset,
            index: 1,
            magic: 1,
            inner: 0
        }
    );
    assert_eq!(
        error(0, &newer),
        RecordsError::InnerMagic {
            offset,
            index: 0,
            magic: 0,
            inner: 1
        }
    );
    assert_eq!(
        error(1, &two(Compression::None)),
        RecordsError::InnerMagic {
            offset,
            index: 0,
            magic: 1,
            inner: 2
        }
    );
    for magic in MAGICS {
        let nested = set(magic, Compression::Gzip);
        assert_eq!(
            read(&wrapper(magic.id() as u8, 12, &nested)),
            Err(RecordsError::Nested {
                offset: 12,
                index: 0
            })
        );
    }
    for (magic, set, least) in [(0, &zero, 14), (1, &newer, 22)] {
        for length in [least - 1, 0, -1, i32::MIN] {
            let mut inner = set.to_vec();
            inner[8..12].copy_from_slice(&i32::to_be_bytes(length));
            assert_eq!(
                error(magic, &inner),
                RecordsError::InnerLength {
                    offset,
                    index: 0,
                    length
                }
            );
        }
    }
    for cut in [1, 11, 12, 17, 18, newer.len() - 1] {
        assert_eq!(
            error(1, &[&newer[..], &newer[..cut]].concat()),
            RecordsError::Record {
                base_offset: 9,
                index: 1,
                what: Malformed::Cut
            }
        );
    }
    let mut damaged = newer.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let damaged = wrapper(1, 9, &damaged);
    assert!(matches!(
        read(&damaged),
        Err(RecordsError::InnerCrc {
            offset: 9,
            index: 0,
            ..
        })
    ));
    let payload = damaged.payload(LIMIT).unwrap();
    let unchecked = damaged.records(&payload).unwrap().without_crcs();
    assert_eq!(unchecked.flatten().count(), 1);
    assert_eq!(damaged.first_offset(&payload), Ok(9));

    // Without a value.
    for magic in MAGICS {
        let null = edited(&plain(magic, 9), |bytes| {
            bytes[17] |= 1;
            bytes.truncate(bytes.len() - 5);
            let length = bytes.len() - 4;
            bytes[length..].copy_from_slice(&[0xff; 4]);
        });
        assert_eq!(
            one(null.into()).payload(LIMIT),
            Err(RecordsError::NullWrapper { offset })
        );
    }
}

#[test]
fn codecs_that_messages_do_not_have_are_refused() {
    for magic in MAGICS {
        let refused = RecordsError::OldCodec {
            offset: 3,
            magic: magic.id(),
            codec: Compression::Zstd,
        };
        let zstd = one(edited(&plain(magic, 3), |bytes| bytes[17] |= 4).into());
        assert_eq!(read(&zstd), Err(refused.clone()));
        let unknown = one(edited(&plain(magic, 3), |bytes| bytes[17] |= 5).into());
        assert_eq!(
            read(&unknown),
            Err(RecordsError::Codec {
                base_offset: 3,
                codec: 5
            })
        );
        assert_eq!(
            MessageSetBuilder::new(magic, Compression::Zstd, None, 3).unwrap_err(),
            refused
        );
    }
}

#[test]
fn messages_that_cannot_be_are_refused() {
    for (magic, least) in [(OldMagic::Zero, 14), (OldMagic::One, 22)] {
        let good = plain(magic, 7);
        for length in [least - 1, 13, 0, -1, i32::MIN] {
            let mut bytes = good.to_vec();
            bytes[8..12].copy_from_slice(&i32::to_be_bytes(length));
            assert_eq!(
                entries(bytes.into()).next().unwrap().unwrap_err(),
                RecordsError::Length {
                    base_offset: 7,
                    length
                }
            );
        }
        let fields = good.len() - 13;
        let malformed: [(usize, i32, Malformed); 6] = [
            (0, -2, Malformed::NegativeLength),
            (0, 6, Malformed::Cut),
            (0, i32::MAX, Malformed::Cut),
            (4, i32::MIN, Malformed::NegativeLength),
            (4, 6, Malformed::Cut),
            (4, 4, Malformed::Size),
        ];
        for (place, length, what) in malformed {
            let bytes = edited(&good, |bytes| {
                bytes[fields + place..][..4].copy_from_slice(&length.to_be_bytes());
            });
            let entry = one(bytes.into());
            assert_eq!(
                read(&entry),
                Err(RecordsError::Record {
                    base_offset: 7,
                    index: 0,
                    what
                }),
                "{magic:?} {place} {length}"
            );
        }
        let mut bytes = good.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let entry = Entry::parse(bytes.into()).unwrap();
        assert!(matches!(
            entry.verify_crc(),
            Err(RecordsError::Crc { base_offset: 7, .. })
        ));
        let size = good.len();
        assert_eq!(
            Message::parse(good.slice(..size - 1)).unwrap_err(),
            RecordsError::Cut {
                needed: size,
                left: size - 1
            }
        );
        assert_eq!(
            Message::parse([&good[..], &[0]].concat().into()).unwrap_err(),
            RecordsError::Extra {
                base_offset: 7,
                extra: 1
            }
        );
        assert!(matches!(
            Message::parse(two(Compression::None).freeze()),
            Err(RecordsError::Magic { magic: 2, .. })
        ));
    }
}

#[test]
fn a_walk_of_mixed_ages_ends_at_what_is_cut() {
    let parts = [
        set(OldMagic::Zero, Compression::None),
        set(OldMagic::One, Compression::Lz4),
        two(Compression::Zstd).freeze(),
        set(OldMagic::Zero, Compression::Lz4),
    ];
    let whole = Bytes::from(parts.concat());
    let magics: Vec<_> = entries(whole.clone())
        .map(|entry| entry.unwrap().magic())
        .collect();
    assert_eq!(magics, [0, 0, 1, 2, 0]);
    assert_eq!(read_all(whole.clone()).unwrap().len(), 8);
    let last = whole.len() - parts[3].len();
    for end in last + 1..whole.len() {
        let mut walk = entries(whole.slice(..end));
        assert_eq!(walk.by_ref().map(Result::unwrap).count(), 4);
        let left = end - last;
        let needed = if left < 12 { 26 } else { parts[3].len() };
        assert_eq!(
            (walk.leftover(), walk.cut()),
            (left, Some(RecordsError::Cut { needed, left }))
        );
    }
    let mut unknown = whole.to_vec();
    unknown[16] = 3;
    let mut walk = entries(unknown.into());
    assert_eq!(
        walk.next().unwrap().unwrap_err(),
        RecordsError::Magic {
            base_offset: 10,
            magic: 3
        }
    );
    assert!(walk.next().is_none());
}

#[test]
fn the_limit_of_decompression_is_that_of_a_wrapper() {
    for codec in CODECS
        .into_iter()
        .filter(|codec| *codec != Compression::None)
    {
        let mut builder = MessageSetBuilder::new(OldMagic::Zero, codec, None, 0).unwrap();
        builder.append(TIME, None, Some(&[0; 5000])).unwrap();
        let entry = one(builder.finish().unwrap());
        let size = 12 + 14 + 5000;
        assert_eq!(entry.payload(size).unwrap().len(), size);
        let source = CompressionError::TooLarge {
            codec,
            limit: size - 1,
        };
        assert_eq!(
            entry.payload(size - 1),
            Err(RecordsError::Compression {
                base_offset: 0,
                source
            })
        );
    }
}

#[test]
fn offsets_of_a_set_ascend() {
    let mut builder = MessageSetBuilder::new(OldMagic::One, Compression::None, None, 5).unwrap();
    let mut at = |offset| builder.append_at(offset, TIME, None, None);
    assert_eq!(
        at(4),
        Err(RecordsError::SetOrder {
            offset: 4,
            after: 5
        })
    );
    assert_eq!(at(5), Ok(()));
    assert_eq!(
        at(5),
        Err(RecordsError::SetOrder {
            offset: 5,
            after: 5
        })
    );
    assert_eq!(at(i64::MAX), Ok(()));
    assert!(
        builder.append(TIME, None, None).is_err(),
        "there is no offset after the last"
    );
}

proptest! {
    #[test]
    fn old_sets_round_trip(
        codec in 0..4_usize,
        newer in any::<bool>(),
        base in 0..i64::MAX / 2,
        append_time in prop::option::of(0..i64::MAX),
        records in prop::collection::vec((1..1000_i64, any::<i64>(), bytes(), bytes()), 0..20),
    ) {
        let magic = MAGICS[usize::from(newer)];
        let mut builder = MessageSetBuilder::new(magic, CODECS[codec], None, base).unwrap();
        if let Some(time) = append_time {
            builder.set_append_time(time);
        }
        let mut offset = base - 1;
        let mut expected = Vec::new();
        for (gap, time, key, value) in records {
            offset += gap;
            builder.append_at(offset, time, key.as_deref(), value.as_deref()).unwrap();
            let time = if newer { append_time.unwrap_or(time) } else { -1 };
            expected.push((offset, time, key, value));
        }
        prop_assert_eq!(read_all(builder.finish().unwrap()).unwrap(), expected);
    }

    #[test]
    fn any_bytes_of_any_magic_never_panic_and_give_no_more_than_they_hold(
        parts in prop::collection::vec((0..6_usize, any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..5),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut input = Vec::new();
        for (kind, place, value, seal) in parts {
            let mut part = match kind {
                0 => set(OldMagic::Zero, Compression::Gzip).to_vec(),
                1 => set(OldMagic::One, Compression::Snappy).to_vec(),
                2 => set(OldMagic::One, Compression::Lz4).to_vec(),
                3 => plain(OldMagic::Zero, 1).to_vec(),
                4 => plain(OldMagic::One, 1).to_vec(),
                _ => two(Compression::Zstd).to_vec(),
            };
            let place = place.index(part.len());
            part[place] = value;
            if seal {
                Message::seal(&mut part);
            }
            input.extend(part);
        }
        input.extend(noise);
        for entry in entries(Bytes::from(input.clone())).flatten() {
            let payload = entry.payload(LIMIT).unwrap_or_default();
            if let Ok(records) = entry.records(&payload) {
                // The least of all records takes 7 bytes; an error is one more.
                prop_assert!(records.size_hint().1.unwrap() <= payload.len() / 7 + 1);
                prop_assert!(records.count() <= payload.len() / 7 + 1);
            }
            if let Entry::Message(message) = &entry {
                // As if it had been decompressed.
                if let Ok(records) = message.records(&input) {
                    prop_assert!(records.count() <= input.len() / 26 + 1);
                }
            }
        }
        for found in segment(Bytes::from(input)) {
            if let Found::Entry { entry, .. } = found {
                entry.verify_crc().unwrap();
            }
        }
    }
}

#[test]
fn a_batch_becomes_a_message_set_with_the_same_records() {
    for (magic, codec) in MAGICS.into_iter().flat_map(|m| CODECS.map(|c| (m, c))) {
        let mut builder = BatchBuilder::new(Compression::Gzip, None);
        for (timestamp, key, value) in [
            (TIME, Some(&b"a"[..]), Some(&b"1"[..])),
            (TIME - 5, None, None),
            (TIME + 1, Some(b""), Some(b"")),
        ] {
            let none = std::iter::empty();
            builder.append(timestamp, key, value, none).unwrap();
        }
        let batch = builder.finish(ProducerState::NONE).unwrap();
        let set = to_message_set(batch, magic, codec, None, LIMIT).unwrap();
        let compressed = codec != Compression::None;
        assert_eq!(entries(set.clone()).count(), if compressed { 1 } else { 3 });
        for entry in entries(set.clone()) {
            let entry = entry.unwrap();
            assert_eq!(
                (entry.magic(), entry.compression()),
                (magic.id(), Ok(codec))
            );
        }
        let time = |timestamp| match magic {
            OldMagic::Zero => -1,
            OldMagic::One => timestamp,
        };
        let some = |text: &[u8]| Some(text.to_vec());
        assert_eq!(
            read_all(set).unwrap(),
            [
                (0, time(TIME), some(b"a"), some(b"1")),
                (1, time(TIME - 5), None, None),
                (2, time(TIME + 1), some(b""), some(b"")),
            ],
            "{magic:?} {codec}"
        );
    }
}

#[test]
fn a_message_set_takes_neither_headers_nor_zstd() {
    let mut builder = BatchBuilder::new(Compression::None, None);
    let plain = std::iter::empty();
    builder.append(TIME, None, Some(b"1"), plain).unwrap();
    assert!(!builder.has_headers());
    let header = [("trace", Some(&b"x"[..]))].into_iter();
    builder.append(TIME, None, Some(b"2"), header).unwrap();
    assert!(builder.has_headers());
    let batch = builder.finish(ProducerState::NONE).unwrap();
    assert!(!builder.has_headers());
    let refused = |codec| {
        let set = to_message_set(batch.clone(), OldMagic::One, codec, None, LIMIT);
        set.unwrap_err()
    };
    assert_eq!(
        refused(Compression::None),
        RecordsError::OldHeaders { index: 1, magic: 1 }
    );
    let zstd = refused(Compression::Zstd);
    assert!(matches!(zstd, RecordsError::OldCodec { .. }), "{zstd}");
}
