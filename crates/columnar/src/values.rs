//! Columns of keys and values: copied one behind the other, or views of what was received.
#![allow(unsafe_code)] // rows are added without a capacity check per row

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
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
    Viewed(BinaryViewArray),
}

impl Values {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Copied(column) => column.is_valid(row).then(|| column.value(row)),
            Self::Viewed(column) => column.is_valid(row).then(|| column.value(row)),
        }
    }

    /// Bytes of these rows.
    pub(crate) fn bytes(&self, rows: &Range<usize>) -> usize {
        match self {
            Self::Copied(column) => span(column.value_offsets(), rows).len(),
            Self::Viewed(column) => {
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
            Self::Viewed(column) => {
                Arc::new(BinaryArray::from_iter(column.slice(start, length).iter()))
            }
        }
    }

    /// Rows as views, without a copy of what is longer than a view.
    pub(crate) fn view(&self, start: usize, length: usize) -> ArrayRef {
        match self {
            Self::Copied(column) => Arc::new(BinaryViewArray::from(&column.slice(start, length))),
            Self::Viewed(column) => Arc::new(column.slice(start, length)),
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
pub(crate) struct Copying {
    keys: build::Bytes,
    values: build::Bytes,
}

impl Copying {
    /// For this number of bytes of records.
    pub(crate) fn new(memory: &Memory, bytes: usize) -> Self {
        Self {
            keys: build::Bytes::new(Column::default()),
            // What is not compressed is mostly values; the pages of what they do not need are never touched.
            values: build::Bytes::new(memory.column(bytes)),
        }
    }
}

impl Fill for Copying {
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
pub(crate) struct Viewing {
    received: Bytes,
    /// The block that `received` is, once it is one.
    received_block: Option<u32>,
    /// The block of the payload that is read, and where that begins in the memory.
    block: u32,
    base: usize,
    keys: Views,
    values: Views,
}

impl Viewing {
    pub(crate) fn new(received: Bytes) -> Self {
        Self {
            received,
            received_block: None,
            block: 0,
            base: 0,
            keys: Views::default(),
            values: Views::default(),
        }
    }

    fn append_block(&mut self, block: Buffer) -> u32 {
        self.keys.builder.append_block(block.clone());
        self.values.builder.append_block(block)
    }
}

impl Fill for Viewing {
    fn payload(&mut self, codec: Compression, payload: &[u8]) {
        if codec == Compression::None {
            let received = self.received.clone();
            self.base = received.as_ptr() as usize;
            self.block = match self.received_block {
                Some(block) => block,
                None => self.append_block(Buffer::from(received)),
            };
            self.received_block = Some(self.block);
        } else {
            // What it was decompressed to is used again for the next one.
            self.base = payload.as_ptr() as usize;
            self.block = self.append_block(Buffer::from_slice_ref(payload));
        }
    }

    fn reserve(&mut self, _rows: usize, _bytes: usize) {}

    #[inline(always)]
    unsafe fn push_within(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.keys.push(self.block, self.base, key);
        self.values.push(self.block, self.base, value);
    }

    fn finish(self) -> Result<(Values, Values), ColumnarError> {
        Ok((
            Values::Viewed(self.keys.finish()?),
            Values::Viewed(self.values.finish()?),
        ))
    }
}

/// A column of type binary_view while it grows.
#[derive(Default)]
struct Views {
    builder: BinaryViewBuilder,
    /// Whether a value is longer than fits into its view.
    points: bool,
    failed: Option<ArrowError>,
}

impl Views {
    /// Adds a value of a block that begins at `base`.
    #[inline(always)]
    fn push(&mut self, block: u32, base: usize, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.builder.append_null();
            return;
        };
        // Blocks have at most 2^31 bytes; a place outside of the block would be an error, not a wrong view.
        let offset = (value.as_ptr() as usize).wrapping_sub(base) as u32;
        // An empty slice need not be inside.
        let offset = if value.is_empty() { 0 } else { offset };
        self.points |= value.len() > INLINE;
        if let Err(error) = self
            .builder
            .try_append_view(block, offset, value.len() as u32)
        {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(mut self) -> Result<BinaryViewArray, ColumnarError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let views = self.builder.finish();
        if self.points {
            return Ok(views);
        }
        // Who keeps short values alone must not keep what they came in.
        let (views, _, nulls) = views.into_parts();
        Ok(BinaryViewArray::try_new(views, Vec::new(), nulls)?)
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
