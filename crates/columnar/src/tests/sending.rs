use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    NullArray, RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_array::{LargeListArray, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use crate::{ColumnarError, Rows, rows};

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
            assert_eq!(topic.unwrap().get(0).topic, Some("ab"));
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
    let rows = of("other", Arc::new(Int32Array::from(vec![1]))).unwrap();
    let row = rows.get(0);
    assert_eq!(row.value, Some(&b"v"[..]));
    assert_eq!(
        (
            row.topic,
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
        "the data to send has no column \"value\"; it has: key, n"
    );
}

fn rows_without_value() -> ColumnarError {
    let key: ArrayRef = Arc::new(StringArray::from(vec!["k"]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    rows(&table(vec![("key", key), ("n", number)])).unwrap_err()
}

#[test]
fn a_column_of_the_null_type_is_as_if_not_there_except_the_value() {
    for name in ["key", "topic", "partition", "timestamp", "headers"] {
        assert_eq!(of(name, Arc::new(NullArray::new(1))).unwrap().len(), 1);
    }
    let error = of("value", Arc::new(NullArray::new(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"value\" of the data to send has the type Null; it must be binary or string, in any of their forms"
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
fn partitions_of_both_widths() {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int32Array::from(vec![Some(5), None])),
        Arc::new(Int64Array::from(vec![Some(5), None])),
    ];
    for column in columns {
        let rows = of("partition", column).unwrap();
        assert_eq!(
            (rows.get(0).partition, rows.get(1).partition),
            (Some(5), None)
        );
    }
    let rows = of("partition", Arc::new(Int64Array::from(vec![1 << 40]))).unwrap();
    assert_eq!(
        rows.get(0).partition,
        Some(-1),
        "one that the producer refuses"
    );
}

#[test]
fn timestamps_of_all_units_become_milliseconds() {
    let columns: [(ArrayRef, i64); 7] = [
        (Arc::new(Int64Array::from(vec![-1500])), -1500),
        (Arc::new(TimestampSecondArray::from(vec![-2])), -2000),
        (
            Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
            i64::MAX,
        ),
        (
            Arc::new(TimestampMillisecondArray::from(vec![1500]).with_timezone("UTC")),
            1500,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1_500_999])),
            1500,
        ),
        (Arc::new(TimestampMicrosecondArray::from(vec![-1])), -1),
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
fn a_header_has_a_key() {
    let structs = headers(vec![Some("a"), None]);
    let field = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let list = ListArray::new(
        field,
        OffsetBuffer::from_lengths([2]),
        Arc::new(structs),
        None,
    );
    assert_eq!(
        of("headers", Arc::new(list)).unwrap_err(),
        ColumnarError::NullHeader
    );
}
