//! Builders of Arrow columns.
#![allow(unsafe_code)] // rows are added without a capacity check for each

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use crate::error::ColumnarError;
use crate::memory::{Column, Memory};
use crate::schema::{header_field, header_fields};

/// A column of type binary. It takes no memory until a row is not null: records without keys are common.
#[derive(Debug)]
pub(crate) struct Bytes<'a> {
    memory: &'a Memory,
    /// Empty while all rows are null.
    offsets: Column<i32>,
    column: Column<u8>,
    nulls: NullBufferBuilder,
    /// The rows before the first that is not null, until it comes.
    absent: usize,
    /// The rows and bytes to have space for when it comes.
    room: (usize, usize),
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(memory: &'a Memory, column: Column<u8>) -> Self {
        Self {
            memory,
            offsets: Column::default(),
            column,
            nulls: NullBufferBuilder::new(0),
            absent: 0,
            room: (0, 0),
        }
    }

    /// The number of rows.
    fn len(&self) -> usize {
        self.absent.max(self.offsets.data.len().saturating_sub(1))
    }

    pub(crate) fn reserve(&mut self, rows: usize, bytes: usize) {
        if self.offsets.data.is_empty() {
            let room = (self.absent + rows, bytes);
            self.room = (self.room.0.max(room.0), self.room.1.max(room.1));
        } else {
            self.offsets.data.reserve(rows);
            self.column.data.reserve(bytes);
        }
    }

    /// Makes the rows so far, and space for as many as was reserved.
    #[cold]
    fn begin(&mut self) {
        let (rows, bytes) = self.room;
        self.offsets = self.memory.offsets(rows + 1);
        self.offsets.data.resize(self.absent + 1, 0);
        self.column.data.reserve(bytes);
        self.nulls.append_n_nulls(self.absent);
        self.absent = 0;
    }

    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        self.reserve(1, value.map_or(0, <[u8]>::len));
        // SAFETY: space for it was just reserved.
        unsafe { self.push_within(value) }
    }

    /// Adds a row without a capacity check.
    ///
    /// # Safety
    /// [`Self::reserve`] reserved space for this row, for all rows pushed since then, and for their
    /// bytes.
    #[inline(always)]
    pub(crate) unsafe fn push_within(&mut self, value: Option<&[u8]>) {
        if self.offsets.data.is_empty() {
            if value.is_none() {
                self.absent += 1;
                return;
            }
            self.begin();
        }
        let data = &mut self.column.data;
        let mut length = data.len();
        match value {
            Some(value) => {
                debug_assert!(value.len() <= data.capacity() - length);
                // SAFETY: there is space behind the length, as the caller promises; what is written
                // there is counted.
                unsafe {
                    let end = data.as_mut_ptr().add(length);
                    end.copy_from_nonoverlapping(value.as_ptr(), value.len());
                    length += value.len();
                    data.set_len(length);
                }
                self.nulls.append_non_null();
            }
            None => self.nulls.append_null(),
        }
        // SAFETY: as above.
        unsafe { append_within(&mut self.offsets.data, length as i32) };
    }

    fn parts(mut self) -> Result<(OffsetBuffer<i32>, Buffer, Option<NullBuffer>), ColumnarError> {
        if self.offsets.data.is_empty() {
            let nulls = (self.absent > 0).then(|| NullBuffer::new_null(self.absent));
            return Ok((
                OffsetBuffer::new_zeroed(self.absent),
                Buffer::default(),
                nulls,
            ));
        }
        if self.column.data.len() > i32::MAX as usize {
            let message = "a column takes more than 2 GiB".to_owned();
            return Err(ColumnarError::Arrow(message));
        }
        // SAFETY: each is the length of the data at its time, from 0 up to the last, which fits.
        let offsets = unsafe { offsets(self.offsets.into_rows()) };
        Ok((offsets, self.column.into_buffer(), self.nulls.finish()))
    }

    pub(crate) fn binary(self) -> Result<BinaryArray, ColumnarError> {
        let (offsets, data, nulls) = self.parts()?;
        Ok(BinaryArray::try_new(offsets, data, nulls)?)
    }

    fn string(self) -> Result<StringArray, ColumnarError> {
        let (offsets, data, nulls) = self.parts()?;
        Ok(StringArray::try_new(offsets, data, nulls)?)
    }
}

/// The column of headers. It takes no memory until a record has headers.
#[derive(Debug)]
pub(crate) struct Headers<'a> {
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    keys: Bytes<'a>,
    values: Bytes<'a>,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(memory: &'a Memory) -> Self {
        Self {
            offsets: vec![0],
            nulls: NullBufferBuilder::new(0),
            keys: Bytes::new(memory, Column::default()),
            values: Bytes::new(memory, Column::default()),
        }
    }

    /// Adds the headers of a row; the rows before it that were not added get none.
    #[cold]
    pub(crate) fn push<'h>(
        &mut self,
        row: usize,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>,
    ) {
        self.pad(row);
        for (key, value) in headers {
            self.keys.push(Some(key.as_bytes()));
            self.values.push(value);
        }
        self.offsets.push(self.keys.len() as i32);
        self.nulls.append_non_null();
    }

    /// Gives the rows up to `row` no headers.
    fn pad(&mut self, row: usize) {
        let last = self.offsets.last().copied().unwrap_or_default();
        self.nulls
            .append_n_nulls(row.saturating_sub(self.nulls.len()));
        self.offsets.resize(row + 1, last);
    }

    /// The column for this number of rows, or `None` if no row has headers.
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
        if headers.len() > i32::MAX as usize {
            return Err(ColumnarError::Arrow("2^31 headers or more".to_owned()));
        }
        // SAFETY: each is the number of headers at its time, from 0 up to the last, which fits.
        let offsets = unsafe { offsets(ScalarBuffer::from(self.offsets)) };
        let lists = ListArray::try_new(
            header_field(),
            offsets,
            Arc::new(headers),
            self.nulls.finish(),
        )?;
        Ok(Some(lists))
    }
}

/// Appends to a vector without a capacity check.
///
/// # Safety
/// The vector has more capacity than elements.
#[inline(always)]
pub(crate) unsafe fn append_within<T: Copy>(to: &mut Vec<T>, value: T) {
    let length = to.len();
    debug_assert!(length < to.capacity());
    // SAFETY: there is space behind the length, as the caller promises; what is written there is
    // counted.
    unsafe {
        to.as_mut_ptr().add(length).write(value);
        to.set_len(length + 1);
    }
}

/// Arrow offsets without validation, which would read all of them again.
///
/// # Safety
/// They begin with 0 and ascend.
pub(crate) unsafe fn offsets(offsets: ScalarBuffer<i32>) -> OffsetBuffer<i32> {
    debug_assert!(offsets.first() == Some(&0) && offsets.is_sorted());
    // SAFETY: as the caller promises.
    unsafe { OffsetBuffer::new_unchecked(offsets) }
}
