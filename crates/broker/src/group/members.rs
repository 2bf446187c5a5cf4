//! The record of `__consumer_offsets` that makes a group's members last, with their generation and their assignments.

use bytes::Bytes;
use ottla_protocol::messages::{GroupMetadataKey, GroupMetadataValue};
use ottla_protocol::{EncodeError, Message, Reader};

use super::record::versioned;

/// Type of a group's key, and the version of its value that every Kafka since 2.3 reads.
const KEY_TYPE: i16 = 2;
const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 3;

/// What is kept of a group's members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredMembers {
    pub(crate) group: String,
    /// `None`: the group was deleted.
    pub(crate) kept: Option<GroupMetadataValue>,
}

impl StoredMembers {
    /// The record's key and value, at this time in milliseconds since 1970.
    pub(crate) fn encode(&self, now: i64) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let key = GroupMetadataKey {
            group: self.group.as_str().into(),
        };
        let value = self.kept.as_ref().map(|kept| {
            let mut value = kept.clone();
            value.current_state_timestamp = now;
            versioned(VALUE_VERSION, &value, VALUE_VERSION)
        });
        Ok((versioned(KEY_TYPE, &key, KEY_VERSION)?, value.transpose()?))
    }

    /// Reads a record back; `None` if it is of another kind.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let mut key = Reader::new(Bytes::copy_from_slice(key));
        if key.i16().ok()? != KEY_TYPE {
            return None;
        }
        let key = GroupMetadataKey::decode(KEY_VERSION, &mut key).ok()?;
        let kept = match value {
            None => None,
            Some(value) => {
                let mut value = Reader::new(Bytes::copy_from_slice(value));
                let version = value.i16().ok()?;
                Some(GroupMetadataValue::decode(version, &mut value).ok()?)
            }
        };
        Some(Self {
            group: key.group.to_string(),
            kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::group_metadata_value::MemberMetadata;

    use super::*;

    #[test]
    fn records_are_kafkas_and_come_back() {
        let member = MemberMetadata {
            member_id: "m".into(),
            group_instance_id: Some("i".into()),
            client_id: "c".into(),
            client_host: "/h".into(),
            rebalance_timeout: 2,
            session_timeout: 1,
            subscription: Bytes::from_static(b"s"),
            assignment: Bytes::from_static(b"a"),
            ..MemberMetadata::default()
        };
        let mut stored = StoredMembers {
            group: "g".to_owned(),
            kept: Some(GroupMetadataValue {
                protocol_type: "consumer".into(),
                generation: 5,
                protocol: Some("range".into()),
                leader: Some("m".into()),
                current_state_timestamp: 9,
                members: vec![member],
                ..GroupMetadataValue::default()
            }),
        };
        let (key, value) = stored.encode(9).unwrap();
        assert_eq!(key[..], [0, 2, 0, 1, b'g']);
        let value = value.unwrap();
        let expected = [
            &b"\0\x03\0\x08consumer\0\0\0\x05\0\x05range\0\x01m\0\0\0\0\0\0\0\x09\0\0\0\x01"[..],
            &b"\0\x01m\0\x01i\0\x01c\0\x02/h\0\0\0\x02\0\0\0\x01\0\0\0\x01s\0\0\0\x01a"[..],
        ];
        assert_eq!(value[..], expected.concat());
        assert_eq!(
            StoredMembers::decode(&key, Some(&value)).as_ref(),
            Some(&stored)
        );
        stored.kept = None;
        assert_eq!(StoredMembers::decode(&key, None), Some(stored));
        assert_eq!(StoredMembers::decode(&[0, 1, 0, 1, b'g'], None), None);
    }
}
