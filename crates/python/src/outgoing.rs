//! Records to send, from Python's arguments to the client's rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use ottla_client::{Error, Producer, Row};
use ottla_columnar::Rows;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};

use crate::runs::Runs;
use crate::unasked::Asked;
use crate::values::{Payload, Place, Text, timestamp_ms};
use crate::{arrow, errors};

/// The most rows that room is made for in advance: the length that an object claims is not trusted.
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
        partition: Option<i32>,
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
            partition,
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

    pub(crate) fn row(&self) -> Row<'_, impl Iterator<Item = (&str, Option<&[u8]>)> + Clone> {
        Row {
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_ref().map(Payload::as_slice),
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
        .try_iter()
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

/// Many records to send in one crossing.
pub(crate) enum Table {
    /// From Python's lists.
    Objects { topic: String, rows: Vec<Outgoing> },
    /// From Arrow's columns: runs of rows for one topic each.
    Columns { runs: Vec<Run> },
}

pub(crate) struct Run {
    topic: Arc<str>,
    rows: Arc<Rows>,
    range: Range<usize>,
}

impl Table {
    /// Columns given as Python lists, or values given as one Arrow column.
    pub(crate) fn new(
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if values.is_instance_of::<PyBytes>()
            || values.is_instance_of::<PyByteArray>()
            || values.is_instance_of::<PyString>()
        {
            return Err(PyTypeError::new_err(
                "send_many takes a list of values, and was given one value: use send for it, or put it into a list",
            ));
        }
        if arrow::is_arrow(values)? {
            if [keys, partitions, timestamps, headers]
                .iter()
                .any(Option::is_some)
            {
                return Err(errors::argument(
                    "values are Arrow data: put the other columns beside them and use send_arrow",
                ));
            }
            return Self::from_arrow_values(topic, values);
        }
        let mut rows = Vec::with_capacity(values.len().unwrap_or(0).min(MOST_BEFORE_SEEN));
        for (row, value) in values.try_iter()?.enumerate() {
            let value = Payload::new(
                Place {
                    what: "value",
                    topic,
                    row: Some(row),
                },
                value?,
            )?;
            rows.push(Outgoing {
                key: None,
                value,
                partition: None,
                timestamp_ms: None,
                headers: Vec::new(),
            });
        }
        each("keys", keys, &mut rows, |at, row, key| {
            row.key = Payload::new(
                Place {
                    what: "key",
                    topic,
                    row: Some(at),
                },
                key,
            )?;
            Ok(())
        })?;
        each("partitions", partitions, &mut rows, |at, row, partition| {
            row.partition = noted("partition", at, &partition, partition.extract())?;
            Ok(())
        })?;
        each("timestamps", timestamps, &mut rows, |at, row, timestamp| {
            if !timestamp.is_none() {
                let time = noted("timestamp", at, &timestamp, timestamp_ms(&timestamp))?;
                row.timestamp_ms = Some(time);
            }
            Ok(())
        })?;
        each("headers", headers, &mut rows, |at, row, headers| {
            row.headers = self::headers(
                Place {
                    what: "headers",
                    topic,
                    row: Some(at),
                },
                Some(&headers),
            )?;
            Ok(())
        })?;
        Ok(Table::Objects {
            topic: topic.to_owned(),
            rows,
        })
    }

    fn from_arrow_values(topic: &str, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let imported = arrow::import(values)?;
        if matches!(imported.data_type, DataType::Struct(_)) {
            return Err(PyTypeError::new_err(
                "values are a table: send_arrow sends one, send_many takes a column",
            ));
        }
        let schema = Arc::new(Schema::new(vec![Field::new(
            "value",
            imported.data_type.clone(),
            true,
        )]));
        let batches = imported
            .chunks
            .into_iter()
            .map(|chunk| RecordBatch::try_new(Arc::clone(&schema), vec![chunk]));
        Self::of_batches(
            Some(topic),
            batches.collect::<Result<_, _>>().map_err(arrow::invalid)?,
        )
    }

    /// Rows of Arrow data. With no topic given, each row goes to that in its column `topic`.
    pub(crate) fn from_arrow(topic: Option<&str>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of_batches(topic, arrow::import(data)?.batches()?)
    }

    fn of_batches(topic: Option<&str>, batches: Vec<RecordBatch>) -> PyResult<Self> {
        let mut runs = Vec::new();
        for batch in &batches {
            let rows = ottla_columnar::rows(batch)
                .map_err(|error| errors::argument(&error.to_string()))?;
            let rows = Arc::new(rows);
            let mut start = 0;
            while start < rows.len() {
                let name = topic.or_else(|| rows.get(start).topic);
                let Some(name) = name else {
                    return Err(errors::argument(&format!(
                        "no topic is given, and row {start} has none in its column `topic`"
                    )));
                };
                let end = match topic {
                    Some(_) => rows.len(),
                    None => (start..rows.len())
                        .find(|row| rows.get(*row).topic != Some(name))
                        .unwrap_or(rows.len()),
                };
                runs.push(Run {
                    topic: name.into(),
                    rows: Arc::clone(&rows),
                    range: start..end,
                });
                start = end;
            }
        }
        Ok(Table::Columns { runs })
    }

    /// Sends all rows; a run of rows for one topic is one call of the client. An error means that none was sent: if some
    /// were, it is told by the deliveries of those that were not.
    pub(crate) async fn send(&self, client: &Producer) -> Result<Asked<Runs>, Error> {
        let mut sent = Asked::new(Vec::new());
        match self {
            Table::Objects { topic, rows } => {
                let rows = rows.iter().map(Outgoing::row);
                sent.push(client.send_many(topic, rows, None).await?);
            }
            Table::Columns { runs } => {
                let mut failure = None;
                for run in runs {
                    if let Some(error) = &failure {
                        sent.push(client.unsent(run.range.len(), error));
                        continue;
                    }
                    let rows = run.range.clone().map(|row| client_row(run.rows.get(row)));
                    match client.send_many(&run.topic, rows, None).await {
                        Ok(deliveries) => sent.push(deliveries),
                        Err(error) if sent.peek().is_empty() => return Err(error),
                        Err(error) => {
                            sent.push(client.unsent(run.range.len(), &error));
                            failure = Some(error);
                        }
                    }
                }
            }
        }
        Ok(sent.into_runs())
    }
}

/// Puts a column into the rows, which must be as many.
fn each<'py>(
    name: &str,
    column: Option<&Bound<'py, PyAny>>,
    rows: &mut [Outgoing],
    put: impl Fn(usize, &mut Outgoing, Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let Some(column) = column.filter(|column| !column.is_none()) else {
        return Ok(());
    };
    let mut given = 0;
    let mut rows_left = rows.iter_mut();
    for item in column.try_iter()? {
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
        // Where a note cannot be added, the error is told without it.
        let _ = errors::note(object.py(), error, &format!("{what} of row {row}"));
    })
}

fn client_row(
    row: ottla_columnar::Row<'_>,
) -> Row<'_, impl Iterator<Item = (&str, Option<&[u8]>)> + Clone> {
    Row {
        partition: row.partition,
        timestamp_ms: row.timestamp_ms,
        key: row.key,
        value: row.value,
        headers: row.headers,
    }
}
