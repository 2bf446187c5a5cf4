//! What Kafka's own classes wrote and read (`tests/conformance/records-4.4.0.jsonl.gz`). `OTTLA_CORPUS=DIR` reads the
//! `records-*.jsonl.gz` of another folder, which `tests/conformance/test_fresh.py` makes; its counts are printed, not compared.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::*;

const LIMIT: usize = 16 << 20;

fn folder() -> Option<PathBuf> {
    std::env::var_os("OTTLA_CORPUS").map(PathBuf::from)
}

fn lines() -> Vec<Value> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let folder = folder().unwrap_or(kept);
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("records-") || !name.ends_with(".jsonl.gz") {
            continue;
        }
        let file = std::fs::File::open(path).unwrap();
        let text = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
        lines.extend(text.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()));
    }
    assert!(
        !lines.is_empty(),
        "no records-*.jsonl.gz in {}",
        folder.display()
    );
    lines
}

/// Compares counts with those of the corpus that the project keeps, and prints them for any.
fn counted(what: &str, counts: &BTreeMap<String, usize>, kept: &[(&str, usize)]) {
    writeln!(std::io::stderr(), "records corpus, {what}:").unwrap();
    for (kind, count) in counts {
        writeln!(std::io::stderr(), "  {count:4} {kind}").unwrap();
    }
    if folder().is_none() {
        let kept = kept
            .iter()
            .map(|(kind, count)| ((*kind).to_owned(), *count));
        assert_eq!(*counts, kept.collect());
    }
}

/// The first part of a line's kind, and the magic of its first entry.
fn kind(line: &Value) -> String {
    let kind = line["kind"].as_str().unwrap().split('/').next().unwrap();
    if kind.starts_with("magic") {
        return kind.to_owned();
    }
    unhex(line)
        .get(16)
        .map_or_else(|| kind.to_owned(), |magic| format!("{kind}, magic {magic}"))
}

fn unhex(line: &Value) -> Bytes {
    let text = line["hex"].as_str().unwrap().as_bytes();
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn base64(bytes: Option<&[u8]>) -> Value {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let Some(bytes) = bytes else {
        return Value::Null;
    };
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place > group.len() { '=' } else { digit });
        }
    }
    text.into()
}

/// An entry in the form of the corpus.
fn described(entry: &Entry) -> Result<Value, RecordsError> {
    let mut value = json!({
        "magic": entry.magic(),
        "baseOffset": entry.first_offset(&entry.payload(LIMIT)?)?,
        "lastOffset": entry.last_offset(),
        "size": entry.size(),
        "codec": entry.compression()?.name(),
        "valid": entry.verify_crc().is_ok(),
        "timestampType": match entry.timestamp_type() {
            None => "NoTimestampType",
            Some(TimestampType::Create) => "CreateTime",
            Some(TimestampType::LogAppend) => "LogAppendTime",
        },
        "maxTimestamp": entry.max_timestamp(),
    });
    if let Entry::Batch(Batch { header, .. }) = entry {
        // Kafka counts on from a number that no producer sends; here it is as good as none.
        let last_sequence = if header.base_sequence < NONE {
            header.base_sequence.wrapping_add(header.last_offset_delta)
        } else {
            header.sequence(header.last_offset_delta)
        };
        let of_batch = json!({
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "lastSequence": last_sequence,
            "transactional": header.is_transactional(),
            "control": header.is_control(),
            "leaderEpoch": header.partition_leader_epoch,
            "crc": header.crc,
            "count": header.count,
        });
        let both = value.as_object_mut().unwrap();
        both.extend(of_batch.as_object().unwrap().clone());
        if header.has_delete_horizon() {
            value["deleteHorizonMs"] = header.base_timestamp.into();
        }
    }
    Ok(value)
}

fn described_record(entry: &Entry, record: &Record<'_>) -> Value {
    let mut value = json!({
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": base64(record.key),
        "value": base64(record.value),
    });
    if let Entry::Batch(Batch { header, .. }) = entry {
        let delta = (record.offset - header.base_offset) as i32;
        value["sequence"] = header.sequence(delta).into();
    }
    if record.headers().len() > 0 {
        value["headers"] = record
            .headers()
            .map(|(key, value)| json!([key, base64(value)]))
            .collect();
    }
    value
}

/// Everything that can be read, in the form of the corpus, and what ended the reading.
fn read(bytes: Bytes) -> (Vec<Value>, Result<usize, RecordsError>) {
    let mut all = Vec::new();
    let mut walk = entries(bytes);
    for entry in walk.by_ref() {
        let read = entry.and_then(|entry| {
            entry.verify_crc()?;
            let payload = entry.payload(LIMIT)?;
            let records: Result<Vec<_>, RecordsError> = entry
                .records(&payload)?
                .map(|record| Ok(described_record(&entry, &record?)))
                .collect();
            let mut value = described(&entry)?;
            value["records"] = records?.into();
            Ok(value)
        });
        match read {
            Ok(value) => all.push(value),
            Err(error) => return (all, Err(error)),
        }
    }
    (all, Ok(walk.leftover()))
}

#[test]
fn entries_are_read_as_kafka_reads_them() {
    let mut equal = BTreeMap::new();
    let lines = lines();
    let whole = |line: &&Value| !line["kind"].as_str().unwrap().starts_with("damaged");
    for line in lines.iter().filter(whole) {
        let (got, end) = read(unhex(line));
        assert_eq!(&got, line["batches"].as_array().unwrap(), "{line}");
        assert_eq!(end, Ok(line["left"].as_u64().unwrap() as usize), "{line}");
        *equal.entry(kind(line)).or_default() += 1;
    }
    counted(
        "lines read as Kafka reads them",
        &equal,
        &[
            ("control, magic 2", 9),
            ("cut, magic 0", 1),
            ("cut, magic 1", 8),
            ("cut, magic 2", 21),
            ("empty", 1),
            ("empty, magic 2", 2),
            ("joined, magic 0", 1),
            ("joined, magic 1", 8),
            ("joined, magic 2", 21),
            ("magic0", 12),
            ("magic1", 24),
            ("magic2", 60),
        ],
    );
}

#[test]
fn canonical_batches_are_written_as_kafka_writes_them() {
    let mut written = BTreeMap::new();
    for line in lines().iter().filter(|line| line["canonical"] == true) {
        for batch in batches(unhex(line)) {
            let Ok(batch) = batch else { break };
            assert_eq!(rewritten(&batch), batch.bytes, "{line}");
            *written.entry(kind(line)).or_default() += 1;
        }
    }
    counted(
        "batches rewritten byte for byte",
        &written,
        &[
            ("control, magic 2", 9),
            ("empty, magic 2", 2),
            ("magic2", 12),
        ],
    );
}

#[test]
fn message_sets_are_written_as_kafka_writes_them() {
    let mut written = BTreeMap::new();
    for line in lines() {
        let kind = line["kind"].as_str().unwrap();
        if !kind.starts_with("magic0") && !kind.starts_with("magic1") {
            continue;
        }
        let bytes = unhex(&line);
        let built = rebuilt(&bytes);
        let how = if line["canonical"] == true {
            assert_eq!(built, bytes, "{line}");
            "byte for byte"
        } else {
            // A compressor decides about the value of a wrapper, not about what is in it and before it.
            let [ours, kafkas] = [built, bytes].map(|bytes| Entry::parse(bytes).unwrap());
            assert_eq!(ours.payload(LIMIT), kafkas.payload(LIMIT), "{line}");
            assert_eq!(
                described(&ours).map(sizeless),
                described(&kafkas).map(sizeless)
            );
            let between = |entry: &Entry| {
                entry
                    .bytes()
                    .slice(16..if entry.magic() == 0 { 22 } else { 30 })
            };
            assert_eq!(between(&ours), between(&kafkas), "{line}");
            "but for compression"
        };
        *written
            .entry(format!("{}: {how}", self::kind(&line)))
            .or_default() += 1;
    }
    counted(
        "message sets rewritten",
        &written,
        &[
            ("magic0: but for compression", 9),
            ("magic0: byte for byte", 3),
            ("magic1: but for compression", 18),
            ("magic1: byte for byte", 6),
        ],
    );
}

fn sizeless(mut described: Value) -> Value {
    described.as_object_mut().unwrap().remove("size");
    described
}

/// A set of messages, or a wrapper, built again from its records.
fn rebuilt(bytes: &Bytes) -> Bytes {
    let mut builder = None;
    for entry in entries(bytes.clone()) {
        let entry = entry.unwrap();
        let payload = entry.payload(LIMIT).unwrap();
        let builder = builder.get_or_insert_with(|| {
            let magic = if entry.magic() == 0 {
                OldMagic::Zero
            } else {
                OldMagic::One
            };
            let (codec, first) = (
                entry.compression().unwrap(),
                entry.first_offset(&payload).unwrap(),
            );
            let mut builder = MessageSetBuilder::new(magic, codec, None, first).unwrap();
            if entry.timestamp_type() == Some(TimestampType::LogAppend) {
                builder.set_append_time(entry.max_timestamp());
            }
            builder
        });
        for record in entry.records(&payload).unwrap() {
            let Record {
                offset,
                timestamp,
                key,
                value,
                ..
            } = record.unwrap();
            builder.append_at(offset, timestamp, key, value).unwrap();
        }
    }
    builder.unwrap().finish().unwrap()
}

/// The batch, built again from its records and the fields of its header.
fn rewritten(batch: &Batch) -> Vec<u8> {
    // As they were written, whoever set the times later.
    let mut as_created = batch.clone();
    as_created.header.set_timestamp_type(TimestampType::Create);
    let mut builder = BatchBuilder::new(batch.header.compression().unwrap(), None);
    builder.set_base_timestamp(batch.header.base_timestamp);
    for record in as_created.records(&batch.section()).unwrap() {
        let record = record.unwrap();
        let delta = (record.offset - batch.header.base_offset) as i32;
        builder
            .append_at(
                delta,
                record.timestamp,
                record.key,
                record.value,
                record.headers(),
            )
            .unwrap();
    }
    let BatchHeader {
        producer_id,
        producer_epoch: epoch,
        base_sequence,
        ..
    } = batch.header;
    let mut bytes = builder
        .finish(ProducerState {
            producer_id,
            epoch,
            base_sequence,
        })
        .unwrap()
        .to_vec();
    bytes.resize(bytes.len().max(BatchHeader::SIZE), 0);
    let mut header = BatchHeader::parse(&bytes).unwrap_or(batch.header);
    header.base_offset = batch.header.base_offset;
    header.partition_leader_epoch = batch.header.partition_leader_epoch;
    header.attributes = batch.header.attributes;
    if header.timestamp_type() == TimestampType::LogAppend {
        header.max_timestamp = batch.header.max_timestamp;
    }
    header.seal(&mut bytes).unwrap();
    bytes
}

#[test]
fn damaged_entries_are_refused_or_read_as_kafka_reads_them() {
    let mut verdicts = BTreeMap::new();
    let lines = lines();
    let damaged = |line: &&Value| line["kind"].as_str().unwrap().starts_with("damaged");
    for line in lines.iter().filter(damaged) {
        let (got, end) = read(unhex(line));
        let verdict = match (end, line.get("error")) {
            (Err(_), Some(_)) => "refused by both",
            (Ok(_), Some(error)) => panic!("Kafka refuses ({error}) what is read here: {line}"),
            (Ok(left), None) => {
                assert_eq!(&got, line["batches"].as_array().unwrap(), "{line}");
                assert_eq!(left as u64, line["left"].as_u64().unwrap(), "{line}");
                "read by both"
            }
            (Err(error), None) => stricter(&error, line)
                .unwrap_or_else(|| panic!("{error}, where Kafka reads it: {line}")),
        };
        *verdicts
            .entry(format!("{}: {verdict}", kind(line)))
            .or_default() += 1;
    }
    counted(
        "damaged lines",
        &verdicts,
        &[
            ("damaged, magic 0: read by both", 2),
            ("damaged, magic 0: refused by both", 10),
            ("damaged, magic 1: read by both", 6),
            ("damaged, magic 1: refused by both", 47),
            ("damaged, magic 2: read by both", 25),
            ("damaged, magic 2: refused by both", 88),
            ("damaged, magic 130: refused by both", 1),
            ("damaged, magic 240: refused by both", 1),
            ("damaged-crc-right, magic 2: read by both", 63),
            ("damaged-crc-right, magic 2: refused by both", 46),
            (
                "damaged-crc-right, magic 2: refused here only, header key",
                1,
            ),
            ("damaged-crc-right, magic 2: refused here only, length", 1),
            ("damaged-crc-right, magic 2: refused here only, offset", 1),
            (
                "damaged-crc-right, magic 2: refused here only, range of offsets",
                1,
            ),
        ],
    );
}

/// What is refused here and not by Kafka: where reading on would hand out wrong offsets or text, or pass over records. Kafka looks
/// for bytes after the last record that it reads, and in a batch that claims none it reads none.
fn stricter(error: &RecordsError, line: &Value) -> Option<&'static str> {
    use Malformed::{NegativeLength, Offset};
    let claims_none = |offset: i64| {
        let mut batches = line["batches"].as_array().unwrap().iter();
        batches.any(|batch| batch["baseOffset"] == offset && batch["count"] == 0)
    };
    match error {
        RecordsError::Left { base_offset, .. } if claims_none(*base_offset) => {
            Some("refused here only, records of a batch that claims none")
        }
        RecordsError::LastOffset { .. } => Some("refused here only, range of offsets"),
        RecordsError::HeaderKey { .. } => Some("refused here only, header key"),
        RecordsError::Record { what, .. } => match what {
            Offset => Some("refused here only, offset"),
            NegativeLength => Some("refused here only, length"),
            _ => None,
        },
        _ => None,
    }
}
