//! gzip, RFC 1952. Written in one piece by libdeflate, which is quicker than zlib; read as a stream, since only that
//! is bounded by what the bytes hold and not by what they claim. Several members in a row are read as one stream, as Java does.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use libdeflater::{CompressionLvl, Compressor};

use super::Failure;

/// Kafka's default, also for -1.
const DEFAULT: i32 = 6;

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
    out.reserve(input.len().saturating_mul(2).min(limit));
    // One byte more than may be: seeing it tells "just fits" from "too much".
    let most = (limit as u64).saturating_add(1);
    MultiGzDecoder::new(input)
        .take(most)
        .read_to_end(out)
        .map_err(Failure::corrupt)?;
    if out.len() > limit {
        Err(Failure::TooLarge)
    } else {
        Ok(())
    }
}
