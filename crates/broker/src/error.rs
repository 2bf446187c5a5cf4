//! Why a broker could not start or run.

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
    /// The address could not be listened on.
    #[error("cannot listen on {host}:{port}: {cause}; is another broker running there?")]
    Listen {
        /// Host asked for.
        host: String,
        /// Port asked for.
        port: u16,
        /// What the operating system said.
        cause: Arc<io::Error>,
    },
    /// A file of the data folder could not be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// File or folder at fault.
        path: PathBuf,
        /// What the operating system said.
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
    /// A file of the data folder holds what no broker wrote there.
    #[error("{}: {what}", path.display())]
    Corrupt {
        /// File at fault.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
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
