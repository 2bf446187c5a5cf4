//! The records of `__transaction_state`: Kafka's own (`TransactionLogKey` and `TransactionLogValue`, each behind its version
//! as an int16; no value means that the id is forgotten), so that its tools read the topic.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_protocol::messages::transaction_log_value::PartitionsSchema;
use ottla_protocol::messages::{TransactionLogKey, TransactionLogValue};
use ottla_protocol::{EncodeError, Message, Reader, Writer};

use super::state::{Metadata, NO_EPOCH, Protocol, Status};

/// Type of a key, and the version that it is written in.
const KEY_TYPE: i16 = 0;
const KEY_VERSION: i16 = 0;
/// The first version with what KIP-890 needs; older brokers read the one before.
const WITH_EPOCHS: i16 = 1;
const CLASSIC: i16 = 0;

/// A record's key and value.
pub(crate) type Record = (Bytes, Option<Bytes>);

/// The record that keeps `metadata`, or forgets the id.
pub(super) fn encode(
    id: &str,
    metadata: Option<&Metadata>,
    broker: Protocol,
) -> Result<Record, EncodeError> {
    let key = TransactionLogKey {
        transactional_id: id.into(),
    };
    let version = match broker {
        Protocol::Classic => CLASSIC,
        Protocol::EpochEach => WITH_EPOCHS,
    };
    let value = metadata
        .map(|metadata| versioned(version, &value_of(metadata, version), version))
        .transpose()?;
    Ok((versioned(KEY_TYPE, &key, KEY_VERSION)?, value))
}

fn value_of(metadata: &Metadata, version: i16) -> TransactionLogValue {
    let partitions = metadata.partitions.iter();
    let partitions = partitions.map(|(topic, partitions)| PartitionsSchema {
        topic: topic.as_str().into(),
        partition_ids: partitions.iter().copied().collect(),
        ..Default::default()
    });
    let mut value = TransactionLogValue {
        producer_id: metadata.producer_id,
        producer_epoch: metadata.epoch,
        transaction_timeout_ms: metadata.timeout_ms,
        transaction_status: metadata.status as i8,
        transaction_partitions: (metadata.status != Status::Empty).then(|| partitions.collect()),
        transaction_last_update_timestamp_ms: metadata.updated_ms,
        transaction_start_timestamp_ms: metadata.started_ms,
        ..Default::default()
    };
    if version >= WITH_EPOCHS {
        value.previous_producer_id = metadata.previous_producer_id;
        value.next_producer_id = metadata.next_producer_id;
        value.next_producer_epoch = metadata.next_epoch;
        value.client_transaction_version = metadata.client.number();
    }
    value
}

/// Reads a record back: the id, and what is kept of it. `None` if it is of another kind, which is left alone.
pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<(String, Option<Metadata>)> {
    let mut key = Reader::new(Bytes::copy_from_slice(key));
    if key.i16().ok()? != KEY_TYPE {
        return None;
    }
    let key = TransactionLogKey::decode(KEY_VERSION, &mut key).ok()?;
    let id = key.transactional_id.to_string();
    let Some(value) = value else {
        return Some((id, None));
    };
    let mut reader = Reader::new(Bytes::copy_from_slice(value));
    let version = reader.i16().ok()?;
    let value = TransactionLogValue::decode(version, &mut reader).ok()?;
    let partitions = value.transaction_partitions.unwrap_or_default();
    let partitions: BTreeMap<_, _> = partitions
        .into_iter()
        .map(|it| {
            (
                it.topic.to_string(),
                it.partition_ids.iter().copied().collect(),
            )
        })
        .collect();
    let metadata = Metadata {
        producer_id: value.producer_id,
        previous_producer_id: value.previous_producer_id,
        next_producer_id: value.next_producer_id,
        epoch: value.producer_epoch,
        next_epoch: value.next_producer_epoch,
        // It is not kept: a producer that sends the request again after the coordinator has moved
        // is fenced, as with Kafka.
        last_epoch: NO_EPOCH,
        timeout_ms: value.transaction_timeout_ms,
        status: Status::of(value.transaction_status)?,
        partitions,
        started_ms: value.transaction_start_timestamp_ms,
        updated_ms: value.transaction_last_update_timestamp_ms,
        client: Protocol::of(value.client_transaction_version),
    };
    Some((id, Some(metadata)))
}

fn versioned<M: Message>(prefix: i16, message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::with_capacity(2);
    writer.i16(prefix);
    message.encode(version, &mut writer)?;
    Ok(writer.finish().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            epoch: 3,
            status: Status::PrepareCommit,
            partitions: BTreeMap::from([("t".to_owned(), BTreeSet::from([0, 2]))]),
            started_ms: 10,
            previous_producer_id: 6,
            next_producer_id: 8,
            client: Protocol::EpochEach,
            ..Metadata::new(7, 60_000, 20)
        }
    }

    #[test]
    fn records_are_kafkas_and_come_back() {
        let (key, value) = encode("id", Some(&metadata()), Protocol::EpochEach).unwrap();
        assert_eq!(key[..], [0, 0, 0, 2, b'i', b'd']);
        let value = value.unwrap();
        assert_eq!(
            value[..],
            [
                0, 1, // version
                0, 0, 0, 0, 0, 0, 0, 7, 0, 3, 0, 0, 0xEA, 0x60,
                2, // id, epoch, timeout, status
                2, 2, b't', 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, // partitions
                0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 10, // updated, started
                3, 0, 8, 0, 0, 0, 0, 0, 0, 0, 6, 1, 8, 0, 0, 0, 0, 0, 0, 0, 8, 2, 2, 0, 2,
            ]
        );
        assert_eq!(
            decode(&key, Some(&value)),
            Some(("id".to_owned(), Some(metadata())))
        );
    }

    #[test]
    fn brokers_without_epochs_read_the_version_before() {
        let (key, value) = encode("id", Some(&metadata()), Protocol::Classic).unwrap();
        let value = value.unwrap();
        assert_eq!(value[..2], [0, 0]);
        let read = decode(&key, Some(&value)).unwrap().1.unwrap();
        assert_eq!(
            (read.producer_id, read.epoch, read.client),
            (7, 3, Protocol::Classic)
        );
        assert_eq!(read.partitions, metadata().partitions);
    }

    #[test]
    fn the_epoch_of_who_kept_a_transaction_is_kept() {
        let metadata = Metadata {
            next_epoch: 5,
            ..metadata()
        };
        let (key, value) = encode("id", Some(&metadata), Protocol::EpochEach).unwrap();
        let read = decode(&key, value.as_deref()).unwrap().1;
        assert_eq!(read, Some(metadata));
    }

    #[test]
    fn no_value_forgets_and_other_kinds_are_left_alone() {
        let (key, value) = encode("id", None, Protocol::EpochEach).unwrap();
        assert_eq!(
            decode(&key, value.as_deref()),
            Some(("id".to_owned(), None))
        );
        assert_eq!(decode(&[0, 1, 0, 0], None), None);
        assert_eq!(decode(&[], None), None);
    }
}
