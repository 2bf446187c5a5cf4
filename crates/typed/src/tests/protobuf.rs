use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type};

use super::{decode, numbers, texts};
use crate::{DecodeError, Decoder, Framing, Mode, SchemaId};

/// A field with a length.
pub(super) fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut part = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        part.push(length as u8 | 0x80);
        length >>= 7;
    }
    part.push(length as u8);
    part.extend(bytes);
    part
}

fn member(name: &str, number: u8, label: u8, kind: u8, type_name: &str) -> Vec<u8> {
    let mut field = [
        part(1, name.as_bytes()),
        vec![3 << 3, number, 4 << 3, label, 5 << 3, kind],
    ]
    .concat();
    if !type_name.is_empty() {
        field.extend(part(6, type_name.as_bytes()));
    }
    part(2, &field)
}

/// `message Inner { sint32 n = 1; }  message M { int64 a = 1; string b = 2; repeated uint32 c = 3; Inner d = 4; }`
pub(super) fn file() -> Vec<u8> {
    let inner = [part(1, b"Inner"), member("n", 1, 1, 17, "")].concat();
    let outer = [
        part(1, b"M"),
        member("a", 1, 1, 3, ""),
        member("b", 2, 1, 9, ""),
        member("c", 3, 3, 13, ""),
        member("d", 4, 1, 11, ".p.Inner"),
    ]
    .concat();
    [
        part(1, b"m.proto"),
        part(2, b"p"),
        part(4, &inner),
        part(4, &outer),
        part(12, b"proto3"),
    ]
    .concat()
}

#[test]
fn a_message_has_a_column_for_each_field() {
    let decoder = Decoder::protobuf(&[part(1, &file())], Some("M"), Framing::Plain, None).unwrap();
    let values: [&[u8]; 3] = [
        // a 150, b "x", c packed 1 and 2 and then 3, d in two parts, of which the later counts, and a field 9 that is not known.
        b"\x08\x96\x01\x12\x01x\x1a\x02\x01\x02\x18\x03\x22\x02\x08\x02\x4a\x01z\x22\x02\x08\x03",
        b"",
        b"\x08\x01\x08\x02\x22\x00",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    assert_eq!(numbers(&batch, 0), [Some(150), Some(0), Some(2)]);
    assert_eq!(texts(&batch, 1), [Some("x"), Some(""), Some("")]);
    let lists = batch.column(2).as_list::<i32>();
    assert_eq!(
        lists.value(0).as_primitive::<UInt32Type>().values(),
        &[1, 2, 3]
    );
    assert_eq!(lists.value_length(1), 0);
    let inner = batch.column(3).as_struct();
    assert_eq!(inner.column(0).as_primitive::<Int32Type>().value(0), -2);
    assert!(inner.is_null(1));
    assert_eq!(inner.column(0).as_primitive::<Int32Type>().value(2), 0);
}

#[test]
fn what_is_no_protobuf_is_bad() {
    let decoder = Decoder::protobuf(&[file()], Some("p.M"), Framing::Plain, None).unwrap();
    let values: [&[u8]; 6] = [
        b"\x08",
        b"\x1a\x01\x80",
        b"\x12\x05x",
        b"\x12\x01\xff",
        b"\x07",
        b"\x4b\x4b",
    ];
    for value in values {
        assert!(
            matches!(
                decode(&decoder, &[value], Mode::Fail),
                Err(DecodeError::Row(_))
            ),
            "{value:?}"
        );
    }
    assert!(Decoder::protobuf(&[file()], Some("Other"), Framing::Plain, None).is_err());
    assert!(Decoder::protobuf(&[b"\x0a".to_vec()], None, Framing::Plain, None).is_err());
    assert!(Decoder::protobuf(&[], None, Framing::Plain, None).is_err());
}

#[test]
fn indexes_name_the_message_behind_a_schema_id() {
    let mut decoder = Decoder::protobuf(&[file()], Some("p.M"), Framing::Confluent, None).unwrap();
    decoder.add_descriptors(SchemaId::Number(1), &[file()]);
    // One index, 1: the second message; in place of it none, which means the first.
    let values: [&[u8]; 4] = [
        b"\0\0\0\0\x01\x02\x02\x08\x07",
        b"\0\0\0\0\x01\x00\x08\x07",
        b"\0\0\0\0\x01\x02\x0e",
        b"\0\0\0\0\x01",
    ];
    let decoded = decode(&decoder, &values, Mode::Drop).unwrap();
    assert_eq!(numbers(&decoded.batch, 0), [Some(7)]);
    assert_eq!(decoded.bad[0].reason, "message p.M is wanted, not p.Inner");
    assert_eq!(decoded.bad.len(), 3);
}

#[test]
fn a_message_that_contains_itself_is_refused_unless_it_is_not_selected() {
    let message = [
        part(1, b"L"),
        member("next", 1, 1, 11, ".L"),
        member("group", 2, 1, 10, ".L.Group"),
        member("n", 3, 1, 3, ""),
    ]
    .concat();
    let file = [part(1, b"l.proto"), part(4, &message), part(12, b"proto3")].concat();
    let of = |name: Option<&str>| {
        let names = name.map(|name| vec![name.to_owned()]);
        Decoder::protobuf(
            std::slice::from_ref(&file),
            None,
            Framing::Plain,
            names.as_deref(),
        )
    };
    let refused = of(None).unwrap_err().to_string();
    assert!(refused.contains("contains itself"), "{refused}");
    let refused = of(Some("group")).unwrap_err().to_string();
    assert!(refused.contains("group"), "{refused}");
    let value: &[u8] = b"\x0a\x02\x18\x01\x13\x14\x18\x07";
    let decoded = decode(&of(Some("n")).unwrap(), &[value], Mode::Fail);
    assert_eq!(numbers(&decoded.unwrap().batch, 0), [Some(7)]);
    let missing = of(Some("x")).unwrap_err().to_string();
    assert_eq!(
        missing,
        "column \"x\" is selected, and the schema has next, group, n"
    );
}

/// As Google's libraries read it, also behind and before a value of the right type.
#[test]
fn another_wire_type_is_an_unknown_field() {
    let decoder = Decoder::protobuf(&[file()], Some("p.M"), Framing::Plain, None).unwrap();
    let values: [&[u8]; 4] = [
        // a as bytes; as 8 and as 4 bytes behind 5; as a group before 6.
        b"\x0a\x01x",
        b"\x08\x05\x09abcdefgh\x0dabcd",
        b"\x0b\x0c\x08\x06",
        // b and d as numbers; c as 4 bytes, and then packed.
        b"\x10\x07\x20\x07\x1dabcd\x1a\x01\x09",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    assert_eq!(numbers(&batch, 0), [Some(0), Some(5), Some(6), Some(0)]);
    assert_eq!(texts(&batch, 1), [Some(""); 4]);
    let lists = batch.column(2).as_list::<i32>();
    assert_eq!(lists.value(3).as_primitive::<UInt32Type>().values(), &[9]);
    assert_eq!(batch.column(3).null_count(), 4);
}

/// Each message is in the next one; a length takes one byte, since each type is next to the others.
#[test]
fn a_message_may_not_be_deeper_than_the_stack() {
    let name = |level: usize| format!("m{level}");
    let message = |level: usize| {
        let mut message = part(1, name(level).as_bytes());
        if level > 0 {
            message.extend(member("a", 1, 1, 11, &format!(".{}", name(level - 1))));
        }
        part(4, &message)
    };
    let file = |levels: usize| {
        let messages: Vec<_> = (0..levels).flat_map(message).collect();
        [part(1, b"l.proto"), messages, part(12, b"proto3")].concat()
    };
    let top = name(18_999);
    let refused = Decoder::protobuf(&[file(19_000)], Some(&top), Framing::Plain, None)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("more than 100 levels"), "{refused}");
    assert!(Decoder::protobuf(&[file(90)], Some("m89"), Framing::Plain, None).is_ok());
}

#[test]
fn selected_fields_are_those_of_the_whole_message() {
    let decoder = Decoder::protobuf(&[part(1, &file())], Some("M"), Framing::Plain, None).unwrap();
    let decoder = decoder.select(&["b".into(), "a".into()]).unwrap();
    let values: [&[u8]; 2] = [
        b"\x08\x96\x01\x12\x01x\x1a\x02\x01\x02\x22\x02\x08\x02",
        b"",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    assert_eq!(texts(&batch, 0), [Some("x"), Some("")]);
    assert_eq!(numbers(&batch, 1), [Some(150), Some(0)]);
}

/// An entry type of a map, in the message that has it.
fn entry(name: &str, key: u8, value: u8, type_name: &str) -> Vec<u8> {
    let of = [
        part(1, name.as_bytes()),
        member("key", 1, 1, key, ""),
        member("value", 2, 1, value, type_name),
        part(7, &[7 << 3, 1]),
    ]
    .concat();
    part(3, &of)
}

/// As google.protobuf reads them.
#[test]
fn a_map_has_defaults_for_what_is_missing_and_the_last_entry_of_a_key() {
    let inner = [part(1, b"I"), member("a", 1, 1, 5, "")].concat();
    let time = ".google.protobuf.Timestamp";
    let outer = [
        part(1, b"M"),
        member("kv", 1, 3, 11, ".p.M.KvEntry"),
        member("ts", 2, 3, 11, ".p.M.TsEntry"),
        entry("KvEntry", 9, 11, ".p.I"),
        entry("TsEntry", 5, 11, time),
    ]
    .concat();
    for syntax in [&b"proto3"[..], b"proto2"] {
        let file = [
            part(2, b"p"),
            part(4, &outer),
            part(4, &inner),
            part(12, syntax),
        ]
        .concat();
        let decoder = Decoder::protobuf(&[file], None, Framing::Plain, None).unwrap();
        let many: Vec<u8> = (0..20_u8)
            .flat_map(|at| [0x0a, 7, 0x0a, 1, b'a' + at % 2, 0x12, 2, 8, at])
            .collect();
        let values: [&[u8]; 4] = [
            // No value; no key and no value.
            b"\x0a\x03\x0a\x01a\x12\x02\x08\x05",
            b"\x0a\x00",
            // a 1, b 2, a without a value.
            b"\x0a\x07\x0a\x01a\x12\x02\x08\x01\x0a\x07\x0a\x01b\x12\x02\x08\x02\x0a\x03\x0a\x01a",
            &many,
        ];
        let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
        let maps = batch.column(0).as_map();
        let entries = |row: usize| {
            let entries = maps.value(row);
            let keys = entries.column(0).as_string::<i32>().clone();
            let messages = entries.column(1).as_struct();
            assert_eq!(messages.null_count(), 0);
            let values = messages.column(0).as_primitive::<Int32Type>();
            // proto2 has null for a field that is not there.
            keys.iter()
                .zip(values)
                .map(|(key, value)| (key.unwrap().to_owned(), value.unwrap_or(0)))
                .collect::<Vec<_>>()
        };
        let of = |key: &str, value| (key.to_owned(), value);
        assert_eq!(entries(0), [of("a", 0)]);
        assert_eq!(entries(1), [of("", 0)]);
        assert_eq!(entries(2), [of("b", 2), of("a", 0)]);
        assert_eq!(entries(3), [of("a", 18), of("b", 19)]);
        let times = batch.column(1).as_map().value(0);
        let times = times
            .column(1)
            .as_primitive::<arrow_array::types::TimestampMicrosecondType>();
        assert!(times.is_valid(0) && times.value(0) == 0);
    }
}

#[test]
fn a_message_is_found_behind_a_file_that_has_none() {
    let enums = [part(1, b"e.proto"), part(2, b"p"), part(5, &part(1, b"E"))].concat();
    let files = [file(), enums.clone()];
    for message in [Some("M"), Some("p.M")] {
        let decoder = Decoder::protobuf(&files, message, Framing::Plain, None).unwrap();
        let batch = decode(&decoder, &[b"\x08\x01"], Mode::Fail).unwrap().batch;
        assert_eq!(numbers(&batch, 0), [Some(1)]);
    }
    // Of the last file that has one, the first.
    let set = [part(1, &file()), part(1, &enums)].concat();
    let decoder = Decoder::protobuf(&[set], None, Framing::Plain, None).unwrap();
    assert_eq!(decoder.schema(Mode::Fail, "").unwrap().field(0).name(), "n");
    let refused = |files: &[Vec<u8>], message| {
        Decoder::protobuf(files, message, Framing::Plain, None)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(std::slice::from_ref(&enums), Some("M")).contains("hold no message"));
    assert!(refused(&files, Some("X")).contains("they have p.Inner"));
}
