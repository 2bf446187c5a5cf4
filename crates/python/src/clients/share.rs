//! `ShareConsumerCore`, whose methods return operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ottla_client::{
    AcknowledgeType, Acknowledged, Committed, Given, LockId, Role, ShareConsumer as Client,
};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyList, PyMapping, PyRange};

use crate::bridge::calls::Guarded;
use crate::bridge::operation::Operation;
use crate::bridge::{calls, errors, events, runtime};
use crate::clients::app_metric::AppMetric;
use crate::clients::lifecycle::{self, Opened};
use crate::clients::options;
use crate::records::batch::{Batch, Chunk, Record, Shared};
use crate::records::decoder::Decoder;
use crate::values::numbers::{MaxRecords, Timeout, seconds};
use crate::values::partitions::{topic_partition, topic_partitions};
use crate::values::scalars::names;

/// Numbers the share consumers of this process: a lock means nothing to another one.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The core of both facades of a share consumer. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct ShareConsumerCore {
    client: Opened<Client<Decoder>>,
    number: u64,
}

impl ShareConsumerCore {
    /// How long a poll waits.
    fn limit(&self, timeout: Option<Timeout>) -> PyResult<Duration> {
        let default = self.client.get()?.config().default_api_timeout;
        Ok(seconds(timeout)?.unwrap_or(default))
    }
}

/// A chunk that knows who acquired it.
fn shared(number: u64, given: Given<Chunk>) -> Chunk {
    given.chunk.shared(Shared {
        consumer: number,
        lock: given.lock,
        delivery_count: given.delivery_count,
    })
}

#[pymethods]
impl ShareConsumerCore {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, topics = None, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        topics: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::ShareConsumer, bootstrap_servers, config, properties)?;
        let decoder = Decoder::for_shares(&config);
        let client = Client::new(config, decoder, runtime::threads()?, events::queue(py)?)
            .map_err(|error| errors::to_python(py, &error))?;
        let core = ShareConsumerCore {
            client: Opened::new(client),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        if let Some(topics) = topics {
            core.subscribe(py, topics)?;
        }
        Ok(core)
    }

    /// Keeps polls brief, for a thread that serves an event loop, too: large records are decoded by another one.
    fn poll_briefly(&self) -> PyResult<()> {
        self.client.get()?.poll_briefly();
        Ok(())
    }

    /// Lets polls return whole batches, although they then have more records than `max_records`.
    fn keep_batches(&self) -> PyResult<()> {
        self.client.get()?.keep_batches();
        Ok(())
    }

    fn subscribe(&self, py: Python<'_>, topics: &Bound<'_, PyAny>) -> PyResult<()> {
        let client = self.client.get()?;
        let topics = names(topics)?
            .iter()
            .map(|name| Arc::from(name.as_str()))
            .collect();
        client
            .subscribe(topics)
            .map_err(|error| errors::to_python(py, &error))
    }

    fn subscription(&self) -> PyResult<Vec<String>> {
        let topics = self.client.get()?.subscription();
        Ok(topics.iter().map(ToString::to_string).collect())
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        topic_partitions(py, &self.client.get()?.assignment())
    }

    /// Seconds for which brokers keep records for this member; None before the first records.
    fn lock_timeout(&self) -> PyResult<Option<f64>> {
        let timeout = self.client.get()?.lock_timeout();
        Ok(timeout.map(|timeout| timeout.as_secs_f64()))
    }

    #[pyo3(signature = (timeout))]
    fn unsubscribe(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.unsubscribe(timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (timeout, max_records))]
    fn poll(
        &self,
        timeout: Option<Timeout>,
        max_records: Option<MaxRecords>,
    ) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), self.limit(timeout)?);
        let (number, most) = (self.number, max_records.map(|MaxRecords(most)| most));
        Ok(Operation::new(
            async move { client.poll(timeout, most).await },
            move |py, given| {
                let chunks = given.into_iter().map(|it| shared(number, it)).collect();
                Ok(Py::new(py, Batch::new(chunks))?.into_any())
            },
        ))
    }

    /// The next record that is there.
    fn next_record(&self) -> PyResult<Option<Record>> {
        let Some((given, row)) = self.client.get()?.next_record() else {
            return Ok(None);
        };
        let of = Shared {
            consumer: self.number,
            lock: given.lock,
            delivery_count: given.delivery_count,
        };
        Ok(Some(Record::shared(given.chunk, row, of)))
    }

    /// Polls for `next_record`.
    fn poll_to_iterate(&self) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), self.limit(None)?);
        Ok(Operation::new(
            async move { client.poll_to_iterate(timeout).await },
            |py, ()| Ok(py.None()),
        ))
    }

    #[pyo3(signature = (records, kind, rows))]
    fn acknowledge(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        kind: &str,
        rows: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let client = self.client.get()?;
        let Some(kind) = AcknowledgeType::parse(kind) else {
            let text = format!(
                "records are acknowledged as accept, release, reject or renew, not as {kind:?}"
            );
            return Err(errors::argument(&text));
        };
        let spans = if let Ok(batch) = records.cast::<Batch>() {
            let batch = batch.get();
            match rows.map(|rows| chosen(rows, batch.length())).transpose()? {
                None => batch.spans_of(0..batch.length()),
                Some(rows) => batch.spans_of(rows),
            }
        } else if let Ok(record) = records.cast::<Record>() {
            if rows.is_some() {
                return Err(errors::argument(
                    "rows choose among the records of a batch, and this is one record",
                ));
            }
            vec![record.get().span()]
        } else {
            return Err(PyTypeError::new_err(format!(
                "what is acknowledged is a Batch or a Record of this consumer, not {}",
                records.get_type().qualname()?
            )));
        };
        let ranges = spans.into_iter().map(|(of, first, last)| match of {
            Some(of) if of.consumer == self.number => Ok((of.lock, first, last)),
            _ => Err(errors::argument(
                "these records did not come from this share consumer: only who got them can acknowledge them",
            )),
        });
        let ranges: Vec<(LockId, i64, i64)> = ranges.collect::<PyResult<_>>()?;
        client
            .acknowledge(ranges, kind)
            .map_err(|error| errors::to_python(py, &error))
    }

    /// The error of each partition of which something was said, or None.
    #[pyo3(signature = (timeout))]
    fn commit(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.commit(timeout).await },
            committed,
        ))
    }

    fn commit_later(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.client.get()?;
        client
            .commit_later()
            .map_err(|error| errors::to_python(py, &error))
    }

    /// Keeps how acknowledgements end for `take_outcomes`.
    fn keep_outcomes(&self, keep: bool) -> PyResult<()> {
        self.client.get()?.keep_outcomes(keep);
        Ok(())
    }

    /// How acknowledgements ended since the last call: partition, offsets, what was said, and the error or None.
    fn take_outcomes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let outcomes = self.client.even_closed()?.take_outcomes();
        let told = PyList::empty(py);
        for outcome in outcomes {
            if let Some(outcome) = outcome_of(py, &outcome)? {
                told.append(outcome)?;
            }
        }
        Ok(told)
    }

    #[pyo3(signature = (timeout))]
    fn close(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.close(timeout, lifecycle::closed)
    }

    /// All metrics at this moment. `even_closed` is for whoever reports the last ones.
    #[pyo3(signature = (*, even_closed = false))]
    fn metrics(&self, py: Python<'_>, even_closed: bool) -> PyResult<Py<PyAny>> {
        self.client.metrics(py, even_closed)
    }

    /// Pushes a metric of the program with the client's own.
    #[pyo3(signature = (metric, /))]
    fn register_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.register_metric(py, metric)
    }

    /// No longer pushes the metric of this name and these tags.
    #[pyo3(signature = (metric, /))]
    fn unregister_metric(&self, py: Python<'_>, metric: &AppMetric) -> PyResult<()> {
        self.client.unregister_metric(py, metric)
    }

    /// The id that brokers know this client by.
    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, timeout: Option<Timeout>) -> PyResult<Operation> {
        self.client.instance_id(timeout)
    }

    /// Seconds between two calls of `on_metrics`.
    fn metrics_interval(&self) -> PyResult<f64> {
        self.client.metrics_interval()
    }

    /// Seconds that leaving a `with` block may take after Ctrl-C or the like.
    fn interrupt_timeout(&self) -> PyResult<f64> {
        self.client.interrupt_timeout()
    }

    /// Raises if the client can no longer be used.
    fn check(&self) -> PyResult<()> {
        self.client.check()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what an operation brought")]
fn committed(py: Python<'_>, found: Vec<Committed>) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    for Committed {
        topic,
        partition,
        error,
    } in &found
    {
        let error = error
            .as_ref()
            .map(|error| errors::to_python(py, error).into_value(py));
        dict.set_item(topic_partition(py, topic, *partition)?, error)?;
    }
    Ok(dict.into_any().unbind())
}

fn outcome_of<'py>(py: Python<'py>, outcome: &Acknowledged) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(kind) = outcome.kind else {
        return Ok(None);
    };
    let class = calls::class(&CLASS, py, "ottla._acknowledgement", "Acknowledgement")?;
    let partition = topic_partition(py, &outcome.topic, outcome.partition)?;
    let end = outcome.last.saturating_add(1);
    let offsets = py
        .get_type::<PyRange>()
        .guarded_call((outcome.first, end))?;
    let error = outcome.error.as_ref();
    let error = error.map(|error| errors::to_python(py, error).into_value(py));
    let made = class.guarded_call((partition, offsets, kind.name(), error))?;
    Ok(Some(made))
}

/// The rows that a mask or indices choose, ascending.
fn chosen(rows: &Bound<'_, PyAny>, length: usize) -> PyResult<Vec<usize>> {
    let py = rows.py();
    // Arrays of numpy and pyarrow, and series of pandas; then those of polars.
    let listed = if rows.guarded_has(intern!(py, "tolist"))? {
        rows.guarded_method(intern!(py, "tolist"), ())?
    } else if rows.guarded_has(intern!(py, "to_list"))? {
        rows.guarded_method(intern!(py, "to_list"), ())?
    } else {
        rows.clone()
    };
    let items: Vec<Bound<'_, PyAny>> = listed.guarded_items()?.collect::<PyResult<_>>()?;
    let masks = items
        .iter()
        .filter(|item| item.is_instance_of::<PyBool>())
        .count();
    if masks > 0 && masks == items.len() {
        if items.len() != length {
            return Err(errors::argument(&format!(
                "the mask has {} values, and the batch has {length} records",
                items.len()
            )));
        }
        let mut rows = Vec::new();
        for (row, item) in items.iter().enumerate() {
            if item.extract()? {
                rows.push(row);
            }
        }
        return Ok(rows);
    }
    if masks > 0 {
        return Err(PyTypeError::new_err(
            "rows must be a mask of bool, or indices, and is a mixture",
        ));
    }
    let mut rows = Vec::with_capacity(items.len());
    for item in &items {
        if item.is_none() {
            return Err(PyTypeError::new_err(
                "rows must be a mask of bool, or indices, and has a null",
            ));
        }
        let index: isize = item.guarded_int()?;
        let row = match index {
            0.. => usize::try_from(index).ok(),
            _ => length.checked_add_signed(index),
        };
        match row.filter(|row| *row < length) {
            Some(row) => rows.push(row),
            None => {
                let text = format!("record {index} of a batch of {length}");
                return Err(pyo3::exceptions::PyIndexError::new_err(text));
            }
        }
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}
