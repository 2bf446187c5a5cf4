//! Columns of keys and values: copied one behind the other, or views of what was received.
#![allow(unsafe_code)] // rows are added without a capacity check per row

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_data::ByteView;
use bytes::Bytes;
use ottla_protocol::compression::Compression;

use crate::build;
use crate::error::ColumnarError;
use crate::memory::{Column, Memory};

/// A value of at most this number of bytes is part of its view, as Arrow has it.
const INLINE: usize = 12;

/// A column of keys or values.
#[derive(Debug)]
pub(crate) enum Values {
    Copied(BinaryArray),
    /// With the number of bytes of all.
    Viewed(BinaryViewArray, usize),
}

impl Values {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Copied(column) => column.is_valid(row).then(|| column.value(row)),
            Self::Viewed(column, _) => column.is_valid(row).then(|| column.value(row)),
        }
    }

    /// Visits rows in order until `visit` returns false. One that is null has no bytes.
    pub(crate) fn visit(&self, mut rows: Range<usize>, mut visit: impl FnMut(&[u8]) -> bool) {
        // The kind is looked at once, not for each row.
        match self {
            Self::Copied(column) => rows.all(|row| visit(column.value(row))),
            Self::Viewed(column, _) => rows.all(|row| visit(column.value(row))),
        };
    }

    /// Bytes of these rows.
    pub(crate) fn bytes(&self, rows: &Range<usize>) -> usize {
        match self {
            Self::Copied(column) => span(column.value_offsets(), rows).len(),
            Self::Viewed(column, all) if rows.len() == column.len() => *all,
            Self::Viewed(column, _) => {
                let views = column.views().get(rows.clone()).unwrap_or_default();
                // The lower half of the lower half is the length.
                views.iter().map(|view| *view as u32 as usize).sum()
            }
        }
    }

    /// Rows as binary, which copies views.
    pub(crate) fn binary(&self, start: usize, length: usize) -> ArrayRef {
        match self {
            Self::Copied(column) => Arc::new(column.slice(start, length)),
            Self::Viewed(column, _) => {
                Arc::new(BinaryArray::from_iter(column.slice(start, length).iter()))
            }
        }
    }

    /// Rows as views, without a copy of what is longer than a view.
    pub(crate) fn view(&self, start: usize, length: usize) -> ArrayRef {
        match self {
            Self::Copied(column) => Arc::new(BinaryViewArray::from(&column.slice(start, length))),
            Self::Viewed(column, _) => Arc::new(column.slice(start, length)),
        }
    }
}

/// How keys and values become columns.
pub(crate) trait Fill {
    /// The keys and values that follow are slices of this payload.
    fn payload(&mut self, codec: Compression, payload: &[u8]);

    /// Reserves space for rows whose keys and values take this number of bytes together.
    fn reserve(&mut self, rows: usize, bytes: usize);

    /// Adds a row.
    ///
    /// # Safety
    /// [`Self::reserve`] reserved space for this row, for all rows pushed since then, and for their
    /// bytes.
    unsafe fn push_within(&mut self, key: Option<&[u8]>, value: Option<&[u8]>);

    /// The keys and the values.
    fn finish(self) -> Result<(Values, Values), ColumnarError>;
}

/// Copies keys and values.
pub(crate) struct Copying<'a> {
    keys: build::Bytes<'a>,
    values: build::Bytes<'a>,
}

impl<'a> Copying<'a> {
    /// For this number of bytes of records.
    pub(crate) fn new(memory: &'a Memory, bytes: usize) -> Self {
        Self {
            keys: build::Bytes::new(memory, Column::default()),
            // What is not compressed is mostly values; the pages of what they do not need are never touched.
            values: build::Bytes::new(memory, memory.column(bytes)),
        }
    }
}

impl Fill for Copying<'_> {
    #[inline(always)]
    fn payload(&mut self, _codec: Compression, _payload: &[u8]) {}

    #[inline(always)]
    fn reserve(&mut self, rows: usize, bytes: usize) {
        self.keys.reserve(rows, bytes);
        self.values.reserve(rows, bytes);
    }

    #[inline(always)]
    unsafe fn push_within(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        // SAFETY: as the caller promises.
        unsafe {
            self.keys.push_within(key);
            self.values.push_within(value);
        }
    }

    fn finish(self) -> Result<(Values, Values), ColumnarError> {
        Ok((
            Values::Copied(self.keys.binary()?),
            Values::Copied(self.values.binary()?),
        ))
    }
}

/// Views keys and values where they are: in the records as they were received, or in a decompressed payload.
pub(crate) struct Viewing<'a> {
    received: Bytes,
    /// The block that `received` is, once it is one.
    received_block: Option<u32>,
    /// All that is viewed.
    blocks: Vec<Buffer>,
    /// The one of the payload that is read.
    block: Block,
    keys: Views<'a>,
    values: Views<'a>,
}

/// Memory that views point into.
#[derive(Clone, Copy, Default)]
struct Block {
    number: u32,
    /// Where it begins in the memory, and how many bytes it has.
    base: usize,
    length: usize,
}

impl<'a> Viewing<'a> {
    pub(crate) fn new(memory: &'a Memory, received: Bytes) -> Self {
        Self {
            received,
            received_block: None,
            blocks: Vec::new(),
            block: Block::default(),
            keys: Views::new(memory),
            values: Views::new(memory),
        }
    }

    fn append_block(&mut self, block: Buffer) -> u32 {
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }
}

impl Fill for Viewing<'_> {
    fn payload(&mut self, codec: Compression, payload: &[u8]) {
        let (viewed, number) = if codec == Compression::None {
            let received = self.received.clone();
            let viewed = (received.as_ptr() as usize, received.len());
            let number = match self.received_block {
                Some(number) => number,
                None => self.append_block(Buffer::from(received)),
            };
            self.received_block = Some(number);
            (viewed, number)
        } else {
            // What it was decompressed to is used again for the next one.
            let number = self.append_block(Buffer::from_slice_ref(payload));
            ((payload.as_ptr() as usize, payload.len()), number)
        };
        let (base, length) = viewed;
        self.block = Block {
            number,
            base,
            length,
        };
    }

    fn reserve(&mut self, rows: usize, _bytes: usize) {
        self.keys.reserve(rows);
        self.values.reserve(rows);
    }

    #[inline(always)]
    unsafe fn push_within(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        // SAFETY: as the caller promises.
        unsafe {
            self.keys.push_within(self.block, key);
            self.values.push_within(self.block, value);
        }
    }

    fn finish(self) -> Result<(Values, Values), ColumnarError> {
        Ok((
            self.keys.finish(&self.blocks)?,
            self.values.finish(&self.blocks)?,
        ))
    }
}

/// A column of type binary_view while it grows. It takes no memory until a row is not null: records without keys are common.
struct Views<'a> {
    memory: &'a Memory,
    /// Empty while all rows are null.
    views: Column<u128>,
    nulls: NullBufferBuilder,
    /// The rows before the first that is not null, until it comes.
    absent: usize,
    /// The rows to have space for when it comes.
    room: usize,
    bytes: usize,
    /// Whether a value is longer than fits into its view.
    points: bool,
    /// Whether a value was outside of its block.
    strayed: bool,
}

impl<'a> Views<'a> {
    fn new(memory: &'a Memory) -> Self {
        Self {
            memory,
            views: Column::default(),
            nulls: NullBufferBuilder::new(0),
            absent: 0,
            room: 0,
            bytes: 0,
            points: false,
            strayed: false,
        }
    }

    fn reserve(&mut self, rows: usize) {
        if self.views.data.is_empty() {
            self.room = self.room.max(self.absent + rows);
        } else {
            self.views.data.reserve(rows);
        }
    }

    /// Makes the rows so far, and space for as many as was reserved.
    #[cold]
    fn begin(&mut self) {
        self.views = self.memory.views(self.room);
        self.views.data.resize(self.absent, 0);
        self.nulls.append_n_nulls(self.absent);
        self.absent = 0;
    }

    /// Adds a value of a block.
    ///
    /// # Safety
    /// [`Self::reserve`] reserved space for this row, and for all rows pushed since then.
    #[inline(always)]
    unsafe fn push_within(&mut self, block: Block, value: Option<&[u8]>) {
        if self.views.data.is_empty() {
            if value.is_none() {
                self.absent += 1;
                return;
            }
            self.begin();
        }
        let view = match value {
            Some(value) => {
                self.nulls.append_non_null();
                self.bytes += value.len();
                self.view(block, value)
            }
            None => {
                self.nulls.append_null();
                0
            }
        };
        // SAFETY: as the caller promises; the first row has the space of the rows before it.
        unsafe { build::append_within(&mut self.views.data, view) };
    }

    #[inline(always)]
    fn view(&mut self, block: Block, value: &[u8]) -> u128 {
        let length = value.len();
        if length <= INLINE {
            return short(value) << 32 | length as u128;
        }
        let offset = (value.as_ptr() as usize).wrapping_sub(block.base);
        // A view that points elsewhere would show other memory.
        self.strayed |= offset > block.length || length > block.length - offset;
        self.points = true;
        let [a, b, c, d, ..] = *value else { return 0 };
        ByteView {
            length: length as u32,
            prefix: u32::from_le_bytes([a, b, c, d]),
            buffer_index: block.number,
            offset: offset as u32,
        }
        .as_u128()
    }

    fn finish(mut self, blocks: &[Buffer]) -> Result<Values, ColumnarError> {
        if self.strayed {
            let message = "a value is outside of what was received".to_owned();
            return Err(ColumnarError::Arrow(message));
        }
        // Who keeps short values alone must not keep what they came in.
        let blocks = if self.points { blocks } else { &[] };
        let (views, nulls) = if self.views.data.is_empty() {
            let nulls = (self.absent > 0).then(|| NullBuffer::new_null(self.absent));
            (ScalarBuffer::from(vec![0; self.absent]), nulls)
        } else {
            (self.views.into_rows(), self.nulls.finish())
        };
        // SAFETY: each view has its value, or points at it inside of its block, with its first bytes; zero is an empty value.
        let views = unsafe { BinaryViewArray::new_unchecked(views, blocks.to_vec(), nulls) };
        Ok(Values::Viewed(views, self.bytes))
    }
}

/// The bytes of a short value, the first one lowest. It is read in two parts, which may overlap.
#[inline(always)]
fn short(value: &[u8]) -> u128 {
    let place = |high: u128, bytes: usize| high << (8 * (value.len() - bytes));
    if let (Some(low), Some(high)) = (value.first_chunk(), value.last_chunk()) {
        return u128::from(u64::from_le_bytes(*low)) | place(u64::from_le_bytes(*high).into(), 8);
    }
    if let (Some(low), Some(high)) = (value.first_chunk(), value.last_chunk()) {
        return u128::from(u32::from_le_bytes(*low)) | place(u32::from_le_bytes(*high).into(), 4);
    }
    match *value {
        [a, b, c] => u128::from(a) | u128::from(b) << 8 | u128::from(c) << 16,
        [a, b] => u128::from(a) | u128::from(b) << 8,
        [a] => a.into(),
        _ => 0,
    }
}

/// The range of child elements or bytes that these rows cover.
pub(crate) fn span(offsets: &[i32], rows: &Range<usize>) -> Range<usize> {
    let at = |row: usize| {
        let offset = offsets.get(row).copied();
        offset.map_or(0, |offset| offset.unsigned_abs() as usize)
    };
    at(rows.start)..at(rows.end)
}
