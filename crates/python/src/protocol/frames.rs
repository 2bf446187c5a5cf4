//! Frames: a length, a header, a message.

use ottla_protocol::ApiKey;
use ottla_protocol::form::frame;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::messages::number;
use super::notation::Notation;
use super::{data, given, objects};
use crate::bridge::errors;

/// A whole request.
#[pyfunction]
pub(crate) fn encode_request<'py>(
    py: Python<'py>,
    key: i16,
    version: i64,
    message: &Bound<'py, PyAny>,
    correlation_id: i32,
    client_id: Option<&str>,
    form: Notation,
) -> PyResult<Bound<'py, PyBytes>> {
    let (api, kind) = frame::request(key).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    let framed = given::message(kind, version, message, form)
        .and_then(|body| frame::encode_request(api, version, &*body, correlation_id, client_id));
    data::joined(py, &framed.map_err(|error| errors::protocol(&error))?)
}

/// A whole response.
#[pyfunction]
pub(crate) fn encode_response<'py>(
    py: Python<'py>,
    key: i16,
    version: i64,
    message: &Bound<'py, PyAny>,
    correlation_id: i32,
    form: Notation,
) -> PyResult<Bound<'py, PyBytes>> {
    let (api, kind) = frame::response(key).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    let framed = given::message(kind, version, message, form)
        .and_then(|body| frame::encode_response(api, version, &*body, correlation_id));
    data::joined(py, &framed.map_err(|error| errors::protocol(&error))?)
}

type Shown<'py> = (
    &'static str,
    i16,
    i32,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyAny>,
);

/// What a frame holds: API, version, correlation id, client id, message. Without an API and a version it is a request.
#[pyfunction]
pub(crate) fn decode_frame<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    response_to: Option<(i16, i64)>,
    form: Notation,
) -> PyResult<Shown<'py>> {
    let bytes = data::given("data", data)?;
    let response_to = match response_to {
        Some((key, version)) => {
            let (api, kind) = frame::response(key).map_err(|error| errors::protocol(&error))?;
            Some((api, number(kind.name, version)?))
        }
        None => None,
    };
    let read = data::work(py, bytes.len(), || match response_to {
        Some((api, version)) => frame::decode_response(api, version, bytes),
        None => frame::decode_request(bytes),
    });
    let frame = read.map_err(|error| errors::protocol(&error))?;
    let client_id = frame.client_id.as_deref();
    Ok((
        ApiKey::name(frame.api),
        frame.version,
        frame.correlation_id,
        client_id
            .map(|id| id.into_pyobject(py).map(Bound::into_any))
            .transpose()?,
        objects::object(py, &*frame.body, frame.version, form)?,
    ))
}
