//! Whatever the bytes, a decoder comes to an end, and the good rows around a bad one stay what they are.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use proptest::prelude::*;

use super::{decode, field};
use crate::{Decoder, Framing, Mode, SchemaId};

const AVRO: &str = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"u","type":["null","int","string"]},
    {"name":"l","type":{"type":"array","items":{"type":"map","values":"bytes"}}},
    {"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},
    {"name":"d","type":{"type":"fixed","name":"F","size":3,"logicalType":"decimal","precision":4}}]}"#;

fn fields() -> Fields {
    let item = DataType::Struct(Fields::from(vec![
        field("x", DataType::Float64),
        Field::new("y", DataType::Int8, false),
    ]));
    Fields::from(vec![
        field("a", DataType::Int64),
        field("b", DataType::Utf8),
        field("t", DataType::Timestamp(TimeUnit::Nanosecond, None)),
        field("d", DataType::Decimal128(38, 10)),
        field(
            "l",
            DataType::List(Arc::new(Field::new("element", item, true))),
        ),
        field(
            "m",
            crate::column::map(DataType::Utf8, DataType::Boolean, true),
        ),
    ])
}

fn survives(decoder: &Decoder, good: &[u8], hostile: &[u8]) {
    let alone = decode(decoder, &[good, good], Mode::Fail).unwrap().batch;
    let decoded = decode(decoder, &[good, hostile, good], Mode::Drop).unwrap();
    let count = decoded.batch.num_rows();
    assert_eq!(count + decoded.bad.len(), 3);
    if count == 2 {
        assert_eq!(decoded.batch, alone);
    }
    assert_eq!(
        decode(decoder, &[good, hostile], Mode::Permissive)
            .unwrap()
            .batch
            .num_rows(),
        2
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn json(hostile in prop::collection::vec(prop::sample::select(
        vec!["{", "}", "[", "]", "\"", "\\", "\\u", "d83d", ":", ",", "\"a\"", "\"b\"", "\"t\"", "\"d\"", "\"l\"", "\"m\"", "\"x\"", "\"y\"", "1", "-",
             ".", "e", "9999999999999999999", "null", "true", "NaN", "é", "\0", " ", "2026-11-23", "T00:00:00", "+01:00", "\u{7f}"]), 0..40)) {
        let decoder = Decoder::json(fields(), Framing::Plain).unwrap();
        survives(&decoder, b"{\"a\":1,\"l\":[{\"y\":1}],\"m\":{\"k\":true}}", hostile.concat().as_bytes());
    }

    #[test]
    fn json_bytes(hostile in prop::collection::vec(any::<u8>(), 0..64)) {
        let decoder = Decoder::json(fields(), Framing::Confluent).unwrap();
        survives(&decoder, b"\0\0\0\0\0{\"b\":\"x\"}", &hostile);
    }

    #[test]
    fn csv(hostile in "[0-9a-z,\"\\r\\né]{0,40}") {
        let decoder = Decoder::csv(fields().iter().take(4).cloned().collect(), b',').unwrap();
        survives(&decoder, b"1,x,2026-11-23,5", hostile.as_bytes());
    }

    #[test]
    fn avro(hostile in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(1), Just(2), Just(0xff)], 0..64)) {
        let decoder = Decoder::avro(AVRO, &[], None, Framing::Plain, None).unwrap();
        survives(&decoder, b"\x02\x02\x04\x00\x02\x00\x00\x01", &hostile);
    }

    #[test]
    fn avro_schemas(hostile in prop::collection::vec(prop::sample::select(
        vec!["{", "}", "[", "]", "\"type\":", "\"record\"", "\"name\":", "\"R\"", "\"fields\":", "\"int\"", "\"null\"", ",", "\"array\"", "\"items\":",
             "\"default\":", "1", "\"enum\"", "\"symbols\":", "\"logicalType\":", "\"decimal\"", "\"precision\":", "\"bytes\""]), 0..30)) {
        let mut decoder = Decoder::avro(AVRO, &[], None, Framing::Confluent, None).unwrap();
        decoder.add_writer(SchemaId::Number(1), &hostile.concat(), &[]);
        let _ = decode(&decoder, &[b"\0\0\0\0\x01abc"], Mode::Drop).unwrap();
    }

    #[test]
    fn protobuf(hostile in prop::collection::vec(any::<u8>(), 0..64), file in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Decoder::protobuf(&[file], None, Framing::Plain, None);
        let decoder = Decoder::protobuf(&[super::protobuf::file()], Some("M"), Framing::Plain, None).unwrap();
        survives(&decoder, b"\x08\x01\x22\x02\x08\x02", &hostile);
    }
}
