//! Delegation tokens and principals.

use ottla_client::admin::{DelegationToken, Principal};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::bridge::calls;
use crate::bridge::calls::Guarded;

pub(super) fn principal((kind, name): (String, String)) -> Principal {
    Principal { kind, name }
}

fn pair(principal: &Principal) -> (&str, &str) {
    (&principal.kind, &principal.name)
}

pub(super) fn made<'py>(py: Python<'py>, token: &DelegationToken) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let renewers: Vec<_> = token.renewers.iter().map(pair).collect();
    calls::class(&CLASS, py, "ottla._types", "DelegationToken")?.guarded_call((
        &token.id,
        PyBytes::new(py, &token.hmac),
        pair(&token.owner),
        token.requester.as_ref().map(pair),
        renewers,
        token.issued_ms,
        token.expires_ms,
        token.ends_ms,
    ))
}
