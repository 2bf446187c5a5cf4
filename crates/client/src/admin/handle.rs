//! The handle that callers hold.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::admin::Admin as Composition;
use ottla_engine::call::Call;
use ottla_engine::metrics::Metric;
use ottla_engine::{Config, Engine, Error, Role};
use tokio::runtime::Handle;

use crate::runtime::calls;
use crate::runtime::driver::{Driver, JOIN_TIMEOUT};
use crate::runtime::events::Events;

/// Results by name or by position, each with its own error: one that failed does not hide the others.
pub type Each<K, V> = Vec<(K, Result<V, Error>)>;

/// An admin client: a cheap handle, to be cloned and shared. The outer error of each call means that no answer came at all.
#[derive(Clone, Debug)]
pub struct Admin {
    pub(super) driver: Arc<Driver<Composition>>,
}

impl Admin {
    /// An admin client that runs on `runtime` and tells `events` what happens. It does not connect before the first
    /// call.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(
        config: Config,
        runtime: &Handle,
        events: Option<Arc<Events>>,
    ) -> Result<Admin, Error> {
        let driver = Driver::start(config, Role::Admin, runtime, events, Engine::admin)?;
        Ok(Admin {
            driver: Arc::new(driver),
        })
    }

    /// Fails calls under way with `Kind::Closed`, joins every task within `timeout`. Idempotent.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.driver.close(timeout.unwrap_or(JOIN_TIMEOUT)).await
    }

    /// The id that brokers know this client by (KIP-714), at most after `timeout` (`None`: `default.api.timeout.ms`).
    ///
    /// # Errors
    /// No broker takes metrics of clients, or `enable.metrics.push` is false; or none answered by the deadline.
    pub async fn instance_id(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
        self.driver.instance(timeout).await
    }

    /// All metrics at this moment, named as Kafka's Java client names them.
    pub fn metrics(&self) -> Vec<Metric> {
        self.driver.with(|engine, now| engine.metrics(now))
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.driver.config()
    }

    /// Makes a call and waits for its end, at most `timeout` (`None`: `default.api.timeout.ms`).
    pub(super) async fn ask<C: Call>(
        &self,
        call: C,
        timeout: Option<Duration>,
    ) -> Result<C::Answer, Error> {
        calls::ask(&self.driver, call, timeout).await
    }

    /// The time that the broker may take itself, as the request names it.
    pub(super) fn millis(&self, timeout: Option<Duration>) -> i32 {
        let config = self.config();
        let timeout = timeout
            .unwrap_or(config.default_api_timeout)
            .min(config.request_timeout);
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
    }
}
