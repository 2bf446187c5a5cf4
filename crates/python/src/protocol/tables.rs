//! What there is: messages, APIs, error codes.

use ottla_protocol::form::MESSAGES;
use ottla_protocol::{ApiKey, ErrorCode};
use pyo3::prelude::*;

/// Kafka numbers its errors from -1 up, with room to grow.
const ERROR_CODES: std::ops::RangeInclusive<i16> = -1..=1000;

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

/// Every error code: the code, its name, whether the same request may succeed later.
#[pyfunction]
pub(crate) fn error_codes() -> Vec<(i16, &'static str, bool)> {
    let unknown = ErrorCode(i16::MAX).name();
    let codes = ERROR_CODES
        .map(ErrorCode)
        .filter(|code| code.name() != unknown);
    codes
        .map(|code| (code.0, code.name(), code.is_retriable()))
        .collect()
}
