//! FindCoordinator, versions 0 to 6: this node, for groups and for transactional ids (which InitProducerId then refuses).
//!
//! From version 4 many keys are asked for at once (KIP-699). Share groups' state (key type 2, version 6) is not kept here.

use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::core::Node;

const FIRST_BATCHED: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

impl Api for FindCoordinatorRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<FindCoordinatorResponse> {
        if !matches!(self.key_type, GROUP | TRANSACTION) {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        let Node { id, host, port } = cx.core.node.clone();
        if cx.version < FIRST_BATCHED {
            return Outcome::Answer(FindCoordinatorResponse {
                node_id: id,
                host,
                port,
                ..Default::default()
            });
        }
        let coordinator = |key: &Str| Coordinator {
            key: key.clone(),
            node_id: id,
            host: host.clone(),
            port,
            ..Default::default()
        };
        let coordinators = self.coordinator_keys.iter().map(coordinator).collect();
        Outcome::Answer(FindCoordinatorResponse {
            coordinators,
            ..Default::default()
        })
    }
}
