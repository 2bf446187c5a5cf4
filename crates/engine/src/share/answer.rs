//! The content of a ShareFetch response for one partition.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
use ottla_protocol::records;

use crate::fetch::fetched::Fetched;
use crate::share::acknowledgement::LockId;

/// Offsets that were acquired together, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredRange {
    /// The first offset.
    pub first: i64,
    /// The last offset.
    pub last: i64,
    /// How often the records were delivered, this time included.
    pub delivery_count: i16,
}

/// Records that this member has a lock on.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// The lock.
    pub lock: LockId,
    /// Whole batches, which may hold other records too.
    pub fetched: Fetched,
    /// The acquired ranges: ascending, without overlaps.
    pub ranges: Arc<[AcquiredRange]>,
}

/// The content for one partition.
pub(super) struct Came {
    pub(super) fetched: Fetched,
    /// Acquired, and in whole batches.
    pub(super) ranges: Vec<AcquiredRange>,
    /// Acquired offsets without records in the response.
    pub(super) missing: Vec<AcquiredRange>,
}

/// Takes the acquired records out of a response; `None` if it has none.
pub(super) fn read(topic: &Arc<str>, partition: i32, row: PartitionData) -> Option<Came> {
    let ranges = ordered(&row.acquired_records);
    let first = ranges.first()?.first;
    let bytes = row.records.unwrap_or_default();
    let (whole, begin, end) = whole_batches(bytes.clone());
    let mut came = Came {
        fetched: Fetched {
            topic: Arc::clone(topic),
            partition,
            fetch_offset: first,
            next_offset: end,
            leader_epoch: -1,
            high_watermark: -1,
            records: bytes.slice(..whole),
            aborted: Arc::default(),
        },
        ranges: Vec::with_capacity(ranges.len()),
        missing: Vec::new(),
    };
    for range in ranges {
        let inside = AcquiredRange {
            first: range.first.max(begin),
            last: range.last.min(end.saturating_sub(1)),
            ..range
        };
        if inside.first > inside.last {
            came.missing.push(range);
            continue;
        }
        if range.first < inside.first {
            came.missing.push(AcquiredRange {
                last: inside.first - 1,
                ..range
            });
        }
        if range.last > inside.last {
            came.missing.push(AcquiredRange {
                first: inside.last + 1,
                ..range
            });
        }
        came.ranges.push(inside);
    }
    Some(came)
}

/// The ranges that make sense, each from where the one before it ends.
fn ordered(rows: &[AcquiredRecords]) -> Vec<AcquiredRange> {
    let mut ranges: Vec<AcquiredRange> = Vec::with_capacity(rows.len());
    for row in rows {
        let due = ranges
            .last()
            .map_or(0, |before| before.last.saturating_add(1));
        if row.first_offset >= due && row.last_offset >= row.first_offset {
            ranges.push(AcquiredRange {
                first: row.first_offset,
                last: row.last_offset,
                delivery_count: row.delivery_count,
            });
        }
    }
    ranges
}

/// The bytes of the whole batches at the beginning, their first offset, and the one after their last.
fn whole_batches(bytes: Bytes) -> (usize, i64, i64) {
    let (mut whole, mut begin, mut end) = (0, i64::MAX, i64::MIN);
    for entry in records::entries(bytes).map_while(Result::ok) {
        whole += entry.size();
        begin = begin.min(entry.base_offset());
        end = end.max(entry.next_offset());
    }
    (whole, begin, end)
}
