//! The embedded broker, in this process and on its runtime.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use ottla_broker::{
    BROKER_KEYS, Broker as Embedded, BrokerConfig, BrokerError, EventSink, Fault, Key, ValueType,
};
use ottla_protocol::{ApiKey, ErrorCode};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::runtime::Native;
use crate::{errors, options, wait};

/// Kafka numbers its errors from -1 up, with room to grow.
const ERROR_CODES: std::ops::RangeInclusive<i16> = -1..=1000;

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
    #[pyo3(signature = (*, host, port, data_dir, topics, config, print_events))]
    fn new(
        py: Python<'_>,
        host: String,
        port: u16,
        data_dir: Option<PathBuf>,
        topics: Vec<(String, i32)>,
        config: Option<&Bound<'_, PyMapping>>,
        print_events: bool,
    ) -> PyResult<Self> {
        let mut properties = Vec::new();
        if let Some(config) = config {
            options::texts(None, config, &mut properties)?;
        }
        let events = if print_events {
            EventSink::new(print)
        } else {
            EventSink::default()
        };
        let config = BrokerConfig {
            host,
            port,
            data_dir,
            topics,
            properties,
            events,
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

    fn fail(&self, api: &str, count: u32, error: &str) -> PyResult<()> {
        let code = ERROR_CODES.map(ErrorCode).find(|code| code.name() == error);
        let code = code.ok_or_else(|| {
            errors::argument(&format!(
                "Kafka has no error {error:?}, see its list of error codes"
            ))
        })?;
        self.inject(api, count, Fault::Error(code))
    }

    fn delay(&self, api: &str, count: u32, seconds: f64) -> PyResult<()> {
        let delay = crate::values::seconds(Some(seconds))?.unwrap_or(Duration::ZERO);
        self.inject(api, count, Fault::Delay(delay))
    }

    fn disconnect(&self, api: &str, count: u32, applied: bool) -> PyResult<()> {
        self.inject(
            api,
            count,
            if applied {
                Fault::CloseAfterApply
            } else {
                Fault::CloseBefore
            },
        )
    }

    fn ignore(&self, api: &str, count: u32) -> PyResult<()> {
        self.inject(api, count, Fault::Silence)
    }

    fn clear_faults(&self) -> PyResult<()> {
        self.broker.get()?.clear_faults();
        Ok(())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        wait::block_on(py, self.broker.get()?.stop())?.map_err(|error| raise(&error))
    }
}

impl Broker {
    fn inject(&self, api: &str, count: u32, fault: Fault) -> PyResult<()> {
        let key = ApiKey::ALL.iter().find(|key| key.name() == api);
        let key = key.ok_or_else(|| {
            errors::argument(&format!(
                "Kafka's protocol has no API {api:?}; one is \"Produce\""
            ))
        })?;
        self.broker.get()?.inject(*key, fault, count);
        Ok(())
    }
}

/// Events come on threads of the runtime, which never attach to Python.
fn print(event: &str) {
    // A failure to report an event cannot be reported either.
    let _ = writeln!(std::io::stderr(), "{event}");
}

/// The table of the broker's settings, in the form of `properties()`.
#[pyfunction]
pub(crate) fn broker_properties(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    BROKER_KEYS.iter().map(|key| describe(py, key)).collect()
}

fn describe<'py>(py: Python<'py>, key: &Key) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", key.name)?;
    row.set_item("roles", ["broker"])?;
    row.set_item("default", key.default)?;
    row.set_item("doc", key.doc)?;
    let kind = match key.kind {
        ValueType::Bool => "bool",
        ValueType::Int(min, max) => {
            row.set_item("min", min)?;
            row.set_item("max", max)?;
            row.set_item("unit", "")?;
            "int"
        }
        ValueType::OneOf(words) => {
            row.set_item("choices", words.to_vec())?;
            "choice"
        }
        ValueType::Ratio | ValueType::ListOf(_) | ValueType::Text => "text",
    };
    row.set_item("kind", kind)?;
    Ok(row)
}
