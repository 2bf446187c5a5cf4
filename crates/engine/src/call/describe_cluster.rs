//! DescribeCluster (KIP-700), and the same from Metadata for brokers before 2.8.

use ottla_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataResponse,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::Serialize;

use super::interface::{left_out, only};
use super::values::operations;
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::error::Error;

/// The first version of DescribeCluster that lists fenced brokers (KIP-1073).
const WITH_FENCED: i16 = 2;
/// The versions of Metadata that can return the operations that the client is authorized for (KIP-430, KIP-700).
const WITH_OPERATIONS: std::ops::RangeInclusive<i16> = 8..=10;
/// The bits of authorized operations in a response to a request without them.
const NOT_REQUESTED: i32 = i32::MIN;

/// A broker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: i32,
    /// Its rack, if it names one.
    pub rack: Option<String>,
    /// Whether it is fenced: registered, but not in service (KIP-1073).
    pub is_fenced: bool,
}

/// The cluster as a broker describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterDescription {
    /// Its id; brokers before 0.10.1 report none.
    pub cluster_id: Option<String>,
    /// The controller, if there is one among the brokers at the moment.
    pub controller: Option<Node>,
    /// Its brokers, by id.
    pub nodes: Vec<Node>,
    /// The operations that the client is authorized for: bit n is the operation with Kafka's code n. `None` if the call did not
    /// request them, or the broker is too old to return them.
    #[serde(serialize_with = "operations")]
    pub authorized_operations: Option<i32>,
}

impl ClusterDescription {
    fn new(
        cluster_id: Option<&str>,
        controller: i32,
        mut nodes: Vec<Node>,
        operations: i32,
    ) -> ClusterDescription {
        nodes.sort_by_key(|node| node.id);
        ClusterDescription {
            cluster_id: cluster_id.map(str::to_owned),
            controller: nodes.iter().find(|node| node.id == controller).cloned(),
            nodes,
            authorized_operations: Some(operations).filter(|bits| *bits != NOT_REQUESTED),
        }
    }
}

/// The brokers and the controller, since Kafka 2.8.
#[derive(Clone, Copy, Debug)]
pub struct DescribeCluster {
    /// Whether to return the operations that the client is authorized for.
    pub operations: bool,
    /// Whether to list fenced brokers too, since Kafka 4.0.
    pub fenced: bool,
}

impl Call for DescribeCluster {
    type Found = ClusterDescription;
    type Answer = ClusterDescription;
    const API: ApiKey = ApiKey::DescribeCluster;

    fn versions(&self) -> (i16, i16) {
        (if self.fenced { WITH_FENCED } else { 0 }, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::DescribeCluster(DescribeClusterRequest {
            include_cluster_authorized_operations: self.operations,
            include_fenced_brokers: self.fenced,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeCluster(answer) = response else {
            return Vec::new();
        };
        vec![described(&answer)]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the cluster")
    }
}

fn described(answer: &DescribeClusterResponse) -> Result<ClusterDescription, Error> {
    let code = ErrorCode(answer.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, answer.error_message.as_deref()));
    }
    let nodes = answer.brokers.iter().map(|broker| Node {
        id: broker.broker_id,
        host: broker.host.to_string(),
        port: broker.port,
        rack: broker.rack.as_ref().map(|rack| rack.to_string()),
        is_fenced: broker.is_fenced,
    });
    Ok(ClusterDescription::new(
        Some(&answer.cluster_id),
        answer.controller_id,
        nodes.collect(),
        answer.cluster_authorized_operations,
    ))
}

/// The brokers and the controller, from brokers of any age.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMetadata {
    /// Whether to return the operations that the client is authorized for: brokers from 2.3 to 2.7 return them here.
    pub operations: bool,
}

impl Call for ClusterMetadata {
    type Found = ClusterDescription;
    type Answer = ClusterDescription;
    const API: ApiKey = ApiKey::Metadata;

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        Request::Metadata(MetadataRequest {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: false,
            include_cluster_authorized_operations: self.operations
                && WITH_OPERATIONS.contains(&about.version),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::Metadata(answer) = response else {
            return vec![Err(left_out("the cluster"))];
        };
        vec![in_metadata(&answer)]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the cluster")
    }
}

fn in_metadata(answer: &MetadataResponse) -> Result<ClusterDescription, Error> {
    let code = ErrorCode(answer.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    let nodes = answer.brokers.iter().map(|broker| Node {
        id: broker.node_id,
        host: broker.host.to_string(),
        port: broker.port,
        rack: broker.rack.as_ref().map(|rack| rack.to_string()),
        is_fenced: false,
    });
    Ok(ClusterDescription::new(
        answer.cluster_id.as_deref(),
        answer.controller_id,
        nodes.collect(),
        answer.cluster_authorized_operations,
    ))
}
