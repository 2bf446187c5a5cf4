//! Changes the bytes of a finished batch, and checks them as a broker does.

use bytes::{BufMut, Bytes};

use super::{Batch, BatchHeader, ProducerState, RecordsError, TimestampType};

/// Sets the offset of a batch's first record and the leader epoch, when it is appended to a log. The checksum covers neither.
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

/// Replaces producer id, epoch and sequence of a finished batch, for example after an epoch bump; `batch` is all its bytes.
///
/// # Errors
/// The errors of [`BatchHeader::parse`].
pub fn set_producer_state(batch: &mut [u8], state: ProducerState) -> Result<(), RecordsError> {
    let mut header = BatchHeader::parse(batch)?;
    header.producer_id = state.producer_id;
    header.producer_epoch = state.epoch;
    header.base_sequence = state.base_sequence;
    header.seal(batch)
}

/// Sets the broker's time, in milliseconds, as the timestamp of all records of a batch; `batch` is all its bytes.
///
/// # Errors
/// The errors of [`BatchHeader::parse`].
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) -> Result<(), RecordsError> {
    let mut header = BatchHeader::parse(batch)?;
    header.set_timestamp_type(TimestampType::LogAppend);
    header.max_timestamp = timestamp;
    header.seal(batch)
}

/// Checks a batch as a broker does before it appends it: one batch, checksum right, codec known, at least one record, and
/// an offset for each without gaps. It does not check the records.
///
/// # Errors
/// The first check that fails.
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
