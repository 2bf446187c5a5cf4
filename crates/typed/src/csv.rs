//! A line of comma-separated values to columns, in their order.
//!
//! A quote (`"`) opens a field in which commas and line ends stand for themselves and a doubled quote for one, as RFC 4180 has it.
//! An empty field is null, with quotes or without them, as in Spark's `from_csv`. docs/guides/decoding.md has the rules.

use crate::column::{Column, Struct, Values};
use crate::error::{Bad, Filled, SchemaError, shown};
use crate::{number, text, time};

/// Refuses columns that a field of text cannot fill.
pub(crate) fn check(columns: &Struct) -> Result<(), SchemaError> {
    for column in &columns.columns {
        let is_nested = matches!(
            column.values,
            Values::Struct(_)
                | Values::List(_)
                | Values::Map(_)
                | Values::Binary(_)
                | Values::Fixed(..)
        );
        if is_nested {
            return Err(SchemaError(format!(
                "field {:?} has type {}, which no field of CSV holds",
                column.field.name(),
                column.field.data_type()
            )));
        }
    }
    Ok(())
}

/// `places` has the column of each field of the line, and `None` for one that is passed over.
pub(crate) fn line(
    columns: &mut Struct,
    value: &[u8],
    delimiter: u8,
    places: &[Option<usize>],
) -> Filled {
    match std::str::from_utf8(value) {
        Ok(text) => fields(columns, text, delimiter, places),
        Err(_) => fields(columns, &text::replaced(value), delimiter, places),
    }
}

fn fields(columns: &mut Struct, text: &str, delimiter: u8, places: &[Option<usize>]) -> Filled {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut rest = Some(text.strip_suffix('\r').unwrap_or(text));
    let wanted = places.len();
    for (index, place) in places.iter().enumerate() {
        let Some(line) = rest else {
            return Err(Bad::new(format!(
                "{wanted} fields are wanted, and there are {index}"
            )));
        };
        let column = place.and_then(|place| columns.columns.get_mut(place));
        let known = column.as_ref().map(|column| column.field.clone());
        rest = field(column, line, delimiter).map_err(|bad| match &known {
            Some(field) => bad.within(field.name()),
            None => bad,
        })?;
    }
    match rest {
        None => Ok(()),
        Some(_) => Err(Bad::new(format!(
            "{wanted} fields are wanted, and there are more"
        ))),
    }
}

/// Reads one field; what follows its delimiter is returned, and `None` at the end of the line.
fn field<'a>(column: Option<&mut Column>, line: &'a str, delimiter: u8) -> Filled<Option<&'a str>> {
    let delimiter = char::from(delimiter);
    if let Some(quoted) = line.strip_prefix('"') {
        let mut text = String::new();
        let mut rest = quoted;
        loop {
            let (part, behind) = rest
                .split_once('"')
                .ok_or_else(|| Bad::new("a quoted field does not end"))?;
            text.push_str(part);
            match behind.strip_prefix('"') {
                Some(more) => {
                    text.push('"');
                    rest = more;
                }
                None => {
                    fill(column, &text)?;
                    return match behind.strip_prefix(delimiter) {
                        Some(next) => Ok(Some(next)),
                        None if behind.is_empty() => Ok(None),
                        None => Err(Bad::new(format!(
                            "text stands behind a quoted field: {}",
                            shown(behind)
                        ))),
                    };
                }
            }
        }
    }
    let (text, rest) = match line.split_once(delimiter) {
        Some((text, rest)) => (text, Some(rest)),
        None => (line, None),
    };
    fill(column, text)?;
    Ok(rest)
}

fn fill(column: Option<&mut Column>, text: &str) -> Filled {
    match column {
        Some(column) if text.is_empty() => column.push_found_null(),
        Some(column) => scalar(column, text),
        None => Ok(()),
    }
}

fn scalar(column: &mut Column, text: &str) -> Filled {
    match &mut column.values {
        Values::Boolean(values) => values.push(match text {
            _ if text.eq_ignore_ascii_case("true") => true,
            _ if text.eq_ignore_ascii_case("false") => false,
            _ => return Err(Bad::wanted("boolean", text)),
        }),
        Values::Int8(values) => values.push(parsed(text, "int8")?),
        Values::Int16(values) => values.push(parsed(text, "int16")?),
        Values::Int32(values) => values.push(parsed(text, "int32")?),
        Values::Int64(values) => values.push(parsed(text, "int64")?),
        Values::UInt8(values) => values.push(parsed(text, "uint8")?),
        Values::UInt16(values) => values.push(parsed(text, "uint16")?),
        Values::UInt32(values) => values.push(parsed(text, "uint32")?),
        Values::UInt64(values) => values.push(parsed(text, "uint64")?),
        Values::Float32(values) => values.push(number::float_of_text(text, "float")?),
        Values::Float64(values) => values.push(number::float_of_text(text, "double")?),
        Values::Decimal(wanted, values) => values.push(number::decimal_of_text(text, *wanted)?),
        Values::Date(values) => values.push(time::date(text)?),
        Values::Time32(unit, values) => {
            let time = time::time_of_day(text, *unit).and_then(|time| i32::try_from(time).ok());
            values.push(time.ok_or_else(|| Bad::wanted("a time of day as 09:52:20.5", text))?);
        }
        Values::Time64(unit, values) => {
            let time = time::time_of_day(text, *unit);
            values.push(time.ok_or_else(|| Bad::wanted("a time of day as 09:52:20.5", text))?);
        }
        Values::Timestamp(kind, values) => {
            values.push(time::Moment::timestamp(text, kind.unit, kind.is_local)?);
        }
        Values::Text(slices) => slices.push(text.as_bytes())?,
        Values::Null
        | Values::Binary(_)
        | Values::Fixed(..)
        | Values::Struct(_)
        | Values::List(_)
        | Values::Map(_) => {
            return Err(Bad::new("no field of CSV holds this type"));
        }
    }
    column.push_valid();
    Ok(())
}

fn parsed<T: std::str::FromStr>(text: &str, wanted: &str) -> Filled<T> {
    text.parse().map_err(|_| Bad::wanted(wanted, text))
}
