//! From tokens to columns.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::cursor::{Cursor, Number};
use crate::column::{Column, List, Struct, Values};
use crate::error::{Bad, Filled, SchemaError};
use crate::{number, text, time};

/// Padding is wanted, and bits that stand in no byte are not looked at.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Those that are exact as doubles.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Refuses maps that no JSON object fills.
pub(crate) fn check(columns: &Struct) -> Result<(), SchemaError> {
    columns.columns.iter().try_for_each(check_column)
}

fn check_column(column: &Column) -> Result<(), SchemaError> {
    match &column.values {
        Values::Struct(inner) => check(inner),
        Values::List(list) => check_column(&list.child),
        Values::Map(list) => {
            let Values::Struct(entry) = &list.child.values else {
                return Ok(());
            };
            if !matches!(entry.columns.first(), Some(key) if matches!(key.values, Values::Text(_)))
            {
                return Err(SchemaError(format!(
                    "field {:?} is a map whose keys are not strings, and those of a JSON object are",
                    column.field.name()
                )));
            }
            check(entry)
        }
        _ => Ok(()),
    }
}

/// A whole value: one object, whose fields become a row of the columns.
pub(crate) fn object(columns: &mut Struct, row: usize, value: &[u8]) -> Filled {
    match std::str::from_utf8(value) {
        Ok(text) => whole(columns, row, text),
        Err(_) => whole(columns, row, &text::replaced(value)),
    }
}

fn whole(columns: &mut Struct, row: usize, text: &str) -> Filled {
    let mut cursor = Cursor::new(text);
    if cursor.is_at_end() {
        return Err(Bad::new("it is empty"));
    }
    if cursor.peek() != b'{' {
        return Err(cursor.wanted("a JSON object"));
    }
    fields(columns, row, &mut cursor)?;
    if cursor.is_at_end() {
        return Ok(());
    }
    Err(cursor.malformed("text stands behind the value"))
}

/// An object, whose brace is next.
fn fields(columns: &mut Struct, row: usize, cursor: &mut Cursor<'_>) -> Filled {
    cursor.take(b'{');
    if cursor.take(b'}') {
        return columns.fill_up(row);
    }
    let mut guess = 0;
    let mut filled = 0;
    loop {
        if !matches!(cursor.peek(), b'"' | b'\'') {
            return Err(cursor.malformed("a field's name is wanted"));
        }
        let is_guessed = columns
            .plain_name(guess)
            .is_some_and(|name| cursor.field(name));
        let index = if is_guessed {
            Some(guess)
        } else {
            let name = cursor.string()?;
            cursor.expect(b':', "behind a field's name")?;
            columns.find(&name, guess)
        };
        match index {
            Some(index) => {
                guess = index + 1;
                if let Some(column) = columns.columns.get_mut(index) {
                    if column.len() > row {
                        column.truncate(row);
                    } else {
                        filled += 1;
                    }
                    value(column, cursor).map_err(|bad| bad.within(column.field.name()))?;
                }
            }
            None => cursor.skip(0)?,
        }
        if !cursor.take(b',') {
            cursor.expect(b'}', "behind a field")?;
            if filled == columns.columns.len() {
                return Ok(());
            }
            return columns.fill_up(row);
        }
    }
}

fn value(column: &mut Column, cursor: &mut Cursor<'_>) -> Filled {
    let first = cursor.peek();
    if first == b'n' && cursor.word("null") {
        return column.push_found_null();
    }
    let row = column.len();
    match &mut column.values {
        Values::Null => return Err(cursor.wanted("null")),
        Values::Boolean(values) => values.push(match first {
            b't' if cursor.word("true") => true,
            b'f' if cursor.word("false") => false,
            _ => return Err(cursor.wanted("boolean")),
        }),
        Values::Int8(values) => values.push(integer(cursor, "int8")?),
        Values::Int16(values) => values.push(integer(cursor, "int16")?),
        Values::Int32(values) => values.push(integer(cursor, "int32")?),
        Values::Int64(values) => values.push(integer(cursor, "int64")?),
        Values::UInt8(values) => values.push(integer(cursor, "uint8")?),
        Values::UInt16(values) => values.push(integer(cursor, "uint16")?),
        Values::UInt32(values) => values.push(integer(cursor, "uint32")?),
        Values::UInt64(values) => values.push(integer(cursor, "uint64")?),
        Values::Float32(values) => values.push(match special(cursor, first, "float")? {
            Some(value) => value as f32,
            None => float(&cursor.number()?)?,
        }),
        Values::Float64(values) => values.push(match special(cursor, first, "double")? {
            Some(value) => value,
            None => double(&cursor.number()?)?,
        }),
        Values::Decimal(wanted, values) => {
            let unscaled = match first {
                b'"' | b'\'' => number::decimal_of_text(&cursor.string()?, *wanted)?,
                b'-' | b'0'..=b'9' => number::decimal(cursor.number()?.text, *wanted)?,
                _ => return Err(cursor.wanted("a decimal")),
            };
            values.push(unscaled);
        }
        Values::Date(values) => {
            let text = text(cursor, first, "a date")?;
            values.push(time::date(&text)?);
        }
        Values::Time32(unit, values) => {
            let text = text(cursor, first, "a time of day")?;
            let time = time::time_of_day(&text, *unit).and_then(|time| i32::try_from(time).ok());
            values.push(time.ok_or_else(|| Bad::wanted("a time of day as 09:52:20.5", &text))?);
        }
        Values::Time64(unit, values) => {
            let text = text(cursor, first, "a time of day")?;
            let time = time::time_of_day(&text, *unit);
            values.push(time.ok_or_else(|| Bad::wanted("a time of day as 09:52:20.5", &text))?);
        }
        Values::Timestamp(kind, values) => {
            let moment = match first {
                b'"' | b'\'' => {
                    let text = cursor.string()?;
                    time::Moment::timestamp(&text, kind.unit, kind.is_local)?
                }
                _ if kind.is_local => return Err(cursor.wanted("a local timestamp")),
                _ => {
                    let seconds = integer(cursor, "a timestamp")?;
                    let moment = time::Moment::of_seconds(seconds).since_epoch(kind.unit);
                    moment.ok_or_else(|| {
                        Bad::new(format!(
                            "{seconds} seconds since 1970 do not fit the column's unit"
                        ))
                    })?
                }
            };
            values.push(moment);
        }
        Values::Text(slices) => match first {
            b'"' | b'\'' => slices.push(cursor.string()?.as_bytes())?,
            _ => slices.push(cursor.raw()?.as_bytes())?,
        },
        Values::Binary(slices) => slices.push(&base64(cursor, first)?)?,
        Values::Fixed(size, data) => {
            let bytes = base64(cursor, first)?;
            if bytes.len() != *size {
                return Err(Bad::new(format!(
                    "{size} bytes are wanted, not {}",
                    bytes.len()
                )));
            }
            data.extend_from_slice(&bytes);
        }
        Values::Struct(inner) => {
            if first != b'{' {
                return Err(cursor.wanted("an object"));
            }
            fields(inner, row, cursor)?;
        }
        Values::List(list) => elements(list, cursor, first)?,
        Values::Map(list) => entries(list, cursor, first)?,
    }
    column.push_valid();
    Ok(())
}

fn integer<T>(cursor: &mut Cursor<'_>, wanted: &'static str) -> Filled<T>
where
    T: TryFrom<i64> + std::str::FromStr,
{
    if !matches!(cursor.peek(), b'-' | b'0'..=b'9') {
        return Err(cursor.wanted(wanted));
    }
    let number = cursor.number()?;
    if !number.is_whole {
        return Err(Bad::wanted(wanted, number.text));
    }
    let digits = number
        .digits
        .and_then(|(digits, _)| i64::try_from(digits).ok());
    let value = match (digits, number.is_negative) {
        (Some(digits), false) => T::try_from(digits).ok(),
        (Some(digits), true) => T::try_from(-digits).ok(),
        (None, _) => number.text.parse().ok(),
    };
    value.ok_or_else(|| {
        Bad::new(format!(
            "{} is out of the range of {wanted}",
            crate::error::shown(number.text)
        ))
    })
}

/// What a column of floats takes besides numbers; `None` if a number is next.
fn special(cursor: &mut Cursor<'_>, first: u8, wanted: &str) -> Filled<Option<f64>> {
    match first {
        b'0'..=b'9' => Ok(None),
        b'"' | b'\'' => {
            let text = cursor.string()?;
            number::not_finite(&text)
                .map(Some)
                .ok_or_else(|| Bad::wanted(wanted, &text))
        }
        b'N' if cursor.word("NaN") => Ok(Some(f64::NAN)),
        _ => match cursor.infinity() {
            Some(value) => Ok(Some(value)),
            None if first == b'-' => Ok(None),
            None => Err(cursor.wanted(wanted)),
        },
    }
}

/// Its digits and the power of ten by which they are divided are both exact as doubles, so that their quotient is the nearest double to
/// the number; https://doi.org/10.1145/93542.93557 has the proof.
fn double(number: &Number<'_>) -> Filled<f64> {
    const MOST: u64 = 1 << f64::MANTISSA_DIGITS;
    // A zero may have a sign.
    let exact = number
        .digits
        .filter(|(digits, _)| (1..=MOST).contains(digits));
    let quotient =
        exact.and_then(|(digits, scale)| Some(digits as f64 / POWERS_OF_TEN.get(scale)?));
    match quotient {
        Some(value) => Ok(if number.is_negative { -value } else { value }),
        None => float(number),
    }
}

fn float<T: std::str::FromStr>(number: &Number<'_>) -> Filled<T> {
    // The whole number -0 has no sign, as in Java.
    let text = if number.text == "-0" {
        "0"
    } else {
        number.text
    };
    text.parse().map_err(|_| Bad::wanted("a number", text))
}

fn text<'a>(cursor: &mut Cursor<'a>, first: u8, wanted: &str) -> Filled<std::borrow::Cow<'a, str>> {
    match first {
        b'"' | b'\'' => cursor.string(),
        _ => Err(cursor.wanted(wanted)),
    }
}

fn base64(cursor: &mut Cursor<'_>, first: u8) -> Filled<Vec<u8>> {
    let text = text(cursor, first, "a string in base64")?;
    BASE64
        .decode(text.as_bytes())
        .ok()
        .or_else(|| by_fours(text.as_bytes()))
        .ok_or_else(|| Bad::wanted("base64", &text))
}

/// Base64 as Spark's reader takes it: any character up to the space may stand between groups of four characters, and each group may end with
/// padding.
fn by_fours(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        while let [..=b' ', rest @ ..] = text {
            text = rest;
        }
        if text.is_empty() {
            return Some(bytes);
        }
        let (group, rest) = text.split_at_checked(4)?;
        BASE64.decode_vec(group, &mut bytes).ok()?;
        text = rest;
    }
}

fn elements(list: &mut List, cursor: &mut Cursor<'_>, first: u8) -> Filled {
    if first != b'[' {
        return Err(cursor.wanted("an array"));
    }
    cursor.take(b'[');
    if !cursor.take(b']') {
        loop {
            let index = list.next() - list.start();
            value(&mut list.child, cursor).map_err(|bad| bad.element(index))?;
            if !cursor.take(b',') {
                cursor.expect(b']', "behind an element")?;
                break;
            }
        }
    }
    list.end()
}

fn entries(list: &mut List, cursor: &mut Cursor<'_>, first: u8) -> Filled {
    if first != b'{' {
        return Err(cursor.wanted("an object"));
    }
    cursor.take(b'{');
    if !cursor.take(b'}') {
        loop {
            if !matches!(cursor.peek(), b'"' | b'\'') {
                return Err(cursor.malformed("a key is wanted"));
            }
            let name = cursor.string()?;
            cursor.expect(b':', "behind a key")?;
            let Some((key, inner)) = list.entry() else {
                return Err(Bad::new("the map has no keys and values"));
            };
            let Values::Text(keys) = &mut key.values else {
                return Err(Bad::new(
                    "the keys of a JSON object are strings, and those of the column are not",
                ));
            };
            keys.push(name.as_bytes())?;
            key.push_valid();
            value(inner, cursor).map_err(|bad| bad.within(&name))?;
            list.child.push_valid();
            if !cursor.take(b',') {
                cursor.expect(b'}', "behind an entry")?;
                break;
            }
        }
    }
    list.end()
}
