//! FindCoordinator, versions 0 to 6: the node that leads the partition where a group's offsets are kept, or a transactional id.
//!
//! From version 4 many keys are asked for at once (KIP-699). Share groups' state (key type 2, version 6) is not kept here.

use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::cluster::image::Address;
use crate::security::acl::{Operation, Resource};

const FIRST_BATCHED: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

impl Api for FindCoordinatorRequest {
    const HANDLED: Versions = Versions { min: 0, max: 6 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<FindCoordinatorResponse> {
        if !matches!(self.key_type, GROUP | TRANSACTION) {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        if cx.version < FIRST_BATCHED {
            return Outcome::Answer(match find(cx, self.key_type, &self.key) {
                Ok((node_id, Address { host, port })) => FindCoordinatorResponse {
                    node_id,
                    host,
                    port,
                    ..Default::default()
                },
                Err(code) => self.refuse(cx.version, code),
            });
        }
        let coordinator = |key: &Str| match find(cx, self.key_type, key) {
            Ok((node_id, Address { host, port })) => Coordinator {
                key: key.clone(),
                node_id,
                host,
                port,
                ..Default::default()
            },
            Err(code) => Coordinator {
                key: key.clone(),
                node_id: -1,
                port: -1,
                error_code: code.0,
                error_message: Some(Str::from_static(code.name())),
                ..Default::default()
            },
        };
        let coordinators = self.coordinator_keys.iter().map(coordinator).collect();
        Outcome::Answer(FindCoordinatorResponse {
            coordinators,
            ..Default::default()
        })
    }
}

/// The coordinator, for clients that may know it.
fn find(cx: &Cx<'_>, key_type: i8, key: &str) -> Result<(i32, Address), ErrorCode> {
    let resource = match key_type {
        GROUP => Resource::group(key),
        _ => Resource::transactional_id(key),
    };
    cx.check(Operation::Describe, resource)?;
    let coordinator = match key_type {
        GROUP => cx.core.coordinator(key),
        _ => cx.core.transaction_coordinator(key),
    }?;
    let mut nodes = cx.nodes().into_iter();
    nodes
        .find(|(id, _)| *id == coordinator)
        .ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)
}
