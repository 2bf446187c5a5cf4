//! The LZ4 frame format (version 1). It writes what the Java client writes: independent blocks of 64 KiB, without checksums
//! except the header's. It reads all that the format allows, except dictionaries, and decompresses each block into its final place.

use std::ops::RangeInclusive;

use ::lz4::block::{CompressionMode, compress_to_buffer, decompress_to_buffer};
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into_with_dict,
    get_maximum_output_size,
};
use xxhash_rust::xxh32::xxh32;

use super::output::{Failure, Output};

/// The levels of `compression.lz4.level`. Levels 12 and higher do the same search, as in Kafka's
/// library.
pub(super) const LEVELS: RangeInclusive<i32> = 1..=17;
/// Kafka's default, for which its client uses the fast compressor; the others are levels of the slow one (lz4hc).
const FAST: i32 = 9;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
/// Frames that hold no data: any of 16 magics, then a length.
const SKIPPABLE: u32 = 0x184D_2A50;
const VERSION: u8 = 1 << 6;
const VERSION_MASK: u8 = 3 << 6;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;
/// The code of blocks of 64 KiB; each of the next three has four times as many bytes.
const BLOCK_64K: u8 = 4;
const BLOCK: usize = 64 << 10;
/// How far back a block may point where blocks depend on each other.
const WINDOW: usize = 64 << 10;
/// Set in the length of a block that is stored as it is.
const STORED: u32 = 1 << 31;

/// The bytes that the checksum of a frame's header covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderChecksum {
    /// The descriptor, as in the format.
    Standard,
    /// The magic too: a mistake in Kafka's first client that message sets of magic 0 keep (KAFKA-3160). The reader accepts
    /// both.
    WithMagic,
}

impl HeaderChecksum {
    fn of(self, descriptor: &[u8]) -> u8 {
        let [_, second, ..] = match self {
            Self::Standard => xxh32(descriptor, 0),
            Self::WithMagic => xxh32(&[&MAGIC, descriptor].concat(), 0),
        }
        .to_le_bytes();
        second
    }

    fn is(self, checksum: u8, descriptor: &[u8]) -> bool {
        Self::Standard.of(descriptor) == checksum || self.of(descriptor) == checksum
    }
}

pub(super) fn compress(
    level: Option<i32>,
    checksum: HeaderChecksum,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let descriptor = [VERSION | INDEPENDENT, BLOCK_64K << 4];
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&descriptor);
    out.push(checksum.of(&descriptor));
    let mut table = CompressTable::default();
    for block in input.chunks(BLOCK) {
        let start = out.len();
        out.resize(start + 4 + get_maximum_output_size(block.len()), 0);
        let Some((length, body)) = out
            .get_mut(start..)
            .and_then(<[u8]>::split_first_chunk_mut::<4>)
        else {
            continue;
        };
        let mut written = match level {
            None | Some(FAST) => {
                compress_into_with_table(block, body, &mut table).map_err(|e| e.to_string())
            }
            Some(level) => {
                let slow = Some(CompressionMode::HIGHCOMPRESSION(level));
                compress_to_buffer(block, slow, false, body).map_err(|e| e.to_string())
            }
        }?;
        let mut stored = 0;
        if written >= block.len() {
            written = block.len();
            stored = STORED;
            if let Some(body) = body.get_mut(..written) {
                body.copy_from_slice(block);
            }
        }
        *length =
            (u32::try_from(written).map_err(|error| error.to_string())? | stored).to_le_bytes();
        out.truncate(start + 4 + written);
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

pub(super) fn decompress(
    checksum: HeaderChecksum,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let mut out = Output::new(out, limit);
    let mut rest = Input(input);
    // Frames may follow each other, also none at all.
    while !rest.0.is_empty() {
        let magic = rest.take(4)?;
        if magic == MAGIC {
            frame(checksum, &mut rest, &mut out)?;
        } else if u32::from_le_bytes(*magic.first_chunk().unwrap_or(&[0; 4])) & !15 == SKIPPABLE {
            let length = rest.length()?;
            rest.take(length as usize)?;
        } else {
            return Err(Failure::corrupt("no LZ4 frame begins here"));
        }
    }
    out.finish();
    Ok(())
}

fn frame(kind: HeaderChecksum, rest: &mut Input<'_>, out: &mut Output<'_>) -> Result<(), Failure> {
    let header = rest.0;
    let [flags, sizes] = *rest.take(2)?.first_chunk().unwrap_or(&[0; 2]);
    if flags & VERSION_MASK != VERSION {
        return Err(Failure::corrupt("an unknown version of the frame format"));
    }
    if flags & DICTIONARY != 0 {
        return Err(Failure::corrupt("it needs a dictionary"));
    }
    let block_size = match (sizes >> 4) & 7 {
        code @ BLOCK_64K..=7 => BLOCK << (2 * (code - BLOCK_64K)),
        code => return Err(Failure::Corrupt(format!("an unknown block size, {code}"))),
    };
    let mut descriptor = 2;
    let mut content_size = None;
    if flags & CONTENT_SIZE != 0 {
        content_size = rest
            .take(8)?
            .first_chunk()
            .map(|size| u64::from_le_bytes(*size));
        descriptor += 8;
    }
    let [checksum] = *rest.take(1)?.first_chunk().unwrap_or(&[0; 1]);
    if header
        .get(..descriptor)
        .is_none_or(|descriptor| !kind.is(checksum, descriptor))
    {
        return Err(Failure::corrupt(
            "the checksum of the frame's header is wrong",
        ));
    }
    let start = out.length;
    loop {
        let length = rest.length()?;
        if length == 0 {
            break;
        }
        let block = rest.take((length & !STORED) as usize)?;
        if block.len() > block_size {
            return Err(Failure::corrupt(
                "a block is larger than the frame's maximum block size",
            ));
        }
        if flags & BLOCK_CHECKSUM != 0 && rest.length()? != xxh32(block, 0) {
            return Err(Failure::corrupt("the checksum of a block is wrong"));
        }
        if length & STORED != 0 {
            let (_, room) = out.room(block.len())?;
            room.copy_from_slice(block);
            out.wrote(block.len());
        } else if flags & INDEPENDENT != 0 {
            independent(block, block_size, out)?;
        } else {
            dependent(block, start, block_size, out)?;
        }
    }
    let content = out.written().get(start..).unwrap_or_default();
    if content_size.is_some_and(|size| size != content.len() as u64) {
        return Err(Failure::corrupt(
            "the content has another size than the frame's header",
        ));
    }
    if flags & CONTENT_CHECKSUM != 0 && rest.length()? != xxh32(content, 0) {
        return Err(Failure::corrupt("the checksum of the content is wrong"));
    }
    Ok(())
}

/// Maximum bytes that a block can decompress to: one byte yields at most 255.
fn most(block: &[u8], block_size: usize) -> usize {
    block_size.min(block.len().saturating_mul(255))
}

/// Decompresses a block that points to no other.
fn independent(block: &[u8], block_size: usize, out: &mut Output<'_>) -> Result<(), Failure> {
    let most = most(block, block_size);
    if most > out.left() {
        // The other library distinguishes a block that is too large from a damaged one.
        return dependent(block, out.length, block_size, out);
    }
    let (_, room) = out.room(most)?;
    let size = i32::try_from(most).map_err(Failure::corrupt)?;
    let written = decompress_to_buffer(block, Some(size), room).map_err(Failure::corrupt)?;
    out.wrote(written);
    Ok(())
}

/// Decompresses a block that may point to the blocks before it, from `start` on.
fn dependent(
    block: &[u8],
    start: usize,
    block_size: usize,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let most = most(block, block_size);
    let space = most.min(out.left());
    let (written, room) = out.room(space)?;
    let window = written.get(start.max(written.len().saturating_sub(WINDOW))..);
    match decompress_into_with_dict(block, room, window.unwrap_or_default()) {
        Ok(written) => {
            out.wrote(written);
            Ok(())
        }
        Err(DecompressError::OutputTooSmall { .. }) if space < most => Err(Failure::TooLarge),
        Err(error) => Err(Failure::corrupt(error)),
    }
}

/// The unread input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            Failure::Corrupt(format!(
                "cut short: {count} bytes needed, {} left",
                self.0.len()
            ))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<u32, Failure> {
        Ok(u32::from_le_bytes(
            *self.take(4)?.first_chunk().unwrap_or(&[0; 4]),
        ))
    }
}
