//! Arrow columns in the making.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use crate::error::ColumnarError;
use crate::schema::{header_field, header_fields};

/// A column of type binary. The caller sees to it that all bytes fit 31 bits.
#[derive(Debug)]
pub(crate) struct Bytes {
    offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl Bytes {
    pub(crate) fn new() -> Self {
        Self {
            offsets: vec![0],
            data: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    pub(crate) fn reserve(&mut self, rows: usize, bytes: usize) {
        self.offsets.reserve(rows);
        self.data.reserve(bytes);
    }

    #[inline]
    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => {
                self.data.extend_from_slice(value);
                self.nulls.append_non_null();
            }
            None => self.nulls.append_null(),
        }
        self.offsets.push(self.data.len() as i32);
    }

    fn parts(mut self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        (offsets(self.offsets), self.data.into(), self.nulls.finish())
    }

    pub(crate) fn binary(self) -> Result<BinaryArray, ColumnarError> {
        let (offsets, data, nulls) = self.parts();
        Ok(BinaryArray::try_new(offsets, data, nulls)?)
    }

    fn string(self) -> Result<StringArray, ColumnarError> {
        let (offsets, data, nulls) = self.parts();
        Ok(StringArray::try_new(offsets, data, nulls)?)
    }
}

/// The column of headers. It takes no space until a record has some.
#[derive(Debug)]
pub(crate) struct Headers {
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    keys: Bytes,
    values: Bytes,
}

impl Headers {
    pub(crate) fn new() -> Self {
        Self {
            offsets: vec![0],
            nulls: NullBufferBuilder::new(0),
            keys: Bytes::new(),
            values: Bytes::new(),
        }
    }

    /// Adds the headers of a row, after rows without any.
    #[cold]
    pub(crate) fn push<'a>(
        &mut self,
        row: usize,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) {
        self.pad(row);
        for (key, value) in headers {
            self.keys.push(Some(key.as_bytes()));
            self.values.push(value);
        }
        self.offsets.push((self.keys.offsets.len() - 1) as i32);
        self.nulls.append_non_null();
    }

    /// Gives the rows up to `row` no headers.
    fn pad(&mut self, row: usize) {
        let last = self.offsets.last().copied().unwrap_or_default();
        self.nulls
            .append_n_nulls(row.saturating_sub(self.nulls.len()));
        self.offsets.resize(row + 1, last);
    }

    /// The column for so many rows, or `None` if no row has headers.
    pub(crate) fn finish(mut self, rows: usize) -> Result<Option<ListArray>, ColumnarError> {
        if self.nulls.is_empty() {
            return Ok(None);
        }
        self.pad(rows);
        let fields: Vec<ArrayRef> = vec![
            Arc::new(self.keys.string()?),
            Arc::new(self.values.binary()?),
        ];
        let headers = StructArray::try_new(header_fields(), fields, None)?;
        let lists = ListArray::try_new(
            header_field(),
            offsets(self.offsets),
            Arc::new(headers),
            self.nulls.finish(),
        )?;
        Ok(Some(lists))
    }
}

/// Offsets that were only ever pushed in ascending order, from 0.
fn offsets(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}
