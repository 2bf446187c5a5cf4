//! The schema id that Confluent's serializers put before a value, or into a header of its record.
//!
//! Before the value: magic 0 and the id in 4 bytes, big endian, or magic 1 and a GUID of 16 bytes. In the header
//! `__key_schema_id` or `__value_schema_id`: the same, and the value is the bare payload. For Protobuf, indexes that name the
//! message follow the id in both places.

use crate::error::{Bad, Filled};

/// What stands before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: the value is the payload.
    Plain,
    /// A schema id, as Confluent's serializers write it.
    Confluent,
}

/// Which schema a registry has for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaId {
    /// Magic 0.
    Number(u32),
    /// Magic 1.
    Guid([u8; 16]),
}

impl std::fmt::Display for SchemaId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(id) => write!(out, "{id}"),
            Self::Guid(guid) => {
                for (at, byte) in guid.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) {
                        "-"
                    } else {
                        ""
                    };
                    write!(out, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// A value taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framed<'a> {
    pub(crate) id: SchemaId,
    /// What follows the id.
    pub(crate) rest: &'a [u8],
    /// The payload, where it does not follow the id.
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> Framed<'a> {
    pub(crate) fn new(value: &'a [u8], header: Option<&'a [u8]>) -> Filled<Self> {
        let (id, rest) = id(header.unwrap_or(value)).ok_or_else(|| match (header, value.first()) {
            (Some(_), _) => Bad::new("the header with the schema id is neither magic 0 and 4 bytes nor magic 1 and 16 bytes"),
            (None, Some(magic)) if *magic > 1 => Bad::new(format!(
                "it does not begin with a schema id: its first byte is {magic}, and 0 or 1 is wanted"
            )),
            (None, _) => Bad::new("it is too short for a schema id"),
        })?;
        let value = header.map(|_| value);
        Ok(Self { id, rest, value })
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        self.value.unwrap_or(self.rest)
    }
}

fn id(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    let (magic, rest) = bytes.split_first()?;
    match magic {
        0 => {
            let (id, rest) = rest.split_first_chunk()?;
            Some((SchemaId::Number(u32::from_be_bytes(*id)), rest))
        }
        1 => {
            let (guid, rest) = rest.split_first_chunk()?;
            Some((SchemaId::Guid(*guid), rest))
        }
        _ => None,
    }
}
