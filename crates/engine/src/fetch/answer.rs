//! The meaning of a response: for each partition of the request, records, nothing, or an error.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::FetchResponse;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::{ErrorCode, Uuid, records};
use rustc_hash::FxHashMap;

use crate::call::EpochEnd;
use crate::error::{Damage, Error, Kind};
use crate::fetch::fetched::{Aborted, Fetched};
use crate::fetch::request::Span;
use crate::fetch::session::{LeftOut, Session, Shape};

/// The most bytes that are kept of what is no batch.
const KEPT: usize = 64 << 10;

/// The content of a response for one partition.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing new.
    Nothing,
    /// Not even whether there is something new.
    Unsaid,
    /// This broker has a nearer replica (KIP-392).
    Nearer(i32),
    /// Whole batches, and the leader epochs in them: each with the first offset that it has.
    Records(Fetched, Vec<(i64, i32)>),
    /// The broker's log is not the one that was read: there, the epoch of the record before the offset ends here.
    Diverging(EpochEnd),
    /// No later record can be read until a seek.
    Stuck(Error),
    /// An error code, or no response.
    Failed(Refused),
}

/// Why a partition was not read.
#[derive(Debug)]
pub(super) struct Refused {
    /// `NONE` if the broker returned no code.
    pub(super) code: ErrorCode,
    pub(super) error: Error,
    /// The leader and its epoch, if the broker knows a newer one (KIP-951).
    pub(super) leader: Option<(i32, i32)>,
}

impl Refused {
    /// Names the broker.
    pub(super) fn by(self, broker: Option<String>) -> Refused {
        let error = match broker {
            Some(address) => self.error.at(address),
            None => self.error,
        };
        Refused { error, ..self }
    }
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

/// The content of `answer` for each of the `spans`, in their order, as a part of the session that
/// it came in.
pub(super) fn read(
    spans: Vec<Span>,
    answer: FetchResponse,
    read_committed: bool,
    session: &mut Session,
) -> impl Iterator<Item = (Span, Bounds, Verdict)> {
    let code = ErrorCode(answer.error_code);
    let is_empty = answer.responses.is_empty();
    let (mut rows, has_foreign) = rows_of(&spans, answer.responses);
    let left_out = session.hear(Shape {
        code,
        session_id: answer.session_id,
        is_throttled: answer.throttle_time_ms > 0,
        is_empty,
        is_whole: rows.iter().all(Option::is_some),
        has_foreign,
    });
    if left_out == LeftOut::All {
        rows.fill(None);
    }
    spans.into_iter().zip(rows).map(move |(span, row)| {
        let name = (&span.topic, span.topic_id, span.partition);
        let mut bounds = Bounds::of(row.as_ref(), read_committed);
        let verdict = match row {
            Some(row) if row.error_code == 0 => {
                session.note(name, (bounds.begin, bounds.end));
                read_records(&span, row)
            }
            None if left_out == LeftOut::Unchanged => {
                (bounds.begin, bounds.end) = session.bounds(name);
                Verdict::Nothing
            }
            None if left_out != LeftOut::Missing => Verdict::Unsaid,
            row => Verdict::Failed(refused(&span, code, row.as_ref())),
        };
        (span, bounds, verdict)
    })
}

/// The row of a response for each span, in the order of the spans, and whether it has rows of other
/// partitions. If it has two rows for one partition, the first counts.
fn rows_of(
    spans: &[Span],
    answers: Vec<FetchableTopicResponse>,
) -> (Vec<Option<PartitionData>>, bool) {
    let mut rows = Vec::new();
    rows.resize_with(spans.len(), || None);
    let mut has_foreign = false;
    // A broker responds in the order of the request. For a broker that does not, all places are
    // noted.
    let mut next = 0;
    let mut places = None;
    for topic in answers {
        let (id, name) = (topic.topic_id, &*topic.topic);
        for row in topic.partitions {
            let called = called(id, name, row.partition_index);
            let in_order = spans
                .get(next)
                .is_some_and(|span| names(span).contains(&called));
            let place = if in_order {
                Some(next)
            } else {
                let places = places.get_or_insert_with(|| places_of(spans));
                places.get(&called).copied()
            };
            let Some(place) = place else {
                has_foreign = true;
                continue;
            };
            next = place + 1;
            if let Some(free @ None) = rows.get_mut(place) {
                *free = Some(row);
            }
        }
    }
    (rows, has_foreign)
}

/// The identity of a partition in a response: by its topic's id, or without one by its name.
type Called<'a> = (Uuid, &'a str, i32);

fn called(id: Uuid, name: &str, partition: i32) -> Called<'_> {
    let name = if id == Uuid::ZERO { name } else { "" };
    (id, name, partition)
}

/// The identities that a response may use for a span.
fn names(span: &Span) -> [Called<'_>; 2] {
    [Uuid::ZERO, span.topic_id].map(|id| called(id, &span.topic, span.partition))
}

fn places_of(spans: &[Span]) -> FxHashMap<Called<'_>, usize> {
    let spans = spans.iter().enumerate();
    let names = spans.flat_map(|(place, span)| names(span).map(|name| (name, place)));
    names.collect()
}

fn refused(span: &Span, whole: ErrorCode, row: Option<&PartitionData>) -> Refused {
    let code = row.map_or(whole, |row| ErrorCode(row.error_code));
    let error = if code.is_error() {
        Error::from_code(code, None)
    } else {
        Error::new(Kind::Protocol, "the response does not contain a partition")
    };
    let error = error
        .calling("Fetch")
        .with_partition(&span.topic, span.partition);
    let leader = row.map(|row| &row.current_leader);
    Refused {
        code,
        error,
        leader: leader
            .filter(|leader| leader.leader_id >= 0)
            .map(|leader| (leader.leader_id, leader.leader_epoch)),
    }
}

/// Cuts off the whole batches. Records before a broken batch are given out first; the next fetch meets the broken batch
/// again.
fn read_records(span: &Span, row: PartitionData) -> Verdict {
    let end = EpochEnd {
        epoch: row.diverging_epoch.epoch,
        offset: row.diverging_epoch.end_offset,
    };
    if span.last_epoch >= 0 && (end.epoch >= 0 || end.offset >= 0) {
        return Verdict::Diverging(end);
    }
    let Some(records) = row.records.filter(|records| !records.is_empty()) else {
        return match row.preferred_read_replica {
            node @ 0.. => Verdict::Nearer(node),
            _ => Verdict::Nothing,
        };
    };
    let (mut whole, mut next_offset, mut leader_epoch) = (0, span.offset, -1);
    let mut epochs: Vec<(i64, i32)> = Vec::new();
    for entry in records::entries(records.clone()) {
        match entry {
            Ok(entry) => {
                whole += entry.size();
                leader_epoch = entry.leader_epoch();
                if epochs.last().is_none_or(|(_, last)| *last != leader_epoch) {
                    epochs.push((next_offset.max(entry.base_offset()), leader_epoch));
                }
                next_offset = next_offset.max(entry.next_offset());
            }
            Err(_) if whole > 0 => break,
            Err(cause) => return corrupt(span, &records, &cause.to_string()),
        }
    }
    if whole == 0 {
        let text = "the broker sent only the beginning of a batch: raise max.partition.fetch.bytes";
        return Verdict::Stuck(stuck(span, Kind::TooLarge, text));
    }
    if next_offset <= span.offset {
        let text = format!("the batches of the response end at {next_offset} already");
        return corrupt(span, &records, &text);
    }
    let aborted = row.aborted_transactions.unwrap_or_default();
    let fetched = Fetched {
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
    };
    Verdict::Records(fetched, epochs)
}

/// Bytes that are not a batch. The error stays in memory until a seek, so only their beginning is
/// kept.
fn corrupt(span: &Span, records: &Bytes, text: &str) -> Verdict {
    let damage = Damage {
        offset: span.offset,
        next_offset: None,
        data: Bytes::copy_from_slice(records.get(..KEPT).unwrap_or(records)),
    };
    Verdict::Stuck(stuck(span, Kind::Corrupt, text).with_damage(damage))
}

fn stuck(span: &Span, kind: Kind, text: &str) -> Error {
    let text = format!("at offset {}: {text}; seek past it to read on", span.offset);
    Error::new(kind, text).with_partition(&span.topic, span.partition)
}

/// Whether the same request may succeed later, or over another connection.
pub(super) fn heals(error: &Error) -> bool {
    // A call that ends for good has an error that is not retriable, whatever the code is.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::assignment::Key;
    use crate::fetch::position::{Generation, Leader};

    fn span(id: u8, topic: &str, partition: i32) -> Span {
        Span {
            key: Key::default(),
            topic: topic.into(),
            topic_id: Uuid([id; 16]),
            partition,
            generation: Generation::default(),
            offset: 0,
            end: -1,
            leader: Leader { node: 1, epoch: -1 },
            last_epoch: -1,
            tells_rack: false,
        }
    }

    fn of(id: u8, topic: &str, partitions: &[(i32, i64)]) -> FetchableTopicResponse {
        let partitions = partitions.iter().map(|(number, mark)| PartitionData {
            partition_index: *number,
            high_watermark: *mark,
            ..Default::default()
        });
        FetchableTopicResponse {
            topic: topic.into(),
            topic_id: Uuid([id; 16]),
            partitions: partitions.collect(),
            ..Default::default()
        }
    }

    fn marks(spans: &[Span], answers: Vec<FetchableTopicResponse>) -> Vec<Option<i64>> {
        let rows = rows_of(spans, answers).0.into_iter();
        rows.map(|row| row.map(|row| row.high_watermark)).collect()
    }

    /// Rule: 2.4.11.
    #[test]
    fn rows_are_found_in_any_order_and_the_first_of_two_counts() {
        let with_ids = [span(1, "a", 0), span(1, "a", 1), span(2, "b", 0)];
        let in_order = vec![of(1, "", &[(0, 10), (1, 11)]), of(2, "", &[(0, 20)])];
        let wanted = [Some(10), Some(11), Some(20)];
        assert_eq!(marks(&with_ids, in_order.clone()), wanted);
        let turned = vec![of(2, "", &[(0, 20)]), of(1, "", &[(1, 11), (0, 10)])];
        assert_eq!(marks(&with_ids, turned.clone()), wanted);
        assert_eq!(marks(&with_ids, [turned, in_order].concat()), wanted);
        let twice = vec![of(1, "", &[(0, 10), (0, 99), (1, 11), (1, 99)])];
        assert_eq!(marks(&with_ids, twice), [Some(10), Some(11), None]);

        let with_names = [span(0, "a", 0), span(0, "b", 0)];
        let turned = vec![of(0, "b", &[(0, 20)]), of(0, "a", &[(0, 10)])];
        assert_eq!(marks(&with_names, turned), [Some(10), Some(20)]);
    }

    /// Rule: 2.4.11.
    #[test]
    fn rows_of_what_was_not_asked_for_are_passed_over() {
        let spans = [span(1, "a", 0), span(2, "b", 0)];
        let foreign = vec![
            of(3, "", &[(0, 99)]),
            of(3, "a", &[(0, 99)]),
            of(1, "", &[(7, 99), (-1, 99)]),
            of(2, "", &[(0, 20)]),
            of(0, "c", &[(0, 99)]),
        ];
        assert_eq!(marks(&spans, foreign), [None, Some(20)]);
    }
}
