//! DescribeCluster, versions 0 to 2 (KIP-700): this node. From version 1 a client says that it talks to a broker.

use ottla_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use ottla_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome, operations};

const BROKERS: i8 = 1;

impl Api for DescribeClusterRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeClusterResponse> {
        if self.endpoint_type != BROKERS {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::MISMATCHED_ENDPOINT_TYPE));
        }
        let node = &cx.core.node;
        let is_asked = self.include_cluster_authorized_operations;
        Outcome::Answer(DescribeClusterResponse {
            cluster_id: cx.core.cluster_id.clone(),
            controller_id: node.id,
            brokers: vec![DescribeClusterBroker {
                broker_id: node.id,
                host: node.host.clone(),
                port: node.port,
                ..Default::default()
            }],
            cluster_authorized_operations: if is_asked {
                operations::CLUSTER
            } else {
                operations::UNKNOWN
            },
            ..Default::default()
        })
    }
}
