//! Python's objects of a decoded message.

use ottla_protocol::form::{Body, Name, Sink, UNKNOWN, text};
use ottla_protocol::{Str, UnknownTags, Uuid, wire::Bytes};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use super::names::Names;
use super::notation::Notation;
use crate::bridge::calls;
use crate::bridge::calls::Guarded;

/// What a version of a message looks like from Python: a dictionary.
pub(super) fn object<'py>(
    py: Python<'py>,
    message: &dyn Body,
    version: i16,
    notation: Notation,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Objects {
        py,
        notation,
        names: Names::get(py),
        around: Vec::new(),
        open: Open::None,
        done: py.None().into_bound(py),
        failure: None,
    };
    message.show(version, &mut objects);
    match objects.failure {
        None => Ok(objects.done),
        Some(failure) => Err(failure),
    }
}

/// A container that is being filled.
enum Open<'py> {
    None,
    List(Bound<'py, PyList>),
    /// With the name of the next value.
    Dict(Bound<'py, PyDict>, Option<&'py Bound<'py, PyString>>),
}

struct Objects<'py> {
    py: Python<'py>,
    notation: Notation,
    names: Names,
    /// What the open container stands in, from the outside inward.
    around: Vec<Open<'py>>,
    open: Open<'py>,
    done: Bound<'py, PyAny>,
    /// The first that went wrong; what follows has no meaning.
    failure: Option<PyErr>,
}

impl<'py> Objects<'py> {
    fn put(&mut self, value: Bound<'py, PyAny>) {
        let put = match &self.open {
            Open::Dict(dict, Some(name)) => dict.set_item(name, value),
            Open::List(list) => list.append(value),
            Open::Dict(_, None) | Open::None => {
                self.done = value;
                return;
            }
        };
        self.note(put);
    }

    fn note<T>(&mut self, result: PyResult<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    fn begin(&mut self, open: Open<'py>) {
        self.around.push(std::mem::replace(&mut self.open, open));
    }

    fn end(&mut self) {
        let around = self.around.pop().unwrap_or(Open::None);
        match std::mem::replace(&mut self.open, around) {
            Open::List(list) => self.put(list.into_any()),
            Open::Dict(dict, _) => self.put(dict.into_any()),
            Open::None => {}
        }
    }

    fn unknown_fields(&self, fields: &UnknownTags) -> PyResult<Bound<'py, PyList>> {
        let (py, list) = (self.py, PyList::empty(self.py));
        for field in fields.iter() {
            let shown = PyDict::new(py);
            shown.set_item(intern!(py, "tag"), field.tag)?;
            match self.notation {
                Notation::Python => {
                    shown.set_item(intern!(py, "bytes"), PyBytes::new(py, &field.value))?;
                }
                Notation::Json => shown.set_item(intern!(py, "hex"), text::to_hex(&field.value))?,
            }
            list.append(shown)?;
        }
        Ok(list)
    }
}

impl Sink for Objects<'_> {
    fn null(&mut self) {
        self.put(self.py.None().into_bound(self.py));
    }

    fn bool(&mut self, value: bool) {
        self.put(PyBool::new(self.py, value).to_owned().into_any());
    }

    fn int(&mut self, value: i64) {
        self.put(PyInt::new(self.py, value).into_any());
    }

    fn float(&mut self, value: f64) {
        self.put(PyFloat::new(self.py, value).into_any());
    }

    fn string(&mut self, value: &Str) {
        self.put(PyString::new(self.py, value).into_any());
    }

    fn bytes(&mut self, value: &Bytes) {
        self.put(match self.notation {
            Notation::Python => PyBytes::new(self.py, value).into_any(),
            Notation::Json => PyString::new(self.py, &text::to_base64(value)).into_any(),
        });
    }

    fn uuid(&mut self, value: Uuid) {
        let made = match self.notation {
            Notation::Python => uuid(self.py, value),
            Notation::Json => Ok(PyString::new(self.py, &value.to_string()).into_any()),
        };
        if let Some(value) = self.note(made) {
            self.put(value);
        }
    }

    fn begin_array(&mut self, _: usize) {
        self.begin(Open::List(PyList::empty(self.py)));
    }

    fn end_array(&mut self) {
        self.end();
    }

    fn begin_object(&mut self) {
        self.begin(Open::Dict(PyDict::new(self.py), None));
    }

    fn name(&mut self, name: Name) {
        let (py, names) = (self.py, self.names);
        if let Open::Dict(_, next) = &mut self.open {
            *next = names.of(py, name);
        }
    }

    fn unknown(&mut self, fields: &UnknownTags) {
        let shown = self.unknown_fields(fields);
        if let (Some(list), Open::Dict(dict, _)) = (self.note(shown), &self.open) {
            let put = dict.set_item(UNKNOWN, list);
            self.note(put);
        }
    }

    fn end_object(&mut self) {
        self.end();
    }

    fn shows_defaults(&self) -> bool {
        self.notation == Notation::Python
    }
}

/// A `uuid.UUID`. Most of those on the wire are the one that stands for none.
fn uuid(py: Python<'_>, value: Uuid) -> PyResult<Bound<'_, PyAny>> {
    static ZERO: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = |value: Uuid| uuid_class(py)?.guarded_call((py.None(), PyBytes::new(py, &value.0)));
    if value.is_zero() {
        let zero = ZERO.get_or_try_init(py, || make(value).map(Bound::unbind))?;
        return Ok(zero.bind(py).clone());
    }
    make(value)
}

/// The class `uuid.UUID`.
pub(super) fn uuid_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    calls::class(&CLASS, py, "uuid", "UUID")
}
