//! Records to send, from Python's arguments to the client's rows.

use ottla_client::Row;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PyString, PyTuple};

use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::values::numbers::PartitionNumber;
use crate::values::scalars::{Payload, Place, Text, timestamp_ms};

/// The most rows that memory is reserved for in advance: the length that an object claims is not
/// trusted.
const MOST_BEFORE_SEEN: usize = 1 << 16;

/// One record, holding on to the Python objects it is made of.
pub(crate) struct Outgoing {
    key: Option<Payload>,
    value: Option<Payload>,
    partition: Option<i32>,
    timestamp_ms: Option<i64>,
    headers: Vec<(Text, Option<Payload>)>,
}

impl Outgoing {
    #[inline]
    pub(crate) fn new(
        topic: &str,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<PartitionNumber>,
        timestamp: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Outgoing {
            key: payload(
                Place {
                    what: "key",
                    topic,
                    row: None,
                },
                key,
            )?,
            value: payload(
                Place {
                    what: "value",
                    topic,
                    row: None,
                },
                value,
            )?,
            partition: partition.map(|PartitionNumber(number)| number),
            timestamp_ms: timestamp.map(timestamp_ms).transpose()?,
            headers: self::headers(
                Place {
                    what: "headers",
                    topic,
                    row: None,
                },
                headers,
            )?,
        })
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.key.as_ref().map(Payload::as_slice)
    }

    /// The partition that the caller or a partitioner chose.
    pub(crate) fn partition(&self) -> Option<i32> {
        self.partition
    }

    pub(crate) fn set_partition(&mut self, partition: Option<i32>) {
        self.partition = partition;
    }

    pub(crate) fn timestamp(&self) -> Option<i64> {
        self.timestamp_ms
    }

    pub(crate) fn set_timestamp(&mut self, timestamp_ms: Option<i64>) {
        self.timestamp_ms = timestamp_ms;
    }

    /// Bytes of the key and the value.
    pub(crate) fn payload_size(&self) -> usize {
        let length =
            |payload: &Option<Payload>| payload.as_ref().map_or(0, |it| it.as_slice().len());
        length(&self.key) + length(&self.value)
    }

    /// The key and the value as `bytes`: the objects that were given, if they were.
    pub(crate) fn into_key_and_value(
        self,
        py: Python<'_>,
    ) -> (Option<Py<PyAny>>, Option<Py<PyAny>>) {
        let bytes = |payload: Payload| payload.into_bytes(py);
        (self.key.map(bytes), self.value.map(bytes))
    }

    pub(crate) fn row(&self) -> Row<'_, impl Iterator<Item = (&str, Option<&[u8]>)> + Clone> {
        Row {
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key(),
            value: self.value.as_ref().map(Payload::as_slice),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_ref().map(Payload::as_slice))),
        }
    }
}

fn payload(place: Place<'_>, object: Option<Bound<'_, PyAny>>) -> PyResult<Option<Payload>> {
    object.map_or(Ok(None), |object| Payload::new(place, object))
}

#[inline]
fn headers(
    place: Place<'_>,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(Text, Option<Payload>)>> {
    match object {
        Some(object) if !object.is_none() => pairs(place, object),
        _ => Ok(Vec::new()),
    }
}

/// Headers from pairs or a dict.
fn pairs(place: Place<'_>, object: &Bound<'_, PyAny>) -> PyResult<Vec<(Text, Option<Payload>)>> {
    let wrong = |object: &Bound<'_, PyAny>| {
        place.wrong_type(object, "a list of (str, bytes) pairs or a dict")
    };
    let pairs = match object.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) => object.clone(),
    };
    pairs
        .guarded_items()
        .map_err(|_| wrong(object))?
        .map(|pair| {
            let pair = pair?;
            let (name, value) = pair
                .extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
                .map_err(|_| wrong(object))?;
            let Ok(name) = name.cast::<PyString>() else {
                return Err(Place {
                    what: "the name of a header",
                    ..place
                }
                .wrong_type(&name, "str"));
            };
            Ok((
                Text::new(name)?,
                Payload::new(
                    Place {
                        what: "the value of a header",
                        ..place
                    },
                    value,
                )?,
            ))
        })
        .collect()
}

/// Records from Python's columns: each an iterable with an item for each value, or one item for all.
pub(crate) fn columns(
    topic: &str,
    values: &Bound<'_, PyAny>,
    keys: Option<&Bound<'_, PyAny>>,
    partitions: Option<&Bound<'_, PyAny>>,
    timestamps: Option<&Bound<'_, PyAny>>,
    headers: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Outgoing>> {
    let place = |what, at| Place {
        what,
        topic,
        row: Some(at),
    };
    let mut rows = Vec::with_capacity(values.len().unwrap_or(0).min(MOST_BEFORE_SEEN));
    for (at, value) in values.guarded_items()?.enumerate() {
        rows.push(Outgoing {
            key: None,
            value: Payload::new(place("value", at), value?)?,
            partition: None,
            timestamp_ms: None,
            headers: Vec::new(),
        });
    }
    let keys = keys.map(for_all_if(is_one_payload)).transpose()?;
    each("keys", keys, &mut rows, |at, row, key| {
        row.key = Payload::new(place("key", at), key)?;
        Ok(())
    })?;
    let partitions = partitions.map(for_all_if(is_no_iterable)).transpose()?;
    each("partitions", partitions, &mut rows, |at, row, partition| {
        if !partition.is_none() {
            let PartitionNumber(number) = noted("partition", at, &partition, partition.extract())?;
            row.partition = Some(number);
        }
        Ok(())
    })?;
    let timestamps = timestamps.map(for_all_if(is_no_iterable)).transpose()?;
    each("timestamps", timestamps, &mut rows, |at, row, timestamp| {
        if !timestamp.is_none() {
            let time = noted("timestamp", at, &timestamp, timestamp_ms(&timestamp))?;
            row.timestamp_ms = Some(time);
        }
        Ok(())
    })?;
    let headers = headers.map(for_all_if(is_of_one_record)).transpose()?;
    each("headers", headers, &mut rows, |at, row, headers| {
        row.headers = self::headers(place("headers", at), Some(&headers))?;
        Ok(())
    })?;
    Ok(rows)
}

/// What a column of `send_many` was given as.
enum Column<'py> {
    /// An item for each row.
    Each(Bound<'py, PyAny>),
    /// One for all rows.
    All(Bound<'py, PyAny>),
}

fn for_all_if<'a, 'py: 'a>(
    is_one: fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> impl Fn(&'a Bound<'py, PyAny>) -> PyResult<Column<'py>> {
    move |given| {
        let given = given.clone();
        Ok(match is_one(&given)? {
            true => Column::All(given),
            false => Column::Each(given),
        })
    }
}

/// Whether this is a key or a value, and no column of them.
pub(crate) fn is_one_payload(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.is_instance_of::<PyBytes>()
        || given.is_instance_of::<PyByteArray>()
        || given.is_instance_of::<PyMemoryView>()
        || given.is_instance_of::<PyString>())
}

fn is_no_iterable(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!given.is_none() && !given.guarded_has(intern!(given.py(), "__iter__"))?)
}

/// Whether these are the headers of one record: a dict, or a list that begins with a pair of a str and something.
fn is_of_one_record(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    if given.is_instance_of::<PyDict>() {
        return Ok(true);
    }
    if !given.is_instance_of::<PyList>() && !given.is_instance_of::<PyTuple>() {
        return Ok(false);
    }
    let Some(first) = given.guarded_items()?.next().transpose()? else {
        return Ok(false);
    };
    Ok(first.cast::<PyTuple>().is_ok_and(|pair| {
        let name = pair.get_item(0);
        pair.len() == 2 && name.is_ok_and(|name| name.is_instance_of::<PyString>())
    }))
}

/// Puts a column into the rows, which must be as many.
fn each<'py>(
    name: &str,
    column: Option<Column<'py>>,
    rows: &mut [Outgoing],
    put: impl Fn(usize, &mut Outgoing, Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let column = match column {
        None => return Ok(()),
        Some(Column::Each(column)) if column.is_none() => return Ok(()),
        Some(Column::Each(column)) => column,
        Some(Column::All(item)) => {
            let mut rows = rows.iter_mut().enumerate();
            return rows.try_for_each(|(at, row)| put(at, row, item.clone()));
        }
    };
    let mut given = 0;
    let mut rows_left = rows.iter_mut();
    for item in column.guarded_items()? {
        if let Some(row) = rows_left.next() {
            put(given, row, item?)?;
        }
        given += 1;
    }
    if given != rows.len() {
        return Err(errors::argument(&format!(
            "{given} {name} for {} values: the numbers must be equal",
            rows.len()
        )));
    }
    Ok(())
}

/// The value of an item of a column; an error of Python's names the row.
fn noted<T>(what: &str, row: usize, object: &Bound<'_, PyAny>, read: PyResult<T>) -> PyResult<T> {
    read.inspect_err(|error: &PyErr| {
        // Where a note cannot be added, the error is raised without it.
        let _ = errors::note(object.py(), error, &format!("{what} of row {row}"));
    })
}
