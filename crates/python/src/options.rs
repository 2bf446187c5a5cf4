//! Options as Python gives them: a dict of Kafka's dotted names and keywords with underscores, both into the one table.

use ottla_client::config::{self, Config, PROPERTIES, Property, Role, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyMapping, PyString, PyTuple};

use crate::errors;

/// Settings of a client from what its constructor was given. Where servers belong, a mapping of properties may stand too, as
/// other clients have it.
pub(crate) fn parse(
    role: Role,
    bootstrap_servers: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyMapping>>,
    properties: Option<&Bound<'_, PyDict>>,
) -> PyResult<Config> {
    let mut pairs = Vec::new();
    if let Some(servers) = bootstrap_servers {
        match servers.cast::<PyMapping>() {
            Ok(config) => texts(Some(role), config, &mut pairs)?,
            Err(_) => pairs.push((
                "bootstrap_servers".to_owned(),
                text("bootstrap_servers", servers)?,
            )),
        }
    }
    if let Some(config) = config {
        texts(Some(role), config, &mut pairs)?;
    }
    if let Some(properties) = properties {
        texts(Some(role), properties.as_mapping(), &mut pairs)?;
    }
    let pairs = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    Config::parse(role, pairs).map_err(|error| errors::config(&error.to_string()))
}

/// Adds the pairs of a mapping. What is None is left out, so that optional settings can be passed on as they are.
///
/// A value that has no text, such as a function, often belongs to a name that the client of `role` does not know. Then the error
/// is about the name.
pub(crate) fn texts(
    role: Option<Role>,
    mapping: &Bound<'_, PyMapping>,
    pairs: &mut Vec<(String, String)>,
) -> PyResult<()> {
    for pair in mapping.items()? {
        let (key, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let Ok(key) = key.cast::<PyString>() else {
            let found = key.get_type();
            return Err(PyTypeError::new_err(format!(
                "keys are str, such as \"linger.ms\", and one is {}",
                found.name()?
            )));
        };
        let key = key.to_str()?;
        if !value.is_none() {
            let text = text(key, &value).map_err(|mistake| {
                let unknown = role.and_then(|role| config::find(role, key, None).err());
                unknown.map_or(mistake, |error| errors::config(&error.to_string()))
            })?;
            pairs.push((key.to_owned(), text));
        }
    }
    Ok(())
}

/// The text of a value, as it would stand in a properties file.
fn text(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(value) = value.cast::<PyString>() {
        Ok(value.to_str()?.to_owned())
    } else if let Ok(value) = value.cast::<PyBool>() {
        Ok(value.is_true().to_string())
    } else if value.is_instance_of::<PyInt>() {
        Ok(value.str()?.to_str()?.to_owned())
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let parts = value
            .try_iter()?
            .map(|part| text(key, &part?))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(parts.join(","))
    } else {
        let found = value.get_type().name()?;
        Err(errors::config(&format!(
            "{key}: must be str, int, bool or a list of str, and was {found} ({})",
            value.repr()?
        )))
    }
}

/// The table of properties, a dict for each: name, roles, kind, default, doc, and what the kind asks for.
#[pyfunction]
pub(crate) fn properties(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    PROPERTIES
        .iter()
        .map(|property| describe(py, property))
        .collect()
}

fn describe<'py>(py: Python<'py>, property: &Property<Config>) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", property.name)?;
    row.set_item(
        "roles",
        property
            .roles
            .iter()
            .map(|role| role.name())
            .collect::<Vec<_>>(),
    )?;
    row.set_item("kind", property.kind())?;
    row.set_item("default", property.default)?;
    row.set_item("doc", property.doc)?;
    match property.value {
        Value::Int { min, max, unit, .. } => {
            row.set_item("min", min)?;
            row.set_item("max", max)?;
            row.set_item("unit", unit)?;
        }
        Value::Choice { of, .. } => row.set_item("choices", of.to_vec())?,
        Value::Bool(_) | Value::Text(_) => {}
    }
    Ok(row)
}
