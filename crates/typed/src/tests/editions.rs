//! Files of Protobuf's editions. What google.protobuf makes of the same files is in `tests/python/test_protobuf_editions.py`.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;

use super::decode;
use super::encode::{encoded, rows};
use super::protobuf::part;
use crate::{Decoder, Encoder, Framing, Mode};

const EXPLICIT: &[u8] = &[8, 1];
const IMPLICIT: &[u8] = &[8, 2];
const LEGACY_REQUIRED: &[u8] = &[8, 3];
const LENGTH_PREFIXED: &[u8] = &[40, 1];
const DELIMITED: &[u8] = &[40, 2];

/// Options with these features in a field of one or two bytes' tag.
fn options(place: &[u8], features: &[u8]) -> Vec<u8> {
    [place, &[u8::try_from(features.len()).unwrap()], features].concat()
}

/// `FileOptions.features`, `MessageOptions.features` and `FieldOptions.features`.
fn of_file(features: &[u8]) -> Vec<u8> {
    part(8, &options(&[0x92, 3], features))
}

fn of_message(features: &[u8]) -> Vec<u8> {
    part(7, &options(&[0x62], features))
}

fn of_field(features: &[u8]) -> Vec<u8> {
    part(8, &options(&[0xaa, 1], features))
}

fn field(name: &str, number: u8, kind: u8, more: &[u8]) -> Vec<u8> {
    let label = [3 << 3, number, 4 << 3, 1, 5 << 3, kind];
    part(2, &[&part(1, name.as_bytes())[..], &label, more].concat())
}

/// `message M`, with these fields and features.
fn file(fields: &[Vec<u8>], message: &[u8], file: &[u8]) -> Vec<u8> {
    let inner = [part(1, b"I"), field("a", 1, 5, b"")].concat();
    let of = [&part(1, b"M")[..], &fields.concat(), message].concat();
    [
        &part(4, &of)[..],
        &part(4, &inner),
        file,
        &part(12, b"editions"),
        &[14 << 3, 0xe8, 7],
    ]
    .concat()
}

/// Whether field `x`, an int32 that is not on the wire, is null.
fn is_null(file: &[u8]) -> bool {
    let decoder = Decoder::protobuf(&[file.to_vec()], None, Framing::Plain, None).unwrap();
    let batch = decode(&decoder, &[b""], Mode::Fail).unwrap().batch;
    let column = batch.column(0).as_primitive::<Int32Type>();
    assert_eq!(column.value(0), 0);
    column.is_null(0)
}

#[test]
fn presence_is_that_of_the_nearest_features() {
    let x = |more: &[u8]| vec![field("x", 1, 5, more)];
    assert!(is_null(&file(&x(b""), b"", b"")));
    assert!(!is_null(&file(&x(b""), b"", &of_file(IMPLICIT))));
    assert!(!is_null(&file(&x(b""), &of_message(IMPLICIT), b"")));
    assert!(!is_null(&file(&x(&of_field(IMPLICIT)), b"", b"")));
    let explicit = x(&of_field(EXPLICIT));
    assert!(is_null(&file(
        &explicit,
        &of_message(IMPLICIT),
        &of_file(IMPLICIT)
    )));
    assert!(is_null(&file(
        &x(b""),
        &of_message(EXPLICIT),
        &of_file(IMPLICIT)
    )));
    // Members of a oneof have presence whatever is in its file.
    let member = x(&[9 << 3, 0]);
    let oneof = part(8, &part(1, b"o"));
    assert!(is_null(&file(&member, &oneof, &of_file(IMPLICIT))));

    // Options may stand before what they are of, and in parts.
    let first = [of_file(IMPLICIT), file(&x(b""), b"", b"")].concat();
    assert!(!is_null(&first));
}

#[test]
fn a_default_without_presence_is_not_written() {
    let zero = || {
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Int32Array::from(vec![0]));
        rows(vec![("x", array)])
    };
    let written = |features: &[u8]| {
        let file = file(&[field("x", 1, 5, &of_field(features))], b"", b"");
        encoded(&Encoder::protobuf(&[file], None).unwrap(), &zero())
    };
    assert_eq!(written(EXPLICIT), Ok(vec![Some(b"\x08\0".to_vec())]));
    assert_eq!(written(IMPLICIT), Ok(vec![Some(vec![])]));
    assert_eq!(written(LEGACY_REQUIRED), Ok(vec![Some(b"\x08\0".to_vec())]));
}

#[test]
fn a_required_field_is_written_or_refused() {
    let fields = [
        field("x", 1, 5, &of_field(LEGACY_REQUIRED)),
        field("y", 2, 5, b""),
    ];
    let file = file(&fields, b"", b"");
    let encoder = Encoder::protobuf(&[file], None).unwrap();
    let ints = |value| {
        std::sync::Arc::new(arrow_array::Int32Array::from(vec![value])) as arrow_array::ArrayRef
    };
    let error = encoded(&encoder, &rows(vec![("y", ints(Some(1)))])).unwrap_err();
    assert!(
        error.contains("no column \"x\", which the message M requires"),
        "{error}"
    );
    let error = encoded(&encoder, &rows(vec![("x", ints(None))])).unwrap_err();
    assert!(error.contains("null"), "{error}");
}

#[test]
fn a_delimited_message_is_refused_by_the_name_of_its_feature() {
    let inner = |more: &[u8]| {
        let of = [&part(6, b".I")[..], more].concat();
        vec![field("i", 1, 11, &of)]
    };
    let refused = [
        file(&inner(&of_field(DELIMITED)), b"", b""),
        file(&inner(b""), b"", &of_file(DELIMITED)),
        file(&inner(b""), &of_message(DELIMITED), b""),
    ];
    for file in refused {
        let error =
            Decoder::protobuf(std::slice::from_ref(&file), None, Framing::Plain, None).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("i: its feature message_encoding is DELIMITED"),
            "{text}"
        );
        let array: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Int32Array::from(vec![1]));
        let structs: arrow_array::ArrayRef = std::sync::Arc::new(rows(vec![("a", array)]));
        let encoder = Encoder::protobuf(&[file], None).unwrap();
        let error = encoded(&encoder, &rows(vec![("i", structs)])).unwrap_err();
        assert!(error.contains("message_encoding is DELIMITED"), "{error}");
    }
    let read = file(&inner(&of_field(LENGTH_PREFIXED)), b"", &of_file(DELIMITED));
    let decoder = Decoder::protobuf(&[read], None, Framing::Plain, None).unwrap();
    let batch = decode(&decoder, &[b"\x0a\x02\x08\x05"], Mode::Fail)
        .unwrap()
        .batch;
    let structs = batch.column(0).as_struct();
    assert_eq!(structs.column(0).as_primitive::<Int32Type>().value(0), 5);
    // Entries of a map and their values always have lengths.
    let entry = [
        part(1, b"KvEntry"),
        field("key", 1, 5, b""),
        field("value", 2, 11, &part(6, b".I")),
        part(7, &[7 << 3, 1]),
    ]
    .concat();
    let of = [
        &part(1, b"kv")[..],
        &[3 << 3, 1, 4 << 3, 3, 5 << 3, 11],
        &part(6, b".M.KvEntry"),
    ]
    .concat();
    let map = file(&[part(2, &of)], &part(3, &entry), &of_file(DELIMITED));
    let decoder = Decoder::protobuf(&[map], None, Framing::Plain, None).unwrap();
    let batch = decode(&decoder, &[b"\x0a\x06\x08\x01\x12\x02\x08\x05"], Mode::Fail)
        .unwrap()
        .batch;
    assert_eq!(batch.column(0).as_map().value_length(0), 1);
}

#[test]
fn what_is_not_known_of_an_edition_is_refused() {
    let of = |features: &[u8]| file(&[field("x", 1, 5, b"")], b"", &of_file(features));
    for features in [&[8_u8, 9][..], &[40, 9]] {
        let error = Decoder::protobuf(&[of(features)], None, Framing::Plain, None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has the value 9, which is not known"),
            "{error}"
        );
    }
    let text = part(12, b"proto9");
    let file = [part(4, &part(1, b"M")), text].concat();
    let error = Decoder::protobuf(&[file], None, Framing::Plain, None).unwrap_err();
    assert!(
        error.to_string().contains("the syntax \"proto9\""),
        "{error}"
    );
}
