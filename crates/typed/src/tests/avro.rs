use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, TimestampMicrosecondType};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::{decode, field, numbers, row, texts};
use crate::{DecodeError, Decoder, Framing, Mode, Row, SchemaId};

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"R","namespace":"n","fields":[{fields}]}}"#)
}

fn plain(reader: &str, writer: Option<&str>) -> Decoder {
    Decoder::avro(reader, &[], writer, Framing::Plain).unwrap()
}

fn reason(decoder: &Decoder, value: &[u8]) -> String {
    match decode(decoder, &[value], Mode::Fail) {
        Err(DecodeError::Row(bad)) => bad.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The example of the specification: a is 27, b is "foo".
#[test]
fn the_record_of_the_specification() {
    let decoder = plain(
        &record(r#"{"name":"a","type":"long"},{"name":"b","type":"string"}"#),
        None,
    );
    let batch = decode(&decoder, &[b"\x36\x06foo"], Mode::Fail)
        .unwrap()
        .batch;
    assert_eq!(numbers(&batch, 0), [Some(27)]);
    assert_eq!(texts(&batch, 1), [Some("foo")]);
    let tombstone = Row {
        value: None,
        schema_id: None,
    };
    let schema = decoder.schema(Mode::Fail, "").unwrap();
    let decoded = decoder
        .decode([tombstone].into_iter(), &schema, Mode::Fail)
        .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [None]);
}

#[test]
fn a_value_that_ends_early_or_late_is_bad() {
    let decoder = plain(
        &record(r#"{"name":"a","type":"long"},{"name":"b","type":"string"}"#),
        None,
    );
    assert_eq!(
        reason(&decoder, b"\x36\x06fo"),
        "column b: 3 bytes are wanted, and 2 are left"
    );
    assert_eq!(
        reason(&decoder, b"\x80"),
        "column a: it ends inside of a number"
    );
    assert_eq!(
        reason(&decoder, b"\x36\x01"),
        "column b: a length is negative: -1"
    );
    assert!(reason(&decoder, b"\x36\x06foo!").starts_with("1 bytes stand behind the value"));
    assert_eq!(
        reason(&decoder, &[0xff; 12]),
        "column a: a number has more than 64 bits"
    );
    assert_eq!(
        reason(&decoder, b"\x36\x02\xff"),
        "column b: a string is not UTF-8"
    );
}

#[test]
fn a_reader_of_a_later_version() {
    let writer = record(
        r#"{"name":"gone","type":{"type":"array","items":"n.R2"}},{"name":"old","type":"int"},{"name":"kind","type":{"type":"enum","name":"K",
           "symbols":["A","B","C"]}}"#,
    )
    .replace("\"n.R2\"", r#"{"type":"record","name":"R2","fields":[{"name":"next","type":["null","R2"]}]}"#);
    let reader = record(
        r#"{"name":"kind","type":{"type":"enum","name":"K","symbols":["A","X"],"default":"X"}},
           {"name":"new","aliases":["old"],"type":"double"},
           {"name":"added","type":["null","string"],"default":null},
           {"name":"list","type":{"type":"array","items":"int"},"default":[1,2]}"#,
    );
    let decoder = plain(&reader, Some(&writer));
    // gone: one block of one element, next to null; old 5; kind B.
    let batch = decode(
        &decoder,
        &[b"\x02\x00\x00\x0a\x02", b"\x00\x0a\x00"],
        Mode::Fail,
    )
    .unwrap()
    .batch;
    assert_eq!(texts(&batch, 0), [Some("X"), Some("A")]);
    assert_eq!(
        batch.column(1).as_primitive::<Float64Type>().values(),
        &[5.0, 5.0]
    );
    assert_eq!(texts(&batch, 2), [None, None]);
    assert_eq!(
        batch
            .column(3)
            .as_list::<i32>()
            .value(1)
            .as_primitive::<Int32Type>()
            .values(),
        &[1, 2]
    );

    let unfit = record(r#"{"name":"old","type":"string"}"#);
    let refused = Decoder::avro(&unfit, &[], Some(&writer), Framing::Plain)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("old: the writer's int does not become"),
        "{refused}"
    );
    let lacking = record(r#"{"name":"z","type":"int"}"#);
    assert!(Decoder::avro(&lacking, &[], Some(&writer), Framing::Plain).is_err());
}

#[test]
fn unions_logical_types_and_maps() {
    let schema = record(
        r#"{"name":"u","type":["null","int","string"]},
           {"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":5,"scale":2}},
           {"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}},
           {"name":"m","type":{"type":"map","values":["null","long"]}}"#,
    );
    let decoder = plain(&schema, None);
    let values: [&[u8]; 3] = [
        b"\x02\x0e\x02\x85\x02\x02\x02a\x02\x04\x00",
        b"\x04\x02x\x04\x01\x00\x00\x01\x06\x02b\x00\x00",
        b"\x00\x00\x00\x00",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    let union = batch.column(0).as_struct();
    assert!(union.is_null(2));
    assert_eq!(
        union
            .column(0)
            .as_primitive::<Int32Type>()
            .iter()
            .collect::<Vec<_>>(),
        [Some(7), None, None]
    );
    assert_eq!(
        union
            .column(1)
            .as_string::<i32>()
            .iter()
            .collect::<Vec<_>>(),
        [None, Some("x"), None]
    );
    assert_eq!(
        batch.column(1).as_primitive::<Decimal128Type>().values(),
        &[-123, 256, 0]
    );
    assert_eq!(
        batch
            .column(2)
            .as_primitive::<TimestampMicrosecondType>()
            .values(),
        &[1, 0, 0]
    );
    assert_eq!(numbers_of_map(batch.column(3), 0), [Some(2)]);
    assert_eq!(numbers_of_map(batch.column(3), 1), [None]);
    assert!(reason(&decoder, b"\x06").contains("no branch 3"));
}

fn numbers_of_map(column: &Arc<dyn Array>, row: usize) -> Vec<Option<i64>> {
    let entries = column.as_map().value(row);
    entries
        .column(1)
        .as_primitive::<arrow_array::types::Int64Type>()
        .iter()
        .collect()
}

#[test]
fn columns_that_were_given_take_what_fits() {
    let writer = record(
        r#"{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"n","type":"int"},{"name":"s","type":"string"}"#,
    );
    let fields = Fields::from(vec![
        field("s", DataType::LargeUtf8),
        field(
            "at",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        field("n", DataType::Int8),
        field("other", DataType::Boolean),
    ]);
    let decoder = Decoder::avro_to(fields, Some(&writer), Framing::Plain).unwrap();
    let decoded = decode(
        &decoder,
        &[b"\x04\x06\x02x", b"\x04\x80\x02\x02x"],
        Mode::Drop,
    )
    .unwrap();
    let batch = decoded.batch;
    assert_eq!(batch.column(0).as_string::<i64>().value(0), "x");
    assert_eq!(
        batch
            .column(1)
            .as_primitive::<TimestampMicrosecondType>()
            .value(0),
        2000
    );
    assert!(batch.column(3).is_null(0));
    assert_eq!(
        decoded.bad[0].to_string(),
        "column n: 128 is out of the range of the column"
    );
    let strict = Fields::from(vec![Field::new("other", DataType::Boolean, false)]);
    assert!(Decoder::avro_to(strict, Some(&writer), Framing::Plain).is_err());
    assert!(Decoder::avro_to(Fields::empty(), None, Framing::Plain).is_err());
}

#[test]
fn each_schema_id_has_its_own_writer() {
    let reader = record(r#"{"name":"a","type":"long"}"#);
    let mut decoder = Decoder::avro(&reader, &[], None, Framing::Confluent).unwrap();
    let (one, two, three) = (
        b"\0\0\0\0\x01\x06".as_slice(),
        b"\0\0\0\0\x02\x02x\x08".as_slice(),
        b"\0\0\0\0\x03\x06".as_slice(),
    );
    let ids = decoder.unknown_ids([one, two, one, three].into_iter().map(row));
    assert_eq!(
        ids,
        [
            SchemaId::Number(1),
            SchemaId::Number(2),
            SchemaId::Number(3)
        ]
    );
    decoder.add_writer(ids[0], &record(r#"{"name":"a","type":"int"}"#), &[]);
    let inner =
        r#"{"type":"record","name":"In","fields":[{"name":"x","type":"string"}]}"#.to_owned();
    decoder.add_writer(
        ids[1],
        &record(r#"{"name":"b","type":"In"},{"name":"a","type":"long"}"#),
        &[inner],
    );
    decoder.refuse_writer(ids[2], "it is gone");
    let decoded = decode(
        &decoder,
        &[one, two, three, b"\0\0\0\0\x04\x06"],
        Mode::Drop,
    )
    .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(3), Some(4)]);
    let reasons: Vec<_> = decoded.bad.iter().map(|bad| bad.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "its schema 3 cannot be used: it is gone",
            "its schema 4 is not known"
        ]
    );
    assert!(
        decoder
            .unknown_ids([one, two].into_iter().map(row))
            .is_empty()
    );

    let header = Row {
        value: Some(b"\x06"),
        schema_id: Some(b"\0\0\0\0\x01"),
    };
    let schema = decoder.schema(Mode::Fail, "").unwrap();
    let decoded = decoder
        .decode([header].into_iter(), &schema, Mode::Fail)
        .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(3)]);
}

#[test]
fn few_bytes_do_not_make_many_elements() {
    let nulls = record(r#"{"name":"a","type":{"type":"array","items":"null"}}"#);
    let count = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert!(reason(&plain(&nulls, None), count).contains("elements that take no bytes"));
    let skipping = plain(
        &record(r#"{"name":"b","type":"int","default":1}"#),
        Some(&nulls),
    );
    assert!(reason(&skipping, count).contains("elements that take no bytes"));
    let looped = r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#;
    assert!(
        Decoder::avro(looped, &[], None, Framing::Plain)
            .unwrap_err()
            .to_string()
            .contains("contains itself")
    );
    let skipping = plain(
        &record(r#"{"name":"b","type":"int","default":1}"#),
        Some(&record(&format!(r#"{{"name":"l","type":{looped}}}"#))),
    );
    assert!(reason(&skipping, &[2; 100_000]).contains("levels"));
}

#[test]
fn a_schema_that_is_none_is_refused() {
    for text in [
        "",
        "{}",
        "[",
        "5",
        r#"{"type":"record","name":"R"}"#,
        r#""unknown""#,
        r#"{"type":"array"}"#,
        r#"{"type":"fixed","name":"F","size":-1}"#,
        r#"[{"type":"enum","name":"E","symbols":[]},{"type":"enum","name":"E","symbols":[]}]"#,
    ] {
        assert!(
            Decoder::avro(text, &[], None, Framing::Plain).is_err(),
            "{text}"
        );
    }
    let one = Decoder::avro("\"long\"", &[], None, Framing::Plain).unwrap();
    assert_eq!(
        numbers(&decode(&one, &[b"\x08"], Mode::Fail).unwrap().batch, 0),
        [Some(4)]
    );
}

#[test]
fn small_schemas_do_not_make_many_columns() {
    let mut schema = r#"{"type":"record","name":"R0","fields":[]}"#.to_owned();
    for level in 1..40 {
        let below = level - 1;
        schema = format!(
            r#"{{"type":"record","name":"R{level}","fields":[{{"name":"a","type":{schema}}},{{"name":"b","type":"R{below}"}}]}}"#
        );
    }
    let refused = Decoder::avro(&schema, &[], None, Framing::Plain)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("columns"), "{refused}");
    let writer = record(&format!(r#"{{"name":"deep","type":{schema}}}"#));
    let skipping = plain(
        &record(r#"{"name":"b","type":"int","default":1}"#),
        Some(&writer),
    );
    assert!(reason(&skipping, b"").contains("take no bytes"));
}
