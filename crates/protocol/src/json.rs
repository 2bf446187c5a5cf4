//! Kafka's JSON form of every message, as its JsonConverter classes read and write it.
//!
//! Field names begin small, bytes are base64, uuids url-safe base64 without padding; fields that a version lacks and
//! tagged fields that hold their default are left out. Two things are added, without which a message would not come back:
//! the bytes of `records` fields, and `_unknownTaggedFields`, a list of `{"tag", "hex"}` in the struct that carries them.

use serde_json::{Map, Value};

use crate::wire::{
    Bytes, DecodeError, EncodeError, Frame, Ints, Message, Reader, Str, UnknownTag, UnknownTags,
    Uuid, Versions, Writer, hex,
};

/// Where the tagged fields stand that are not known here.
const UNKNOWN: &str = "_unknownTaggedFields";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// JSON that is not a message, or a message that is not bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// There is no message of this name.
    #[error("no message is named {0:?}")]
    UnknownMessage(String),
    /// A value that does not fit its field.
    #[error("{}{reason}", shown(path))]
    Value {
        /// The field, from the inside outward.
        path: Vec<String>,
        /// What is wrong.
        reason: String,
    },
    /// The message cannot be written in the version.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bytes are not a message of the version.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for step in path.iter().rev() {
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text += step;
    }
    if text.is_empty() { text } else { text + ": " }
}

impl JsonError {
    fn new(reason: impl Into<String>) -> Self {
        Self::Value {
            path: Vec::new(),
            reason: reason.into(),
        }
    }

    fn at(mut self, step: String) -> Self {
        if let Self::Value { path, .. } = &mut self {
            path.push(step);
        }
        self
    }
}

/// A value with a JSON form.
pub trait Json: Sized {
    /// What the version has of it.
    fn to_json(&self, version: i16) -> Value;

    /// From what the version has of it.
    ///
    /// # Errors
    /// A field that the version has is missing, or a value does not fit its field.
    fn from_json(value: &Value, version: i16) -> Result<Self, JsonError>;
}

/// Something to do with a message type that is only known by its name.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<M: Message + Json>(self) -> Self::Output;
}

/// The versions of the message of this name.
///
/// # Errors
/// [`JsonError::UnknownMessage`].
pub fn versions(name: &str) -> Result<Versions, JsonError> {
    struct Of;
    impl Visitor for Of {
        type Output = Versions;
        fn visit<M: Message + Json>(self) -> Versions {
            M::VERSIONS
        }
    }
    visit(name, Of).ok_or_else(|| JsonError::UnknownMessage(name.to_owned()))
}

/// The bytes of the message of this name.
///
/// # Errors
/// There is no such message or version, or the value does not fit it.
pub fn encode(name: &str, version: i16, value: &Value) -> Result<Frame, JsonError> {
    struct Encode<'a>(i16, &'a Value);
    impl Visitor for Encode<'_> {
        type Output = Result<Frame, JsonError>;
        fn visit<M: Message + Json>(self) -> Self::Output {
            let Self(version, value) = self;
            let mut out = Writer::new();
            M::from_json(value, version)?.encode(version, &mut out)?;
            Ok(out.finish())
        }
    }
    visit(name, Encode(version, value)).ok_or_else(|| JsonError::UnknownMessage(name.to_owned()))?
}

/// The message of this name in the bytes. Bytes after it are left in the reader.
///
/// # Errors
/// There is no such message or version, or the bytes are none.
pub fn decode(name: &str, version: i16, input: &mut Reader) -> Result<Value, JsonError> {
    struct Decode<'a>(i16, &'a mut Reader);
    impl Visitor for Decode<'_> {
        type Output = Result<Value, JsonError>;
        fn visit<M: Message + Json>(self) -> Self::Output {
            Ok(M::decode(self.0, self.1)?.to_json(self.0))
        }
    }
    visit(name, Decode(version, input)).ok_or_else(|| JsonError::UnknownMessage(name.to_owned()))?
}

fn object(value: &Value) -> Result<&Map<String, Value>, JsonError> {
    value.as_object().ok_or_else(|| wanted("an object", value))
}

fn field<T: Json>(
    object: &Map<String, Value>,
    name: &str,
    version: i16,
    needed: bool,
    default: impl FnOnce() -> T,
) -> Result<T, JsonError> {
    match object.get(name) {
        Some(value) => T::from_json(value, version).map_err(|error| error.at(name.to_owned())),
        None if needed => {
            Err(JsonError::new(format!("missing in version {version}")).at(name.to_owned()))
        }
        None => Ok(default()),
    }
}

fn wanted(what: &str, value: &Value) -> JsonError {
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    JsonError::new(format!("{what} wanted, {got} given"))
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Json for $kind {
            fn to_json(&self, _: i16) -> Value {
                Value::from(*self)
            }

            fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
                let number = value.as_i64().ok_or_else(|| wanted("an integer", value))?;
                Self::try_from(number).map_err(|_| JsonError::new(concat!("out of the range of ", stringify!($kind))))
            }
        }
    )*};
}
integers!(i8, i16, u16, i32, u32, i64);

impl Json for bool {
    fn to_json(&self, _: i16) -> Value {
        Value::from(*self)
    }

    fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
        value.as_bool().ok_or_else(|| wanted("a bool", value))
    }
}

impl Json for f64 {
    fn to_json(&self, _: i16) -> Value {
        Value::from(*self)
    }

    fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
        value.as_f64().ok_or_else(|| wanted("a number", value))
    }
}

impl Json for Uuid {
    fn to_json(&self, _: i16) -> Value {
        Value::from(self.to_string())
    }

    fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
        let text = value.as_str().ok_or_else(|| wanted("a uuid", value))?;
        text.parse()
            .map_err(|error| JsonError::new(format!("{error}")))
    }
}

impl Json for Str {
    fn to_json(&self, _: i16) -> Value {
        Value::from(self.as_str())
    }

    fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
        value
            .as_str()
            .map(Self::from)
            .ok_or_else(|| wanted("a string", value))
    }
}

impl Json for Bytes {
    fn to_json(&self, _: i16) -> Value {
        Value::from(to_base64(self))
    }

    fn from_json(value: &Value, _: i16) -> Result<Self, JsonError> {
        let text = value.as_str().ok_or_else(|| wanted("base64", value))?;
        from_base64(text)
            .map(Self::from)
            .ok_or_else(|| JsonError::new("not base64"))
    }
}

impl<T: Json> Json for Option<T> {
    fn to_json(&self, version: i16) -> Value {
        self.as_ref()
            .map_or(Value::Null, |value| value.to_json(version))
    }

    fn from_json(value: &Value, version: i16) -> Result<Self, JsonError> {
        if value.is_null() {
            Ok(None)
        } else {
            T::from_json(value, version).map(Some)
        }
    }
}

impl<T: Json> Json for Vec<T> {
    fn to_json(&self, version: i16) -> Value {
        self.iter()
            .map(|element| element.to_json(version))
            .collect()
    }

    fn from_json(value: &Value, version: i16) -> Result<Self, JsonError> {
        let elements = value
            .as_array()
            .ok_or_else(|| wanted("an array", value))?
            .iter()
            .enumerate();
        elements
            .map(|(i, e)| T::from_json(e, version).map_err(|error| error.at(format!("[{i}]"))))
            .collect()
    }
}

impl Json for Ints {
    fn to_json(&self, version: i16) -> Value {
        self.iter().map(|number| number.to_json(version)).collect()
    }

    fn from_json(value: &Value, version: i16) -> Result<Self, JsonError> {
        Vec::from_json(value, version).map(Self::from)
    }
}

fn unknown_to_json(unknown: &UnknownTags, object: &mut Map<String, Value>) {
    if !unknown.is_empty() {
        let list = unknown
            .iter()
            .map(|field| serde_json::json!({"tag": field.tag, "hex": hex::encode(&field.value)}));
        object.insert(UNKNOWN.to_owned(), list.collect());
    }
}

fn unknown_from_json(object: &Map<String, Value>) -> Result<UnknownTags, JsonError> {
    let Some(list) = object.get(UNKNOWN) else {
        return Ok(UnknownTags::new());
    };
    let wrong = || wanted("a list of {tag, hex}", list).at(UNKNOWN.to_owned());
    let list = list.as_array().ok_or_else(wrong)?;
    let one = |field: &Value| {
        let tag = u32::try_from(field.get("tag")?.as_u64()?).ok()?;
        Some(UnknownTag {
            tag,
            value: hex::decode(field.get("hex")?.as_str()?)?.into(),
        })
    };
    list.iter()
        .map(one)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = BASE64
                .get((bits >> (18 - 6 * i) & 63) as usize)
                .copied()
                .unwrap_or_default();
            text.push(if i <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let letters = text.as_bytes();
    let padding = letters
        .iter()
        .rev()
        .take_while(|letter| **letter == b'=')
        .count();
    if letters.len() % 4 != 0 || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    for chunk in letters.get(..letters.len() - padding)?.chunks(4) {
        let mut bits = 0u32;
        for letter in chunk {
            bits = bits << 6 | BASE64.iter().position(|l| l == letter)? as u32;
        }
        let whole = (bits << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend(whole.iter().skip(1).take(chunk.len() * 6 / 8));
    }
    Some(bytes)
}

pub use generated::{NAMES, visit};

mod generated {
    #![allow(clippy::all, unused_variables)]

    use super::{
        Json, JsonError, Map, Value, Visitor, field, object, unknown_from_json, unknown_to_json,
    };
    use crate::{messages, wire as w};

    include!(concat!(env!("OUT_DIR"), "/json.rs"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn base64_of_every_remainder() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Zg=", "Z===", "Zg=a", "Z g=", "=Zg="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn messages_go_by_name() {
        let value = json!({"topics": [{"name": "t"}], "allowAutoTopicCreation": true});
        let frame = encode("MetadataRequest", 4, &value).unwrap();
        let mut input = Reader::new(frame.into_bytes());
        assert_eq!(decode("MetadataRequest", 4, &mut input).unwrap(), value);
        assert_eq!(
            versions("MetadataRequest").unwrap(),
            Versions { min: 0, max: 13 }
        );
        assert_eq!(
            versions("Nothing"),
            Err(JsonError::UnknownMessage("Nothing".to_owned()))
        );
    }

    #[test]
    fn errors_say_where() {
        let error = |value| {
            encode("MetadataRequest", 4, &value)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error(json!({"topics": [{"name": 5}]})),
            "topics[0].name: a string wanted, a number given"
        );
        assert_eq!(
            error(json!({"topics": []})),
            "allowAutoTopicCreation: missing in version 4"
        );
        let short = encode(
            "ProduceRequest",
            0,
            &json!({"acks": 70000, "timeoutMs": 1, "topicData": []}),
        );
        assert_eq!(
            short.unwrap_err().to_string(),
            "acks: out of the range of i16"
        );
    }
}
