//! Keys, values and headers as Python gives them: bytes-like or text, without a copy where they are `bytes` or `str`.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::values::numbers::whole;

/// Names the wrong argument, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) what: &'static str,
    pub(crate) topic: &'a str,
    /// Where one call brings many.
    pub(crate) row: Option<usize>,
}

impl Place<'_> {
    pub(crate) fn wrong_type(self, object: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
        let found = object.get_type();
        let found = match found.qualname() {
            Ok(name) => name.to_string(),
            Err(error) => return error,
        };
        let row = self
            .row
            .map(|row| format!(" of row {row}"))
            .unwrap_or_default();
        PyTypeError::new_err(format!(
            "{}{row} for topic {:?} must be {wanted}, not {found}",
            self.what, self.topic
        ))
    }
}

/// Immutable bytes inside a Python object, usable without the interpreter.
pub(crate) struct Payload {
    bytes: &'static [u8],
    /// Keeps `bytes` alive, and so must not leave before them.
    owner: Py<PyAny>,
}

impl Payload {
    /// The bytes of a bytes-like object, the UTF-8 of a str; `None` for None.
    #[inline]
    pub(crate) fn new(place: Place<'_>, object: Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        match object.cast_into_exact::<PyBytes>() {
            Ok(bytes) => Ok(Some(Self::of_bytes(bytes))),
            Err(error) => Self::of_other(place, error.into_inner()),
        }
    }

    fn of_other(place: Place<'_>, object: Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if object.is_none() {
            return Ok(None);
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Self::of_str(text).map(Some);
        }
        if PyUntypedBuffer::get(&object).is_ok() {
            // A bytearray, memoryview, array...: copied, since its owner may change it meanwhile.
            let copy = object.py().get_type::<PyBytes>().guarded_call((object,))?;
            return Ok(Some(Self::of_bytes(copy.cast_into()?)));
        }
        let advice = if object.is_instance_of::<PyDict>() || object.is_instance_of::<PyList>() {
            "encode it first, for instance with json.dumps()"
        } else {
            "convert it first, for instance with str()"
        };
        let error = place.wrong_type(
            &object,
            "bytes, bytearray, memoryview, str (sent as UTF-8) or None",
        );
        errors::note(object.py(), &error, advice)?;
        Err(error)
    }

    #[inline]
    fn of_bytes(bytes: Bound<'_, PyBytes>) -> Self {
        let slice: *const [u8] = bytes.as_bytes();
        // SAFETY: a bytes object neither changes nor moves its content, and `owner` keeps it alive as long as the slice,
        // which leaves this struct only with a shorter lifetime.
        Payload {
            bytes: unsafe { &*slice },
            owner: bytes.into_any().unbind(),
        }
    }

    fn of_str(text: &Bound<'_, PyString>) -> PyResult<Self> {
        let slice: *const [u8] = text.to_str()?.as_bytes();
        // SAFETY: as above; a str keeps its UTF-8 form, once made, as long as it lives.
        Ok(Payload {
            bytes: unsafe { &*slice },
            owner: text.clone().into_any().unbind(),
        })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes
    }

    /// The same as `bytes`: the object itself, if it is one.
    pub(crate) fn into_bytes(self, py: Python<'_>) -> Py<PyAny> {
        match self.owner.bind(py).is_exact_instance_of::<PyBytes>() {
            true => self.owner,
            false => PyBytes::new(py, self.bytes).into_any().unbind(),
        }
    }
}

/// Text inside a Python str, usable without the interpreter.
pub(crate) struct Text(Payload);

impl Text {
    pub(crate) fn new(text: &Bound<'_, PyString>) -> PyResult<Self> {
        Payload::of_str(text).map(Text)
    }

    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: `new` takes the bytes from a str.
        unsafe { std::str::from_utf8_unchecked(self.0.as_slice()) }
    }
}

/// One name, or many.
pub(crate) fn names(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match object.cast::<PyString>() {
        Ok(name) => Ok(vec![name.to_str()?.to_owned()]),
        Err(_) => object
            .guarded_items()?
            .map(|name| name?.extract())
            .collect(),
    }
}

/// What a point in time may be.
const TIMESTAMP: &str =
    "an int of milliseconds since 1970 UTC that fits 64 bits, or a datetime with a time zone";

/// A point in time as Python gives it: milliseconds since 1970 UTC, or a datetime that knows its time zone.
pub(crate) fn timestamp_ms(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let ms = match object.is_exact_instance_of::<PyInt>() {
        true => None,
        false => datetime_ms(object)?,
    };
    let ms = match ms {
        Some(ms) => ms,
        None => whole("timestamp", TIMESTAMP, object)?,
    };
    if ms < 0 {
        return Err(errors::argument(&format!(
            "a timestamp is a number of milliseconds since 1970 UTC, from 0 up, and was {ms}"
        )));
    }
    Ok(ms)
}

/// Milliseconds of a datetime, rounded down; `None` for another object.
fn datetime_ms(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static EPOCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MILLISECOND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let class = calls::class(&CLASS, py, "datetime", "datetime")?;
    if !object.guarded_is_instance(class)? {
        return Ok(None);
    }
    if object
        .guarded_method(intern!(py, "utcoffset"), ())?
        .is_none()
    {
        return Err(errors::argument(
            "a datetime without a time zone names no point in time: write datetime.now(timezone.utc), or moment.astimezone() \
             if it is local time",
        ));
    }
    let epoch = EPOCH.get_or_try_init(py, || {
        let module = calls::module(py, "datetime")?;
        let zone = module.guarded_attribute(intern!(py, "timezone"))?;
        let utc = zone.guarded_attribute(intern!(py, "utc"))?;
        let epoch = class.guarded_method(intern!(py, "fromtimestamp"), (0, utc))?;
        PyResult::Ok(epoch.unbind())
    })?;
    let millisecond = MILLISECOND.get_or_try_init(py, || {
        let module = calls::module(py, "datetime")?;
        let class = module.guarded_attribute(intern!(py, "timedelta"))?;
        // No days, no seconds, and microseconds.
        PyResult::Ok(class.guarded_call((0, 0, 1000))?.unbind())
    })?;
    let since = object.guarded_difference(epoch.bind(py))?;
    since.floor_div(millisecond)?.extract().map(Some)
}

/// A `uuid.UUID`.
pub(crate) fn uuid(py: Python<'_>, id: [u8; 16]) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = calls::class(&CLASS, py, "uuid", "UUID")?;
    Ok(class
        .guarded_call((py.None(), PyBytes::new(py, &id)))?
        .unbind())
}
