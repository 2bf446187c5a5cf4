//! gzip, RFC 1952. Several members in a row are read as one stream, as Java does.

use std::io::{Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::Failure;

pub(super) fn level(level: i32) -> Option<flate2::Compression> {
    match level {
        -1 => Some(flate2::Compression::default()),
        1..=9 => Some(flate2::Compression::new(level.unsigned_abs())),
        _ => None,
    }
}

pub(super) fn compress(asked: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let level = asked.and_then(level).unwrap_or_default();
    let mut encoder = GzEncoder::new(out, level);
    encoder
        .write_all(input)
        .and_then(|()| encoder.try_finish())
        .map_err(|error| error.to_string())
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
