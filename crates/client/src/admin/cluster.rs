//! The brokers and the controller.

use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::DescribeCluster;

use crate::admin::handle::Admin;

/// A broker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: u16,
    /// Its rack, if it names one.
    pub rack: Option<String>,
}

/// The cluster as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id, where brokers tell it.
    pub cluster_id: Option<String>,
    /// The controller's id; -1 if there is none at the moment.
    pub controller: i32,
    /// Its brokers, by id.
    pub nodes: Vec<Node>,
}

impl Admin {
    /// The brokers and the controller.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_cluster(
        &self,
        timeout: Option<Duration>,
    ) -> Result<ClusterDescription, Error> {
        let answer = self.ask(DescribeCluster, timeout).await?;
        let mut nodes: Vec<_> = answer
            .brokers
            .iter()
            .map(|broker| Node {
                id: broker.node_id,
                host: broker.host.to_string(),
                port: u16::try_from(broker.port).unwrap_or(0),
                rack: broker.rack.as_ref().map(|rack| rack.to_string()),
            })
            .collect();
        nodes.sort_by_key(|node| node.id);
        let cluster_id = answer.cluster_id.as_ref().map(|id| id.to_string());
        Ok(ClusterDescription {
            cluster_id,
            controller: answer.controller_id,
            nodes,
        })
    }
}
