//! `Admin`: for each verb the call that waits and, with a leading underscore, the one that `ottla.aio` awaits.

use std::collections::BTreeMap;

use ottla_client::admin::{Each, NewTopic, TopicDescription, TopicListing};
use ottla_client::{Admin as Client, Error, Role};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyString};

use crate::open::Closing;
use crate::operation::Operation;
use crate::runtime::{self, Native};
use crate::values::seconds;
use crate::{errors, options, wait};

/// Manages topics. Threads may share it.
///
/// Args:
///     bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
///     config: Properties by Kafka's names, such as `{"request.timeout.ms": 5000}`.
///     **properties: The same with underscores, such as `request_timeout_ms=5000`. `ottla config admin` lists them all.
///
/// Raises:
///     ConfigError: A property is unknown or has a value that is not allowed.
///
/// Where a call is about several topics and some fail, the first error is raised; its `failures` has all of them by name.
///
/// Example:
///     ```python
///     with ottla.Admin("localhost:9092") as admin:
///         admin.create_topics([ottla.NewTopic("flights", partitions=4)])
///     ```
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Admin {
    client: Native<Client>,
    closing: Closing,
}

/// One name, or many.
fn names(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match object.cast::<PyString>() {
        Ok(name) => Ok(vec![name.to_str()?.to_owned()]),
        Err(_) => object.try_iter()?.map(|name| name?.extract()).collect(),
    }
}

fn new_topics(object: &Bound<'_, PyAny>) -> PyResult<Vec<NewTopic>> {
    let one = object.is_instance_of::<PyString>() || object.hasattr("replication")?;
    if one {
        Ok(vec![new_topic(object)?])
    } else {
        object.try_iter()?.map(|topic| new_topic(&topic?)).collect()
    }
}

fn new_topic(object: &Bound<'_, PyAny>) -> PyResult<NewTopic> {
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(NewTopic {
            name: name.to_str()?.to_owned(),
            partitions: 1,
            replication: -1,
            config: BTreeMap::new(),
        });
    }
    if !object.hasattr("replication")? {
        let found = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "a topic to create is a NewTopic or its name, not {}",
            found.qualname()?
        )));
    }
    let mut config = Vec::new();
    let given = object.getattr("config")?;
    if !given.is_none() {
        options::texts(None, given.cast()?, &mut config)?;
    }
    Ok(NewTopic {
        name: object.getattr("name")?.extract()?,
        partitions: object.getattr("partitions")?.extract()?,
        replication: object.getattr("replication")?.extract()?,
        config: config.into_iter().collect(),
    })
}

/// What each name met: values where all went well, else the first error, with all of them in its `failures`.
fn all<T>(py: Python<'_>, each: Each<String, T>) -> PyResult<Vec<(String, T)>> {
    let mut values = Vec::with_capacity(each.len());
    let mut failures = Vec::new();
    for (name, result) in each {
        match result {
            Ok(value) => values.push((name, value)),
            Err(error) => failures.push((name, errors::to_python(py, &error))),
        }
    }
    let Some((_, first)) = failures.first() else {
        return Ok(values);
    };
    let raised = first.clone_ref(py);
    let by_name = PyDict::new(py);
    for (name, error) in failures {
        by_name.set_item(name, error.into_value(py))?;
    }
    raised.value(py).setattr("failures", by_name)?;
    Err(raised)
}

fn nothing(py: Python<'_>, each: Each<String, ()>) -> PyResult<Py<PyAny>> {
    all(py, each)?;
    Ok(py.None())
}

fn listed(py: Python<'_>, topics: Vec<TopicListing>) -> PyResult<Py<PyAny>> {
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    Ok(names.into_pyobject(py)?.into_any().unbind())
}

fn described(py: Python<'_>, each: Each<String, TopicDescription>) -> PyResult<Py<PyAny>> {
    static TOPIC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static PARTITION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let topic = TOPIC.import(py, "ottla._types", "TopicDescription")?;
    let partition = PARTITION.import(py, "ottla._types", "PartitionInfo")?;
    let described = PyDict::new(py);
    for (name, found) in all(py, each)? {
        let partitions = found
            .partitions
            .iter()
            .map(|info| {
                partition.call1((
                    info.partition,
                    info.leader,
                    info.replicas.clone(),
                    info.in_sync.clone(),
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let id = uuid(py, found.listing.id)?;
        described.set_item(
            &name,
            topic.call1((&name, id, found.listing.internal, partitions))?,
        )?;
    }
    Ok(described.into_any().unbind())
}

/// A topic's id; None for that of brokers that have none.
fn uuid(py: Python<'_>, id: [u8; 16]) -> PyResult<Option<Bound<'_, PyAny>>> {
    if id == [0; 16] {
        return Ok(None);
    }
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let keywords = PyDict::new(py);
    keywords.set_item("int", u128::from_be_bytes(id))?;
    CLASS
        .import(py, "uuid", "UUID")?
        .call((), Some(&keywords))
        .map(Some)
}

#[pymethods]
impl Admin {
    #[new]
    #[pyo3(signature = (bootstrap_servers = None, *, config = None, **properties))]
    fn new(
        py: Python<'_>,
        bootstrap_servers: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyMapping>>,
        properties: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = options::parse(Role::Admin, bootstrap_servers, config, properties)?;
        let client = Client::new(config, runtime::handle()?, None)
            .map_err(|error| errors::to_python(py, &error))?;
        Ok(Admin {
            client: Native::new("Admin", client),
            closing: Closing::new("Admin"),
        })
    }

    /// Creates topics.
    ///
    /// Args:
    ///     topics: `NewTopic`s; a name alone is a topic of one partition.
    ///     validate_only: Only checks whether they could be created.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    ///
    /// Raises:
    ///     AlreadyExistsError: A topic of that name is there.
    ///     KafkaError: A broker refused, or none could be asked in time.
    #[pyo3(signature = (topics, *, validate_only = false, timeout = None))]
    fn create_topics(
        &self,
        py: Python<'_>,
        topics: &Bound<'_, PyAny>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let topics = new_topics(topics)?;
        nothing(
            py,
            wait::result(
                py,
                self.client
                    .get()?
                    .create_topics(&topics, validate_only, seconds(timeout)?),
            )?,
        )
    }

    fn _create_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (client, topics, timeout) = (
            self.client.get()?.clone(),
            new_topics(topics)?,
            seconds(timeout)?,
        );
        Ok(Operation::new(
            async move { client.create_topics(&topics, validate_only, timeout).await },
            nothing,
        ))
    }

    /// Deletes topics and all their records.
    ///
    /// Args:
    ///     topics: Names of topics.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    ///
    /// Raises:
    ///     NotFoundError: There is no topic of that name.
    ///     KafkaError: A broker refused, or none could be asked in time.
    #[pyo3(signature = (topics, *, timeout = None))]
    fn delete_topics(
        &self,
        py: Python<'_>,
        topics: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        nothing(
            py,
            wait::result(
                py,
                self.client
                    .get()?
                    .delete_topics(&names(topics)?, seconds(timeout)?),
            )?,
        )
    }

    fn _delete_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (client, topics, timeout) = (
            self.client.get()?.clone(),
            names(topics)?,
            seconds(timeout)?,
        );
        Ok(Operation::new(
            async move { client.delete_topics(&topics, timeout).await },
            nothing,
        ))
    }

    /// The names of all topics, sorted.
    ///
    /// Args:
    ///     internal: With those that Kafka keeps for itself.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    #[pyo3(signature = (*, internal = false, timeout = None))]
    fn list_topics(
        &self,
        py: Python<'_>,
        internal: bool,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        listed(
            py,
            wait::result(
                py,
                self.client.get()?.list_topics(internal, seconds(timeout)?),
            )?,
        )
    }

    fn _list_topics(&self, internal: bool, timeout: Option<f64>) -> PyResult<Operation> {
        let (client, timeout) = (self.client.get()?.clone(), seconds(timeout)?);
        Ok(Operation::new(
            async move { client.list_topics(internal, timeout).await },
            listed,
        ))
    }

    /// Topics and their partitions.
    ///
    /// Args:
    ///     topics: Names of topics.
    ///     timeout: Seconds to wait at most; without it, `default.api.timeout.ms`.
    ///
    /// Returns:
    ///     Descriptions by name.
    ///
    /// Raises:
    ///     NotFoundError: There is no topic of that name.
    #[pyo3(signature = (topics, *, timeout = None))]
    fn describe_topics(
        &self,
        py: Python<'_>,
        topics: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        described(
            py,
            wait::result(
                py,
                self.client
                    .get()?
                    .describe_topics(&names(topics)?, seconds(timeout)?),
            )?,
        )
    }

    fn _describe_topics(
        &self,
        topics: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Operation> {
        let (client, topics, timeout) = (
            self.client.get()?.clone(),
            names(topics)?,
            seconds(timeout)?,
        );
        Ok(Operation::new(
            async move { client.describe_topics(&topics, timeout).await },
            described,
        ))
    }

    /// Disconnects. Closing twice does no harm.
    ///
    /// Args:
    ///     timeout: Seconds to wait at most.
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
        Ok(Operation::new(
            close,
            move |py, result: Result<(), Error>| {
                this.get().closing.done();
                result
                    .map(|()| py.None())
                    .map_err(|error| errors::to_python(py, &error))
            },
        ))
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
            "an Admin holds connections and cannot be pickled: send its options, and make the admin where it is used",
        ))
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        if let Ok(client) = self.client.get() {
            let client = client.clone();
            self.closing
                .on_drop(async move { client.close(None).await });
        }
    }
}
