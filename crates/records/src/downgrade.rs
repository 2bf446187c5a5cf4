//! Record batches for brokers before 0.11, which know message sets only.

use bytes::Bytes;

use super::{Batch, MessageSetBuilder, OldMagic, RecordsError};
use crate::compression::Compression;

/// The records of a batch as a message set whose offsets begin with 0, which the broker replaces. Magic 0 loses the timestamps.
/// `limit` bounds the decompressed batch; `codec` and `level` are the set's own.
///
/// ```
/// use ottla_records::compression::Compression;
/// use ottla_records::{self as records, BatchBuilder, OldMagic, ProducerState};
///
/// let mut builder = BatchBuilder::new(Compression::None, None);
/// builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), std::iter::empty())?;
/// let batch = builder.finish(ProducerState::NONE)?;
/// let set = records::to_message_set(batch, OldMagic::One, Compression::Gzip, None, 1 << 20)?;
/// let message = records::entries(set).next().unwrap()?;
/// assert_eq!((message.magic(), message.max_timestamp()), (1, 1_700_000_000_000));
/// # Ok::<(), records::RecordsError>(())
/// ```
///
/// # Errors
/// [`RecordsError::OldHeaders`] for a record with headers, [`RecordsError::OldCodec`] for zstd: message sets have neither.
/// Else what is wrong with the batch.
pub fn to_message_set(
    batch: Bytes,
    magic: OldMagic,
    codec: Compression,
    level: Option<i32>,
    limit: usize,
) -> Result<Bytes, RecordsError> {
    let batch = Batch::parse(batch)?;
    let payload = batch.payload(limit)?;
    let mut set = MessageSetBuilder::new(magic, codec, level, 0)?;
    for (record, index) in batch.records(&payload)?.zip(0..) {
        let record = record?;
        if record.headers().next().is_some() {
            return Err(RecordsError::OldHeaders {
                index,
                magic: magic.id(),
            });
        }
        set.append(record.timestamp, record.key, record.value)?;
    }
    set.finish()
}
