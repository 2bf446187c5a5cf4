//! Reads Arrow tables as records to send.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int64Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, MapArray, RecordBatch,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, make_array,
    new_empty_array,
};
use arrow_schema::{DataType, Schema, TimeUnit};
use ottla_protocol::nearest::near;

use crate::error::ColumnarError;
use crate::integers::{Integers, there};

const BYTES: &str = "binary or string, in any of their forms, or a dictionary of them";
const TEXT: &str = "string, in any of its forms, or a dictionary of it";
const INTEGER: &str = "an integer";
const TIME: &str = "timestamp, or int64 in milliseconds";
const HEADERS: &str = "a list of structs with a key of type string and a value of type binary or string, or such a map";

/// The columns that are sent.
const SENT: [&str; 6] = ["value", "key", "topic", "partition", "timestamp", "headers"];
/// Columns of a batch that was received, which the broker or the topic sets again; and the index
/// that pandas adds to a table.
const PASSED_OVER: [&str; 2] = ["offset", "timestampType"];
const PANDAS_INDEX: &str = "__index_level_";

/// Whether tables of these columns can be sent, by the rules of [`rows`].
///
/// # Errors
/// As [`rows`], but for what depends on the rows.
pub fn check_schema(schema: &Schema) -> Result<(), ColumnarError> {
    let columns = schema.fields().iter();
    let columns = columns
        .map(|field| new_empty_array(field.data_type()))
        .collect();
    rows(&RecordBatch::try_new(schema.clone().into(), columns)?).map(|_| ())
}

/// Reads the records in an Arrow table by the names of its columns. The column `value` is required; `key`, `topic`, `partition`
/// (an integer), `timestamp` (a timestamp of any unit, or int64 in milliseconds) and `headers` are optional. The columns of
/// received records that cannot be sent are passed over. The producer sets a null partition or timestamp; a timestamp of -1
/// milliseconds is that of a received record that has none.
///
/// # Errors
/// [`ColumnarError::MissingColumn`], [`ColumnarError::UnknownColumn`], [`ColumnarError::DuplicateColumn`] or
/// [`ColumnarError::ColumnType`]; [`ColumnarError::NullHeader`], [`ColumnarError::NotUtf8`] or [`ColumnarError::Timestamp`] for
/// what a row holds.
pub fn rows(batch: &RecordBatch) -> Result<Rows, ColumnarError> {
    check_names(batch.schema_ref())?;
    let value = Column {
        name: "value",
        array: batch.column_by_name("value"),
    };
    let column = |name| Column {
        name,
        array: batch
            .column_by_name(name)
            .filter(|column| *column.data_type() != DataType::Null),
    };
    let Some(value) = value.read(BYTES, Payloads::new)? else {
        let fields = batch.schema_ref().fields().iter();
        return Err(ColumnarError::MissingColumn {
            name: "value",
            found: fields.map(|field| field.name().clone()).collect(),
        });
    };
    let rows = Rows {
        length: batch.num_rows(),
        value,
        key: column("key").read(BYTES, Payloads::new)?,
        topic: column("topic").read(TEXT, Payloads::of_text)?,
        partition: column("partition").read(INTEGER, Integers::new)?,
        timestamp: column("timestamp").read(TIME, Timestamps::new)?,
        headers: column("headers").read(HEADERS, HeaderLists::new)?,
    };
    rows.check()?;
    Ok(rows)
}

/// A column with an unknown name, or with the name of another one, would be lost in silence.
fn check_names(schema: &Schema) -> Result<(), ColumnarError> {
    let count = |name: &str| {
        let fields = schema.fields().iter();
        fields.filter(|field| field.name() == name).count()
    };
    if let Some(name) = SENT.into_iter().find(|name| count(name) > 1) {
        return Err(ColumnarError::DuplicateColumn { name });
    }
    let unknown = schema.fields().iter().map(|field| field.name().as_str());
    let unknown = unknown
        .filter(|name| !SENT.contains(name) && !PASSED_OVER.contains(name))
        .find(|name| !name.starts_with(PANDAS_INDEX));
    let Some(name) = unknown else { return Ok(()) };
    Err(ColumnarError::UnknownColumn {
        name: name.to_owned(),
        near: near(name, SENT.into_iter()),
        known: &SENT,
    })
}

/// A column by its name, if it is there.
struct Column<'a> {
    name: &'static str,
    array: Option<&'a ArrayRef>,
}

impl Column<'_> {
    fn read<T>(
        self,
        wanted: &'static str,
        read: impl FnOnce(&ArrayRef) -> Option<T>,
    ) -> Result<Option<T>, ColumnarError> {
        let wrong = |array: &ArrayRef| ColumnarError::ColumnType {
            name: self.name,
            found: array.data_type().to_string(),
            wanted,
        };
        let read = |array| read(array).ok_or_else(|| wrong(array));
        self.array.map(read).transpose()
    }
}

/// Rows of a table, to be sent. See [`rows`].
#[derive(Debug, Clone)]
pub struct Rows {
    length: usize,
    key: Option<Payloads>,
    value: Payloads,
    topic: Option<Payloads>,
    partition: Option<Integers>,
    timestamp: Option<Timestamps>,
    headers: Option<HeaderLists>,
}

/// A record to send, as slices of the table.
#[derive(Debug, Clone)]
pub struct Row<'a> {
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

    /// Refuses what would be sent as something else.
    fn check(&self) -> Result<(), ColumnarError> {
        if let Some(topics) = &self.topic {
            let is_bad = |row: &usize| topics.get(*row).is_some_and(|topic| !is_utf8(topic));
            if let Some(row) = (0..self.length).find(is_bad) {
                let what = "the topic";
                return Err(ColumnarError::NotUtf8 { row, what });
            }
        }
        if let Some(timestamps) = &self.timestamp {
            (0..self.length).try_for_each(|row| timestamps.check(row))?;
        }
        if let Some(headers) = &self.headers {
            (0..self.length).try_for_each(|row| headers.check(row))?;
        }
        Ok(())
    }

    /// The topic of a row, if the table has that column.
    #[must_use]
    pub fn topic(&self, row: usize) -> Option<&str> {
        let topic = self.topic.as_ref()?.get(row)?;
        std::str::from_utf8(topic).ok()
    }

    /// A row; an empty one if the table has no such row.
    // Its fields stay in registers where it is used: a row in memory is written field by field and read in larger pieces, for which
    // the processor waits.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, row: usize) -> Row<'_> {
        Row {
            partition: self
                .partition
                .as_ref()
                .and_then(|partition| partition.get(row))
                .map(|partition| i32::try_from(partition).unwrap_or(-1)),
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
    FixedSize(FixedSizeBinaryArray),
    Dictionary(Integers, Box<Payloads>),
}

impl Payloads {
    /// A column of text.
    fn of_text(column: &ArrayRef) -> Option<Self> {
        Self::new(column).filter(Self::is_text)
    }

    fn is_text(&self) -> bool {
        match self {
            Self::String(_) | Self::LargeString(_) | Self::StringView(_) => true,
            Self::Binary(_) | Self::LargeBinary(_) | Self::BinaryView(_) | Self::FixedSize(_) => {
                false
            }
            Self::Dictionary(_, values) => values.is_text(),
        }
    }

    fn new(column: &ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Binary => Self::Binary(column.as_binary_opt()?.clone()),
            DataType::LargeBinary => Self::LargeBinary(column.as_binary_opt()?.clone()),
            DataType::BinaryView => Self::BinaryView(column.as_binary_view_opt()?.clone()),
            DataType::Utf8 => Self::String(column.as_string_opt()?.clone()),
            DataType::LargeUtf8 => Self::LargeString(column.as_string_opt()?.clone()),
            DataType::Utf8View => Self::StringView(column.as_string_view_opt()?.clone()),
            DataType::FixedSizeBinary(_) => {
                Self::FixedSize(column.as_fixed_size_binary_opt()?.clone())
            }
            DataType::Dictionary(..) => {
                let dictionary = column.as_any_dictionary_opt()?;
                let keys = make_array(dictionary.keys().to_data());
                let values = Self::new(dictionary.values())?;
                Self::Dictionary(Integers::new(&keys)?, Box::new(values))
            }
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
            Self::FixedSize(column) => there(column, row).then(|| column.value(row)),
            Self::Dictionary(keys, values) => values.get(usize::try_from(keys.get(row)?).ok()?),
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
        let value = self.value(row)?;
        Some(match self {
            Self::Plain(_) | Self::Milliseconds(_) => value,
            Self::Seconds(_) => value.saturating_mul(1000),
            Self::Microseconds(_) => value.div_euclid(1000),
            Self::Nanoseconds(_) => value.div_euclid(1_000_000),
        })
    }

    /// The number in the column.
    #[inline]
    fn value(&self, row: usize) -> Option<i64> {
        match self {
            Self::Plain(column) => there(column, row).then(|| column.value(row)),
            Self::Seconds(column) => there(column, row).then(|| column.value(row)),
            Self::Milliseconds(column) => there(column, row).then(|| column.value(row)),
            Self::Microseconds(column) => there(column, row).then(|| column.value(row)),
            Self::Nanoseconds(column) => there(column, row).then(|| column.value(row)),
        }
    }

    fn check(&self, row: usize) -> Result<(), ColumnarError> {
        let (unit, most, none) = match self {
            Self::Plain(_) => ("", i64::MAX, Some(-1)),
            Self::Seconds(_) => (" s", i64::MAX / 1000, None),
            Self::Milliseconds(_) => (" ms", i64::MAX, Some(-1)),
            Self::Microseconds(_) => (" us", i64::MAX, Some(-1_000)),
            Self::Nanoseconds(_) => (" ns", i64::MAX, Some(-1_000_000)),
        };
        match self.value(row) {
            Some(value) if !(0..=most).contains(&value) && Some(value) != none => {
                Err(ColumnarError::Timestamp { row, value, unit })
            }
            _ => Ok(()),
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
        let named = headers
            .column_by_name("key")
            .zip(headers.column_by_name("value"));
        let (keys, values) = match (named, headers.columns()) {
            (Some(named), [_, _]) => named,
            (_, [keys, values]) => (keys, values),
            _ => return None,
        };
        Some(Self {
            lists,
            headers: headers.clone(),
            keys: Payloads::of_text(keys)?,
            values: Payloads::new(values)?,
        })
    }

    /// Kafka has no header without a key. Only headers of rows are looked at: the lists may be a slice, and a null one may cover
    /// some.
    fn check(&self, row: usize) -> Result<(), ColumnarError> {
        for place in self.get(row).places() {
            match self.keys.get(place) {
                Some(key) if self.headers.is_valid(place) => {
                    if !is_utf8(key) {
                        let what = "the key of a header";
                        return Err(ColumnarError::NotUtf8 { row, what });
                    }
                }
                _ => return Err(ColumnarError::NullHeader),
            }
        }
        Ok(())
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

/// Arrow data of another library claims that its strings are UTF-8, which nobody has checked.
fn is_utf8(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok()
}

/// Where the list of a row is.
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

    /// The places of those that are left among all headers of the column.
    fn places(&self) -> Range<usize> {
        self.next..self.end
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
