use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int32Array, Int64Array, NullArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_schema::DataType;

use super::encode::{encoded, rows};
use super::{decode, field};
use crate::{Decoder, Encoder, Framing, Mode};

/// A record with one field `x` of this type.
fn record(of: &str) -> String {
    format!(r#"{{"type":"record","name":"R","fields":[{{"name":"x","type":{of}}}]}}"#)
}

fn one(of: &str, array: impl Array + 'static) -> Result<Vec<Option<Vec<u8>>>, String> {
    let encoder = Encoder::avro(&record(of), &[]).unwrap();
    encoded(&encoder, &rows(vec![("x", Arc::new(array))]))
}

/// The bytes of values, hex by hex as Avro's specification has them.
fn bytes(of: &str, array: impl Array + 'static) -> Vec<Vec<u8>> {
    one(of, array).unwrap().into_iter().flatten().collect()
}

#[test]
fn values_have_the_bytes_of_the_specification() {
    let longs = Int64Array::from(vec![0, -1, 1, -2, 64, i64::MIN]);
    assert_eq!(
        bytes(r#""long""#, longs),
        [
            &[0_u8][..],
            &[1],
            &[2],
            &[3],
            &[0x80, 1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ]
    );
    let texts = || StringArray::from(vec![Some("foo"), None]);
    assert_eq!(
        bytes(r#"["null","string"]"#, texts()),
        [&b"\x02\x06foo"[..], b"\0"]
    );
    assert_eq!(
        bytes(r#"["string","null"]"#, texts()),
        [&b"\0\x06foo"[..], b"\x02"]
    );
    let state = r#"{"type":"enum","name":"E","symbols":["bar","foo"]}"#;
    assert_eq!(bytes(state, StringArray::from(vec!["foo"])), [b"\x02"]);
    let decimals = |values: Vec<i128>| {
        Decimal128Array::from(values)
            .with_precision_and_scale(20, 2)
            .unwrap()
    };
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":20,"scale":3}"#;
    assert_eq!(
        bytes(decimal, decimals(vec![0, 12, -13, 13, 3277])),
        [
            &b"\x02\0"[..],
            b"\x02\x78",
            b"\x04\xff\x7e",
            b"\x04\0\x82",
            b"\x06\0\x80\x02"
        ]
    );
    let fixed =
        r#"{"type":"fixed","name":"F","size":3,"logicalType":"decimal","precision":6,"scale":2}"#;
    assert_eq!(
        bytes(fixed, decimals(vec![-1, 258])),
        [b"\xff\xff\xff", b"\0\x01\x02"]
    );
    let at = TimestampMicrosecondArray::from(vec![-1]).with_timezone("UTC");
    assert_eq!(
        bytes(r#"{"type":"long","logicalType":"timestamp-millis"}"#, at),
        [b"\x01"]
    );
    assert_eq!(bytes(r#"["null","int"]"#, NullArray::new(1)), [b"\0"]);
}

#[test]
fn a_row_that_does_not_fit_is_named_with_its_column() {
    let longs = || Int64Array::from(vec![Some(1), Some(1 << 31), None]);
    assert_eq!(
        one(r#""int""#, longs()),
        Err("row 1: column x: 2147483648 is out of the range of Avro's int".to_owned())
    );
    assert_eq!(
        one(r#""long""#, longs()),
        Err("row 2: column x: it is null, and its Avro type is not".to_owned())
    );
    let state = r#"{"type":"enum","name":"E","symbols":["bar"]}"#;
    assert_eq!(
        one(state, StringArray::from(vec!["foo"])),
        Err("row 0: column x: a symbol of its enum is wanted, not foo".to_owned())
    );
    let decimals = |value| {
        Decimal128Array::from(vec![value])
            .with_precision_and_scale(20, 2)
            .unwrap()
    };
    let narrow = r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}"#;
    assert_eq!(
        one(narrow, decimals(1234)),
        Err("row 0: column x: 12.34 does not fit decimal(4, 1)".to_owned())
    );
    assert!(one(narrow, decimals(12340)).is_ok());
    assert!(one(narrow, decimals(1_234_500)).is_err());
    let fixed =
        r#"{"type":"fixed","name":"F","size":1,"logicalType":"decimal","precision":2,"scale":2}"#;
    assert!(one(fixed, decimals(99)).is_ok());
    let list = arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(
        [Some(vec![Some(1), None])],
    );
    assert_eq!(
        one(r#"{"type":"array","items":"long"}"#, list),
        Err("row 0: column x[1]: it is null, and its Avro type is not".to_owned())
    );
    assert_eq!(
        one(r#""int""#, NullArray::new(1)),
        Err("row 0: column x: it is null, and its Avro type is not".to_owned())
    );
    assert_eq!(
        one(r#""null""#, Int32Array::from(vec![None, Some(1)])),
        Err("row 1: column x: it is not null, and its Avro type is".to_owned())
    );
}

#[test]
fn columns_that_do_not_fit_the_schema_are_named() {
    let refused = |of: &str, array: ArrayRef| {
        let encoder = Encoder::avro(&record(of), &[]).unwrap();
        encoded(&encoder, &rows(vec![("x", array)])).unwrap_err()
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    assert_eq!(
        refused(r#""long""#, Arc::clone(&texts)),
        "x: string does not become Avro's long"
    );
    let wide: ArrayRef = Arc::new(Float64Array::from(vec![0.1]));
    assert_eq!(
        refused(r#""float""#, wide),
        "x: double does not become Avro's float"
    );
    let encoder = Encoder::avro(&record(r#""string""#), &[]).unwrap();
    let two = rows(vec![("x", Arc::clone(&texts)), ("y", Arc::clone(&texts))]);
    assert_eq!(
        encoded(&encoder, &two).unwrap_err(),
        "the Avro schema has no field for column \"y\": drop the column, or add the field"
    );
    assert_eq!(
        encoded(&encoder, &StructArray::new_empty_fields(1, None)).unwrap_err(),
        "there is no column \"x\", which the Avro schema requires"
    );
    assert!(Encoder::avro("{}", &[]).is_err());
}

/// What ours reads has the columns that ours writes: of every type, and unions of several.
#[test]
fn a_decoder_reads_what_was_encoded() {
    let schema = r#"{"type":"record","name":"R","fields":[
        {"name":"either","type":["null","long",{"type":"record","name":"I","fields":[{"name":"n","type":"int"}]}]},
        {"name":"map","type":{"type":"map","values":["null","double"]}},
        {"name":"later","type":["null","R"]}]}"#;
    let columns = schema.replace(
        r#",
        {"name":"later","type":["null","R"]}"#,
        "",
    );
    let decoder = Decoder::avro(&columns, &[], Some(schema), Framing::Plain, None).unwrap();
    // The first of the three has two entries, and the others none; in the last one `later` holds such a record.
    let values: [&[u8]; 2] = [
        b"\x02\x54\x04\x02a\x02\0\0\0\0\0\0\xf0\x3f\x02b\0\0\0",
        b"\x04\x05\0\0",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    let encoder = Encoder::avro(schema, &[]).unwrap();
    let again = encoded(&encoder, &StructArray::from(batch.clone())).unwrap();
    assert_eq!(again, values.map(|value| Some(value.to_vec())));
    let both = StructArray::from(vec![
        (
            Arc::new(field("member0", DataType::Int64)),
            Arc::new(Int64Array::from(vec![1])) as ArrayRef,
        ),
        (
            Arc::new(field("member1", DataType::Utf8)),
            Arc::new(StringArray::from(vec!["x"])) as ArrayRef,
        ),
    ]);
    assert_eq!(
        one(r#"["long","string"]"#, both),
        Err("row 0: column x: several members of its union have values".to_owned())
    );
    // A column of one type has the first branch that takes it.
    assert_eq!(
        bytes(
            r#"["string","null","long"]"#,
            Int64Array::from(vec![Some(1), None])
        ),
        [&b"\x04\x02"[..], b"\x02"]
    );
}

/// A branch before it would refuse some values, or say something else of them.
#[test]
fn a_column_has_the_branch_of_its_own_type() {
    let longs = || Int64Array::from(vec![1 << 31]);
    let long = &b"\x04\x80\x80\x80\x80\x10"[..];
    assert_eq!(bytes(r#"["null","int","long"]"#, longs()), [long]);
    let ints = || Int32Array::from(vec![7]);
    assert_eq!(bytes(r#"["null","long","int"]"#, ints()), [b"\x04\x0e"]);
    let date = r#"{"type":"int","logicalType":"date"}"#;
    let either = format!(r#"["null",{date},"int"]"#);
    assert_eq!(bytes(&either, ints()), [b"\x04\x0e"]);
    assert_eq!(bytes(&either, Date32Array::from(vec![7])), [b"\x02\x0e"]);
    let text = || StringArray::from(vec!["b"]);
    let symbols = r#"{"type":"enum","name":"E","symbols":["a"]}"#;
    assert_eq!(
        bytes(&format!(r#"["null",{symbols},"string"]"#), text()),
        [b"\x04\x02b"]
    );
    let floats = Float32Array::from(vec![1.0]);
    assert_eq!(
        bytes(r#"["null","double","float"]"#, floats),
        [b"\x04\0\0\x80\x3f"]
    );
    let fixed = r#"{"type":"fixed","name":"F","size":2}"#;
    let binary = BinaryArray::from_vec(vec![b"x"]);
    assert_eq!(
        bytes(&format!(r#"["null",{fixed},"bytes"]"#), binary),
        [b"\x04\x02x"]
    );
    let decimal = |scale: u8| {
        format!(
            r#"{{"type":"fixed","name":"D{scale}","size":2,"logicalType":"decimal","precision":4,"scale":{scale}}}"#
        )
    };
    let amounts = Decimal128Array::from(vec![105])
        .with_precision_and_scale(4, 2)
        .unwrap();
    assert_eq!(
        bytes(
            &format!(r#"["null",{},{}]"#, decimal(1), decimal(2)),
            amounts
        ),
        [b"\x04\0\x69"]
    );
    let times = |unit: &str| format!(r#"{{"type":"long","logicalType":"timestamp-{unit}"}}"#);
    let at = TimestampMicrosecondArray::from(vec![-1]).with_timezone("UTC");
    let units = format!(r#"["null",{},{}]"#, times("millis"), times("micros"));
    // Avro does not allow two longs in a union; what is read leniently is written likewise.
    assert_eq!(bytes(&units, at), [b"\x04\x01"]);
    // Without one of its own it has the first that takes it.
    assert_eq!(
        bytes(r#"["null","string","int"]"#, Int64Array::from(vec![7])),
        [b"\x04\x0e"]
    );
}

/// Keys are mostly of one type, and the decoder makes one column of them.
#[test]
fn a_schema_that_is_no_record_takes_one_column() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc"]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1, -1]));
    let schema = |of: &str| Encoder::avro(of, &[]).unwrap();
    let one = |of: &str, name, array: &ArrayRef| {
        encoded(&schema(of), &rows(vec![(name, Arc::clone(array))]))
    };
    let of = |values: [&[u8]; 2]| Ok(values.map(|value| Some(value.to_vec())).to_vec());
    assert_eq!(
        one("\"string\"", "value", &texts),
        of([b"\x02a", b"\x04bc"])
    );
    assert_eq!(one("\"long\"", "key", &longs), of([b"\x02", b"\x01"]));
    let nullable: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    assert_eq!(
        one(r#"["null","string"]"#, "value", &nullable),
        of([b"\x02\x02a", b"\0"])
    );
    assert!(one("\"string\"", "value", &nullable).is_err());
    // What the decoder makes of a union of several types.
    let decoder = Decoder::avro(r#"["int","string"]"#, &[], None, Framing::Plain, None).unwrap();
    let values: [&[u8]; 2] = [b"\0\x0e", b"\x02\x02x"];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    assert_eq!(
        encoded(&schema(r#"["int","string"]"#), &batch.into()),
        of(values)
    );
    let two = rows(vec![("a", Arc::clone(&texts)), ("b", texts)]);
    assert_eq!(
        encoded(&schema("\"string\""), &two).unwrap_err(),
        "the Avro schema is of type string, which takes one column, and there are 2"
    );
}

/// As Confluent's Java serializer writes it, and its deserializer reads it.
#[test]
fn bytes_behind_a_schema_id_have_no_length() {
    let values = [&b"ab"[..], b"", &[7; 200]];
    let array: ArrayRef = Arc::new(BinaryArray::from(values.to_vec()));
    let plain = Encoder::avro("\"bytes\"", &[]).unwrap();
    let framed = plain.clone().with_schema_id(5).unwrap();
    let table = rows(vec![("value", array)]);
    assert_eq!(
        encoded(&plain, &table).unwrap()[0].as_deref(),
        Some(&b"\x04ab"[..])
    );
    let written: Vec<Vec<u8>> = encoded(&framed, &table)
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let expected = values.map(|value| [&b"\0\0\0\0\x05"[..], value].concat());
    assert_eq!(written, expected);
    let written: Vec<&[u8]> = written.iter().map(Vec::as_slice).collect();
    for reader in [r#""bytes""#, r#"["null","bytes"]"#] {
        let mut decoder = Decoder::avro(reader, &[], None, Framing::Confluent, None).unwrap();
        decoder.add_writer(crate::SchemaId::Number(5), "\"bytes\"", &[]);
        let batch = decode(&decoder, &written, Mode::Fail).unwrap().batch;
        let read: Vec<_> = batch
            .column(0)
            .as_binary::<i32>()
            .iter()
            .flatten()
            .collect();
        assert_eq!(read, values);
    }
    // A union, and bytes within a record, are Avro's.
    let union = Encoder::avro(r#"["null","bytes"]"#, &[]).unwrap();
    let union = union.with_schema_id(5).unwrap();
    let written = encoded(&union, &table).unwrap();
    assert_eq!(written[0].as_deref(), Some(&b"\0\0\0\0\x05\x02\x04ab"[..]));
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":20,"scale":3}"#;
    let decimals = Decimal128Array::from(vec![300])
        .with_precision_and_scale(20, 3)
        .unwrap();
    let encoder = Encoder::avro(decimal, &[])
        .unwrap()
        .with_schema_id(5)
        .unwrap();
    let written = encoded(&encoder, &rows(vec![("value", Arc::new(decimals))])).unwrap();
    assert_eq!(written[0].as_deref(), Some(&b"\0\0\0\0\x05\x01\x2c"[..]));
}

#[test]
fn a_time_outside_of_a_day_is_not_written() {
    let of = r#"{"type":"int","logicalType":"time-millis"}"#;
    let times = |value| arrow_array::Time32MillisecondArray::from(vec![value]);
    assert!(one(of, times(86_399_999)).is_ok());
    for value in [-1, 86_400_000] {
        let error = one(of, times(value)).unwrap_err();
        assert!(error.contains("is not a time of day"), "{error}");
    }
}
