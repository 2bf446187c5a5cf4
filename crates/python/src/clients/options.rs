//! Options as Python gives them: a dict of Kafka's dotted names and keywords with underscores, both into the one table.

use ottla_client::config::{self, Config, PROPERTIES, Property, Role, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

use crate::bridge::calls::Guarded;
use crate::bridge::{calls, errors};
use crate::clients::assignors::Assignors;
use crate::clients::login::SaslLogin;
use crate::clients::{assignors, sasl};

const STRATEGY: [&str; 2] = [
    "partition_assignment_strategy",
    "partition.assignment.strategy",
];

/// Settings of a client from what its constructor was given. Where servers belong, a mapping of properties may stand too, as
/// other clients have it.
pub(crate) fn parse(
    role: Role,
    bootstrap_servers: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyMapping>>,
    properties: Option<&Bound<'_, PyDict>>,
) -> PyResult<Config> {
    let mut token = None;
    let parsed = read(role, bootstrap_servers, config, properties, &mut |given| {
        but_token(given, &mut token)
    })?;
    provide(parsed, token)
}

/// The settings of a consumer, and its assignors.
pub(crate) fn parse_consumer(
    bootstrap_servers: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyMapping>>,
    properties: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Config, Assignors)> {
    let (mut token, mut strategy) = (None, None);
    let parsed = read(
        Role::Consumer,
        bootstrap_servers,
        config,
        properties,
        &mut |given| {
            let rest = but_token(given, &mut token)?;
            // Otherwise it is names, and in the table.
            but(&rest, &STRATEGY, &mut strategy, assignors::has_assignors)
        },
    )?;
    let mut config = provide(parsed, token)?;
    let assignors = match strategy {
        Some(strategy) => Assignors::offer(&mut config, &strategy)?,
        None => Assignors::default(),
    };
    Ok((config, assignors))
}

/// The settings of a producer, and its partitioner if that is a function.
pub(crate) fn parse_producer<'py>(
    bootstrap_servers: Option<&Bound<'py, PyAny>>,
    config: Option<&Bound<'py, PyMapping>>,
    properties: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Config, Option<Bound<'py, PyAny>>)> {
    let (mut token, mut partitioner) = (None, None);
    let parsed = read(
        Role::Producer,
        bootstrap_servers,
        config,
        properties,
        &mut |given| {
            let rest = but_token(given, &mut token)?;
            but(&rest, &["partitioner"], &mut partitioner, |given| {
                // Otherwise it is the name of one, and in the table.
                Ok(given.is_callable())
            })
        },
    )?;
    Ok((provide(parsed, token)?, partitioner))
}

fn provide(mut config: Config, token: Option<Bound<'_, PyAny>>) -> PyResult<Config> {
    Python::attach(|py| sasl::provide(py, &mut config, token.as_ref()))?;
    Ok(config)
}

/// Reads the settings that are text; `but` removes other values from a mapping.
fn read<'py>(
    role: Role,
    bootstrap_servers: Option<&Bound<'py, PyAny>>,
    config: Option<&Bound<'py, PyMapping>>,
    properties: Option<&Bound<'py, PyDict>>,
    but: &mut dyn FnMut(&Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyMapping>>,
) -> PyResult<Config> {
    let mut pairs = Vec::new();
    if let Some(servers) = bootstrap_servers {
        match servers.guarded_mapping()? {
            Some(config) => texts(Some(role), &but(&plain(config)?)?, &mut pairs)?,
            None => pairs.push((
                "bootstrap_servers".to_owned(),
                text("bootstrap_servers", servers)?,
            )),
        }
    }
    let properties = properties.map(|properties| properties.as_mapping());
    for given in [config, properties].into_iter().flatten() {
        texts(Some(role), &but(&plain(given)?)?, &mut pairs)?;
    }
    let pairs = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let parsed = Config::parse(role, pairs);
    parsed.map_err(|error| errors::config(&error.to_string()))
}

/// A mapping as a dict, which has no code of a user.
fn plain<'py>(mapping: &Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyMapping>> {
    if mapping.is_exact_instance_of::<PyDict>() {
        return Ok(mapping.clone());
    }
    let copy = PyDict::new(mapping.py());
    for pair in calls::entries(mapping)? {
        let (key, value) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        copy.set_item(key, value)?;
    }
    Ok(copy.into_mapping())
}

/// A mapping without `sasl_token`, which is no text for any client.
fn but_token<'py>(
    mapping: &Bound<'py, PyMapping>,
    token: &mut Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyMapping>> {
    but(
        mapping,
        &["sasl_token", "sasl.token"],
        token,
        |given| match given.is_callable() || given.is_instance_of::<SaslLogin>() {
            true => Ok(true),
            false => Err(errors::config(
                "sasl_token: must be a function that returns a token, and is not callable",
            )),
        },
    )
}

/// A mapping without these names where `takes` finds that their value is no text; that value goes
/// into `found`.
fn but<'py>(
    mapping: &Bound<'py, PyMapping>,
    names: &[&str],
    found: &mut Option<Bound<'py, PyAny>>,
    takes: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<Bound<'py, PyMapping>> {
    let mut rest = mapping.clone();
    for name in names {
        if !mapping.contains(name)? {
            continue;
        }
        let given = mapping.get_item(name)?;
        let is_taken = !given.is_none() && takes(&given)?;
        if !given.is_none() && !is_taken {
            continue;
        }
        let copy = PyDict::new(mapping.py());
        copy.update(&rest)?;
        copy.del_item(name)?;
        rest = copy.into_mapping();
        if !is_taken {
            continue;
        }
        if found.is_some() {
            return Err(errors::config(&format!("{name}: given twice")));
        }
        *found = Some(given);
    }
    Ok(rest)
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
    for pair in calls::entries(mapping)? {
        let (key, value) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
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
        value.guarded_str()
    } else if value.guarded_has(intern!(value.py(), "__index__"))? {
        // Such as the integers of numpy.
        value
            .guarded_method(intern!(value.py(), "__index__"), ())?
            .guarded_str()
    } else if let Ok(number) = value.cast::<PyFloat>() {
        // A whole number is what most properties want; the others read a decimal fraction.
        match number.value() {
            whole if whole.fract() == 0.0 => Ok(format!("{whole:.0}")),
            fraction => Ok(fraction.to_string()),
        }
    } else if let Ok(path) = value.guarded_method(intern!(value.py(), "__fspath__"), ()) {
        Ok(path.extract()?)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let parts = value
            .guarded_items()?
            .map(|part| text(key, &part?))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(parts.join(","))
    } else {
        let found = value.get_type().name()?;
        let shown = match config::is_secret(key) {
            true => String::new(),
            false => format!(" ({})", value.guarded_repr()?),
        };
        Err(errors::config(&format!(
            "{key}: must be str, int, float, bool, a path or a list of str, and was {found}{shown}"
        )))
    }
}

/// The table of properties, a dict for each: name, roles, kind, default, doc, and what the kind
/// needs.
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
        Value::Bool(_) | Value::Text(_) | Value::Secret(_) => {}
    }
    Ok(row)
}
