//! Columns of whole numbers, of whichever width.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Int8Array, Int16Array, Int32Array, Int64Array, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::DataType;

/// A column of whole numbers.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is of the type that it names")]
pub enum Integers {
    Int8(Int8Array),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    UInt8(UInt8Array),
    UInt16(UInt16Array),
    UInt32(UInt32Array),
    UInt64(UInt64Array),
}

impl Integers {
    /// The numbers of a column; `None` if it is of another type.
    #[must_use]
    pub fn new(column: &ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Int8 => Self::Int8(column.as_primitive_opt::<Int8Type>()?.clone()),
            DataType::Int16 => Self::Int16(column.as_primitive_opt::<Int16Type>()?.clone()),
            DataType::Int32 => Self::Int32(column.as_primitive_opt::<Int32Type>()?.clone()),
            DataType::Int64 => Self::Int64(column.as_primitive_opt::<Int64Type>()?.clone()),
            DataType::UInt8 => Self::UInt8(column.as_primitive_opt::<UInt8Type>()?.clone()),
            DataType::UInt16 => Self::UInt16(column.as_primitive_opt::<UInt16Type>()?.clone()),
            DataType::UInt32 => Self::UInt32(column.as_primitive_opt::<UInt32Type>()?.clone()),
            DataType::UInt64 => Self::UInt64(column.as_primitive_opt::<UInt64Type>()?.clone()),
            _ => return None,
        })
    }

    /// The number in a row, if it is there and not null; the largest there is for one that is larger.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::Int8(column) => there(column, row).then(|| column.value(row).into()),
            Self::Int16(column) => there(column, row).then(|| column.value(row).into()),
            Self::Int32(column) => there(column, row).then(|| column.value(row).into()),
            Self::Int64(column) => there(column, row).then(|| column.value(row)),
            Self::UInt8(column) => there(column, row).then(|| column.value(row).into()),
            Self::UInt16(column) => there(column, row).then(|| column.value(row).into()),
            Self::UInt32(column) => there(column, row).then(|| column.value(row).into()),
            Self::UInt64(column) => {
                there(column, row).then(|| i64::try_from(column.value(row)).unwrap_or(i64::MAX))
            }
        }
    }
}

/// Whether the column has this row, and a value in it.
#[inline]
pub(crate) fn there(column: &dyn Array, row: usize) -> bool {
    row < column.len() && column.is_valid(row)
}
