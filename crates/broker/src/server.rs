//! The running broker: a listener, a task per connection, and one for the groups' timers.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::ApiKey;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::clock;
use crate::config::{BrokerConfig, Settings};
use crate::connection;
use crate::core::{Core, Node};
use crate::error::BrokerError;
use crate::fault::Fault;

const NODE_ID: i32 = 1;
/// How long the listener waits when the system is out of sockets.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

/// A running broker; [`Broker::stop`] or dropping it stops it.
pub struct Broker {
    core: Arc<Core>,
    address: SocketAddr,
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    listener: JoinHandle<()>,
}

impl Broker {
    /// Starts a broker on the current tokio runtime. It accepts connections when this returns.
    ///
    /// # Errors
    /// A setting is wrong, the address is taken, or the data folder cannot be read.
    pub async fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        let settings = Settings::new(&config)?;
        let listen = |cause| BrokerError::Listen {
            host: config.host.clone(),
            port: config.port,
            cause: Arc::new(cause),
        };
        let listener = TcpListener::bind((config.host.as_str(), config.port))
            .await
            .map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (host, port) = config
            .advertised
            .clone()
            .unwrap_or_else(|| (reachable(&config.host, address), address.port()));
        let node = Node {
            id: NODE_ID,
            host: host.into(),
            port: i32::from(port),
        };
        let seed = RandomState::new().build_hasher().finish();
        let open = move || Core::open(&config, settings, node, seed);
        let core = off_thread(open).await?;
        let core = Arc::new(core);
        let (stop, stopped) = oneshot::channel();
        let listener = tokio::spawn(listen_until(listener, Arc::clone(&core), stopped));
        Ok(Self {
            core,
            address,
            running: Mutex::new(Some(Running { stop, listener })),
        })
    }

    /// The address listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `host:port` for clients' `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        let Node { host, port, .. } = &self.core.node;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// Injects `fault` into the next `count` requests of `api`, after those of earlier calls.
    pub fn inject(&self, api: ApiKey, fault: Fault, count: u32) {
        self.core.faults.inject(api, fault, count);
    }

    /// Drops all pending faults.
    pub fn clear_faults(&self) {
        self.core.faults.clear();
    }

    /// Closes all connections, waits for the tasks and flushes the log. Stopping a stopped broker does nothing.
    ///
    /// # Errors
    /// The log could not be flushed to its folder.
    pub async fn stop(&self) -> Result<(), BrokerError> {
        let Some(Running { stop, listener }) = self.running.lock().take() else {
            return Ok(());
        };
        drop(stop);
        // It ends by itself; a panic in it has been printed by the runtime.
        let _ = listener.await;
        let core = Arc::clone(&self.core);
        off_thread(move || core.close()).await
    }
}

/// Runs `work`, which reads or writes files, where it blocks no other task.
async fn off_thread<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, BrokerError> + Send + 'static,
) -> Result<R, BrokerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(BrokerError::Runtime),
        },
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The host for clients, which cannot connect to "any address".
fn reachable(host: &str, address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "::1".to_owned(),
        _ => host.to_owned(),
    }
}

async fn listen_until(listener: TcpListener, core: Arc<Core>, mut stopped: oneshot::Receiver<()>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(run_timers(Arc::clone(&core)));
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without it answers wait for the client's acknowledgement of the one before.
                    let _ = stream.set_nodelay(true);
                    tasks.spawn(connection::serve(stream, peer, Arc::clone(&core)));
                }
                Err(cause) => {
                    core.events.say(format_args!("a connection could not be accepted: {cause}"));
                    tokio::time::sleep(OUT_OF_SOCKETS).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(listener);
    tasks.shutdown().await;
}

/// Drives the groups' timers.
async fn run_timers(core: Arc<Core>) {
    loop {
        match core.next_timeout() {
            None => core.timeout_changed().await,
            Some(deadline) => tokio::select! {
                biased;
                () = core.timeout_changed() => {}
                () = tokio::time::sleep_until(deadline.into()) => core.handle_timeout(clock::now()),
            },
        }
    }
}
