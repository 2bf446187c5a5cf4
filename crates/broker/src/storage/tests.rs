//! Logs over memory and over folders: the same reads, and what a restart finds.

mod compaction;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{self, BatchBuilder, ProducerState};
use proptest::prelude::*;

use super::batch::{self, Checked};
use super::folder::Folder;
use super::log::Log;
use super::producers::Marker;
use crate::config::{Compaction, EventSink, LogConfig, TOPIC_KEYS, TimestampType, Values};
use crate::ids::Ids;

/// A folder of the test's own, gone with it.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ottla-broker-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(segment_bytes: u64) -> LogConfig {
    LogConfig {
        segment_bytes,
        index_interval_bytes: 200,
        segment_ms: i64::MAX,
        deletes: true,
        retention_bytes: None,
        retention_ms: None,
        max_message_bytes: 1 << 20,
        compression: None,
        timestamp_type: TimestampType::CreateTime,
        timestamp_after_max_ms: i64::MAX,
        compaction: None,
        flush_messages: i64::MAX,
        least_in_sync: 1,
        unclean_elections: false,
    }
}

const COMPACTION: Compaction = Compaction {
    delete_retention_ms: 1000,
    min_lag_ms: 0,
    max_lag_ms: i64::MAX,
    dirty_ratio: 0.0,
};

fn checked(records: usize, size: usize, state: ProducerState) -> Checked {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for i in 0..records {
        builder
            .append(i as i64, None, Some(&vec![7; size]), std::iter::empty())
            .unwrap();
    }
    batch::check(builder.finish(state).unwrap(), &config(0), true, 0).unwrap()
}

#[test]
fn records_are_looked_at_before_they_are_taken() {
    let built = |compression, key| {
        let mut builder = BatchBuilder::new(compression, None);
        for i in 0..3 {
            builder
                .append(i, key, Some(b"value"), std::iter::empty())
                .unwrap();
        }
        builder.finish(ProducerState::NONE).unwrap()
    };
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for compression in codecs {
        let good = built(compression, None);
        assert!(batch::check(good, &config(0), true, 0).is_ok());
        let compacted = LogConfig {
            compaction: Some(COMPACTION),
            ..config(0)
        };
        let refused = batch::check(built(compression, None), &compacted, true, 0).unwrap_err();
        assert_eq!(refused.code, ErrorCode::INVALID_RECORD);
        assert!(refused.message.contains("has no key"), "{refused:?}");
        assert!(batch::check(built(compression, Some(b"k")), &compacted, true, 0).is_ok());

        // One record more, and one fewer, than are there; the checksum is right again.
        for (count, delta) in [(4, 3), (2, 1)] {
            let mut wrong = built(compression, None).to_vec();
            wrong[23..27].copy_from_slice(&i32::to_be_bytes(delta));
            wrong[57..61].copy_from_slice(&i32::to_be_bytes(count));
            records::set_producer_state(&mut wrong, ProducerState::NONE).unwrap();
            let refused = batch::check(wrong.into(), &config(0), true, 0).unwrap_err();
            assert_eq!(refused.code, ErrorCode::INVALID_RECORD, "{refused:?}");
        }
    }
    // A first offset means nothing, not even the last that there is.
    let mut last = built(Compression::None, None).to_vec();
    last[..8].copy_from_slice(&i64::MAX.to_be_bytes());
    assert!(batch::check(last.into(), &config(0), true, 0).is_ok());
    // The second record's offset, behind its length, attributes and time, is that of the third.
    let mut gap = built(Compression::None, None).to_vec();
    let second = 61 + 1 + usize::from(gap[61]) / 2;
    assert_eq!(gap[second + 3], 2, "1 as a zigzag varint");
    gap[second + 3] = 4;
    records::set_producer_state(&mut gap, ProducerState::NONE).unwrap();
    let refused = batch::check(gap.into(), &config(0), true, 0).unwrap_err();
    assert!(
        refused.message.contains("offset 2 in the batch, 1 is due"),
        "{refused:?}"
    );
}

fn plain(records: usize) -> Checked {
    checked(records, 20, ProducerState::NONE)
}

/// Everything in a log, read in steps; each batch must follow the one before.
fn offsets(log: &mut Log, step: usize) -> Vec<i64> {
    let mut found = Vec::new();
    let mut offset = log.bounds().start;
    while let Some(span) = log.read(offset, step, true, None).unwrap().unwrap().span {
        let bytes = span.load().unwrap();
        let mut batches = records::batches(bytes);
        for batch in &mut batches {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            assert!(batch.header.last_offset() >= offset);
            offset = batch.header.next_offset();
            found.push(batch.header.base_offset);
        }
        assert_eq!(batches.leftover(), 0, "a batch was cut");
    }
    found
}

fn segments(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> = names.filter(|name| name.ends_with(".log")).collect();
    logs.sort();
    logs
}

fn open(dir: &Path, config: LogConfig) -> Log {
    Log::open(dir, config, &EventSink::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// In memory or in files, with small segments or one, read in small steps or large: the same batches.
    #[test]
    fn all_logs_read_alike(sizes in prop::collection::vec((1..20_usize, 0..300_usize), 1..60), step in 1..20_000_usize) {
        let dir = TempDir::new("alike");
        let mut logs = [Log::in_memory(config(1 << 30)), Log::in_memory(config(3000)), open(&dir.0, config(3000))];
        let mut expected = Vec::new();
        let mut next = 0;
        for (count, size) in sizes {
            for log in &mut logs {
                let appended = log.append(&checked(count, size, ProducerState::NONE), 0).unwrap();
                prop_assert_eq!(appended.base_offset, next);
            }
            expected.push(next);
            next += count as i64;
        }
        for log in &mut logs {
            prop_assert_eq!(&offsets(log, step), &expected);
            prop_assert_eq!(log.bounds().end, next);
        }
        drop(logs);
        prop_assert_eq!(&offsets(&mut open(&dir.0, config(3000)), step), &expected);
    }
}

#[test]
fn a_torn_tail_is_cut_and_writing_goes_on_after_the_last_whole_batch() {
    let dir = TempDir::new("torn");
    let mut log = open(&dir.0, config(1000));
    for _ in 0..30 {
        log.append(&plain(3), 0).unwrap();
    }
    drop(log);
    let last = dir.0.join(segments(&dir.0).pop().unwrap());
    let whole = fs::metadata(&last).unwrap().len();
    let good = fs::read(&last).unwrap();
    let mut damaged = good.clone();
    damaged.truncate(good.len() - 2);
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let batch = whole - batch_length(&good);
    for (tail, expected) in [(&good, whole), (&damaged, batch), (&flipped, batch)] {
        for garbage in [&[][..], &[0; 10], &[0; 100], &[0xFF; 100], &good[..70]] {
            fs::write(&last, tail).unwrap();
            OpenOptions::new()
                .append(true)
                .open(&last)
                .unwrap()
                .write_all(garbage)
                .unwrap();
            let mut log = open(&dir.0, config(1000));
            assert_eq!(fs::metadata(&last).unwrap().len(), expected);
            let end = log.bounds().end;
            assert_eq!(end, if expected == whole { 90 } else { 87 });
            assert_eq!(offsets(&mut log, 500).len() as i64, end / 3);
        }
    }
    let mut log = open(&dir.0, config(1000));
    assert_eq!(log.append(&plain(1), 0).unwrap().base_offset, 87);
}

/// Bytes of the last batch of a segment of equal ones.
fn batch_length(segment: &[u8]) -> u64 {
    let batches = records::batches(Bytes::copy_from_slice(segment));
    batches.last().unwrap().unwrap().bytes.len() as u64
}

#[test]
fn damage_before_the_last_segment_is_an_error_that_says_where() {
    let dir = TempDir::new("damage");
    let mut log = open(&dir.0, config(1000));
    for _ in 0..30 {
        log.append(&plain(3), 0).unwrap();
    }
    drop(log);
    let first = dir.0.join(&segments(&dir.0)[0]);
    let mut bytes = fs::read(&first).unwrap();
    bytes.truncate(bytes.len() - 5);
    fs::write(&first, bytes).unwrap();
    let error = Log::open(&dir.0, config(1000), &EventSink::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("00000000000000000000.log") && error.contains("bytes needed"),
        "{error}"
    );
}

#[test]
fn producers_are_known_again_after_a_restart() {
    let dir = TempDir::new("producers");
    let state = |base_sequence| ProducerState {
        producer_id: 9,
        epoch: 1,
        base_sequence,
    };
    let mut log = open(&dir.0, config(300));
    for i in 0..10 {
        log.append(&checked(2, 10, state(2 * i)), 0).unwrap();
    }
    drop(log);
    let mut log = open(&dir.0, config(300));
    assert_eq!(log.highest_producer_id(), Some(9));
    assert_eq!(
        log.append(&checked(2, 10, state(18)), 0)
            .unwrap()
            .base_offset,
        18
    );
    assert_eq!(
        log.append(&checked(2, 10, state(30)), 0).unwrap_err().code,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
    );
    assert_eq!(
        log.append(&checked(2, 10, state(20)), 0)
            .unwrap()
            .base_offset,
        20
    );
}

#[test]
fn a_duplicate_gets_the_brokers_time_also_after_a_restart() {
    let dir = TempDir::new("append-time");
    let config = LogConfig {
        timestamp_type: TimestampType::LogAppendTime,
        ..config(1 << 20)
    };
    let batch = |now| {
        let mut builder = BatchBuilder::new(Compression::None, None);
        builder
            .append(1, Some(b"key"), None, std::iter::empty())
            .unwrap();
        let state = ProducerState {
            producer_id: 1,
            epoch: 0,
            base_sequence: 0,
        };
        batch::check(builder.finish(state).unwrap(), &config, true, now).unwrap()
    };
    let mut log = open(&dir.0, config);
    assert_eq!(log.append(&batch(500), 0).unwrap().append_time, 500);
    let mut follower = Log::in_memory(config);
    let span = log.read(0, 1, true, None).unwrap().unwrap().span.unwrap();
    follower.copy(span.load().unwrap()).unwrap();
    drop(log);
    for mut log in [open(&dir.0, config), follower] {
        assert_eq!(log.append(&batch(900), 0).unwrap().append_time, 500);
        log.expire_producers(499);
        assert_eq!(log.append(&batch(900), 0).unwrap().append_time, 500);
        log.expire_producers(500);
        assert_eq!(log.append(&batch(900), 0).unwrap().append_time, 900);
    }
}

#[test]
fn a_deleted_topic_does_not_come_back_whatever_is_left_of_it() {
    let dir = TempDir::new("folder-delete");
    let mut ids = Ids::new(3);
    let (gone, stays) = (ids.uuid(), ids.uuid());
    let long = "x".repeat(249);
    let (folder, _) = Folder::open(dir.0.clone(), 1, ids.uuid(), ids.uuid()).unwrap();
    for partition in 0..3 {
        folder.partition(&long, gone, partition).unwrap();
        folder.partition("stays", stays, partition).unwrap();
    }
    let names = |folder: &Folder| -> Vec<String> { folder.topics().unwrap().into_keys().collect() };
    assert_eq!(names(&folder), ["stays", &long]);
    // What a crash in the middle of a deletion leaves: its id, one folder gone, one with its new name, one as it was.
    fs::write(dir.0.join("deleted-topics"), format!("{gone}\n")).unwrap();
    fs::remove_dir_all(dir.0.join(format!("{long}-0"))).unwrap();
    let halfway = dir.0.join("xxx-1.0123-delete");
    fs::rename(dir.0.join(format!("{long}-1")), &halfway).unwrap();
    fs::remove_file(halfway.join("partition.metadata")).unwrap();
    assert_eq!(names(&folder), ["stays"]);
    let left = fs::read_dir(&dir.0).unwrap();
    let left: Vec<String> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!left.iter().any(|name| name.contains('x')), "{left:?}");
    assert!(!left.contains(&"deleted-topics".to_owned()), "{left:?}");

    for partition in 0..3 {
        folder.partition(&long, gone, partition).unwrap();
    }
    assert!(folder.delete_topic(&long, gone, 3).unwrap().is_none());
    assert_eq!(names(&folder), ["stays"]);
}

/// Windows renames no folder that has open files. Here another folder has the name.
#[test]
fn a_folder_that_cannot_be_renamed_is_removed_with_its_topic() {
    let dir = TempDir::new("folder-rename");
    let mut ids = Ids::new(4);
    let id = ids.uuid();
    let (folder, _) = Folder::open(dir.0.clone(), 1, ids.uuid(), ids.uuid()).unwrap();
    let partition = folder.partition("t", id, 0).unwrap();
    let mut log = open(&partition, config(1000));
    log.append(&plain(3), 0).unwrap();
    let unique: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let taken = dir.0.join(format!("t-0.{unique}-delete"));
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("left"), "of an earlier topic").unwrap();

    assert!(folder.delete_topic("t", id, 1).unwrap().is_none());
    assert!(!partition.exists());
    assert!(folder.topics().unwrap().is_empty());
    assert!(!taken.exists());
}

#[test]
fn old_segments_go_when_the_log_is_large_enough_without_them() {
    let dir = TempDir::new("retention");
    let limited = LogConfig {
        retention_bytes: Some(3000),
        ..config(1000)
    };
    let mut on_disk = open(&dir.0, limited);
    let mut in_memory = Log::in_memory(limited);
    for _ in 0..100 {
        for log in [&mut on_disk, &mut in_memory] {
            let end = log.append(&plain(3), 0).unwrap().next_offset;
            log.retain(end, 0).unwrap();
        }
    }
    assert_eq!(on_disk.bounds(), in_memory.bounds());
    let start = on_disk.bounds().start;
    assert!(start > 200, "{start}");
    assert_eq!(segments(&dir.0)[0], format!("{start:020}.log"));
    assert!(on_disk.read(start - 1, 1, true, None).unwrap().is_none());
    assert_eq!(offsets(&mut on_disk, 100), offsets(&mut in_memory, 100));
    let reopened = open(&dir.0, limited);
    assert_eq!(reopened.bounds(), on_disk.bounds());
}

/// A batch of one record with this timestamp, which comes at `now`.
fn timed(timestamp: i64, now: i64) -> Checked {
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder
        .append(timestamp, Some(b"key"), None, std::iter::empty())
        .unwrap();
    let bytes = builder.finish(ProducerState::NONE).unwrap();
    batch::check(bytes, &config(0), true, now).unwrap()
}

#[test]
fn a_segment_takes_batches_for_so_long_by_their_time_or_the_brokers() {
    let config = LogConfig {
        segment_ms: 100,
        ..config(1 << 20)
    };
    for (times, segments) in [
        ([(1000, 0), (1100, 9999), (900, 0), (1000, 0)], 1),
        ([(1000, 0), (1101, 0), (1100, 0), (1202, 0)], 3),
        ([(-1, 500), (-1, 600), (-1, 601), (9000, 650)], 2),
    ] {
        let mut log = Log::in_memory(config);
        for (timestamp, now) in times {
            log.append(&timed(timestamp, now), 0).unwrap();
        }
        assert_eq!(log.segments(), segments, "{times:?}");
    }
}

#[test]
fn old_segments_go_by_their_time_also_after_a_restart() {
    let dir = TempDir::new("retention-time");
    let config = LogConfig {
        segment_ms: 10,
        retention_ms: Some(1000),
        ..config(1 << 20)
    };
    let mut logs = [Log::in_memory(config), open(&dir.0, config)];
    for log in &mut logs {
        for timestamp in [100, 200, 300] {
            log.append(&timed(timestamp, 0), 0).unwrap();
        }
        assert!(!log.retain(3, 1100).unwrap());
        assert!(log.retain(3, 1101).unwrap());
        assert_eq!(log.bounds().start, 1);
    }
    drop(logs);
    let mut log = open(&dir.0, config);
    assert_eq!((log.bounds().start, log.bounds().end), (1, 3));
    assert!(
        log.retain(3, 1301).unwrap(),
        "the one that is written to goes as well"
    );
    drop(log);
    let mut log = open(&dir.0, config);
    assert_eq!((log.bounds().start, log.bounds().end), (3, 3));
    assert_eq!(log.append(&timed(2000, 0), 0).unwrap().base_offset, 3);
}

#[test]
fn a_full_segment_has_its_index_files() {
    let dir = TempDir::new("index-files");
    let mut log = open(&dir.0, config(1000));
    for _ in 0..20 {
        log.append(&plain(3), 0).unwrap();
    }
    let first = dir.0.join("00000000000000000000.log");
    assert!(!fs::read(first.with_extension("index")).unwrap().is_empty());
    assert!(
        !fs::read(first.with_extension("timeindex"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_folder_keeps_its_cluster_topics_settings_and_producer_ids() {
    let dir = TempDir::new("folder");
    let mut ids = Ids::new(3);
    let (cluster, topic) = (ids.uuid(), ids.uuid());
    let (folder, cluster_id) = Folder::open(dir.0.clone(), 1, cluster, ids.uuid()).unwrap();
    assert_eq!(cluster_id, cluster.to_string());
    for partition in [0, 1] {
        folder.partition("a-b", topic, partition).unwrap();
    }
    let mut values = Values::default();
    values.set(TOPIC_KEYS, "segment.bytes", "5000").unwrap();
    folder
        .write_settings([("a-b", &values)].into_iter())
        .unwrap();
    folder.reserve_producer_ids(77).unwrap();

    let second = Folder::open(dir.0.clone(), 1, ids.uuid(), ids.uuid()).unwrap_err();
    assert!(
        second
            .to_string()
            .contains("another broker has this folder open"),
        "{second}"
    );
    drop(folder);

    let (folder, cluster_id) = Folder::open(dir.0.clone(), 1, ids.uuid(), ids.uuid()).unwrap();
    assert_eq!(cluster_id, cluster.to_string());
    let found = folder.topics().unwrap();
    let found = &found["a-b"];
    assert_eq!(
        (found.id, found.partitions, &found.values),
        (topic, 2, &values)
    );
    assert_eq!(folder.producer_ids().unwrap(), 77);

    fs::write(dir.0.join("a-b-0/partition.metadata"), "nonsense").unwrap();
    let error = folder.topics().unwrap_err().to_string();
    assert!(
        error.contains("partition.metadata") && error.contains("topic_id"),
        "{error}"
    );
}

/// A batch of one record of producer 7's transaction, which its coordinator knows of.
fn in_transaction(log: &mut Log, epoch: i16, sequence: i32) -> Checked {
    let question = log.question((7, epoch));
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder.set_transactional(true);
    builder
        .append(1, None, Some(&[7; 50]), std::iter::empty())
        .unwrap();
    let state = ProducerState {
        producer_id: 7,
        epoch,
        base_sequence: sequence,
    };
    let bytes = builder.finish(state).unwrap();
    let checked = batch::check(bytes, &config(0), true, 0).unwrap();
    checked.verified(question)
}

fn marker(commits: bool) -> Checked {
    let marker = Marker {
        producer_id: 7,
        epoch: 0,
        coordinator_epoch: 2,
        commits,
    };
    batch::of_marker(marker, 5).unwrap()
}

/// Four transactions of a record and a marker each, of which the second and the third are aborted, and one that is open.
fn with_transactions(log: &mut Log) {
    for (sequence, commits) in [(0, true), (1, false), (2, false), (3, true)] {
        let batch = in_transaction(log, 0, sequence);
        log.append(&batch, 0).unwrap();
        log.append(&marker(commits), 0).unwrap();
    }
    let open = in_transaction(log, 0, 4);
    log.append(&open, 0).unwrap();
}

fn assert_transactions(log: &mut Log) {
    let end = log.bounds().end;
    assert_eq!((end, log.last_stable(end)), (9, 8));
    let aborted = |from, end| {
        let aborted = log.aborted(from, end);
        aborted.map(|it| (it.first, it.last)).collect::<Vec<_>>()
    };
    assert_eq!(aborted(0, 9), [(2, 3), (4, 5)]);
    assert_eq!(aborted(4, 9), [(4, 5)]);
    assert_eq!(aborted(0, 4), [(2, 3)]);
    let producer = log.active_producers()[0];
    assert_eq!(producer.transaction, Some(8));
    assert_eq!(
        (producer.last_sequence, producer.coordinator_epoch),
        (Some(4), 2)
    );
    assert_eq!(log.question((7, 0)), None, "it is in a transaction");
}

#[test]
fn a_restart_knows_transactions_and_folders_have_kafkas_index_of_aborted_ones() {
    let dir = TempDir::new("transactions");
    let mut log = Log::open(&dir.0, config(300), &EventSink::default()).unwrap();
    with_transactions(&mut log);
    assert_transactions(&mut log);
    log.flush().unwrap();
    drop(log);
    let mut indexes: Vec<_> = fs::read_dir(&dir.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "txnindex"))
        .map(|path| fs::read(path).unwrap())
        .collect();
    indexes.sort();
    let all = indexes.concat();
    let entry = |first: i64, last: i64| {
        let numbers = [7, first, last, last + 1].map(i64::to_be_bytes).concat();
        [vec![0, 0], numbers].concat()
    };
    assert_eq!(all, [entry(2, 3), entry(4, 5)].concat());
    let mut log = Log::open(&dir.0, config(300), &EventSink::default()).unwrap();
    assert_transactions(&mut log);
}

#[test]
fn followers_know_transactions_and_forget_what_is_cut_off() {
    let mut leader = Log::in_memory(config(10_000));
    with_transactions(&mut leader);
    let mut follower = Log::in_memory(config(10_000));
    let read = leader.read(0, 1 << 20, true, None).unwrap().unwrap();
    follower.copy(read.span.unwrap().load().unwrap()).unwrap();
    assert_transactions(&mut follower);
    follower.truncate(5).unwrap();
    assert_eq!(follower.bounds().end, 5);
    assert_eq!(follower.last_stable(5), 4, "its marker is gone");
    assert_eq!(follower.aborted(0, 9).count(), 1);
}

#[test]
fn a_transaction_begins_only_where_its_coordinator_knows_of_it() {
    let mut log = Log::in_memory(config(10_000));
    let unasked = in_transaction(&mut log, 0, 0).verified(None);
    let refused = log.append(&unasked, 0).unwrap_err();
    assert_eq!(refused.code, ErrorCode::INVALID_TXN_STATE);
    let late = in_transaction(&mut log, 0, 0);
    log.append(&marker(false), 0).unwrap();
    let refused = log.append(&late, 0).unwrap_err();
    assert_eq!(
        refused.code,
        ErrorCode::INVALID_TXN_STATE,
        "it has ended since"
    );
    let asked = in_transaction(&mut log, 0, 0);
    assert_eq!(log.append(&asked, 0).unwrap().base_offset, 1);
    let more = in_transaction(&mut log, 0, 1).verified(None);
    assert_eq!(log.append(&more, 0).unwrap().base_offset, 2);
    let outside = checked(
        1,
        10,
        ProducerState {
            producer_id: 7,
            epoch: 0,
            base_sequence: 2,
        },
    );
    let refused = log.append(&outside, 0).unwrap_err();
    assert_eq!(refused.code, ErrorCode::INVALID_TXN_STATE);
}
