use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray, StructArray,
    Time32SecondArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampSecondArray,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Fields};

use super::{decode, field};
use crate::{Decoder, EncodeError, Encoder, Framing, Mode};

/// A struct of columns that may have nulls.
pub(super) fn rows(columns: Vec<(&str, ArrayRef)>) -> StructArray {
    let columns = columns
        .into_iter()
        .map(|(name, array)| (Arc::new(field(name, array.data_type().clone())), array));
    StructArray::from(columns.collect::<Vec<(Arc<Field>, ArrayRef)>>())
}

pub(super) fn encoded(
    encoder: &Encoder,
    rows: &StructArray,
) -> Result<Vec<Option<Vec<u8>>>, String> {
    match encoder.encode(rows) {
        Ok(values) => Ok(values
            .iter()
            .map(|value| value.map(<[u8]>::to_vec))
            .collect()),
        Err(EncodeError::Row(bad)) => Err(format!("row {}: {bad}", bad.row)),
        Err(other) => Err(other.to_string()),
    }
}

/// The texts of one column `x`, cut out of their objects.
fn texts(array: impl Array + 'static) -> Vec<String> {
    let objects = encoded(&Encoder::json(), &rows(vec![("x", Arc::new(array))])).unwrap();
    objects
        .into_iter()
        .map(|object| {
            let object = String::from_utf8(object.unwrap()).unwrap();
            let value = object
                .strip_prefix("{\"x\":")
                .and_then(|rest| rest.strip_suffix('}'));
            value.unwrap_or("").to_owned()
        })
        .collect()
}

/// What Java writes, as Spark 4.3 on Java 17 does.
#[test]
fn numbers_have_the_text_that_java_gives_them() {
    let doubles = vec![
        1.0,
        1e7,
        1.5e-3,
        9.999e-4,
        4.9e-324,
        f64::MAX,
        123_456.789,
        -0.0,
        0.0,
        9_999_999.999,
        2e16,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1234.0,
        1_234_567.0,
        0.01,
    ];
    assert_eq!(
        texts(Float64Array::from(doubles)),
        [
            "1.0",
            "1.0E7",
            "0.0015",
            "9.999E-4",
            "4.9E-324",
            "1.7976931348623157E308",
            "123456.789",
            "-0.0",
            "0.0",
            "9999999.999",
            "2.0E16",
            "\"NaN\"",
            "\"Infinity\"",
            "\"-Infinity\"",
            "-1234.0",
            "1234567.0",
            "0.01",
        ]
    );
    let floats = vec![0.1, f32::MAX, 1.4e-45, 16_777_216.0];
    assert_eq!(
        texts(Float32Array::from(floats)),
        ["0.1", "3.4028235E38", "1.4E-45", "1.6777216E7"]
    );
    let decimals = |precision, scale, values: Vec<i128>| {
        let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
        texts(array.unwrap())
    };
    assert_eq!(decimals(38, 18, vec![0, 1]), ["0E-18", "1E-18"]);
    assert_eq!(
        decimals(20, 10, vec![-1000, 10_000, -15_000_000_000]),
        ["-1.000E-7", "0.0000010000", "-1.5000000000"]
    );
    assert_eq!(decimals(5, 0, vec![123, -7]), ["123", "-7"]);
    assert_eq!(
        decimals(38, 2, vec![i128::from(i64::MAX), 5]),
        ["92233720368547758.07", "0.05"]
    );
    assert_eq!(decimals(5, -3, vec![5, -12]), ["5E+3", "-1.2E+4"]);
    assert_eq!(
        texts(UInt64Array::from(vec![u64::MAX])),
        ["18446744073709551615"]
    );
    assert_eq!(
        texts(Int64Array::from(vec![i64::MIN])),
        ["-9223372036854775808"]
    );
}

#[test]
fn dates_and_times_have_the_text_of_to_json() {
    assert_eq!(
        texts(Date32Array::from(vec![
            0, 20_780, -719_162, -719_528, -4_719_162, 2_932_897, 11_016
        ])),
        [
            "\"1970-01-01\"",
            "\"2026-11-23\"",
            "\"0001-01-01\"",
            "\"0000-01-01\"",
            "\"-10951-05-17\"",
            "\"+10000-01-01\"",
            "\"2000-02-29\"",
        ]
    );
    let micros = vec![1_795_427_540_123_456, -1, -62_135_596_800_000_001];
    let zoned = TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC");
    assert_eq!(
        texts(zoned),
        [
            "\"2026-11-23T09:52:20.123Z\"",
            "\"1969-12-31T23:59:59.999Z\"",
            "\"0000-12-31T23:59:59.999Z\""
        ]
    );
    assert_eq!(
        texts(TimestampMicrosecondArray::from(micros))[0],
        "\"2026-11-23T09:52:20.123\""
    );
    assert_eq!(
        texts(TimestampSecondArray::from(vec![i64::MAX]))[0].len(),
        "\"+292277026596-12-04T15:30:07.000\"".len()
    );
    assert_eq!(
        texts(Time64MicrosecondArray::from(vec![35_540_123_400, 0])),
        ["\"09:52:20.1234\"", "\"00:00:00\""]
    );
    let late = rows(vec![(
        "at",
        Arc::new(Time32SecondArray::from(vec![0, 86_400])),
    )]);
    assert_eq!(
        encoded(&Encoder::json(), &late),
        Err("row 1: column at: 86400 is not a time of day".to_owned())
    );
}

#[test]
fn strings_have_the_escapes_that_json_asks_for() {
    let text = "q\"b\\s/\u{0}\u{8}\t\n\u{c}\r\u{1f}\u{7f}é€😀\u{2028}";
    let written = "\"q\\\"b\\\\s/\\u0000\\b\\t\\n\\f\\r\\u001F\u{7f}é€😀\u{2028}\"";
    assert_eq!(texts(StringArray::from(vec![text, ""])), [written, "\"\""]);
    assert_eq!(texts(StringViewArray::from(vec![text]))[0], written);
    let bytes = FixedSizeBinaryArray::try_from_iter([[0_u8, 0xff, 0x10]].iter());
    assert_eq!(texts(bytes.unwrap()), ["\"AP8Q\""]);
}

/// Nulls of fields are left out, those of lists and maps are not, and what has no row has no value.
#[test]
fn a_decoder_reads_what_was_encoded() {
    let inner = Fields::from(vec![field("n", DataType::Int32)]);
    let fields = Fields::from(vec![
        field("a \"b\"", DataType::Boolean),
        field(
            "list",
            DataType::List(Arc::new(field("element", DataType::Utf8))),
        ),
        field(
            "map",
            crate::column::map(DataType::Utf8, DataType::Int64, true),
        ),
        field("of", DataType::Struct(inner)),
    ]);
    let decoder = Decoder::json(fields, Framing::Plain).unwrap();
    let values: [&[u8]; 3] = [
        br#"{"a \"b\"":true,"list":["x",null],"map":{"k":1,"n":null},"of":{"n":1}}"#,
        br#"{"list":[],"map":{},"of":{}}"#,
        b"{}",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    let again = encoded(&Encoder::json(), &StructArray::from(batch.clone())).unwrap();
    assert_eq!(again, values.map(|value| Some(value.to_vec())));
    // A slice begins at its offset.
    let slice = StructArray::from(batch.slice(1, 2));
    assert_eq!(encoded(&Encoder::json(), &slice).unwrap()[0], again[1]);
    let framed = encoded(
        &Encoder::json().with_schema_id(258).unwrap(),
        &StructArray::from(batch),
    )
    .unwrap();
    assert_eq!(framed[2], Some(b"\0\0\0\x01\x02{}".to_vec()));
    let absent = StructArray::new(
        vec![field("a", DataType::Boolean)].into(),
        vec![Arc::new(BooleanArray::from(vec![true, false]))],
        Some(vec![false, true].into()),
    );
    assert_eq!(
        encoded(&Encoder::json().with_schema_id(1).unwrap(), &absent).unwrap(),
        [None, Some(b"\0\0\0\0\x01{\"a\":false}".to_vec())]
    );
}

#[test]
fn columns_that_json_does_not_have_are_named() {
    let duration = arrow_array::DurationSecondArray::from(vec![1]);
    let refused = encoded(&Encoder::json(), &rows(vec![("took", Arc::new(duration))]));
    assert_eq!(
        refused,
        Err("took: the type Duration(s) is not encoded: cast the column to another one".to_owned())
    );
    let days = crate::column::map(DataType::Date32, DataType::Int32, true);
    let empty = arrow_array::new_empty_array(&days);
    let refused = encoded(&Encoder::json(), &rows(vec![("by", empty)])).unwrap_err();
    assert!(
        refused.starts_with("by: the keys of a map in JSON"),
        "{refused}"
    );
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let twice = rows(vec![("a", Arc::clone(&number)), ("a", number)]);
    assert_eq!(
        encoded(&Encoder::json(), &twice),
        Err("two columns are named \"a\": one field cannot take both".to_owned())
    );
    let empty = RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty()));
    assert_eq!(
        encoded(&Encoder::json(), &StructArray::from(empty)),
        Ok(Vec::new())
    );
}
