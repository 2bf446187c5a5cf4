//! What Python has for authentication: tokens of a callback or an endpoint, documents signed for AWS, Kerberos tickets.
//!
//! Threads of the runtime never attach to Python: they put requests into one queue of the process and, if it was empty, ring
//! a descriptor. `ottla._sasl` owns the queue, watches the descriptor, and serves each request on a
//! Python thread. The connection that waits for the result is a task, which holds no thread.

use std::fmt;
use std::sync::Arc;

use ottla_client::config::{Config, SaslMechanism};
use ottla_client::credentials::{Credentials, Provider, Question, Reply, Replying};
use ottla_client::{Error, Kind};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use tokio::sync::oneshot;

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::doorbell::{Descriptor, Doorbell};
use crate::bridge::errors;
use crate::bridge::runtime::Native;
use crate::clients::login::SaslLogin;

type Answer = oneshot::Sender<Result<Reply, Error>>;

/// The requests that no thread has taken yet.
struct Queue {
    waiting: Mutex<Vec<Pending>>,
    doorbell: Doorbell,
}

struct Pending {
    provider: Arc<Py<PyAny>>,
    kind: &'static str,
    connection: u64,
    host: String,
    bytes: Vec<u8>,
    answer: Option<Answer>,
}

impl Queue {
    fn push(&self, pending: Pending) {
        let was_empty = {
            let mut waiting = self.waiting.lock();
            waiting.push(pending);
            waiting.len() == 1
        };
        if was_empty {
            self.doorbell.ring();
        }
    }
}

/// The requests of all clients of this process. Drained by one thread.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct SaslQueue {
    queue: Native<Arc<Queue>>,
    watched: Doorbell,
}

#[pymethods]
impl SaslQueue {
    #[new]
    fn new() -> PyResult<Self> {
        let (watched, doorbell) = Doorbell::pair()?;
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            doorbell,
        });
        Ok(SaslQueue {
            queue: Native::new("queue of authentications", queue),
            watched,
        })
    }

    /// The descriptor that becomes readable when there is something to drain.
    fn fileno(&self) -> Descriptor {
        self.watched.descriptor()
    }

    /// The requests since the last drain.
    fn drain(&self) -> PyResult<Vec<SaslRequest>> {
        let queue = self.queue.get()?;
        self.watched.silence();
        let waiting = std::mem::take(&mut *queue.waiting.lock());
        Ok(waiting.into_iter().map(SaslRequest::new).collect())
    }
}

/// A connection's request to the provider of its client; `refused` and `ended` are only notices
/// without a result.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct SaslRequest {
    provider: Arc<Py<PyAny>>,
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    connection: u64,
    #[pyo3(get)]
    host: String,
    bytes: Vec<u8>,
    answer: Mutex<Option<Answer>>,
}

impl SaslRequest {
    fn new(pending: Pending) -> SaslRequest {
        SaslRequest {
            provider: pending.provider,
            kind: pending.kind,
            connection: pending.connection,
            host: pending.host,
            bytes: pending.bytes,
            answer: Mutex::new(pending.answer),
        }
    }

    fn tell(&self, result: Result<Reply, Error>) {
        if let Some(answer) = self.answer.lock().take() {
            // Nobody listens if the connection has timed out.
            let _ = answer.send(result);
        }
    }
}

#[pymethods]
impl SaslRequest {
    /// The provider that is asked.
    #[getter]
    fn provider(&self, py: Python<'_>) -> Py<PyAny> {
        self.provider.clone_ref(py)
    }

    /// The data of the request.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// Sends the result.
    #[pyo3(signature = (data, complete = false, extensions = Vec::new()))]
    fn answer(&self, data: &[u8], complete: bool, extensions: Vec<(String, String)>) {
        self.tell(Ok(Reply {
            bytes: data.to_vec(),
            complete,
            extensions,
        }));
    }

    /// Fails the request with this reason. Only a temporary failure is tried again.
    #[pyo3(signature = (text, passes = false))]
    fn fail(&self, text: &str, passes: bool) {
        let kind = if passes {
            Kind::Unreachable
        } else {
            Kind::Authentication
        };
        self.tell(Err(Error::new(kind, text)));
    }
}

/// The provider that Python made for the settings of a client.
struct Asking {
    provider: Arc<Py<PyAny>>,
    queue: Arc<Queue>,
    /// Whether connections keep something that ends with them.
    keeps: bool,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

impl Asking {
    fn push(
        &self,
        kind: &'static str,
        connection: u64,
        host: &str,
        bytes: &[u8],
        answer: Option<Answer>,
    ) {
        self.queue.push(Pending {
            provider: Arc::clone(&self.provider),
            kind,
            connection,
            host: host.to_owned(),
            bytes: bytes.to_vec(),
            answer,
        });
    }
}

impl Provider for Asking {
    fn ask(&self, connection: u64, host: &str, question: Question) -> Replying {
        let (answer, answered) = oneshot::channel();
        let name = question.name();
        self.push(name, connection, host, question.bytes(), Some(answer));
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| {
                let text = format!("the provider did not respond to the request for a {name}");
                Err(Error::new(Kind::Authentication, text))
            })
        })
    }

    fn refused(&self) {
        self.push("refused", 0, "", &[], None);
    }

    fn ended(&self, connection: u64) {
        if self.keeps {
            self.push("ended", connection, "", &[], None);
        }
    }
}

/// Names the provider in the settings of a client that is being made, if its mechanism needs one. `token` is the caller's
/// `sasl_token`, or a [`SaslLogin`].
pub(crate) fn provide(
    py: Python<'_>,
    config: &mut Config,
    token: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    static PROVIDER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static QUEUE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if let Some(login) = token.and_then(|token| token.cast::<SaslLogin>().ok()) {
        config.credentials = Credentials(Some(login.get().provider()));
        return Ok(());
    }
    let chosen = config
        .authenticates()
        .filter(|mechanism| mechanism.asks_outside());
    let Some(mechanism) = chosen else {
        return match token {
            Some(_) => Err(errors::config(
                "sasl_token: belongs to OAUTHBEARER and AWS_MSK_IAM: set security.protocol=SASL_SSL and sasl.mechanism to one of \
                 them, or leave it out",
            )),
            None => Ok(()),
        };
    };
    let settings = PyDict::new(py);
    for (name, value) in &config.sasl_given {
        settings.set_item(name, value.expose())?;
    }
    settings.set_item("sasl.kerberos.service.name", &config.kerberos_service)?;
    settings.set_item(
        "sasl.kerberos.principal",
        config.kerberos_principal.as_deref(),
    )?;
    settings.set_item("sasl.kerberos.keytab", config.kerberos_keytab.as_deref())?;
    let login = PyDict::new(py);
    for (name, value) in config.sasl_jaas.iter().flat_map(|jaas| &jaas.options) {
        login.set_item(name, value.expose())?;
    }
    let provider = calls::class(&PROVIDER, py, "ottla._sasl", "provider")?.guarded_call((
        mechanism.name(),
        settings,
        login,
        token,
    ))?;
    let queue = calls::class(&QUEUE, py, "ottla._sasl", "queue")?.guarded_call(())?;
    let queue = Arc::clone(queue.cast::<SaslQueue>()?.get().queue.get()?);
    config.credentials = Credentials(Some(Arc::new(Asking {
        provider: Arc::new(provider.unbind()),
        queue,
        keeps: mechanism == SaslMechanism::Gssapi,
    })));
    Ok(())
}

/// A signature of an assertion.
#[pyfunction]
pub(crate) fn sign_assertion<'py>(
    py: Python<'py>,
    algorithm: &str,
    key: &[u8],
    message: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let signature = py.detach(|| ottla_client::signing::sign(algorithm, key, message));
    signature
        .map(|bytes| PyBytes::new(py, &bytes))
        .map_err(|error| errors::to_python(py, &error))
}
