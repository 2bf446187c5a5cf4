//! The wire format: tags, and what stands behind them.

use crate::error::{Bad, Filled};
use crate::varint::varint;

/// How deep groups nest, which are only passed over.
const DEEPEST: usize = 100;

#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a>(pub(super) &'a [u8]);

/// A field as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
    /// Of two tags that nobody makes any more.
    Group,
}

/// How a value stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Fixed32,
    Bytes,
    Group,
}

impl Value<'_> {
    pub(super) fn wire_type(self) -> WireType {
        match self {
            Value::Varint(_) => WireType::Varint,
            Value::Fixed64(_) => WireType::Fixed64,
            Value::Fixed32(_) => WireType::Fixed32,
            Value::Bytes(_) => WireType::Bytes,
            Value::Group => WireType::Group,
        }
    }
}

impl<'a> Wire<'a> {
    /// The next field; `None` at the end.
    pub(super) fn field(&mut self) -> Filled<Option<(u32, Value<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        self.value(number, kind, 0)
            .map(|value| Some((number, value)))
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Filled<u64> {
        let (value, rest) =
            varint(self.0).ok_or_else(|| Bad::new("it is no Protobuf: a number does not end"))?;
        self.0 = rest;
        Ok(value)
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Filled<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or_else(|| {
            Bad::new(format!(
                "it is no Protobuf: {N} bytes are wanted, and {} are left",
                self.0.len()
            ))
        })?;
        self.0 = rest;
        Ok(*chunk)
    }

    fn tag(&mut self) -> Filled<(u32, u64)> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if (1..1 << 29).contains(&number) => Ok((number, tag & 7)),
            _ => Err(Bad::new(format!(
                "it is no Protobuf: there is no field {}",
                tag >> 3
            ))),
        }
    }

    fn value(&mut self, number: u32, kind: u64, depth: usize) -> Filled<Value<'a>> {
        Ok(match kind {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.chunk()?),
            2 => {
                let length = self.varint()?;
                let parts = usize::try_from(length)
                    .ok()
                    .and_then(|length| self.0.split_at_checked(length));
                let (bytes, rest) = parts.ok_or_else(|| {
                    Bad::new(format!(
                        "it is no Protobuf: {length} bytes are wanted, and {} are left",
                        self.0.len()
                    ))
                })?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            3 if depth < DEEPEST => loop {
                let (inner, kind) = self.tag()?;
                if kind == 4 {
                    if inner == number {
                        break Value::Group;
                    }
                    return Err(Bad::new(
                        "it is no Protobuf: a group ends that did not begin",
                    ));
                }
                self.value(inner, kind, depth + 1)?;
            },
            5 => Value::Fixed32(self.chunk()?),
            _ => return Err(Bad::new(format!("it is no Protobuf: wire type {kind}"))),
        })
    }
}
