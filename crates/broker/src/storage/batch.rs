//! What the broker looks at in a record batch: its header and its records on the way in, its place in the log, and single
//! records again where a time is looked for.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::records::{
    self, Batch, BatchBuilder, BatchHeader, ControlType, MessageSetBuilder, OldMagic,
    ProducerState, Record, RecordsError,
};

use super::producers::{Marker, REMEMBERED, Sequenced};
use crate::config::{LogConfig, TimestampType};

/// Most bytes a batch may decompress to, as the broker looks inside.
pub(super) const DECOMPRESS_LIMIT: usize = 256 << 20;

/// The bytes of a batch header.
pub(crate) type RawHeader = [u8; BatchHeader::SIZE];

/// A stored batch's place and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) leader_epoch: i32,
    /// Bytes, header included.
    pub(crate) size: u64,
    pub(crate) max_timestamp: i64,
    /// The broker's time where that is what the topic keeps, else -1.
    pub(crate) append_time: i64,
    pub(crate) sequenced: Option<Sequenced>,
    /// Whether it is the broker's own, and not records.
    pub(crate) is_control: bool,
}

impl Meta {
    /// Reads a header of the log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(raw: &[u8]) -> Result<Self, String> {
        let header = BatchHeader::parse(raw).map_err(|error| error.to_string())?;
        Ok(Self::of(&header))
    }

    fn of(header: &BatchHeader) -> Self {
        let sequenced = (header.producer_id >= 0 && !header.is_control()).then_some(Sequenced {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first: header.base_sequence,
            count: header.last_offset_delta.saturating_add(1),
            is_transactional: header.is_transactional(),
        });
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            leader_epoch: header.partition_leader_epoch,
            size: header.size() as u64,
            // One that compaction left empty has no record of that time.
            max_timestamp: if header.count == 0 {
                -1
            } else {
                header.max_timestamp
            },
            append_time: match header.timestamp_type() {
                records::TimestampType::Create => -1,
                records::TimestampType::LogAppend => header.max_timestamp,
            },
            sequenced,
            is_control: header.is_control(),
        }
    }

    /// The same batch, placed at `base_offset` by the leader of this epoch.
    pub(crate) fn at(&self, base_offset: i64, leader_epoch: i32) -> Self {
        Self {
            base_offset,
            leader_epoch,
            last_offset: base_offset + (self.last_offset - self.base_offset),
            ..*self
        }
    }
}

/// Bytes before those that a broker may not change: base offset, length, leader epoch.
const PREFIX: usize = 16;

/// A batch that may be appended, with the header it will be stored with but for its place.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) meta: Meta,
    /// The broker's time where that is what the topic keeps, else -1.
    pub(crate) append_time: i64,
    /// When it came, in milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) origin: Origin,
    /// The number of the verification that it may begin a transaction in its partition, if there
    /// was one.
    pub(crate) question: Option<u64>,
    /// Among how many of its producer's last batches it is known again.
    pub(crate) remembered: usize,
    bytes: Bytes,
}

/// Whose a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A producer's: its sequence must follow.
    Producer,
    /// The broker's own records, which follow no sequence.
    Broker,
    /// The broker's own marker.
    Marker(Marker),
}

impl Checked {
    /// The same, after the coordinator's verification with this number, if there was one.
    pub(crate) fn verified(mut self, question: Option<u64>) -> Self {
        self.question = question;
        self
    }

    /// The same, for a broker that remembers this many batches of a producer.
    pub(crate) fn known_among(mut self, remembered: usize) -> Self {
        self.remembered = remembered;
        self
    }

    /// The batch's bytes when placed at `base_offset`: the part with that offset, and the rest.
    pub(crate) fn placed(&self, base_offset: i64, leader_epoch: i32) -> ([u8; PREFIX], &[u8]) {
        let mut head = [0; PREFIX];
        let mut out = head.as_mut_slice();
        out.put_i64(base_offset);
        out.put_slice(self.bytes.get(8..12).unwrap_or_default());
        out.put_i32(leader_epoch);
        (head, self.bytes.get(PREFIX..).unwrap_or_default())
    }
}

/// Why a batch is not appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Rejected {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Checks what a producer sent for one partition, as Kafka does: exactly one batch, whole and
/// undamaged, within the topic's limits, with as many records as in its header.
///
/// Where the records are numbered with gaps, Kafka writes the batch again; here it is refused.
pub(crate) fn check(
    records: Bytes,
    config: &LogConfig,
    allows_zstd: bool,
    now: i64,
) -> Result<Checked, Rejected> {
    let batch = validate(&records)?;
    let header = &batch.header;
    check_size(records.len(), config, "the batch")?;
    if header.is_control() {
        let message = "control batches are the broker's own";
        return Err(Rejected::new(ErrorCode::INVALID_RECORD, message));
    }
    if header.is_transactional() && header.producer_id < 0 {
        let message = "a transactional batch needs a producer id";
        return Err(Rejected::new(ErrorCode::INVALID_RECORD, message));
    }
    if !allows_zstd && header.compression() == Ok(Compression::Zstd) {
        let message = "zstd needs version 7 of Produce";
        return Err(Rejected::new(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            message,
        ));
    }
    check_records(&batch, config.compaction.is_some())?;
    let (records, header) = match config.compression {
        Some(codec) if header.compression() != Ok(codec) => {
            let (records, header) = recompressed(&batch, codec).map_err(|error| corrupt(&error))?;
            check_size(
                records.len(),
                config,
                "the batch, compressed by the broker,",
            )?;
            (records, header)
        }
        _ => (records, *header),
    };
    let mut meta = Meta::of(&header);
    match config.timestamp_type {
        TimestampType::CreateTime => {
            let latest = now.saturating_add(config.timestamp_after_max_ms);
            if header.max_timestamp > latest {
                let message = format!(
                    "timestamp {} is more than {} ms after the broker's {now} (message.timestamp.after.max.ms)",
                    header.max_timestamp, config.timestamp_after_max_ms
                );
                return Err(Rejected::new(ErrorCode::INVALID_TIMESTAMP, message));
            }
            Ok(Checked {
                meta,
                append_time: -1,
                at: now,
                origin: Origin::Producer,
                question: None,
                remembered: REMEMBERED,
                bytes: records,
            })
        }
        TimestampType::LogAppendTime => {
            meta.max_timestamp = now;
            meta.append_time = now;
            let mut stamped = BytesMut::from(records.as_ref());
            records::set_log_append_time(&mut stamped, now).map_err(|error| corrupt(&error))?;
            Ok(Checked {
                meta,
                append_time: now,
                at: now,
                origin: Origin::Producer,
                question: None,
                remembered: REMEMBERED,
                bytes: stamped.freeze(),
            })
        }
    }
}

fn check_size(size: usize, config: &LogConfig, what: &str) -> Result<(), Rejected> {
    if size <= config.max_message_bytes {
        return Ok(());
    }
    let message = format!(
        "{what} has {size} bytes, {} are allowed (max.message.bytes)",
        config.max_message_bytes
    );
    Err(Rejected::new(ErrorCode::MESSAGE_TOO_LARGE, message))
}

/// The batch with its records as they are, compressed by this codec.
fn recompressed(batch: &Batch, codec: Compression) -> Result<(Bytes, BatchHeader), RecordsError> {
    let payload = batch.payload(DECOMPRESS_LIMIT)?;
    let mut bytes = vec![0; BatchHeader::SIZE];
    compression::compress(codec, None, &payload, &mut bytes).map_err(|source| {
        RecordsError::Compression {
            base_offset: batch.header.base_offset,
            source,
        }
    })?;
    let mut header = batch.header;
    header.set_compression(codec);
    header.seal(&mut bytes)?;
    let header = BatchHeader::parse(&bytes)?;
    Ok((bytes.into(), header))
}

/// The batch that a message set of this magic or a lower one becomes in the log.
pub(crate) fn of_message_set(set: &Bytes, highest: i8) -> Result<Bytes, Rejected> {
    let invalid = |what: String| Rejected::new(ErrorCode::INVALID_RECORD, what);
    let mut builder = None;
    let mut entries = records::entries(set.clone());
    for entry in entries.by_ref() {
        let entry = entry.map_err(|error| corrupt(&error))?;
        if entry.magic() > highest {
            let magic = entry.magic();
            return Err(invalid(format!(
                "a message of magic {magic}, this version of Produce takes {highest} at most"
            )));
        }
        entry.verify_crc().map_err(|error| corrupt(&error))?;
        let codec = entry.compression().map_err(|error| corrupt(&error))?;
        let builder = builder.get_or_insert_with(|| BatchBuilder::new(codec, None));
        let payload = entry.payload(DECOMPRESS_LIMIT);
        let payload = payload.map_err(|error| corrupt(&error))?;
        let messages = entry.records(&payload).map_err(|error| corrupt(&error))?;
        for message in messages {
            let message = message.map_err(|error| corrupt(&error))?;
            builder
                .append(
                    message.timestamp,
                    message.key,
                    message.value,
                    std::iter::empty(),
                )
                .map_err(|error| invalid(error.to_string()))?;
        }
    }
    if let Some(cut) = entries.cut() {
        return Err(corrupt(&cut));
    }
    let mut builder = builder.ok_or_else(|| invalid("there is no message".to_owned()))?;
    let batch = builder.finish(ProducerState::NONE);
    batch.map_err(|error| invalid(error.to_string()))
}

/// Stored batches as message sets, for clients that read nothing newer. Messages that are not compressed begin at the one that
/// was asked for. What message sets have not is lost, as with Kafka: headers, and with magic 0 timestamps. They have no zstd
/// either.
pub(crate) fn to_message_sets(stored: Bytes, magic: OldMagic, from: i64) -> Result<Bytes, String> {
    let mut sets = BytesMut::new();
    for batch in records::batches(stored) {
        let batch = batch.map_err(|error| error.to_string())?;
        if batch.header.is_control() {
            continue;
        }
        let set = message_set(&batch, magic, from).map_err(|error| error.to_string())?;
        sets.extend_from_slice(&set);
    }
    Ok(sets.freeze())
}

/// Where these batches end, if message sets have nothing of them for a client that reads from
/// `from` on: they are markers, or what compaction left of them is before it.
pub(crate) fn end_without_messages(stored: Bytes, from: i64) -> Result<Option<i64>, RecordsError> {
    let mut end = None;
    for batch in records::batches(stored) {
        let batch = batch?;
        if !batch.header.is_control() && !message_set(&batch, OldMagic::Zero, from)?.is_empty() {
            return Ok(None);
        }
        end = Some(batch.header.next_offset());
    }
    Ok(end)
}

fn message_set(batch: &Batch, magic: OldMagic, from: i64) -> Result<Bytes, RecordsError> {
    let header = &batch.header;
    if header.count == 0 {
        return Ok(Bytes::new());
    }
    let codec = match header.compression()? {
        Compression::Zstd => Compression::None,
        codec => codec,
    };
    let mut set = MessageSetBuilder::new(magic, codec, None, header.base_offset)?;
    if header.timestamp_type() == records::TimestampType::LogAppend {
        set.set_append_time(header.max_timestamp);
    }
    let payload = batch.payload(DECOMPRESS_LIMIT)?;
    let mut is_behind = true;
    for record in batch.records(&payload)? {
        let record = record?;
        is_behind &= record.offset < from;
        if codec == Compression::None && record.offset < from {
            continue;
        }
        set.append_at(record.offset, record.timestamp, record.key, record.value)?;
    }
    if is_behind {
        return Ok(Bytes::new());
    }
    set.finish()
}

/// Walks the records of a batch: as many as in its header and nothing after them, at one offset
/// after the other.
fn check_records(batch: &Batch, needs_keys: bool) -> Result<(), Rejected> {
    // The log numbers them again, whatever the producer's first offset is.
    let mut batch = batch.clone();
    batch.header.base_offset = 0;
    let invalid = |what: String| Rejected::new(ErrorCode::INVALID_RECORD, what);
    let unreadable = |error: RecordsError| invalid(error.to_string());
    let payload = batch.payload(DECOMPRESS_LIMIT).map_err(unreadable)?;
    let records = batch.records(&payload).map_err(unreadable)?;
    for (record, offset) in records.zip(0..) {
        let record = record.map_err(unreadable)?;
        if record.offset != offset {
            return Err(invalid(format!(
                "a record has offset {} in the batch, {offset} is due",
                record.offset
            )));
        }
        if needs_keys && record.key.is_none() {
            return Err(invalid(format!(
                "the record at offset {offset} of the batch has no key, and the topic is compacted (cleanup.policy)"
            )));
        }
    }
    Ok(())
}

/// Checks that there is one batch, whole and undamaged, of a known codec.
fn validate(records: &Bytes) -> Result<Batch, Rejected> {
    if records.is_empty() {
        return Err(Rejected::new(
            ErrorCode::INVALID_RECORD,
            "there is no record batch",
        ));
    }
    let header = match BatchHeader::parse(records) {
        Err(RecordsError::Magic { magic, .. }) => {
            let message =
                format!("record batches of magic 2 are taken, not message sets of magic {magic}");
            return Err(Rejected::new(
                ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT,
                message,
            ));
        }
        parsed => parsed.map_err(|error| corrupt(&error))?,
    };
    if header.size() < records.len() {
        return Err(Rejected::new(
            ErrorCode::INVALID_RECORD,
            "there is more than one record batch",
        ));
    }
    if let Err(error) = header.compression() {
        return Err(Rejected::new(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            error.to_string(),
        ));
    }
    if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
        return Err(Rejected::new(
            ErrorCode::INVALID_RECORD,
            "the producer has an id and no sequence",
        ));
    }
    records::validate_batch(records.clone()).map_err(|error| corrupt(&error))
}

fn corrupt(error: &RecordsError) -> Rejected {
    Rejected::new(ErrorCode::CORRUPT_MESSAGE, error.to_string())
}

/// Calls `visit` with each of some stored batches, and its bytes.
pub(crate) fn each_batch(
    stored: Bytes,
    mut visit: impl FnMut(&Meta, Bytes) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = stored;
    while !rest.is_empty() {
        let meta = Meta::parse(&rest).map_err(io::Error::other)?;
        let size = usize::try_from(meta.size).unwrap_or(usize::MAX);
        if size > rest.len() {
            return Err(io::Error::other("a stored batch is cut short"));
        }
        visit(&meta, rest.split_to(size))?;
    }
    Ok(())
}

/// The whole batches that stored bytes begin with; none if already the first is cut short.
pub(crate) fn whole(stored: &Bytes) -> io::Result<Bytes> {
    let mut end = 0;
    while let Some(rest) = stored
        .get(end..)
        .filter(|rest| rest.len() >= BatchHeader::SIZE)
    {
        let size = first_size(rest)?;
        if size > rest.len() {
            break;
        }
        end += size;
    }
    Ok(stored.slice(..end))
}

/// Bytes of the batch whose header stored bytes begin with.
pub(crate) fn first_size(stored: &[u8]) -> io::Result<usize> {
    let meta = Meta::parse(stored).map_err(io::Error::other)?;
    Ok(usize::try_from(meta.size).unwrap_or(usize::MAX))
}

/// Checks a batch found at the end of a file.
pub(crate) fn verify(batch: Bytes) -> Result<(), String> {
    Batch::parse(batch)
        .and_then(|batch| batch.verify_crc())
        .map_err(|error| error.to_string())
}

/// The producer, and its epoch, of a batch of a transaction.
pub(crate) fn transactional_producer(records: &[u8]) -> Option<(i64, i16)> {
    let header = BatchHeader::parse(records).ok()?;
    let producer = (header.producer_id, header.producer_epoch);
    (header.is_transactional() && header.producer_id >= 0).then_some(producer)
}

/// Makes a batch of keys and values of the broker's own.
pub(crate) fn of_records(records: &[(Bytes, Option<Bytes>)], now: i64) -> Result<Checked, String> {
    of_own(records, None, now)
}

/// As [`of_records`], as a part of a producer's transaction.
pub(crate) fn in_transaction(
    records: &[(Bytes, Option<Bytes>)],
    (producer_id, epoch): (i64, i16),
    now: i64,
) -> Result<Checked, String> {
    let state = ProducerState {
        producer_id,
        epoch,
        base_sequence: 0,
    };
    of_own(records, Some(state), now)
}

fn of_own(
    records: &[(Bytes, Option<Bytes>)],
    producer: Option<ProducerState>,
    now: i64,
) -> Result<Checked, String> {
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder.set_transactional(producer.is_some());
    for (key, value) in records {
        builder
            .append(now, Some(key), value.as_deref(), std::iter::empty())
            .map_err(|error| error.to_string())?;
    }
    let bytes = builder
        .finish(producer.unwrap_or(ProducerState::NONE))
        .map_err(|error| error.to_string())?;
    let meta = Meta::parse(&bytes)?;
    Ok(Checked {
        meta,
        append_time: -1,
        at: now,
        origin: Origin::Broker,
        question: None,
        remembered: REMEMBERED,
        bytes,
    })
}

/// Version of the key and of the value of a marker.
const MARKER_VERSION: i16 = 0;

/// Makes the control batch that ends a transaction: one record, whose key has the type of the end,
/// and whose value has the coordinator.
pub(crate) fn of_marker(marker: Marker, now: i64) -> Result<Checked, String> {
    let error = |error: RecordsError| error.to_string();
    let mut key = Vec::with_capacity(4);
    key.put_i16(MARKER_VERSION);
    key.put_i16(i16::from(marker.commits));
    let mut value = Vec::with_capacity(6);
    value.put_i16(MARKER_VERSION);
    value.put_i32(marker.coordinator_epoch);
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder.set_transactional(true);
    builder
        .append(now, Some(&key), Some(&value), std::iter::empty())
        .map_err(error)?;
    let state = ProducerState {
        producer_id: marker.producer_id,
        epoch: marker.epoch,
        base_sequence: records::NONE,
    };
    let mut bytes = BytesMut::from(builder.finish(state).map_err(error)?);
    let mut header = BatchHeader::parse(&bytes).map_err(error)?;
    header.set_control(true);
    header.seal(&mut bytes).map_err(error)?;
    Ok(Checked {
        meta: Meta::of(&header),
        append_time: -1,
        at: now,
        origin: Origin::Marker(marker),
        question: None,
        remembered: REMEMBERED,
        bytes: bytes.freeze(),
    })
}

/// The marker that a control batch is; `None` for another one.
pub(crate) fn marker_of(batch: Bytes) -> Result<Option<Marker>, String> {
    let batch = Batch::parse(batch).map_err(|error| error.to_string())?;
    read_marker(&batch).map_err(|error| error.to_string())
}

fn read_marker(batch: &Batch) -> Result<Option<Marker>, RecordsError> {
    let payload = batch.payload(DECOMPRESS_LIMIT)?;
    // Only the first record of a control batch counts.
    let Some(record) = batch.records(&payload)?.next().transpose()? else {
        return Ok(None);
    };
    let commits = match record.key.and_then(ControlType::from_key) {
        Some(ControlType::Commit) => true,
        Some(ControlType::Abort) => false,
        _ => return Ok(None),
    };
    let coordinator_epoch = record.value.and_then(|value| value.get(2..)?.first_chunk());
    Ok(coordinator_epoch.map(|epoch| Marker {
        producer_id: batch.header.producer_id,
        epoch: batch.header.producer_epoch,
        coordinator_epoch: i32::from_be_bytes(*epoch),
        commits,
    }))
}

/// A part of an internal topic's log.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Record(&'a Record<'a>),
    /// A record that counts when its producer's transaction is committed.
    InTransaction(i64, &'a Record<'a>),
    End(Marker),
}

/// Calls `visit` with each piece of some stored batches; gives the offset after the last.
pub(crate) fn each_piece(stored: Bytes, mut visit: impl FnMut(&Piece<'_>)) -> Result<i64, String> {
    let text = |error: RecordsError| error.to_string();
    let mut next_offset = 0;
    for batch in records::batches(stored) {
        let batch = batch.map_err(text)?;
        next_offset = batch.header.next_offset();
        if batch.header.is_control() {
            if let Some(marker) = read_marker(&batch).map_err(text)? {
                visit(&Piece::End(marker));
            }
            continue;
        }
        let producer = batch
            .header
            .is_transactional()
            .then_some(batch.header.producer_id);
        let payload = batch.payload(DECOMPRESS_LIMIT).map_err(text)?;
        for record in batch.records(&payload).map_err(text)? {
            let record = record.map_err(text)?;
            visit(&match producer {
                Some(producer) => Piece::InTransaction(producer, &record),
                None => Piece::Record(&record),
            });
        }
    }
    Ok(next_offset)
}

/// Calls `visit` with each record of some stored batches; gives the offset after the last.
pub(crate) fn each_record(
    stored: Bytes,
    mut visit: impl FnMut(&Record<'_>),
) -> Result<i64, String> {
    let mut next_offset = 0;
    for batch in records::batches(stored) {
        let batch = batch.map_err(|error| error.to_string())?;
        let payload = batch
            .payload(DECOMPRESS_LIMIT)
            .map_err(|error| error.to_string())?;
        for record in batch.records(&payload).map_err(|error| error.to_string())? {
            visit(&record.map_err(|error| error.to_string())?);
        }
        next_offset = batch.header.next_offset();
    }
    Ok(next_offset)
}

/// Timestamp and offset of the first record in a stored batch that has `timestamp` or a later one.
pub(crate) fn record_at_time(stored: Bytes, timestamp: i64) -> Result<Option<(i64, i64)>, String> {
    let mut found = None;
    each_record(stored, |record| {
        if found.is_none() && record.timestamp >= timestamp {
            found = Some((record.timestamp, record.offset));
        }
    })?;
    Ok(found)
}
