//! A message type as columns, and its values into them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use rustc_hash::FxHashMap;

use super::descriptor::{DELIMITED_MESSAGE, FieldType, File, MessageType};
use super::wire::{Value, Wire, WireType};
use crate::column::{self, Budget, Column, List, Struct, Values};
use crate::error::{Bad, Filled, SchemaError};
use crate::frame::Framed;

const TIMESTAMP: &str = "google.protobuf.Timestamp";
/// How deep messages nest.
const DEEPEST: usize = 100;
/// Indexes of a nested message, as deep as types nest.
const MOST_INDEXES: u64 = 100;

#[derive(Debug, Clone)]
pub(crate) struct Protobuf {
    name: String,
    root: Message,
}

#[derive(Debug, Clone)]
struct Message {
    fields: Vec<Member>,
    by_number: FxHashMap<u32, usize>,
    /// By its number, a field of a oneof that is not read.
    passed_over: FxHashMap<u32, PassedOver>,
}

/// A field that takes the place of other members of its oneof, and of which nothing else is wanted.
#[derive(Debug, Clone, Copy)]
struct PassedOver {
    oneof: u64,
    wire: WireType,
}

#[derive(Debug, Clone)]
struct Member {
    kind: Kind,
    wire: WireType,
    cardinality: Cardinality,
    oneof: Option<u64>,
    has_presence: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cardinality {
    One,
    Many,
    Map,
}

#[derive(Debug, Clone)]
enum Kind {
    Scalar(Scalar),
    /// Names by number.
    Enum(FxHashMap<i32, String>),
    Message(Message),
    Timestamp,
}

#[derive(Debug, Clone, Copy)]
enum Scalar {
    Double,
    Float,
    Int64,
    UInt64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    Text,
    Bytes,
    UInt32,
    SFixed32,
    SFixed64,
    SInt32,
    SInt64,
}

impl Protobuf {
    /// The columns of a message, or those of them that are selected: of the others no type has to have a column.
    pub(crate) fn new(
        file: &File,
        message: Option<&str>,
        select: Option<&[String]>,
    ) -> Result<(Fields, Self), SchemaError> {
        let name = file.message_named(message)?;
        let builder = Builder {
            file,
            budget: Budget::default(),
        };
        let known = builder.of(&name)?.fields.iter();
        column::check_selection(select, known.map(|field| field.name.as_str()))?;
        let (fields, root) = builder.message(&name, &mut Vec::new(), select)?;
        Ok((fields, Self { name, root }))
    }

    /// Only the fields at these places, in this order.
    pub(crate) fn select(&mut self, places: &[usize]) {
        let all = std::mem::take(&mut self.root.fields);
        for (number, place) in std::mem::take(&mut self.root.by_number) {
            match places.iter().position(|wanted| *wanted == place) {
                Some(index) => {
                    self.root.by_number.insert(number, index);
                }
                None => {
                    let passed_over = all.get(place).and_then(Member::passed_over);
                    self.root
                        .passed_over
                        .extend(passed_over.map(|passed_over| (number, passed_over)));
                }
            }
        }
        let left = places.iter().filter_map(|place| all.get(*place).cloned());
        self.root.fields = left.collect();
    }

    pub(crate) fn fill(&self, columns: &mut Struct, row: usize, value: &[u8]) -> Filled {
        self.root.fill(columns, row, value)
    }

    /// A value that indexes of its message stand before: the writer's type must be the one that is read. Fields are known by
    /// their numbers, so that the reader's descriptors read what any version of it wrote.
    pub(crate) fn fill_framed(
        &self,
        columns: &mut Struct,
        row: usize,
        writer: &File,
        framed: &Framed<'_>,
    ) -> Filled {
        let mut wire = Wire(framed.rest);
        let count = zigzag(wire.varint()?);
        let mut indexes = Vec::new();
        match u64::try_from(count) {
            Ok(0) => indexes.push(0),
            Ok(count) if count <= MOST_INDEXES => {
                for _ in 0..count {
                    let index = zigzag(wire.varint()?);
                    indexes.push(
                        u64::try_from(index)
                            .map_err(|_| Bad::new("an index of a message is negative"))?,
                    );
                }
            }
            _ => return Err(Bad::new(format!("{count} indexes lead to no message"))),
        }
        let written = writer.at(&indexes).ok_or_else(|| {
            Bad::new(format!(
                "its schema {} has no message at {indexes:?}",
                framed.id
            ))
        })?;
        if written != self.name {
            return Err(Bad::new(format!(
                "message {} is wanted, not {written}",
                self.name
            )));
        }
        self.fill(columns, row, framed.value.unwrap_or(wire.0))
    }
}

struct Builder<'a> {
    file: &'a File,
    budget: Budget,
}

impl Builder<'_> {
    fn message(
        &self,
        name: &str,
        above: &mut Vec<String>,
        select: Option<&[String]>,
    ) -> Result<(Fields, Message), SchemaError> {
        if above.iter().any(|outer| outer == name) {
            return Err(SchemaError(format!(
                "the Protobuf message {name} contains itself, which no column holds"
            )));
        }
        if above.len() >= DEEPEST {
            return Err(SchemaError(format!(
                "the Protobuf message nests more than {DEEPEST} levels"
            )));
        }
        above.push(name.to_owned());
        let mut fields = Vec::new();
        let mut members = Vec::new();
        let mut by_number = FxHashMap::default();
        let mut passed_over = FxHashMap::default();
        for field in &self.of(name)?.fields {
            if !column::is_selected(select, &field.name) {
                let wire = wire_type(field.kind);
                passed_over.extend(field.oneof.zip(wire).map(|(oneof, wire)| {
                    let field_of_oneof = PassedOver { oneof, wire };
                    (field.number, field_of_oneof)
                }));
                continue;
            }
            self.budget.spend()?;
            let (data_type, member) = self
                .member(field, above)
                .map_err(|error| SchemaError(format!("{}: {error}", field.name)))?;
            by_number.insert(field.number, members.len());
            fields.push(Field::new(&field.name, data_type, true));
            members.push(member);
        }
        above.pop();
        let message = Message {
            fields: members,
            by_number,
            passed_over,
        };
        Ok((fields.into(), message))
    }

    fn of(&self, name: &str) -> Result<&MessageType, SchemaError> {
        self.file
            .messages
            .get(name)
            .ok_or_else(|| SchemaError(format!("the Protobuf descriptors lack the message {name}: pass the files that are imported, too")))
    }

    fn member(
        &self,
        field: &FieldType,
        above: &mut Vec<String>,
    ) -> Result<(DataType, Member), SchemaError> {
        let wire = wire_type(field.kind).ok_or_else(|| unknown_type(field.kind))?;
        let member = |kind, cardinality| Member {
            kind,
            wire,
            cardinality,
            oneof: field.oneof,
            has_presence: field.has_presence,
        };
        if field.is_repeated && field.kind == 11 && self.of(&field.type_name)?.is_map_entry {
            let (entry, message) = self.message(&field.type_name, above, None)?;
            let [key, value] = entry.as_ref() else {
                return Err(SchemaError::new(
                    "the entry of a map has other fields than key and value",
                ));
            };
            let data_type = column::map(key.data_type().clone(), value.data_type().clone(), true);
            return Ok((data_type, member(Kind::Message(message), Cardinality::Map)));
        }
        let (data_type, kind) = self.kind(field, above)?;
        if field.is_repeated {
            let item = Field::new("element", data_type, true);
            return Ok((
                DataType::List(Arc::new(item)),
                member(kind, Cardinality::Many),
            ));
        }
        Ok((data_type, member(kind, Cardinality::One)))
    }

    fn kind(
        &self,
        field: &FieldType,
        above: &mut Vec<String>,
    ) -> Result<(DataType, Kind), SchemaError> {
        let (data_type, scalar) = match field.kind {
            1 => (DataType::Float64, Scalar::Double),
            2 => (DataType::Float32, Scalar::Float),
            3 => (DataType::Int64, Scalar::Int64),
            4 => (DataType::UInt64, Scalar::UInt64),
            5 => (DataType::Int32, Scalar::Int32),
            6 => (DataType::UInt64, Scalar::Fixed64),
            7 => (DataType::UInt32, Scalar::Fixed32),
            8 => (DataType::Boolean, Scalar::Bool),
            9 => (DataType::Utf8, Scalar::Text),
            11 if field.type_name == TIMESTAMP => {
                let data_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                return Ok((data_type, Kind::Timestamp));
            }
            11 => {
                let (fields, message) = self.message(&field.type_name, above, None)?;
                return Ok((DataType::Struct(fields), Kind::Message(message)));
            }
            12 => (DataType::Binary, Scalar::Bytes),
            13 => (DataType::UInt32, Scalar::UInt32),
            14 => {
                let names = self.file.enums.get(&field.type_name).cloned();
                let names = names.ok_or_else(|| {
                    SchemaError(format!(
                        "the Protobuf descriptors lack the enum {}",
                        field.type_name
                    ))
                })?;
                return Ok((DataType::Utf8, Kind::Enum(names)));
            }
            15 => (DataType::Int32, Scalar::SFixed32),
            16 => (DataType::Int64, Scalar::SFixed64),
            17 => (DataType::Int32, Scalar::SInt32),
            18 => (DataType::Int64, Scalar::SInt64),
            10 => {
                return Err(SchemaError::new(
                    "it is a group, which no column is made of",
                ));
            }
            DELIMITED_MESSAGE => {
                return Err(SchemaError::new(
                    "its feature message_encoding is DELIMITED: it is written as a group, which no column is made of",
                ));
            }
            other => return Err(unknown_type(other)),
        };
        Ok((data_type, Kind::Scalar(scalar)))
    }
}

impl Message {
    fn fill(&self, columns: &mut Struct, row: usize, bytes: &[u8]) -> Filled {
        // Messages that come in several parts count as one: the parts, one behind the other.
        let mut inner: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
        let mut wire = Wire(bytes);
        while let Some((number, value)) = wire.field()? {
            let Some(&index) = self.by_number.get(&number) else {
                if let Some(field) = self.passed_over.get(&number)
                    && field.wire == value.wire_type()
                {
                    self.keep_last(field.oneof, None, columns, row, &mut inner);
                }
                continue;
            };
            let (Some(member), Some(column)) =
                (self.fields.get(index), columns.columns.get_mut(index))
            else {
                continue;
            };
            // Another wire type than the descriptor's makes it an unknown field, as for Google's libraries.
            if !member.is_on_the_wire_as(value) {
                continue;
            }
            let is_message = member.kind.is_message();
            match (member.cardinality, value) {
                (Cardinality::One, Value::Bytes(part)) if is_message => {
                    match inner.iter_mut().find(|(place, _)| *place == index) {
                        Some((_, whole)) => whole.to_mut().extend_from_slice(part),
                        None => inner.push((index, Cow::Borrowed(part))),
                    }
                }
                (Cardinality::One, value) => {
                    column.truncate(row);
                    single(&member.kind, column, value)
                        .map_err(|bad| bad.within(column.field.name()))?;
                }
                (Cardinality::Many | Cardinality::Map, value) => {
                    member
                        .add(column, value)
                        .map_err(|bad| bad.within(column.field.name()))?;
                }
            }
            if let Some(oneof) = member.oneof {
                self.keep_last(oneof, Some(index), columns, row, &mut inner);
            }
        }
        for (index, bytes) in inner {
            if let (Some(member), Some(column)) =
                (self.fields.get(index), columns.columns.get_mut(index))
            {
                single(&member.kind, column, Value::Bytes(&bytes))
                    .map_err(|bad| bad.within(column.field.name()))?;
            }
        }
        for (index, (member, column)) in self.fields.iter().zip(&mut columns.columns).enumerate() {
            let is_there = column.len() > row;
            match &mut column.values {
                Values::List(list) | Values::Map(list) => {
                    if member.cardinality == Cardinality::Map {
                        let superseded = list.superseded();
                        if !superseded.is_empty() {
                            self.last_entries(index, list, bytes, &superseded)?;
                        }
                    }
                    list.end()?;
                    column.push_valid();
                }
                _ if is_there => {}
                _ if member.has_presence || member.kind.is_message() => column.push_null(),
                _ => member.kind.push_default(column)?,
            }
        }
        Ok(())
    }

    /// Reads the entries of a map again, without those whose key comes again.
    fn last_entries(
        &self,
        index: usize,
        list: &mut List,
        bytes: &[u8],
        superseded: &[usize],
    ) -> Filled {
        list.child.truncate(list.start());
        let member = self.fields.get(index).ok_or_else(unfit)?;
        let mut place = 0;
        let mut wire = Wire(bytes);
        while let Some((number, value)) = wire.field()? {
            if self.by_number.get(&number) == Some(&index) && member.is_on_the_wire_as(value) {
                let before = list.next();
                member.entry(list, value)?;
                if superseded.binary_search(&place).is_ok() {
                    list.child.truncate(before);
                }
                place += 1;
            }
        }
        Ok(())
    }

    /// Takes back the members of a oneof that came before its last one, which is the one that counts.
    fn keep_last(
        &self,
        oneof: u64,
        last: Option<usize>,
        columns: &mut Struct,
        row: usize,
        inner: &mut Vec<(usize, Cow<'_, [u8]>)>,
    ) {
        let is_other = |place: usize| {
            Some(place) != last
                && self
                    .fields
                    .get(place)
                    .is_some_and(|member| member.oneof == Some(oneof))
        };
        inner.retain(|(place, _)| !is_other(*place));
        for (place, column) in columns.columns.iter_mut().enumerate() {
            if column.len() > row && is_other(place) {
                column.truncate(row);
            }
        }
    }
}

impl Member {
    fn passed_over(&self) -> Option<PassedOver> {
        let wire = self.wire;
        self.oneof.map(|oneof| PassedOver { oneof, wire })
    }

    /// Whether a value has the wire type of the descriptor; many numbers may stand in bytes, too.
    fn is_on_the_wire_as(&self, value: Value<'_>) -> bool {
        let found = value.wire_type();
        let may_be_packed = self.cardinality == Cardinality::Many && self.wire != WireType::Group;
        found == self.wire || may_be_packed && found == WireType::Bytes
    }

    /// Elements of a list, or an entry of a map.
    fn add(&self, column: &mut Column, value: Value<'_>) -> Filled {
        match &mut column.values {
            Values::Map(list) => self.entry(list, value),
            Values::List(list) => match (&self.kind, value) {
                (
                    Kind::Scalar(Scalar::Text | Scalar::Bytes) | Kind::Message(_) | Kind::Timestamp,
                    value,
                ) => single(&self.kind, &mut list.child, value),
                (kind, Value::Bytes(packed)) => {
                    let mut wire = Wire(packed);
                    while !wire.0.is_empty() {
                        let value = match kind {
                            Kind::Scalar(Scalar::Double | Scalar::Fixed64 | Scalar::SFixed64) => {
                                Value::Fixed64(wire.chunk()?)
                            }
                            Kind::Scalar(Scalar::Float | Scalar::Fixed32 | Scalar::SFixed32) => {
                                Value::Fixed32(wire.chunk()?)
                            }
                            _ => Value::Varint(wire.varint()?),
                        };
                        single(kind, &mut list.child, value)?;
                    }
                    Ok(())
                }
                (kind, value) => single(kind, &mut list.child, value),
            },
            _ => Err(unfit()),
        }
    }

    fn entry(&self, list: &mut List, value: Value<'_>) -> Filled {
        let (Kind::Message(entry), Value::Bytes(bytes)) = (&self.kind, value) else {
            return Err(Bad::new("the entry of a map is no message"));
        };
        let row = list.child.len();
        let Values::Struct(inner) = &mut list.child.values else {
            return Err(unfit());
        };
        entry.fill(inner, row, bytes)?;
        for (member, column) in entry.fields.iter().zip(&mut inner.columns) {
            if column.is_null_at(row) {
                column.truncate(row);
                member.kind.push_default(column)?;
            }
        }
        list.child.push_valid();
        Ok(())
    }
}

impl Kind {
    fn is_message(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Timestamp)
    }

    /// What a key or a value is that its entry does not have, and a field without presence that is not on the wire.
    fn push_default(&self, column: &mut Column) -> Filled {
        let zero = match self {
            Self::Message(_) | Self::Timestamp => Value::Bytes(&[]),
            Self::Enum(_) => Value::Varint(0),
            Self::Scalar(scalar) => match scalar {
                Scalar::Double | Scalar::Fixed64 | Scalar::SFixed64 => Value::Fixed64([0; 8]),
                Scalar::Float | Scalar::Fixed32 | Scalar::SFixed32 => Value::Fixed32([0; 4]),
                Scalar::Text | Scalar::Bytes => Value::Bytes(&[]),
                _ => Value::Varint(0),
            },
        };
        single(self, column, zero)
    }
}

/// One value into a column.
fn single(kind: &Kind, column: &mut Column, value: Value<'_>) -> Filled {
    let row = column.len();
    match (kind, value) {
        (Kind::Message(message), Value::Bytes(bytes)) => {
            let Values::Struct(inner) = &mut column.values else {
                return Err(unfit());
            };
            message.fill(inner, row, bytes)?;
        }
        (Kind::Timestamp, Value::Bytes(bytes)) => {
            let Values::Timestamp(_, values) = &mut column.values else {
                return Err(unfit());
            };
            values.push(timestamp(bytes)?);
        }
        (Kind::Enum(names), Value::Varint(number)) => {
            let Values::Text(slices) = &mut column.values else {
                return Err(unfit());
            };
            let number = number as i32;
            match names.get(&number) {
                Some(name) => slices.push(name.as_bytes())?,
                None => slices.push(number.to_string().as_bytes())?,
            }
        }
        (Kind::Scalar(kind), value) => scalar(*kind, &mut column.values, value)?,
        _ => return Err(unfit()),
    }
    column.push_valid();
    Ok(())
}

fn scalar(kind: Scalar, values: &mut Values, value: Value<'_>) -> Filled {
    match (kind, values, value) {
        (Scalar::Double, Values::Float64(values), Value::Fixed64(bytes)) => {
            values.push(f64::from_le_bytes(bytes))
        }
        (Scalar::Float, Values::Float32(values), Value::Fixed32(bytes)) => {
            values.push(f32::from_le_bytes(bytes))
        }
        (Scalar::Int64, Values::Int64(values), Value::Varint(number)) => values.push(number as i64),
        (Scalar::UInt64, Values::UInt64(values), Value::Varint(number)) => values.push(number),
        // The wire has the 64 bits of a negative one; only the lower half counts, as for all others of 32 bits.
        (Scalar::Int32, Values::Int32(values), Value::Varint(number)) => values.push(number as i32),
        (Scalar::UInt32, Values::UInt32(values), Value::Varint(number)) => {
            values.push(number as u32)
        }
        (Scalar::SInt32, Values::Int32(values), Value::Varint(number)) => {
            values.push(zigzag(u64::from(number as u32)) as i32);
        }
        (Scalar::SInt64, Values::Int64(values), Value::Varint(number)) => {
            values.push(zigzag(number))
        }
        (Scalar::Fixed64, Values::UInt64(values), Value::Fixed64(bytes)) => {
            values.push(u64::from_le_bytes(bytes))
        }
        (Scalar::Fixed32, Values::UInt32(values), Value::Fixed32(bytes)) => {
            values.push(u32::from_le_bytes(bytes))
        }
        (Scalar::SFixed64, Values::Int64(values), Value::Fixed64(bytes)) => {
            values.push(i64::from_le_bytes(bytes))
        }
        (Scalar::SFixed32, Values::Int32(values), Value::Fixed32(bytes)) => {
            values.push(i32::from_le_bytes(bytes))
        }
        (Scalar::Bool, Values::Boolean(values), Value::Varint(number)) => values.push(number != 0),
        (Scalar::Text, Values::Text(slices), Value::Bytes(bytes)) => {
            if std::str::from_utf8(bytes).is_err() {
                return Err(Bad::new("a string is not UTF-8"));
            }
            slices.push(bytes)?;
        }
        (Scalar::Bytes, Values::Binary(slices), Value::Bytes(bytes)) => slices.push(bytes)?,
        _ => return Err(unfit()),
    }
    Ok(())
}

/// Microseconds since 1970 of a `google.protobuf.Timestamp`; what is finer is cut off.
fn timestamp(bytes: &[u8]) -> Filled<i64> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut wire = Wire(bytes);
    while let Some(field) = wire.field()? {
        match field {
            (1, Value::Varint(value)) => seconds = value as i64,
            (2, Value::Varint(value)) => nanoseconds = value as i32,
            _ => {}
        }
    }
    let whole = seconds.checked_mul(1_000_000);
    let all = whole.and_then(|whole| whole.checked_add(i64::from(nanoseconds / 1000)));
    all.ok_or_else(|| Bad::new(format!("{seconds} seconds since 1970 are no time")))
}

/// How a value of this `FieldDescriptorProto.Type` stands on the wire.
fn wire_type(kind: u64) -> Option<WireType> {
    Some(match kind {
        1 | 6 | 16 => WireType::Fixed64,
        2 | 7 | 15 => WireType::Fixed32,
        3..=5 | 8 | 13 | 14 | 17 | 18 => WireType::Varint,
        9 | 11 | 12 => WireType::Bytes,
        10 | DELIMITED_MESSAGE => WireType::Group,
        _ => return None,
    })
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn unknown_type(kind: u64) -> SchemaError {
    SchemaError(format!("its type has number {kind}, which is not known"))
}

fn unfit() -> Bad {
    Bad::new("the message does not fit the column")
}
