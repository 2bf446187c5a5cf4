//! Snappy in the framing of snappy-java: a header of 16 bytes, then blocks with their length in front. Clients without
//! the framing write one raw block. This module reads both and writes the framing.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::output::{Failure, Output};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// The version written, and the lowest one that can read it.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Uncompressed bytes per block, as in the Java client.
const BLOCK: usize = 32 << 10;
/// Maximum ratio of a raw block: its densest element turns 3 bytes into 64.
const MOST_GROWTH: usize = 22;

pub(super) fn compress(input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSIONS);
    let mut encoder = Encoder::new();
    for block in input.chunks(BLOCK) {
        let start = out.len();
        out.resize(start + 4 + max_compress_len(block.len()), 0);
        let Some((length, body)) = out
            .get_mut(start..)
            .and_then(<[u8]>::split_first_chunk_mut::<4>)
        else {
            continue;
        };
        let written = encoder
            .compress(block, body)
            .map_err(|error| error.to_string())?;
        *length = u32::try_from(written)
            .map_err(|error| error.to_string())?
            .to_be_bytes();
        out.truncate(start + 4 + written);
    }
    Ok(())
}

pub(super) fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut out = Output::new(out, limit);
    let mut decoder = Decoder::new();
    if input.starts_with(&MAGIC) {
        framed(&mut decoder, input, &mut out)?;
    } else {
        block(&mut decoder, input, &mut out)?;
    }
    out.finish();
    Ok(())
}

fn framed(decoder: &mut Decoder, input: &[u8], out: &mut Output<'_>) -> Result<(), Failure> {
    let mut rest = input;
    while !rest.is_empty() {
        // Streams that were joined have their header again.
        if let Some(after) = rest.strip_prefix(&MAGIC) {
            rest = after
                .get(VERSIONS.len()..)
                .ok_or_else(|| Failure::corrupt("the header of the framing is cut"))?;
            continue;
        }
        let (length, after) = rest
            .split_first_chunk()
            .ok_or_else(|| Failure::corrupt("a block's length is cut"))?;
        let length = u32::from_be_bytes(*length);
        let (body, after) = usize::try_from(length)
            .ok()
            .and_then(|length| after.split_at_checked(length))
            .ok_or_else(|| {
                Failure::Corrupt(format!("a block of {length} bytes, {} left", after.len()))
            })?;
        block(decoder, body, out)?;
        rest = after;
    }
    Ok(())
}

fn block(decoder: &mut Decoder, body: &[u8], out: &mut Output<'_>) -> Result<(), Failure> {
    let claimed = decompress_len(body).map_err(Failure::corrupt)?;
    if claimed > body.len().saturating_mul(MOST_GROWTH) {
        return Err(Failure::Corrupt(format!(
            "a block of {} bytes claims to hold {claimed}",
            body.len()
        )));
    }
    let (_, room) = out.room(claimed)?;
    let written = decoder.decompress(body, room).map_err(Failure::corrupt)?;
    out.wrote(written);
    Ok(())
}
