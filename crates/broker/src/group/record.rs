//! Records of `__consumer_offsets` are Kafka's own: the key behind its type and the value behind its version, both an int16.
//! No value means that the key is forgotten. So Kafka's tools read the topic.

use bytes::Bytes;
use ottla_protocol::{EncodeError, Message, Reader, Str, Writer};

/// The version of all keys and values of consumer groups and share groups.
const VERSION: i16 = 0;

/// What the records of a kind of group are about.
pub(crate) trait About: PartialEq + Sized {
    /// What is kept about it.
    type Value;
    /// The group itself.
    const GROUP: Self;

    /// The key's bytes.
    fn to_bytes(&self, group: Str) -> Result<Bytes, EncodeError>;

    /// The group's name, and the key, from what stands behind its type; `None` for a type of another kind of group.
    fn read(number: i16, from: &mut Reader) -> Option<(Str, Self)>;

    /// The value's bytes, at this time in milliseconds since 1970.
    fn value_to_bytes(value: &Self::Value, now: i64) -> Result<Bytes, EncodeError>;

    /// The value of this key.
    fn read_value(&self, from: &mut Reader) -> Option<Self::Value>;
}

/// A record of a consumer group or a share group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record<K: About> {
    pub(crate) group: String,
    pub(super) key: K,
    /// `None`: it is gone.
    pub(super) value: Option<K::Value>,
}

impl<K: About> Record<K> {
    /// The record's key and value, at this time in milliseconds since 1970.
    pub(crate) fn encode(&self, now: i64) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let value = self.value.as_ref();
        let value = value.map(|value| K::value_to_bytes(value, now));
        Ok((
            self.key.to_bytes(self.group.as_str().into())?,
            value.transpose()?,
        ))
    }

    /// Reads a record back; `None` if it is of another kind.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let mut key = Reader::new(Bytes::copy_from_slice(key));
        let (group, key) = K::read(key.i16().ok()?, &mut key)?;
        let value = match value {
            None => None,
            Some(value) => {
                let mut value = Reader::new(Bytes::copy_from_slice(value));
                (value.i16().ok()? == VERSION).then_some(())?;
                Some(key.read_value(&mut value)?)
            }
        };
        Some(Self {
            group: group.to_string(),
            key,
            value,
        })
    }

    /// Does it say that something is there?
    pub(super) fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// Does it say that the group is there no more?
    pub(super) fn is_end(&self) -> bool {
        self.key == K::GROUP && self.value.is_none()
    }
}

/// Reads a key or a value of consumer groups and share groups.
pub(super) fn read<M: Message>(from: &mut Reader) -> Option<M> {
    M::decode(VERSION, from).ok()
}

/// A key of consumer groups and share groups, behind its type.
pub(super) fn keyed<M: Message>(number: i16, key: &M) -> Result<Bytes, EncodeError> {
    versioned(number, key, VERSION)
}

/// A value of theirs.
pub(super) fn valued<M: Message>(value: &M) -> Result<Bytes, EncodeError> {
    versioned(VERSION, value, VERSION)
}

/// A key behind its type, or a value behind its version.
pub(super) fn versioned<M: Message>(
    prefix: i16,
    message: &M,
    version: i16,
) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::with_capacity(2);
    writer.i16(prefix);
    message.encode(version, &mut writer)?;
    Ok(writer.finish().into_bytes())
}
