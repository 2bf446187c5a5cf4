//! Messages by name.

use ottla_protocol::form;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::notation::Notation;
use super::{data, given, objects};
use crate::bridge::errors;

/// The bytes of a message.
#[pyfunction]
pub(crate) fn encode_message<'py>(
    py: Python<'py>,
    name: &str,
    version: i64,
    message: &Bound<'py, PyAny>,
    form: Notation,
) -> PyResult<Bound<'py, PyBytes>> {
    let kind = form::find(name).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    let encoded = given::message(kind, version, message, form)
        .and_then(|message| Ok(message.encode(version)?));
    let frame = encoded.map_err(|error| errors::protocol(&error))?;
    data::joined(py, frame.segments())
}

/// The message that bytes are.
#[pyfunction]
pub(crate) fn decode_message<'py>(
    py: Python<'py>,
    name: &str,
    version: i64,
    data: &Bound<'py, PyAny>,
    form: Notation,
) -> PyResult<Bound<'py, PyAny>> {
    let kind = form::find(name).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    let bytes = data::given("data", data)?;
    let message = data::work(py, bytes.len(), || kind.decode_whole(version, bytes));
    let message = message.map_err(|error| errors::protocol(&error))?;
    objects::object(py, &*message, version, form)
}

/// A version as the wire can say it.
pub(super) fn number(name: &str, version: i64) -> PyResult<i16> {
    i16::try_from(version)
        .map_err(|_| errors::protocol(&format!("{name} has no version {version}")))
}
