//! Columns to JSON, in the text that Spark's `to_json` gives each type.
//!
//! A field that is null is left out; an element of a list and a value of a map are not. Timestamps are in UTC. arrow-json has other
//! texts for decimals, floats, timestamps and bytes, so that only its walk over structs would be left.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::column::{Cells, Column, at};
use super::text;
use crate::error::{Filled, SchemaError};

/// The columns of an object, each with what stands before its value.
#[derive(Debug)]
pub(super) struct Plan(Vec<(Vec<u8>, Value)>);

#[derive(Debug)]
struct Value {
    column: Column,
    inner: Inner,
}

/// What a value holds that has values in it.
#[derive(Debug)]
enum Inner {
    None,
    Struct(Plan),
    List(Box<Value>),
    Map(Box<Value>),
}

impl Plan {
    pub(super) fn new(columns: Vec<Column>) -> Result<Self, SchemaError> {
        let member = |column: Column| {
            let mut label = Vec::new();
            string(&column.name, &mut label);
            label.push(b':');
            Ok((label, Value::new(column)?))
        };
        columns
            .into_iter()
            .map(member)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        out.push(b'{');
        let mut separator: &[u8] = b"";
        for (label, value) in &self.0 {
            if value.column.is_null(row) {
                continue;
            }
            out.extend_from_slice(separator);
            out.extend_from_slice(label);
            value
                .write(row, out)
                .map_err(|bad| bad.within(&value.column.name))?;
            separator = b",";
        }
        out.push(b'}');
        Ok(())
    }
}

impl Value {
    fn new(mut column: Column) -> Result<Self, SchemaError> {
        let name = column.name.clone();
        let named = |error: SchemaError| SchemaError(format!("{name}: {error}"));
        let inner = match &mut column.cells {
            Cells::Struct(columns) => {
                Inner::Struct(Plan::new(std::mem::take(columns)).map_err(named)?)
            }
            Cells::List(_, element) => {
                Inner::List(Box::new(Self::new((**element).clone()).map_err(named)?))
            }
            Cells::Map(_, key, value) => {
                // Spark writes dates and times of keys as their counts: nobody can want that.
                if !matches!(
                    key.cells,
                    Cells::Text(_) | Cells::Integer(_) | Cells::Boolean(_)
                ) {
                    return Err(SchemaError(format!(
                        "{name}: the keys of a map in JSON are strings, whole numbers or booleans, not {}: cast them to \
                         string",
                        key.cells.kind()
                    )));
                }
                Inner::Map(Box::new(Self::new((**value).clone()).map_err(named)?))
            }
            _ => Inner::None,
        };
        Ok(Self { column, inner })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        match (&self.column.cells, &self.inner) {
            _ if self.column.is_null(row) => out.extend_from_slice(b"null"),
            (_, Inner::Struct(plan)) => plan.write(row, out)?,
            (Cells::List(offsets, _), Inner::List(element)) => {
                out.push(b'[');
                for (index, place) in offsets.at(row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    element
                        .write(place, out)
                        .map_err(|bad| bad.element(index))?;
                }
                out.push(b']');
            }
            (Cells::Map(offsets, key, _), Inner::Map(value)) => {
                out.push(b'{');
                for (index, place) in offsets.at(row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    match &key.cells {
                        Cells::Text(keys) => string(keys.text(place)?, out),
                        keys => quoted(out, |out| leaf(keys, place, out))?,
                    }
                    out.push(b':');
                    value.write(place, out).map_err(|bad| bad.element(index))?;
                }
                out.push(b'}');
            }
            (cells, _) => leaf(cells, row, out)?,
        }
        Ok(())
    }
}

fn leaf(cells: &Cells, row: usize, out: &mut Vec<u8>) -> Filled {
    match cells {
        Cells::Boolean(values) => {
            let word: &[u8] = if values.value(row) { b"true" } else { b"false" };
            out.extend_from_slice(word);
        }
        Cells::Integer(values) => text::integer(values.at(row), out),
        Cells::UInt64(values) => text::integer(at(values, row), out),
        Cells::Float(values) => number(at(values, row), out)?,
        Cells::Double(values) => number(at(values, row), out)?,
        Cells::Decimal(kind, values) => text::decimal(at(values, row), *kind, out),
        Cells::Date(values) => quoted(out, |out| {
            text::date(at(values, row).into(), out);
            Ok(())
        })?,
        Cells::Time(unit, values) => {
            quoted(out, |out| text::time_of_day(values.at(row), *unit, out))?;
        }
        Cells::Timestamp {
            unit,
            is_local,
            values,
        } => quoted(out, |out| {
            text::timestamp(at(values, row), *unit, *is_local, out);
            Ok(())
        })?,
        Cells::Text(values) => string(values.text(row)?, out),
        Cells::Binary(values) => quoted(out, |out| {
            base64(values.at(row), out);
            Ok(())
        })?,
        // What has values in it is written by its plan.
        Cells::Null | Cells::Struct(_) | Cells::List(..) | Cells::Map(..) => {
            out.extend_from_slice(b"null");
        }
    }
    Ok(())
}

/// What is no number in JSON is a string.
fn number<T: Into<f64> + std::fmt::LowerExp + Copy>(value: T, out: &mut Vec<u8>) -> Filled {
    let write = |out: &mut Vec<u8>| {
        text::float(value, out);
        Ok(())
    };
    if value.into().is_finite() {
        write(out)
    } else {
        quoted(out, write)
    }
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Filled) -> Filled {
    out.push(b'"');
    write(out)?;
    out.push(b'"');
    Ok(())
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The space is exactly what it takes.
    if let Some(room) = out.get_mut(start..) {
        let _ = STANDARD.encode_slice(bytes, room);
    }
}

/// A string with the escapes that Jackson gives it: those that JSON requires, and no others.
fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    for (index, byte) in bytes.iter().enumerate() {
        let letter = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(bytes.get(start..index).unwrap_or_default());
        out.extend_from_slice(&[b'\\', letter]);
        if letter == b'u' {
            let digit = |value: u8| {
                char::from_digit(value.into(), 16)
                    .map_or(b'0', |digit| digit.to_ascii_uppercase() as u8)
            };
            out.extend_from_slice(&[b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
        }
        start = index + 1;
    }
    out.extend_from_slice(bytes.get(start..).unwrap_or_default());
    out.push(b'"');
}
