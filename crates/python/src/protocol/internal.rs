//! Which messages the records of internal topics are.

use bytes::Bytes;
use ottla_protocol::internal::{Identified, Part, Topic, identify, identify_control as control};
use pyo3::prelude::*;

use crate::bridge::errors;

/// The message, its version, and where it begins.
type RecordPart = (Option<&'static str>, i16, usize);
type Record = (
    Option<i16>,
    Option<&'static str>,
    Option<RecordPart>,
    Option<RecordPart>,
);

/// The names of the topics whose records have schemas.
#[pyfunction]
pub(crate) fn internal_topics() -> Vec<&'static str> {
    Topic::ALL.iter().map(|topic| topic.name()).collect()
}

/// What a record of an internal topic is.
#[pyfunction]
pub(crate) fn identify_record(
    topic: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> PyResult<Record> {
    let known = Topic::from_name(topic)
        .ok_or_else(|| errors::argument(&format!("records of {topic:?} have no schema")))?;
    let found = identify(known, owned(key), owned(value));
    Ok(parts(
        found.map_err(|error| errors::protocol(&error))?,
        key,
        value,
    ))
}

/// What a record of a control batch is.
#[pyfunction]
pub(crate) fn identify_control(key: Option<&[u8]>, value: Option<&[u8]>) -> PyResult<Record> {
    let found = control(owned(key), owned(value));
    Ok(parts(
        found.map_err(|error| errors::protocol(&error))?,
        key,
        value,
    ))
}

fn owned(data: Option<&[u8]>) -> Option<Bytes> {
    data.map(Bytes::copy_from_slice)
}

fn parts(found: Identified, key: Option<&[u8]>, value: Option<&[u8]>) -> Record {
    let part = |part: Option<Part>, data: Option<&[u8]>| {
        let whole = data.map_or(0, <[u8]>::len);
        part.map(|part| {
            (
                part.message,
                part.version,
                whole.saturating_sub(part.body.len()),
            )
        })
    };
    (
        found.number,
        found.name,
        part(found.key, key),
        part(found.value, value),
    )
}
