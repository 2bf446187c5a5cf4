//! The names of fields as Python's strings, made once: a dictionary finds a string that it knows by its address.

use ottla_protocol::form::Name;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Every name, by its index.
#[derive(Clone, Copy)]
pub(super) struct Names(&'static [Py<PyString>]);

impl Names {
    pub(super) fn get(py: Python<'_>) -> Self {
        static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
        let names = NAMES.get_or_init(py, || {
            Name::all()
                .map(|name| PyString::intern(py, name).unbind())
                .collect()
        });
        Self(names)
    }

    pub(super) fn of<'py>(self, py: Python<'py>, name: Name) -> Option<&'py Bound<'py, PyString>> {
        self.0.get(name.index()).map(|key| key.bind(py))
    }
}
