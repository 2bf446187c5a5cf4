use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, TimestampMicrosecondType};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::{decode, field, numbers, row, texts};
use crate::{DecodeError, Decoder, Framing, MOST_NEW_IDS, Missing, Mode, Row, SchemaId};

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"R","namespace":"n","fields":[{fields}]}}"#)
}

fn plain(reader: &str, writer: Option<&str>) -> Decoder {
    Decoder::avro(reader, &[], writer, Framing::Plain, None).unwrap()
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
        .decode(
            [tombstone].into_iter(),
            &schema,
            Mode::Fail,
            Some(&Missing::default()),
        )
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
    let refused = Decoder::avro(&unfit, &[], Some(&writer), Framing::Plain, None)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("old: the writer's int does not become"),
        "{refused}"
    );
    let lacking = record(r#"{"name":"z","type":"int"}"#);
    assert!(Decoder::avro(&lacking, &[], Some(&writer), Framing::Plain, None).is_err());
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
    let mut decoder = Decoder::avro(&reader, &[], None, Framing::Confluent, None).unwrap();
    let (one, two, three) = (
        b"\0\0\0\0\x01\x06".as_slice(),
        b"\0\0\0\0\x02\x02x\x08".as_slice(),
        b"\0\0\0\0\x03\x06".as_slice(),
    );
    let ids = decoder.unknown_ids([one, two, one, three].into_iter().map(row), MOST_NEW_IDS);
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
            "its schema 4 is not known; of one batch, at most 1000 new ids are asked for"
        ]
    );
    assert!(
        decoder
            .unknown_ids([one, two].into_iter().map(row), MOST_NEW_IDS)
            .is_empty()
    );

    let header = Row {
        value: Some(b"\x06"),
        schema_id: Some(b"\0\0\0\0\x01"),
    };
    let schema = decoder.schema(Mode::Fail, "").unwrap();
    let decoded = decoder
        .decode(
            [header].into_iter(),
            &schema,
            Mode::Fail,
            Some(&Missing::default()),
        )
        .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(3)]);
}

#[test]
fn a_decode_ends_at_the_first_schema_that_is_not_known() {
    let reader = record(r#"{"name":"a","type":"long"}"#);
    let mut decoder = Decoder::avro(&reader, &[], None, Framing::Confluent, None).unwrap();
    let (one, two) = (
        b"\0\0\0\0\x01\x06".as_slice(),
        b"\0\0\0\0\x02\x08".as_slice(),
    );
    let modes = [Mode::Fail, Mode::Permissive, Mode::Drop];
    let decode = |decoder: &Decoder, mode, values: &[&[u8]]| {
        let schema = decoder.schema(mode, "_corrupt").unwrap();
        let rows = values.iter().map(|value| row(value));
        decoder.decode(rows, &schema, mode, None)
    };
    decoder.add_writer(SchemaId::Number(1), &reader, &[]);
    for mode in modes {
        let ended = decode(&decoder, mode, &[one, one, two, one]).unwrap_err();
        assert_eq!(ended, DecodeError::UnknownSchema);
    }
    // What is known to be unfit is known, and what has no id is bad whatever schemas there are.
    decoder.refuse_writer(SchemaId::Number(2), "it is gone");
    let decoded = decode(&decoder, Mode::Drop, &[one, two, b"\x02", one]).unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(3), Some(3)]);
    assert_eq!(decoded.bad.len(), 2);
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
        Decoder::avro(looped, &[], None, Framing::Plain, None)
            .unwrap_err()
            .to_string()
            .contains("contains itself")
    );
    let skipping = plain(
        &record(r#"{"name":"b","type":"int","default":1}"#),
        Some(&record(&format!(r#"{{"name":"l","type":{looped}}}"#))),
    );
    assert!(reason(&skipping, &[2; 100_000]).contains("levels"));
    // Nor is it refused where it is not selected.
    let root = record(&format!(
        r#"{{"name":"l","type":{looped}}},{{"name":"n","type":"long"}}"#
    ));
    for (schema, value) in [
        (root.clone(), &[2, 0, 8][..]),
        (format!("[\"null\",{root}]"), &[2, 2, 0, 8]),
    ] {
        let of = |name: &str| {
            let select = [name.to_owned()];
            Decoder::avro(&schema, &[], None, Framing::Plain, Some(&select))
        };
        let batch = decode(&of("n").unwrap(), &[value], Mode::Fail)
            .unwrap()
            .batch;
        assert_eq!(numbers(&batch, 0), [Some(4)]);
        assert_eq!(
            of("x").unwrap_err().to_string(),
            "column \"x\" is selected, and the schema has l, n"
        );
    }
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
            Decoder::avro(text, &[], None, Framing::Plain, None).is_err(),
            "{text}"
        );
    }
    let one = Decoder::avro("\"long\"", &[], None, Framing::Plain, None).unwrap();
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
    let refused = Decoder::avro(&schema, &[], None, Framing::Plain, None)
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

fn bytes_of(logical: &str) -> String {
    record(&format!(
        r#"{{"name":"x","type":{{"type":"bytes",{logical}}}}}"#
    ))
}

/// Connect writes precision 64 for a decimal of which it knows the scale alone.
#[test]
fn a_decimal_of_more_digits_than_a_column_keeps_its_scale() {
    let writer = bytes_of(r#""logicalType":"decimal","precision":64,"scale":2"#);
    let to = |data_type| {
        let fields = Fields::from(vec![field("x", data_type)]);
        Decoder::avro_to(fields, Some(&writer), Framing::Plain)
    };
    // 12.34, and 17 bytes that are more than 38 digits.
    let large = [&[34_u8][..], &[1; 17]].concat();
    let decoder = to(DataType::Decimal128(38, 4)).unwrap();
    let decoded = decode(&decoder, &[b"\x04\x04\xd2", &large], Mode::Drop).unwrap();
    let column = decoded.batch.column(0).as_primitive::<Decimal128Type>();
    assert_eq!(column.values(), &[123_400]);
    assert_eq!(decoded.bad[0].reason, "it does not fit decimal(38, 4)");
    let refused = to(DataType::Decimal128(38, 1)).unwrap_err().to_string();
    assert!(
        refused.contains("bytes (decimal(64, 2)) does not become Decimal128(38, 1)"),
        "{refused}"
    );
    // Without a column to go into, it stays the bytes that it is; but not those of a decimal with another scale.
    let decoder = plain(&writer, None);
    let batch = decode(&decoder, &[b"\x04\x04\xd2"], Mode::Fail)
        .unwrap()
        .batch;
    assert_eq!(batch.column(0).as_binary::<i32>().value(0), b"\x04\xd2");
    let scale = bytes_of(r#""logicalType":"decimal","precision":64,"scale":3"#);
    assert!(Decoder::avro(&scale, &[], Some(&writer), Framing::Plain, None).is_err());
}

#[test]
fn a_column_of_another_meaning_than_the_logical_type_is_refused() {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let decimal = r#"decimal","precision":5,"scale":2,"x":""#;
    let refused = [
        ("int", "date", micros.clone()),
        ("int", "date", DataType::Time32(TimeUnit::Second)),
        ("int", "date", DataType::Time64(TimeUnit::Microsecond)),
        ("int", "time-millis", DataType::Date32),
        ("int", "time-millis", micros.clone()),
        ("long", "time-micros", micros.clone()),
        (
            "long",
            "timestamp-millis",
            DataType::Time64(TimeUnit::Microsecond),
        ),
        (
            "long",
            "local-timestamp-nanos",
            DataType::Time64(TimeUnit::Nanosecond),
        ),
        ("bytes", decimal, DataType::Utf8),
        ("bytes", decimal, DataType::LargeUtf8),
    ];
    let to = |kind: &str, logical: &str, column: &DataType| {
        let writer = record(&format!(
            r#"{{"name":"x","type":{{"type":"{kind}","logicalType":"{logical}"}}}}"#
        ));
        let fields = Fields::from(vec![field("x", column.clone())]);
        Decoder::avro_to(fields, Some(&writer), Framing::Plain)
    };
    for (kind, logical, column) in refused {
        let error = to(kind, logical, &column).unwrap_err().to_string();
        let name = logical.split('"').next().unwrap();
        assert!(
            error.contains(&format!("the writer's {kind} ({name}")),
            "{error}"
        );
        assert!(error.contains(&column.to_string()), "{error}");
    }
    let kept = [
        ("int", "date", DataType::Date32, b"\x02"),
        ("int", "date", DataType::Int32, b"\x02"),
        (
            "int",
            "time-millis",
            DataType::Time64(TimeUnit::Microsecond),
            b"\x02",
        ),
        ("long", "timestamp-millis", micros, b"\x02"),
        ("long", "timestamp-millis", DataType::Int64, b"\x02"),
    ];
    for (kind, logical, column, value) in kept {
        let decoder = to(kind, logical, &column).unwrap();
        decode(&decoder, &[value], Mode::Fail).unwrap();
    }
}

/// Which member of the reader's union a writer's value goes to, and what it is there.
fn members(reader: &str, writer: &str, value: &[u8]) -> Vec<Option<i64>> {
    let decoder = plain(reader, Some(writer));
    let batch = decode(&decoder, &[value], Mode::Fail).unwrap().batch;
    let union = batch.column(0).as_struct().clone();
    let columns = union.columns().iter().map(|member| {
        let inner = member.as_struct();
        let value = inner
            .column(0)
            .as_primitive::<arrow_array::types::Int64Type>();
        inner.is_valid(0).then(|| value.value(0))
    });
    columns.collect()
}

#[test]
fn a_member_of_a_union_is_found_by_its_full_name_first() {
    let of = |namespace: &str| {
        format!(
            r#"{{"type":"record","name":"P","namespace":"{namespace}","fields":[{{"name":"x","type":"long"}}]}}"#
        )
    };
    let reader = record(&format!(
        r#"{{"name":"u","type":[{},{}]}}"#,
        of("a"),
        of("b")
    ));
    let writer = |namespace: &str| record(&format!(r#"{{"name":"u","type":{}}}"#, of(namespace)));
    assert_eq!(members(&reader, &writer("a"), b"\x06"), [Some(3), None]);
    assert_eq!(members(&reader, &writer("b"), b"\x06"), [None, Some(3)]);
    // A name that matches only by its last part.
    let other = r#"{"type":"record","name":"Q","fields":[{"name":"x","type":"long"}]}"#;
    let reader = record(&format!(r#"{{"name":"u","type":[{other},{}]}}"#, of("a")));
    assert_eq!(members(&reader, &writer("z"), b"\x06"), [None, Some(3)]);
}

#[test]
fn a_fixed_that_is_a_decimal_has_its_name() {
    let fixed = |name: &str| {
        format!(
            r#"{{"type":"fixed","name":"{name}","size":2,"logicalType":"decimal","precision":4,"scale":1}}"#
        )
    };
    let reader = record(&format!(
        r#"{{"name":"u","type":[{},{}]}}"#,
        fixed("A"),
        fixed("B")
    ));
    let writer = record(&format!(r#"{{"name":"u","type":{}}}"#, fixed("B")));
    let decoder = plain(&reader, Some(&writer));
    let batch = decode(&decoder, &[b"\0\x07"], Mode::Fail).unwrap().batch;
    let union = batch.column(0).as_struct();
    assert!(union.column(0).is_null(0));
    assert_eq!(union.column(1).as_primitive::<Decimal128Type>().value(0), 7);
}

#[test]
fn an_alias_takes_no_field_of_another() {
    let writer = record(r#"{"name":"a","type":"long"},{"name":"c","type":"long"}"#);
    let of = |first: &str| {
        record(&format!(
            r#"{first},{{"name":"a","type":"long"}},{{"name":"d","aliases":["a","c"],"type":"long","default":-1}},
               {{"name":"e","aliases":["c"],"type":"long","default":-2}}"#
        ))
    };
    let decoder = plain(
        &of(r#"{"name":"b","aliases":["a"],"type":"long","default":-3}"#),
        Some(&writer),
    );
    let batch = decode(&decoder, &[b"\x02\x04", b"\x06\x08"], Mode::Fail)
        .unwrap()
        .batch;
    let columns: Vec<_> = (0..4).map(|column| numbers(&batch, column)).collect();
    assert_eq!(
        columns,
        [
            [Some(-3), Some(-3)],
            [Some(1), Some(3)],
            [Some(2), Some(4)],
            [Some(-2), Some(-2)]
        ]
    );
    let lacking = of(r#"{"name":"b","aliases":["a"],"type":"long"}"#);
    assert!(Decoder::avro(&lacking, &[], Some(&writer), Framing::Plain, None).is_err());
}

/// Types that name each other are deep in a text that is not.
#[test]
fn a_schema_may_not_be_deeper_than_the_stack() {
    let mut types = vec![r#"{"type":"record","name":"R0","fields":[]}"#.to_owned()];
    for level in 1..19_000 {
        let below = level - 1;
        types.push(format!(
            r#"{{"type":"record","name":"R{level}","fields":[{{"name":"a","type":["null","R{below}"]}}]}}"#
        ));
    }
    types.reverse();
    let (root, references) = types.split_first().unwrap();
    let mut references = references.to_vec();
    references.reverse();
    let refused = Decoder::avro(root, &references, None, Framing::Plain, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the Avro schema nests more than 100 levels"
    );
    let (root, references) = (r#""R90""#, references.get(..91).unwrap());
    assert!(Decoder::avro(root, references, None, Framing::Plain, None).is_ok());
    let nested = r#"["null",["int","string"]]"#;
    assert!(Decoder::avro(nested, &[], None, Framing::Plain, None).is_err());
}

#[test]
fn a_batch_asks_for_so_many_schemas_and_what_has_none_is_bad_in_it_alone() {
    let reader = record(r#"{"name":"a","type":"long"}"#);
    let mut decoder = Decoder::avro(&reader, &[], None, Framing::Confluent, None).unwrap();
    let values: Vec<Vec<u8>> = (0..5_000_u32)
        .map(|id| [&[0][..], &id.to_be_bytes(), &[6]].concat())
        .collect();
    let rows = || values.iter().map(|value| row(value));
    let ids = decoder.unknown_ids(rows().chain(rows()), MOST_NEW_IDS);
    assert_eq!(ids, (0..1_000).map(SchemaId::Number).collect::<Vec<_>>());
    decoder.add_writer(ids[0], &reader, &[]);
    let missing = Missing::from_iter([(ids[1], "it is not there yet".to_owned())]);
    let schema = decoder.schema(Mode::Drop, "").unwrap();
    let decoded = decoder
        .decode(rows(), &schema, Mode::Drop, Some(&missing))
        .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(3)]);
    let reason = |row: usize| decoded.bad[row].reason.as_str();
    assert_eq!(
        reason(0),
        "its schema 1 cannot be used: it is not there yet"
    );
    assert!(reason(4_000).contains("at most 1000 new ids"));
    assert!(decoder.unknown_ids(rows(), MOST_NEW_IDS).contains(&ids[1]));
}
