//! Kafka's JSON form of every message, as its JsonConverter classes read and write it.
//!
//! Field names begin with a small letter, bytes are base64, and uuids are URL-safe base64 without padding. The form leaves out
//! fields that a version lacks and tagged fields with their default value. It adds two things that a message needs to be
//! read back: the bytes of `records` fields, and `_unknownTaggedFields`, a list of `{"tag", "hex"}` in the struct that has them.
//! It is stricter in one point: a name without a field is an error, while Kafka's classes ignore it.

use serde_json::{Map, Value};

pub use crate::form::{NAMES, Visitor, visit};

use crate::form::{self, Each, Form, FormError, FormValue, IntRange, Name, Sink, UNKNOWN, text};
use crate::wire::{Bytes, Frame, Reader, Str, UnknownTag, UnknownTags, Uuid, Versions};

/// A value with a JSON form: everything that has a form.
pub trait Json: Form {
    /// The value as JSON, in a version.
    fn to_json(&self, version: i16) -> Value {
        let mut out = Values::default();
        self.show(version, &mut out);
        out.finish()
    }

    /// Reads the value from JSON, in a version.
    ///
    /// # Errors
    /// A field that the version has is missing, a value does not fit its field, or a name has no field.
    fn from_json(value: &Value, version: i16) -> Result<Self, FormError>
    where
        Self: Sized + Default,
    {
        Self::take(version, &Given(value))
    }
}

impl<T: Form> Json for T {}

/// The versions of the message with this name.
///
/// # Errors
/// No message has this name.
pub fn versions(name: &str) -> Result<Versions, FormError> {
    form::find(name).map(|kind| kind.versions)
}

/// Encodes the message with this name.
///
/// # Errors
/// The message or version is unknown, or the value does not fit it.
pub fn encode(name: &str, version: i16, value: &Value) -> Result<Frame, FormError> {
    let message = form::find(name)?.take(version, &Given(value))?;
    Ok(message.encode(version)?)
}

/// Decodes the message with this name. Bytes after it stay in the reader.
///
/// # Errors
/// The message or version is unknown, or the bytes are not such a message.
pub fn decode(name: &str, version: i16, input: &mut Reader) -> Result<Value, FormError> {
    let message = form::find(name)?.decode(version, input)?;
    let mut out = Values::default();
    message.show(version, &mut out);
    Ok(out.finish())
}

/// An open array or object.
enum Open {
    Array(Vec<Value>),
    Object(Map<String, Value>, &'static str),
}

/// Writes JSON.
#[derive(Default)]
struct Values {
    open: Vec<Open>,
    done: Value,
}

impl Values {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Array(array)) => array.push(value),
            Some(Open::Object(object, name)) => {
                object.insert((*name).to_owned(), value);
            }
            None => self.done = value,
        }
    }

    fn end(&mut self) {
        match self.open.pop() {
            Some(Open::Array(array)) => self.put(Value::Array(array)),
            Some(Open::Object(object, _)) => self.put(Value::Object(object)),
            None => {}
        }
    }

    fn finish(self) -> Value {
        self.done
    }
}

impl Sink for Values {
    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn bool(&mut self, value: bool) {
        self.put(Value::from(value));
    }

    fn int(&mut self, value: i64) {
        self.put(Value::from(value));
    }

    fn float(&mut self, value: f64) {
        self.put(Value::from(value));
    }

    fn string(&mut self, value: &Str) {
        self.put(Value::from(value.as_str()));
    }

    fn bytes(&mut self, value: &Bytes) {
        self.put(Value::from(text::to_base64(value)));
    }

    fn uuid(&mut self, value: Uuid) {
        self.put(Value::from(value.to_string()));
    }

    fn begin_array(&mut self, length: usize) {
        self.open.push(Open::Array(Vec::with_capacity(length)));
    }

    fn end_array(&mut self) {
        self.end();
    }

    fn begin_object(&mut self) {
        self.open.push(Open::Object(Map::new(), ""));
    }

    fn name(&mut self, name: Name) {
        if let Some(Open::Object(_, last)) = self.open.last_mut() {
            *last = name.as_str();
        }
    }

    fn unknown(&mut self, fields: &UnknownTags) {
        let list = fields
            .iter()
            .map(|field| serde_json::json!({"tag": field.tag, "hex": text::to_hex(&field.value)}));
        if let Some(Open::Object(object, _)) = self.open.last_mut() {
            object.insert(UNKNOWN.to_owned(), list.collect());
        }
    }

    fn end_object(&mut self) {
        self.end();
    }

    fn shows_defaults(&self) -> bool {
        false
    }
}

/// JSON to read.
struct Given<'a>(&'a Value);

impl Given<'_> {
    fn wanted(&self, what: &str) -> FormError {
        let got = match self.0 {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        FormError::value(format!("{what} wanted, {got} given"))
    }
}

impl FormValue for Given<'_> {
    fn is_null(&self) -> bool {
        self.0.is_null()
    }

    fn bool(&self) -> Result<bool, FormError> {
        self.0.as_bool().ok_or_else(|| self.wanted("a bool"))
    }

    fn int(&self, range: IntRange) -> Result<i64, FormError> {
        match self.0 {
            Value::Number(number) => match number.as_i64() {
                Some(value) => range.holds(value),
                None => Err(range.misses(number)),
            },
            _ => Err(self.wanted("an integer")),
        }
    }

    fn float(&self) -> Result<f64, FormError> {
        self.0.as_f64().ok_or_else(|| self.wanted("a number"))
    }

    fn string(&self) -> Result<Str, FormError> {
        let text = self.0.as_str().map(Str::from);
        text.ok_or_else(|| self.wanted("a string"))
    }

    fn bytes(&self) -> Result<Bytes, FormError> {
        let text = self.0.as_str().ok_or_else(|| self.wanted("base64"))?;
        let bytes = text::from_base64(text).map(Bytes::from);
        bytes.ok_or_else(|| FormError::value("not base64"))
    }

    fn uuid(&self) -> Result<Uuid, FormError> {
        let text = self.0.as_str().ok_or_else(|| self.wanted("a uuid"))?;
        text.parse()
            .map_err(|error| FormError::value(format!("{error}")))
    }

    fn elements(&self, each: Each<'_>) -> Result<(), FormError> {
        let array = self.0.as_array().ok_or_else(|| self.wanted("an array"))?;
        array.iter().try_for_each(|element| each(&Given(element)))
    }

    fn object(&self) -> Result<usize, FormError> {
        let object = self.0.as_object().ok_or_else(|| self.wanted("an object"))?;
        Ok(object.len())
    }

    fn field(&self, name: Name, one: Each<'_>) -> Result<bool, FormError> {
        match self.0.get(name.as_str()) {
            Some(value) => one(&Given(value)).map(|()| true),
            None => Ok(false),
        }
    }

    fn unknown(&self) -> Result<Option<Vec<UnknownTag>>, FormError> {
        let Some(list) = self.0.get(UNKNOWN) else {
            return Ok(None);
        };
        let one = |field: &Value| {
            let tag = u32::try_from(field.get("tag")?.as_u64()?).ok()?;
            let value = text::from_hex(field.get("hex")?.as_str()?)?.into();
            Some(UnknownTag { tag, value })
        };
        let fields = list.as_array().map(|list| list.iter().map(one).collect());
        match fields {
            Some(Some(fields)) => Ok(Some(fields)),
            _ => Err(Given(list).wanted("a list of {tag, hex}")),
        }
    }

    fn stranger(&self, known: &[Name]) -> Option<String> {
        let mut names = self.0.as_object()?.keys();
        let is_known = |name: &str| name == UNKNOWN || known.iter().any(|k| k.as_str() == name);
        names.find(|name| !is_known(name)).cloned()
    }

    fn is_complete(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            versions("MetadataRequst").unwrap_err().to_string(),
            "no message is named \"MetadataRequst\"; the nearest is \"MetadataRequest\""
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
            error(json!({"topics": [{"name": "a"}, {"name": 5}]})),
            "MetadataRequest.topics[1].name: a string wanted, a number given"
        );
        assert_eq!(
            error(json!({"topics": []})),
            "MetadataRequest.allowAutoTopicCreation: missing in version 4"
        );
        assert_eq!(
            error(json!({"topics": [], "allowAutoTopicCreation": true, "topic": []})),
            "MetadataRequest: no field is named \"topic\"; the nearest is \"topics\""
        );
        let short = encode(
            "ProduceRequest",
            0,
            &json!({"acks": 70000, "timeoutMs": 1, "topicData": []}),
        );
        assert_eq!(
            short.unwrap_err().to_string(),
            "ProduceRequest.acks: 70000 is not an int16, from -32768 to 32767"
        );
    }
}
