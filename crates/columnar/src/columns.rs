//! Consumed records, as columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::SchemaRef;

use crate::build;
use crate::error::ColumnarError;
use crate::schema::{
    HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TOPIC, VALUE, header_field, schema,
    utc, view_schema,
};
use crate::values::{Values, span};

/// Rows of one batch, or of several batches with the same timestamp type and leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The row after the last.
    pub(crate) end: usize,
    pub(crate) timestamp_type: i32,
    pub(crate) leader_epoch: i32,
}

/// All rows of one decode, which views share.
#[derive(Debug)]
pub(crate) struct SharedRows {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) next_offset: i64,
    pub(crate) keys: Values,
    pub(crate) values: Values,
    pub(crate) offsets: ScalarBuffer<i64>,
    /// Milliseconds.
    pub(crate) timestamps: ScalarBuffer<i64>,
    pub(crate) headers: Option<ListArray>,
    pub(crate) runs: Vec<Run>,
}

/// Records of one partition in the order of their offsets: a view of shared rows. Cloning, slicing and splitting copy
/// nothing. Row numbers count from 0 within the view.
#[derive(Debug, Clone)]
pub struct Columns {
    all: Arc<SharedRows>,
    start: usize,
    length: usize,
}

impl Columns {
    pub(crate) fn new(all: SharedRows) -> Self {
        Self {
            start: 0,
            length: all.offsets.len(),
            all: Arc::new(all),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no rows. There may still be offsets to skip: see [`Self::next_offset`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// At most `length` rows, from row `offset` on.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        let offset = offset.min(self.length);
        let length = length.min(self.length - offset);
        Self {
            all: Arc::clone(&self.all),
            start: self.start + offset,
            length,
        }
    }

    /// Splits off the first `n` rows, or all; `self` keeps the rest.
    #[must_use]
    pub fn split_to(&mut self, n: usize) -> Self {
        let first = self.slice(0, n);
        *self = self.slice(first.length, self.length);
        first
    }

    /// The rows before an offset.
    #[must_use]
    pub fn before(&self, offset: i64) -> Self {
        let rows = self.start..self.start + self.length;
        let offsets = self.all.offsets.get(rows).unwrap_or_default();
        self.slice(0, offsets.partition_point(|row| *row < offset))
    }

    /// The offset to continue at after these rows. After the last decoded row it is past everything that was read: also past
    /// gaps, control batches and aborted records.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        let end = self.start + self.length;
        match self.all.offsets.get(end) {
            None => self.all.next_offset,
            Some(next) if self.length == 0 => *next,
            Some(_) => self.offset(self.length - 1).saturating_add(1),
        }
    }

    /// Bytes of all keys, values and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let rows = self.start..self.start + self.length;
        let headers = self.all.headers.as_ref().map_or(0, |lists| {
            let rows = span(lists.value_offsets(), &rows);
            let Some(headers) = lists.values().as_struct_opt() else {
                return 0;
            };
            let [keys, values] = headers.columns() else {
                return 0;
            };
            let keys = keys
                .as_string_opt::<i32>()
                .map(|keys| span(keys.value_offsets(), &rows));
            let values = values
                .as_binary_opt::<i32>()
                .map(|values| span(values.value_offsets(), &rows));
            keys.map_or(0, |keys| keys.len()) + values.map_or(0, |values| values.len())
        });
        self.all.keys.bytes(&rows) + self.all.values.bytes(&rows) + headers
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.all.topic
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.all.partition
    }

    /// The key of a row.
    #[inline]
    #[must_use]
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        self.place(row).and_then(|row| self.all.keys.get(row))
    }

    /// The value of a row; `None` is a tombstone.
    #[inline]
    #[must_use]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        self.place(row).and_then(|row| self.all.values.get(row))
    }

    /// Visits the values from a row on, in order, until `visit` returns false. One that is null has no bytes.
    pub fn visit_values(&self, row: usize, visit: impl FnMut(&[u8]) -> bool) {
        let rows = self.start + row.min(self.length)..self.start + self.length;
        self.all.values.visit(rows, visit);
    }

    /// The offset of a row; -1 if there is no such row.
    #[must_use]
    pub fn offset(&self, row: usize) -> i64 {
        self.number(&self.all.offsets, row)
    }

    /// The timestamp of a row in milliseconds; -1 if it has none.
    #[must_use]
    pub fn timestamp_ms(&self, row: usize) -> i64 {
        self.number(&self.all.timestamps, row)
    }

    /// Who set the timestamp of a row: 0 the producer, 1 the broker; -1 if it has none, as before 0.10, or there is no such row.
    #[must_use]
    pub fn timestamp_type(&self, row: usize) -> i32 {
        self.run(row).map_or(-1, |run| run.timestamp_type)
    }

    /// The epoch of the leader that appended a row, or -1.
    #[must_use]
    pub fn leader_epoch(&self, row: usize) -> i32 {
        self.run(row).map_or(-1, |run| run.leader_epoch)
    }

    /// Whether a row may have headers.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        self.all.headers.is_some()
    }

    /// The headers of a row, in order; keys may repeat.
    #[must_use]
    pub fn headers(&self, row: usize) -> RecordHeaders<'_> {
        let found = self
            .all
            .headers
            .as_ref()
            .zip(self.place(row))
            .filter(|(lists, row)| lists.is_valid(*row));
        let Some((lists, row)) = found else {
            return RecordHeaders {
                headers: None,
                next: 0,
                end: 0,
            };
        };
        let at = |row: usize| {
            lists
                .value_offsets()
                .get(row)
                .map_or(0, |at| at.unsigned_abs() as usize)
        };
        RecordHeaders {
            headers: lists.values().as_struct_opt(),
            next: at(row),
            end: at(row + 1),
        }
    }

    /// All columns of [`schema`](crate::schema()). Key, value, offset and headers share memory with the view; the
    /// others are built here.
    ///
    /// # Errors
    /// [`ColumnarError::Arrow`] if the topic column alone would take more than 2 GiB; a slice takes less.
    pub fn record_batch(&self) -> Result<RecordBatch, ColumnarError> {
        self.record_batch_of(&[
            KEY,
            VALUE,
            TOPIC,
            PARTITION,
            OFFSET,
            TIMESTAMP,
            TIMESTAMP_TYPE,
            HEADERS,
        ])
    }

    /// Some columns, given by their indexes in [`schema`](crate::schema()), in the order given.
    ///
    /// # Errors
    /// As [`Self::record_batch`], or an index without a column.
    pub fn record_batch_of(&self, columns: &[usize]) -> Result<RecordBatch, ColumnarError> {
        self.built(schema(), columns, Values::binary)
    }

    /// The same, with the keys and values of [`view_schema`](crate::view_schema()).
    ///
    /// # Errors
    /// As [`Self::record_batch_of`].
    pub fn view_batch_of(&self, columns: &[usize]) -> Result<RecordBatch, ColumnarError> {
        self.built(view_schema(), columns, Values::view)
    }

    fn built(
        &self,
        schema: SchemaRef,
        columns: &[usize],
        values: fn(&Values, usize, usize) -> ArrayRef,
    ) -> Result<RecordBatch, ColumnarError> {
        let schema = schema.project(columns)?;
        let arrays = columns
            .iter()
            .map(|column| match *column {
                KEY => Ok(values(&self.all.keys, self.start, self.length)),
                VALUE => Ok(values(&self.all.values, self.start, self.length)),
                other => self.column(other),
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.length));
        Ok(RecordBatch::try_new_with_options(
            schema.into(),
            arrays,
            &options,
        )?)
    }

    /// A column other than key and value.
    fn column(&self, column: usize) -> Result<ArrayRef, ColumnarError> {
        let (start, length) = (self.start, self.length);
        Ok(match column {
            TOPIC => Arc::new(repeated(&self.all.topic, length)?),
            PARTITION => Arc::new(Int32Array::from_value(self.all.partition, length)),
            OFFSET => Arc::new(Int64Array::new(self.all.offsets.slice(start, length), None)),
            TIMESTAMP => Arc::new(self.microseconds()),
            TIMESTAMP_TYPE => Arc::new(self.timestamp_types()),
            HEADERS => match &self.all.headers {
                Some(headers) => Arc::new(headers.slice(start, length)),
                None => Arc::new(ListArray::new_null(header_field(), length)),
            },
            _ => return Err(ColumnarError::Arrow(format!("there is no column {column}"))),
        })
    }

    /// A time outside the range of microseconds becomes the first or last one in it.
    fn microseconds(&self) -> TimestampMicrosecondArray {
        let milliseconds = self.all.timestamps.slice(self.start, self.length);
        let times: Vec<i64> = milliseconds
            .iter()
            .map(|time| time.saturating_mul(1000))
            .collect();
        TimestampMicrosecondArray::from(times).with_timezone(utc())
    }

    fn timestamp_types(&self) -> Int32Array {
        let end = self.start + self.length;
        let mut types = Vec::with_capacity(self.length);
        for run in &self.all.runs {
            let until = run.end.clamp(self.start, end) - self.start;
            types.resize(until.max(types.len()), run.timestamp_type);
        }
        Int32Array::from(types)
    }

    /// The index of a row of the view in the shared rows.
    #[inline]
    fn place(&self, row: usize) -> Option<usize> {
        (row < self.length).then_some(self.start + row)
    }

    fn number(&self, numbers: &[i64], row: usize) -> i64 {
        self.place(row)
            .and_then(|row| numbers.get(row))
            .copied()
            .unwrap_or(-1)
    }

    fn run(&self, row: usize) -> Option<&Run> {
        let row = self.place(row)?;
        self.all
            .runs
            .get(self.all.runs.partition_point(|run| run.end <= row))
    }
}

/// The headers of a record: keys and values.
#[derive(Debug, Clone)]
pub struct RecordHeaders<'a> {
    headers: Option<&'a StructArray>,
    next: usize,
    end: usize,
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next;
        let headers = self.headers.filter(|_| row < self.end)?;
        self.next += 1;
        let [keys, values] = headers.columns() else {
            return None;
        };
        let keys = keys.as_string_opt::<i32>()?;
        Some((keys.value(row), bytes(values.as_binary_opt()?, row)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for RecordHeaders<'_> {}

fn bytes(column: &BinaryArray, row: usize) -> Option<&[u8]> {
    column.is_valid(row).then(|| column.value(row))
}

/// A column with the same value in all rows.
fn repeated(text: &str, rows: usize) -> Result<StringArray, ColumnarError> {
    if text.len().saturating_mul(rows) > i32::MAX as usize {
        let message =
            format!("{rows} rows of a topic's name take more than 2 GiB; take them in slices");
        return Err(ColumnarError::Arrow(message));
    }
    let offsets = (0..=rows)
        .map(|row| (row * text.len()) as i32)
        .collect::<Vec<_>>();
    let data = Buffer::from_vec(text.as_bytes().repeat(rows));
    // SAFETY: the offsets ascend from 0 by the length of the text, which is UTF-8, up to the length of the data, which fits.
    #[allow(unsafe_code)]
    Ok(unsafe { StringArray::new_unchecked(build::offsets(offsets.into()), data, None) })
}
