//! Descriptors, which are messages themselves (`google/protobuf/descriptor.proto`): the parts of
//! them with types.

use rustc_hash::FxHashMap;

use super::wire::{Value, Wire};
use crate::error::{Bad, Filled, SchemaError};

/// How deep message types nest.
const DEEPEST: usize = 100;

/// `FieldDescriptorProto.Type`.
pub(crate) const MESSAGE: u64 = 11;
/// Not of `FieldDescriptorProto.Type`: a message that is written as a group, as an edition's file
/// can require.
pub(crate) const DELIMITED_MESSAGE: u64 = 1 << 32;

/// The field `features` of `FileOptions`, `MessageOptions`, `FieldOptions` and `OneofOptions`.
const FILE_FEATURES: u32 = 50;
const MESSAGE_FEATURES: u32 = 12;
const FIELD_FEATURES: u32 = 21;
const ONEOF_FEATURES: u32 = 1;

/// The types of some files, by full name; the last file is the one that counts.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) messages: FxHashMap<String, MessageType>,
    pub(crate) enums: FxHashMap<String, FxHashMap<i32, String>>,
    /// Full names of the last file's own messages, in order.
    pub(super) top: Vec<String>,
    /// The first message of the last file that has one.
    first: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct MessageType {
    pub(crate) fields: Vec<FieldType>,
    /// Full names, in order.
    pub(super) nested: Vec<String>,
    pub(crate) is_map_entry: bool,
}

#[derive(Debug, Default)]
pub(crate) struct FieldType {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) is_repeated: bool,
    pub(crate) is_required: bool,
    /// `FieldDescriptorProto.Type`.
    pub(crate) kind: u64,
    /// Full name, of messages and enums.
    pub(crate) type_name: String,
    pub(crate) oneof: Option<u64>,
    pub(crate) has_presence: bool,
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
        if file.first.is_none() {
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

    /// Where a message of the last file stands: what `at` finds it by.
    pub(crate) fn path(&self, name: &str) -> Option<Vec<u64>> {
        fn search(file: &File, names: &[String], wanted: &str) -> Option<Vec<u64>> {
            for (index, name) in (0..).zip(names) {
                if name == wanted {
                    return Some(vec![index]);
                }
                // Names nest as messages do.
                let inner = wanted.strip_prefix(name.as_str());
                if inner.is_some_and(|rest| rest.starts_with('.')) {
                    let nested = &file.messages.get(name)?.nested;
                    return Some([vec![index], search(file, nested, wanted)?].concat());
                }
            }
            None
        }
        search(self, &self.top, name)
    }

    /// The full name of a message: of the one that is named, or of the first of the last file that has one.
    pub(crate) fn message_named(&self, wanted: Option<&str>) -> Result<String, SchemaError> {
        match wanted {
            Some(wanted) => self.find(wanted),
            None => Ok(self.first.clone().unwrap_or_default()),
        }
    }

    fn find(&self, wanted: &str) -> Result<String, SchemaError> {
        let wanted = wanted.trim_start_matches('.');
        if self.messages.contains_key(wanted) {
            return Ok(wanted.to_owned());
        }
        let ending = format!(".{wanted}");
        let mut found: Vec<&String> = self
            .messages
            .keys()
            .filter(|name| name.ends_with(&ending))
            .collect();
        found.sort();
        match found.as_slice() {
            [only] => Ok((*only).clone()),
            _ => {
                let known = if self.top.is_empty() {
                    self.first.as_slice()
                } else {
                    &self.top
                };
                Err(SchemaError(format!(
                    "the Protobuf descriptors have no message {wanted:?}; they have {}",
                    known.join(", ")
                )))
            }
        }
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
        let mut features = Features::PROTO2;
        let mut options = Vec::new();
        let (mut messages, mut enums) = (Vec::new(), Vec::new());
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (2, Value::Bytes(text)) => package = lossy(text),
                (4, Value::Bytes(message)) => messages.push(message),
                (5, Value::Bytes(of_enum)) => enums.push(of_enum),
                (8, Value::Bytes(part)) => options.push(part),
                (12, Value::Bytes(text)) => features = Features::of_syntax(text)?,
                _ => {}
            }
        }
        for options in options {
            features = features.with(options, FILE_FEATURES)?;
        }
        for of_enum in enums {
            self.of_enum(of_enum, &package)?;
        }
        self.top = messages
            .into_iter()
            .map(|message| self.message(message, &package, features, 0))
            .collect::<Result<_, _>>()?;
        if let Some(first) = self.top.first() {
            self.first = Some(first.clone());
        }
        Ok(())
    }

    fn message(
        &mut self,
        bytes: &[u8],
        scope: &str,
        features: Features,
        depth: usize,
    ) -> Filled<String> {
        if depth > DEEPEST {
            return Err(Bad::new(format!("types nest more than {DEEPEST} levels")));
        }
        let mut name = String::new();
        let mut found = MessageType::default();
        let (mut fields, mut nested, mut enums) = (Vec::new(), Vec::new(), Vec::new());
        let (mut oneofs, mut features) = (Vec::new(), features);
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(text)) => name = lossy(text),
                (2, Value::Bytes(field)) => fields.push(field),
                (3, Value::Bytes(message)) => nested.push(message),
                (4, Value::Bytes(of_enum)) => enums.push(of_enum),
                (7, Value::Bytes(options)) => {
                    found.is_map_entry |= flag(options, 7)?;
                    features = features.with(options, MESSAGE_FEATURES)?;
                }
                (8, Value::Bytes(oneof)) => oneofs.push(oneof),
                _ => {}
            }
        }
        let oneofs = oneofs
            .into_iter()
            .map(|oneof| features.of_oneof(oneof))
            .collect::<Filled<Vec<_>>>()?;
        for field in fields {
            let mut field = FieldType::parse(field, features, &oneofs)?;
            // Entries of maps have lengths whatever the features say, and so have their values.
            if field.kind == DELIMITED_MESSAGE && found.is_map_entry {
                field.kind = MESSAGE;
            }
            found.fields.push(field);
        }
        let full = full_name(scope, &name);
        for of_enum in enums {
            self.of_enum(of_enum, &full)?;
        }
        for message in nested {
            let name = self.message(message, &full, features, depth + 1)?;
            found.nested.push(name);
        }
        for field in &mut found.fields {
            let is_entry = |name: &str| {
                self.messages
                    .get(name)
                    .is_some_and(|entry: &MessageType| entry.is_map_entry)
            };
            if field.kind == DELIMITED_MESSAGE && is_entry(&field.type_name) {
                field.kind = MESSAGE;
            }
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
    /// `oneofs` are the features of the message's oneofs.
    fn parse(bytes: &[u8], features: Features, oneofs: &[Features]) -> Filled<Self> {
        let mut found = Self::default();
        let mut is_optional = false;
        let mut is_required = false;
        let mut options = Vec::new();
        let mut wire = Wire(bytes);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(text)) => found.name = lossy(text),
                (3, Value::Varint(number)) => found.number = u32::try_from(number).unwrap_or(0),
                (4, Value::Varint(label)) => {
                    found.is_repeated = label == 3;
                    is_required = label == 2;
                }
                (5, Value::Varint(kind)) => found.kind = kind,
                (6, Value::Bytes(text)) => {
                    found.type_name = lossy(text).trim_start_matches('.').to_owned()
                }
                (8, Value::Bytes(part)) => options.push(part),
                (9, Value::Varint(index)) => found.oneof = Some(index),
                (17, Value::Varint(flag)) => is_optional = flag != 0,
                _ => {}
            }
        }
        let place = found.oneof.and_then(|oneof| usize::try_from(oneof).ok());
        let mut features = place
            .and_then(|place| oneofs.get(place))
            .copied()
            .unwrap_or(features);
        for options in options {
            features = features.with(options, FIELD_FEATURES)?;
        }
        let is_explicit = is_optional || found.oneof.is_some();
        found.is_required =
            is_required || !is_explicit && features.presence == Presence::LegacyRequired;
        found.has_presence = is_explicit || features.presence != Presence::Implicit;
        if found.kind == MESSAGE && features.is_delimited {
            found.kind = DELIMITED_MESSAGE;
        }
        Ok(found)
    }
}

/// Of `google.protobuf.FeatureSet`, what decides how values are written. A file has those of its edition, and whatever is in it
/// inherits what is around it.
#[derive(Debug, Clone, Copy)]
struct Features {
    presence: Presence,
    is_delimited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Explicit,
    Implicit,
    LegacyRequired,
}

impl Features {
    const PROTO2: Self = Self {
        presence: Presence::Explicit,
        is_delimited: false,
    };
    const PROTO3: Self = Self {
        presence: Presence::Implicit,
        is_delimited: false,
    };
    /// Those of 2023, which the later editions have not changed.
    const EDITIONS: Self = Self::PROTO2;

    fn of_syntax(syntax: &[u8]) -> Filled<Self> {
        match syntax {
            b"" | b"proto2" => Ok(Self::PROTO2),
            b"proto3" => Ok(Self::PROTO3),
            b"editions" => Ok(Self::EDITIONS),
            other => Err(Bad::new(format!(
                "a file has the syntax {:?}, which is not known",
                lossy(other)
            ))),
        }
    }

    fn of_oneof(self, oneof: &[u8]) -> Filled<Self> {
        let mut features = self;
        let mut wire = Wire(oneof);
        while let Some(field) = wire.field()? {
            if let (2, Value::Bytes(options)) = field {
                features = features.with(options, ONEOF_FEATURES)?;
            }
        }
        Ok(features)
    }

    /// With those that some options set, which have them in this field.
    fn with(mut self, options: &[u8], place: u32) -> Filled<Self> {
        let mut wire = Wire(options);
        while let Some((number, value)) = wire.field()? {
            let (true, Value::Bytes(set)) = (number == place, value) else {
                continue;
            };
            let mut wire = Wire(set);
            while let Some(feature) = wire.field()? {
                match feature {
                    (1, Value::Varint(1)) => self.presence = Presence::Explicit,
                    (1, Value::Varint(2)) => self.presence = Presence::Implicit,
                    (1, Value::Varint(3)) => self.presence = Presence::LegacyRequired,
                    (5, Value::Varint(1)) => self.is_delimited = false,
                    (5, Value::Varint(2)) => self.is_delimited = true,
                    (number @ (1 | 5), Value::Varint(value)) => {
                        return Err(Bad::new(format!(
                            "feature {number} of Protobuf's editions has the value {value}, which is not known"
                        )));
                    }
                    _ => {}
                }
            }
        }
        Ok(self)
    }
}

/// The last file of some descriptors, which are those of [`File::parse`], and the names of the files that it imports: what a registry
/// is given of them.
///
/// # Errors
/// [`SchemaError`] for bytes that are no descriptors.
pub fn last_file(descriptors: &[Vec<u8>]) -> Result<(&[u8], Vec<String>), SchemaError> {
    /// A set has nothing but files in its field 1, as in `File::any`.
    fn outline(descriptor: &[u8]) -> Filled<(&[u8], Vec<String>)> {
        let mut file = descriptor;
        let mut wire = Wire(descriptor);
        while let Some(field) = wire.field()? {
            match field {
                (1, Value::Bytes(member)) => file = member,
                _ => {
                    file = descriptor;
                    break;
                }
            }
        }
        let mut imports = Vec::new();
        let mut wire = Wire(file);
        while let Some(field) = wire.field()? {
            if let (3, Value::Bytes(name)) = field {
                imports.push(lossy(name));
            }
        }
        Ok((file, imports))
    }
    let last = descriptors.last().map(Vec::as_slice).unwrap_or_default();
    outline(last).map_err(|bad| {
        SchemaError(format!(
            "the Protobuf descriptors do not decode: {}",
            bad.reason()
        ))
    })
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
