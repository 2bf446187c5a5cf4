//! Which type of a reader's schema takes a value, as Avro's Java library (1.12.1) decides it.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Time32MillisecondType;
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::{decode, texts};
use crate::{DecodeError, Decoder, Framing, Mode};

/// The member of the reader's union that takes the value; `Err` is why none does.
fn taken(writer: &str, reader: &str, value: &[u8]) -> Result<usize, String> {
    let decoder = Decoder::avro(reader, &[], Some(writer), Framing::Plain, None)
        .map_err(|error| error.to_string())?;
    let batch = match decode(&decoder, &[value], Mode::Fail) {
        Ok(decoded) => decoded.batch,
        Err(DecodeError::Row(bad)) => return Err(bad.to_string()),
        Err(other) => panic!("{other}"),
    };
    let union = batch.column(0).as_struct();
    let there: Vec<usize> = (0..union.num_columns())
        .filter(|member| union.column(*member).is_valid(0))
        .collect();
    assert_eq!(there.len(), 1);
    Ok(there[0])
}

fn record(name: &str, more: &str, field: &str) -> String {
    format!(
        r#"{{"type":"record","name":"{name}"{more},"fields":[{{"name":"{field}","type":"int"}}]}}"#
    )
}

fn empty(name: &str, more: &str) -> String {
    format!(r#"{{"type":"record","name":"{name}"{more},"fields":[]}}"#)
}

fn of_enum(name: &str, more: &str) -> String {
    format!(r#"{{"type":"enum","name":"{name}"{more},"symbols":["P"]}}"#)
}

fn fixed(name: &str, size: usize, more: &str) -> String {
    format!(r#"{{"type":"fixed","name":"{name}"{more},"size":{size}}}"#)
}

fn union(members: &[String]) -> String {
    format!("[{}]", members.join(","))
}

const N: &str = r#","namespace":"n""#;
const M: &str = r#","namespace":"m""#;

#[test]
fn an_alias_names_the_member_of_a_union() {
    let alias = |name: &str| format!(r#","aliases":["{name}"]"#);
    let record = |name: &str, more: &str| record(name, more, "x");
    let writer = union(&[record("A", ""), record("C", "")]);
    let reader = union(&[record("C", ""), record("A2", &alias("A"))]);
    assert_eq!(taken(&writer, &reader, b"\0\x0e"), Ok(1));
    assert_eq!(taken(&writer, &reader, b"\x02\x0e"), Ok(0));

    let writer = union(&[of_enum("A", ""), of_enum("C", "")]);
    let reader = union(&[of_enum("C", ""), of_enum("A2", &alias("A"))]);
    assert_eq!(taken(&writer, &reader, b"\0\0"), Ok(1));
    assert_eq!(taken(&writer, &reader, b"\x02\0"), Ok(0));

    let writer = union(&[fixed("A", 1, ""), fixed("C", 1, "")]);
    let reader = union(&[fixed("C", 1, ""), fixed("A2", 1, &alias("A"))]);
    assert_eq!(taken(&writer, &reader, b"\0p"), Ok(1));
    assert_eq!(taken(&writer, &reader, b"\x02p"), Ok(0));

    // An alias without a namespace is of its type's; one that is another type's name is its name in the writer's schema, too.
    let reader = union(&[record("C", ""), record("A2", &(alias("A") + N))]);
    assert_eq!(taken(&record("A", N), &reader, b"\x0e"), Ok(1));
    assert_eq!(taken(&record("A", M), &reader, b"\x0e"), Ok(0));
    let reader = union(&[record("C", ""), record("A2", &alias("n.A"))]);
    assert_eq!(taken(&record("A", N), &reader, b"\x0e"), Ok(1));
    let reader = union(&[record("A", ""), record("B", &alias("A"))]);
    assert_eq!(taken(&record("A", ""), &reader, b"\x0e"), Ok(1));
    let writer = union(&[record("A", ""), record("C", "")]);
    let reader = union(&[record("C", &alias("A")), record("A", &alias("C"))]);
    assert_eq!(taken(&writer, &reader, b"\0\x0e"), Ok(0));
    assert_eq!(taken(&writer, &reader, b"\x02\x0e"), Ok(1));
    // The alias stays that of the writer's type when columns are selected.
    let row = |of: &str| {
        format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"u","type":{of}}},{{"name":"b","type":"int"}}]}}"#
        )
    };
    let decoder = Decoder::avro(
        &row(&reader),
        &[],
        Some(&row(&writer)),
        Framing::Plain,
        None,
    )
    .unwrap();
    let decoder = decoder.select(&["u".into()]).unwrap();
    let batch = decode(&decoder, &[b"\0\x0e\x02"], Mode::Fail)
        .unwrap()
        .batch;
    assert!(batch.column(0).as_struct().column(0).is_valid(0));
}

#[test]
fn nothing_is_promoted_to_an_enum_or_a_fixed_type() {
    for of in ["\"bytes\"", "\"string\""] {
        for named in [of_enum("E", ""), fixed("E", 1, "")] {
            let other = if of == "\"bytes\"" {
                "\"string\""
            } else {
                "\"bytes\""
            };
            let reader = union(&[named.clone(), other.to_owned()]);
            assert_eq!(taken(of, &reader, b"\x02P"), Ok(1), "{of} to {reader}");
            let refused =
                Decoder::avro(&named, &[], Some(of), Framing::Plain, None).map(|_| "it is read");
            assert!(
                refused.unwrap_err().to_string().contains("does not become"),
                "{of} to {named}"
            );
        }
    }
    let is_read = |writer: &str, reader: &str| {
        Decoder::avro(reader, &[], Some(writer), Framing::Plain, None).is_ok()
    };
    // Names are compared without namespaces, and sizes.
    assert!(is_read(&of_enum("E", N), &of_enum("E", M)));
    assert!(is_read(&fixed("E", 1, N), &fixed("E", 1, M)));
    assert!(!is_read(&of_enum("E", ""), &of_enum("F", "")));
    assert!(!is_read(&fixed("E", 1, ""), &fixed("F", 1, "")));
    assert!(!is_read(&fixed("E", 1, ""), &fixed("E", 2, "")));
    assert!(!is_read(&fixed("E", 1, ""), &of_enum("E", "")));
    assert!(!is_read(&of_enum("E", ""), &fixed("E", 1, "")));
    // Columns are no Avro schema, and take either.
    let fields = Fields::from(vec![Field::new("x", DataType::Utf8, true)]);
    let writer = format!(
        r#"{{"type":"record","name":"R","fields":[{{"name":"x","type":{}}}]}}"#,
        of_enum("E", "")
    );
    let decoder = Decoder::avro_to(fields, Some(&writer), Framing::Plain).unwrap();
    let batch = decode(&decoder, &[b"\0"], Mode::Fail).unwrap().batch;
    assert_eq!(texts(&batch, 0), [Some("P")]);
}

#[test]
fn a_member_of_the_name_takes_the_value_or_none_does() {
    let reader = union(&[empty("A", ""), record("B", "", "y")]);
    let missing = |result: Result<usize, String>| {
        let error = result.unwrap_err();
        assert!(
            error.contains("\"y\" is not in the writer's schema"),
            "{error}"
        );
    };
    missing(taken(&empty("B", ""), &reader, b""));
    missing(taken(&union(&[empty("B", "")]), &reader, b"\0"));
    // Another namespace is another name, and the fields decide then.
    assert_eq!(taken(&empty("B", N), &reader, b""), Ok(0));
    assert_eq!(taken(&empty("C", ""), &reader, b""), Ok(0));
    assert_eq!(taken(&record("C", "", "y"), &reader, b"\x0e"), Ok(0));
    let reader = union(&[record("A", "", "z"), record("B", "", "y")]);
    assert_eq!(taken(&record("C", "", "y"), &reader, b"\x0e"), Ok(1));
    let reader = union(&[record("A", "", "y"), record("B", M, "y")]);
    assert_eq!(taken(&record("B", N, "y"), &reader, b"\x0e"), Ok(1));

    let reader = union(&[of_enum("A", ""), of_enum("B", "")]);
    assert!(taken(&of_enum("C", ""), &reader, b"\0").is_err());
    let reader = union(&[fixed("E", 2, ""), "\"bytes\"".to_owned()]);
    assert!(taken(&fixed("E", 1, ""), &reader, b"p").is_err());
    let reader = union(&[fixed("A", 1, ""), fixed("B", 1, "")]);
    assert!(taken(&fixed("C", 1, ""), &reader, b"p").is_err());
    // The type itself comes before one that it is promoted to, whatever its logical type.
    let reader = r#"["double",{"type":"long","logicalType":"timestamp-micros"}]"#;
    assert_eq!(taken("\"long\"", reader, b"\x0e"), Ok(1));
    assert_eq!(
        taken("\"int\"", r#"["string","double","long"]"#, b"\x0e"),
        Ok(1)
    );
}

#[test]
fn few_types_do_not_make_many_plans() {
    const LEVELS: usize = 8;
    let mut reader =
        r#"{"type":"record","name":"T","fields":[{"name":"x","type":"int"}]}"#.to_owned();
    let mut references = vec![];
    let mut below = r#"["int"]"#.to_owned();
    for level in 0..LEVELS {
        let names: Vec<String> = (0..20)
            .map(|branch| format!("\"L{level}B{branch}\""))
            .collect();
        for name in &names {
            references.push(format!(
                r#"{{"type":"record","name":{name},"fields":[{{"name":"x","type":{below}}}]}}"#
            ));
        }
        below = format!("[{}]", names.join(","));
        reader = format!(
            r#"{{"type":"record","name":"R{level}","fields":[{{"name":"x","type":{reader}}}]}}"#
        );
    }
    let reader = Decoder::avro(&reader, &[], None, Framing::Confluent, None).unwrap();
    let mut decoder = reader;
    let id = crate::SchemaId::Number(1);
    decoder.add_writer(id, &below, &references);
    let Err(DecodeError::Row(bad)) = decode(&decoder, &[b"\0\0\0\0\x01\0"], Mode::Fail) else {
        panic!("it decodes");
    };
    assert!(
        bad.reason.contains("pairs of types to compare"),
        "{}",
        bad.reason
    );
}

/// An Arrow time is below a day, and so is Java's `LocalTime`.
#[test]
fn a_time_is_within_a_day() {
    let long = |value: i64| {
        let mut out = Vec::new();
        crate::avro::put_long(value, &mut out);
        out
    };
    let day = 86_400_000;
    let cases = [
        ("int", "time-millis", day),
        ("long", "time-micros", day * 1000),
    ];
    for (of, logical, day) in cases {
        let schema = format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"x","type":{{"type":"{of}","logicalType":"{logical}"}}}}]}}"#
        );
        let plain = schema.replace(&format!(r#","logicalType":"{logical}""#), "");
        let micros = Fields::from(vec![Field::new(
            "x",
            DataType::Time64(TimeUnit::Microsecond),
            true,
        )]);
        let decoders = [
            Decoder::avro(&schema, &[], None, Framing::Plain, None).unwrap(),
            // Of a writer without the logical type, and as another unit.
            Decoder::avro(&schema, &[], Some(&plain), Framing::Plain, None).unwrap(),
            Decoder::avro_to(micros, Some(&schema), Framing::Plain).unwrap(),
        ];
        for decoder in decoders {
            let values = [long(0), long(-1), long(day - 1), long(day)];
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let decoded = decode(&decoder, &values, Mode::Drop).unwrap();
            let bad: Vec<_> = decoded.bad.iter().map(|bad| bad.row).collect();
            assert_eq!(bad, [1, 3], "{logical}");
            assert!(decoded.bad[0].reason.contains("is not a time of day"));
        }
        let with_default = |default: i64| {
            let reader = schema.replace("}}]}", &format!(r#"}},"default":{default}}}]}}"#));
            let writer = r#"{"type":"record","name":"R","fields":[]}"#;
            Decoder::avro(&reader, &[], Some(writer), Framing::Plain, None)
        };
        let decoder = with_default(0).unwrap();
        let batch = decode(&decoder, &[b""], Mode::Fail).unwrap().batch;
        if of == "int" {
            let times = batch.column(0).as_primitive::<Time32MillisecondType>();
            assert_eq!(times.value(0), 0);
        }
        assert!(with_default(day).is_err() && with_default(-1).is_err());
    }
}

#[test]
fn the_default_of_a_decimal_has_no_more_digits_than_it() {
    let reader = |default: &str| {
        format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"x","default":"{default}","type":
               {{"type":"bytes","logicalType":"decimal","precision":2,"scale":0}}}}]}}"#
        )
    };
    let writer = r#"{"type":"record","name":"R","fields":[]}"#;
    // 99 and 100.
    assert!(Decoder::avro(&reader(r"\u0063"), &[], Some(writer), Framing::Plain, None).is_ok());
    let refused = Decoder::avro(&reader(r"\u0064"), &[], Some(writer), Framing::Plain, None);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("does not fit its type")
    );
}

#[test]
fn the_last_entry_of_a_key_counts() {
    let schema = r#"{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":"int"}}]}"#;
    let decoder = Decoder::avro(schema, &[], None, Framing::Plain, None).unwrap();
    // a 1, b 2 and a 3 in two blocks; one entry; then twenty, of which the keys are two.
    let many: Vec<u8> = std::iter::once(40)
        .chain((0..20_u8).flat_map(|at| [2, b'a' + at % 2, at * 2]))
        .chain([0])
        .collect();
    let values: [&[u8]; 3] = [
        b"\x04\x02a\x02\x02b\x04\x02\x02a\x06\0",
        b"\x02\x02a\x02\0",
        &many,
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    let maps = batch.column(0).as_map();
    let entries = |row: usize| {
        let entries = maps.value(row);
        let keys = entries.column(0).as_string::<i32>().clone();
        let values = entries
            .column(1)
            .as_primitive::<arrow_array::types::Int32Type>();
        keys.iter()
            .zip(values)
            .map(|(key, value)| (key.unwrap().to_owned(), value.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(entries(0), [("b".to_owned(), 2), ("a".to_owned(), 3)]);
    assert_eq!(entries(1), [("a".to_owned(), 1)]);
    assert_eq!(entries(2), [("a".to_owned(), 18), ("b".to_owned(), 19)]);
}
