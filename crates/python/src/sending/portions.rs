//! `send_many` and `send_arrow`: records go to the client portion by portion.
//!
//! A portion is a list of records, or a chunk of Arrow data. The next one is taken when the one
//! before it is in the producer's buffer, so memory is bounded by the buffer, however long the
//! stream is. Each portion is an operation of its own, which is the value of the one before:
//! between them the caller's thread is attached, and can call its partitioner.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use ottla_client::{Deliveries, Error, Producer, Row, Rows as Unsent, Written};
use ottla_columnar::{RowHeaders, Rows};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::bridge::errors;
use crate::bridge::operation::{Facade, Operation};
use crate::records::arrow;
use crate::records::arrow::Imported;
use crate::sending::delivery::deliveries;
use crate::sending::outgoing::{Outgoing, columns, is_one_payload};
use crate::sending::partitioner::Partitioner;
use crate::sending::unobserved_failures::Asked;

/// Where the records of one call come from.
pub(crate) enum Source {
    /// Python's lists, read already.
    Objects { topic: String, rows: Vec<Outgoing> },
    /// Arrow's columns.
    Columns(Table),
    /// Nothing is left.
    End,
}

/// Arrow data whose rows are records.
pub(crate) struct Table {
    /// Otherwise each row names its own.
    topic: Option<String>,
    data: Imported,
    /// Set where the data is one column of values.
    column: Option<SchemaRef>,
}

impl Source {
    /// Columns given as Python lists, or values given as one Arrow column.
    pub(crate) fn many(
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Source> {
        if is_one_payload(values)? {
            return Err(PyTypeError::new_err(
                "send_many takes a list of values, and was given one value: use send for it, or put it into a list",
            ));
        }
        let is_alone = [keys, partitions, timestamps, headers]
            .iter()
            .all(Option::is_none);
        if is_alone && arrow::is_arrow(values)? {
            return Source::of_values(topic, values);
        }
        let values = &listed("value", values)?;
        let keys = keys.map(|keys| listed("key", keys)).transpose()?;
        let keys = keys.as_ref();
        Ok(Source::Objects {
            topic: topic.to_owned(),
            rows: columns(topic, values, keys, partitions, timestamps, headers)?,
        })
    }

    fn of_values(topic: &str, values: &Bound<'_, PyAny>) -> PyResult<Source> {
        let data = arrow::import(values)?;
        if data.schema().is_ok() {
            return Err(PyTypeError::new_err(
                "values are a table: send_arrow sends one, send_many takes a column",
            ));
        }
        let field = Field::new("value", data.data_type.clone(), true);
        let schema = Schema::new(vec![field]);
        check(&schema)?;
        Ok(Source::Columns(Table {
            topic: Some(topic.to_owned()),
            data,
            column: Some(schema.into()),
        }))
    }

    /// Rows of Arrow data. With no topic given, each row goes to that in its column `topic`.
    pub(crate) fn arrow(topic: Option<&str>, data: &Bound<'_, PyAny>) -> PyResult<Source> {
        let data = arrow::import(data)?;
        let schema = data.schema()?;
        check(&schema)?;
        if topic.is_none() && schema.column_with_name("topic").is_none() {
            return Err(errors::argument(
                "no topic is given, and the data has no column \"topic\" with the topic of each row",
            ));
        }
        Ok(Source::Columns(Table {
            topic: topic.map(str::to_owned),
            data,
            column: None,
        }))
    }

    /// The next portion, if there is one.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Portion>> {
        match std::mem::replace(self, Source::End) {
            Source::End => Ok(None),
            Source::Objects { topic, rows } => Ok(Some(Portion::Objects { topic, rows })),
            Source::Columns(mut table) => {
                let portion = table.next(py)?;
                *self = Source::Columns(table);
                Ok(portion)
            }
        }
    }
}

/// A column of Arrow data as a list of bytes and None, as the other columns become lists, too; and
/// another object as it is.
fn listed<'py>(name: &str, column: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = column.py();
    if !arrow::is_arrow(column)? {
        return Ok(column.clone());
    }
    let mut data = arrow::import(column)?;
    if data.schema().is_ok() {
        return Err(PyTypeError::new_err(format!(
            "{name}s are a table: send_arrow sends one, send_many takes a column"
        )));
    }
    // Keys are read as values are.
    let schema = Schema::new(vec![Field::new("value", data.data_type.clone(), true)]);
    let schema = Arc::new(schema);
    let list = PyList::empty(py);
    while let Some(chunk) = data.next(py)? {
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![chunk]);
        let rows = ottla_columnar::rows(&batch.map_err(arrow::invalid)?);
        let rows = rows.map_err(|error| errors::argument(&format!("{name}s: {error}")))?;
        for row in 0..rows.len() {
            list.append(rows.get(row).value.map(|value| PyBytes::new(py, value)))?;
        }
    }
    Ok(list.into_any())
}

fn check(schema: &Schema) -> PyResult<()> {
    ottla_columnar::check_schema(schema).map_err(|error| errors::argument(&error.to_string()))
}

impl Table {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Portion>> {
        let Some(chunk) = self.data.next(py)? else {
            return Ok(None);
        };
        let batch = match &self.column {
            Some(schema) => {
                RecordBatch::try_new(Arc::clone(schema), vec![chunk]).map_err(arrow::invalid)?
            }
            None => arrow::record_batch(&chunk)?,
        };
        let rows =
            ottla_columnar::rows(&batch).map_err(|error| errors::argument(&error.to_string()))?;
        runs(self.topic.as_deref(), rows).map(|runs| Some(Portion::Columns(runs)))
    }
}

/// The rows as runs for one topic each.
fn runs(topic: Option<&str>, rows: Rows) -> PyResult<Vec<Run>> {
    let rows = Arc::new(rows);
    let mut runs = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let name = topic.or_else(|| rows.topic(start));
        let Some(name) = name else {
            return Err(errors::argument(&format!(
                "no topic is given, and row {start} has none in its column `topic`"
            )));
        };
        let end = match topic {
            Some(_) => rows.len(),
            None => (start..rows.len())
                .find(|row| rows.topic(*row) != Some(name))
                .unwrap_or(rows.len()),
        };
        runs.push(Run {
            topic: name.into(),
            rows: Arc::clone(&rows),
            range: start..end,
            placed: Vec::new(),
        });
        start = end;
    }
    Ok(runs)
}

/// Records that are sent at once.
enum Portion {
    Objects { topic: String, rows: Vec<Outgoing> },
    Columns(Vec<Run>),
}

/// Rows for one topic.
struct Run {
    topic: Arc<str>,
    rows: Arc<Rows>,
    range: Range<usize>,
    /// By a partitioner, for each row of the range; empty without one.
    placed: Vec<Option<i32>>,
}

impl Portion {
    fn topics(&self) -> Vec<&str> {
        match self {
            Portion::Objects { topic, .. } => vec![topic],
            Portion::Columns(runs) => runs.iter().map(|run| &*run.topic).collect(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Portion::Objects { rows, .. } => rows.len(),
            Portion::Columns(runs) => runs.iter().map(|run| run.range.len()).sum(),
        }
    }

    /// Waits until its topics are known.
    async fn ready(&self, client: &Producer) -> Result<(), Error> {
        for topic in self.topics() {
            if client.partition_count(topic).is_none() {
                client.ready(topic, None, 0, None).await?;
            }
        }
        Ok(())
    }

    /// Places the rows that name no partition. False if a topic is not known any more.
    fn place(
        &mut self,
        py: Python<'_>,
        client: &Producer,
        partitioner: &Partitioner,
    ) -> PyResult<bool> {
        match self {
            Portion::Objects { topic, rows } => {
                let Some(count) = client.partition_count(topic) else {
                    return Ok(false);
                };
                let mut free: Vec<_> = rows
                    .iter_mut()
                    .filter(|row| row.partition().is_none())
                    .collect();
                let keys = free.iter().map(|row| row.key());
                let placed = partitioner.place(py, topic, keys, count)?;
                for (row, partition) in free.iter_mut().zip(placed) {
                    row.set_partition(partition);
                }
            }
            Portion::Columns(runs) => {
                for run in runs {
                    let Some(count) = client.partition_count(&run.topic) else {
                        return Ok(false);
                    };
                    run.place(py, count, partitioner)?;
                }
            }
        }
        Ok(true)
    }

    /// Sends all rows. An error means that none was sent. If some were sent, the deliveries of the
    /// other rows report the error, and it is the second value.
    async fn send(
        &self,
        client: &Producer,
        sent: &mut Asked<Vec<Deliveries>>,
    ) -> Result<Option<Error>, Error> {
        let mut failure = None;
        match self {
            Portion::Objects { topic, rows } => {
                let row = |at| rows.get(at).map(Outgoing::row);
                let unsent = Unsent::new(rows.len(), row);
                sent.push(client.send_many(topic, unsent, None).await?);
            }
            Portion::Columns(runs) => {
                for run in runs {
                    if let Some(error) = &failure {
                        sent.push(client.unsent(run.range.len(), error));
                        continue;
                    }
                    match client.send_many(&run.topic, run.unsent(), None).await {
                        Ok(deliveries) => {
                            failure = deliveries.stopped().cloned();
                            sent.push(deliveries);
                        }
                        Err(error) if sent.peek().is_empty() => return Err(error),
                        Err(error) => {
                            sent.push(client.unsent(run.range.len(), &error));
                            failure = Some(error);
                        }
                    }
                }
            }
        }
        Ok(failure)
    }
}

impl Run {
    fn place(&mut self, py: Python<'_>, count: usize, partitioner: &Partitioner) -> PyResult<()> {
        let rows = &self.rows;
        let named = |row: usize| rows.get(row).partition;
        let free = self.range.clone().filter(|row| named(*row).is_none());
        let keys = free.map(|row| rows.get(row).key);
        let mut placed = partitioner.place(py, &self.topic, keys, count)?.into_iter();
        let all = self.range.clone().map(|row| match named(row) {
            Some(partition) => Some(partition),
            None => placed.next().flatten(),
        });
        self.placed = all.collect();
        Ok(())
    }

    fn unsent<'a>(&'a self) -> Unsent<impl Fn(usize) -> Option<Row<'a, RowHeaders<'a>>>> {
        Unsent::new(self.range.len(), |at| {
            if at >= self.range.len() {
                return None;
            }
            let row = self.rows.get(self.range.start + at);
            let placed = self.placed.get(at).copied();
            Some(Row {
                partition: placed.unwrap_or(row.partition),
                timestamp_ms: row.timestamp_ms,
                key: row.key,
                value: row.value,
                headers: row.headers,
            })
        })
    }
}

/// A call of `send_many` or `send_arrow` under way.
pub(crate) struct Sending {
    client: Producer,
    partitioner: Option<Arc<Partitioner>>,
    source: Source,
    sent: Asked<Vec<Deliveries>>,
    rows: usize,
    /// Why no further row is sent.
    failure: Option<Error>,
}

impl Sending {
    /// The operation of the first portion. The value of each operation is the next one, or the deliveries of all rows.
    pub(crate) fn start(
        py: Python<'_>,
        client: Producer,
        partitioner: Option<Arc<Partitioner>>,
        source: Source,
    ) -> PyResult<Operation> {
        let mut sending = Sending {
            client,
            partitioner,
            source,
            sent: Asked::new(Vec::new()),
            rows: 0,
            failure: None,
        };
        match sending.source.next(py)? {
            Some(portion) => sending.operation(py, portion),
            None => Ok(Operation::for_either(
                async move { Ok(sending) },
                |py, facade, sending| deliveries(py, facade, sending.sent.into_runs()),
            )),
        }
    }

    /// Sends a portion, once its topics are known if a partitioner needs to know them.
    fn operation(self, py: Python<'_>, mut portion: Portion) -> PyResult<Operation> {
        if let Some(partitioner) = &self.partitioner {
            let placed = portion.place(py, &self.client, partitioner);
            if !placed.map_err(|error| self.noted(py, error))? {
                return Ok(self.awaiting_topics(portion));
            }
        }
        Ok(Operation::for_either(
            async move {
                let mut sending = self;
                sending.rows += portion.len();
                sending.failure = portion.send(&sending.client, &mut sending.sent).await?;
                Ok((sending, portion))
            },
            |py, facade, (sending, portion)| {
                // Dropped while attached: otherwise each of its values would be set aside to be released later.
                drop(portion);
                sending.proceed(py, facade)
            },
        ))
    }

    fn awaiting_topics(self, portion: Portion) -> Operation {
        Operation::for_either(
            async move {
                let mut sending = self;
                if let Err(error) = portion.ready(&sending.client).await {
                    let error = error.with_written(Written::No);
                    if sending.sent.peek().is_empty() {
                        return Err(error);
                    }
                    let unsent = sending.client.unsent(portion.len(), &error);
                    sending.sent.push(unsent);
                    sending.failure = Some(error);
                }
                Ok((sending, portion))
            },
            |py, facade, (sending, portion)| {
                if sending.failure.is_some() {
                    return sending.proceed(py, facade);
                }
                let next = sending.operation(py, portion)?;
                Ok(Py::new(py, next)?.into_any())
            },
        )
    }

    /// The operation of the next portion, or the deliveries. After a failure, rows are only counted.
    fn proceed(mut self, py: Python<'_>, facade: Facade) -> PyResult<Py<PyAny>> {
        loop {
            let next = self.source.next(py);
            let Some(portion) = next.map_err(|error| self.noted(py, error))? else {
                return deliveries(py, facade, self.sent.into_runs());
            };
            let Some(error) = &self.failure else {
                let next = self.operation(py, portion)?;
                return Ok(Py::new(py, next)?.into_any());
            };
            self.sent.push(self.client.unsent(portion.len(), error));
        }
    }

    /// An error of Python's after some portions were sent.
    fn noted(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if self.rows > 0 {
            let text = format!(
                "the {} rows before were sent; flush and close report which of them fail",
                self.rows
            );
            // Where a note cannot be added, the error is raised without it.
            let _ = errors::note(py, &error, &text);
        }
        error
    }
}
