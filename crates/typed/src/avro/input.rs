//! Avro's binary encoding: its primitive values.

use crate::error::{Bad, Filled};
use crate::varint::{put_varint, varint};

/// The most elements of arrays and maps, and skipped records, of a value that take no bytes.
/// Without a bound, ten bytes can request more than there is memory.
const EMPTY_ELEMENTS: usize = 1 << 16;

const NOT_UTF8: &str = "a string is not UTF-8";

#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    empty: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest, empty: 0 }
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Counts an element that took no bytes.
    pub(crate) fn count_empty(&mut self) -> Filled {
        self.empty += 1;
        if self.empty > EMPTY_ELEMENTS {
            return Err(Bad::new(format!(
                "it has more than {EMPTY_ELEMENTS} elements that take no bytes"
            )));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Filled<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            Bad::new(format!(
                "{count} bytes are wanted, and {} are left",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn chunk<const N: usize>(&mut self) -> Filled<[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| {
            Bad::new(format!(
                "{N} bytes are wanted, and {} are left",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(*chunk)
    }

    /// A number in zigzag and seven bits a byte.
    #[inline]
    pub(crate) fn long(&mut self) -> Filled<i64> {
        let Some((value, rest)) = varint(self.rest) else {
            return Err(self.no_number());
        };
        self.rest = rest;
        // The lowest bit is the sign.
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[cold]
    fn no_number(&self) -> Bad {
        Bad::new(if self.rest.len() < 10 {
            "it ends inside of a number"
        } else {
            "a number has more than 64 bits"
        })
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Filled<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| {
            Bad::new(format!(
                "{value} has more than 32 bits, and the type in the schema is int"
            ))
        })
    }

    /// A count before this many bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Filled<&'a [u8]> {
        let length = self.long()?;
        let count = usize::try_from(length)
            .map_err(|_| Bad::new(format!("a length is negative: {length}")))?;
        self.take(count)
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Filled<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Bad::new(NOT_UTF8))
    }

    /// The bytes of a text.
    #[inline]
    pub(crate) fn utf8(&mut self) -> Filled<&'a [u8]> {
        let bytes = self.bytes()?;
        // Most texts are short, for which this is faster.
        if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
            return Ok(bytes);
        }
        Err(Bad::new(NOT_UTF8))
    }

    pub(crate) fn boolean(&mut self) -> Filled<bool> {
        match self.chunk::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Bad::new(format!("a boolean is 0 or 1, not {other}"))),
        }
    }

    /// The count of the next block of an array or a map; 0 ends it.
    pub(crate) fn block(&mut self) -> Filled<u64> {
        let count = self.long()?;
        if count < 0 {
            // The block's size in bytes follows, for those who skip it.
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }
}

/// Writes a number in zigzag and seven bits a byte, as [`Input::long`] reads it.
pub(crate) fn put_long(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}
