use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_array::{LargeListArray, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema};

use crate::{ColumnarError, Rows, check_schema, rows};

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn of(name: &str, column: ArrayRef) -> Result<Rows, ColumnarError> {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["v"; column.len()]));
    if name == "value" {
        rows(&table(vec![(name, column)]))
    } else {
        rows(&table(vec![("value", value), (name, column)]))
    }
}

#[test]
fn bytes_and_text_in_all_their_forms() {
    let bytes = || vec![Some(&b"ab"[..]), None, Some(b"")];
    let text = || vec![Some("ab"), None, Some("")];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(arrow_array::BinaryArray::from(bytes())),
        Arc::new(LargeBinaryArray::from(bytes())),
        Arc::new(BinaryViewArray::from(bytes())),
        Arc::new(StringArray::from(text())),
        Arc::new(LargeStringArray::from(text())),
        Arc::new(StringViewArray::from(text())),
    ];
    for column in columns {
        let kind = column.data_type().clone();
        for (offset, length) in [(0, 3), (1, 2)] {
            let rows = of("value", column.slice(offset, length)).unwrap();
            let got: Vec<_> = (0..rows.len()).map(|row| rows.get(row).value).collect();
            assert_eq!(got, &bytes()[offset..], "{kind}");
        }
        let rows = of("key", Arc::clone(&column)).unwrap();
        assert_eq!(
            (rows.get(0).key, rows.get(1).key),
            (Some(&b"ab"[..]), None),
            "{kind}"
        );
        let topic = of("topic", column);
        if kind.to_string().contains("Utf8") {
            assert_eq!(topic.unwrap().topic(0), Some("ab"));
        } else {
            assert!(
                matches!(topic, Err(ColumnarError::ColumnType { name: "topic", .. })),
                "{kind}"
            );
        }
    }
}

#[test]
fn only_the_value_must_be_there() {
    let rows = of("offset", Arc::new(Int32Array::from(vec![1]))).unwrap();
    let row = rows.get(0);
    assert_eq!(row.value, Some(&b"v"[..]));
    assert_eq!(
        (
            rows.topic(0),
            row.partition,
            row.timestamp_ms,
            row.key,
            row.headers.count()
        ),
        (None, None, None, None, 0)
    );
    assert_eq!(rows.get(1).value, None, "there is no such row");
    let error = rows_without_value();
    assert_eq!(
        error.to_string(),
        "the data to send has no column \"value\"; it has: key, offset"
    );
}

fn rows_without_value() -> ColumnarError {
    let key: ArrayRef = Arc::new(StringArray::from(vec!["k"]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    rows(&table(vec![("key", key), ("offset", number)])).unwrap_err()
}

#[test]
fn a_column_of_the_null_type_is_as_if_not_there_except_the_value() {
    for name in ["key", "topic", "partition", "timestamp", "headers"] {
        assert_eq!(of(name, Arc::new(NullArray::new(1))).unwrap().len(), 1);
    }
    let error = of("value", Arc::new(NullArray::new(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"value\" of the data to send has the type Null; it must be binary or string, in any of their forms, or a \
         dictionary of them"
    );
}

#[test]
fn wrong_types_are_named() {
    for name in ["value", "key", "topic", "headers"] {
        let error = of(name, Arc::new(Int32Array::from(vec![1]))).unwrap_err();
        assert!(
            matches!(&error, ColumnarError::ColumnType { name: found, .. } if *found == name),
            "{error}"
        );
    }
    for name in ["partition", "timestamp"] {
        let error = of(name, Arc::new(StringArray::from(vec!["1"]))).unwrap_err();
        assert!(
            matches!(&error, ColumnarError::ColumnType { name: found, .. } if *found == name),
            "{error}"
        );
    }
}

#[test]
fn dictionaries_stand_for_what_they_hold() {
    let text = |keys: Int32Array| {
        let values = Arc::new(StringArray::from(vec![Some("ab"), None, Some("")]));
        DictionaryArray::new(keys, values)
    };
    let column: ArrayRef = Arc::new(text(vec![Some(2), Some(0), None, Some(1)].into()));
    for name in ["value", "key"] {
        let rows = of(name, Arc::clone(&column)).unwrap();
        let got: Vec<_> = (0..4)
            .map(|row| match name {
                "value" => rows.get(row).value,
                _ => rows.get(row).key,
            })
            .collect();
        assert_eq!(got, [Some(&b""[..]), Some(b"ab"), None, None], "{name}");
    }
    let topics = of("topic", column.slice(1, 1)).unwrap();
    assert_eq!(topics.topic(0), Some("ab"));
    let small = Int8Array::from(vec![1, 0]);
    let bytes = LargeBinaryArray::from(vec![&b"x"[..], b"y"]);
    let column: ArrayRef = Arc::new(DictionaryArray::new(small, Arc::new(bytes)));
    let rows = of("value", Arc::clone(&column)).unwrap();
    assert_eq!(
        (rows.get(0).value, rows.get(1).value),
        (Some(&b"y"[..]), Some(&b"x"[..]))
    );
    let error = of("topic", column).unwrap_err();
    assert!(
        error.to_string().contains("string, in any of its forms"),
        "{error}"
    );
    let numbers = DictionaryArray::new(
        Int8Array::from(vec![0]),
        Arc::new(Int64Array::from(vec![5])),
    );
    assert!(of("value", Arc::new(numbers)).is_err());
}

#[test]
fn bytes_of_one_length() {
    let rows = [Some(&b"abc"[..]), None].into_iter();
    let column = FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows, 3).unwrap();
    let rows = of("key", Arc::new(column)).unwrap();
    assert_eq!(
        (rows.get(0).key, rows.get(1).key),
        (Some(&b"abc"[..]), None)
    );
}

#[test]
fn columns_that_would_be_lost_are_named() {
    for (name, near) in [
        ("Key", Some("key")),
        ("time_stamp", Some("timestamp")),
        ("something_else", None),
    ] {
        let error = of(name, Arc::new(Int32Array::from(vec![1]))).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("column {name:?}")), "{text}");
        assert_eq!(text.contains("did you mean"), near.is_some(), "{text}");
        assert!(
            near.is_none_or(|near| text.contains(&format!("mean {near:?}"))),
            "{text}"
        );
        assert!(text.ends_with("are value, key, topic, partition, timestamp, headers"));
    }
    for name in ["offset", "timestampType", "__index_level_0__"] {
        assert!(of(name, Arc::new(Int32Array::from(vec![1]))).is_ok());
    }
}

#[test]
fn a_schema_is_checked_before_there_are_rows() {
    let schema = |name: &str, kind| {
        let value = Field::new("value", DataType::BinaryView, true);
        Schema::new(vec![value, Field::new(name, kind, true)])
    };
    assert_eq!(check_schema(&schema("key", DataType::Utf8)), Ok(()));
    for wrong in [
        schema("key", DataType::Int8),
        schema("keys", DataType::Utf8),
    ] {
        assert!(check_schema(&wrong).is_err());
    }
}

#[test]
fn partitions_of_all_widths() {
    let columns: [ArrayRef; 8] = [
        Arc::new(Int8Array::from(vec![Some(5), None])),
        Arc::new(Int16Array::from(vec![Some(5), None])),
        Arc::new(Int32Array::from(vec![Some(5), None])),
        Arc::new(Int64Array::from(vec![Some(5), None])),
        Arc::new(UInt8Array::from(vec![Some(5), None])),
        Arc::new(UInt16Array::from(vec![Some(5), None])),
        Arc::new(UInt32Array::from(vec![Some(5), None])),
        Arc::new(UInt64Array::from(vec![Some(5), None])),
    ];
    for column in columns {
        let rows = of("partition", column).unwrap();
        assert_eq!(
            (rows.get(0).partition, rows.get(1).partition),
            (Some(5), None)
        );
    }
    let too_large: [ArrayRef; 3] = [
        Arc::new(Int64Array::from(vec![1 << 40])),
        Arc::new(UInt32Array::from(vec![u32::MAX])),
        Arc::new(UInt64Array::from(vec![u64::MAX])),
    ];
    for column in too_large {
        let rows = of("partition", column).unwrap();
        assert_eq!(
            rows.get(0).partition,
            Some(-1),
            "one that the producer refuses"
        );
    }
}

#[test]
fn timestamps_of_all_units_become_milliseconds() {
    let columns: [(ArrayRef, i64); 5] = [
        (Arc::new(Int64Array::from(vec![1500])), 1500),
        (Arc::new(TimestampSecondArray::from(vec![2])), 2000),
        (
            Arc::new(TimestampMillisecondArray::from(vec![1500]).with_timezone("UTC")),
            1500,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1_500_999])),
            1500,
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1_500_999_999])),
            1500,
        ),
    ];
    for (column, expected) in columns {
        let kind = column.data_type().clone();
        assert_eq!(
            of("timestamp", column).unwrap().get(0).timestamp_ms,
            Some(expected),
            "{kind}"
        );
    }
    let none = of(
        "timestamp",
        Arc::new(TimestampMicrosecondArray::from(vec![None])),
    )
    .unwrap();
    assert_eq!(none.get(0).timestamp_ms, None);
}

/// Headers a: 1 and b: null for a first row, none for a second.
fn headers(keys: Vec<Option<&str>>) -> StructArray {
    let keys: ArrayRef = Arc::new(StringArray::from(keys));
    let values: ArrayRef = Arc::new(LargeBinaryArray::from(vec![Some(&b"1"[..]), None]));
    StructArray::from(vec![
        (Arc::new(Field::new("key", DataType::Utf8, true)), keys),
        (
            Arc::new(Field::new("value", DataType::LargeBinary, true)),
            values,
        ),
    ])
}

#[test]
fn headers_from_lists_and_maps() {
    let structs = Arc::new(headers(vec![Some("a"), Some("b")]));
    let field = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let list = ListArray::new(
        Arc::clone(&field),
        OffsetBuffer::from_lengths([2, 0]),
        structs.clone(),
        None,
    );
    let large = LargeListArray::new(field, OffsetBuffer::from_lengths([2, 0]), structs, None);
    let mut map = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    map.keys().append_value("a");
    map.values().append_value("1");
    map.keys().append_value("b");
    map.values().append_null();
    map.append(true).unwrap();
    map.append(false).unwrap();
    let columns: [ArrayRef; 3] = [Arc::new(list), Arc::new(large), Arc::new(map.finish())];
    for column in columns {
        let kind = column.data_type().clone();
        let rows = of("headers", column).unwrap();
        assert_eq!(
            rows.get(0).headers.collect::<Vec<_>>(),
            [("a", Some(&b"1"[..])), ("b", None)],
            "{kind}"
        );
        assert_eq!(rows.get(1).headers.count(), 0, "{kind}");
    }
}

#[test]
fn headers_go_by_the_names_of_their_fields() {
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let values: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
    let field = |name, column: &ArrayRef| {
        let kind = column.data_type().clone();
        Arc::new(Field::new(name, kind, true))
    };
    let swapped = StructArray::from(vec![
        (field("value", &values), Arc::clone(&values)),
        (field("key", &keys), Arc::clone(&keys)),
    ]);
    let item = Arc::new(Field::new("item", swapped.data_type().clone(), true));
    let list = ListArray::new(
        item,
        OffsetBuffer::from_lengths([1]),
        Arc::new(swapped),
        None,
    );
    let rows = of("headers", Arc::new(list)).unwrap();
    let got: Vec<_> = rows.get(0).headers.collect();
    assert_eq!(got, [("a", Some(&b"1"[..]))]);
}

#[test]
fn a_header_has_a_key() {
    let structs = headers(vec![Some("a"), None]);
    let field = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let lists = ListArray::new(
        field,
        OffsetBuffer::from_lengths([1, 1]),
        Arc::new(structs),
        None,
    );
    // Of a slice, only its own headers count.
    assert!(of("headers", Arc::new(lists.slice(0, 1))).is_ok());
    for bad in [lists.slice(1, 1), lists.clone()] {
        assert_eq!(
            of("headers", Arc::new(bad)).unwrap_err(),
            ColumnarError::NullHeader
        );
    }
    // A null list shows none of those that it covers.
    let nulls = NullBuffer::from(vec![true, false]);
    let (field, offsets, values, _) = lists.into_parts();
    let hidden = ListArray::new(field, offsets, values, Some(nulls));
    assert!(of("headers", Arc::new(hidden)).is_ok());
}

#[test]
fn a_column_comes_once() {
    let column = |name: &str| Field::new(name, DataType::Binary, true);
    for name in ["value", "key", "headers"] {
        let schema = Schema::new(vec![column("value"), column(name), column(name)]);
        assert_eq!(
            check_schema(&schema).unwrap_err(),
            ColumnarError::DuplicateColumn { name }
        );
    }
}

/// A record's timestamp counts milliseconds since 1970, as in Java's `ProducerRecord`; -1 is that
/// of a received record that has none.
#[test]
fn a_timestamp_is_one_that_a_record_can_have() {
    let largest = i64::MAX / 1000;
    let seconds = |value| Arc::new(TimestampSecondArray::from(vec![value])) as ArrayRef;
    let millis = |value| Arc::new(TimestampMillisecondArray::from(vec![value])) as ArrayRef;
    let micros = |value| Arc::new(TimestampMicrosecondArray::from(vec![value])) as ArrayRef;
    let nanos = |value| Arc::new(TimestampNanosecondArray::from(vec![value])) as ArrayRef;
    let plain = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let good = [
        (seconds(largest), largest * 1000),
        (millis(-1), -1),
        (micros(-1000), -1),
        (nanos(-1_000_000), -1),
        (plain(-1), -1),
        (plain(i64::MAX), i64::MAX),
        (nanos(999_999), 0),
    ];
    for (column, expected) in good {
        let kind = column.data_type().clone();
        assert_eq!(
            of("timestamp", column).unwrap().get(0).timestamp_ms,
            Some(expected),
            "{kind}"
        );
    }
    let bad = [
        (seconds(largest + 1), " s"),
        (seconds(i64::MIN), " s"),
        (seconds(-1), " s"),
        (millis(-2), " ms"),
        (micros(-1), " us"),
        (micros(-999), " us"),
        (nanos(-1), " ns"),
        (nanos(i64::MIN), " ns"),
        (plain(-2), ""),
    ];
    for (column, expected) in bad {
        let kind = column.data_type().clone();
        let error = of("timestamp", column).unwrap_err();
        assert!(
            matches!(error, ColumnarError::Timestamp { row: 0, unit, .. } if unit == expected),
            "{kind}: {error}"
        );
    }
    let nulls = NullBuffer::from(vec![false]);
    let hidden = TimestampMillisecondArray::new(vec![-5].into(), Some(nulls));
    assert!(of("timestamp", Arc::new(hidden)).is_ok());
}
