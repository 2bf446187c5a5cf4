//! A JSON Schema as columns: the part of it that has types.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use serde_json::{Map, Value};

use crate::column::{self, Budget};
use crate::error::SchemaError;

/// How deep types nest.
const DEEPEST: usize = 50;
/// How errors name the whole schema. What has this name is the root, also behind a `$ref`.
const ROOT: &str = "the schema";

/// Columns of the properties of an object, or of those that are selected.
///
/// `integer` is int64, `number` double, `string` string, or by its `format` a timestamp in UTC (`date-time`), a date or a time of
/// day; `array` a list of its `items`, an object with `properties` a struct, one with `additionalProperties` alone a map. `["null",
/// T]`, and `oneOf` or `anyOf` of null and T, are T: every column is nullable. `$ref` leads within the text. What has no type, or
/// several, or contains itself, is string: the text of whatever value it has. What only limits values (`minimum`, `pattern`,
/// `required`...) is not looked at.
pub(crate) fn fields(text: &str, select: Option<&[String]>) -> Result<Fields, SchemaError> {
    let root: Value = serde_json::from_str(text)
        .map_err(|error| SchemaError(format!("the JSON Schema is not JSON: {error}")))?;
    let types = Types {
        root: &root,
        select,
        budget: Budget::default(),
    };
    match types.of(&root, ROOT, &mut Vec::new())? {
        DataType::Struct(fields) => Ok(fields),
        other => Err(SchemaError(format!(
            "the JSON Schema is to describe an object with properties, and describes {other}"
        ))),
    }
}

struct Types<'a> {
    root: &'a Value,
    /// Of the object that is the root.
    select: Option<&'a [String]>,
    budget: Budget,
}

impl<'a> Types<'a> {
    /// `above` are the schemas around it.
    fn of(
        &self,
        schema: &'a Value,
        name: &str,
        above: &mut Vec<&'a Value>,
    ) -> Result<DataType, SchemaError> {
        self.budget.spend()?;
        if above.len() > DEEPEST {
            return Err(SchemaError(format!(
                "{name} nests more than {DEEPEST} levels"
            )));
        }
        if above.iter().any(|outer| std::ptr::eq(*outer, schema)) {
            return Ok(DataType::Utf8);
        }
        above.push(schema);
        let found = self.of_one(schema, name, above);
        above.pop();
        found
    }

    fn of_one(
        &self,
        schema: &'a Value,
        name: &str,
        above: &mut Vec<&'a Value>,
    ) -> Result<DataType, SchemaError> {
        let Value::Object(schema) = schema else {
            return Ok(DataType::Utf8);
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
            return self.of(found, name, above);
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(Value::Array(choices)) = schema.get(keyword) {
                let is_null =
                    |choice: &&Value| choice.get("type").and_then(Value::as_str) == Some("null");
                let mut others = choices.iter().filter(|choice| !is_null(choice));
                return match (others.next(), others.next()) {
                    (Some(only), None) => self.of(only, name, above),
                    _ => Ok(DataType::Utf8),
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
                    (None, None) => Some("null"),
                    (only, None) => only,
                    _ => None,
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
                let items = match schema.get("items") {
                    Some(items) => self.of(items, &format!("{name}[]"), above)?,
                    None => DataType::Utf8,
                };
                DataType::List(Arc::new(Field::new("element", items, true)))
            }
            Some("object") => self.object(schema, name, above)?,
            Some(other) => {
                return Err(SchemaError(format!(
                    "{name} has the type {other:?}, which JSON Schema does not know"
                )));
            }
            None => DataType::Utf8,
        })
    }

    fn object(
        &self,
        schema: &'a Map<String, Value>,
        name: &str,
        above: &mut Vec<&'a Value>,
    ) -> Result<DataType, SchemaError> {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let select = self.select.filter(|_| name == ROOT);
            column::check_selection(select, properties.keys().map(String::as_str))?;
            let fields = properties
                .iter()
                .filter(|(field, _)| column::is_selected(select, field))
                .map(|(field, schema)| {
                    let data_type = self.of(schema, &format!("{name}.{field}"), above)?;
                    Ok(Field::new(field, data_type, true))
                })
                .collect::<Result<Vec<_>, SchemaError>>()?;
            return Ok(DataType::Struct(fields.into()));
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                let values = self.of(values, &format!("{name}.*"), above)?;
                Ok(column::map(DataType::Utf8, values, true))
            }
            _ => Ok(DataType::Utf8),
        }
    }
}
