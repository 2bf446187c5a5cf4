//! A user and a password that a program may replace while its clients run, as programs for confluent-kafka do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ottla_client::credentials::{Provider, Question, Reply, Replying};
use ottla_client::{Error, Kind};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The user and the password of one or more clients for PLAIN and SCRAM, in place of `sasl_token`. Each authentication
/// takes the current ones; connections that are authenticated stay.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct SaslLogin(Arc<Login>);

impl SaslLogin {
    /// What clients ask.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.0) as Arc<dyn Provider>
    }
}

#[pymethods]
impl SaslLogin {
    #[new]
    fn new(user: &str, password: &str) -> PyResult<SaslLogin> {
        Ok(SaslLogin(Arc::new(Login {
            message: Mutex::new(message(user, password)?),
            version: AtomicU64::new(0),
        })))
    }

    /// Takes other ones, for the authentications that begin from now on.
    fn replace(&self, user: &str, password: &str) -> PyResult<()> {
        let other = message(user, password)?;
        *self.0.message.lock() = other;
        // After the message: who sees the new version sees the new message.
        self.0.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// The message of [`Question::Login`].
fn message(user: &str, password: &str) -> PyResult<Vec<u8>> {
    if user.contains('\0') || password.contains('\0') {
        return Err(PyValueError::new_err("embedded null character"));
    }
    Ok(format!("{user}\0{password}").into_bytes())
}

struct Login {
    message: Mutex<Vec<u8>>,
    version: AtomicU64,
}

/// Without the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Provider for Login {
    fn ask(&self, _: u64, _: &str, question: Question) -> Replying {
        let reply = match question {
            Question::Login => Ok(Reply {
                bytes: self.message.lock().clone(),
                ..Default::default()
            }),
            other => {
                let text = format!(
                    "the client has a user and a password, and no {}",
                    other.name()
                );
                Err(Error::new(Kind::Authentication, text))
            }
        };
        Box::pin(async move { reply })
    }

    fn refused(&self) {}

    fn ended(&self, _: u64) {}

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}
