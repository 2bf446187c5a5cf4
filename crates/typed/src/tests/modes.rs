use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::{decode, field, numbers, texts};
use crate::{DecodeError, Decoder, Framing, Missing, Mode, Row, rows_of};

/// The second and the fourth are bad, the fourth only in its last byte.
const VALUES: [&[u8]; 5] = [
    b"{\"a\":1,\"b\":\"one\"}",
    b"{\"a\":\"x\"}",
    b"{\"a\":3,\"b\":\"three\"}",
    b"{\"a\":4,\"b\":\"four\"",
    b"{\"a\":5}",
];

fn decoder() -> Decoder {
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int64, false),
        field("b", DataType::Utf8),
    ]);
    Decoder::json(fields, Framing::Plain).unwrap()
}

#[test]
fn fail_names_the_first_bad_row() {
    let Err(DecodeError::Row(bad)) = decode(&decoder(), &VALUES, Mode::Fail) else {
        panic!("it decodes");
    };
    assert_eq!((bad.row, bad.column.as_str()), (1, "a"));
}

#[test]
fn drop_leaves_bad_rows_out() {
    let decoded = decode(&decoder(), &VALUES, Mode::Drop).unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(1), Some(3), Some(5)]);
    assert_eq!(texts(&decoded.batch, 1), [Some("one"), Some("three"), None]);
    let rows: Vec<_> = decoded.bad.iter().map(|bad| bad.row).collect();
    assert_eq!(rows, [1, 3]);

    let whole = decode(&Decoder::raw("value").unwrap(), &VALUES, Mode::Fail)
        .unwrap()
        .batch;
    let beside = rows_of(&whole, &decoded.bad).unwrap();
    let kept: Vec<_> = beside.column(0).as_binary::<i32>().iter().collect();
    assert_eq!(kept, [Some(VALUES[0]), Some(VALUES[2]), Some(VALUES[4])]);
}

#[test]
fn permissive_keeps_the_bytes_of_bad_rows() {
    let decoder = decoder();
    let schema = decoder.schema(Mode::Permissive, "_corrupt").unwrap();
    let tombstone = Row {
        value: None,
        schema_id: None,
    };
    let rows = VALUES
        .iter()
        .map(|value| super::row(value))
        .chain([tombstone]);
    let decoded = decoder
        .decode(rows, &schema, Mode::Permissive, Some(&Missing::default()))
        .unwrap();
    assert_eq!(
        numbers(&decoded.batch, 0),
        [Some(1), None, Some(3), None, Some(5), None]
    );
    let corrupt: Vec<_> = decoded.batch.column(2).as_binary::<i32>().iter().collect();
    assert_eq!(
        corrupt,
        [None, Some(VALUES[1]), None, Some(VALUES[3]), None, None]
    );
    assert_eq!(decoded.bad.len(), 2);
    assert!(decoder.schema(Mode::Permissive, "a").is_err());
}

#[test]
fn schema_ids_before_json_are_passed_over() {
    let fields = Fields::from(vec![field("a", DataType::Int64)]);
    let decoder = Decoder::json(fields, Framing::Confluent).unwrap();
    let guid = [&[1_u8][..], &[7; 16], b"{\"a\":2}"].concat();
    let values: [&[u8]; 4] = [b"\0\0\0\0\x05{\"a\":1}", &guid, b"{\"a\":3}", b"\0\0"];
    let decoded = decode(&decoder, &values, Mode::Drop).unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(1), Some(2)]);
    assert!(decoded.bad[0].reason.contains("first byte is 123"));
    let header = Row {
        value: Some(b"{\"a\":4}"),
        schema_id: Some(&guid[..17]),
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
    assert_eq!(numbers(&decoded.batch, 0), [Some(4)]);
}

#[test]
fn csv_fills_columns_in_order() {
    let fields = Fields::from(vec![
        field("a", DataType::Int64),
        field("b", DataType::Utf8),
    ]);
    let decoder = Decoder::csv(fields, b',').unwrap();
    let values: [&[u8]; 9] = [
        b"1,one\n",
        b"2,\"two, \"\"2\"\"\"",
        b",\r\n",
        b"4,\"\"",
        b"\"\",\" \"",
        b"x,y",
        b"1",
        b"1,2,3",
        b"1,\"open",
    ];
    let decoded = decode(&decoder, &values, Mode::Drop).unwrap();
    assert_eq!(
        numbers(&decoded.batch, 0),
        [Some(1), Some(2), None, Some(4), None]
    );
    // An empty field is null with quotes, too, as Spark 4.3 reads it.
    assert_eq!(
        texts(&decoded.batch, 1),
        [Some("one"), Some("two, \"2\""), None, None, Some(" ")]
    );
    assert_eq!(decoded.bad.len(), 4);
}

#[test]
fn text_is_checked_and_bytes_are_not() {
    let values: [&[u8]; 2] = ["é".as_bytes(), b"\xff"];
    let decoded = decode(&Decoder::text("value").unwrap(), &values, Mode::Drop).unwrap();
    assert_eq!(texts(&decoded.batch, 0), [Some("é")]);
    assert_eq!(
        decode(&Decoder::raw("value").unwrap(), &values, Mode::Fail)
            .unwrap()
            .batch
            .num_rows(),
        2
    );
}

#[test]
fn selected_columns_are_those_of_the_whole_in_the_order_asked_for() {
    let whole = Fields::from(vec![
        field("a", DataType::Int64),
        field("b", DataType::Utf8),
        field("c", DataType::Int64),
    ]);
    let avro = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": "string"}, {"name": "c", "type": "long"}]}"#;
    // 1, "x", 3
    let framed: &[u8] = b"\x02\x02x\x06";
    let decoders: [(Decoder, &[u8]); 4] = [
        (
            Decoder::json(whole.clone(), Framing::Plain).unwrap(),
            b"{\"a\":1,\"b\":\"x\",\"c\":3}",
        ),
        (Decoder::csv(whole.clone(), b',').unwrap(), b"1,\"x\",3"),
        (
            Decoder::avro(avro, &[], None, Framing::Plain, None).unwrap(),
            framed,
        ),
        (
            Decoder::avro_to(whole, Some(avro), Framing::Plain).unwrap(),
            framed,
        ),
    ];
    for (decoder, value) in decoders {
        let decoder = decoder.select(&["c".into(), "a".into()]).unwrap();
        let batch = decode(&decoder, &[value], Mode::Fail).unwrap().batch;
        let names: Vec<_> = batch
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(names, ["c", "a"]);
        assert_eq!(numbers(&batch, 0), [Some(3)]);
        assert_eq!(numbers(&batch, 1), [Some(1)]);
        let again = decoder.select(&["a".into()]).unwrap();
        let batch = decode(&again, &[value], Mode::Fail).unwrap().batch;
        assert_eq!(numbers(&batch, 0), [Some(1)]);
        for (wrong, why) in [
            (
                vec!["b".to_owned()],
                "column \"b\" is selected, and the schema has a",
            ),
            (
                vec!["a".to_owned(), "a".to_owned()],
                "two fields named \"a\"",
            ),
            (vec![], "no column is selected"),
        ] {
            let error = again.clone().select(&wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

#[test]
fn fields_of_csv_that_are_not_selected_are_counted_and_not_read() {
    let fields = Fields::from(vec![
        field("a", DataType::Int64),
        field("b", DataType::Int64),
    ]);
    let decoder = Decoder::csv(fields, b',').unwrap();
    let decoder = decoder.select(&["b".into()]).unwrap();
    let decoded = decode(
        &decoder,
        &[b"x,2", b"2", b"1,2,3", b"\"a,b\",4"],
        Mode::Drop,
    )
    .unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(2), Some(4)]);
    let rows: Vec<_> = decoded.bad.iter().map(|bad| bad.row).collect();
    assert_eq!(rows, [1, 2]);
}

/// As Spark 4.3 reads a `timestamp_ntz` by `from_json` and `from_csv`.
#[test]
fn a_local_timestamp_is_a_text_without_a_zone() {
    let micros = |zone: Option<&str>| {
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        Fields::from(vec![field("x", data_type)])
    };
    let local = [
        "2026-11-23T09:52:20",
        "2026-11-23 09:52:20.5",
        "2026-11-23",
        "2026-11-23T09:52",
    ];
    let zoned = [
        "2026-11-23T09:52:20Z",
        "2026-11-23T09:52:20+01:00",
        "2026-11-23 09:52:20 UTC",
        "2026-11-23T09:52:20GMT",
    ];
    let quoted = |texts: &[&str]| -> Vec<String> {
        texts
            .iter()
            .map(|text| format!("{{\"x\":\"{text}\"}}"))
            .collect()
    };
    let plain =
        |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
    let good = |decoder: &Decoder, texts: &[String]| -> usize {
        let values: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        decode(decoder, &values, Mode::Drop)
            .unwrap()
            .batch
            .num_rows()
    };
    let json = |zone| Decoder::json(micros(zone), Framing::Plain).unwrap();
    let csv = |zone| Decoder::csv(micros(zone), b',').unwrap();
    assert_eq!(good(&json(None), &quoted(&local)), 4);
    assert_eq!(good(&json(None), &quoted(&zoned)), 0);
    assert_eq!(good(&csv(None), &plain(&local)), 4);
    assert_eq!(good(&csv(None), &plain(&zoned)), 0);
    for zone in ["UTC", "Europe/Berlin"] {
        let all = [local, zoned].concat();
        assert_eq!(good(&json(Some(zone)), &quoted(&all)), 8);
        assert_eq!(good(&csv(Some(zone)), &plain(&all)), 8);
    }
    // A number counts from 1970 in UTC.
    let number = ["{\"x\":0}".to_owned()];
    assert_eq!(good(&json(None), &number), 0);
    assert_eq!(good(&json(Some("UTC")), &number), 1);
    let nested = DataType::List(Arc::new(field(
        "element",
        micros(None)[0].data_type().clone(),
    )));
    let decoder = Decoder::json(Fields::from(vec![field("x", nested)]), Framing::Plain).unwrap();
    let bad = decode(&decoder, &[b"{\"x\":[\"2026-11-23T00:00Z\"]}"], Mode::Drop)
        .unwrap()
        .bad;
    assert_eq!(
        bad[0].to_string(),
        "column x[0]: a local timestamp as 2026-11-23T09:52:20.5 is wanted, not 2026-11-23T00:00Z"
    );
}
