//! Numbers as Python gives them. PyO3's conversions name neither the argument nor what it takes; only the path of an error
//! makes a text here.

use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::bridge::calls::Guarded;
use crate::bridge::errors;

/// The most characters of a wrong argument that an error shows.
const SHOWN: usize = 60;

/// Argument `timeout`: seconds.
#[derive(Clone, Copy)]
pub(crate) struct Timeout(pub(crate) f64);

/// Argument `max_records`: a number of records.
#[derive(Clone, Copy)]
pub(crate) struct MaxRecords(pub(crate) usize);

/// Argument `partition`: the number of a partition.
#[derive(Clone, Copy)]
pub(crate) struct PartitionNumber(pub(crate) i32);

/// What a partition's number may be.
pub(crate) const PARTITION: &str = "an int from 0 up that fits 32 bits";

/// What a timeout may be.
const TIMEOUT: &str = "a number of seconds from 0 up";

/// The longest that a call waits: ten years, which a clock can still add to now.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The span of a timeout.
pub(crate) fn seconds(timeout: Option<Timeout>) -> PyResult<Option<Duration>> {
    timeout
        .map(|Timeout(seconds)| {
            let span = Duration::try_from_secs_f64(seconds).map_err(|_| {
                errors::argument(&format!("timeout must be {TIMEOUT}, and was {seconds}"))
            })?;
            Ok(span.min(LONGEST))
        })
        .transpose()
}

impl FromPyObject<'_, '_> for Timeout {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.cast_exact::<PyFloat>() {
            Ok(number) => number.extract().map(Timeout),
            Err(_) => object
                .extract()
                .map(Timeout)
                .map_err(|error| refused("timeout", TIMEOUT, &object, error)),
        }
    }
}

impl FromPyObject<'_, '_> for MaxRecords {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        whole("max_records", "an int from 0 up", &object).map(MaxRecords)
    }
}

impl FromPyObject<'_, '_> for PartitionNumber {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match whole("partition", PARTITION, &object)? {
            number @ 0.. => Ok(PartitionNumber(number)),
            number => Err(errors::argument(&format!(
                "partition must be {PARTITION}, and was {number}"
            ))),
        }
    }
}

/// An int, or what stands for one, as those of numpy do. `what` names the argument, and `wanted` is what it takes.
#[inline]
pub(crate) fn whole<'py, T>(what: &str, wanted: &str, object: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match object.cast_exact::<PyInt>() {
        Ok(number) => number.extract(),
        Err(_) => object.guarded_int(),
    }
    .map_err(|error| refused(what, wanted, object, error))
}

/// The error of an argument that does not become a number. What the code of its own class raised stays as it is.
#[cold]
pub(crate) fn refused(what: &str, wanted: &str, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = object.py();
    let is_type = error.is_instance_of::<PyTypeError>(py);
    if !is_type && !error.is_instance_of::<PyOverflowError>(py) {
        return error;
    }
    let given = match object.guarded_repr() {
        Ok(given) => shown(&given),
        Err(error) => return error,
    };
    if !is_type {
        return errors::argument(&format!("{what} must be {wanted}, and was {given}"));
    }
    match object.get_type().qualname() {
        Ok(class) => PyTypeError::new_err(format!(
            "{what} must be {wanted}, and was {given} of type {class}"
        )),
        Err(error) => error,
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
