//! What Kafka's own classes wrote and read (`tests/conformance/records-4.4.0.jsonl.gz`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::*;

const LIMIT: usize = 16 << 20;

fn lines() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/conformance/records-4.4.0.jsonl.gz"
    );
    let file = std::fs::File::open(path).unwrap();
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(lines.len(), 461);
    lines
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

/// A batch in the form of the corpus.
fn described(batch: &Batch) -> Value {
    let header = &batch.header;
    let mut value = json!({
        "magic": header.magic,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset(),
        "size": header.size(),
        "codec": header.compression().map_or("unknown", crate::compression::Compression::name),
        "valid": batch.verify_crc().is_ok(),
        "timestampType": match header.timestamp_type() {
            TimestampType::Create => "CreateTime",
            TimestampType::LogAppend => "LogAppendTime",
        },
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.sequence(header.last_offset_delta),
        "transactional": header.is_transactional(),
        "control": header.is_control(),
        "leaderEpoch": header.partition_leader_epoch,
        "crc": header.crc,
        "count": header.count,
    });
    if header.has_delete_horizon() {
        value["deleteHorizonMs"] = header.base_timestamp.into();
    }
    value
}

fn described_record(header: &BatchHeader, record: &Record<'_>) -> Value {
    let mut value = json!({
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": header.sequence((record.offset - header.base_offset) as i32),
        "key": base64(record.key),
        "value": base64(record.value),
    });
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
    let mut walk = batches(bytes);
    for batch in walk.by_ref() {
        let records = batch.and_then(|batch| {
            all.push(described(&batch));
            batch.verify_crc()?;
            let payload = batch.payload(LIMIT)?;
            batch
                .records(&payload)?
                .map(|record| Ok(described_record(&batch.header, &record?)))
                .collect()
        });
        match records {
            Ok(records) => all.last_mut().unwrap()["records"] = Value::Array(records),
            Err(error) => return (all, Err(error)),
        }
    }
    (all, Ok(walk.leftover()))
}

#[test]
fn batches_are_read_as_kafka_reads_them() {
    let (mut equal, mut old) = (0, 0);
    for line in lines()
        .iter()
        .filter(|line| !line["kind"].as_str().unwrap().starts_with("damaged"))
    {
        let kind = line["kind"].as_str().unwrap();
        let expected = line["batches"].as_array().unwrap();
        let (got, end) = read(unhex(line));
        let of_magic_2 = expected
            .iter()
            .take_while(|batch| batch["magic"] == 2)
            .count();
        assert_eq!(got, expected[..of_magic_2], "{kind}");
        if of_magic_2 < expected.len() {
            let magic = expected[of_magic_2]["magic"].as_i64().unwrap() as i8;
            let read: u64 = got
                .iter()
                .map(|batch| batch["size"].as_u64().unwrap())
                .sum();
            let base_offset =
                i64::from_be_bytes(*unhex(line)[read as usize..].first_chunk().unwrap());
            assert_eq!(
                end,
                Err(RecordsError::Magic { base_offset, magic }),
                "{kind}"
            );
            old += 1;
        } else {
            assert_eq!(end, Ok(line["left"].as_u64().unwrap() as usize), "{kind}");
            equal += 1;
        }
    }
    say(&format!(
        "{equal} lines read as Kafka reads them, {old} refused for a message set of magic 0 or 1"
    ));
    assert_eq!((equal, old), (106, 62));
}

#[test]
fn canonical_batches_are_written_as_kafka_writes_them() {
    let mut written = BTreeMap::new();
    for line in lines().iter().filter(|line| line["canonical"] == true) {
        for batch in batches(unhex(line)) {
            let Ok(batch) = batch else { break };
            let kind = line["kind"]
                .as_str()
                .unwrap()
                .split('/')
                .next()
                .unwrap()
                .to_owned();
            assert_eq!(rewritten(&batch), batch.bytes, "{kind}");
            *written.entry(kind).or_insert(0) += 1;
        }
    }
    assert_eq!(
        written,
        BTreeMap::from([
            ("control".into(), 9),
            ("empty".into(), 2),
            ("magic2".into(), 12)
        ])
    );
}

/// The batch, built anew from its records and what its header says.
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
fn damaged_batches_are_refused_or_read_as_kafka_reads_them() {
    let mut verdicts = BTreeMap::<_, usize>::new();
    for line in lines()
        .iter()
        .filter(|line| line["kind"].as_str().unwrap().starts_with("damaged"))
    {
        let expected = line["batches"].as_array().unwrap();
        let (got, end) = read(unhex(line));
        let verdict = match (end, line.get("error")) {
            (Err(RecordsError::Magic { magic: 0 | 1, .. }), _) => "of an old format",
            (Err(_), Some(_)) => "refused by both",
            (Ok(_), Some(error)) => panic!("Kafka refuses ({error}) what is read here: {line}"),
            (Ok(left), None) => {
                assert_eq!(&got, expected);
                assert_eq!(left as u64, line["left"].as_u64().unwrap());
                "read by both"
            }
            // Where reading on would hand out wrong offsets or text.
            (Err(RecordsError::LastOffset { .. }), None) => "refused here only: range of offsets",
            (
                Err(RecordsError::Record {
                    what: Malformed::Offset,
                    ..
                }),
                None,
            ) => "refused here only: offset",
            (
                Err(RecordsError::Record {
                    what: Malformed::HeaderKey,
                    ..
                }),
                None,
            ) => "refused here only: header key",
            (
                Err(RecordsError::Record {
                    what: Malformed::NegativeLength,
                    ..
                }),
                None,
            ) => "refused here only: length",
            (Err(error), None) => panic!("{error}, where Kafka reads it: {line}"),
        };
        *verdicts.entry(verdict).or_default() += 1;
    }
    say(&format!("damaged lines: {verdicts:?}"));
    let expected = [
        ("of an old format", 60),
        ("read by both", 92),
        ("refused by both", 137),
        ("refused here only: header key", 1),
        ("refused here only: length", 1),
        ("refused here only: offset", 1),
        ("refused here only: range of offsets", 1),
    ];
    assert_eq!(verdicts, BTreeMap::from(expected));
}

/// Shown also where tests pass: how much of the corpus was compared.
fn say(what: &str) {
    writeln!(std::io::stderr(), "records corpus: {what}").unwrap();
}
