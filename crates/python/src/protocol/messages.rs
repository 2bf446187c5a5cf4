//! Messages by name.

use ottla_protocol::Reader;
use ottla_protocol::json;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// The bytes of a message from its JSON.
#[pyfunction]
pub(crate) fn encode_message<'py>(
    py: Python<'py>,
    name: &str,
    version: i16,
    message: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let value = serde_json::from_str(message).map_err(|error| errors::protocol(&error))?;
    let frame = json::encode(name, version, &value).map_err(|error| errors::protocol(&error))?;
    Ok(PyBytes::new(py, &frame.into_bytes()))
}

/// The JSON of a message from its bytes.
#[pyfunction]
pub(crate) fn decode_message(name: &str, version: i16, data: Vec<u8>) -> PyResult<String> {
    let mut input = Reader::new(data.into());
    let value =
        json::decode(name, version, &mut input).map_err(|error| errors::protocol(&error))?;
    input.finish().map_err(|error| errors::protocol(&error))?;
    Ok(value.to_string())
}
