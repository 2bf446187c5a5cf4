//! The response that refuses a request.

use ottla_protocol::ErrorCode;
use ottla_protocol::form::frame;
use ottla_protocol::refusal::{self, Refusal};
use pyo3::prelude::*;

use super::messages::number;
use super::notation::Notation;
use super::{given, objects};
use crate::bridge::errors;

/// The response that carries an error wherever it has a place for one.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn error_response<'py>(
    py: Python<'py>,
    key: i16,
    version: i64,
    request: &Bound<'py, PyAny>,
    code: i64,
    message: Option<&str>,
    throttle_time_ms: i64,
    form: Notation,
) -> PyResult<Bound<'py, PyAny>> {
    let (api, kind) = frame::request(key).map_err(|error| errors::protocol(&error))?;
    let (_, answer) = frame::response(key).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    let code = i16::try_from(code)
        .map_err(|_| errors::protocol(&format!("{code} is no error code: they have 16 bits")))?;
    let throttle_time_ms = i32::try_from(throttle_time_ms).map_err(|_| {
        errors::protocol(&format!(
            "{throttle_time_ms} is no throttle time: it has 32 bits, in milliseconds"
        ))
    })?;
    let refusal = Refusal {
        code: ErrorCode(code),
        message: message.map(Into::into),
        throttle_time_ms,
    };
    let request = given::message(kind, version, request, form)
        .and_then(|request| Ok(request.encode(version)?))
        .map_err(|error| errors::protocol(&error))?;
    let refused = refusal::error_response(api, version, request.into_bytes(), &refusal)
        .map_err(|error| errors::protocol(&error))?;
    let response = answer
        .decode_whole(version, refused.into_bytes())
        .map_err(|error| errors::protocol(&error))?;
    objects::object(py, &*response, version, form)
}
