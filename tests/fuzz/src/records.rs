//! Record data under right checksums, since nothing gets past the first look without them: batches, the messages before
//! them, what a log holds, and the records of internal topics.

use std::sync::Arc;

use bytes::Bytes;
use ottla_columnar::{Aborted, FetchedPartition, Memory};
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::internal::{self, Identified, Part, Topic};
use ottla_protocol::records::{
    Batch, BatchBuilder, BatchHeader, Entry, Found, ProducerState, batches, entries, segment,
};
use ottla_protocol::{DecodeError, Reader};

use crate::input::Input;
use crate::memory;
use crate::messages::{self, round_trip};

/// What record sections may decompress to.
pub const LIMIT: usize = 1 << 20;
/// The most bytes of memory that reading holds for each byte that it is given or decompresses.
pub const PER_BYTE: usize = 16;
/// What the tables of a decompressor take beside that.
pub const BESIDE: usize = 256 << 10;

/// Batches and messages one after another, with whatever checksum.
pub fn stored(data: &[u8]) {
    let mut bytes = data.to_vec();
    repair(&mut bytes);
    read(&bytes);
}

/// The bytes of a log segment, and where to damage it once its checksums are right: three places with a byte each in front.
/// Entries and damage together are the whole segment, up to a tail of zeros.
pub fn log_segment(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let damage = [(); 3].map(|()| (usize::from(input.u16()), input.u8()));
    let mut bytes = input.0.to_vec();
    repair(&mut bytes);
    for (place, mask) in damage.iter().take(usize::from(choice & 3)) {
        if let Some(byte) = bytes.get_mut(*place) {
            *byte ^= mask;
        }
    }
    let shared = Bytes::from(bytes);
    let ((), held) = memory::peak(|| {
        let mut walk = segment(shared.clone());
        if choice & 4 != 0 {
            walk = walk.without_crcs();
        }
        let (mut end, mut after_damage) = (0, false);
        for found in walk {
            let (position, size, damaged) = match &found {
                Found::Entry { position, entry } => {
                    assert_eq!(
                        shared.slice(*position..*position + entry.size()),
                        entry.bytes()
                    );
                    any_age(entry);
                    (*position, entry.size(), false)
                }
                Found::Damage(damage) => {
                    assert!(!damage.to_string().is_empty());
                    (damage.position, damage.size, true)
                }
            };
            assert_eq!(position, end, "nothing is left out");
            assert!(size > 0, "every step goes on");
            assert!(!(damaged && after_damage), "damage is in one piece");
            (end, after_damage) = (position + size, damaged);
        }
        assert!(
            shared
                .slice(end.min(shared.len())..)
                .iter()
                .all(|byte| *byte == 0),
            "only zeros are left"
        );
    });
    within_bounds(held, shared.len(), "a segment");
}

/// A batch around the input: its codec and whether the rest is the record section or what is compressed to one, its other
/// attributes, the number of its records and its last offset, then the rest.
pub fn batch(data: &[u8]) {
    let mut input = Input(data);
    let (choice, flags) = (input.u8(), input.u8());
    let (count, last_offset_delta) = (i32::from(input.i16()), input.i32());
    let codec = i16::from(choice & 7);
    let mut section = Vec::new();
    match Compression::from_id(codec) {
        Some(codec) if choice & 8 != 0 => {
            compression::compress(codec, None, input.0, &mut section).expect("any bytes compress");
        }
        _ => section.extend_from_slice(input.0),
    }
    let mut bytes = vec![0; BatchHeader::SIZE];
    bytes.extend_from_slice(&section);
    let mut header = BatchHeader {
        base_offset: 100,
        length: 0,
        partition_leader_epoch: 3,
        magic: 2,
        crc: 0,
        attributes: codec | (i16::from(flags) & !7),
        last_offset_delta,
        base_timestamp: 1_700_000_000_000,
        max_timestamp: 1_700_000_000_000,
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: 0,
        count,
    };
    header.seal(&mut bytes).expect("there is room for a header");
    read(&bytes);
}

/// A wrapper of magic 0 or 1 around the input: its codec, its magic, and whether the rest is the set inside or what is
/// compressed to one; its offset; then the rest.
pub fn message_set(data: &[u8]) {
    let mut input = Input(data);
    let (choice, offset) = (input.u8(), i64::from(input.i16()));
    let magic = choice >> 3 & 1;
    let mut value = Vec::new();
    match Compression::from_id(i16::from(choice & 7)) {
        Some(codec) if choice & 16 != 0 => {
            let mut set = input.0.to_vec();
            repair(&mut set);
            compression::compress(codec, None, &set, &mut value).expect("any bytes compress");
        }
        _ => value.extend_from_slice(input.0),
    }
    let timestamp: &[u8] = if magic == 0 { &[] } else { &[1; 8] };
    let length = 4 + 2 + timestamp.len() + 4 + 4 + value.len();
    let mut bytes = [
        &offset.to_be_bytes()[..],
        &(length as u32).to_be_bytes(),
        &[0, 0, 0, 0, magic, choice & 7 | choice >> 2 & 8],
        timestamp,
        &(-1_i32).to_be_bytes(),
        &(value.len() as u32).to_be_bytes(),
        &value,
    ]
    .concat();
    repair(&mut bytes);
    read(&bytes);
}

/// A record of an internal topic or of a control batch: which, the key with its length in front, then the value.
pub fn internal(data: &[u8]) {
    let mut input = Input(data);
    let which = usize::from(input.u8());
    let key = Bytes::copy_from_slice(input.long_piece());
    let value = Bytes::copy_from_slice(input.0);
    let (key, value) = (
        (which & 64 == 0).then_some(key),
        (which & 128 == 0).then_some(value),
    );
    let (identified, held) = memory::peak(|| -> Result<Identified, DecodeError> {
        match Topic::ALL.get(which & 7) {
            Some(topic) => internal::identify(*topic, key, value),
            None => internal::identify_control(key, value),
        }
    });
    messages::within_bounds(held, data.len());
    let Ok(Identified { key, value, .. }) = identified else {
        return;
    };
    for Part {
        message,
        version,
        body,
    } in key.into_iter().chain(value)
    {
        if let Some(name) = message {
            round_trip(name, version, Reader::new(body));
        }
    }
}

/// Puts the checksums of batches and messages right, as far as their lengths lead.
fn repair(mut bytes: &mut [u8]) {
    while let Some(length) = bytes.get(8..12).and_then(|length| length.first_chunk()) {
        let size = usize::try_from(i32::from_be_bytes(*length))
            .map_or(usize::MAX, |length| length + BatchHeader::PREFIX);
        let Some((entry, rest)) = bytes.split_at_mut_checked(size) else {
            return;
        };
        let old = entry.get(16).is_some_and(|magic| *magic < 2);
        // A checksum covers what follows it, in messages the magic too.
        let (at, from) = if old { (12, 16) } else { (17, 21) };
        if let Some((head, covered)) = entry.split_at_mut_checked(from) {
            let crc = if old {
                crc_32(covered)
            } else {
                crc32c::crc32c(covered)
            };
            if let Some(place) = head.get_mut(at..at + 4) {
                place.copy_from_slice(&crc.to_be_bytes());
            }
        }
        bytes = rest;
    }
}

fn crc_32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Reads the bytes in every way there is.
pub fn read(bytes: &[u8]) {
    let shared = Bytes::copy_from_slice(bytes);
    let ((), held) = memory::peak(|| {
        for batch in batches(shared.clone()).flatten() {
            one(&batch);
        }
        for entry in entries(shared.clone()).flatten() {
            any_age(&entry);
        }
    });
    within_bounds(held, bytes.len(), "records");
    for read_committed in [false, true] {
        let source = FetchedPartition {
            topic: Arc::from("t"),
            partition: 0,
            fetch_offset: 100,
            aborted: vec![Aborted {
                producer_id: 7,
                first_offset: 0,
            }],
            read_committed,
            check_crcs: true,
            decompress_limit: LIMIT,
        };
        let fresh = Memory::new(0, Vec::with_capacity);
        let (columns, held) =
            memory::peak(|| ottla_columnar::decode(shared.clone(), &source, &fresh));
        drop(columns);
        within_bounds(held, bytes.len(), "columns");
    }
}

fn any_age(entry: &Entry) {
    let _ = (entry.verify_crc(), entry.max_timestamp());
    assert_eq!(entry.size(), entry.bytes().len());
    let Ok(payload) = entry.payload(LIMIT) else {
        return;
    };
    assert!(payload.len() <= LIMIT.max(entry.size()));
    let _ = entry.first_offset(&payload);
    if let Ok(records) = entry.records(&payload) {
        // Every record takes bytes of its own.
        assert!(records.count() <= payload.len() + 1);
    }
}

/// Reads a batch; what it holds is written by ours and is the same when read again.
fn one(batch: &Batch) {
    let _ = batch.control_type(LIMIT);
    let Ok(payload) = batch.payload(LIMIT) else {
        return;
    };
    let Ok(records) = batch.records(&payload) else {
        return;
    };
    let Ok(records) = records.collect::<Result<Vec<_>, _>>() else {
        return;
    };
    if batch.verify_crc().is_err() || records.is_empty() {
        return;
    }
    let mut builder = BatchBuilder::new(Compression::None, None);
    for record in &records {
        let delta = i32::try_from(record.offset.wrapping_sub(batch.header.base_offset));
        let delta = delta.expect("within the batch");
        builder
            .append_at(
                delta,
                record.timestamp,
                record.key,
                record.value,
                record.headers(),
            )
            .expect("what was read can be written");
    }
    let again = builder
        .finish(ProducerState::NONE)
        .and_then(Batch::parse)
        .expect("a batch");
    let payload = again.payload(LIMIT).expect("not compressed");
    let written = again.records(&payload).expect("records");
    for (record, again) in records.iter().zip(written) {
        let again = again.expect("a record");
        let offset = batch.header.base_offset.saturating_add(again.offset);
        assert_eq!(
            (offset, again.timestamp, again.key, again.value),
            (record.offset, record.timestamp, record.key, record.value)
        );
        assert!(again.headers().eq(record.headers()));
    }
}

/// Reading so many bytes may hold so many.
pub fn within_bounds(held: usize, given: usize, what: &str) {
    let most = PER_BYTE * (given + LIMIT) + BESIDE;
    assert!(
        held <= most,
        "{what}: {held} bytes held for {given} bytes given, {most} at most"
    );
}
