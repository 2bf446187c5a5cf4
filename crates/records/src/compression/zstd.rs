//! Zstandard, RFC 8878. Several frames in a row are read as one stream.

use std::cell::Cell;
use std::ops::RangeInclusive;

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, InBuffer, OutBuffer};

use super::output::Failure;

/// The levels of `compression.zstd.level`.
pub(super) const LEVELS: RangeInclusive<i32> = -131_072..=22;

/// The space at the start, and the least to continue with.
const ROOM: usize = 16 << 10;
/// Greatest claimed compression ratio of a frame that is believed.
const BELIEVED: usize = 16;

thread_local! {
    /// A context for the next batch: allocating the tables of a new one takes longer than filling them.
    static CONTEXT: Cell<Option<CCtx<'static>>> = const { Cell::new(None) };
}
/// Larger contexts are dropped. Those of the levels up to 9 are smaller.
const KEPT: usize = 16 << 20;

pub(super) fn compress(level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let kept = CONTEXT.take();
    let mut context = kept.or_else(CCtx::try_create).ok_or("out of memory")?;
    frame(&mut context, level, input, out)?;
    if context.sizeof() <= KEPT {
        CONTEXT.set(Some(context));
    }
    Ok(())
}

fn frame(
    context: &mut CCtx<'_>,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let error = |code| zstd_safe::get_error_name(code).to_owned();
    let start = out.len();
    out.reserve(zstd_safe::compress_bound(input.len()));
    let level = level.unwrap_or(zstd_safe::CLEVEL_DEFAULT);
    context
        .set_parameter(CParameter::CompressionLevel(level))
        .map_err(error)?;
    // The size lets the codec choose a window that fits, and is written for readers to reserve by.
    context
        .set_pledged_src_size(Some(input.len() as u64))
        .map_err(error)?;
    let mut source = InBuffer::around(input);
    let mut target = OutBuffer::around_pos(out, start);
    let left = context
        .compress_stream2(&mut target, &mut source, ZSTD_EndDirective::ZSTD_e_end)
        .map_err(error)?;
    if left == 0 {
        Ok(())
    } else {
        Err("it did not end".to_owned())
    }
}

pub(super) fn decompress(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut context =
        DCtx::try_create().ok_or_else(|| Failure::NoRoom("out of memory".to_owned()))?;
    let mut source = InBuffer::around(input);
    let mut frame_left = 0;
    // One byte more than the limit: reading it distinguishes "just fits" from "too much".
    let most = limit.saturating_add(1);
    // With space for all of it, the codec writes there and not into a window of its own first.
    let believed = input.len().saturating_mul(BELIEVED);
    let claimed = zstd_safe::get_frame_content_size(input).ok().flatten();
    let room = match claimed.and_then(|size| usize::try_from(size).ok()) {
        Some(size) if size <= believed => size,
        _ => input.len().saturating_mul(4).max(ROOM),
    };
    out.clear();
    out.reserve(room.min(most));
    while source.pos() < input.len() || frame_left > 0 {
        if out.len() == out.capacity() {
            // Doubles, as `reserve` does, but never beyond the limit.
            out.reserve_exact(out.len().max(ROOM).min(most.saturating_sub(out.len())));
        }
        let (read, written) = (source.pos(), out.len());
        let mut target = OutBuffer::around_pos(out, written);
        frame_left = context
            .decompress_stream(&mut target, &mut source)
            .map_err(failure)?;
        if out.len() > limit {
            return Err(Failure::TooLarge);
        }
        if source.pos() == read && out.len() == written {
            return Err(Failure::corrupt("cut short"));
        }
    }
    Ok(())
}
/// The codec's numbers for a window that is larger than it takes, and for memory that is not there. They are part of its stable
/// interface; a function returns them negated.
const NO_ROOM: [usize; 2] = [16_usize.wrapping_neg(), 64_usize.wrapping_neg()];

fn failure(code: usize) -> Failure {
    let reason = zstd_safe::get_error_name(code);
    if NO_ROOM.contains(&code) {
        Failure::NoRoom(reason.to_owned())
    } else {
        Failure::corrupt(reason)
    }
}
