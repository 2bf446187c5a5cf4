//! An Avro schema for columns.

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde_json::{Value, json};

use crate::error::SchemaError;

/// The text of a record's schema that has a field for each column. All may be null, unless a column is not nullable. Records have the
/// names of their fields behind that of the record around them.
///
/// # Errors
/// [`SchemaError`] for a type that Avro does not have, and for a name that Avro does not allow.
pub fn avro_schema(fields: &Fields) -> Result<String, SchemaError> {
    Ok(record(fields, "Row")?.to_string())
}

fn record(fields: &Fields, name: &str) -> Result<Value, SchemaError> {
    let fields = fields
        .iter()
        .map(|field| {
            check_name(field.name())?;
            let data_type = of_field(field, &format!("{name}_{}", field.name()))?;
            Ok(match field.is_nullable() {
                true => json!({"name": field.name(), "type": data_type, "default": null}),
                false => json!({"name": field.name(), "type": data_type}),
            })
        })
        .collect::<Result<Vec<_>, SchemaError>>()?;
    Ok(json!({"type": "record", "name": name, "fields": fields}))
}

/// A name of Avro's: letters, digits and underscores, of which a digit is not the first.
fn check_name(name: &str) -> Result<(), SchemaError> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = name.bytes();
    if bytes.next().is_some_and(is_letter)
        && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
    {
        return Ok(());
    }
    Err(SchemaError(format!(
        "column {name:?} has a name that Avro does not have: letters, digits and underscores are allowed"
    )))
}

fn of_field(field: &Field, name: &str) -> Result<Value, SchemaError> {
    let data_type = of_type(field.data_type(), name)?;
    Ok(match field.is_nullable() && data_type != json!("null") {
        true => json!(["null", data_type]),
        false => data_type,
    })
}

fn of_type(data_type: &DataType, name: &str) -> Result<Value, SchemaError> {
    Ok(match data_type {
        DataType::Null => json!("null"),
        DataType::Boolean => json!("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            json!("int")
        }
        DataType::Int64 | DataType::UInt32 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("bytes"),
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Time32(_) => json!({"type": "int", "logicalType": "time-millis"}),
        DataType::Time64(_) => json!({"type": "long", "logicalType": "time-micros"}),
        DataType::Timestamp(unit, zone) => {
            let unit = match unit {
                TimeUnit::Second | TimeUnit::Millisecond => "millis",
                TimeUnit::Microsecond => "micros",
                TimeUnit::Nanosecond => "nanos",
            };
            let local = if zone.is_some() { "" } else { "local-" };
            json!({"type": "long", "logicalType": format!("{local}timestamp-{unit}")})
        }
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
        }
        DataType::List(items) | DataType::LargeList(items) => {
            json!({"type": "array", "items": of_field(items, name)?})
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entry) if entry.len() == 2 => {
                let values = entry.get(1);
                let values = values.map(|values| of_field(values, name)).transpose()?;
                json!({"type": "map", "values": values})
            }
            _ => return Err(unknown(data_type)),
        },
        DataType::Struct(fields) => record(fields, name)?,
        _ => return Err(unknown(data_type)),
    })
}

fn unknown(data_type: &DataType) -> SchemaError {
    SchemaError(format!(
        "no type of Avro is chosen for columns of {data_type}: pass an Avro schema"
    ))
}
