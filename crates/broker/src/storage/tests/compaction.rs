//! What compaction leaves of a log, in memory and in files.

use std::collections::BTreeMap;

use ottla_protocol::records::{Batch, TimestampType as Stamped, set_log_append_time};

use super::super::compaction::{Full, Work};
use super::*;

/// A record: its key, and its value or a tombstone.
type Pair<'a> = (&'a str, Option<&'a str>);

/// A record that was read: offset, timestamp, key and value.
type Read = (i64, i64, Vec<u8>, Option<Vec<u8>>);

fn compacted(segment_bytes: u64) -> LogConfig {
    LogConfig {
        compaction: Some(COMPACTION),
        deletes: false,
        ..config(segment_bytes)
    }
}

fn keyed(pairs: &[Pair<'_>], codec: Compression, state: ProducerState) -> Checked {
    let bytes = built(pairs, codec, state);
    batch::check(bytes, &compacted(0), true, 0).unwrap()
}

fn built(pairs: &[Pair<'_>], codec: Compression, state: ProducerState) -> Bytes {
    let mut builder = BatchBuilder::new(codec, None);
    for (timestamp, (key, value)) in (100..).zip(pairs) {
        let (key, value) = (key.as_bytes(), value.map(str::as_bytes));
        let headers = [("h", Some(&b"v"[..]))].into_iter();
        builder
            .append(timestamp, Some(key), value, headers)
            .unwrap();
    }
    builder.finish(state).unwrap()
}

/// A batch in a segment of its own.
fn append(log: &mut Log, pairs: &[Pair<'_>]) {
    log.append(&keyed(pairs, Compression::None, ProducerState::NONE), 0)
        .unwrap();
}

/// Compacts all that may be; returns whether there was anything.
fn clean(log: &mut Log, now: i64) -> bool {
    let end = log.bounds().end;
    match log.compaction(end, now) {
        Some(work) => {
            let cleaned = work.clean().unwrap();
            log.install(cleaned).unwrap();
            true
        }
        None => false,
    }
}

fn batches(log: &mut Log) -> Vec<Batch> {
    let mut found = Vec::new();
    let mut offset = log.bounds().start;
    while let Some(span) = log.read(offset, 700, true, None).unwrap().unwrap().span {
        for batch in records::batches(span.load().unwrap()) {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            offset = batch.header.next_offset();
            found.push(batch);
        }
    }
    found
}

fn all(log: &mut Log) -> Vec<Read> {
    let mut found = Vec::new();
    for batch in batches(log) {
        let payload = batch.payload(1 << 20).unwrap();
        for record in batch.records(&payload).unwrap() {
            let record = record.unwrap();
            assert_eq!(
                record.headers().collect::<Vec<_>>(),
                [("h", Some(&b"v"[..]))]
            );
            found.push((
                record.offset,
                record.timestamp,
                record.key.unwrap().to_vec(),
                record.value.map(<[u8]>::to_vec),
            ));
        }
    }
    found
}

fn offsets_left(log: &mut Log) -> Vec<i64> {
    all(log).into_iter().map(|record| record.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    /// However often a log is cleaned, and wherever it is: the last record of each key is there with its offset and time, in
    /// batches of the ranges that they had, and of what is not in the last segment nothing else.
    #[test]
    fn the_last_record_of_each_key_stays(
        written in prop::collection::vec((prop::collection::vec((0..12_u8, 0..4_u8), 1..8), 0..5_usize, any::<bool>()), 1..40),
    ) {
        let dir = TempDir::new("compaction");
        let config = compacted(400);
        let mut logs = [Log::in_memory(config), open(&dir.0, config)];
        let mut last: BTreeMap<Vec<u8>, Read> = BTreeMap::new();
        let mut ranges = BTreeMap::new();
        for (pairs, codec, cleans) in &written {
            let texts: Vec<(String, Option<String>)> = pairs
                .iter()
                .map(|(key, value)| (format!("key {key}"), (*value > 0).then(|| format!("value {value}"))))
                .collect();
            let pairs: Vec<Pair<'_>> = texts.iter().map(|(key, value)| (&**key, value.as_deref())).collect();
            let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
            let batch = keyed(&pairs, codecs[*codec], ProducerState::NONE);
            let mut base = 0;
            for log in &mut logs {
                base = log.append(&batch, 0).unwrap().base_offset;
                if *cleans {
                    clean(log, 0);
                }
            }
            ranges.insert(base, base + pairs.len() as i64 - 1);
            for (index, (key, value)) in (0..).zip(&pairs) {
                let key = key.as_bytes().to_vec();
                let value = value.map(|value| value.as_bytes().to_vec());
                last.insert(key.clone(), (base + index, 100 + index, key, value));
            }
        }
        for log in &mut logs {
            clean(log, 0);
        }
        let [memory, disk] = &mut logs;
        let left = all(memory);
        prop_assert_eq!(&left, &all(disk));
        let mut expected: Vec<Read> = last.into_values().collect();
        expected.sort();
        let ends: Vec<i64> = memory.extents().iter().map(|it| it.end).collect();
        let active = ends.iter().rev().nth(1).copied().unwrap_or(0);
        let is_full = |record: &&Read| record.0 < active;
        let in_full: Vec<&Read> = left.iter().filter(is_full).collect();
        // What is replaced in the last segment is not compacted yet.
        for record in &expected {
            prop_assert!(left.contains(record), "{:?} has gone", record);
        }
        for batch in batches(memory) {
            prop_assert_eq!(ranges[&batch.header.base_offset], batch.header.last_offset());
        }
        let mut seen = BTreeMap::new();
        for record in in_full {
            prop_assert!(seen.insert(&record.2, record.0).is_none(), "{:?} is there twice", record.2);
        }
        drop(logs);
        prop_assert_eq!(&left, &all(&mut open(&dir.0, config)));
    }
}

#[test]
fn segments_are_joined_and_the_start_stays() {
    let dir = TempDir::new("compaction-join");
    let config = LogConfig {
        index_interval_bytes: 0,
        ..compacted(400)
    };
    let mut log = open(&dir.0, config);
    for _ in 0..40 {
        append(&mut log, &[("a", Some("v")), ("b", Some("v"))]);
    }
    append(&mut log, &[("c", None)]);
    let before = segments(&dir.0).len();
    assert!(before > 8, "{before}");
    assert!(clean(&mut log, 0));
    assert_eq!(log.bounds().start, 0);
    while log.segments() > 4 {
        append(&mut log, &[("a", Some("v")), ("b", Some("v"))]);
        append(&mut log, &[("d", Some(&"v".repeat(300)))]);
        assert!(clean(&mut log, 0));
    }
    let files = segments(&dir.0);
    assert_eq!(files.len(), log.segments());
    assert_eq!(files[0], "00000000000000000000.log");
    let left = offsets_left(&mut log);
    assert_eq!(left, offsets_left(&mut open(&dir.0, config)));
    let first = dir.0.join("00000000000000000000.log");
    assert!(first.with_extension("index").exists() && first.with_extension("timeindex").exists());
    assert_eq!(
        fs::read_dir(&dir.0).unwrap().count(),
        3 * files.len() - 2,
        "nothing else"
    );
}

#[test]
fn a_tombstone_gets_its_time_and_goes_after_it() {
    let mut log = Log::in_memory(compacted(1));
    append(&mut log, &[("a", Some("v"))]);
    append(&mut log, &[("a", None), ("b", Some("v"))]);
    append(&mut log, &[("z", Some("v"))]);
    assert!(clean(&mut log, 5000));
    assert_eq!(offsets_left(&mut log), [1, 2, 3]);
    let header = batches(&mut log)[0].header;
    assert!(header.has_delete_horizon());
    assert_eq!((header.base_timestamp, header.max_timestamp), (6000, 101));
    // Nothing is new: what is there was cleaned already.
    assert!(!clean(&mut log, 9000));
    append(&mut log, &[("z", Some("v"))]);
    assert!(clean(&mut log, 5999));
    assert_eq!(offsets_left(&mut log), [1, 2, 3, 4]);
    append(&mut log, &[("z", Some("v"))]);
    assert!(clean(&mut log, 6000));
    assert_eq!(offsets_left(&mut log), [2, 4, 5]);
    let header = batches(&mut log)[0].header;
    assert_eq!(
        (header.base_offset, header.last_offset(), header.count),
        (1, 2, 1)
    );
    assert_eq!(header.base_timestamp, 6000, "it stays, as in Kafka");
}

#[test]
fn the_last_batch_of_a_producer_stays_even_when_it_is_empty() {
    let dir = TempDir::new("compaction-producer");
    let state = |producer_id, base_sequence| ProducerState {
        producer_id,
        epoch: 3,
        base_sequence,
    };
    let mut log = open(&dir.0, compacted(1));
    for (producer, sequence) in [(7, 0), (7, 2), (8, 0)] {
        let pairs = [("a", Some("v")), ("b", Some("v"))];
        let batch = keyed(&pairs, Compression::Gzip, state(producer, sequence));
        log.append(&batch, 0).unwrap();
    }
    append(&mut log, &[("a", Some("w")), ("b", Some("w"))]);
    append(&mut log, &[("z", Some("v"))]);
    assert!(clean(&mut log, 0));
    let kept = |log: &mut Log| -> Vec<_> {
        let headers = batches(log).into_iter().map(|batch| batch.header);
        headers
            .map(|it| {
                (
                    it.producer_id,
                    it.base_sequence,
                    it.base_offset,
                    it.last_offset(),
                    it.count,
                )
            })
            .collect()
    };
    let expected = [
        (7, 2, 2, 3, 0),
        (8, 0, 4, 5, 0),
        (-1, -1, 6, 7, 2),
        (-1, -1, 8, 8, 1),
    ];
    assert_eq!(kept(&mut log), expected);
    append(&mut log, &[("z", Some("v"))]);
    assert!(clean(&mut log, 0));
    assert_eq!(kept(&mut log)[..3], expected[..3]);
    drop(log);
    let mut log = open(&dir.0, compacted(1));
    let again = keyed(&[("a", None), ("b", None)], Compression::None, state(7, 2));
    assert_eq!(log.append(&again, 0).unwrap().base_offset, 2, "it is known");
    let next = keyed(&[("a", None)], Compression::None, state(7, 4));
    assert_eq!(log.append(&next, 0).unwrap().base_offset, 10);
    let skips = keyed(&[("a", None)], Compression::None, state(8, 9));
    assert!(log.append(&skips, 0).is_err());
}

/// A batch of one record of producer 7's transaction.
fn append_in_transaction(log: &mut Log, sequence: i32, pair: Pair<'_>) {
    let (key, value) = (pair.0.as_bytes(), pair.1.map(str::as_bytes));
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder.set_transactional(true);
    builder
        .append(100, Some(key), value, std::iter::empty())
        .unwrap();
    let state = ProducerState {
        producer_id: 7,
        epoch: 0,
        base_sequence: sequence,
    };
    let batch = batch::check(builder.finish(state).unwrap(), &compacted(0), true, 0).unwrap();
    let question = log.question((7, 0));
    log.append(&batch.verified(question), 0).unwrap();
}

/// Offset, number of records, and whether it is a marker, of each batch.
fn shape(log: &mut Log) -> Vec<(i64, i32, bool)> {
    let headers = batches(log).into_iter().map(|batch| batch.header);
    headers
        .map(|it| (it.base_offset, it.count, it.is_control()))
        .collect()
}

fn clean_stable(log: &mut Log) -> bool {
    let end = log.bounds().end;
    let work = log.compaction(log.last_stable(end), 0);
    work.map(|work| log.install(work.clean().unwrap()).unwrap())
        .is_some()
}

#[test]
fn records_of_aborted_transactions_replace_nothing_and_go_and_markers_stay() {
    let dir = TempDir::new("compaction-transactions");
    for on_disk in [false, true] {
        let config = compacted(1);
        let mut log = if on_disk {
            open(&dir.0, config)
        } else {
            Log::in_memory(config)
        };
        append(&mut log, &[("a", Some("replaced"))]);
        append(&mut log, &[("b", Some("stays"))]);
        append_in_transaction(&mut log, 0, ("a", Some("committed")));
        log.append(&marker(true), 0).unwrap();
        append_in_transaction(&mut log, 1, ("b", Some("aborted")));
        log.append(&marker(false), 0).unwrap();
        append_in_transaction(&mut log, 2, ("b", Some("open")));
        append(&mut log, &[("a", Some("after it"))]);
        append(&mut log, &[("z", Some("v"))]);
        assert!(clean_stable(&mut log));
        let mut expected = vec![
            (1, 1, false),
            (2, 1, false),
            (3, 1, true),
            (5, 1, true),
            (6, 1, false),
            (7, 1, false),
            (8, 1, false),
        ];
        assert_eq!(shape(&mut log), expected);
        assert!(!clean_stable(&mut log), "it begins where one is open");
        if on_disk {
            log.flush().unwrap();
            drop(log);
            log = open(&dir.0, config);
        }
        assert_eq!(log.last_stable(9), 6);
        assert_eq!(log.aborted(0, 9).count(), 0, "nothing is left of it");
        log.append(&marker(false), 0).unwrap();
        assert_eq!((log.last_stable(10), log.aborted(0, 10).count()), (10, 1));
        append(&mut log, &[("z", Some("v"))]);
        assert!(clean_stable(&mut log));
        // The open one was the last of its producer, whose sequence stays.
        expected.remove(1);
        expected[3] = (6, 0, false);
        expected.extend([(9, 1, true), (10, 1, false)]);
        assert_eq!(shape(&mut log), expected);
        append_in_transaction(&mut log, 3, ("b", Some("next")));
    }
}

#[test]
fn the_brokers_time_stays() {
    let mut log = Log::in_memory(compacted(1));
    for now in [500, 600, 700] {
        let pairs = [
            ("a", Some("v")),
            (if now == 500 { "b" } else { "a" }, Some("v")),
        ];
        let mut bytes = built(&pairs, Compression::None, ProducerState::NONE).to_vec();
        set_log_append_time(&mut bytes, now).unwrap();
        let checked = batch::check(bytes.into(), &compacted(0), true, now).unwrap();
        log.append(&checked, 0).unwrap();
    }
    assert!(clean(&mut log, 0));
    let times = all(&mut log).into_iter().map(|record| (record.0, record.1));
    assert_eq!(times.collect::<Vec<_>>()[..1], [(1, 500)]);
    assert_eq!(
        batches(&mut log)[0].header.timestamp_type(),
        Stamped::LogAppend
    );
}

#[test]
fn what_was_cut_meanwhile_is_not_put_back() {
    let dir = TempDir::new("compaction-race");
    for mut log in [Log::in_memory(compacted(1)), open(&dir.0, compacted(1))] {
        for _ in 0..4 {
            append(&mut log, &[("a", Some("v"))]);
        }
        let work: Work = log.compaction(4, 0).unwrap();
        log.delete_before(2).unwrap();
        let cleaned = work.clean().unwrap();
        log.install(cleaned).unwrap();
        assert_eq!(offsets_left(&mut log), [2, 3]);
    }
    let files = fs::read_dir(&dir.0).unwrap();
    let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.contains("cleaned")));
}

/// The offsets before a cut may be those of records that newer ones replaced: readers have seen them, and followers count on them.
#[test]
fn a_compacted_log_that_is_cut_ends_where_it_was_cut() {
    let dir = TempDir::new("compaction-cut");
    for mut log in [Log::in_memory(compacted(1)), open(&dir.0, compacted(1))] {
        for (key, epoch) in [("a", 0), ("b", 1), ("b", 2), ("c", 2), ("z", 2)] {
            let batch = keyed(&[(key, Some("v"))], Compression::None, ProducerState::NONE);
            log.append(&batch, epoch).unwrap();
        }
        assert!(clean(&mut log, 0));
        assert_eq!(offsets_left(&mut log), [0, 2, 3, 4]);
        log.truncate(2).unwrap();
        assert_eq!((log.bounds().start, log.bounds().end), (0, 2));
        assert_eq!(log.epochs().end_of(1, 2), Some((1, 2)), "its leader");
        assert_eq!(log.epochs().last(), Some(1));
        append(&mut log, &[("b", Some("w"))]);
        assert_eq!(offsets_left(&mut log), [0, 2]);
        log.truncate(2).unwrap();
        assert!(
            log.read(1, 100, true, None)
                .unwrap()
                .unwrap()
                .span
                .is_none()
        );
    }
    let mut log = open(&dir.0, compacted(1));
    assert_eq!((log.bounds().start, log.bounds().end), (0, 2));
    append(&mut log, &[("b", Some("w"))]);
    assert_eq!(offsets_left(&mut log), [0, 2]);
}

#[test]
fn a_log_that_is_cut_within_a_batch_ends_before_it() {
    let mut log = Log::in_memory(config(10_000));
    for keys in [["a", "b"], ["c", "d"]] {
        append(&mut log, &keys.map(|key| (key, Some("v"))));
    }
    log.truncate(3).unwrap();
    assert_eq!(log.bounds().end, 2);
}

#[test]
fn a_crash_leaves_the_old_segments_or_the_new_one() {
    let expected = |dir: &TempDir| {
        let mut log = open(&dir.0, compacted(1));
        let (ends, left) = (log.bounds().end, offsets_left(&mut log));
        (ends, left)
    };
    let made = |name: &str| {
        let dir = TempDir::new(name);
        let mut log = open(&dir.0, compacted(1));
        for key in ["a", "b", "a", "b", "z"] {
            append(&mut log, &[(key, Some("v"))]);
        }
        drop(log);
        dir
    };
    // What a cleaning writes for the first four segments, as one.
    let source = made("compaction-crash-source");
    let wide = LogConfig {
        segment_bytes: 1 << 20,
        ..compacted(1)
    };
    assert!(clean(&mut open(&source.0, wide), 0));
    assert_eq!(segments(&source.0).len(), 2);
    let new = fs::read(source.0.join("00000000000000000000.log")).unwrap();

    let dir = made("compaction-crash");
    fs::write(dir.0.join("00000000000000000000.log.cleaned"), &new[..50]).unwrap();
    assert_eq!(expected(&dir), (5, vec![0, 1, 2, 3, 4]));
    for gone in 0..4 {
        let dir = made(&format!("compaction-crash-{gone}"));
        fs::write(dir.0.join("00000000000000000000.log.swap"), &new).unwrap();
        for base in 1..gone {
            fs::remove_file(dir.0.join(format!("{base:020}.log"))).unwrap();
        }
        assert_eq!(expected(&dir), (5, vec![2, 3, 4]), "{gone}");
        assert_eq!(segments(&dir.0).len(), 2);
    }
}

#[test]
fn a_log_is_cleaned_when_it_is_worth_it() {
    // Three segments of ten records and 100 bytes; of the last, the newest record is from 900.
    let full = |(end, first, newest)| Full {
        end,
        bytes: 100,
        first,
        newest,
    };
    let three = [(10, 100, 300), (20, 200, 500), (30, 700, 900)].map(full);
    let half = Compaction {
        dirty_ratio: 0.5,
        ..COMPACTION
    };
    assert_eq!(half.until(&three, 0, 30, 1000), Some(30));
    assert_eq!(half.until(&three, 10, 30, 1000), Some(30));
    assert_eq!(half.until(&three, 20, 30, 1000), None, "a third is new");
    assert_eq!(
        half.until(&three, 10, 29, 1000),
        None,
        "as much as it says is not more"
    );
    assert_eq!(half.until(&three, 0, 9, 1000), None);
    assert_eq!(half.until(&[], 0, 30, 1000), None);
    let patient = Compaction {
        min_lag_ms: 200,
        ..half
    };
    assert_eq!(patient.until(&three, 0, 30, 1000), Some(20));
    assert_eq!(patient.until(&three, 0, 30, 1100), Some(30));
    assert_eq!(patient.until(&three, 10, 30, 600), None);
    let hurried = Compaction {
        max_lag_ms: 299,
        ..half
    };
    assert_eq!(hurried.until(&three, 20, 30, 999), None);
    assert_eq!(hurried.until(&three, 20, 30, 1000), Some(30));
}
