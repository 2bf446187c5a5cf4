//! Errors of starting and running a broker.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a broker could not be started.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// A setting is unknown or its value is out of range.
    #[error("{0}")]
    Config(String),
    /// The broker cannot listen on the address.
    #[error("cannot listen on {host}:{port}: {cause}{}", hint(cause))]
    Listen {
        /// The requested host.
        host: String,
        /// The requested port.
        port: u16,
        /// The operating system's error.
        cause: Arc<io::Error>,
    },
    /// A file of the data folder could not be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        cause: Arc<io::Error>,
    },
    /// Another broker has the data folder open.
    #[error("{}: another broker has this folder open; stop it, or give this one a folder of its own", path.display())]
    InUse {
        /// The data folder.
        path: PathBuf,
    },
    /// The tokio runtime is being shut down.
    #[error("the broker's runtime is being shut down")]
    Runtime,
    /// A file of the data folder has invalid contents.
    #[error("{}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The problem, and what to do.
        what: String,
    },
}

/// What to do about an address that could not be listened on.
fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; is another broker running there?",
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: 127.0.0.1 is for this machine alone, 0.0.0.0 for every address that it has"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 are for privileged users",
        _ => "",
    }
}

impl BrokerError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |cause| Self::Io {
            path: path.to_owned(),
            cause: Arc::new(cause),
        }
    }

    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
