//! Outlines: the same as of whole entries, from as few bytes as they need.

use super::*;

fn control(kind: i16) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    let key = [0_i16.to_be_bytes(), kind.to_be_bytes()].concat();
    builder
        .append(TIME, Some(&key), Some(b""), std::iter::empty())
        .unwrap();
    edited(builder.finish(ProducerState::NONE).unwrap(), |header| {
        header.set_control(true);
    })
}

/// A batch of producer 7 in a transaction.
fn edited(bytes: Bytes, edit: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut bytes = BytesMut::from(bytes);
    let mut header = BatchHeader::parse(&bytes).unwrap();
    header.producer_id = 7;
    header.set_transactional(true);
    edit(&mut header);
    header.seal(&mut bytes).unwrap();
    bytes.freeze()
}

#[test]
fn steps_of_transactions() {
    let of = |bytes: Bytes| Outline::read(&bytes, LIMIT).unwrap().unwrap().transaction;
    let records = || two(Compression::Gzip).freeze();
    assert_eq!(of(records()), None);
    assert_eq!(
        of(edited(records(), |_| ())),
        Some((7, TransactionStep::Records))
    );
    // Compaction took all its records.
    assert_eq!(of(edited(records(), |header| header.count = 0)), None);
    assert_eq!(of(control(0)), Some((7, TransactionStep::Abort)));
    assert_eq!(of(control(1)), Some((7, TransactionStep::Commit)));
    assert_eq!(of(control(2)), None);
}

#[test]
fn few_bytes_tell_what_the_whole_entry_says() {
    for bytes in [
        two(Compression::None).freeze(),
        edited(two(Compression::Lz4).freeze(), |_| ()),
        control(1),
    ] {
        let entry = Entry::parse(bytes.clone()).unwrap();
        let whole = Outline::read(&bytes, LIMIT).unwrap().unwrap();
        assert_eq!(
            (whole.size, whole.base_offset, whole.last_offset),
            (entry.size(), entry.base_offset(), entry.last_offset())
        );
        for end in 0..bytes.len() {
            let told = Outline::read(&bytes.slice(..end), LIMIT).unwrap();
            let is_control = matches!(&entry, Entry::Batch(batch) if batch.header.is_control());
            let enough = end
                >= if is_control {
                    bytes.len()
                } else {
                    BatchHeader::SIZE
                };
            assert_eq!(told, enough.then_some(whole), "{end} bytes");
        }
    }
}
