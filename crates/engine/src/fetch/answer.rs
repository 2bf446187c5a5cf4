//! What an answer means: for each partition of the request, records, nothing, or an error.

use std::sync::Arc;

use ottla_protocol::messages::FetchResponse;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::{ErrorCode, Uuid, records};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Kind};
use crate::fetch::fetched::{Aborted, Fetched};
use crate::fetch::request::Span;

/// What an answer says of one partition.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing new.
    Nothing,
    /// This broker has a nearer replica (KIP-392).
    Nearer(i32),
    /// Whole batches.
    Records(Fetched),
    /// Nothing behind this can be read until a seek.
    Stuck(Error),
    /// An error code, or no answer.
    Failed(Refused),
}

/// Why a partition was not read.
#[derive(Debug)]
pub(super) struct Refused {
    /// `NONE` if the broker did not say.
    pub(super) code: ErrorCode,
    pub(super) error: Error,
    /// The leader and its epoch, if the broker knows a newer one (KIP-951).
    pub(super) leader: Option<(i32, i32)>,
}

/// The first offset of a partition's log, and the end of what consumers may read; -1 if unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) begin: i64,
    pub(super) end: i64,
}

impl Bounds {
    pub(super) const UNKNOWN: Bounds = Bounds { begin: -1, end: -1 };

    fn of(row: Option<&PartitionData>, read_committed: bool) -> Bounds {
        row.map_or(Bounds::UNKNOWN, |row| Bounds {
            begin: row.log_start_offset,
            end: if read_committed {
                row.last_stable_offset
            } else {
                row.high_watermark
            },
        })
    }
}

/// What `answer` says of each of the `spans`, in their order. `broker` is its address.
pub(super) fn read(
    spans: Vec<Span>,
    answer: FetchResponse,
    broker: Option<&str>,
    read_committed: bool,
) -> Vec<(Span, Bounds, Verdict)> {
    let whole = ErrorCode(answer.error_code);
    let rows: Vec<_> = {
        let mut rows = rows_of(&spans, answer.responses);
        spans
            .iter()
            .map(|span| rows.remove(&(&*span.topic, span.partition)))
            .collect()
    };
    let judged = spans.into_iter().zip(rows).map(|(span, row)| {
        let bounds = Bounds::of(row.as_ref(), read_committed);
        let verdict = match row {
            Some(row) if row.error_code == 0 => read_records(&span, row),
            row => Verdict::Failed(refused(&span, whole, row.as_ref(), broker)),
        };
        (span, bounds, verdict)
    });
    judged.collect()
}

/// What an answer says of each partition of the request, by topic and partition; if it names one twice, the first entry
/// counts.
fn rows_of(
    spans: &[Span],
    answers: Vec<FetchableTopicResponse>,
) -> FxHashMap<(&str, i32), PartitionData> {
    let by_id: FxHashMap<_, &str> = spans
        .iter()
        .map(|span| (span.topic_id, &*span.topic))
        .collect();
    let by_name: FxHashSet<&str> = spans.iter().map(|span| &*span.topic).collect();
    let mut rows = FxHashMap::default();
    for topic in answers {
        let name = match topic.topic_id {
            Uuid::ZERO => by_name.get(&*topic.topic),
            id => by_id.get(&id),
        };
        let Some(name) = name else { continue };
        for row in topic.partitions {
            rows.entry((*name, row.partition_index)).or_insert(row);
        }
    }
    rows
}

fn refused(
    span: &Span,
    whole: ErrorCode,
    row: Option<&PartitionData>,
    broker: Option<&str>,
) -> Refused {
    let code = row.map_or(whole, |row| ErrorCode(row.error_code));
    let error = if code.is_error() {
        Error::from_code(code, None)
    } else {
        Error::new(Kind::Protocol, "the answer leaves out a partition")
    };
    let error = error
        .calling("Fetch")
        .partition_is(&span.topic, span.partition);
    let leader = row.map(|row| &row.current_leader);
    Refused {
        code,
        error: match broker {
            Some(address) => error.at(address),
            None => error,
        },
        leader: leader
            .filter(|leader| leader.leader_id >= 0)
            .map(|leader| (leader.leader_id, leader.leader_epoch)),
    }
}

/// Cuts off the whole batches. Records before a broken batch are given out first; the next fetch meets the broken batch
/// again.
fn read_records(span: &Span, row: PartitionData) -> Verdict {
    let Some(records) = row.records.filter(|records| !records.is_empty()) else {
        return match row.preferred_read_replica {
            node @ 0.. => Verdict::Nearer(node),
            _ => Verdict::Nothing,
        };
    };
    let (mut whole, mut next_offset, mut leader_epoch) = (0, span.offset, -1);
    for entry in records::entries(records.clone()) {
        match entry {
            Ok(entry) => {
                whole += entry.size();
                next_offset = next_offset.max(entry.next_offset());
                leader_epoch = entry.leader_epoch();
            }
            Err(_) if whole > 0 => break,
            Err(cause) => return stuck(span, Kind::Corrupt, &cause.to_string()),
        }
    }
    if whole == 0 {
        let text = "the broker sent only the beginning of a batch: raise max.partition.fetch.bytes";
        return stuck(span, Kind::TooLarge, text);
    }
    if next_offset <= span.offset {
        let text = format!("the batches of the answer end at {next_offset} already");
        return stuck(span, Kind::Corrupt, &text);
    }
    let aborted = row.aborted_transactions.unwrap_or_default();
    Verdict::Records(Fetched {
        topic: Arc::clone(&span.topic),
        partition: span.partition,
        fetch_offset: span.offset,
        next_offset,
        leader_epoch,
        high_watermark: row.high_watermark,
        records: records.slice(..whole),
        aborted: aborted
            .iter()
            .map(|row| Aborted {
                producer_id: row.producer_id,
                first_offset: row.first_offset,
            })
            .collect(),
    })
}

fn stuck(span: &Span, kind: Kind, text: &str) -> Verdict {
    let text = format!("at offset {}: {text}; seek past it to read on", span.offset);
    Verdict::Stuck(Error::new(kind, text).partition_is(&span.topic, span.partition))
}

/// Whether the same request may be answered later, or over another connection.
pub(super) fn heals(error: &Error) -> bool {
    // A call that ends for good says that its error is not retriable, whatever the code is.
    let code = error.code().is_some_and(ErrorCode::is_retriable);
    code || error.is_retriable()
        || matches!(
            error.kind(),
            Kind::Unreachable
                | Kind::Unresolved
                | Kind::Protocol
                | Kind::NotKafka
                | Kind::Authentication
        )
}
