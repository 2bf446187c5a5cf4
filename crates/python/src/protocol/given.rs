//! A message as Python code gives it.

use ottla_protocol::form::{
    Body, Each, FormError, FormValue, IntRange, MessageKind, Name, UNKNOWN, text,
};
use ottla_protocol::{Str, UnknownTag, Uuid, wire::Bytes};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};

use super::data;
use super::names::Names;
use super::notation::Notation;
use super::objects::uuid_class;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// Bytes from here on are shared with their Python object; to copy fewer costs less.
const SHARED: usize = 4 << 10;

/// The message that a dictionary is.
pub(super) fn message(
    kind: &MessageKind,
    version: i16,
    value: &Bound<'_, PyAny>,
    notation: Notation,
) -> Result<Box<dyn Body>, FormError> {
    let names = Names::get(value.py());
    kind.take(
        version,
        &Given {
            value,
            names,
            notation,
        },
    )
}

/// A value of a message.
struct Given<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    names: Names,
    notation: Notation,
}

impl<'py> Given<'_, 'py> {
    fn wanted(&self, what: &str) -> FormError {
        if self.value.is_none() {
            return FormError::value(format!("{what} wanted, None given"));
        }
        match self.value.get_type().name() {
            Ok(name) => FormError::value(format!("{what} wanted, {name} given")),
            Err(error) => python(error),
        }
    }

    /// The same for a value inside this one.
    fn inner<'b>(&self, value: &'b Bound<'py, PyAny>) -> Given<'b, 'py> {
        Given {
            value,
            names: self.names,
            notation: self.notation,
        }
    }

    /// What stands under a name in a dictionary, or in anything that maps names to values.
    fn item(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Ok(dict) = self.value.cast::<PyDict>() {
            return dict.get_item(name);
        }
        if self.value.guarded_contains(name)? {
            self.value.guarded_item(name).map(Some)
        } else {
            Ok(None)
        }
    }

    fn unknown_field(&self, field: &Bound<'py, PyAny>) -> Option<UnknownTag> {
        let field = field.cast::<PyDict>().ok()?;
        let (tag, value) = match self.notation {
            Notation::Python => {
                let value = field.get_item(intern!(field.py(), "bytes")).ok()??;
                (field, data::from_buffer(&value).ok()??)
            }
            Notation::Json => {
                let value = field.get_item(intern!(field.py(), "hex")).ok()??;
                (field, text::from_hex(value.extract().ok()?)?.into())
            }
        };
        let tag = tag.get_item(intern!(field.py(), "tag")).ok()??;
        (field.len() == 2).then_some(UnknownTag {
            tag: tag.extract().ok()?,
            value,
        })
    }

    fn text<'b>(&'b self, what: &str) -> Result<&'b str, FormError> {
        match self.value.cast::<PyString>() {
            Ok(text) => text.to_str().map_err(python),
            Err(_) => Err(self.wanted(what)),
        }
    }
}

/// An exception of the caller's objects.
fn python(error: PyErr) -> FormError {
    FormError::value(Python::attach(|py| calls::shown(py, &error)))
}

impl FormValue for Given<'_, '_> {
    fn is_null(&self) -> bool {
        self.value.is_none()
    }

    fn bool(&self) -> Result<bool, FormError> {
        match self.value.cast::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => Err(self.wanted("a bool")),
        }
    }

    fn int(&self, range: IntRange) -> Result<i64, FormError> {
        let py = self.value.py();
        if self.value.is_instance_of::<PyBool>() {
            return Err(self.wanted("an int"));
        }
        // An int, or an object that can stand for one, as numpy's integers do.
        match self.value.guarded_int::<i64>() {
            Ok(value) => range.holds(value),
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
                Err(range.misses(self.value))
            }
            Err(error) if error.is_instance_of::<PyTypeError>(py) => Err(self.wanted("an int")),
            Err(error) => Err(python(error)),
        }
    }

    fn float(&self) -> Result<f64, FormError> {
        let number = self.value.is_instance_of::<PyFloat>() || self.value.is_instance_of::<PyInt>();
        if !number || self.value.is_instance_of::<PyBool>() {
            return Err(self.wanted("a float"));
        }
        self.value.extract().map_err(python)
    }

    fn string(&self) -> Result<Str, FormError> {
        self.text("a str").map(Str::from)
    }

    fn bytes(&self) -> Result<Bytes, FormError> {
        if self.notation == Notation::Json {
            let bytes = text::from_base64(self.text("base64")?).map(Bytes::from);
            return bytes.ok_or_else(|| FormError::value("not base64"));
        }
        if let Ok(bytes) = self.value.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            if bytes.len() < SHARED {
                return Ok(Bytes::copy_from_slice(bytes));
            }
        }
        match data::from_buffer(self.value) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(self.wanted("bytes")),
            Err(error) => Err(python(error)),
        }
    }

    fn uuid(&self) -> Result<Uuid, FormError> {
        let py = self.value.py();
        if self.notation == Notation::Json {
            let text = self.text("a uuid")?;
            return text
                .parse()
                .map_err(|error| FormError::value(format!("{error}")));
        }
        let class = uuid_class(py).map_err(python)?;
        if !self.value.guarded_is_instance(class).map_err(python)? {
            return Err(self.wanted("a uuid.UUID"));
        }
        let bytes = self.value.guarded_attribute(intern!(py, "bytes"));
        bytes
            .and_then(|bytes| bytes.extract())
            .map(Uuid)
            .map_err(python)
    }

    fn elements(&self, each: Each<'_>) -> Result<(), FormError> {
        if let Ok(list) = self.value.cast::<PyList>() {
            return list.iter().try_for_each(|item| each(&self.inner(&item)));
        }
        if let Ok(tuple) = self.value.cast::<PyTuple>() {
            return tuple.iter().try_for_each(|item| each(&self.inner(&item)));
        }
        // These are sequences too, and never meant as such.
        let bytes = self.value.is_instance_of::<PyBytes>()
            || self.value.is_instance_of::<PyByteArray>()
            || self.value.is_instance_of::<PyMemoryView>();
        if bytes
            || self.value.is_instance_of::<PyString>()
            || !self.value.guarded_is_sequence().map_err(python)?
        {
            return Err(self.wanted("a list"));
        }
        for item in self.value.guarded_items().map_err(python)? {
            each(&self.inner(&item.map_err(python)?))?;
        }
        Ok(())
    }

    fn object(&self) -> Result<usize, FormError> {
        if let Ok(dict) = self.value.cast::<PyDict>() {
            return Ok(dict.len());
        }
        match self.value.guarded_mapping().map_err(python)? {
            Some(_) => self.value.guarded_length().map_err(python),
            None => Err(self.wanted("a dict")),
        }
    }

    fn field(&self, name: Name, one: Each<'_>) -> Result<bool, FormError> {
        let Some(key) = self.names.of(self.value.py(), name) else {
            return Ok(false);
        };
        match self.item(key).map_err(python)? {
            Some(value) => one(&self.inner(&value)).map(|()| true),
            None => Ok(false),
        }
    }

    fn unknown(&self) -> Result<Option<Vec<UnknownTag>>, FormError> {
        let key = intern!(self.value.py(), UNKNOWN);
        let Some(list) = self.item(key).map_err(python)? else {
            return Ok(None);
        };
        let fields = list.cast::<PyList>().map(|list| {
            list.iter()
                .map(|field| self.unknown_field(&field))
                .collect()
        });
        match fields {
            Ok(Some(fields)) => Ok(Some(fields)),
            _ => Err(self.inner(&list).wanted(match self.notation {
                Notation::Python => "a list of {\"tag\": int, \"bytes\": bytes}",
                Notation::Json => "a list of {\"tag\": int, \"hex\": str}",
            })),
        }
    }

    fn stranger(&self, known: &[Name]) -> Option<String> {
        let is_known = |name: &str| name == UNKNOWN || known.iter().any(|k| k.as_str() == name);
        for key in self.value.guarded_items().ok()? {
            let key = key.ok()?;
            match key.extract::<&str>() {
                Ok(name) if is_known(name) => {}
                Ok(name) => return Some(name.to_owned()),
                Err(_) => return key.guarded_repr().ok(),
            }
        }
        None
    }

    fn is_complete(&self) -> bool {
        self.notation == Notation::Json
    }
}
