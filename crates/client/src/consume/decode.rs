//! How records are decoded, and into what: the caller of a consumer decides both. And what is little enough for a thread that has
//! others to serve.

use ottla_engine::Error;
use ottla_engine::fetched::Fetched;

/// Makes what `poll` returns from records as they came.
pub trait Decode: Send + Sync + 'static {
    /// What `poll` returns.
    type Chunk: Chunk;

    /// Decodes all batches; called outside of any lock, on the thread or task that polls, or on a
    /// helper thread. The chunk may end before a record that cannot be shown, at
    /// [`Chunk::next_offset`]: the next call from there returns the error.
    ///
    /// # Errors
    /// Records that do not decode: [`Fetched::corrupt`], or [`Fetched::refused`] if only the first of them cannot be shown.
    fn decode(&self, fetched: &Fetched) -> Result<Self::Chunk, Error>;

    /// As [`Decode::decode`], unless they decompress to more than `most` bytes: then `None`, soon.
    fn decode_within(&self, fetched: &Fetched, most: usize) -> Option<Result<Self::Chunk, Error>> {
        let _ = most;
        Some(self.decode(fetched))
    }

    /// Nothing is to be decoded for a while: memory that is only kept for speed may be freed.
    fn rest(&self) {}
}

/// Decoded records of one partition, in order.
pub trait Chunk: Send + Sync + 'static {
    /// Records.
    fn len(&self) -> usize;

    /// Whether there are no records; there may still be offsets to skip.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first `n` records off; `self` keeps the others.
    #[must_use]
    fn split_to(&mut self, n: usize) -> Self;

    /// The records from row `start` on, `length` of them.
    #[must_use]
    fn slice(&self, start: usize, length: usize) -> Self;

    /// The offset of a row.
    fn offset(&self, row: usize) -> i64;

    /// The offset after the last one covered, gaps and control batches included.
    fn next_offset(&self) -> i64;

    /// Bytes of its keys, values and headers.
    fn bytes(&self) -> usize;
}

/// Bytes that a thread with others to serve decodes in one go, if they are not compressed. A core decodes 1 to 2 GB a second, so
/// they take about a millisecond, many times as long as the way to another thread and back. Two partitions bring no more by
/// the default of `max.partition.fetch.bytes`: what is not compressed mostly stays with the thread that polls.
const AT_ONCE: usize = 2 << 20;
/// To decompress a byte takes about this many times as long as to read one.
const SLOWER: usize = 4;
/// A compressed byte counts as this many bytes. Mostly the content is no more than a quarter of it;
/// its real size is known only after decompression.
const COMPRESSED: usize = 32;

/// What is left of the moment that a thread with others to serve has for decoding, in bytes.
pub(crate) struct Moment(usize);

impl Moment {
    pub(crate) fn new() -> Moment {
        Moment(AT_ONCE)
    }

    /// Whether it may be enough for these records.
    pub(crate) fn is_enough(&self, fetched: &Fetched, is_compressed: bool) -> bool {
        cost(fetched, is_compressed) <= self.0
    }

    /// Decodes these records; `None` if they turn out to be too many.
    pub(crate) fn decode<D: Decode>(
        &mut self,
        decoder: &D,
        fetched: &Fetched,
        is_compressed: bool,
    ) -> Option<Result<D::Chunk, Error>> {
        let most = self.0 / SLOWER;
        self.0 = self.0.saturating_sub(cost(fetched, is_compressed));
        decoder.decode_within(fetched, most)
    }
}

fn cost(fetched: &Fetched, is_compressed: bool) -> usize {
    let times = if is_compressed { COMPRESSED } else { 1 };
    fetched.records.len().saturating_mul(times)
}
