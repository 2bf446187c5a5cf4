//! Identifies records of Kafka's internal topics, and control records: the message of the key and the value, and where it begins.
//!
//! | topic | key | value |
//! |---|---|---|
//! | `__consumer_offsets`, `__transaction_state`, `__share_group_state` | int16 type, body | int16 version, body; null removes the key |
//! | `__cluster_metadata`, `__remote_log_metadata` | null | frame version, type, version, each an unsigned varint; body |
//! | control records of any topic | int16 version, int16 type | int16 version, body |
//!
//! Unknown types and versions are not errors: brokers that are newer than the schemas write them.
//!
//! Reference: KIP-98 (transactions), KIP-595 and KIP-746 (metadata), KIP-848, KIP-932; Kafka's `CoordinatorRecordSerde`
//! and `AbstractApiMessageSerde`.

use bytes::Bytes;

use crate::wire::{DecodeError, DecodeErrorKind, Reader, Versions};

/// A topic whose records have schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// `__consumer_offsets`: groups and their committed offsets.
    ConsumerOffsets,
    /// `__transaction_state`: transactional ids.
    TransactionState,
    /// `__share_group_state`: acknowledgements of share groups (KIP-932).
    ShareGroupState,
    /// `__cluster_metadata`: the log of KRaft's controllers, and its snapshots.
    ClusterMetadata,
    /// `__remote_log_metadata`: segments in tiered storage (KIP-405).
    RemoteLogMetadata,
}

impl Topic {
    /// Every such topic.
    pub const ALL: &'static [Self] = &[
        Self::ConsumerOffsets,
        Self::TransactionState,
        Self::ShareGroupState,
        Self::ClusterMetadata,
        Self::RemoteLogMetadata,
    ];

    /// The internal topic with this name; `None` for any other topic.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|topic| topic.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConsumerOffsets => "__consumer_offsets",
            Self::TransactionState => "__transaction_state",
            Self::ShareGroupState => "__share_group_state",
            Self::ClusterMetadata => "__cluster_metadata",
            Self::RemoteLogMetadata => "__remote_log_metadata",
        }
    }
}

/// A message and its known versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Kafka's name of the message.
    pub name: &'static str,
    /// Its versions.
    pub versions: Versions,
}

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKind {
    /// Its topic.
    pub topic: Topic,
    /// Its type on the wire.
    pub number: i16,
    /// Its name: the name of the key's message without `Key`, or of the value's message if there is no key.
    pub name: &'static str,
    /// The message of the key, which has one version.
    pub key: Option<Schema>,
    /// The message of the value.
    pub value: Schema,
}

include!(concat!(env!("OUT_DIR"), "/internal.rs"));

/// The identified parts of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The type on the wire; `None` where a record of the metadata has no value.
    pub number: Option<i16>,
    /// The name of the type; `None` if it is unknown.
    pub name: Option<&'static str>,
    /// The key, if there is one.
    pub key: Option<Part>,
    /// The value; `None` is null, which deletes the entry of the key.
    pub value: Option<Part>,
}

/// A key or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The message; `None` if the type or this version of it is unknown.
    pub message: Option<&'static str>,
    /// Its version.
    pub version: i16,
    /// The bytes after the type and the version: the message, for `decode`.
    pub body: Bytes,
}

/// Identifies a record of an internal topic.
///
/// # Errors
/// The key or value ends before its type and version, a key is present but not allowed or required but missing, or a metadata
/// record has a frame version other than 1.
pub fn identify(
    topic: Topic,
    key: Option<Bytes>,
    value: Option<Bytes>,
) -> Result<Identified, DecodeError> {
    match topic {
        Topic::ClusterMetadata | Topic::RemoteLogMetadata => metadata(topic, key, value),
        _ => coordinator(topic, key, value),
    }
}

fn coordinator(
    topic: Topic,
    key: Option<Bytes>,
    value: Option<Bytes>,
) -> Result<Identified, DecodeError> {
    let key = key.ok_or_else(|| DecodeError::from(DecodeErrorKind::NullNotAllowed).at("key"))?;
    let mut key = Reader::new(key);
    let number = key.i16().map_err(|error| error.at("type").at("key"))?;
    let kind = find(topic, number);
    let schema = kind.and_then(|kind| kind.key);
    let value = value
        .map(|value| -> Result<Part, DecodeError> {
            let mut value = Reader::new(value);
            let version = value
                .i16()
                .map_err(|error| error.at("version").at("value"))?;
            Ok(Part {
                message: kind.and_then(|kind| value_message(kind, version)),
                version,
                body: value.rest(),
            })
        })
        .transpose()?;
    Ok(Identified {
        number: Some(number),
        name: kind.map(|kind| kind.name),
        key: Some(Part {
            message: schema.map(|schema| schema.name),
            version: schema.map_or(0, |schema| schema.versions.min),
            body: key.rest(),
        }),
        value,
    })
}

/// Brokers before 4.0 treated the types 0 and 1 as the same: the values of both may have any version of OffsetCommitValue.
fn value_message(kind: &RecordKind, version: i16) -> Option<&'static str> {
    let mut schemas = vec![kind.value];
    if (kind.topic, kind.number) == (Topic::ConsumerOffsets, 0) {
        schemas.extend(find(kind.topic, 1).map(|newer| newer.value));
    }
    let known = schemas
        .iter()
        .find(|schema| schema.versions.contains(version));
    known.map(|schema| schema.name)
}

fn metadata(
    topic: Topic,
    key: Option<Bytes>,
    value: Option<Bytes>,
) -> Result<Identified, DecodeError> {
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        return Err(DecodeError::from(DecodeErrorKind::LeftOver { left: key.len() }).at("key"));
    }
    let Some(value) = value else {
        return Ok(Identified {
            number: None,
            name: None,
            key: None,
            value: None,
        });
    };
    let mut value = Reader::new(value);
    let frame = short(&mut value, "frameVersion")?;
    if frame != 1 {
        return Err(DecodeError::from(DecodeErrorKind::UnsupportedVersion {
            name: "the frame of a metadata record",
            version: frame,
            known: Versions { min: 1, max: 1 },
        })
        .at("frameVersion")
        .at("value"));
    }
    let number = short(&mut value, "type")?;
    let version = short(&mut value, "version")?;
    let kind = find(topic, number);
    let message = kind.filter(|kind| kind.value.versions.contains(version));
    Ok(Identified {
        number: Some(number),
        name: kind.map(|kind| kind.name),
        key: None,
        value: Some(Part {
            message: message.map(|kind| kind.value.name),
            version,
            body: value.rest(),
        }),
    })
}

/// An int16 that is written as an unsigned varint.
fn short(input: &mut Reader, field: &'static str) -> Result<i16, DecodeError> {
    let read = input.uvarint().and_then(|number| {
        i16::try_from(number).map_err(|_| DecodeErrorKind::VarintTooLong { bits: 15 }.into())
    });
    read.map_err(|error| error.at(field).at("value"))
}

fn find(topic: Topic, number: i16) -> Option<&'static RecordKind> {
    RECORD_KINDS
        .iter()
        .find(|kind| kind.topic == topic && kind.number == number)
}

/// A kind of control record.
struct Control {
    number: i16,
    name: &'static str,
    schema: Schema,
    /// Is the version the first field of the message, and not a prefix of it?
    version_inside: bool,
}

const CONTROLS: &[Control] = &[
    control(0, "Abort", "EndTxnMarker", 0, false),
    control(1, "Commit", "EndTxnMarker", 0, false),
    control(2, "LeaderChange", "LeaderChangeMessage", 1, true),
    control(3, "SnapshotHeader", "SnapshotHeaderRecord", 0, true),
    control(4, "SnapshotFooter", "SnapshotFooterRecord", 0, true),
    control(5, "KRaftVersion", "KRaftVersionRecord", 0, true),
    control(6, "KRaftVoters", "VotersRecord", 0, true),
];

const fn control(
    number: i16,
    name: &'static str,
    message: &'static str,
    max: i16,
    version_inside: bool,
) -> Control {
    Control {
        number,
        name,
        schema: Schema {
            name: message,
            versions: Versions { min: 0, max },
        },
        version_inside,
    }
}

/// Identifies a record of a control batch, in any topic: the end of a transaction (KIP-98), or a record that KRaft writes for
/// itself (KIP-595, KIP-630, KIP-853).
///
/// # Errors
/// There is no key, or the key or value ends before its type and version.
pub fn identify_control(
    key: Option<Bytes>,
    value: Option<Bytes>,
) -> Result<Identified, DecodeError> {
    let key = key.ok_or_else(|| DecodeError::from(DecodeErrorKind::NullNotAllowed).at("key"))?;
    let mut key = Reader::new(key);
    let key_version = key.i16().map_err(|error| error.at("version").at("key"))?;
    let body = key.clone().rest();
    let number = key.i16().map_err(|error| error.at("type").at("key"))?;
    let control = CONTROLS.iter().find(|control| control.number == number);
    let value = value
        .map(|value| -> Result<Part, DecodeError> {
            let mut after = Reader::new(value);
            let whole = after.clone().rest();
            let version = after
                .i16()
                .map_err(|error| error.at("version").at("value"))?;
            let known = control.filter(|control| control.schema.versions.contains(version));
            Ok(Part {
                message: known.map(|control| control.schema.name),
                version,
                body: match known {
                    Some(control) if control.version_inside => whole,
                    _ => after.rest(),
                },
            })
        })
        .transpose()?;
    Ok(Identified {
        number: Some(number),
        name: control.map(|control| control.name),
        key: Some(Part {
            message: (key_version == 0).then_some("ControlRecordTypeSchema"),
            version: key_version,
            body,
        }),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(parts: &[&[u8]]) -> Option<Bytes> {
        Some(parts.concat().into())
    }

    #[test]
    fn every_number_of_the_newest_release_has_a_kind() {
        let numbers = |topic| -> Vec<i16> {
            let of_topic = RECORD_KINDS.iter().filter(|kind| kind.topic == topic);
            of_topic.map(|kind| kind.number).collect()
        };
        // 9 is of 3.9's early access; 18 was never given away.
        let group: Vec<i16> = (0..=17).chain(19..=23).collect();
        assert_eq!(numbers(Topic::ConsumerOffsets), group);
        assert_eq!(numbers(Topic::TransactionState), [0]);
        assert_eq!(numbers(Topic::ShareGroupState), [0, 1]);
        assert_eq!(numbers(Topic::RemoteLogMetadata), [0, 1, 2, 3]);
        assert_eq!(numbers(Topic::ClusterMetadata).len(), 27);
        for topic in Topic::ALL {
            assert_eq!(Topic::from_name(topic.name()), Some(*topic));
        }
        assert_eq!(Topic::from_name("orders"), None);
    }

    #[test]
    fn coordinators_prefix_keys_with_a_type_and_values_with_a_version() {
        let found = identify(
            Topic::ConsumerOffsets,
            bytes(&[&[0, 1], b"key"]),
            bytes(&[&[0, 3], b"value"]),
        )
        .unwrap();
        assert_eq!(found.number, Some(1));
        assert_eq!(found.name, Some("OffsetCommit"));
        let key = Part {
            message: Some("OffsetCommitKey"),
            version: 0,
            body: Bytes::from_static(b"key"),
        };
        assert_eq!(found.key, Some(key));
        let value = Part {
            message: Some("OffsetCommitValue"),
            version: 3,
            body: Bytes::from_static(b"value"),
        };
        assert_eq!(found.value, Some(value));
    }

    #[test]
    fn a_type_is_of_its_topic() {
        let name = |topic| {
            let found = identify(topic, bytes(&[&[0, 0]]), None).unwrap();
            assert_eq!(found.value, None, "a null value removes the key");
            found.name
        };
        assert_eq!(name(Topic::ConsumerOffsets), Some("LegacyOffsetCommit"));
        assert_eq!(name(Topic::TransactionState), Some("TransactionLog"));
        assert_eq!(name(Topic::ShareGroupState), Some("ShareSnapshot"));
    }

    #[test]
    fn values_of_the_legacy_type_may_be_newer() {
        let message = |version| {
            let value = bytes(&[&[0, version]]);
            let found = identify(Topic::ConsumerOffsets, bytes(&[&[0, 0]]), value).unwrap();
            found.value.unwrap().message
        };
        assert_eq!(message(0), Some("LegacyOffsetCommitValue"));
        assert_eq!(message(1), Some("OffsetCommitValue"));
        assert_eq!(message(9), None);
    }

    #[test]
    fn unknown_types_and_versions_keep_their_bytes() {
        let found = identify(
            Topic::ConsumerOffsets,
            bytes(&[&[1, 0], b"k"]),
            bytes(&[&[0, 0], b"v"]),
        )
        .unwrap();
        assert_eq!((found.number, found.name), (Some(256), None));
        let (key, value) = (found.key.unwrap(), found.value.unwrap());
        assert_eq!((key.message, value.message), (None, None));
        assert_eq!((&key.body[..], &value.body[..]), (&b"k"[..], &b"v"[..]));
        let found = identify(Topic::ClusterMetadata, None, bytes(&[&[1, 2, 100], b"v"])).unwrap();
        assert_eq!(found.name, Some("TopicRecord"));
        assert_eq!(found.value.unwrap().message, None);
    }

    #[test]
    fn metadata_is_framed_by_varints() {
        let found = identify(Topic::ClusterMetadata, None, bytes(&[&[1, 3, 2], b"v"])).unwrap();
        let value = found.value.unwrap();
        assert_eq!(value.message, Some("PartitionRecord"));
        assert_eq!((value.version, &value.body[..]), (2, &b"v"[..]));
        let remote = identify(Topic::RemoteLogMetadata, None, bytes(&[&[1, 3, 0]])).unwrap();
        assert_eq!(remote.name, Some("RemoteLogSegmentMetadataSnapshotRecord"));
    }

    #[test]
    fn control_records_are_known_in_every_topic() {
        let end = identify_control(bytes(&[&[0, 0, 0, 1]]), bytes(&[&[0, 0], &[0, 0, 0, 7]]));
        let end = end.unwrap();
        assert_eq!((end.number, end.name), (Some(1), Some("Commit")));
        let value = end.value.unwrap();
        assert_eq!(value.message, Some("EndTxnMarker"));
        assert_eq!(&value.body[..], [0, 0, 0, 7]);
        let leader = identify_control(bytes(&[&[0, 0, 0, 2]]), bytes(&[&[0, 1], b"x"])).unwrap();
        let value = leader.value.unwrap();
        assert_eq!(value.message, Some("LeaderChangeMessage"));
        assert_eq!((value.version, &value.body[..]), (1, &b"\0\x01x"[..]));
        let unknown = identify_control(bytes(&[&[0, 0, 0, 99]]), bytes(&[b"\0\0x"])).unwrap();
        assert_eq!((unknown.number, unknown.name), (Some(99), None));
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let wrong = |topic, key, value| identify(topic, key, value).unwrap_err().to_string();
        assert_eq!(
            wrong(Topic::ConsumerOffsets, None, None),
            "key: null is not allowed in this version"
        );
        assert_eq!(
            wrong(Topic::ConsumerOffsets, bytes(&[&[0]]), None),
            "key.type: 2 bytes needed, 1 left"
        );
        assert_eq!(
            wrong(Topic::TransactionState, bytes(&[&[0, 0]]), bytes(&[])),
            "value.version: 2 bytes needed, 0 left"
        );
        assert_eq!(
            wrong(Topic::ClusterMetadata, bytes(&[b"k"]), None),
            "key: 1 bytes left over"
        );
        assert_eq!(
            wrong(Topic::ClusterMetadata, None, bytes(&[&[0, 0, 0]])),
            "value.frameVersion: the frame of a metadata record has no version 0 here, only 1"
        );
        assert_eq!(
            wrong(
                Topic::ClusterMetadata,
                None,
                bytes(&[&[1, 0xff, 0xff, 3, 0]])
            ),
            "value.type: a varint of more than 15 bits"
        );
        assert_eq!(
            identify_control(bytes(&[&[0, 0]]), None)
                .unwrap_err()
                .to_string(),
            "key.type: 2 bytes needed, 0 left"
        );
    }
}
