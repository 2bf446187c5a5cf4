//! Columns while they grow: what every format fills. A row that turns out to be bad is taken back from all of them.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, LargeListArray, ListArray, MapArray, NullArray,
    StructArray, make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer,
    ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};
use rustc_hash::FxHashMap;

use crate::error::{Bad, Filled, SchemaError};

/// How deep a schema may nest.
const DEEPEST: usize = 100;

/// How many columns a schema may have, nested ones counted: types that name others twice grow with each level.
const MOST_COLUMNS: usize = 20_000;

/// The keys of a map of this size are compared with each other, which is faster than a hash.
const FEW_KEYS: usize = 8;

/// Counts columns while a schema is read.
#[derive(Debug, Default)]
pub(crate) struct Budget(std::cell::Cell<usize>);

impl Budget {
    pub(crate) fn spend(&self) -> Result<(), SchemaError> {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MOST_COLUMNS {
            return Err(SchemaError::new(format!(
                "the schema has more than {MOST_COLUMNS} columns"
            )));
        }
        Ok(())
    }
}

/// Refuses names that are selected and that a schema does not have.
pub(crate) fn check_selection<'a>(
    select: Option<&[String]>,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), SchemaError> {
    let mut names = select.unwrap_or_default().iter();
    match names.find(|name| !known.clone().any(|known| known == *name)) {
        Some(name) => Err(not_there(name, known)),
        None => Ok(()),
    }
}

/// Whether a column of a schema is wanted.
pub(crate) fn is_selected(select: Option<&[String]>, name: &str) -> bool {
    select.is_none_or(|names| names.iter().any(|wanted| wanted == name))
}

pub(crate) fn not_there<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> SchemaError {
    let known: Vec<&str> = known.collect();
    SchemaError(format!(
        "column {name:?} is selected, and the schema has {}",
        known.join(", ")
    ))
}

/// A column under construction. Its length counts finished rows; values may be ahead of it while a row is being filled.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) field: FieldRef,
    /// JSON writes its name without escapes.
    is_plain: bool,
    nulls: NullBufferBuilder,
    pub(crate) values: Values,
}

#[derive(Debug)]
pub(crate) enum Values {
    Null,
    Boolean(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal(DecimalType, Vec<i128>),
    Date(Vec<i32>),
    Time32(TimeUnit, Vec<i32>),
    Time64(TimeUnit, Vec<i64>),
    Timestamp(TimestampType, Vec<i64>),
    Text(Slices),
    Binary(Slices),
    Fixed(usize, Vec<u8>),
    Struct(Struct),
    List(List),
    /// Keys and values stand in the two columns of a struct.
    Map(List),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalType {
    pub(crate) precision: u8,
    pub(crate) scale: i8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimestampType {
    pub(crate) unit: TimeUnit,
    /// It has no zone.
    pub(crate) is_local: bool,
}

/// Texts or bytes, one behind the other. `ends` begins with the 0 that Arrow's offsets begin with.
#[derive(Debug)]
pub(crate) struct Slices {
    ends: Vec<i32>,
    pub(crate) data: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) columns: Vec<Column>,
    names: FxHashMap<Box<str>, usize>,
}

#[derive(Debug)]
pub(crate) struct List {
    ends: Vec<i32>,
    pub(crate) child: Box<Column>,
}

impl Slices {
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Filled {
        self.data.extend_from_slice(bytes);
        self.end()
    }

    fn at(&self, row: usize) -> Option<&[u8]> {
        let place = |row: usize| self.ends.get(row).map(|end| end.unsigned_abs() as usize);
        self.data.get(place(row)?..place(row + 1)?)
    }

    fn push_empty(&mut self) {
        self.ends.extend(self.ends.last().copied());
    }

    /// Ends a value whose bytes were put into `data`.
    #[inline]
    pub(crate) fn end(&mut self) -> Filled {
        self.ends
            .push(i32::try_from(self.data.len()).map_err(|_| Bad::full())?);
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.data.truncate(last(&self.ends));
    }
}

impl List {
    /// The columns of keys and values of a map.
    pub(crate) fn entry(&mut self) -> Option<(&mut Column, &mut Column)> {
        match &mut self.child.values {
            Values::Struct(inner) => match inner.columns.as_mut_slice() {
                [key, value] => Some((key, value)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The place of the next element.
    pub(crate) fn next(&self) -> usize {
        self.child.len()
    }

    /// The child row at which the row under construction began.
    pub(crate) fn start(&self) -> usize {
        last(&self.ends)
    }

    fn push_empty(&mut self) {
        self.ends.extend(self.ends.last().copied());
    }

    /// Entries of the map under construction whose key comes again, counted from its first. The last one of a key counts, as to
    /// every reader that makes a hash map of them.
    pub(crate) fn superseded(&self) -> Vec<usize> {
        let rows = self.start()..self.next();
        let key = match &self.child.values {
            Values::Struct(inner) if rows.len() > 1 => inner.columns.first(),
            _ => None,
        };
        match key.map(|key| &key.values) {
            Some(Values::Text(keys)) => repeated(rows, |row| keys.at(row)),
            Some(Values::Boolean(keys)) => repeated(rows, |row| keys.get(row)),
            Some(Values::Int32(keys)) => repeated(rows, |row| keys.get(row)),
            Some(Values::Int64(keys)) => repeated(rows, |row| keys.get(row)),
            Some(Values::UInt32(keys)) => repeated(rows, |row| keys.get(row)),
            Some(Values::UInt64(keys)) => repeated(rows, |row| keys.get(row)),
            _ => Vec::new(),
        }
    }

    /// Ends a list whose elements were put into `child`.
    pub(crate) fn end(&mut self) -> Filled {
        self.ends
            .push(i32::try_from(self.child.len()).map_err(|_| Bad::full())?);
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.child.truncate(last(&self.ends));
    }
}

/// Rows with a key that a later row has, counted from the first.
fn repeated<K: Eq + Hash>(rows: Range<usize>, key: impl Fn(usize) -> K) -> Vec<usize> {
    let (start, end) = (rows.start, rows.end);
    if rows.len() <= FEW_KEYS {
        let comes_again = |row: &usize| (row + 1..end).any(|later| key(later) == key(*row));
        return rows.filter(comes_again).map(|row| row - start).collect();
    }
    // Keys are chosen by whoever writes the records, so that the hash is one that they cannot foresee.
    let mut seen = HashSet::with_capacity(rows.len());
    let earlier = rows.rev().filter(|row| !seen.insert(key(*row)));
    let mut earlier: Vec<usize> = earlier.map(|row| row - start).collect();
    earlier.reverse();
    earlier
}

fn last(ends: &[i32]) -> usize {
    ends.last().map_or(0, |end| end.unsigned_abs() as usize)
}

impl Struct {
    pub(crate) fn new(fields: &Fields, depth: usize) -> Result<Self, SchemaError> {
        let mut names = FxHashMap::default();
        for (index, field) in fields.iter().enumerate() {
            if names.insert(field.name().as_str().into(), index).is_some() {
                return Err(SchemaError::new(format!(
                    "the schema has two fields named {:?}",
                    field.name()
                )));
            }
        }
        let columns = fields
            .iter()
            .map(|field| Column::at_depth(field, depth + 1))
            .collect::<Result<_, _>>()?;
        Ok(Self { columns, names })
    }

    /// The column of a name; `guess` is looked at first, since fields mostly come in the order of the schema.
    #[inline]
    pub(crate) fn find(&self, name: &str, guess: usize) -> Option<usize> {
        match self.columns.get(guess) {
            Some(column) if column.field.name() == name => Some(guess),
            _ => self.names.get(name).copied(),
        }
    }

    /// The name of the column at an index, if JSON writes it without escapes.
    #[inline]
    pub(crate) fn plain_name(&self, index: usize) -> Option<&str> {
        let column = self.columns.get(index).filter(|column| column.is_plain)?;
        Some(column.field.name())
    }

    /// Takes every column back to a length.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.columns
            .iter_mut()
            .for_each(|column| column.truncate(rows));
    }

    /// Null in every column that has no value for this row yet.
    pub(crate) fn fill_up(&mut self, row: usize) -> Filled {
        for column in &mut self.columns {
            if column.len() == row {
                if !column.field.is_nullable() {
                    return Err(Bad::new("it is missing, and the column is not nullable")
                        .within(column.field.name()));
                }
                column.push_null();
            }
        }
        Ok(())
    }

    pub(crate) fn push_nulls(&mut self) {
        self.columns.iter_mut().for_each(Column::push_null);
    }

    pub(crate) fn finish(self, fields: &Fields) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| column.finish(field.data_type()))
            .collect()
    }
}

impl Column {
    fn at_depth(field: &FieldRef, depth: usize) -> Result<Self, SchemaError> {
        Ok(Self {
            field: Arc::clone(field),
            is_plain: !field.name().contains(|c| c < ' ' || c == '"' || c == '\\'),
            nulls: NullBufferBuilder::new(0),
            values: Values::new(field, depth)?,
        })
    }

    /// Finished rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether a finished row is null.
    pub(crate) fn is_null_at(&self, row: usize) -> bool {
        !self.nulls.is_valid(row)
    }

    /// The value that was put into `values` is a row.
    #[inline]
    pub(crate) fn push_valid(&mut self) {
        self.nulls.append_non_null();
    }

    /// A null row, if the schema allows it.
    pub(crate) fn push_found_null(&mut self) -> Filled {
        if !self.field.is_nullable() {
            return Err(Bad::new("it is null, and the column is not nullable"));
        }
        self.push_null();
        Ok(())
    }

    /// A null row, whatever the schema allows: for the children of a null.
    pub(crate) fn push_null(&mut self) {
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.push(false),
            Values::Int8(values) => values.push(0),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) | Values::Time32(_, values) => {
                values.push(0)
            }
            Values::Int64(values) | Values::Timestamp(_, values) | Values::Time64(_, values) => {
                values.push(0)
            }
            Values::UInt8(values) => values.push(0),
            Values::UInt16(values) => values.push(0),
            Values::UInt32(values) => values.push(0),
            Values::UInt64(values) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal(_, values) => values.push(0),
            Values::Text(slices) | Values::Binary(slices) => slices.push_empty(),
            Values::Fixed(size, data) => data.resize(data.len() + *size, 0),
            Values::Struct(inner) => inner.push_nulls(),
            Values::List(list) | Values::Map(list) => list.push_empty(),
        }
        self.nulls.append_null();
    }

    /// Takes the column back to a length, and with it what a row that failed has left.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.truncate(rows),
            Values::Int8(values) => values.truncate(rows),
            Values::Int16(values) => values.truncate(rows),
            Values::Int32(values) | Values::Date(values) | Values::Time32(_, values) => {
                values.truncate(rows)
            }
            Values::Int64(values) | Values::Timestamp(_, values) | Values::Time64(_, values) => {
                values.truncate(rows)
            }
            Values::UInt8(values) => values.truncate(rows),
            Values::UInt16(values) => values.truncate(rows),
            Values::UInt32(values) => values.truncate(rows),
            Values::UInt64(values) => values.truncate(rows),
            Values::Float32(values) => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Decimal(_, values) => values.truncate(rows),
            Values::Text(slices) | Values::Binary(slices) => slices.truncate(rows),
            Values::Fixed(size, data) => data.truncate(rows.saturating_mul(*size)),
            Values::Struct(inner) => inner.truncate(rows),
            Values::List(list) | Values::Map(list) => list.truncate(rows),
        }
        self.nulls.truncate(rows);
    }

    fn finish(mut self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let rows = self.len();
        let nulls = self.nulls.finish();
        Ok(match self.values {
            Values::Null => Arc::new(NullArray::new(rows)),
            Values::Boolean(values) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
            }
            Values::Int8(values) => primitive(data_type, values, nulls)?,
            Values::Int16(values) => primitive(data_type, values, nulls)?,
            Values::Int32(values) | Values::Date(values) | Values::Time32(_, values) => {
                primitive(data_type, values, nulls)?
            }
            Values::Int64(values) | Values::Timestamp(_, values) | Values::Time64(_, values) => {
                primitive(data_type, values, nulls)?
            }
            Values::UInt8(values) => primitive(data_type, values, nulls)?,
            Values::UInt16(values) => primitive(data_type, values, nulls)?,
            Values::UInt32(values) => primitive(data_type, values, nulls)?,
            Values::UInt64(values) => primitive(data_type, values, nulls)?,
            Values::Float32(values) => primitive(data_type, values, nulls)?,
            Values::Float64(values) => primitive(data_type, values, nulls)?,
            Values::Decimal(_, values) => primitive(data_type, values, nulls)?,
            Values::Text(slices) | Values::Binary(slices) => {
                let ends = match data_type {
                    DataType::LargeUtf8 | DataType::LargeBinary => {
                        Buffer::from_vec(large(&slices.ends))
                    }
                    _ => Buffer::from_vec(slices.ends),
                };
                let data = ArrayData::builder(data_type.clone())
                    .len(rows)
                    .nulls(nulls)
                    .add_buffer(ends)
                    .add_buffer(Buffer::from_vec(slices.data));
                make_array(data.build()?)
            }
            Values::Fixed(size, data) => {
                let size = i32::try_from(size).unwrap_or(i32::MAX);
                Arc::new(FixedSizeBinaryArray::try_new(
                    size,
                    Buffer::from_vec(data),
                    nulls,
                )?)
            }
            Values::Struct(inner) => {
                let DataType::Struct(fields) = data_type else {
                    return Err(mismatch(data_type));
                };
                let columns = inner.finish(fields)?;
                Arc::new(StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    nulls,
                    rows,
                )?)
            }
            Values::List(list) => match data_type {
                DataType::List(field) => {
                    let child = list.child.finish(field.data_type())?;
                    Arc::new(ListArray::try_new(
                        Arc::clone(field),
                        offsets(list.ends),
                        child,
                        nulls,
                    )?)
                }
                DataType::LargeList(field) => {
                    let child = list.child.finish(field.data_type())?;
                    let offsets = OffsetBuffer::new(ScalarBuffer::from(large(&list.ends)));
                    Arc::new(LargeListArray::try_new(
                        Arc::clone(field),
                        offsets,
                        child,
                        nulls,
                    )?)
                }
                _ => return Err(mismatch(data_type)),
            },
            Values::Map(list) => {
                let DataType::Map(field, ordered) = data_type else {
                    return Err(mismatch(data_type));
                };
                let entries = list.child.finish(field.data_type())?;
                let Some(entries) = entries.as_any().downcast_ref::<StructArray>().cloned() else {
                    return Err(mismatch(data_type));
                };
                Arc::new(MapArray::try_new(
                    Arc::clone(field),
                    offsets(list.ends),
                    entries,
                    nulls,
                    *ordered,
                )?)
            }
        })
    }
}

impl Values {
    fn new(field: &Field, depth: usize) -> Result<Self, SchemaError> {
        if depth > DEEPEST {
            return Err(SchemaError::new(format!(
                "the schema nests more than {DEEPEST} levels"
            )));
        }
        Ok(match field.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(Vec::new()),
            DataType::Int8 => Self::Int8(Vec::new()),
            DataType::Int16 => Self::Int16(Vec::new()),
            DataType::Int32 => Self::Int32(Vec::new()),
            DataType::Int64 => Self::Int64(Vec::new()),
            DataType::UInt8 => Self::UInt8(Vec::new()),
            DataType::UInt16 => Self::UInt16(Vec::new()),
            DataType::UInt32 => Self::UInt32(Vec::new()),
            DataType::UInt64 => Self::UInt64(Vec::new()),
            DataType::Float32 => Self::Float32(Vec::new()),
            DataType::Float64 => Self::Float64(Vec::new()),
            DataType::Decimal128(precision, scale) => Self::Decimal(
                DecimalType {
                    precision: *precision,
                    scale: *scale,
                },
                Vec::new(),
            ),
            DataType::Date32 => Self::Date(Vec::new()),
            DataType::Time32(unit) => Self::Time32(*unit, Vec::new()),
            DataType::Time64(unit) => Self::Time64(*unit, Vec::new()),
            DataType::Timestamp(unit, zone) => Self::Timestamp(
                TimestampType {
                    unit: *unit,
                    is_local: zone.is_none(),
                },
                Vec::new(),
            ),
            DataType::Utf8 | DataType::LargeUtf8 => Self::Text(Slices::default()),
            DataType::Binary | DataType::LargeBinary => Self::Binary(Slices::default()),
            DataType::FixedSizeBinary(size) => {
                let size = usize::try_from(*size)
                    .map_err(|_| SchemaError::new("a binary has a negative length"))?;
                Self::Fixed(size, Vec::new())
            }
            DataType::Struct(fields) => Self::Struct(Struct::new(fields, depth)?),
            DataType::List(item) | DataType::LargeList(item) => Self::List(List::new(item, depth)?),
            DataType::Map(entries, _) => {
                let list = List::new(entries, depth)?;
                match &list.child.values {
                    Values::Struct(inner) if inner.columns.len() == 2 => Self::Map(list),
                    _ => {
                        return Err(SchemaError::new(
                            "the entries of a map are a struct of a key and a value",
                        ));
                    }
                }
            }
            other => {
                return Err(SchemaError::new(format!(
                    "field {:?} has type {other}, which no format decodes to; there are null, boolean, integers, float, \
                     double, decimal128, date32, time, timestamp, string, binary, struct, list and map",
                    field.name()
                )));
            }
        })
    }
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            ends: vec![0],
            data: Vec::new(),
        }
    }
}

impl List {
    fn new(item: &FieldRef, depth: usize) -> Result<Self, SchemaError> {
        Ok(Self {
            ends: vec![0],
            child: Box::new(Column::at_depth(item, depth + 1)?),
        })
    }
}

fn primitive<T: ArrowNativeType>(
    data_type: &DataType,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let data = ArrayData::builder(data_type.clone())
        .len(values.len())
        .nulls(nulls)
        .add_buffer(Buffer::from_vec(values));
    Ok(make_array(data.build()?))
}

fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn large(ends: &[i32]) -> Vec<i64> {
    ends.iter().copied().map(i64::from).collect()
}

fn mismatch(data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!(
        "a column was built for another type than {data_type}"
    ))
}

/// The type of a map, with the names that Arrow gives to its parts.
pub(crate) fn map(keys: DataType, values: DataType, is_nullable: bool) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", keys, false),
        Field::new("value", values, is_nullable),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}
