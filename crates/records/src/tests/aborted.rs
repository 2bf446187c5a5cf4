//! Aborted transactions among the batches of a response.

use super::*;

const NO_RECORDS: &[u8] = &[];

/// A batch of a transaction, with as many records as bytes in `types`: of an application, or markers of those types.
fn batch(
    producer_id: i64,
    offset: i64,
    edit: impl FnOnce(&mut BatchHeader),
    section: &[&[u8]],
) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for key in section {
        builder
            .append(TIME, Some(key), Some(b""), std::iter::empty())
            .unwrap();
    }
    let mut bytes = BytesMut::from(builder.finish(ProducerState::NONE).unwrap());
    bytes.resize(bytes.len().max(BatchHeader::SIZE), 0);
    let mut header =
        BatchHeader::parse(&bytes).unwrap_or(BatchHeader::parse(&two(Compression::None)).unwrap());
    header.count = section.len() as i32;
    header.producer_id = producer_id;
    header.set_transactional(true);
    edit(&mut header);
    header.seal(&mut bytes).unwrap();
    assign_offsets(&mut bytes, offset, 0).unwrap();
    Batch::parse(bytes.freeze()).unwrap()
}

fn data(producer_id: i64, offset: i64) -> Batch {
    batch(producer_id, offset, |_| (), &[b"key"])
}

fn marker(producer_id: i64, offset: i64, types: &[i16]) -> Batch {
    let keys: Vec<[u8; 4]> = types
        .iter()
        .map(|kind| (*kind as u16 as u32).to_be_bytes())
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    batch(
        producer_id,
        offset,
        |header| header.set_control(true),
        &keys,
    )
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// Which of the batches are hidden.
fn hidden(aborted: &[(i64, i64)], batches: &[Batch]) -> Vec<bool> {
    let transactions = aborted
        .iter()
        .map(|(producer_id, first_offset)| AbortedTransaction {
            producer_id: *producer_id,
            first_offset: *first_offset,
        });
    let mut aborted = AbortedTransactions::new(transactions);
    batches
        .iter()
        .map(|batch| aborted.hide(batch, LIMIT).unwrap())
        .collect()
}

#[test]
fn interleaved_producers_are_told_apart() {
    let batches = [
        data(1, 0),
        data(2, 1),
        data(3, 2),
        data(1, 3),
        marker(2, 4, &[ABORT]),
        data(2, 5),
        marker(1, 6, &[ABORT]),
        data(1, 7),
        data(3, 8),
        marker(1, 9, &[COMMIT]),
        data(1, 10),
    ];
    // 1 aborts from 0 and again from 10, commits between; 2 aborts once; 3 never. In any order.
    let seen = hidden(&[(1, 10), (2, 1), (1, 0)], &batches);
    let expected = [
        true, true, false, true, false, false, false, false, false, false, true,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_transaction_begins_with_its_first_offset_not_with_the_answer() {
    let early = batch(1, 0, |header| header.last_offset_delta = 4, &[b"a", b"b"]);
    assert_eq!(
        hidden(&[(1, 5)], &[early.clone(), data(1, 5)]),
        [false, true]
    );
    assert_eq!(
        hidden(&[(1, 4)], &[early]),
        [true],
        "the whole batch belongs to one transaction"
    );
    // The fetch began in the middle of it.
    assert_eq!(hidden(&[(1, 2)], &[data(1, 100)]), [true]);
}

#[test]
fn what_is_in_no_transaction_is_shown() {
    let plain = batch(1, 1, |header| header.set_transactional(false), &[b"key"]);
    assert_eq!(
        hidden(&[(1, 0)], &[data(1, 0), plain, data(1, 2)]),
        [true, false, true]
    );
}

/// Rule: 2.4.12.
#[test]
fn a_second_marker_changes_nothing() {
    let batches = [
        data(1, 0),
        marker(1, 1, &[ABORT]),
        marker(1, 2, &[ABORT]),
        data(1, 3),
        marker(1, 4, &[COMMIT]),
        marker(1, 5, &[ABORT]),
        data(1, 6),
    ];
    assert_eq!(
        hidden(&[(1, 0), (1, 6)], &batches),
        [true, false, false, false, false, false, true]
    );
}

/// Rule: 2.4.12.
#[test]
fn only_the_first_record_of_a_marker_counts() {
    let batches = [
        data(1, 0),
        marker(1, 1, &[COMMIT, ABORT]),
        data(1, 3),
        marker(1, 4, &[ABORT, COMMIT]),
        data(1, 6),
    ];
    assert_eq!(
        hidden(&[(1, 0)], &batches),
        [true, false, true, false, false]
    );
}

/// Rule: 2.4.12.
#[test]
fn unknown_markers_and_markers_without_records_end_nothing() {
    let emptied = batch(1, 3, |header| header.set_control(true), &[]);
    let keyless = batch(1, 4, |header| header.set_control(true), &[NO_RECORDS]);
    let batches = [
        data(1, 0),
        marker(1, 1, &[7]),
        marker(1, 2, &[-1]),
        emptied,
        keyless,
        data(1, 5),
    ];
    assert_eq!(
        hidden(&[(1, 0)], &batches),
        [true, false, false, false, false, true]
    );
}

#[test]
fn batches_that_compaction_emptied_belong_to_their_transaction() {
    let emptied = batch(1, 1, |header| header.last_offset_delta = 9, &[]);
    assert_eq!(emptied.header.count, 0);
    let batches = [emptied, data(1, 11), marker(1, 12, &[ABORT]), data(1, 13)];
    // The transaction began in what is empty now.
    assert_eq!(hidden(&[(1, 3)], &batches), [true, true, false, false]);
}

#[test]
fn a_damaged_marker_is_an_error() {
    let mut aborted = AbortedTransactions::default();
    let damaged = batch(
        1,
        1,
        |header| {
            header.set_control(true);
            header.count = 100;
            header.last_offset_delta = 100;
        },
        &[b"\0\0\0\0"],
    );
    assert!(matches!(
        aborted.hide(&damaged, LIMIT),
        Err(RecordsError::Count { base_offset: 1, .. })
    ));
}
