//! The brokers and the controller.

use std::time::Duration;

pub use ottla_engine::call::{ClusterDescription, Node};
use ottla_engine::call::{ClusterMetadata, DescribeCluster};
use ottla_engine::{Error, Kind};

use crate::admin::handle::Admin;

impl Admin {
    /// The brokers and the controller; with `operations`, the operations that the client is authorized for; with `fenced`, fenced
    /// brokers too (KIP-1073). Brokers before 2.8 return it as metadata.
    ///
    /// # Errors
    /// No answer by the deadline; `Kind::Unsupported` if brokers before 4.0 are asked for those that are fenced.
    pub async fn describe_cluster(
        &self,
        operations: bool,
        fenced: bool,
        timeout: Option<Duration>,
    ) -> Result<ClusterDescription, Error> {
        let limit = timeout.unwrap_or(self.config().default_api_timeout);
        let begun = self.driver.with(|_, now| now);
        let call = DescribeCluster { operations, fenced };
        match self.ask(call, Some(limit)).await {
            Err(error) if error.kind() == Kind::Unsupported && !fenced => {
                let passed = self
                    .driver
                    .with(|_, now| now.saturating_duration_since(begun));
                let left = limit.saturating_sub(passed);
                self.ask(ClusterMetadata { operations }, Some(left)).await
            }
            found => found,
        }
    }
}
