//! What a facade's `__init__` was called with. PyO3 would name the compiled class in its errors, which users do not know.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};

use crate::bridge::calls::Guarded;

/// The bootstrap servers, and what was given by name and not taken yet.
pub(crate) struct Arguments<'py> {
    class: &'static str,
    pub(crate) bootstrap_servers: Option<Bound<'py, PyAny>>,
    pub(crate) properties: Bound<'py, PyDict>,
}

impl<'py> Arguments<'py> {
    /// `example` is how a client of this class is made.
    ///
    /// # Errors
    /// More was given by position than the bootstrap servers, such as topics, which other clients take there.
    pub(crate) fn new(
        class: &'static str,
        example: &str,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let properties = match named {
            Some(named) => named.copy()?,
            None => PyDict::new(positional.py()),
        };
        let mut arguments = Arguments {
            class,
            bootstrap_servers: None,
            properties,
        };
        let named = arguments.take("bootstrap_servers")?;
        let mut positional = positional.iter();
        let first = positional.next();
        if let Some(second) = positional.next().or(first.clone().and(named.clone())) {
            let text = format!(
                "{class} takes only bootstrap_servers by position, and got {} and {} for it: write {example}",
                first.as_ref().unwrap_or(&second).guarded_repr()?,
                second.guarded_repr()?
            );
            return Err(PyTypeError::new_err(text));
        }
        arguments.bootstrap_servers = first.or(named).filter(|it| !it.is_none());
        Ok(arguments)
    }

    /// What was given by this name, unless it is None.
    pub(crate) fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.properties.get_item(name)?;
        if found.is_some() {
            self.properties.del_item(name)?;
        }
        Ok(found.filter(|it| !it.is_none()))
    }

    /// The properties by Kafka's names.
    ///
    /// # Errors
    /// It is no mapping.
    pub(crate) fn config(&self) -> PyResult<Option<Bound<'py, PyMapping>>> {
        let Some(config) = self.take("config")? else {
            return Ok(None);
        };
        let class = self.class;
        let other = config.get_type().name()?;
        match config.guarded_mapping()? {
            Some(config) => Ok(Some(config.clone())),
            None => Err(PyTypeError::new_err(format!(
                "{class}: config is a dict of properties by Kafka's names, such as {{\"client.id\": \"a\"}}, and was a {other}"
            ))),
        }
    }
}
