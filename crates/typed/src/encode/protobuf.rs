//! Columns to Protobuf's wire format, by descriptors.
//!
//! Fields are found by name, and written in the order of their numbers. A null is not written; nor
//! is a default where the field has no presence. Lists of numbers are packed, which every parser
//! reads. A column without a field is an error: its values would be lost.

use rustc_hash::FxHashMap;

use super::column::{Cells, Column, at};
use crate::column::DecimalType;
use crate::error::{Bad, Filled, SchemaError};
use crate::protobuf::{DELIMITED_MESSAGE, FieldType, File};
use crate::time;
use crate::varint::put_varint as varint;

const TIMESTAMP: &str = "google.protobuf.Timestamp";

/// What stands behind a tag.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const SIZED: u32 = 2;
const FIXED32: u32 = 5;

#[derive(Debug)]
pub(super) struct Message {
    fields: Vec<Field>,
    /// Whether one of them excludes others.
    has_oneofs: bool,
}

#[derive(Debug)]
struct Field {
    column: Column,
    number: u32,
    cardinality: Cardinality,
    oneof: Option<u64>,
    write: Write,
}

#[derive(Debug)]
enum Cardinality {
    One {
        has_presence: bool,
        is_required: bool,
    },
    Many(Box<Field>),
    Map {
        key: Box<Field>,
        value: Box<Field>,
    },
}

#[derive(Debug)]
enum Write {
    Double,
    Float,
    Number(Range, Form),
    Bool,
    Text,
    Bytes,
    /// Numbers by name.
    Enum(FxHashMap<String, i32>),
    Message(Message),
    Timestamp,
}

/// The whole numbers of a field's type.
#[derive(Debug, Clone, Copy)]
enum Range {
    Int32,
    Int64,
    UInt32,
    UInt64,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Varint,
    Zigzag,
    Fixed32,
    Fixed64,
}

impl Message {
    /// The columns as the fields of a message.
    pub(super) fn new(file: &File, name: &str, columns: Vec<Column>) -> Result<Self, SchemaError> {
        let types = file.messages.get(name).ok_or_else(|| {
            SchemaError(format!(
                "the Protobuf descriptors lack the message {name}: pass the files that are imported, too"
            ))
        })?;
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let found = types.fields.iter().find(|field| field.name == column.name);
            let found = found.ok_or_else(|| {
                SchemaError(format!(
                    "the message {name} has no field for column {:?}: drop the column, or add the field",
                    column.name
                ))
            })?;
            let column_name = column.name.clone();
            fields.push(
                Field::new(file, found, column).map_err(|error| within(&column_name, error))?,
            );
        }
        let missing = types.fields.iter().find(|field| {
            field.is_required && fields.iter().all(|known| known.number != field.number)
        });
        if let Some(field) = missing {
            return Err(SchemaError(format!(
                "there is no column {:?}, which the message {name} requires",
                field.name
            )));
        }
        fields.sort_by_key(|field| field.number);
        let has_oneofs = fields.iter().enumerate().any(|(place, field)| {
            field.oneof.is_some()
                && fields
                    .iter()
                    .skip(place + 1)
                    .any(|other| other.oneof == field.oneof)
        });
        Ok(Self { fields, has_oneofs })
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        for (place, field) in self.fields.iter().enumerate() {
            let name = &field.column.name;
            if self.has_oneofs && field.oneof.is_some() && !field.column.is_null(row) {
                let mut others = self.fields.iter().skip(place + 1);
                if let Some(other) =
                    others.find(|other| other.oneof == field.oneof && !other.column.is_null(row))
                {
                    return Err(Bad::new(format!(
                        "it has a value, and so has {}, of which the message takes one",
                        other.column.name
                    ))
                    .within(name));
                }
            }
            field.write(row, out).map_err(|bad| bad.within(name))?;
        }
        Ok(())
    }
}

impl Field {
    fn new(file: &File, field: &FieldType, column: Column) -> Result<Self, SchemaError> {
        if !field.is_repeated {
            return Self::one(file, field, column);
        }
        let entry = file
            .messages
            .get(&field.type_name)
            .filter(|entry| entry.is_map_entry);
        let cardinality = match (&column.cells, entry) {
            (Cells::Map(_, key, value), Some(entry)) => {
                let [key_type, value_type] = entry.fields.as_slice() else {
                    return Err(SchemaError::new(
                        "the entry of a map has other fields than key and value",
                    ));
                };
                Cardinality::Map {
                    key: Box::new(Self::one(file, key_type, (**key).clone())?.always()),
                    value: Box::new(
                        Self::one(file, value_type, (**value).clone())
                            .map_err(|error| within("{}", error))?
                            .always(),
                    ),
                }
            }
            (Cells::List(_, element), None) => Cardinality::Many(Box::new(
                Self::one(file, field, (**element).clone())
                    .map_err(|error| within("[]", error))?
                    .always(),
            )),
            (Cells::Null, _) => Cardinality::One {
                has_presence: true,
                is_required: false,
            },
            (cells, entry) => {
                let wanted = if entry.is_some() {
                    "a map"
                } else {
                    "a repeated field"
                };
                return Err(SchemaError(format!(
                    "{} does not become {wanted} of Protobuf",
                    cells.kind()
                )));
            }
        };
        Ok(Self {
            column,
            number: field.number,
            cardinality,
            oneof: None,
            write: Write::Bytes,
        })
    }

    fn one(file: &File, field: &FieldType, column: Column) -> Result<Self, SchemaError> {
        Ok(Self {
            number: field.number,
            cardinality: Cardinality::One {
                has_presence: field.has_presence || field.kind == 11,
                is_required: field.is_required,
            },
            oneof: field.oneof,
            write: Write::new(file, field, &column)?,
            column,
        })
    }

    /// Written with its default, too.
    fn always(mut self) -> Self {
        self.cardinality = Cardinality::One {
            has_presence: true,
            is_required: true,
        };
        self
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        if self.column.is_null(row) {
            return match self.cardinality {
                Cardinality::One {
                    is_required: true, ..
                } => Err(Bad::new("it is null, and Protobuf has no null there")),
                _ => Ok(()),
            };
        }
        match (&self.cardinality, &self.column.cells) {
            (Cardinality::One { has_presence, .. }, cells) => {
                let start = out.len();
                tag(self.number, self.write.wire(), out);
                let body = out.len();
                self.write.value(cells, row, out)?;
                // Numbers and lengths of zero are bytes of zero, and nothing else is.
                let is_default = |body: &[u8]| body.iter().all(|byte| *byte == 0);
                if !has_presence && out.get(body..).is_some_and(is_default) {
                    out.truncate(start);
                }
            }
            (Cardinality::Many(element), Cells::List(offsets, _)) => {
                let places = offsets.at(row);
                if places.is_empty() {
                    return Ok(());
                }
                if element.write.wire() == SIZED {
                    for (index, place) in places.enumerate() {
                        element
                            .write(place, out)
                            .map_err(|bad| bad.element(index))?;
                    }
                } else {
                    tag(self.number, SIZED, out);
                    sized(out, |out| {
                        for (index, place) in places.enumerate() {
                            element
                                .packed(place, out)
                                .map_err(|bad| bad.element(index))?;
                        }
                        Ok(())
                    })?;
                }
            }
            (Cardinality::Map { key, value }, Cells::Map(offsets, ..)) => {
                for (index, place) in offsets.at(row).enumerate() {
                    tag(self.number, SIZED, out);
                    sized(out, |out| {
                        key.write(place, out)?;
                        value.write(place, out)
                    })
                    .map_err(|bad| bad.element(index))?;
                }
            }
            _ => return Err(unfit()),
        }
        Ok(())
    }

    /// An element without its tag.
    fn packed(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        if self.column.is_null(row) {
            return Err(Bad::new("it is null, and Protobuf has no null there"));
        }
        self.write.value(&self.column.cells, row, out)
    }
}

impl Write {
    fn new(file: &File, field: &FieldType, column: &Column) -> Result<Self, SchemaError> {
        let cells = &column.cells;
        let is_whole = matches!(
            cells,
            Cells::Integer(_)
                | Cells::UInt64(_)
                | Cells::Decimal(DecimalType { scale: 0, .. }, _)
                | Cells::Null
        );
        if let (Some((range, form)), true) = (number_type(field.kind), is_whole) {
            return Ok(Self::Number(range, form));
        }
        Ok(match (field.kind, cells) {
            (1, Cells::Float(_) | Cells::Double(_) | Cells::Null) => Self::Double,
            (2, Cells::Float(_) | Cells::Null) => Self::Float,
            (8, Cells::Boolean(_) | Cells::Null) => Self::Bool,
            (9, Cells::Text(_) | Cells::Null) => Self::Text,
            (11, Cells::Timestamp { .. }) if field.type_name == TIMESTAMP => Self::Timestamp,
            (11, Cells::Struct(columns)) => {
                Self::Message(Message::new(file, &field.type_name, columns.clone())?)
            }
            (11, Cells::Null) => Self::Bytes,
            (12, Cells::Binary(_) | Cells::Null) => Self::Bytes,
            (14, Cells::Text(_) | Cells::Integer(_) | Cells::Null) => {
                let names = file.enums.get(&field.type_name).ok_or_else(|| {
                    SchemaError(format!(
                        "the Protobuf descriptors lack the enum {}",
                        field.type_name
                    ))
                })?;
                Self::Enum(
                    names
                        .iter()
                        .map(|(number, name)| (name.clone(), *number))
                        .collect(),
                )
            }
            _ => {
                let wanted = match field.kind {
                    1 => "double",
                    2 => "float",
                    8 => "bool",
                    9 => "string",
                    10 => "group",
                    DELIMITED_MESSAGE => "messages whose feature message_encoding is DELIMITED",
                    12 => "bytes",
                    11 | 14 => field.type_name.as_str(),
                    _ => "whole numbers",
                };
                return Err(SchemaError(format!(
                    "{} does not become Protobuf's {wanted}",
                    cells.kind()
                )));
            }
        })
    }
}

impl Write {
    fn wire(&self) -> u32 {
        match self {
            Self::Number(_, Form::Varint | Form::Zigzag) | Self::Bool | Self::Enum(_) => VARINT,
            Self::Number(_, Form::Fixed64) | Self::Double => FIXED64,
            Self::Number(_, Form::Fixed32) | Self::Float => FIXED32,
            Self::Text | Self::Bytes | Self::Message(_) | Self::Timestamp => SIZED,
        }
    }

    fn value(&self, cells: &Cells, row: usize, out: &mut Vec<u8>) -> Filled {
        match (self, cells) {
            (Self::Double, Cells::Double(values)) => {
                out.extend_from_slice(&at(values, row).to_le_bytes());
            }
            (Self::Double, Cells::Float(values)) => {
                out.extend_from_slice(&f64::from(at(values, row)).to_le_bytes());
            }
            (Self::Float, Cells::Float(values)) => {
                out.extend_from_slice(&at(values, row).to_le_bytes());
            }
            (Self::Number(range, form), cells) => {
                let value = range.check(whole(cells, row)?)?;
                // The low bits are those of the number in any range.
                match form {
                    Form::Varint => varint(value as u64, out),
                    Form::Zigzag => varint(((value << 1) ^ (value >> 127)) as u64, out),
                    Form::Fixed32 => out.extend_from_slice(&(value as u32).to_le_bytes()),
                    Form::Fixed64 => out.extend_from_slice(&(value as u64).to_le_bytes()),
                }
            }
            (Self::Bool, Cells::Boolean(values)) => out.push(values.value(row).into()),
            (Self::Text, Cells::Text(values)) => bytes(values.text(row)?.as_bytes(), out),
            (Self::Bytes, Cells::Binary(values)) => bytes(values.at(row), out),
            (Self::Enum(numbers), Cells::Text(values)) => {
                let name = values.text(row)?;
                // A number without a name is read as its text.
                let number = numbers.get(name).copied().or_else(|| name.parse().ok());
                let number = number.ok_or_else(|| Bad::wanted("a name of its enum", name))?;
                varint(i64::from(number) as u64, out);
            }
            (Self::Enum(_), cells) => varint(Range::Int32.check(whole(cells, row)?)? as u64, out),
            (Self::Message(message), _) => sized(out, |out| message.write(row, out))?,
            (Self::Timestamp, Cells::Timestamp { unit, values, .. }) => {
                let units = time::per_second(*unit);
                let value = at(values, row);
                let seconds = value.div_euclid(units);
                let nanoseconds = value.rem_euclid(units) * (1_000_000_000 / units);
                sized(out, |out| {
                    for (number, part) in [(1, seconds), (2, nanoseconds)] {
                        if part != 0 {
                            tag(number, VARINT, out);
                            varint(part as u64, out);
                        }
                    }
                    Ok(())
                })?;
            }
            _ => return Err(unfit()),
        }
        Ok(())
    }
}

impl Range {
    fn check(self, value: i128) -> Filled<i128> {
        let (name, fits) = match self {
            Self::Int32 => ("32 bits with a sign", i32::try_from(value).is_ok()),
            Self::Int64 => ("64 bits with a sign", i64::try_from(value).is_ok()),
            Self::UInt32 => ("32 bits without a sign", u32::try_from(value).is_ok()),
            Self::UInt64 => ("64 bits without a sign", u64::try_from(value).is_ok()),
        };
        if fits {
            Ok(value)
        } else {
            Err(Bad::new(format!("{value} does not fit {name}")))
        }
    }
}

/// By `FieldDescriptorProto.Type`.
fn number_type(kind: u64) -> Option<(Range, Form)> {
    Some(match kind {
        3 => (Range::Int64, Form::Varint),
        4 => (Range::UInt64, Form::Varint),
        5 => (Range::Int32, Form::Varint),
        6 => (Range::UInt64, Form::Fixed64),
        7 => (Range::UInt32, Form::Fixed32),
        13 => (Range::UInt32, Form::Varint),
        15 => (Range::Int32, Form::Fixed32),
        16 => (Range::Int64, Form::Fixed64),
        17 => (Range::Int32, Form::Zigzag),
        18 => (Range::Int64, Form::Zigzag),
        _ => return None,
    })
}

fn whole(cells: &Cells, row: usize) -> Filled<i128> {
    match cells {
        Cells::Integer(values) => Ok(values.at(row).into()),
        Cells::UInt64(values) => Ok(at(values, row).into()),
        Cells::Decimal(_, values) => Ok(at(values, row)),
        _ => Err(unfit()),
    }
}

/// Where a message of a schema stands, as Confluent's serializers write it behind the schema's id.
pub(super) fn indexes(path: &[u64], out: &mut Vec<u8>) {
    if path == [0] {
        return out.push(0);
    }
    varint((path.len() as u64) << 1, out);
    for index in path {
        varint(index << 1, out);
    }
}

/// What has its length before it.
fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Filled) -> Filled {
    let start = out.len();
    write(out)?;
    let end = out.len();
    varint((end - start) as u64, out);
    let length = out.len() - end;
    if let Some(written) = out.get_mut(start..) {
        written.rotate_right(length);
    }
    Ok(())
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn tag(number: u32, wire: u32, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | u64::from(wire), out);
}

fn within(name: &str, error: SchemaError) -> SchemaError {
    SchemaError(format!("{name}: {error}"))
}

fn unfit() -> Bad {
    Bad::new("the plan does not fit the column")
}
