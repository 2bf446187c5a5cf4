//! The columns of objects whose schema nobody knows: those of their first ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use serde_json::Value;

/// What values of a field have in common.
enum Kind {
    /// Null in all.
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    List(Box<Kind>),
    Object(BTreeMap<String, Kind>),
}

/// The columns of the objects among these texts, by their names in order; `None` if there is no object. Whole numbers are int64,
/// others double; what has several types, and what is null in all, is string.
pub(crate) fn infer<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Option<Fields> {
    let objects = texts.filter_map(|text| match serde_json::from_slice(text) {
        Ok(value @ Value::Object(_)) => Some(Kind::of(value)),
        _ => None,
    });
    match objects.reduce(Kind::with)?.data_type() {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    }
}

impl Kind {
    fn of(value: Value) -> Self {
        match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) if number.is_i64() => Kind::Integer,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::Text,
            Value::Array(items) => {
                let items = items.into_iter().map(Kind::of).reduce(Kind::with);
                Kind::List(Box::new(items.unwrap_or(Kind::Null)))
            }
            Value::Object(fields) => Kind::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, Kind::of(value)))
                    .collect(),
            ),
        }
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Kind::Null, kind) | (kind, Kind::Null) => kind,
            (Kind::Boolean, Kind::Boolean) => Kind::Boolean,
            (Kind::Integer, Kind::Integer) => Kind::Integer,
            (Kind::Integer | Kind::Number, Kind::Integer | Kind::Number) => Kind::Number,
            (Kind::List(items), Kind::List(others)) => Kind::List(Box::new(items.with(*others))),
            (Kind::Object(mut fields), Kind::Object(others)) => {
                for (name, kind) in others {
                    let known = fields.remove(&name).unwrap_or(Kind::Null);
                    fields.insert(name, known.with(kind));
                }
                Kind::Object(fields)
            }
            _ => Kind::Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer => DataType::Int64,
            Kind::Number => DataType::Float64,
            Kind::Null | Kind::Text => DataType::Utf8,
            Kind::List(items) => {
                DataType::List(Arc::new(Field::new("element", items.data_type(), true)))
            }
            // An object without fields has no columns.
            Kind::Object(fields) if fields.is_empty() => DataType::Utf8,
            Kind::Object(fields) => DataType::Struct(
                fields
                    .into_iter()
                    .map(|(name, kind)| Field::new(name, kind.data_type(), true))
                    .collect(),
            ),
        }
    }
}
