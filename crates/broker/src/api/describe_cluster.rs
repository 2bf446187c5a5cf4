//! DescribeCluster, versions 0 to 2 (KIP-700): the nodes that are up. Since version 1 a client
//! requests brokers or controllers.

use ottla_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use ottla_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome, operations};
use crate::security::acl::{Operation, Resource};

const BROKERS: i8 = 1;

impl Api for DescribeClusterRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeClusterResponse> {
        if self.endpoint_type != BROKERS {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::MISMATCHED_ENDPOINT_TYPE));
        }
        let brokers = cx.nodes().into_iter();
        let brokers = brokers.map(|(broker_id, address)| DescribeClusterBroker {
            broker_id,
            host: address.host,
            port: address.port,
            ..Default::default()
        });
        let is_asked = self.include_cluster_authorized_operations;
        Outcome::Answer(DescribeClusterResponse {
            cluster_id: cx.core.cluster_id.clone(),
            controller_id: cx.core.controller_node(),
            brokers: brokers.collect(),
            cluster_authorized_operations: cluster_operations(cx, is_asked),
            ..Default::default()
        })
    }
}

/// What the client may do to the cluster, if it requests that; nothing for one that may not
/// describe the cluster.
pub(super) fn cluster_operations(cx: &Cx<'_>, is_asked: bool) -> i32 {
    if !is_asked {
        operations::UNKNOWN
    } else if cx.may(Operation::Describe, Resource::CLUSTER) {
        cx.operations(Resource::CLUSTER, operations::CLUSTER)
    } else {
        0
    }
}
