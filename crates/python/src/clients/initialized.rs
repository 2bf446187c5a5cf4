//! What `__init__` puts into an object. `__new__` only makes the object, so that a subclass may have an `__init__` of its own with
//! other arguments, as any class of Python may.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pyclass::PyClass;
use pyo3::{PyTraverseError, PyVisit};

/// The client that a facade calls, once there is one, and what calls its `on_metrics`.
pub(crate) struct Initialized<C>(OnceLock<(Py<C>, Option<Py<PyAny>>)>);

impl<C> Default for Initialized<C> {
    fn default() -> Self {
        Initialized(OnceLock::new())
    }
}

impl<C: PyClass> Initialized<C> {
    /// Called by `__init__`.
    ///
    /// # Errors
    /// It was called before.
    pub(crate) fn set(&self, core: Bound<'_, C>, reports: Option<Py<PyAny>>) -> PyResult<()> {
        let text = "__init__ was called for the second time: make another object instead";
        let set = self.0.set((core.unbind(), reports));
        set.map_err(|_| PyRuntimeError::new_err(text))
    }

    /// # Errors
    /// `__init__` was not called.
    pub(crate) fn get(&self) -> PyResult<&Py<C>> {
        let text = "__init__ of ottla's class was not called: a subclass with an __init__ of its own calls super().__init__(...) \
                    first";
        let found = self.0.get().map(|(core, _)| core);
        found.ok_or_else(|| PyRuntimeError::new_err(text))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some((core, reports)) = self.0.get() {
            visit.call(core)?;
            visit.call(reports)?;
        }
        Ok(())
    }
}
