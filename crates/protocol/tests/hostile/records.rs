//! Record data, under right checksums where one is looked at.

use bytes::{Bytes, BytesMut};
use ottla_protocol::compression::{Compression, CompressionError};
use ottla_protocol::records::{
    Batch, BatchBuilder, BatchHeader, ControlType, Entry, ProducerState, RecordsError, batches,
    entries,
};

const LIMIT: usize = 1 << 20;
/// A record of no key, no value and no headers, the first of its batch.
const EMPTY: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];

/// A batch at offset 100 with the section and the fields of its header about it.
fn batch(count: i32, last_offset_delta: i32, section: &[u8]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, None);
    builder.append(0, None, None, std::iter::empty()).unwrap();
    let whole = builder.finish(ProducerState::NONE).unwrap();
    let mut header = BatchHeader::parse(&whole).unwrap();
    header.base_offset = 100;
    header.count = count;
    header.last_offset_delta = last_offset_delta;
    let mut bytes = BytesMut::from(&whole[..BatchHeader::SIZE]);
    bytes.extend_from_slice(section);
    header.seal(&mut bytes).unwrap();
    let batch = Batch {
        header,
        bytes: bytes.freeze(),
    };
    batch.verify_crc().unwrap();
    batch
}

fn read(batch: &Batch) -> Result<usize, RecordsError> {
    let batch = Batch::parse(batch.bytes.clone())?;
    let payload = batch.payload(LIMIT)?;
    let records: Result<Vec<_>, _> = batch.records(&payload)?.collect();
    records.map(|records| records.len())
}

/// franz-go read on from where such a length led.
/// Rule: 2.4.8.
#[test]
fn a_batch_length_that_is_negative_or_near_2_to_the_31() {
    for (length, expected) in [
        (
            -1,
            "the record batch at offset 100 has the impossible length -1",
        ),
        (
            i32::MIN,
            "the record batch at offset 100 has the impossible length -2147483648",
        ),
        (
            48,
            "the record batch at offset 100 has the impossible length 48",
        ),
    ] {
        let mut bytes = BytesMut::from(&batch(1, 0, &EMPTY).bytes[..]);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let error = batches(bytes.clone().freeze()).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = entries(bytes.freeze()).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    // A batch that a fetch has cut short is no error, but the walk returns the size that it needs.
    let mut bytes = BytesMut::from(&batch(1, 0, &EMPTY).bytes[..]);
    bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let mut walk = batches(bytes.freeze());
    assert!(walk.next().is_none());
    let (needed, left) = (12 + 0x7fff_ffff, 68);
    assert_eq!(walk.cut(), Some(RecordsError::Cut { needed, left }));
}

/// kafka-go 1438 (-1), franz-go (negative and huge).
/// Rule: 2.4.8.
#[test]
fn a_record_count_that_is_negative_or_huge() {
    for (count, last) in [(-1, 0), (i32::MIN, 0), (i32::MAX, i32::MAX - 1), (2, 1)] {
        let error = read(&batch(count, last, &EMPTY)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the record batch at offset 100 claims {count} records, but its 7 bytes cannot hold them"
            )
        );
    }
}

/// franz-go: the offsets of records that were not there were passed over in silence.
/// Rule: 2.4.8.
#[test]
fn records_without_bytes() {
    let error = read(&batch(3, 2, &[])).unwrap_err();
    let (base_offset, count, bytes) = (100, 3, 0);
    assert_eq!(
        error,
        RecordsError::Count {
            base_offset,
            count,
            bytes
        }
    );
}

/// librdkafka 5577: a batch of 2^31 offsets.
/// Rule: 2.4.8.
#[test]
fn a_range_of_offsets_without_records() {
    assert_eq!(read(&batch(0, i32::MAX, &[])), Ok(0));
    let error = read(&batch(1, -1, &EMPTY)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record batch at offset 100 has 1 records, but its last offset is -1 after its first"
    );
}

/// Rule: 2.4.8.
#[test]
fn bytes_after_the_last_record() {
    let error = read(&batch(1, 0, &[&EMPTY[..], &[0]].concat())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 bytes are left after the last record of the batch at offset 100"
    );
}

/// Rule: 2.4.8.
#[test]
fn a_record_size_that_is_not_what_was_read() {
    let mut longer = EMPTY.to_vec();
    longer[0] = 14;
    longer.push(0);
    let error = read(&batch(1, 0, &longer)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "record 0 of the batch at offset 100: its length does not match its fields"
    );
}

/// Rule: 2.4.8.
#[test]
fn a_header_count_that_is_negative_or_above_the_bytes_left() {
    for count in [1, 2, 0xfe] {
        let mut record = EMPTY.to_vec();
        record[6] = count;
        if count == 0xfe {
            record[0] = 14;
            record.push(1);
        }
        let error = read(&batch(1, 0, &record)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "record 0 of the batch at offset 100: the number of headers is negative or more than its bytes can hold"
        );
    }
}

/// Rule: 2.4.8.
#[test]
fn a_codec_that_does_not_exist() {
    for codec in [5, 6, 7] {
        let mut bytes = BytesMut::from(&batch(1, 0, &EMPTY).bytes[..]);
        let mut header = BatchHeader::parse(&bytes).unwrap();
        header.attributes = codec;
        header.seal(&mut bytes).unwrap();
        let error = Batch::parse(bytes.freeze()).unwrap().payload(LIMIT);
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("the record batch at offset 100 is compressed with the unknown codec {codec}")
        );
    }
}

/// Rule: 2.4.8.
#[test]
fn a_magic_that_does_not_exist() {
    let mut bytes = BytesMut::from(&batch(1, 0, &EMPTY).bytes[..]);
    bytes[16] = 3;
    let error = entries(bytes.freeze()).next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record batch at offset 100 has an unknown magic, 3"
    );
}

/// Rule: 2.4.8.
#[test]
fn a_checksum_that_is_wrong() {
    let mut bytes = BytesMut::from(&batch(1, 0, &EMPTY).bytes[..]);
    bytes[66] ^= 1;
    let error = Batch::parse(bytes.freeze()).unwrap().verify_crc();
    assert!(matches!(
        error,
        Err(RecordsError::Crc {
            base_offset: 100,
            ..
        })
    ));
}

/// franz-go took each of two markers in a batch for one.
/// Rule: 2.4.12.
#[test]
fn two_abort_markers_in_one_control_batch() {
    let marker = |delta: u8| [20, 0, 0, delta, 8, 0, 0, 0, 0, 1, 0];
    let mut control = batch(2, 1, &[marker(0), marker(2)].concat());
    control.header.set_control(true);
    assert_eq!(control.control_type(LIMIT), Ok(Some(ControlType::Abort)));
}

/// Rule: 2.4.12.
#[test]
fn a_control_type_that_is_not_known() {
    let mut control = batch(1, 0, &[20, 0, 0, 0, 8, 0, 0, 0x7f, 0xff, 1, 0]);
    control.header.set_control(true);
    let other = ControlType::Other(0x7fff);
    assert_eq!(control.control_type(LIMIT), Ok(Some(other)));
}

/// librdkafka 3935 and 5260: a batch above its limit stalled the partition. Here the error names
/// the offset, and the batch has the offset to go on at.
/// Rule: 2.4.10.
#[test]
fn a_batch_that_decompresses_to_more_than_the_limit() {
    let mut builder = BatchBuilder::new(Compression::Gzip, None);
    builder
        .append(0, None, Some(&[0; 5000]), std::iter::empty())
        .unwrap();
    let batch = Batch::parse(builder.finish(ProducerState::NONE).unwrap()).unwrap();
    let source = CompressionError::TooLarge {
        codec: Compression::Gzip,
        limit: 1000,
    };
    let base_offset = 0;
    assert_eq!(
        batch.payload(1000),
        Err(RecordsError::Compression {
            base_offset,
            source
        })
    );
    assert_eq!(batch.header.next_offset(), 1);
    assert!(batch.payload(6000).is_ok());
}

/// A message of magic 0 or 1 at offset 5.
fn message(magic: u8, attributes: u8, value: Option<&[u8]>) -> Bytes {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend([0; 8]);
    }
    body.extend([0xff; 4]);
    match value {
        Some(value) => {
            body.extend((value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        None => body.extend([0xff; 4]),
    }
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    let length = body.len() as u32 + 4;
    [
        &5_u64.to_be_bytes()[..],
        &length.to_be_bytes(),
        &crc.sum().to_be_bytes(),
        &body,
    ]
    .concat()
    .into()
}

fn gzip(set: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    ottla_protocol::compression::compress(Compression::Gzip, None, set, &mut packed).unwrap();
    packed
}

#[track_caller]
fn old(bytes: Bytes) -> String {
    let entry = entries(bytes).next().unwrap();
    let read = |entry: Entry| {
        entry.verify_crc()?;
        let payload = entry.payload(LIMIT)?;
        let records = entry.records(&payload)?;
        records.collect::<Result<Vec<_>, _>>().map(|_| ())
    };
    entry.and_then(read).unwrap_err().to_string()
}

/// Rule: 2.4.9.
#[test]
fn a_message_of_fewer_bytes_than_its_fields() {
    let mut bytes = BytesMut::from(&message(0, 0, None)[..]);
    bytes[8..12].copy_from_slice(&13_u32.to_be_bytes());
    assert_eq!(
        old(bytes.freeze()),
        "the record batch at offset 5 has the impossible length 13"
    );
}

/// Rule: 2.4.9, 2.4.13.
#[test]
fn wrappers_nest_only_once() {
    for magic in [0, 1] {
        let inside = message(magic, 1, Some(&gzip(&message(magic, 0, Some(b"v")))));
        assert!(matches!(
            first_error(message(magic, 1, Some(&gzip(&inside)))),
            RecordsError::Nested { .. }
        ));
    }
}

fn first_error(bytes: Bytes) -> RecordsError {
    let entry = entries(bytes).next().unwrap().unwrap();
    let payload = entry.payload(LIMIT);
    let records = |payload: &[u8]| {
        entry
            .records(payload)?
            .collect::<Result<Vec<_>, _>>()
            .map(drop)
    };
    payload.and_then(|payload| records(&payload)).unwrap_err()
}

/// Rule: 2.4.9.
#[test]
fn a_wrapper_that_holds_another_magic() {
    let inside = gzip(&message(0, 0, Some(b"v")));
    assert!(matches!(
        first_error(message(1, 1, Some(&inside))),
        RecordsError::InnerMagic {
            magic: 1,
            inner: 0,
            ..
        }
    ));
}

/// Rule: 2.4.9.
#[test]
fn a_wrapper_with_a_null_value_or_nothing_inside() {
    assert!(matches!(
        first_error(message(1, 1, None)),
        RecordsError::NullWrapper { offset: 5 }
    ));
    assert!(matches!(
        first_error(message(1, 1, Some(&gzip(&[])))),
        RecordsError::EmptyWrapper { offset: 5 }
    ));
}

/// Rule: 2.4.9.
#[test]
fn a_wrapper_whose_offset_is_below_the_last_one_inside() {
    let mut inside = BytesMut::from(&message(1, 0, Some(b"v"))[..]);
    inside[..8].copy_from_slice(&6_u64.to_be_bytes());
    assert!(matches!(
        first_error(message(1, 1, Some(&gzip(&inside)))),
        RecordsError::WrapperOffset { offset: 5, last: 6 }
    ));
}

/// Rule: 2.4.8.
#[test]
fn zstd_in_a_format_that_is_older() {
    for magic in [0, 1] {
        assert!(matches!(
            first_error(message(magic, 4, Some(b"x"))),
            RecordsError::OldCodec { offset: 5, .. }
        ));
    }
}
