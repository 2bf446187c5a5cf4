//! What is changed in the bytes of a finished batch, and what a broker checks in them.

use bytes::{BufMut, Bytes};

use super::{Batch, BatchHeader, ProducerState, RecordsError, TimestampType};

/// Gives a batch its place in a log: offset of its first record, epoch of the leader. The checksum does not cover them.
///
/// # Errors
/// [`RecordsError::Cut`] for fewer bytes than a header.
pub fn assign_offsets(
    batch: &mut [u8],
    base_offset: i64,
    leader_epoch: i32,
) -> Result<(), RecordsError> {
    let left = batch.len();
    let Some(mut start) = batch.get_mut(..BatchHeader::SIZE) else {
        return Err(RecordsError::Cut {
            needed: BatchHeader::SIZE,
            left,
        });
    };
    start.put_i64(base_offset);
    if let Some((_length, mut epoch)) = start.split_at_mut_checked(4) {
        epoch.put_i32(leader_epoch);
    }
    Ok(())
}

/// Gives a finished batch another producer id, epoch or sequence, as after a bumped epoch; `batch` is all its bytes.
///
/// # Errors
/// Those of [`BatchHeader::parse`].
pub fn set_producer_state(batch: &mut [u8], state: ProducerState) -> Result<(), RecordsError> {
    let mut header = BatchHeader::parse(batch)?;
    header.producer_id = state.producer_id;
    header.producer_epoch = state.epoch;
    header.base_sequence = state.base_sequence;
    header.seal(batch)
}

/// Makes the broker's time, in milliseconds, that of all records of a batch; `batch` is all its bytes.
///
/// # Errors
/// Those of [`BatchHeader::parse`].
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) -> Result<(), RecordsError> {
    let mut header = BatchHeader::parse(batch)?;
    header.set_timestamp_type(TimestampType::LogAppend);
    header.max_timestamp = timestamp;
    header.seal(batch)
}

/// Checks a batch as a broker does before it appends it: one batch, checksum right, codec known, at least one record, and
/// an offset for each without gaps. Does not look at the records.
///
/// # Errors
/// What is wrong with it.
pub fn validate_batch(bytes: Bytes) -> Result<Batch, RecordsError> {
    let batch = Batch::parse(bytes)?;
    batch.verify_crc()?;
    batch.header.compression()?;
    let BatchHeader {
        base_offset,
        last_offset_delta: delta,
        count,
        ..
    } = batch.header;
    if count.checked_sub(1) != Some(delta) {
        return Err(RecordsError::LastOffset {
            base_offset,
            delta,
            count,
        });
    }
    Ok(batch)
}
