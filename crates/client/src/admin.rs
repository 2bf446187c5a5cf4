//! Managing a cluster. The calls are the engine's verbs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::admin::{Admin as Composition, Ask, Verb};
use ottla_engine::call::{AnyCall, Call};
use ottla_engine::metrics::{AppMetric, Metric};
use ottla_engine::{Config, Engine, Error, Role};

use crate::net::transport::deadline;
use crate::runtime::calls;
use crate::runtime::driver::{Driver, JOIN_TIMEOUT};
use crate::runtime::events::Events;
use crate::runtime::threads::Threads;

/// An admin client: a cheap handle, to be cloned and shared.
#[derive(Clone, Debug)]
pub struct Admin {
    driver: Arc<Driver<Composition>>,
}

impl Admin {
    /// An admin client that runs on `threads` and reports to `events`. It does not connect before
    /// the first call.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(
        config: Config,
        threads: &Arc<Threads>,
        events: Option<Arc<Events>>,
    ) -> Result<Admin, Error> {
        let driver = Driver::start(config, Role::Admin, threads, events, Engine::admin)?;
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
    /// No broker takes metrics of clients, or `enable.metrics.push` is false; or no broker
    /// responded by the deadline.
    pub async fn instance_id(&self, timeout: Option<Duration>) -> Result<[u8; 16], Error> {
        self.driver.instance(timeout).await
    }

    /// Pushes a metric of the program to brokers with the client's own (KIP-1076). It replaces a registered one of the same
    /// name and tags, but none of the client's.
    pub fn register_metric(&self, metric: Arc<AppMetric>) {
        self.driver
            .with(|engine, now| engine.register_metric(now, metric));
    }

    /// No longer pushes the registered metric of this name and these tags, if there is one.
    pub fn unregister_metric(&self, metric: &AppMetric) {
        self.driver
            .with(|engine, _| engine.unregister_metric(metric));
    }

    /// All metrics at this moment, named as Kafka's Java client names them.
    pub fn metrics(&self) -> Vec<Metric> {
        self.driver.with(|engine, now| engine.metrics(now))
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.driver.config()
    }

    /// Makes the calls of a verb and waits for their end, at most `timeout` (`None`: `default.api.timeout.ms`).
    ///
    /// # Errors
    /// Those of the verb; no response by the deadline.
    pub async fn run<V: Verb>(
        &self,
        verb: V,
        timeout: Option<Duration>,
    ) -> Result<V::Outcome, Error> {
        let limit = timeout.unwrap_or(self.config().default_api_timeout);
        let running = Running {
            admin: self,
            limit,
            deadline: deadline(limit),
        };
        verb.run(&running).await
    }
}

/// An admin client that runs a verb.
struct Running<'a> {
    admin: &'a Admin,
    limit: Duration,
    deadline: Instant,
}

impl Ask for Running<'_> {
    async fn ask<C: Call>(&self, call: C) -> Result<C::Answer, Error> {
        let call = AnyCall::of(call);
        let answer = calls::ask_until(&self.admin.driver, call, self.deadline).await?;
        answer.result::<C>()
    }

    fn broker_timeout_ms(&self) -> i32 {
        let timeout = self.limit.min(self.admin.config().request_timeout);
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
    }
}
