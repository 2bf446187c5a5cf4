//! The extension module `ottla._ottla`: only its entry point. Everything in it is `ottla-python`'s.

use pyo3::prelude::*;

/// The compiled half of ottla.
#[pymodule]
fn _ottla(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ottla_python::register(module)
}
