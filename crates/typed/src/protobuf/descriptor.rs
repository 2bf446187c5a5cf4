//! Descriptors, which are messages themselves (`google/protobuf/descriptor.proto`): what of them says types.

use rustc_hash::FxHashMap;

use super::wire::{Value, Wire};
use crate::error::{Filled, SchemaError};

/// How deep message types nest.
const DEEPEST: usize = 100;

/// The types of some files, by full name; the last file is the one that counts.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(super) messages: FxHashMap<String, MessageType>,
    pub(super) enums: FxHashMap<String, FxHashMap<i32, String>>,
    /// Full names of the last file's own messages, in order.
    pub(super) top: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct MessageType {
    pub(super) fields: Vec<FieldType>,
    /// Full names, in order.
    pub(super) nested: Vec<String>,
    pub(super) is_map_entry: bool,
}

#[derive(Debug, Default)]
pub(super) struct FieldType {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) is_repeated: bool,
    /// `FieldDescriptorProto.Type`.
    pub(super) kind: u64,
    /// Full name, of messages and enums.
    pub(super) type_name: String,
    pub(super) oneof: Option<u64>,
    pub(super) has_presence: bool,
}

impl File {
    /// Each a `FileDescriptorSet` or a `FileDescriptorProto`, those that a file needs before it.
    pub(crate) fn parse(descriptors: &[Vec<u8>]) -> Result<Self, SchemaError> {
        let mut file = Self::well_known();
        for descriptor in descriptors {
            file.any(descriptor).map_err(|bad| {
                SchemaError(format!(
                    "the Protobuf descriptors do not decode: {}",
                    bad.reason()
                ))
            })?;
        }
        if file.top.is_empty() {
            return Err(SchemaError::new("the Protobuf descriptors hold no message"));
        }
        Ok(file)
    }

    /// Types of Google's own that every compiler brings along, and a registry does not have.
    fn well_known() -> Self {
        let field = |name: &str, number, kind| FieldType {
            name: name.to_owned(),
            number,
            kind,
            ..FieldType::default()
        };
        let mut types = vec![
            (
                "Duration",
                vec![field("seconds", 1, 3), field("nanos", 2, 5)],
            ),
            ("Any", vec![field("type_url", 1, 9), field("value", 2, 12)]),
            ("Empty", Vec::new()),
            (
                "FieldMask",
                vec![FieldType {
                    is_repeated: true,
                    ..field("paths", 1, 9)
                }],
            ),
        ];
        let wrappers = [
            ("DoubleValue", 1),
            ("FloatValue", 2),
            ("Int64Value", 3),
            ("UInt64Value", 4),
            ("Int32Value", 5),
            ("BoolValue", 8),
            ("StringValue", 9),
            ("BytesValue", 12),
            ("UInt32Value", 13),
        ];
        types.extend(wrappers.map(|(name, kind)| (name, vec![field("value", 1, kind)])));
        let of_fields = |fields| MessageType {
            fields,
            ..MessageType::default()
        };
        let named = types
            .into_iter()
            .map(|(name, fields)| (format!("google.protobuf.{name}"), of_fields(fields)));
        Self {
            messages: named.collect(),
            ..Self::default()
        }
    }

    /// The full name of the message at these indexes, as Confluent's serializers write them.
    pub(super) fn at(&self, indexes: &[u64]) -> Option<&str> {
        let mut names = &self.top;
        let mut found = None;
        for index in indexes {
            let name = names.get(usize::try_from(*index).ok()?)?;
            names = &self.messages.get(name)?.nested;
            found = Some(name.as_str());
        }
        found
    }

    /// A set has nothing but files in its field 1, and a file has a message, too.
    fn any(&mut self, bytes: &[u8]) -> Filled {
        let mut files = Vec::new();
        let mut wire = Wire(bytes);
        while let Some((number, value)) = wire.field()? {
            match (number, value) {
                (1, Value::Bytes(file)) => files.push(file),
                _ => return self.file(bytes),
            }
        }
        files.into_iter().try_for_each(|file| self.file(file))
    }

    fn file(&mut self, bytes: &[u8]) -> Filled {
        let mut package = String::new();
        let mut syntax = String::new();
        let (mut messages, mut enums) = (Vec::new(), Vec::new());
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (2, Value::Bytes(text)) => package = lossy(text),
                (4, Value::Bytes(message)) => messages.push(message),
                (5, Value::Bytes(of_enum)) => enums.push(of_enum),
                (12, Value::Bytes(text)) => syntax = lossy(text),
                _ => {}
            }
        }
        let is_proto3 = syntax == "proto3";
        for of_enum in enums {
            self.of_enum(of_enum, &package)?;
        }
        self.top = messages
            .into_iter()
            .map(|message| self.message(message, &package, is_proto3, 0))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn message(
        &mut self,
        bytes: &[u8],
        scope: &str,
        is_proto3: bool,
        depth: usize,
    ) -> Filled<String> {
        if depth > DEEPEST {
            return Err(crate::error::Bad::new(format!(
                "types nest more than {DEEPEST} levels"
            )));
        }
        let mut name = String::new();
        let mut found = MessageType::default();
        let (mut nested, mut enums) = (Vec::new(), Vec::new());
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(text)) => name = lossy(text),
                (2, Value::Bytes(field)) => found.fields.push(FieldType::parse(field, is_proto3)?),
                (3, Value::Bytes(message)) => nested.push(message),
                (4, Value::Bytes(of_enum)) => enums.push(of_enum),
                (7, Value::Bytes(options)) => found.is_map_entry = flag(options, 7)?,
                _ => {}
            }
        }
        let full = full_name(scope, &name);
        for of_enum in enums {
            self.of_enum(of_enum, &full)?;
        }
        for message in nested {
            let name = self.message(message, &full, is_proto3, depth + 1)?;
            found.nested.push(name);
        }
        self.messages.insert(full.clone(), found);
        Ok(full)
    }

    fn of_enum(&mut self, bytes: &[u8], scope: &str) -> Filled {
        let mut name = String::new();
        let mut values = FxHashMap::default();
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(text)) => name = lossy(text),
                (2, Value::Bytes(value)) => {
                    let (mut symbol, mut number) = (String::new(), 0);
                    let mut wire = Wire(value);
                    while let Some(field) = wire.field()? {
                        match field {
                            (1, Value::Bytes(text)) => symbol = lossy(text),
                            (2, Value::Varint(value)) => number = value as i32,
                            _ => {}
                        }
                    }
                    // Of aliases, the first.
                    values.entry(number).or_insert(symbol);
                }
                _ => {}
            }
        }
        self.enums.insert(full_name(scope, &name), values);
        Ok(())
    }
}

impl FieldType {
    fn parse(bytes: &[u8], is_proto3: bool) -> Filled<Self> {
        let mut found = Self::default();
        let mut is_optional = false;
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(text)) => found.name = lossy(text),
                (3, Value::Varint(number)) => found.number = u32::try_from(number).unwrap_or(0),
                (4, Value::Varint(label)) => found.is_repeated = label == 3,
                (5, Value::Varint(kind)) => found.kind = kind,
                (6, Value::Bytes(text)) => {
                    found.type_name = lossy(text).trim_start_matches('.').to_owned()
                }
                (9, Value::Varint(index)) => found.oneof = Some(index),
                (17, Value::Varint(flag)) => is_optional = flag != 0,
                _ => {}
            }
        }
        found.has_presence = !is_proto3 || is_optional || found.oneof.is_some();
        Ok(found)
    }
}

fn flag(bytes: &[u8], wanted: u32) -> Filled<bool> {
    let mut is_set = false;
    let mut wire = Wire(bytes);
    while let Some((number, value)) = wire.field()? {
        if let (true, Value::Varint(value)) = (number == wanted, value) {
            is_set = value != 0;
        }
    }
    Ok(is_set)
}

fn full_name(scope: &str, name: &str) -> String {
    if scope.is_empty() {
        name.to_owned()
    } else {
        format!("{scope}.{name}")
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
