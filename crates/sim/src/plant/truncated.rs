//! Planted defects about truncated logs.

use ottla_protocol::messages::fetch_response::{EpochEndOffset, PartitionData};
use ottla_protocol::messages::{FetchRequest, FetchResponse, OffsetForLeaderEpochResponse};

/// The offset by which [`move_ends`] moves the ends of epochs.
const LATER: i64 = 1000;

/// The leader does not learn the epoch of what was read.
pub(super) fn untell(request: &mut FetchRequest) {
    let topics = request.topics.iter_mut();
    for row in topics.flat_map(|topic| &mut topic.partitions) {
        row.last_fetched_epoch = -1;
    }
}

fn rows(answer: &mut FetchResponse) -> impl Iterator<Item = &mut PartitionData> {
    let topics = answer.responses.iter_mut();
    topics.flat_map(|topic| &mut topic.partitions)
}

/// Where the logs diverge, according to the response, one record of the old one is kept.
pub(super) fn raise_parting(answer: &mut FetchResponse) {
    for row in rows(answer).filter(|row| row.diverging_epoch.end_offset >= 0) {
        row.diverging_epoch.end_offset += 1;
    }
}

/// Instead of records, the response reports that the log has diverged from what was read, which is
/// not true.
pub(super) fn make_up(answer: &mut FetchResponse) {
    let has_records =
        |row: &&mut PartitionData| row.records.as_ref().is_some_and(|it| !it.is_empty());
    for row in rows(answer).filter(has_records) {
        row.records = None;
        row.diverging_epoch = EpochEndOffset {
            epoch: 0,
            end_offset: 0,
            ..Default::default()
        };
    }
}

/// Epochs end later.
pub(crate) fn move_ends(answer: &mut OffsetForLeaderEpochResponse) {
    let topics = answer.topics.iter_mut();
    let rows = topics.flat_map(|topic| &mut topic.partitions);
    for row in rows.filter(|row| row.end_offset >= 0) {
        row.end_offset += LATER;
    }
}
