//! How records are decoded, and into what: the caller of a consumer decides both.

use ottla_engine::Error;
use ottla_engine::fetched::Fetched;

/// Makes what `poll` returns from records as they came.
pub trait Decode: Send + Sync + 'static {
    /// What `poll` returns.
    type Chunk: Chunk;

    /// Decodes all batches; called outside of any lock, on the thread or task that polls, or on a helper beside it. The chunk may end
    /// before a record that cannot be shown, at [`Chunk::next_offset`]: from there, the next call says why.
    ///
    /// # Errors
    /// Records that do not decode: [`Fetched::corrupt`], or [`Fetched::refused`] if only the first of them cannot be shown.
    fn decode(&self, fetched: &Fetched) -> Result<Self::Chunk, Error>;

    /// Nothing is to be decoded for a while: memory that is only kept for speed may be freed.
    fn rest(&self) {}
}

/// Decoded records of one partition, in order.
pub trait Chunk: Send + 'static {
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
