//! A JSON Schema as columns: the part of it that says types.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde_json::{Map, Value};

use crate::column::Budget;
use crate::error::SchemaError;

/// How deep references lead, so that a schema that names itself ends.
const DEEPEST: usize = 50;

/// Columns of the properties of an object.
///
/// `integer` is int64, `number` double, `string` string, or by its `format` a timestamp in UTC (`date-time`), a date or a time of
/// day; `array` a list of its `items`, an object with `properties` a struct, one with `additionalProperties` alone a map. `["null",
/// T]`, and `oneOf` or `anyOf` of null and T, are T: every column is nullable. `$ref` leads within the text. What only limits values
/// (`minimum`, `pattern`, `required`...) is not looked at.
pub(crate) fn fields(text: &str) -> Result<Fields, SchemaError> {
    let root: Value = serde_json::from_str(text)
        .map_err(|error| SchemaError(format!("the JSON Schema is not JSON: {error}")))?;
    let types = Types {
        root: &root,
        budget: Budget::default(),
    };
    match types.of(&root, "the schema", 0)? {
        DataType::Struct(fields) => Ok(fields),
        other => Err(SchemaError(format!(
            "the JSON Schema is to describe an object with properties, and describes {other}"
        ))),
    }
}

struct Types<'a> {
    root: &'a Value,
    budget: Budget,
}

impl Types<'_> {
    fn of(&self, schema: &Value, name: &str, depth: usize) -> Result<DataType, SchemaError> {
        self.budget.spend()?;
        if depth > DEEPEST {
            return Err(SchemaError(format!(
                "{name} nests more than {DEEPEST} levels, or contains itself"
            )));
        }
        let Value::Object(schema) = schema else {
            return Err(SchemaError(format!(
                "{name} has no type: its JSON Schema is {schema}"
            )));
        };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let found = reference
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer));
            let found = found.ok_or_else(|| {
                SchemaError(format!(
                    "{name} refers to {reference:?}, which is not in the schema"
                ))
            })?;
            return self.of(found, name, depth + 1);
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(Value::Array(choices)) = schema.get(keyword) {
                let is_null =
                    |choice: &&Value| choice.get("type").and_then(Value::as_str) == Some("null");
                let mut others = choices.iter().filter(|choice| !is_null(choice));
                return match (others.next(), others.next()) {
                    (Some(only), None) => self.of(only, name, depth + 1),
                    _ => Err(several(name)),
                };
            }
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => Some(kind.as_str()),
            Some(Value::Array(kinds)) => {
                let mut others = kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .filter(|kind| *kind != "null");
                match (others.next(), others.next()) {
                    (only, None) => only,
                    _ => return Err(several(name)),
                }
            }
            _ if schema.contains_key("properties") => Some("object"),
            _ => None,
        };
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        Ok(match kind {
            Some("null") => DataType::Null,
            Some("boolean") => DataType::Boolean,
            Some("integer") => DataType::Int64,
            Some("number") => DataType::Float64,
            Some("string") if text("contentEncoding") == Some("base64") => DataType::Binary,
            Some("string") => match text("format") {
                Some("date-time") => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                Some("date") => DataType::Date32,
                Some("time") => DataType::Time64(TimeUnit::Microsecond),
                _ => DataType::Utf8,
            },
            Some("array") => {
                let items = schema
                    .get("items")
                    .ok_or_else(|| SchemaError(format!("{name} is an array without items")))?;
                let items = self.of(items, &format!("{name}[]"), depth + 1)?;
                DataType::List(Arc::new(Field::new("element", items, true)))
            }
            Some("object") => self.object(schema, name, depth)?,
            Some(other) => {
                return Err(SchemaError(format!(
                    "{name} has the type {other:?}, which JSON Schema does not know"
                )));
            }
            None => {
                return Err(SchemaError(format!(
                    "{name} has no type in the JSON Schema"
                )));
            }
        })
    }

    fn object(
        &self,
        schema: &Map<String, Value>,
        name: &str,
        depth: usize,
    ) -> Result<DataType, SchemaError> {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let fields = properties
                .iter()
                .map(|(field, schema)| {
                    let data_type = self.of(schema, &format!("{name}.{field}"), depth + 1)?;
                    Ok(Field::new(field, data_type, true))
                })
                .collect::<Result<Vec<_>, SchemaError>>()?;
            return Ok(DataType::Struct(fields.into()));
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                let values = self.of(values, &format!("{name}.*"), depth + 1)?;
                Ok(crate::column::map(DataType::Utf8, values, true))
            }
            _ => Err(SchemaError(format!(
                "{name} is an object without properties, which no column holds"
            ))),
        }
    }
}

fn several(name: &str) -> SchemaError {
    SchemaError(format!(
        "{name} may have several types, and a column has one"
    ))
}
