//! The description of the cluster.

use serde::Deserialize;

use super::verb::{Ask, Verb, verbs};
use crate::call::{self, ClusterDescription, ClusterMetadata};
use crate::error::{Error, Kind};

verbs! {
    describe_cluster: DescribeCluster,
}

/// The brokers and the controller. Brokers before 2.8 return it as metadata.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct DescribeCluster {
    /// Whether to return the operations that the client is authorized for.
    pub include_authorized_operations: bool,
    /// Whether to list fenced brokers too (KIP-1073), since Kafka 4.0.
    pub include_fenced_brokers: bool,
}

impl Verb for DescribeCluster {
    type Outcome = ClusterDescription;

    async fn run(self, admin: &impl Ask) -> Result<ClusterDescription, Error> {
        let operations = self.include_authorized_operations;
        let fenced = self.include_fenced_brokers;
        match admin
            .ask(call::DescribeCluster { operations, fenced })
            .await
        {
            Err(error) if error.kind() == Kind::Unsupported && !fenced => {
                admin.ask(ClusterMetadata { operations }).await
            }
            found => found,
        }
    }
}
