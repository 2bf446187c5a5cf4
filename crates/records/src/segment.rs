//! Log segments: the `.log` files in a broker's data folder.

use bytes::Bytes;

use super::entry::{LEAST, MAGIC_AT};
use super::header::whole_size;
use super::message::{CRC_FROM, Fields, Start};
use super::range_crc::{CRC_32, CRC_32C, RangeCrc};
use super::{BatchHeader, Entry, RecordsError};

/// Walks the bytes of a segment in any format; they may be a mapped file. Damage does not end the walk: the iterator returns it
/// as a value and continues at the next whole entry with a correct checksum. A tail of zeros, as in a file that the broker
/// preallocated, is the end.
///
/// The time is proportional to the number of bytes, whatever their contents. It allocates nothing before it finds damage, and
/// then less than a thirtieth of the bytes.
#[must_use]
pub fn segment(bytes: Bytes) -> Segment {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    Segment {
        tail: bytes.len() - zeros,
        bytes,
        position: 0,
        check_crcs: true,
        crcs: None,
    }
}

/// A part of a segment.
#[derive(Debug, Clone)]
pub enum Found {
    /// A whole entry.
    Entry {
        /// Position of its first byte in the segment.
        position: usize,
        /// The entry. Its records are not checked.
        entry: Entry,
    },
    /// Bytes that are not an entry.
    Damage(Damage),
}

/// Bytes of a segment that are not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {size} bytes at position {position} of the segment are damaged: {cause}")]
pub struct Damage {
    /// Position of the first of them in the segment.
    pub position: usize,
    /// Number of these bytes; a whole entry follows, or only zeros.
    pub size: usize,
    /// Why they are not an entry. [`RecordsError::Cut`] is a last entry without its end: a crash leaves such an entry, and so
    /// does a broker that has not finished writing it.
    #[source]
    pub cause: RecordsError,
}

/// The iterator of [`segment`].
#[derive(Debug, Clone)]
pub struct Segment {
    bytes: Bytes,
    position: usize,
    /// Only zeros follow.
    tail: usize,
    check_crcs: bool,
    /// From the first damage on.
    crcs: Option<Box<Crcs>>,
}

#[derive(Debug, Clone)]
struct Crcs {
    old: RangeCrc,
    new: RangeCrc,
}

impl Segment {
    /// Also accepts entries with a wrong checksum. The search for an entry after damage still checks checksums.
    #[must_use]
    pub const fn without_crcs(mut self) -> Self {
        self.check_crcs = false;
        self
    }

    /// Position in the segment where the walk continues.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    fn entry(&mut self) -> Result<Entry, RecordsError> {
        let rest = self.bytes.slice(self.position..);
        let left = rest.len();
        let size = whole_size(&rest)?.unwrap_or(LEAST);
        if size > left {
            return Err(RecordsError::Cut { needed: size, left });
        }
        let entry = Entry::parse(rest.slice(..size))?;
        if self.check_crcs {
            match &mut self.crcs {
                None => entry.verify_crc()?,
                Some(crcs) => crcs.verify(&self.bytes, self.position, &entry)?,
            }
        }
        Ok(entry)
    }

    fn damage(&mut self, cause: RecordsError) -> Damage {
        let position = self.position;
        let rest = self.bytes.get(position..).unwrap_or_default();
        let crcs = self.crcs.get_or_insert_with(|| {
            Box::new(Crcs {
                old: RangeCrc::new(CRC_32, position),
                new: RangeCrc::new(CRC_32C, position),
            })
        });
        // If the size is right, what stands inside of the damaged entry is no entry of the segment.
        let said_end = whole_size(rest)
            .ok()
            .flatten()
            .and_then(|size| position.checked_add(size))
            .filter(|end| {
                *end == self.bytes.len()
                    || (self.tail..self.bytes.len()).contains(end)
                    || crcs.entry_stands(&self.bytes, *end)
            });
        let next = said_end
            .or_else(|| {
                (position + 1..self.tail).find(|place| crcs.entry_stands(&self.bytes, *place))
            })
            .unwrap_or(self.tail.max(position + 1));
        let cause = match cause {
            // There is more after it, so it is its size that is wrong.
            RecordsError::Cut { .. } if next < self.tail => length_error(rest).unwrap_or(cause),
            cause => cause,
        };
        Damage {
            position,
            size: next - position,
            cause,
        }
    }
}

impl Iterator for Segment {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if self.position >= self.tail {
            return None;
        }
        let position = self.position;
        match self.entry() {
            Ok(entry) => {
                self.position += entry.size();
                Some(Found::Entry { position, entry })
            }
            Err(cause) => {
                let damage = self.damage(cause);
                self.position += damage.size;
                Some(Found::Damage(damage))
            }
        }
    }
}

impl Crcs {
    fn verify(&mut self, bytes: &[u8], position: usize, entry: &Entry) -> Result<(), RecordsError> {
        let computed = self.computed(bytes, position, entry.magic(), position + entry.size());
        if computed == entry.crc() {
            Ok(())
        } else {
            Err(RecordsError::Crc {
                base_offset: entry.base_offset(),
                expected: entry.crc(),
                computed,
            })
        }
    }

    fn computed(&mut self, bytes: &[u8], position: usize, magic: i8, end: usize) -> u32 {
        let (crcs, from) = match magic {
            2 => (&mut self.new, BatchHeader::CRC_FROM),
            _ => (&mut self.old, CRC_FROM),
        };
        crcs.of(bytes, position + from..end)
    }

    /// Whether a whole entry with the right checksum begins here.
    fn entry_stands(&mut self, bytes: &[u8], position: usize) -> bool {
        let rest = bytes.get(position..).unwrap_or_default();
        plausible(rest).is_some_and(|entry| {
            entry.size <= rest.len()
                && self.computed(bytes, position, entry.magic, position + entry.size) == entry.crc
        })
    }
}

/// The first bytes of an entry, parsed.
struct Plausible {
    magic: i8,
    size: usize,
    crc: u32,
}

/// Whether an entry may begin here, judged without its checksum.
fn plausible(rest: &[u8]) -> Option<Plausible> {
    match *rest.get(MAGIC_AT)? {
        0 | 1 => {
            let start = Start::parse(rest).ok()?;
            let message = rest.get(..start.size())?;
            Fields::read(start.magic, message).ok()?;
            Some(Plausible {
                magic: start.magic,
                size: start.size(),
                crc: start.crc,
            })
        }
        2 => {
            let header = BatchHeader::parse(rest).ok()?;
            header.check_range().ok()?;
            Some(Plausible {
                magic: header.magic,
                size: header.size(),
                crc: header.crc,
            })
        }
        _ => None,
    }
}

/// The size of an entry exceeds the possible maximum.
fn length_error(entry: &[u8]) -> Option<RecordsError> {
    let (offset, rest) = entry.split_first_chunk()?;
    Some(RecordsError::Length {
        base_offset: i64::from_be_bytes(*offset),
        length: i32::from_be_bytes(*rest.first_chunk()?),
    })
}
