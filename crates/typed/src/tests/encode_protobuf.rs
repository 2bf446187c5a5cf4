use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, ListArray, NullArray, StringArray, StructArray, types};
use arrow_schema::DataType;

use super::encode::{encoded, rows};
use super::protobuf::file;
use super::{decode, field};
use crate::{Decoder, Encoder, Framing, Mode};

fn encoder(message: &str) -> Encoder {
    Encoder::protobuf(&[file()], Some(message)).unwrap()
}

/// What the decoder reads becomes the same bytes again, in the order of numbers.
#[test]
fn a_decoder_reads_what_was_encoded() {
    let decoder = Decoder::protobuf(&[file()], Some("M"), Framing::Plain, None).unwrap();
    // a 150, b "x", c packed 1, 2 and 300, d with n -1 and with none; and what has no presence and its default.
    let values: [&[u8]; 3] = [
        b"\x08\x96\x01\x12\x01x\x1a\x04\x01\x02\xac\x02\x22\x02\x08\x01",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x22\x00",
        b"",
    ];
    let batch = decode(&decoder, &values, Mode::Fail).unwrap().batch;
    let again = encoded(&encoder("p.M"), &StructArray::from(batch.clone())).unwrap();
    assert_eq!(again, values.map(|value| Some(value.to_vec())));
    // `Inner` stands before `M` in the file.
    let framed = encoder("M").with_schema_id(7).unwrap();
    let framed = encoded(&framed, &StructArray::from(batch)).unwrap();
    assert_eq!(framed[2], Some(b"\0\0\0\0\x07\x02\x02".to_vec()));
    let inner = encoder("Inner").with_schema_id(7).unwrap();
    let none = rows(vec![("n", Arc::new(NullArray::new(1)))]);
    assert_eq!(
        encoded(&inner, &none).unwrap(),
        [Some(b"\0\0\0\0\x07\0".to_vec())]
    );
    // A text whose length takes two bytes.
    let long = "y".repeat(200);
    let texts = rows(vec![(
        "b",
        Arc::new(StringArray::from(vec![long.as_str()])),
    )]);
    let wanted = [b"\x12\xc8\x01", long.as_bytes()].concat();
    assert_eq!(encoded(&encoder("M"), &texts).unwrap(), [Some(wanted)]);
}

#[test]
fn what_does_not_fit_is_named() {
    let refused = |columns| encoded(&encoder("M"), &rows(columns)).unwrap_err();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(
        refused(vec![("z", Arc::clone(&numbers))]),
        "the message p.M has no field for column \"z\": drop the column, or add the field"
    );
    assert_eq!(
        refused(vec![("b", Arc::clone(&numbers))]),
        "b: int64 does not become Protobuf's string"
    );
    assert_eq!(
        refused(vec![("c", Arc::clone(&numbers))]),
        "c: int64 does not become a repeated field of Protobuf"
    );
    assert_eq!(
        refused(vec![("d", numbers)]),
        "d: int64 does not become Protobuf's p.Inner"
    );
    let list = |values| ListArray::from_iter_primitive::<types::Int64Type, _, _>([Some(values)]);
    assert_eq!(
        refused(vec![("c", Arc::new(list(vec![Some(1), Some(-1)])))]),
        "row 0: column c[1]: -1 does not fit 32 bits without a sign"
    );
    assert_eq!(
        refused(vec![("c", Arc::new(list(vec![None])))]),
        "row 0: column c[0]: it is null, and Protobuf has no null there"
    );
    let inner = StructArray::from(vec![(
        Arc::new(field("n", DataType::Int64)),
        Arc::new(Int64Array::from(vec![1 << 31])) as ArrayRef,
    )]);
    assert_eq!(
        refused(vec![("d", Arc::new(inner))]),
        "row 0: column d.n: 2147483648 does not fit 32 bits with a sign"
    );
    assert!(Encoder::protobuf(&[file()], Some("Other")).is_err());
}
