use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_schema::{DataType, TimeUnit};
use bytes::{Bytes, BytesMut};
use ottla_protocol::compression::{Compression, compress};
use ottla_protocol::records::{
    BatchBuilder, BatchHeader, ProducerState, RecordsError, assign_offsets, set_log_append_time,
};
use proptest::prelude::*;

use super::decode;
use crate::{Aborted, ColumnarError, Columns, FetchedPartition, Memory, decode_shown, schema};

const TIME: i64 = 1_700_000_000_000;

type Headers = Vec<(String, Option<Vec<u8>>)>;
/// Timestamp, key, value, headers.
type Owned = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Headers);

pub(super) fn source() -> FetchedPartition {
    FetchedPartition {
        topic: "flights".into(),
        partition: 3,
        fetch_offset: 0,
        aborted: Vec::new(),
        read_committed: false,
        check_crcs: true,
        decompress_limit: 1 << 20,
    }
}

/// A batch at an offset, with its header changed.
pub(super) fn batch(
    codec: Compression,
    base_offset: i64,
    records: &[Owned],
    edit: impl FnOnce(&mut BatchHeader),
) -> BytesMut {
    let mut builder = BatchBuilder::new(codec, None);
    for (time, key, value, headers) in records {
        let headers = headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref()));
        builder
            .append(*time, key.as_deref(), value.as_deref(), headers)
            .unwrap();
    }
    let mut bytes = BytesMut::from(builder.finish(ProducerState::NONE).unwrap());
    let mut header = BatchHeader::parse(&bytes).unwrap();
    edit(&mut header);
    header.seal(&mut bytes).unwrap();
    assign_offsets(&mut bytes, base_offset, 7).unwrap();
    bytes
}

pub(super) fn values(base_offset: i64, values: &[&str]) -> BytesMut {
    let records: Vec<Owned> = values
        .iter()
        .map(|value| (TIME, None, Some(value.as_bytes().to_vec()), Vec::new()))
        .collect();
    batch(Compression::None, base_offset, &records, |_| ())
}

/// One record of an open transaction.
pub(super) fn in_transaction(base_offset: i64, producer_id: i64, value: &str) -> BytesMut {
    let records = [(TIME, None, Some(value.as_bytes().to_vec()), Vec::new())];
    batch(Compression::None, base_offset, &records, |header| {
        header.producer_id = producer_id;
        header.set_transactional(true);
    })
}

/// The end of a transaction; 0 aborts, 1 commits.
pub(super) fn marker(base_offset: i64, producer_id: i64, kind: u8) -> BytesMut {
    let records = [(
        TIME,
        Some(vec![0, 0, 0, kind]),
        Some(vec![0; 6]),
        Vec::new(),
    )];
    batch(Compression::None, base_offset, &records, |header| {
        header.producer_id = producer_id;
        header.set_transactional(true);
        header.set_control(true);
    })
}

pub(super) fn joined(batches: &[BytesMut]) -> Bytes {
    batches.concat().into()
}

pub(super) fn texts(columns: &Columns) -> Vec<&str> {
    (0..columns.len())
        .map(|row| std::str::from_utf8(columns.value(row).unwrap()).unwrap())
        .collect()
}

fn owned(columns: &Columns) -> Vec<Owned> {
    let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let row = |row| {
        let headers = columns
            .headers(row)
            .map(|(key, value)| (key.to_owned(), bytes(value)))
            .collect();
        (
            columns.timestamp_ms(row),
            bytes(columns.key(row)),
            bytes(columns.value(row)),
            headers,
        )
    };
    (0..columns.len()).map(row).collect()
}

#[test]
fn nothing_gives_no_rows_and_the_offset_asked_for() {
    let columns = decode(
        Bytes::new(),
        &FetchedPartition {
            fetch_offset: 42,
            ..source()
        },
    )
    .unwrap();
    assert!(columns.is_empty());
    assert_eq!(columns.next_offset(), 42);
    assert_eq!(columns.record_batch().unwrap().num_rows(), 0);
    assert_eq!(
        (
            columns.offset(0),
            columns.timestamp_type(0),
            columns.leader_epoch(0)
        ),
        (-1, -1, -1)
    );
    assert_eq!((columns.key(0), columns.headers(0).len()), (None, 0));
}

#[test]
fn the_schema_is_that_of_sparks_kafka_source() {
    let headers = DataType::new_list(
        DataType::Struct(
            vec![
                arrow_schema::Field::new("key", DataType::Utf8, true),
                arrow_schema::Field::new("value", DataType::Binary, true),
            ]
            .into(),
        ),
        true,
    );
    let expected = [
        ("key", DataType::Binary),
        ("value", DataType::Binary),
        ("topic", DataType::Utf8),
        ("partition", DataType::Int32),
        ("offset", DataType::Int64),
        (
            "timestamp",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        ("timestampType", DataType::Int32),
    ];
    let schema = schema();
    for (field, (name, data_type)) in schema.fields().iter().zip(&expected) {
        assert_eq!(
            (field.name().as_str(), field.data_type()),
            (*name, data_type)
        );
    }
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
    assert_eq!(schema.fields().len(), 8);
    assert_eq!(schema.field(7).name(), "headers");
    assert!(schema.field(7).data_type().equals_datatype(&headers));
}

#[test]
fn all_columns_of_a_slice() {
    let headers = vec![
        ("h".to_owned(), Some(b"1".to_vec())),
        ("h".to_owned(), None),
        (String::new(), Some(Vec::new())),
    ];
    let records = [
        (TIME, Some(b"a".to_vec()), Some(b"1".to_vec()), Vec::new()),
        (TIME + 1, None, Some(Vec::new()), headers),
        (-1, Some(b"c".to_vec()), None, Vec::new()),
    ];
    let mut broker_time = batch(Compression::Zstd, 20, &records, |_| ());
    set_log_append_time(&mut broker_time, TIME + 9).unwrap();
    let bytes = joined(&[batch(Compression::Gzip, 10, &records, |_| ()), broker_time]);
    let columns = decode(bytes, &source()).unwrap();
    assert_eq!(columns.len(), 6);
    let rows = columns.slice(1, 3);
    let table = rows.record_batch().unwrap();
    assert_eq!(table.schema(), schema());

    let keys: Vec<_> = table.column(0).as_binary::<i32>().iter().collect();
    assert_eq!(keys, [None, Some(&b"c"[..]), Some(b"a")]);
    let values: Vec<_> = table.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(values, [Some(&b""[..]), None, Some(b"1")]);
    let topics: Vec<_> = table.column(2).as_string::<i32>().iter().collect();
    assert_eq!(topics, [Some("flights"); 3]);
    assert_eq!(
        table.column(3).as_primitive::<Int32Type>().values(),
        &[3, 3, 3]
    );
    assert_eq!(
        table.column(4).as_primitive::<Int64Type>().values(),
        &[11, 12, 20]
    );
    let times = table.column(5).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(
        times.values(),
        &[(TIME + 1) * 1000, -1000, (TIME + 9) * 1000]
    );
    assert_eq!(
        table.column(6).as_primitive::<Int32Type>().values(),
        &[0, 0, 1]
    );
    let headers = table.column(7).as_list::<i32>();
    assert_eq!(
        [0, 1, 2].map(|row| headers.is_null(row)),
        [false, true, true]
    );
    let first = headers.value(0);
    let names: Vec<_> = first
        .as_struct()
        .column(0)
        .as_string::<i32>()
        .iter()
        .collect();
    assert_eq!(names, [Some("h"), Some("h"), Some("")]);
    let contents: Vec<_> = first
        .as_struct()
        .column(1)
        .as_binary::<i32>()
        .iter()
        .collect();
    assert_eq!(contents, [Some(&b"1"[..]), None, Some(b"")]);

    assert_eq!([0, 1, 2].map(|row| rows.timestamp_type(row)), [0, 0, 1]);
    assert_eq!(rows.leader_epoch(2), 7);
    assert_eq!(rows.headers(0).len(), 3);
    assert_eq!(rows.headers(1).len(), 0);
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let bytes = |row| {
        let headers = rows
            .headers(row)
            .map(|(key, value)| key.len() + length(value));
        length(rows.key(row)) + length(rows.value(row)) + headers.sum::<usize>()
    };
    assert_eq!(rows.bytes(), (0..rows.len()).map(bytes).sum::<usize>());
    assert_eq!(
        rows.value(3),
        None,
        "a row of the whole that is not in the slice"
    );
}

#[test]
fn some_columns_in_another_order() {
    let columns = decode(values(0, &["a", "b"]).freeze(), &source()).unwrap();
    let table = columns.record_batch_of(&[4, 1]).unwrap();
    assert_eq!(
        table
            .schema()
            .fields()
            .iter()
            .map(|field| field.name())
            .collect::<Vec<_>>(),
        ["offset", "value"]
    );
    assert_eq!(columns.record_batch_of(&[]).unwrap().num_rows(), 2);
    assert!(matches!(
        columns.record_batch_of(&[8]),
        Err(ColumnarError::Arrow(_))
    ));
}

#[test]
fn no_headers_at_all_is_a_column_of_nulls() {
    let columns = decode(values(0, &["a", "b"]).freeze(), &source()).unwrap();
    assert_eq!(columns.record_batch().unwrap().column(7).null_count(), 2);
}

#[test]
fn rows_below_the_offset_asked_for_are_left_out() {
    let bytes = joined(&[
        values(0, &["a", "b"]),
        values(2, &["c", "d", "e"]),
        values(5, &["f"]),
    ]);
    let columns = decode(
        bytes,
        &FetchedPartition {
            fetch_offset: 3,
            ..source()
        },
    )
    .unwrap();
    assert_eq!(texts(&columns), ["d", "e", "f"]);
    assert_eq!((columns.offset(0), columns.next_offset()), (3, 6));
}

#[test]
fn batches_that_step_back_are_refused() {
    let bytes = joined(&[values(5, &["a", "b"]), values(6, &["c"])]);
    let error = decode(bytes, &source()).unwrap_err();
    let expected = ColumnarError::OutOfOrder {
        topic: "flights".into(),
        partition: 3,
        base_offset: 6,
        expected: 7,
    };
    assert_eq!(error, expected);
}

#[test]
fn splitting_keeps_track_of_the_position() {
    // The second batch lost its last two records to compaction; a marker follows.
    let compacted = batch(
        Compression::None,
        2,
        &[(TIME, None, Some(b"c".to_vec()), Vec::new())],
        |header| {
            header.last_offset_delta = 2;
        },
    );
    let mut rest = decode(
        joined(&[values(0, &["a", "b"]), compacted, marker(5, 1, 1)]),
        &source(),
    )
    .unwrap();
    assert_eq!((rest.len(), rest.next_offset()), (3, 6));
    let none = rest.split_to(0);
    assert_eq!((none.len(), none.next_offset()), (0, 0));
    let first = rest.split_to(1);
    assert_eq!((texts(&first), first.next_offset()), (vec!["a"], 1));
    assert_eq!(texts(&rest.slice(0, 1)), ["b"]);
    let all = rest.split_to(99);
    assert_eq!((texts(&all), all.next_offset()), (vec!["b", "c"], 6));
    assert_eq!((rest.len(), rest.next_offset()), (0, 6));
}

#[test]
fn an_empty_batch_moves_the_position() {
    let empty = batch(
        Compression::None,
        0,
        &[(TIME, None, None, Vec::new())],
        |_| (),
    );
    let mut empty = BytesMut::from(&empty[..BatchHeader::SIZE]);
    let mut header = BatchHeader::parse(&empty).unwrap();
    (header.count, header.last_offset_delta) = (0, 9);
    header.seal(&mut empty).unwrap();
    let columns = decode(joined(&[empty, values(10, &["a"])]), &source()).unwrap();
    assert_eq!((texts(&columns), columns.next_offset()), (vec!["a"], 11));
}

#[test]
fn control_batches_are_never_rows() {
    for read_committed in [false, true] {
        let bytes = joined(&[
            in_transaction(0, 1, "a"),
            marker(1, 1, 1),
            values(2, &["b"]),
            marker(3, 2, 5),
        ]);
        let columns = decode(
            bytes,
            &FetchedPartition {
                read_committed,
                ..source()
            },
        )
        .unwrap();
        assert_eq!(
            (texts(&columns), columns.next_offset()),
            (vec!["a", "b"], 4)
        );
    }
}

#[test]
fn aborted_transactions_of_interleaved_producers() {
    let bytes = joined(&[
        in_transaction(0, 1, "1 aborted"),
        in_transaction(1, 2, "2 committed"),
        values(2, &["no transaction"]),
        in_transaction(3, 3, "3 aborted"),
        marker(4, 1, 0),
        in_transaction(5, 1, "1 committed"),
        in_transaction(6, 3, "3 aborted too"),
        marker(7, 2, 1),
        // A second marker for a transaction that has ended changes nothing.
        marker(8, 1, 0),
        marker(9, 3, 0),
        in_transaction(10, 2, "2 aborted"),
        in_transaction(11, 3, "3 committed"),
        marker(12, 2, 0),
        marker(13, 1, 1),
        marker(14, 3, 1),
        in_transaction(15, 1, "1 aborted at the end"),
    ]);
    let aborted = [(2, 10), (1, 15), (3, 3), (1, 0)];
    let aborted = aborted
        .map(|(producer_id, first_offset)| Aborted {
            producer_id,
            first_offset,
        })
        .to_vec();
    let source = FetchedPartition {
        aborted,
        ..source()
    };
    let all = decode(bytes.clone(), &source).unwrap();
    assert_eq!(all.len(), 9);
    let columns = decode(
        bytes,
        &FetchedPartition {
            read_committed: true,
            ..source
        },
    )
    .unwrap();
    assert_eq!(
        texts(&columns),
        [
            "2 committed",
            "no transaction",
            "1 committed",
            "3 committed"
        ]
    );
    assert_eq!(columns.next_offset(), 16);
}

#[test]
fn a_transaction_that_began_before_the_fetch_is_left_out_too() {
    let bytes = joined(&[
        in_transaction(100, 1, "aborted"),
        marker(101, 1, 0),
        in_transaction(102, 1, "kept"),
    ]);
    let aborted = vec![Aborted {
        producer_id: 1,
        first_offset: 50,
    }];
    let columns = decode(
        bytes,
        &FetchedPartition {
            aborted,
            read_committed: true,
            fetch_offset: 100,
            ..source()
        },
    )
    .unwrap();
    assert_eq!(texts(&columns), ["kept"]);
}

#[test]
fn a_wrong_checksum_is_refused_unless_it_is_not_looked_at() {
    let mut damaged = values(5, &["b"]);
    let last = damaged.len() - 2;
    damaged[last] = b'x';
    let bytes = joined(&[values(0, &["a"]), damaged]);
    let error = decode(bytes.clone(), &source()).unwrap_err();
    assert!(matches!(
        &error,
        ColumnarError::Records {
            next_offset: Some(6),
            source: RecordsError::Crc { base_offset: 5, .. },
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.starts_with("flights partition 3: the record batch at offset 5 is damaged"),
        "{text}"
    );
    assert!(text.ends_with("; seek to offset 6 to skip it"), "{text}");
    let columns = decode(
        bytes,
        &FetchedPartition {
            check_crcs: false,
            ..source()
        },
    )
    .unwrap();
    assert_eq!(texts(&columns), ["a", "x"]);
}

/// Four records of which that at offset 7 has a header whose key is not UTF-8.
fn with_a_bad_key(codec: Compression) -> Bytes {
    let record = |value: &str, key: Option<&str>| {
        let headers = key.map(|key| (key.to_owned(), None)).into_iter().collect();
        (TIME, None, Some(value.as_bytes().to_vec()), headers)
    };
    let records = [
        record("c", None),
        record("d", Some("good")),
        record("e", Some("\u{e9}")),
        record("f", None),
    ];
    let mut plain = batch(Compression::None, 5, &records, |_| ());
    let at = plain.windows(2).position(|it| it == "\u{e9}".as_bytes());
    plain[at.unwrap()] = 0xff;
    let mut header = BatchHeader::parse(&plain).unwrap();
    let section = plain.split_off(BatchHeader::SIZE);
    let mut stored = Vec::new();
    compress(codec, None, &section, &mut stored).unwrap();
    header.attributes |= codec.id();
    plain.extend_from_slice(&stored);
    header.seal(&mut plain).unwrap();
    joined(&[values(0, &["a", "b"]), plain, values(9, &["g"])])
}

#[test]
fn a_header_key_that_is_not_utf_8_hides_its_record_alone() {
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    for codec in [Compression::None, Compression::Lz4] {
        let bytes = with_a_bad_key(codec);
        let from = |fetch_offset| FetchedPartition {
            fetch_offset,
            ..source()
        };
        let shown = decode_shown(bytes.clone(), &from(0), &memory).unwrap();
        assert_eq!(texts(&shown), ["a", "b", "c", "d"]);
        assert_eq!(shown.next_offset(), 7);
        // Where there is no record before it, it is passed up to, too.
        let shown = decode_shown(bytes.clone(), &from(4), &memory);
        assert_eq!(shown.unwrap().next_offset(), 7);
        let error = decode_shown(bytes.clone(), &from(7), &memory).unwrap_err();
        assert_eq!(
            error.to_string(),
            "flights partition 3: the record at offset 7: the key of a header is not valid UTF-8; seek to offset 8 to skip it"
        );
        assert_eq!(decode(bytes.clone(), &from(0)).unwrap_err(), error);
        let behind = decode(bytes, &from(8)).unwrap();
        assert_eq!((texts(&behind), behind.next_offset()), (vec!["f", "g"], 10));
    }
}

/// Rule: 2.4.8.
#[test]
fn a_cut_batch_is_left_out_unless_it_is_the_only_one() {
    let second = values(1, &["b"]);
    let bytes = [&values(0, &["a"])[..], &second[..second.len() - 1]].concat();
    let columns = decode(bytes.into(), &source()).unwrap();
    assert_eq!((texts(&columns), columns.next_offset()), (vec!["a"], 1));
    let error = decode(
        Bytes::copy_from_slice(&second[..second.len() - 1]),
        &source(),
    )
    .unwrap_err();
    let cut = RecordsError::Cut {
        needed: second.len(),
        left: second.len() - 1,
    };
    assert!(
        matches!(error, ColumnarError::Records { next_offset: None, source, .. } if source == cut)
    );
}

/// Rule: 2.4.10.
#[test]
fn the_decompression_limit_is_for_all_batches_together() {
    let record = (TIME, None, Some(vec![b'x'; 1000]), Vec::new());
    let batches = [0, 1, 2].map(|offset| {
        batch(
            Compression::Lz4,
            offset,
            std::slice::from_ref(&record),
            |_| (),
        )
    });
    let of_one = 1009;
    for (limit, fits) in [(3 * of_one, true), (3 * of_one - 1, false)] {
        let got = decode(
            joined(&batches),
            &FetchedPartition {
                decompress_limit: limit,
                ..source()
            },
        );
        match got {
            Ok(columns) => assert!(fits && columns.len() == 3),
            Err(error) => {
                assert!(!fits, "{error}");
                assert!(
                    error.to_string().contains(&format!(
                        "offset 2: lz4 data decompresses to more than {limit}"
                    )),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn times_that_microseconds_cannot_hold_are_the_last_that_they_can() {
    let records = [i64::MIN, i64::MAX, -1].map(|time| (time, None, None, Vec::new()));
    let columns = decode(
        batch(Compression::None, 0, &records, |_| ()).freeze(),
        &source(),
    )
    .unwrap();
    assert_eq!(
        [0, 1, 2].map(|row| columns.timestamp_ms(row)),
        [i64::MIN, i64::MAX, -1]
    );
    let table = columns.record_batch().unwrap();
    assert_eq!(
        table
            .column(5)
            .as_primitive::<TimestampMicrosecondType>()
            .values(),
        &[i64::MIN, i64::MAX, -1000]
    );
}

fn bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..100))
}

fn record() -> impl Strategy<Value = Owned> {
    (
        any::<i64>(),
        bytes(),
        bytes(),
        prop::collection::vec(("[a-c中]{0,3}", bytes()), 0..3),
    )
}

/// Batches with gaps between them.
fn log() -> impl Strategy<Value = Vec<(i16, i64, Vec<Owned>)>> {
    prop::collection::vec(
        (0_i16..5, 0_i64..3, prop::collection::vec(record(), 1..12)),
        0..5,
    )
}

fn encoded(log: &[(i16, i64, Vec<Owned>)]) -> (BytesMut, Vec<i64>) {
    let (mut all, mut offsets, mut next) = (BytesMut::new(), Vec::new(), 0);
    for (codec, gap, records) in log {
        next += gap;
        all.extend_from_slice(&batch(
            Compression::from_id(*codec).unwrap(),
            next,
            records,
            |_| (),
        ));
        offsets.extend(next..next + records.len() as i64);
        next += records.len() as i64;
    }
    (all, offsets)
}

proptest! {
    #[test]
    fn what_was_built_is_what_is_decoded(log in log(), fetch_offset in 0_i64..20) {
        let (bytes, offsets) = encoded(&log);
        let columns = decode(bytes.freeze(), &FetchedPartition { fetch_offset, ..source() }).unwrap();
        let skipped = offsets.iter().filter(|offset| **offset < fetch_offset).count();
        let expected: Vec<Owned> = log.into_iter().flat_map(|(_, _, records)| records).skip(skipped).collect();
        prop_assert_eq!(owned(&columns), expected);
        let got: Vec<i64> = (0..columns.len()).map(|row| columns.offset(row)).collect();
        prop_assert_eq!(&got, &offsets[skipped..]);
        prop_assert_eq!(columns.next_offset(), offsets.last().map_or(0, |last| last + 1).max(fetch_offset));
        let table = columns.record_batch().unwrap();
        prop_assert_eq!(table.num_rows(), columns.len());
        // The times of these records are any number, and not each can be sent.
        let is_sent = |column: &usize| table.schema_ref().field(*column).name() != "timestamp";
        let others: Vec<usize> = (0..table.num_columns()).filter(is_sent).collect();
        let sent = crate::rows(&table.project(&others).unwrap()).unwrap();
        for row in 0..columns.len() {
            let row_sent = sent.get(row);
            prop_assert_eq!((row_sent.key, row_sent.value), (columns.key(row), columns.value(row)));
            prop_assert!(row_sent.headers.eq(columns.headers(row)));
        }
    }

    #[test]
    fn damage_never_panics(
        log in log(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep in any::<prop::sample::Index>(),
        read_committed in any::<bool>(),
    ) {
        let (mut bytes, _) = encoded(&log);
        for (place, value) in damage.iter().filter(|_| !log.is_empty()) {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        bytes.truncate(keep.index(bytes.len() + 1));
        let aborted = vec![Aborted { producer_id: -1, first_offset: 0 }];
        let source = FetchedPartition { check_crcs: false, read_committed, aborted, ..source() };
        if let Ok(columns) = decode(bytes.freeze(), &source) {
            let table = columns.record_batch().unwrap();
            prop_assert_eq!(table.num_rows(), columns.len());
            prop_assert_eq!(owned(&columns).len(), columns.len());
        }
    }
}
