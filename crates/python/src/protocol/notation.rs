//! The two notations that Python code may ask for.

use pyo3::prelude::*;

use crate::bridge::calls::Guarded;
use crate::bridge::errors;

/// How bytes, uuids and unknown tagged fields are written, and which fields are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// Python's own types, and every field that the version has.
    Python,
    /// What Kafka's JsonConverter classes write.
    Json,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Notation {
    type Error = PyErr;

    fn extract(form: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match form.extract::<&str>() {
            Ok("python") => Ok(Self::Python),
            Ok("json") => Ok(Self::Json),
            _ => Err(errors::argument(&format!(
                "form is \"python\" or \"json\", and was {}",
                form.guarded_repr()?
            ))),
        }
    }
}
