//! The tables of messages, APIs and error codes.

use ottla_protocol::form::{MESSAGES, frame};
use ottla_protocol::{ApiKey, ErrorCode};
use pyo3::prelude::*;

use super::messages::number;
use crate::bridge::errors;

/// Every message: its name, its lowest and highest version.
#[pyfunction]
pub(crate) fn messages() -> Vec<(&'static str, i16, i16)> {
    let kinds = MESSAGES.iter();
    kinds
        .map(|kind| (kind.name, kind.versions.min, kind.versions.max))
        .collect()
}

type Api = (
    i16,
    &'static str,
    i16,
    i16,
    Option<i16>,
    bool,
    Vec<&'static str>,
);

/// Every API in the order of the keys: key, name, lowest and highest version, the first flexible one, whether the highest is
/// unstable, listeners.
#[pyfunction]
pub(crate) fn apis() -> Vec<Api> {
    let row = |api: &ApiKey| {
        let versions = api.versions();
        (
            api.as_i16(),
            api.name(),
            versions.min,
            versions.max,
            api.flexible_from(),
            api.latest_version_unstable(),
            api.listeners().to_vec(),
        )
    };
    ApiKey::ALL.iter().map(row).collect()
}

/// The versions of the headers before a request and before a response of an API's version.
#[pyfunction]
pub(crate) fn header_versions(key: i16, version: i64) -> PyResult<(i16, i16)> {
    let (api, kind) = frame::request(key).map_err(|error| errors::protocol(&error))?;
    let version = number(kind.name, version)?;
    Ok((
        api.request_header_version(version),
        api.response_header_version(version),
    ))
}

/// Every error code: the code, its name, whether the same request may succeed later.
#[pyfunction]
pub(crate) fn error_codes() -> Vec<(i16, &'static str, bool)> {
    let codes = ErrorCode::ALL.iter();
    codes
        .map(|code| (code.0, code.name(), code.is_retriable()))
        .collect()
}
