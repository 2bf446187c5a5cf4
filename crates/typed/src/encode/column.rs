//! Columns to read cell by cell, taken apart once a batch.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    LargeBinaryArray, StructArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use rustc_hash::FxHashSet;

use crate::column::DecimalType;
use crate::error::{Bad, Filled, SchemaError};

/// How deep columns nest: as deep as those that are decoded.
const DEEPEST: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    nulls: Option<NullBuffer>,
    pub(super) cells: Cells,
}

#[derive(Debug, Clone)]
pub(super) enum Cells {
    Null,
    Boolean(BooleanArray),
    Integer(Integers),
    UInt64(ScalarBuffer<u64>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    Decimal(DecimalType, ScalarBuffer<i128>),
    /// Days since 1970-01-01.
    Date(ScalarBuffer<i32>),
    Time(TimeUnit, Integers),
    Timestamp {
        unit: TimeUnit,
        /// Local times have no zone.
        is_local: bool,
        values: ScalarBuffer<i64>,
    },
    /// UTF-8 as its owner claims, which nobody has checked.
    Text(Slices),
    Binary(Slices),
    Struct(Vec<Column>),
    List(Offsets, Box<Column>),
    Map(Offsets, Box<Column>, Box<Column>),
}

/// Whole numbers of up to 64 bits with a sign.
#[derive(Debug, Clone)]
pub(super) enum Integers {
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
}

#[derive(Debug, Clone)]
pub(super) enum Slices {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

#[derive(Debug, Clone)]
pub(super) enum Offsets {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

impl Column {
    /// # Errors
    /// [`SchemaError`] for a type that no format takes.
    pub(super) fn new(name: &str, array: &ArrayRef, depth: usize) -> Result<Self, SchemaError> {
        if depth > DEEPEST {
            return Err(SchemaError(format!(
                "the columns nest more than {DEEPEST} levels"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            nulls: array.nulls().cloned(),
            cells: Cells::new(array, depth)
                .map_err(|error| SchemaError(format!("{name}: {error}")))?,
        })
    }

    /// A struct of these columns, each row of which is there.
    pub(super) fn of_rows(columns: Vec<Self>) -> Self {
        Self {
            name: String::new(),
            nulls: None,
            cells: Cells::Struct(columns),
        }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self.cells {
            Cells::Null => true,
            _ => self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
        }
    }
}

impl Cells {
    fn new(array: &ArrayRef, depth: usize) -> Result<Self, SchemaError> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::Int8 => Self::Integer(Integers::Int8(values::<Int8Type>(array))),
            DataType::Int16 => Self::Integer(Integers::Int16(values::<Int16Type>(array))),
            DataType::Int32 => Self::Integer(Integers::Int32(values::<Int32Type>(array))),
            DataType::Int64 => Self::Integer(Integers::Int64(values::<Int64Type>(array))),
            DataType::UInt8 => Self::Integer(Integers::UInt8(values::<UInt8Type>(array))),
            DataType::UInt16 => Self::Integer(Integers::UInt16(values::<UInt16Type>(array))),
            DataType::UInt32 => Self::Integer(Integers::UInt32(values::<UInt32Type>(array))),
            DataType::UInt64 => Self::UInt64(values::<UInt64Type>(array)),
            DataType::Float32 => Self::Float(values::<Float32Type>(array)),
            DataType::Float64 => Self::Double(values::<Float64Type>(array)),
            DataType::Decimal128(precision, scale) => {
                let wanted = DecimalType {
                    precision: *precision,
                    scale: *scale,
                };
                Self::Decimal(wanted, values::<Decimal128Type>(array))
            }
            DataType::Date32 => Self::Date(values::<Date32Type>(array)),
            DataType::Time32(unit) => Self::Time(
                *unit,
                Integers::Int32(match unit {
                    TimeUnit::Second => values::<Time32SecondType>(array),
                    _ => values::<Time32MillisecondType>(array),
                }),
            ),
            DataType::Time64(unit) => Self::Time(
                *unit,
                Integers::Int64(match unit {
                    TimeUnit::Nanosecond => values::<Time64NanosecondType>(array),
                    _ => values::<Time64MicrosecondType>(array),
                }),
            ),
            DataType::Timestamp(unit, zone) => Self::Timestamp {
                unit: *unit,
                is_local: zone.is_none(),
                values: match unit {
                    TimeUnit::Second => values::<TimestampSecondType>(array),
                    TimeUnit::Millisecond => values::<TimestampMillisecondType>(array),
                    TimeUnit::Microsecond => values::<TimestampMicrosecondType>(array),
                    TimeUnit::Nanosecond => values::<TimestampNanosecondType>(array),
                },
            },
            DataType::Utf8 => Self::Text(Slices::Small(array.as_string::<i32>().clone().into())),
            DataType::LargeUtf8 => {
                Self::Text(Slices::Large(array.as_string::<i64>().clone().into()))
            }
            DataType::Utf8View => Self::Text(Slices::View(
                array.as_string_view().clone().to_binary_view(),
            )),
            DataType::Binary => Self::Binary(Slices::Small(array.as_binary::<i32>().clone())),
            DataType::LargeBinary => Self::Binary(Slices::Large(array.as_binary::<i64>().clone())),
            DataType::BinaryView => Self::Binary(Slices::View(array.as_binary_view().clone())),
            DataType::FixedSizeBinary(_) => {
                Self::Binary(Slices::Fixed(array.as_fixed_size_binary().clone()))
            }
            DataType::Struct(_) => Self::Struct(columns(array.as_struct(), depth + 1)?),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Self::List(
                    Offsets::Small(list.offsets().clone()),
                    element(list.values(), depth)?,
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Self::List(
                    Offsets::Large(list.offsets().clone()),
                    element(list.values(), depth)?,
                )
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Self::Map(
                    Offsets::Small(map.offsets().clone()),
                    Box::new(Column::new("key", map.keys(), depth + 1)?),
                    Box::new(Column::new("value", map.values(), depth + 1)?),
                )
            }
            other => {
                return Err(SchemaError(format!(
                    "the type {other} is not encoded: cast the column to another one"
                )));
            }
        })
    }

    /// As an error names it.
    pub(super) fn kind(&self) -> String {
        let kind = match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Integer(integers) => integers.kind(),
            Self::UInt64(_) => "uint64",
            Self::Float(_) => "float",
            Self::Double(_) => "double",
            Self::Decimal(DecimalType { precision, scale }, _) => {
                return format!("decimal({precision}, {scale})");
            }
            Self::Date(_) => "date",
            Self::Time(..) => "time",
            Self::Timestamp { is_local: true, .. } => "local timestamp",
            Self::Timestamp { .. } => "timestamp",
            Self::Text(_) => "string",
            Self::Binary(_) => "binary",
            Self::Struct(_) => "struct",
            Self::List(..) => "list",
            Self::Map(..) => "map",
        };
        kind.to_owned()
    }
}

impl Integers {
    pub(super) fn at(&self, row: usize) -> i64 {
        match self {
            Self::Int8(values) => at(values, row).into(),
            Self::Int16(values) => at(values, row).into(),
            Self::Int32(values) => at(values, row).into(),
            Self::Int64(values) => at(values, row),
            Self::UInt8(values) => at(values, row).into(),
            Self::UInt16(values) => at(values, row).into(),
            Self::UInt32(values) => at(values, row).into(),
        }
    }

    /// Whether the type has values that 32 bits with a sign do not hold.
    pub(super) fn exceed_i32(&self) -> bool {
        matches!(self, Self::Int64(_) | Self::UInt32(_))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Int8(_) => "int8",
            Self::Int16(_) => "int16",
            Self::Int32(_) => "int32",
            Self::Int64(_) => "int64",
            Self::UInt8(_) => "uint8",
            Self::UInt16(_) => "uint16",
            Self::UInt32(_) => "uint32",
        }
    }
}

impl Slices {
    pub(super) fn at(&self, row: usize) -> &[u8] {
        match self {
            Self::Small(array) => array.value(row),
            Self::Large(array) => array.value(row),
            Self::View(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
        }
    }

    /// Text is checked here: Arrow data of others only claims that it is UTF-8.
    pub(super) fn text(&self, row: usize) -> Filled<&str> {
        std::str::from_utf8(self.at(row)).map_err(|_| Bad::new("its text is not UTF-8"))
    }
}

impl Offsets {
    /// The elements of a list or map.
    pub(super) fn at(&self, row: usize) -> Range<usize> {
        fn range<T: Copy + TryInto<usize>>(offsets: &[T], row: usize) -> Range<usize> {
            let offset = |place: usize| {
                let offset = offsets.get(place).copied();
                offset
                    .and_then(|offset| offset.try_into().ok())
                    .unwrap_or(0)
            };
            offset(row)..offset(row + 1)
        }
        match self {
            Self::Small(offsets) => range(offsets, row),
            Self::Large(offsets) => range(offsets, row),
        }
    }
}

/// The columns of a struct.
pub(super) fn columns(rows: &StructArray, depth: usize) -> Result<Vec<Column>, SchemaError> {
    let mut names = FxHashSet::default();
    let mut found = Vec::with_capacity(rows.num_columns());
    for (field, array) in rows.fields().iter().zip(rows.columns()) {
        if !names.insert(field.name()) {
            return Err(SchemaError(format!(
                "two columns are named {:?}: one field cannot take both",
                field.name()
            )));
        }
        found.push(Column::new(field.name(), array, depth)?);
    }
    Ok(found)
}

fn element(array: &ArrayRef, depth: usize) -> Result<Box<Column>, SchemaError> {
    Ok(Box::new(Column::new("[]", array, depth + 1)?))
}

fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> ScalarBuffer<T::Native> {
    array.as_primitive::<T>().values().clone()
}

/// A cell of a row that there is.
pub(super) fn at<T: ArrowNativeType>(values: &ScalarBuffer<T>, row: usize) -> T {
    values.get(row).copied().unwrap_or_default()
}
