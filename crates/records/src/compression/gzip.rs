//! gzip, RFC 1952, with libdeflate, which is faster than zlib but needs all input and a buffer for all output at once. Other input
//! is read as a stream, whose memory is bounded by the output itself and not by the claimed size.
//!
//! Several members in a row are read as one stream, as Java does. Of the first, flags that RFC 1952 reserves are passed over, as
//! Java does, too.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use memchr::memmem;

use super::output::Failure;

/// Kafka's default, also for -1.
const DEFAULT: i32 = 6;

/// The first bytes of a member: the magic and the only compression method.
const MEMBER: [u8; 3] = [0x1f, 0x8b, 8];
/// The flags of a header without names, comments and a checksum of its own, as all clients write it.
const PLAIN: u8 = 0;
/// The flag of a checksum of the header, which covers the flags.
const HEADER_CHECKSUM: u8 = 1 << 1;
/// The flags without a meaning, which flate2 refuses.
const RESERVED: u8 = 0b1110_0000;
/// Greatest claimed compression ratio of a member that is believed: text seldom shrinks further.
const BELIEVED: usize = 16;

pub(super) fn level(level: i32) -> Option<CompressionLvl> {
    match level {
        -1 => CompressionLvl::new(DEFAULT).ok(),
        1..=9 => CompressionLvl::new(level).ok(),
        _ => None,
    }
}

pub(super) fn compress(asked: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let level = level(asked.unwrap_or(DEFAULT)).ok_or("no such level")?;
    let mut compressor = Compressor::new(level);
    let start = out.len();
    out.resize(start + compressor.gzip_compress_bound(input.len()), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let written = compressor
        .gzip_compress(input, room)
        .map_err(|error| error.to_string())?;
    out.truncate(start + written);
    Ok(())
}

pub(super) fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let believed = input.len().saturating_mul(BELIEVED).min(limit);
    if let Some(size) = claimed_size(input).filter(|size| *size <= believed) {
        out.resize(size, 0);
        if Decompressor::new().gzip_decompress(input, out) == Ok(size) {
            return Ok(());
        }
    }
    stream(input, limit, out)
}

/// The claimed size of the output, if the input is one plain member and no other member begins in it.
fn claimed_size(input: &[u8]) -> Option<usize> {
    let after = input.strip_prefix(&MEMBER)?;
    if after.first() != Some(&PLAIN) || memmem::find(after, &MEMBER).is_some() {
        return None;
    }
    let size = u32::from_le_bytes(*after.last_chunk()?);
    usize::try_from(size).ok()
}

fn stream(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    out.clear();
    out.reserve(input.len().saturating_mul(2).min(limit));
    let start = input.first_chunk();
    let start = start.map(|&[id1, id2, method, flags]| [id1, id2, method, known(flags)]);
    let start = start.as_ref().map_or(input, <[u8; 4]>::as_slice);
    let rest = input.get(start.len()..).unwrap_or_default();
    // One byte more than the limit: reading it distinguishes "just fits" from "too much".
    let most = (limit as u64).saturating_add(1);
    MultiGzDecoder::new(start.chain(rest))
        .take(most)
        .read_to_end(out)
        .map_err(Failure::corrupt)?;
    if out.len() > limit {
        Err(Failure::TooLarge)
    } else {
        Ok(())
    }
}

/// The flags without those that are reserved, unless a checksum covers them.
fn known(flags: u8) -> u8 {
    match flags & HEADER_CHECKSUM {
        0 => flags & !RESERVED,
        _ => flags,
    }
}
