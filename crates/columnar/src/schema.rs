//! The columns that records have.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

pub(crate) const KEY: usize = 0;
pub(crate) const VALUE: usize = 1;
pub(crate) const TOPIC: usize = 2;
pub(crate) const PARTITION: usize = 3;
pub(crate) const OFFSET: usize = 4;
pub(crate) const TIMESTAMP: usize = 5;
pub(crate) const TIMESTAMP_TYPE: usize = 6;
pub(crate) const HEADERS: usize = 7;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| with(DataType::Binary));
static VIEW_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| with(DataType::BinaryView));

/// The columns, with keys and values of this type.
fn with(bytes: DataType) -> SchemaRef {
    let column = |name, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        column("key", bytes.clone()),
        column("value", bytes),
        column("topic", DataType::Utf8),
        column("partition", DataType::Int32),
        column("offset", DataType::Int64),
        column(
            "timestamp",
            DataType::Timestamp(TimeUnit::Microsecond, Some(utc())),
        ),
        column("timestampType", DataType::Int32),
        column("headers", DataType::List(header_field())),
    ]))
}

/// The columns of consumed records, in order: key, value, topic, partition, offset, timestamp (UTC, in microseconds),
/// timestampType (0: set by the producer, 1: by the broker), headers (null where a record has none). All nullable, names and
/// types exactly as Spark's Kafka source has them with `includeHeaders`.
#[must_use]
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// The same columns, with key and value as binary_view.
#[must_use]
pub fn view_schema() -> SchemaRef {
    Arc::clone(&VIEW_SCHEMA)
}

pub(crate) fn utc() -> Arc<str> {
    "UTC".into()
}

/// The element of the headers column, under the name that Spark gives elements of arrays.
pub(crate) fn header_field() -> Arc<Field> {
    Arc::new(Field::new(
        "element",
        DataType::Struct(header_fields()),
        true,
    ))
}

pub(crate) fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}
