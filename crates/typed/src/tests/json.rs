use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::{decode, field, numbers, one, texts};
use crate::{Decoder, Framing, Mode};

fn timestamp(json: &str) -> Result<i64, String> {
    let batch = one(
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        json,
    )?;
    Ok(batch
        .column(0)
        .as_primitive::<TimestampMicrosecondType>()
        .value(0))
}

fn decimal(json: &str) -> Result<i128, String> {
    let batch = one(DataType::Decimal128(6, 2), json)?;
    Ok(batch.column(0).as_primitive::<Decimal128Type>().value(0))
}

fn text(json: &str) -> Result<String, String> {
    Ok(texts(&one(DataType::Utf8, json)?, 0)[0].unwrap().to_owned())
}

#[test]
fn fields_come_in_any_order_and_some_not_at_all() {
    let fields = Fields::from(vec![
        field("a", DataType::Int64),
        field("b", DataType::Utf8),
    ]);
    let decoder = Decoder::json(fields, Framing::Plain).unwrap();
    let values: [&[u8]; 5] = [
        b"{\"b\":\"x\",\"a\":1}",
        b" { \"a\" : 2 , \"extra\" : [ {\"a\" : 9}, \"]\", null ] } ",
        b"{}",
        b"{\"a\":null,\"b\":null}",
        b"{\"a\":5,\"a\":6,\"b\":\"first\",\"b\":\"last\"}",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    assert_eq!(numbers(&batch, 0), [Some(1), Some(2), None, None, Some(6)]);
    assert_eq!(
        texts(&batch, 1),
        [Some("x"), None, None, None, Some("last")]
    );
}

#[test]
fn a_token_of_another_type_is_named() {
    assert_eq!(
        one(DataType::Int64, r#"{"x":"5"}"#).unwrap_err(),
        "column x: int64 is wanted, not \"5\""
    );
    assert_eq!(
        one(DataType::Int64, r#"{"x":1.0}"#).unwrap_err(),
        "column x: int64 is wanted, not 1.0"
    );
    assert_eq!(
        one(DataType::Int8, r#"{"x":128}"#).unwrap_err(),
        "column x: 128 is out of the range of int8"
    );
    assert_eq!(
        one(DataType::Boolean, r#"{"x":1}"#).unwrap_err(),
        "column x: boolean is wanted, not 1"
    );
    assert_eq!(
        one(DataType::Float64, r#"{"x":"5"}"#).unwrap_err(),
        "column x: double is wanted, not 5"
    );
    assert!(
        one(DataType::Int64, r#"[{"x":5}]"#)
            .unwrap_err()
            .starts_with("a JSON object is wanted")
    );
}

#[test]
fn what_is_not_json_is_refused() {
    for json in [
        "",
        " ",
        "{",
        "{\"x\"",
        "{\"x\":",
        "{\"x\":1",
        "{\"x\":1,",
        "{\"x\":1,}",
        "{x:1}",
        "{\"x\":1}}",
        "{\"x\":1} 2",
        "{\"x\":01}",
        "{\"x\":1.}",
        "{\"x\":.5}",
        "{\"x\":1e}",
        "{\"x\":+1}",
        "{\"x\":--1}",
        "{\"x\":-}",
        "{\"y\":tru}",
        "{\"y\":[1,]}",
        "{\"y\":[1 2]}",
        "{\"y\":\"\t\"}",
        "{\"y\":\"\\x\"",
        "{\"x\":1,,\"y\":2}",
        "nul",
        "\u{feff}{\"x\":1}",
    ] {
        assert!(one(DataType::Float64, json).is_err(), "{json:?}");
    }
}

#[test]
fn strings_are_unescaped_and_other_tokens_kept_as_text() {
    assert_eq!(
        text(r#"{"x":"a\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00"}"#).unwrap(),
        "a\"\\/\u{8}\u{c}\n\r\té\u{e9}\u{1f600}"
    );
    assert_eq!(
        text(r#"{"x":{"a": [1, "}"]}}"#).unwrap(),
        r#"{"a": [1, "}"]}"#
    );
    assert_eq!(text(r#"{"x":-1.50e3}"#).unwrap(), "-1.50e3");
    assert_eq!(
        text(r#"{"x":"abcdefgh ijklmnop \"q\" rstuvwxyz"}"#).unwrap(),
        "abcdefgh ijklmnop \"q\" rstuvwxyz"
    );
    assert!(text(r#"{"x":"\u12"}"#).is_err());
}

/// What Spark 4.3 makes of the same, as are the cases of the tests that follow.
#[test]
fn a_surrogate_that_stands_alone_is_a_question_mark() {
    for (json, wanted) in [
        (r"\ud83d", "?"),
        (r"\ude00", "?"),
        (r"\ud83dA", "?A"),
        (r"\ud83d\u0041", "?A"),
        (r"\ud83d\ud83d\ude00", "?\u{1f600}"),
        (r"\ud83d\n", "?\n"),
    ] {
        assert_eq!(text(&format!("{{\"x\":\"{json}\"}}")).unwrap(), wanted);
    }
    assert!(text(r#"{"x":"\ud83d\u12"}"#).is_err());
}

#[test]
fn quotes_may_be_single_ones() {
    for (json, wanted) in [
        (r#"{"x":'a'}"#, "a"),
        (r#"{'x':'a\'b'}"#, "a'b"),
        (r#"{"x":"a\'b"}"#, "a'b"),
        (r#"{"x":'a"b'}"#, "a\"b"),
        (r#"{'x':"a'b"}"#, "a'b"),
        (r#"{'y':'"}','x':'abcdefgh ijklmnop'}"#, "abcdefgh ijklmnop"),
        (r#"{'y':{'z':['\'']},"x":''}"#, ""),
    ] {
        assert_eq!(text(json).unwrap(), wanted, "{json}");
    }
    assert_eq!(decimal("{'x':'1.5'}"), Ok(150));
    assert_eq!(timestamp("{'x':'1970-01-01T00:00:00.000001'}"), Ok(1));
    for bad in [r#"{"x":'a"}"#, r#"{"x":"a'}"#, r#"{'x":1}"#, "{\"x\":'\t'}"] {
        assert!(text(bad).is_err(), "{bad}");
    }
    let map = crate::column::map(DataType::Utf8, DataType::Int32, true);
    assert!(one(map, "{'x':{'a':1}}").is_ok());
}

#[test]
fn what_is_not_utf_8_is_a_replacement_character() {
    let decoder = Decoder::json(
        Fields::from(vec![field("x", DataType::Utf8)]),
        Framing::Plain,
    )
    .unwrap();
    for (bytes, wanted) in [
        (&b"a\xffb"[..], "a\u{fffd}b"),
        (b"\xe0\x80", "\u{fffd}\u{fffd}"),
        (b"\xed\xa0\x80\xed\xbf\xbf", "\u{fffd}\u{fffd}"),
        (b"\xf0\x9f\x98", "\u{fffd}"),
        (b"\xc3", "\u{fffd}"),
        (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xe2(\xa1\xc3\xa9", "\u{fffd}(\u{fffd}\u{e9}"),
        (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        let value = [b"{\"x\":\"", bytes, b"\"}"].concat();
        let batch = decode(&decoder, &[&value], Mode::Fail).unwrap().batch;
        assert_eq!(texts(&batch, 0), [Some(wanted)], "{bytes:?}");
    }
    assert!(decode(&decoder, &[b"\xff{}"], Mode::Fail).is_err());
}

#[test]
fn infinities_have_the_names_that_spark_reads() {
    let double = |json: &str| {
        one(DataType::Float64, &format!("{{\"x\":{json}}}"))
            .map(|batch| batch.column(0).as_primitive::<Float64Type>().value(0))
    };
    for name in ["Infinity", "+Infinity", "+INF"] {
        assert_eq!(double(name), Ok(f64::INFINITY));
        assert_eq!(double(&format!("\"{name}\"")), Ok(f64::INFINITY));
    }
    for name in ["-Infinity", "-INF"] {
        assert_eq!(double(name), Ok(f64::NEG_INFINITY));
        assert_eq!(double(&format!("'{name}'")), Ok(f64::NEG_INFINITY));
    }
    for bad in ["INF", "\"INF\"", "\"inf\"", "nan", "\"\"", "+1", "+", "-I"] {
        assert!(double(bad).is_err(), "{bad}");
    }
    // The whole number -0 has no sign.
    assert!(double("-0").unwrap().is_sign_positive());
    assert!(double("-0.0").unwrap().is_sign_negative());
    assert_eq!(text(r#"{"y":-INF,"x":"a"}"#).unwrap(), "a");
    assert!(decimal(r#"{"x":-INF}"#).is_err());
}

#[test]
fn base64_may_end_and_begin_again() {
    let bytes = |json: &str| {
        one(DataType::Binary, &format!("{{\"x\":\"{json}\"}}"))
            .map(|batch| batch.column(0).as_binary::<i32>().value(0).to_vec())
    };
    for (json, wanted) in [
        ("AAEC", &[0, 1, 2][..]),
        ("AAE=", &[0, 1]),
        ("AB==", &[0]),
        ("AA==AA==", &[0, 0]),
        (r"AAEC\n AAEC", &[0, 1, 2, 0, 1, 2]),
        (r"\bAAEC\u0000AAEC", &[0, 1, 2, 0, 1, 2]),
        (r"\b", &[]),
        ("", &[]),
    ] {
        assert_eq!(bytes(json).unwrap(), wanted, "{json}");
    }
    for bad in ["AAE", "AA E=", "A", "AA=", "-_-_", "!!"] {
        assert!(bytes(bad).is_err(), "{bad}");
    }
}

#[test]
fn numbers_are_exact() {
    let whole = |json: &str| {
        one(DataType::Int64, json).map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0))
    };
    assert_eq!(whole(r#"{"x":-9223372036854775808}"#), Ok(i64::MIN));
    assert_eq!(whole(r#"{"x":9223372036854775807}"#), Ok(i64::MAX));
    assert!(whole(r#"{"x":9223372036854775808}"#).is_err());
    let double = |json: &str| {
        one(DataType::Float64, json)
            .map(|batch| batch.column(0).as_primitive::<Float64Type>().value(0))
    };
    assert_eq!(double(r#"{"x":0.1}"#), Ok(0.1));
    assert_eq!(double(r#"{"x":-1e-7}"#), Ok(-1e-7));
    assert_eq!(
        double(r#"{"x":123456789012345678901234567890}"#),
        Ok(123456789012345678901234567890.0)
    );
    assert!(double(r#"{"x":NaN}"#).unwrap().is_nan());
    assert_eq!(double(r#"{"x":-Infinity}"#), Ok(f64::NEG_INFINITY));
    assert_eq!(double(r#"{"x":"Infinity"}"#), Ok(f64::INFINITY));
    let float = one(DataType::Float32, r#"{"x":0.1}"#).unwrap();
    assert_eq!(float.column(0).as_primitive::<Float32Type>().value(0), 0.1);
}

/// Up to 19 digits are read in one pass; what is longer or has an exponent is left to the standard library.
#[test]
fn long_and_short_numbers_are_the_nearest_ones() {
    let mut texts = vec![];
    for digits in [
        "0",
        "5",
        "42",
        "9007199254740992",
        "9007199254740993",
        "9007199254740995",
        "9999999999999999",
        "9223372036854775807",
        "9223372036854775808",
        "9999999999999999999",
        "18446744073709551616",
        "123456789012345678901",
    ] {
        for point in 0..digits.len() {
            let (whole, fraction) = digits.split_at(digits.len() - point);
            let fraction = if point > 0 {
                format!(".{fraction}")
            } else {
                String::new()
            };
            texts.push(format!("{whole}{fraction}"));
            texts.push(format!("-{whole}{fraction}e-2"));
            texts.push(format!("-{whole}{fraction}"));
        }
        texts.push(format!("0.{}{digits}", "0".repeat(22)));
        texts.push(format!("0.00{digits}"));
    }
    for text in texts {
        let batch = one(DataType::Float64, &format!(r#"{{"x":{text}}}"#));
        let value = batch
            .unwrap()
            .column(0)
            .as_primitive::<Float64Type>()
            .value(0);
        // The whole number -0 has no sign.
        let wanted: f64 = if text == "-0" {
            0.0
        } else {
            text.parse().unwrap()
        };
        assert_eq!(value.to_bits(), wanted.to_bits(), "{text}");
    }
}

#[test]
fn whole_numbers_end_where_their_column_does() {
    let fits =
        |data_type: DataType, text: &str| one(data_type, &format!(r#"{{"x":{text}}}"#)).is_ok();
    for (data_type, most, least) in [
        (DataType::Int8, 127, -128),
        (DataType::Int16, 32_767, -32_768),
        (DataType::Int32, i64::from(i32::MAX), i64::from(i32::MIN)),
        (DataType::UInt8, 255, 0),
        (DataType::UInt16, 65_535, 0),
        (DataType::UInt32, i64::from(u32::MAX), 0),
    ] {
        for inside in [least, 0, most] {
            assert!(
                fits(data_type.clone(), &inside.to_string()),
                "{data_type} {inside}"
            );
        }
        for outside in [least - 1, most + 1, i64::MIN, i64::MAX] {
            assert!(
                !fits(data_type.clone(), &outside.to_string()),
                "{data_type} {outside}"
            );
        }
    }
    assert!(fits(DataType::UInt64, "18446744073709551615"));
    assert!(!fits(DataType::UInt64, "18446744073709551616"));
    assert!(!fits(DataType::Int64, "-9223372036854775809"));
}

/// The next name of the schema is compared with the text as it is written.
#[test]
fn a_name_is_found_however_it_is_written() {
    let names = ["plain", "it's", "a\\b", "say \"x\"", "tab\t", "ünï", ""];
    let fields: Vec<_> = names
        .iter()
        .map(|name| field(name, DataType::Int64))
        .collect();
    let decoder = Decoder::json(Fields::from(fields), Framing::Plain).unwrap();
    let values: [&[u8]; 4] = [
        r#"{"plain":1,"it's":2,"a\\b":3,"say \"x\"":4,"tab\t":5,"ünï":6,"":7}"#.as_bytes(),
        r#"{"pl\u0061in" : 1, 'it\'s' : 2, 'a\\b':3, 'say "x"':4,"tab\u0009":5,"\u00fcnï" :6, '':7}"#.as_bytes(),
        // These are other names: of a longer and a shorter text, and of an escape.
        r#"{"plain2":1,"it":2,"a\b":3}"#.as_bytes(),
        b"{\"plain\" :1,\"it's\"\n:2}",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    for (column, wanted) in (1..).zip(0..names.len()) {
        let found = numbers(&batch, wanted);
        let in_last = (column <= 2).then_some(column);
        assert_eq!(
            found,
            [Some(column), Some(column), None, in_last],
            "{}",
            names[wanted]
        );
    }
    let control: [&[u8]; 1] = [b"{\"tab\t\":5}"];
    assert!(decode(&decoder, &control, Mode::Fail).is_err());
}

#[test]
fn decimals_are_rounded_half_up() {
    assert_eq!(decimal(r#"{"x":12.34}"#), Ok(1234));
    assert_eq!(decimal(r#"{"x":12.345}"#), Ok(1235));
    assert_eq!(decimal(r#"{"x":-12.345}"#), Ok(-1235));
    assert_eq!(decimal(r#"{"x":12.3449}"#), Ok(1234));
    assert_eq!(decimal(r#"{"x":"0.005"}"#), Ok(1));
    assert_eq!(decimal(r#"{"x":0.0049}"#), Ok(0));
    assert_eq!(decimal(r#"{"x":1e3}"#), Ok(100_000));
    assert_eq!(decimal(r#"{"x":1.5e-2}"#), Ok(2));
    assert_eq!(decimal(r#"{"x":0e99999999}"#), Ok(0));
    // Commas in a text do not count.
    assert_eq!(decimal(r#"{"x":"1,234.50"}"#), Ok(123_450));
    assert_eq!(decimal(r#"{"x":",-1,2"}"#), Ok(-1_200));
    assert_eq!(decimal(r#"{"x":"+5."}"#), Ok(500));
    assert!(decimal(r#"{"x":","}"#).is_err());
    assert!(decimal(r#"{"x":" 5"}"#).is_err());
    assert_eq!(decimal(r#"{"x":5e-999999999}"#), Ok(0));
    for large in [
        r#"{"x":10000}"#,
        r#"{"x":9999.999}"#,
        r#"{"x":1e999999999}"#,
        r#"{"x":"1e99999999999"}"#,
        r#"{"x":"."}"#,
    ] {
        assert!(decimal(large).is_err(), "{large}");
    }
}

#[test]
fn timestamps_have_the_forms_that_spark_reads() {
    let noon = 1_795_435_200_000_000; // 2026-11-23T12:00:00Z
    for json in [
        "2026-11-23T12:00:00Z",
        "2026-11-23 12:00:00",
        "2026-11-23T12:00",
        "2026-11-23T12:00:00.000000",
        "2026-11-23T13:00:00+01:00",
        "2026-11-23T13:00:00+0100",
        "2026-11-23T13:00:00+01",
        "2026-11-23T06:30:00-05:30",
        "2026-11-23T12:00:00 UTC",
        "2026-11-23T13:00:00 GMT+1",
    ] {
        assert_eq!(
            timestamp(&format!("{{\"x\":\"{json}\"}}")),
            Ok(noon),
            "{json}"
        );
    }
    assert_eq!(timestamp(r#"{"x":1795435200}"#), Ok(noon));
    assert_eq!(
        timestamp(r#"{"x":"2026-11-23T12:00:00.123456789Z"}"#),
        Ok(noon + 123_456)
    );
    assert_eq!(timestamp(r#"{"x":"1969-12-31T23:59:59.9Z"}"#), Ok(-100_000));
    assert_eq!(timestamp(r#"{"x":"2024-2-29"}"#), Ok(1_709_164_800_000_000));
    assert_eq!(
        timestamp(r#"{"x":"0001-01-01"}"#),
        Ok(-62_135_596_800_000_000)
    );
    // The beginning of a year, a month and an hour; any number of digits of a second.
    let moment = |text: &str| timestamp(&format!("{{\"x\":\"{text}\"}}"));
    assert_eq!(moment("1970"), Ok(0));
    assert_eq!(moment("1970-1"), Ok(0));
    assert_eq!(moment(r"\t1970-01-01 00\u007f"), Ok(0));
    assert_eq!(moment("1970-01-01T00:00:00."), Ok(0));
    assert_eq!(moment("1970-01-01T00:00:00.12345678901234"), Ok(123_456));
    for (zone, seconds) in [
        ("UT", 0),
        ("UT-1", 3600),
        ("-1:3", 3780),
        ("-013015", 5415),
        ("-1:30:15", 5415),
        (" -18:00", 64_800),
        (".+0000", 0),
    ] {
        let text = format!("1970-01-01T00:00:00{zone}");
        assert_eq!(moment(&text), Ok(seconds * 1_000_000), "{zone}");
    }
    for zone in ["+130", "+18:01", "+1:3:5", "+-1", "z", "+1x", "UTCx"] {
        assert!(
            moment(&format!("1970-01-01T00:00:00{zone}")).is_err(),
            "{zone}"
        );
    }
    for bad in [
        "2026-11-23T24:00:00Z",
        "2026-02-29",
        "2026-13-01",
        "2026-11-23T",
        "2026-11-23T12:00:00+19:00",
        "26-11-23",
        "2026-11-23T12:00:00Mars",
        "2026-11-23T12:60:00",
        "",
        "2026-",
        "2026 x",
        "2026-11T00",
        "2026-11-23x",
        "2026-11-23Z",
        "2026-11-23T10:",
        "1234567-01-01",
        "999999-01-01T00:00:00.1234567891Z",
    ] {
        assert!(timestamp(&format!("{{\"x\":\"{bad}\"}}")).is_err(), "{bad}");
    }
    let days = |json: &str| {
        one(DataType::Date32, json)
            .map(|batch| batch.column(0).as_primitive::<Date32Type>().value(0))
    };
    assert_eq!(days(r#"{"x":"1970-01-02"}"#), Ok(1));
    assert_eq!(days(r#"{"x":"1969-12-31T23:00:00+05:00"}"#), Ok(-1));
    for text in [
        "1970",
        "1970-1",
        "1970-01-01 tea",
        "1970-01-01T",
        r"\n1970-1-1\u0001",
    ] {
        assert_eq!(days(&format!("{{\"x\":\"{text}\"}}")), Ok(0), "{text}");
    }
    assert_eq!(days(r#"{"x":"-0044-03-15"}"#), Ok(-735_525));
    assert!(days(r#"{"x":"1234567-01-01"}"#).is_ok());
    for bad in [
        "1970-01-01x",
        "1970-01 tea",
        "1970-",
        "1970-01-",
        "9999999-01-01",
    ] {
        assert!(days(&format!("{{\"x\":\"{bad}\"}}")).is_err(), "{bad}");
    }
}

#[test]
fn nested_values_and_the_path_to_a_bad_one() {
    let item = DataType::Struct(Fields::from(vec![field("price", DataType::Float64)]));
    let list = DataType::List(Arc::new(Field::new("element", item, true)));
    let map = crate::column::map(DataType::Utf8, DataType::Int32, true);
    let order = DataType::Struct(Fields::from(vec![
        field("items", list),
        field("counts", map),
    ]));
    let batch = one(
        order.clone(),
        r#"{"x":{"items":[{"price":1},null,{},{"price":2.5}],"counts":{"a":1,"b":null}}}"#,
    )
    .unwrap();
    let order_of = |batch: &RecordBatch| batch.column(0).as_struct().clone();
    let items = order_of(&batch).column(0).as_list::<i32>().value(0);
    assert_eq!(items.len(), 4);
    assert!(items.is_null(1));
    let prices: Vec<_> = items
        .as_struct()
        .column(0)
        .as_primitive::<Float64Type>()
        .iter()
        .collect();
    assert_eq!(prices, [Some(1.0), None, None, Some(2.5)]);
    let counts = order_of(&batch).column(1).as_map().value(0);
    let values: Vec<_> = counts
        .column(1)
        .as_primitive::<Int32Type>()
        .iter()
        .collect();
    assert_eq!(values, [Some(1), None]);

    let bad = one(order, r#"{"x":{"items":[{"price":1},{"price":true}]}}"#).unwrap_err();
    assert_eq!(bad, "column x.items[1].price: double is wanted, not true");
}

#[test]
fn a_column_that_is_not_nullable_wants_a_value() {
    let fields = Fields::from(vec![Field::new("x", DataType::Int8, false)]);
    let decoder = Decoder::json(fields, Framing::Plain).unwrap();
    let values: [&[u8]; 3] = [b"{\"x\":1}", b"{}", b"{\"x\":null}"];
    let decoded = decode(&decoder, &values, Mode::Drop).unwrap();
    assert_eq!(
        decoded.batch.column(0).as_primitive::<Int8Type>().values(),
        &[1]
    );
    let reasons: Vec<_> = decoded.bad.iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "column x: it is missing, and the column is not nullable",
            "column x: it is null, and the column is not nullable"
        ]
    );
}

#[test]
fn deep_nesting_ends() {
    let deep = format!("{{\"y\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(one(DataType::Int64, &deep).unwrap_err().contains("levels"));
}

#[test]
fn a_json_schema_has_columns() {
    let decoder = Decoder::json_schema(
        r##"{"type":"object","required":["id"],"definitions":{"at":{"type":"string","format":"date-time"}},"properties":{
            "id":{"type":"integer"},"name":{"type":["null","string"]},"at":{"$ref":"#/definitions/at"},
            "tags":{"type":"array","items":{"oneOf":[{"type":"null"},{"type":"number"}]}},
            "extra":{"type":"object","additionalProperties":{"type":"boolean"}}}}"##,
        Framing::Plain, None)
    .unwrap();
    let schema = decoder.schema(Mode::Fail, "").unwrap();
    let types: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type().clone()))
        .collect();
    assert_eq!(types[0], ("id", DataType::Int64));
    assert_eq!(types[1], ("name", DataType::Utf8));
    assert_eq!(
        types[2],
        (
            "at",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        )
    );
    assert_eq!(
        types[3].1,
        DataType::List(Arc::new(field("element", DataType::Float64)))
    );
    assert!(matches!(types[4].1, DataType::Map(..)));

    assert!(Decoder::json_schema(r#"{"type":"string"}"#, Framing::Plain, None).is_err());
}

#[test]
fn a_property_without_one_type_is_the_text_of_its_value() {
    let schema = r##"{"type":"object","definitions":{"tree":{"type":"object","properties":{"under":{"$ref":"#/definitions/tree"}}}},
        "properties":{"id":{"type":"integer"},"any":{},"yes":true,"two":{"type":["string","integer"]},"object":{"type":"object"},
        "one":{"anyOf":[{"type":"string"},{"type":"number"}]},"list":{"type":"array"},"enum":{"enum":["a",1]},
        "tree":{"$ref":"#/definitions/tree"}}}"##;
    let decoder = Decoder::json_schema(schema, Framing::Plain, None).unwrap();
    let value = br#"{"id":1,"any":[1, {}],"yes":"x","two":5,"object":{"a":1},"one":1.5,"list":[1,"a"],"enum":true,
        "tree":{"under":{"under":{}}}}"#;
    let batch = decode(&decoder, &[value], Mode::Fail).unwrap().batch;
    let column = |name: &str| batch.column_by_name(name).unwrap();
    for (name, wanted) in [
        ("any", "[1, {}]"),
        ("yes", "x"),
        ("two", "5"),
        ("object", r#"{"a":1}"#),
        ("one", "1.5"),
        ("enum", "true"),
    ] {
        assert_eq!(column(name).as_string::<i32>().value(0), wanted, "{name}");
    }
    let list = column("list").as_list::<i32>().value(0);
    assert_eq!(list.as_string::<i32>().value(1), "a");
    let tree = column("tree").as_struct().column(0);
    assert_eq!(tree.as_string::<i32>().value(0), r#"{"under":{}}"#);
}

#[test]
fn a_json_schema_is_wrong_only_in_what_is_selected() {
    let schema = r##"{"$ref":"#/definitions/root","definitions":{"root":{"type":"object",
        "properties":{"id":{"type":"integer"},"name":{"type":"text"},"far":{"$ref":"other.json"}}}}}"##;
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Decoder::json_schema(schema, Framing::Plain, Some(&names))
            .and_then(|decoder| decoder.select(&names))
    };
    let value: &[u8] = b"{\"id\":1,\"name\":2}";
    let batch = decode(&of(&["id"]).unwrap(), &[value], Mode::Fail);
    assert_eq!(numbers(&batch.unwrap().batch, 0), [Some(1)]);
    assert!(of(&["name"]).is_err());
    let missing = of(&["id", "x"]).unwrap_err().to_string();
    assert!(missing.contains("column \"x\" is selected, and the schema has"));
}
