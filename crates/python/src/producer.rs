//! `Producer`: for each verb the call that waits and, with a leading underscore, the one that `ottla.aio` awaits.

use ottla_client::{Delivery as Fate, Error, Producer as Client, Role, TrySendError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::delivery::{AsyncDeliveries, AsyncDelivery, Deliveries, Delivery};
use crate::open::{self, Closing};
use crate::operation::Operation;
use crate::outgoing::{Outgoing, Table};
use crate::runtime::{self, Native};
use crate::values::seconds;
use crate::{errors, options, wait};

/// Sends records. Threads may share it.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Producer {
    client: Native<Client>,
    closing: Closing,
}

impl Producer {
    /// Encodes the record into its batch, if there is room now.
    fn offer(&self, py: Python<'_>, topic: &str, record: &Outgoing) -> PyResult<Option<Fate>> {
        match self.client.get()?.try_send(topic, record.row()) {
            Ok(fate) => Ok(Some(fate)),
            Err(TrySendError::NotReady) => Ok(None),
            Err(TrySendError::Failed(error)) => Err(errors::to_python(py, &error)),
        }
    }
}

#[pymethods]
impl Producer {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Producer, bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::handle()?).map_err(|error| errors::to_python(py, &error))?;
        let closing = Closing::new("Producer");
        open::remember(&client, &closing);
        Ok(Producer { client: Native::new("Producer", client), closing })
    }

    #[pyo3(signature = (topic, value = None, *, key = None, partition = None, timestamp = None, headers = None))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn send(
        &self,
        py: Python<'_>,
        topic: &str,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<i32>,
        timestamp: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Delivery> {
        let record = Outgoing::new(topic, value, key, partition, timestamp, headers)?;
        if let Some(fate) = self.offer(py, topic, &record)? {
            return Ok(Delivery::new(fate));
        }
        wait::result(py, self.client.get()?.send(topic, record.row(), None)).map(Delivery::new)
    }

    /// The delivery at once where there is room, else the operation that waits for room.
    #[pyo3(signature = (topic, value, key, partition, timestamp, headers))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn _send<'py>(
        &self,
        py: Python<'py>,
        topic: String,
        value: Option<Bound<'_, PyAny>>,
        key: Option<Bound<'_, PyAny>>,
        partition: Option<i32>,
        timestamp: Option<i64>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let record = Outgoing::new(&topic, value, key, partition, timestamp, headers)?;
        if let Some(fate) = self.offer(py, &topic, &record)? {
            return Ok(Bound::new(py, AsyncDelivery::new(fate))?.into_any());
        }
        let client = self.client.get()?.clone();
        let operation = Operation::new(
            async move { client.send(&topic, record.row(), None).await },
            |py, fate| Ok(Py::new(py, AsyncDelivery::new(fate))?.into_any()),
        );
        Ok(Bound::new(py, operation)?.into_any())
    }

    #[pyo3(signature = (topic, values, *, keys = None, partitions = None, timestamps = None, headers = None))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a record")]
    fn send_many(
        &self,
        py: Python<'_>,
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Deliveries> {
        let table = Table::new(topic, values, keys, partitions, timestamps, headers)?;
        wait::result(py, table.send(self.client.get()?.clone())).map(Deliveries::new)
    }

    #[pyo3(signature = (topic, values, keys, partitions, timestamps, headers))]
    fn _send_many(
        &self,
        topic: &str,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Operation> {
        let table = Table::new(topic, values, keys, partitions, timestamps, headers)?;
        Ok(sending(self.client.get()?.clone(), table))
    }

    #[pyo3(signature = (topic, data))]
    fn send_arrow(&self, py: Python<'_>, topic: Option<&str>, data: &Bound<'_, PyAny>) -> PyResult<Deliveries> {
        let table = Table::from_arrow(topic, data)?;
        wait::result(py, table.send(self.client.get()?.clone())).map(Deliveries::new)
    }

    fn _send_arrow(&self, topic: Option<&str>, data: &Bound<'_, PyAny>) -> PyResult<Operation> {
        Ok(sending(self.client.get()?.clone(), Table::from_arrow(topic, data)?))
    }

    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        wait::result(py, self.client.get()?.flush(seconds(timeout)?))
    }

    fn _flush(&self, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(async move { client.flush(timeout).await }, |py, ()| Ok(py.None())))
    }

    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let result = wait::block_on(py, self.client.get()?.close(seconds(timeout)?))?;
        self.closing.done();
        result.map_err(|error| errors::to_python(py, &error))
    }

    fn _close(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (slf.get().client.get()?.clone(), seconds(timeout)?);
        let this = slf.clone().unbind();
        let close = async move { Ok(client.close(timeout).await) };
        Ok(Operation::new(close, move |py, result: Result<(), Error>| {
            this.get().closing.done();
            result.map(|()| py.None()).map_err(|error| errors::to_python(py, &error))
        }))
    }

    #[pyo3(signature = (topic, timeout = None))]
    fn partitions_for(&self, py: Python<'_>, topic: &str, timeout: Option<f64>) -> PyResult<Vec<i32>> {
        let partitions = wait::result(py, self.client.get()?.partitions_for(topic, seconds(timeout)?))?;
        Ok(partitions.iter().map(|info| info.partition).collect())
    }

    fn _partitions_for(&self, topic: String, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(async move { client.partitions_for(&topic, timeout).await }, |py, partitions| {
            let partitions: Vec<i32> = partitions.iter().map(|info| info.partition).collect();
            Ok(partitions.into_pyobject(py)?.into_any().unbind())
        }))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _exc_type: &Bound<'_, PyAny>,
        _exc: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py, None)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a Producer holds connections and cannot be pickled: send its options, and make the producer where it is used",
        ))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Ok(client) = self.client.get() {
            let client = client.clone();
            self.closing.on_drop(async move { client.close(None).await });
        }
    }
}

fn sending(client: Client, table: Table) -> Operation {
    Operation::new(table.send(client), |py, fates| Ok(Py::new(py, AsyncDeliveries::new(fates))?.into_any()))
}
