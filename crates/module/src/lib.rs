//! The extension module `ottla._ottla`: only its entry point. Everything in it is `ottla-python`'s.

use pyo3::prelude::*;

/// The compiled half of ottla. On a Python without the GIL it turns the GIL on:
/// docs/reference/free-threading.md lists what is missing.
#[pymodule(gil_used = true)]
fn _ottla(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ottla_python::register(module)
}
