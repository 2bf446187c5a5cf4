//! Reads Arrow tables as records to send.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, Int64Array, LargeBinaryArray,
    LargeListArray, LargeStringArray, ListArray, MapArray, RecordBatch, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::{DataType, TimeUnit};

use crate::error::ColumnarError;

const BYTES: &str = "binary or string, in any of their forms";
const TEXT: &str = "string, in any of its forms";
const HEADERS: &str = "a list of structs with a key of type string and a value of type binary or string, or such a map";

/// Reads the records in an Arrow table by the names of its columns. The column `value` is required; `key`, `topic`, `partition`
/// (int32 or int64), `timestamp` (a timestamp of any unit, or int64 in milliseconds) and `headers` are optional. Other columns
/// are ignored. The producer sets a null partition or timestamp.
///
/// # Errors
/// [`ColumnarError::MissingColumn`], [`ColumnarError::ColumnType`] or [`ColumnarError::NullHeader`].
pub fn rows(batch: &RecordBatch) -> Result<Rows, ColumnarError> {
    let column = |name| {
        batch
            .column_by_name(name)
            .filter(|column| *column.data_type() != DataType::Null)
    };
    let Some(value) = batch.column_by_name("value") else {
        let found = batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        return Err(ColumnarError::MissingColumn {
            name: "value",
            found,
        });
    };
    let wrong = |name, column: &ArrayRef, wanted| ColumnarError::ColumnType {
        name,
        found: column.data_type().to_string(),
        wanted,
    };
    let text = |column: &ArrayRef| {
        matches!(
            column.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    Ok(Rows {
        length: batch.num_rows(),
        value: Payloads::new(value).ok_or_else(|| wrong("value", value, BYTES))?,
        key: column("key")
            .map(|key| Payloads::new(key).ok_or_else(|| wrong("key", key, BYTES)))
            .transpose()?,
        topic: column("topic")
            .map(|topic| {
                Payloads::new(topic)
                    .filter(|_| text(topic))
                    .ok_or_else(|| wrong("topic", topic, TEXT))
            })
            .transpose()?,
        partition: column("partition")
            .map(|partition| {
                Partitions::new(partition)
                    .ok_or_else(|| wrong("partition", partition, "int32 or int64"))
            })
            .transpose()?,
        timestamp: column("timestamp")
            .map(|time| {
                Timestamps::new(time)
                    .ok_or_else(|| wrong("timestamp", time, "timestamp, or int64 in milliseconds"))
            })
            .transpose()?,
        headers: column("headers")
            .map(|headers| {
                HeaderLists::new(headers)
                    .ok_or_else(|| wrong("headers", headers, HEADERS))?
                    .without_nulls()
            })
            .transpose()?,
    })
}

/// Rows of a table, to be sent. See [`rows`].
#[derive(Debug, Clone)]
pub struct Rows {
    length: usize,
    key: Option<Payloads>,
    value: Payloads,
    topic: Option<Payloads>,
    partition: Option<Partitions>,
    timestamp: Option<Timestamps>,
    headers: Option<HeaderLists>,
}

/// A record to send, as slices of the table.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Its topic, if the table has that column.
    pub topic: Option<&'a str>,
    /// Its partition, if given; -1 for a number that no partition can have.
    pub partition: Option<i32>,
    /// Its timestamp in milliseconds, if given.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: RowHeaders<'a>,
}

impl Rows {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A row; an empty one if the table has no such row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Row<'_> {
        Row {
            topic: self
                .topic
                .as_ref()
                .and_then(|topic| topic.get(row))
                .and_then(|topic| std::str::from_utf8(topic).ok()),
            partition: self
                .partition
                .as_ref()
                .and_then(|partition| partition.get(row)),
            timestamp_ms: self
                .timestamp
                .as_ref()
                .and_then(|timestamp| timestamp.get(row)),
            key: self.key.as_ref().and_then(|key| key.get(row)),
            value: self.value.get(row),
            headers: self
                .headers
                .as_ref()
                .map_or_else(RowHeaders::none, |headers| headers.get(row)),
        }
    }
}

/// A column of bytes or text.
#[derive(Debug, Clone)]
enum Payloads {
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    String(StringArray),
    LargeString(LargeStringArray),
    StringView(StringViewArray),
}

impl Payloads {
    fn new(column: &ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Binary => Self::Binary(column.as_binary_opt()?.clone()),
            DataType::LargeBinary => Self::LargeBinary(column.as_binary_opt()?.clone()),
            DataType::BinaryView => Self::BinaryView(column.as_binary_view_opt()?.clone()),
            DataType::Utf8 => Self::String(column.as_string_opt()?.clone()),
            DataType::LargeUtf8 => Self::LargeString(column.as_string_opt()?.clone()),
            DataType::Utf8View => Self::StringView(column.as_string_view_opt()?.clone()),
            _ => return None,
        })
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(column) => there(column, row).then(|| column.value(row)),
            Self::LargeBinary(column) => there(column, row).then(|| column.value(row)),
            Self::BinaryView(column) => there(column, row).then(|| column.value(row)),
            Self::String(column) => there(column, row).then(|| column.value(row).as_bytes()),
            Self::LargeString(column) => there(column, row).then(|| column.value(row).as_bytes()),
            Self::StringView(column) => there(column, row).then(|| column.value(row).as_bytes()),
        }
    }
}

#[inline]
fn there(column: &dyn Array, row: usize) -> bool {
    row < column.len() && column.is_valid(row)
}

#[derive(Debug, Clone)]
enum Partitions {
    Int32(Int32Array),
    Int64(Int64Array),
}

impl Partitions {
    fn new(column: &ArrayRef) -> Option<Self> {
        let narrow = column
            .as_primitive_opt::<Int32Type>()
            .map(|column| Self::Int32(column.clone()));
        narrow.or_else(|| {
            column
                .as_primitive_opt::<Int64Type>()
                .map(|column| Self::Int64(column.clone()))
        })
    }

    #[inline]
    fn get(&self, row: usize) -> Option<i32> {
        match self {
            Self::Int32(column) => there(column, row).then(|| column.value(row)),
            Self::Int64(column) => {
                there(column, row).then(|| i32::try_from(column.value(row)).unwrap_or(-1))
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Timestamps {
    Plain(Int64Array),
    Seconds(TimestampSecondArray),
    Milliseconds(TimestampMillisecondArray),
    Microseconds(TimestampMicrosecondArray),
    Nanoseconds(TimestampNanosecondArray),
}

impl Timestamps {
    fn new(column: &ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Int64 => Self::Plain(column.as_primitive_opt::<Int64Type>()?.clone()),
            DataType::Timestamp(TimeUnit::Second, _) => {
                Self::Seconds(column.as_primitive_opt::<TimestampSecondType>()?.clone())
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => Self::Milliseconds(
                column
                    .as_primitive_opt::<TimestampMillisecondType>()?
                    .clone(),
            ),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Microseconds(
                column
                    .as_primitive_opt::<TimestampMicrosecondType>()?
                    .clone(),
            ),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Self::Nanoseconds(
                column
                    .as_primitive_opt::<TimestampNanosecondType>()?
                    .clone(),
            ),
            _ => return None,
        })
    }

    /// Milliseconds; a finer time is rounded down.
    #[inline]
    fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::Plain(column) => there(column, row).then(|| column.value(row)),
            Self::Seconds(column) => {
                there(column, row).then(|| column.value(row).saturating_mul(1000))
            }
            Self::Milliseconds(column) => there(column, row).then(|| column.value(row)),
            Self::Microseconds(column) => {
                there(column, row).then(|| column.value(row).div_euclid(1000))
            }
            Self::Nanoseconds(column) => {
                there(column, row).then(|| column.value(row).div_euclid(1_000_000))
            }
        }
    }
}

/// A column of headers.
#[derive(Debug, Clone)]
struct HeaderLists {
    lists: Lists,
    headers: StructArray,
    keys: Payloads,
    values: Payloads,
}

#[derive(Debug, Clone)]
enum Lists {
    List(ListArray),
    LargeList(LargeListArray),
    Map(MapArray),
}

impl HeaderLists {
    fn new(column: &ArrayRef) -> Option<Self> {
        let (lists, headers) = match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list_opt::<i32>()?;
                (Lists::List(lists.clone()), lists.values().as_struct_opt()?)
            }
            DataType::LargeList(_) => {
                let lists = column.as_list_opt::<i64>()?;
                (
                    Lists::LargeList(lists.clone()),
                    lists.values().as_struct_opt()?,
                )
            }
            DataType::Map(..) => {
                let maps = column.as_map_opt()?;
                (Lists::Map(maps.clone()), maps.entries())
            }
            _ => return None,
        };
        // A map names the two as it likes, in this order.
        let [keys, values] = headers.columns() else {
            return None;
        };
        let keys = Payloads::new(keys).filter(|keys| {
            matches!(
                keys,
                Payloads::String(_) | Payloads::LargeString(_) | Payloads::StringView(_)
            )
        })?;
        Some(Self {
            lists,
            headers: headers.clone(),
            keys,
            values: Payloads::new(values)?,
        })
    }

    /// Kafka has no header without a key.
    fn without_nulls(self) -> Result<Self, ColumnarError> {
        let keys = self.headers.columns().first();
        if self.headers.null_count() > 0 || keys.is_some_and(|keys| keys.null_count() > 0) {
            return Err(ColumnarError::NullHeader);
        }
        Ok(self)
    }

    #[inline]
    fn get(&self, row: usize) -> RowHeaders<'_> {
        let (next, end) = match &self.lists {
            Lists::List(lists) if there(lists, row) => range(lists.value_offsets(), row),
            Lists::LargeList(lists) if there(lists, row) => range(lists.value_offsets(), row),
            Lists::Map(maps) if there(maps, row) => range(maps.value_offsets(), row),
            _ => return RowHeaders::none(),
        };
        RowHeaders {
            lists: Some(self),
            next,
            end,
        }
    }
}

fn range<O: Copy + TryInto<usize>>(offsets: &[O], row: usize) -> (usize, usize) {
    let at = |row: usize| {
        offsets
            .get(row)
            .and_then(|at| (*at).try_into().ok())
            .unwrap_or(0)
    };
    (at(row), at(row + 1))
}

/// The headers of a row: keys and values.
#[derive(Debug, Clone)]
pub struct RowHeaders<'a> {
    lists: Option<&'a HeaderLists>,
    next: usize,
    end: usize,
}

impl RowHeaders<'_> {
    const fn none() -> Self {
        Self {
            lists: None,
            next: 0,
            end: 0,
        }
    }
}

impl<'a> Iterator for RowHeaders<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next;
        let lists = self.lists.filter(|_| row < self.end)?;
        self.next += 1;
        let key = lists
            .keys
            .get(row)
            .and_then(|key| std::str::from_utf8(key).ok())?;
        Some((key, lists.values.get(row)))
    }
}
