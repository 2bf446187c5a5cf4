//! The embedded broker, in this process and on its runtime.

use std::path::PathBuf;

use ottla_broker::{Broker as Embedded, BrokerConfig, BrokerError};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::runtime::Native;
use crate::{errors, options, wait};

/// A Kafka broker of one node. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct Broker {
    broker: Native<Embedded>,
}

fn raise(error: &BrokerError) -> PyErr {
    match error {
        BrokerError::Config(text) => errors::config(text),
        _ => PyOSError::new_err(error.to_string()),
    }
}

#[pymethods]
impl Broker {
    #[new]
    #[pyo3(signature = (*, host, port, data_dir, topics, config))]
    fn new(
        py: Python<'_>,
        host: String,
        port: u16,
        data_dir: Option<PathBuf>,
        topics: Vec<(String, i32)>,
        config: Option<&Bound<'_, PyMapping>>,
    ) -> PyResult<Self> {
        let mut properties = Vec::new();
        if let Some(config) = config {
            options::texts(config, &mut properties)?;
        }
        let config = BrokerConfig {
            host,
            port,
            data_dir,
            topics,
            properties,
            ..BrokerConfig::default()
        };
        let broker = wait::block_on(py, Embedded::start(config))?.map_err(|error| raise(&error))?;
        Ok(Broker {
            broker: Native::new("Broker", broker),
        })
    }

    #[getter]
    fn bootstrap_servers(&self) -> PyResult<String> {
        Ok(self.broker.get()?.bootstrap())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        wait::block_on(py, self.broker.get()?.stop())
    }
}
