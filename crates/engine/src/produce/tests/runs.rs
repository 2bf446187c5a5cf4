//! Rows that are appended together go where they would go one by one.

use super::partitions::spread;
use super::*;
use crate::producer::{NoHeaders, Rows};
use crate::random::Random;

type Plain = Row<'static, NoHeaders<'static>>;

/// What became of a row: the batch with its partition and the index there, or the kind of the error.
type Fate = Result<(i32, i32, u32), Kind>;

static BYTES: [u8; 2_000] = [b'v'; 2_000];

/// Rows in stretches of the same kind: without anything, with a key, with a partition, and some that are too large.
fn rows(random: &mut Random, count: usize) -> Vec<Plain> {
    let mut rows = Vec::new();
    while rows.len() < count {
        let kind = random.below(8);
        let partition = random.below(5);
        for _ in 0..=random.below(40) {
            let size = if random.below(50) == 0 {
                2_000
            } else {
                random.below(200)
            };
            let key = BYTES.get(..random.below(9)).filter(|_| kind == 0);
            let mut row = Row::new(key, BYTES.get(..size));
            // One of them is not there.
            row.partition = (kind == 1).then(|| i32::try_from(partition).unwrap());
            row.timestamp_ms = (random.below(3) == 0).then_some(7);
            rows.push(row);
        }
    }
    rows
}

/// Appends rows until the buffer is full, at most `most` together.
fn append(
    script: &mut Sender,
    rows: &mut Rows<impl Fn(usize) -> Option<Plain>>,
    most: u32,
    opened: &mut i32,
    fates: &mut Vec<Fate>,
) {
    let now = script.now;
    loop {
        let make = |_: &Arc<str>, partition| {
            *opened += 1;
            *opened * 10 + partition
        };
        match script.engine.append_run(now, "t", rows, 1, most, make) {
            Ok(None) | Err(NotAppended::Full) => return,
            Ok(Some(run)) => {
                assert!((1..=most).contains(&run.count));
                let (number, partition) = (run.batch / 10, run.batch % 10);
                let indexes = run.index..run.index + run.count;
                fates.extend(indexes.map(|index| Ok((number, partition, index))));
            }
            Err(NotAppended::UnknownPartition(error) | NotAppended::Failed(error)) => {
                fates.push(Err(error.kind()));
                rows.pass();
            }
            Err(NotAppended::UnknownTopic) => panic!("the topic is known"),
        }
    }
}

/// The delivery results of the rows, and the values of each request.
fn sent(
    options: &[(&'static str, &'static str)],
    rows: &[Plain],
    most: u32,
) -> (Vec<Fate>, Vec<Vec<String>>) {
    let mut script = spread(&[1, 2, 1, 2], options);
    let mut rows = Rows::new(rows.len(), |at| rows.get(at).cloned());
    let (mut opened, mut fates, mut requests) = (0, Vec::new(), Vec::new());
    while rows.peek().is_some() {
        append(&mut script, &mut rows, most, &mut opened, &mut fates);
        let asked = script.pass(Duration::from_millis(10));
        requests.extend(values(&asked));
        for asked in asked {
            reply(&mut script, &asked, ErrorCode::NONE, 0);
        }
    }
    (fates, requests)
}

#[test]
fn rows_sent_together_go_where_they_go_one_by_one() {
    let random = &mut Random::new(11);
    for options in [
        &[][..],
        &[("batch.size", "1000")],
        &[("batch.size", "1000"), ("partitioner", "round_robin")],
        &[("batch.size", "500"), ("partitioner", "consistent")],
        &[("batch.size", "700"), ("partitioner.ignore.keys", "true")],
        &[("buffer.memory", "9000"), ("batch.size", "1500")],
        &[("max.request.size", "1500"), ("batch.size", "4000")],
    ] {
        let rows = rows(random, 2_000);
        let alone = sent(options, &rows, 1);
        let together = sent(options, &rows, 256);
        assert_eq!(alone.0.len(), rows.len(), "{options:?}");
        assert_eq!(alone, together, "{options:?}");
        let failed = alone.0.iter().filter(|fate| fate.is_err()).count();
        assert!((1..rows.len() / 2).contains(&failed), "{options:?}");
    }
}

#[test]
fn a_run_ends_with_its_batch_and_leaves_the_next_row() {
    let mut script = spread(&[1], &[("batch.size", "1000"), ("linger.ms", "1000")]);
    let row = |at| (at < 20).then(|| Row::new(None, BYTES.get(..100)));
    let mut rows = Rows::new(20, row);
    let make = |_: &Arc<str>, partition| partition;
    let now = script.now;
    let mut counts = Vec::new();
    while let Ok(Some(run)) = script.engine.append_run(now, "t", &mut rows, 1, 256, make) {
        counts.push((run.index, run.count));
    }
    // As many as fit: 108 bytes each, and 61 of the batch's header.
    assert_eq!(counts, [(0, 8), (0, 8), (0, 4)]);
}
