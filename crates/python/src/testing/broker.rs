//! The embedded broker, in this process and on its runtime.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use ottla_broker::{
    BROKER_KEYS, Broker as Embedded, BrokerConfig, BrokerError, ClientAuth, EventSink, Fault, Key,
    ListenerConfig, Mechanism, Release, Secret, SecurityProtocol, SecuritySettings, TlsFiles,
    TokenKeys, ValueType, node::Stop,
};
use ottla_protocol::{ApiKey, ErrorCode};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};

use crate::bridge::runtime::Native;
use crate::bridge::{errors, wait};
use crate::clients::options;
use crate::values::numbers::{self, Timeout};

/// Kafka numbers its errors from -1 up, with space to grow.
const ERROR_CODES: std::ops::RangeInclusive<i16> = -1..=1000;

/// A Kafka broker of one node or several. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla", weakref)]
pub(crate) struct Broker {
    broker: Native<Embedded>,
}

/// One listener as Python hands it over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Listener {
    name: String,
    protocol: String,
    host: String,
    port: u16,
    advertised: Option<(String, u16)>,
    mechanisms: Option<Vec<String>>,
    client_auth: String,
    principal_is_common_name: bool,
}

impl Listener {
    fn into_config(self) -> Result<ListenerConfig, String> {
        let mechanisms = self.mechanisms.map(|names| {
            let parsed = names.iter().map(|name| Mechanism::parse(name));
            parsed.collect::<Result<Vec<_>, _>>()
        });
        Ok(ListenerConfig {
            name: self.name,
            host: self.host,
            port: self.port,
            advertised: self.advertised,
            mechanisms: mechanisms.transpose()?,
            client_auth: ClientAuth::parse(&self.client_auth)?,
            principal_is_common_name: self.principal_is_common_name,
            ..ListenerConfig::new(SecurityProtocol::parse(&self.protocol)?)
        })
    }
}

/// Users, keys, ACLs and quotas as Python hands them over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Security {
    users: Vec<(String, String)>,
    aws_keys: Vec<(String, String)>,
    jwks: Option<String>,
    token_key: Option<Vec<u8>>,
    acls: Option<Vec<String>>,
    quotas: Vec<String>,
    /// Certificate, key, authority of clients: texts in PEM.
    tls: Option<(String, String, Option<String>)>,
}

impl From<Security> for SecuritySettings {
    fn from(given: Security) -> Self {
        let secrets = |pairs: Vec<(String, String)>| {
            let pairs = pairs.into_iter();
            pairs
                .map(|(name, text)| (name, Secret::new(text)))
                .collect()
        };
        Self {
            users: secrets(given.users),
            aws_keys: secrets(given.aws_keys),
            token_keys: TokenKeys {
                jwks: given.jwks,
                shared: given.token_key.map(Secret::new),
            },
            acls: given.acls,
            quotas: given.quotas,
            tls: given.tls.map(|(certificate, key, client_ca)| TlsFiles {
                certificate,
                key: Secret::new(key),
                client_ca,
            }),
        }
    }
}

fn raise(error: &BrokerError) -> PyErr {
    match error {
        BrokerError::Config(text) => errors::config(text),
        _ => PyOSError::new_err(error.to_string()),
    }
}

/// What a running broker was asked for and cannot do.
fn refuse(error: &BrokerError) -> PyErr {
    match error {
        BrokerError::Config(text) => errors::argument(text),
        _ => PyOSError::new_err(error.to_string()),
    }
}

#[pymethods]
impl Broker {
    #[new]
    #[pyo3(signature = (*, nodes, as_version, host, port, listeners, security, data_dir, topics, config, print_events))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        nodes: i32,
        as_version: Option<String>,
        host: String,
        port: u16,
        listeners: Vec<Listener>,
        security: Security,
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
        let listeners = listeners.into_iter().map(Listener::into_config);
        let listeners = listeners.collect::<Result<_, _>>();
        let config = BrokerConfig {
            host,
            port,
            listeners: listeners.map_err(|error| errors::config(&error))?,
            security: security.into(),
            data_dir,
            topics,
            properties,
            nodes,
            as_version,
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

    /// Name, protocol, bootstrap address, SASL mechanisms and `ssl.client.auth` of each listener.
    #[getter]
    #[allow(clippy::type_complexity)]
    fn listeners(
        &self,
    ) -> PyResult<
        Vec<(
            String,
            &'static str,
            String,
            Vec<&'static str>,
            &'static str,
        )>,
    > {
        let listeners = self.broker.get()?.listeners().into_iter();
        let shown = listeners.map(|listener| {
            let mechanisms = listener.mechanisms.iter().map(|mechanism| mechanism.name());
            (
                listener.name,
                listener.protocol.name(),
                listener.bootstrap,
                mechanisms.collect(),
                listener.client_auth.name(),
            )
        });
        Ok(shown.collect())
    }

    fn fail(
        &self,
        api: &str,
        count: u32,
        node: Option<i32>,
        error: &str,
        applied: bool,
        after: f64,
    ) -> PyResult<()> {
        let code = ERROR_CODES.map(ErrorCode).find(|code| code.name() == error);
        let code = code.ok_or_else(|| {
            errors::argument(&format!(
                "Kafka has no error {error:?}, see its list of error codes"
            ))
        })?;
        let fault = Fault::Error {
            code,
            applied,
            delay: duration(after)?,
        };
        self.inject(api, count, node, fault)
    }

    fn delay(&self, api: &str, count: u32, node: Option<i32>, seconds: f64) -> PyResult<()> {
        self.inject(api, count, node, Fault::Delay(duration(seconds)?))
    }

    fn disconnect(&self, api: &str, count: u32, node: Option<i32>, when: &str) -> PyResult<()> {
        let fault = match when {
            "received" => Fault::CloseBefore,
            "applied" => Fault::CloseAfterApply,
            "answered" => Fault::CloseAfterAnswer,
            _ => {
                let text = format!("a connection cannot be closed at {when:?}");
                return Err(errors::argument(&text));
            }
        };
        self.inject(api, count, node, fault)
    }

    fn ignore(&self, api: &str, count: u32, node: Option<i32>, applied: bool) -> PyResult<()> {
        let fault = if applied {
            Fault::SilenceAfterApply
        } else {
            Fault::Silence
        };
        self.inject(api, count, node, fault)
    }

    fn hang(&self, api: &str, count: u32, node: Option<i32>) -> PyResult<()> {
        self.inject(api, count, node, Fault::Hang)
    }

    fn cut(&self, api: &str, count: u32, node: Option<i32>, after: usize) -> PyResult<()> {
        self.inject(api, count, node, Fault::CutAfter(after))
    }

    fn trickle(&self, api: &str, count: u32, node: Option<i32>) -> PyResult<()> {
        self.inject(api, count, node, Fault::ByteByByte)
    }

    fn throttle(&self, api: &str, count: u32, node: Option<i32>, seconds: f64) -> PyResult<()> {
        self.inject(api, count, node, Fault::Throttle(duration(seconds)?))
    }

    fn answer_twice(&self, api: &str, count: u32, node: Option<i32>) -> PyResult<()> {
        self.inject(api, count, node, Fault::Twice)
    }

    fn answer_another(&self, api: &str, count: u32, node: Option<i32>) -> PyResult<()> {
        self.inject(api, count, node, Fault::WrongCorrelationId)
    }

    fn withhold(&self, api: &str, count: u32, node: Option<i32>) -> PyResult<()> {
        self.inject(api, count, node, Fault::Withheld)
    }

    fn clear_faults(&self) -> PyResult<()> {
        self.broker.get()?.clear_faults();
        Ok(())
    }

    /// The pushes of clients: client id, instance id, whether it is the last, codec, metrics.
    #[expect(clippy::type_complexity, reason = "a tuple for each push")]
    fn telemetry<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<
        Vec<(
            Option<String>,
            Bound<'py, PyBytes>,
            bool,
            &'static str,
            Bound<'py, PyBytes>,
        )>,
    > {
        let pushes = self.broker.get()?.telemetry();
        let rows = pushes.iter().map(|push| {
            (
                push.client_id.as_ref().map(ToString::to_string),
                PyBytes::new(py, &push.client_instance_id),
                push.terminating,
                push.compression.name(),
                PyBytes::new(py, &push.metrics),
            )
        });
        Ok(rows.collect())
    }

    /// The numbers of the nodes that are up.
    #[getter]
    fn nodes_up(&self) -> PyResult<Vec<i32>> {
        Ok(self.broker.get()?.nodes_up())
    }

    #[getter]
    fn controller(&self) -> PyResult<i32> {
        Ok(self.broker.get()?.controller())
    }

    fn stop_node(&self, py: Python<'_>, node: i32, how: &str) -> PyResult<()> {
        let how = match how {
            "clean" => Stop::Clean,
            "kill" => Stop::Kill,
            "power-loss" => Stop::PowerLoss,
            _ => {
                let text = format!("a node stops clean, kill or power-loss, not {how:?}");
                return Err(errors::argument(&text));
            }
        };
        let stopped = wait::block_on(py, self.broker.get()?.stop_node(node, how))?;
        stopped.map_err(|error| refuse(&error))
    }

    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        let started = wait::block_on(py, self.broker.get()?.start_node(node))?;
        started.map_err(|error| refuse(&error))
    }

    /// Leader, leader epoch, replicas, and those in sync; `None` if there is no such partition.
    #[expect(clippy::type_complexity, reason = "a tuple")]
    fn partition(
        &self,
        topic: &str,
        partition: i32,
    ) -> PyResult<Option<(i32, i32, Vec<i32>, Vec<i32>)>> {
        let found = self.broker.get()?.partition(topic, partition);
        Ok(found.map(|it| (it.leader, it.epoch, it.replicas, it.in_sync)))
    }

    fn coordinator(&self, group: &str) -> PyResult<Option<i32>> {
        Ok(self.broker.get()?.coordinator(group))
    }

    fn move_leader(&self, topic: &str, partition: i32, to: i32, unclean: bool) -> PyResult<()> {
        let moved = self
            .broker
            .get()?
            .move_leader(topic, partition, to, unclean);
        moved.map_err(|error| refuse(&error))
    }

    fn move_coordinator(&self, group: &str, to: i32) -> PyResult<()> {
        let moved = self.broker.get()?.move_coordinator(group, to);
        moved.map_err(|error| refuse(&error))
    }

    fn move_controller(&self, to: i32) -> PyResult<()> {
        let moved = self.broker.get()?.move_controller(to);
        moved.map_err(|error| refuse(&error))
    }

    fn set_following(&self, node: i32, follows: bool) -> PyResult<()> {
        let set = self.broker.get()?.set_following(node, follows);
        set.map_err(|error| refuse(&error))
    }

    fn set_hearing(&self, node: i32, hears: bool) -> PyResult<()> {
        let set = self.broker.get()?.set_hearing(node, hears);
        set.map_err(|error| refuse(&error))
    }

    fn set_release(&self, node: Option<i32>, release: &str) -> PyResult<()> {
        let release = Release::parse(release).map_err(|error| errors::argument(&error))?;
        let set = self.broker.get()?.set_release(node, release);
        set.map_err(|error| refuse(&error))
    }

    fn move_clock(&self, node: Option<i32>, seconds: f64) -> PyResult<()> {
        let ms = seconds * 1000.0;
        if !ms.is_finite() {
            return Err(errors::argument(&format!(
                "a clock is moved by a number of seconds, not {seconds}"
            )));
        }
        // More than fits is as far as it fits.
        let moved = self.broker.get()?.move_clock(node, ms.round() as i64);
        moved.map_err(|error| refuse(&error))
    }

    fn create_partitions(&self, py: Python<'_>, topic: &str, total: i32) -> PyResult<()> {
        let added = wait::block_on(py, self.broker.get()?.create_partitions(topic, total))?;
        added.map_err(|error| refuse(&error))
    }

    fn delete_records(
        &self,
        py: Python<'_>,
        topic: &str,
        partition: i32,
        before: i64,
    ) -> PyResult<i64> {
        let deleted = self.broker.get()?.delete_records(topic, partition, before);
        wait::block_on(py, deleted)?.map_err(|error| refuse(&error))
    }

    fn set_logins(&self, node: i32, accepted: bool) -> PyResult<()> {
        let set = self.broker.get()?.set_logins(node, accepted);
        set.map_err(|error| refuse(&error))
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        wait::block_on(py, self.broker.get()?.stop())?.map_err(|error| raise(&error))
    }
}

impl Broker {
    fn inject(&self, api: &str, count: u32, node: Option<i32>, fault: Fault) -> PyResult<()> {
        let key = ApiKey::ALL.iter().find(|key| key.name() == api);
        let key = key.ok_or_else(|| {
            errors::argument(&format!(
                "Kafka's protocol has no API {api:?}; one is \"Produce\""
            ))
        })?;
        if !fault.suits(*key) {
            return Err(errors::argument(&format!(
                "a response to {api} has nothing that can be left out; use \"Metadata\" or \"Fetch\""
            )));
        }
        let broker = self.broker.get()?;
        match node {
            None => broker.inject(*key, fault, count),
            Some(id) => broker
                .inject_at(id, *key, fault, count)
                .map_err(|error| refuse(&error))?,
        }
        Ok(())
    }
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Ok(numbers::seconds(Some(Timeout(seconds)))?.unwrap_or(Duration::ZERO))
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
        ValueType::Ratio
        | ValueType::ListOf(_)
        | ValueType::Items
        | ValueType::Reset
        | ValueType::Text => "text",
    };
    row.set_item("kind", kind)?;
    Ok(row)
}
