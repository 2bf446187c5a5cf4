use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryViewArray};
use bytes::Bytes;
use ottla_protocol::compression::Compression;

use super::decoding::{batch, joined, source};
use crate::{Columns, Memory, decode_in_place, view_schema};

const KEY: usize = 0;
const VALUE: usize = 1;
const ALL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Asserts that two have the same records, as rows, as columns and as views.
pub(super) fn same(left: &Columns, right: &Columns) {
    assert_eq!(left.len(), right.len());
    assert_eq!(left.bytes(), right.bytes());
    assert_eq!(left.next_offset(), right.next_offset());
    for row in 0..left.len() {
        assert_eq!(left.key(row), right.key(row));
        assert_eq!(left.value(row), right.value(row));
    }
    let copied = left.record_batch().unwrap();
    assert_eq!(copied, right.record_batch().unwrap());
    let viewed = right.view_batch_of(&ALL).unwrap();
    assert_eq!(viewed.schema(), view_schema());
    assert_eq!(viewed, left.view_batch_of(&ALL).unwrap());
    for column in [KEY, VALUE] {
        let copied: Vec<_> = copied.column(column).as_binary::<i32>().iter().collect();
        let views = viewed.column(column).as_binary_view();
        assert_eq!(views.iter().collect::<Vec<_>>(), copied);
        // Arrow's own look at every view.
        let (views, buffers, nulls) = views.clone().into_parts();
        BinaryViewArray::try_new(views, buffers, nulls).unwrap();
    }
}

fn viewed(bytes: &Bytes) -> Columns {
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    decode_in_place(bytes.clone(), &source(), &memory).unwrap()
}

fn column(columns: &Columns, column: usize) -> BinaryViewArray {
    let table = columns.view_batch_of(&[column]).unwrap();
    table.column(0).as_binary_view().clone()
}

/// Whether the bytes are part of the others, in the memory.
fn within(bytes: &[u8], of: &[u8]) -> bool {
    of.as_ptr_range().contains(&bytes.as_ptr())
}

fn records(codec: Compression, base_offset: i64, keys: &[&str], value: &str) -> bytes::BytesMut {
    let record = |key: &&str| {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        (1_700_000_000_000, bytes(key), bytes(value), Vec::new())
    };
    let records: Vec<_> = keys.iter().map(record).collect();
    batch(codec, base_offset, &records, |_| ())
}

const LONG: &str = "a value that is longer than its view";

#[test]
fn values_that_are_not_compressed_stay_in_what_was_received() {
    let bytes = joined(&[
        records(Compression::None, 0, &["k", "a key that is long"], LONG),
        records(Compression::None, 2, &["l"], LONG),
    ]);
    let columns = viewed(&bytes);
    for row in 0..3 {
        assert!(within(columns.value(row).unwrap(), &bytes));
    }
    assert!(within(columns.key(1).unwrap(), &bytes));
    let values = column(&columns, VALUE);
    assert_eq!(values.data_buffers().len(), 1);
    assert_eq!(values.data_buffers()[0].as_ptr(), bytes.as_ptr());
    // The views of a copy point into the copy.
    let memory = Memory::new(1 << 20, Vec::with_capacity);
    let copied = crate::decode(bytes.clone(), &source(), &memory).unwrap();
    let again = column(&copied, VALUE);
    assert_eq!(again, values);
    assert_eq!(again.value(0).as_ptr(), copied.value(0).unwrap().as_ptr());
    assert!(!within(again.value(0), &bytes));
}

#[test]
fn compressed_values_stay_in_what_they_decompressed_to() {
    let batches = [
        records(Compression::Zstd, 0, &["k", "l"], LONG),
        records(Compression::None, 2, &["m"], LONG),
        records(Compression::Lz4, 3, &["n"], LONG),
    ];
    let bytes = joined(&batches);
    let columns = viewed(&bytes);
    let values = column(&columns, VALUE);
    assert_eq!(values.data_buffers().len(), 3);
    for (row, buffer) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        assert_eq!(columns.value(row), Some(LONG.as_bytes()));
        assert!(within(values.value(row), &values.data_buffers()[buffer]));
    }
    same(&columns.slice(1, 2), &columns.slice(1, 2));
    // They outlive the columns.
    drop(columns);
    assert_eq!(values.value(3), LONG.as_bytes());
}

#[test]
fn short_values_keep_nothing_in_memory() {
    let bytes = joined(&[records(Compression::None, 0, &["k", "twelve bytes"], LONG)]);
    let columns = viewed(&bytes);
    let keys = column(&columns, KEY);
    assert!(keys.data_buffers().is_empty());
    assert_eq!(keys.value(1), b"twelve bytes");
    assert!(!bytes.is_unique());
    drop(columns);
    assert!(bytes.is_unique());
    assert_eq!(keys.len(), 2);
}

#[test]
fn keys_that_come_late_or_never_have_nulls_before_them() {
    let rows = |base_offset, keys: &[Option<&str>]| {
        let record = |key: &Option<&str>| {
            let key = key.map(|key| key.as_bytes().to_vec());
            (1_700_000_000_000, key, Some(LONG.into()), Vec::new())
        };
        let records: Vec<_> = keys.iter().map(record).collect();
        batch(Compression::None, base_offset, &records, |_| ())
    };
    let long = "a key that is long";
    for (first, second) in [
        ([None, None], [None, None]),
        ([None, None], [Some(long), None]),
        ([None, Some("k")], [None, Some(long)]),
        ([Some(""), None], [None, None]),
    ] {
        let bytes = joined(&[rows(0, &first), rows(2, &second)]);
        let (columns, keys) = (viewed(&bytes), [first, second].concat());
        let copied = super::decode(bytes, &source()).unwrap();
        same(&copied, &columns);
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(columns.key(row), key.map(str::as_bytes));
        }
        assert_eq!(
            column(&columns, KEY).null_count(),
            keys.iter().filter(|key| key.is_none()).count()
        );
    }
}

#[test]
fn values_of_each_length_are_their_bytes() {
    let text = "abcdefghijklmn";
    let keys: Vec<_> = (0..=text.len()).map(|length| &text[..length]).collect();
    let bytes = joined(&[records(Compression::None, 0, &keys, LONG)]);
    let columns = viewed(&bytes);
    same(&super::decode(bytes, &source()).unwrap(), &columns);
    for (row, key) in keys.iter().enumerate() {
        assert_eq!(columns.key(row), Some(key.as_bytes()));
    }
}
