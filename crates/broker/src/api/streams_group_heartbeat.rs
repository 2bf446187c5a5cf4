//! StreamsGroupHeartbeat, versions 0 and 1 (KIP-1071), and StreamsGroupTopologyDescriptionUpdate, version 0. The broker responds
//! to the first as Kafka does in a cluster without the feature `streams.version`, and the second as Kafka does without a plugin
//! that stores topologies.

use ottla_protocol::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};

const NO_PLUGIN: &str = "this broker has no plugin that stores topologies of streams groups";

impl Api for StreamsGroupHeartbeatRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, _: &Cx<'_>) -> Outcome<StreamsGroupHeartbeatResponse> {
        Outcome::Answer(StreamsGroupHeartbeatResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            ..Default::default()
        })
    }
}

impl Api for StreamsGroupTopologyDescriptionUpdateRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, _: &Cx<'_>) -> Outcome<StreamsGroupTopologyDescriptionUpdateResponse> {
        Outcome::Answer(StreamsGroupTopologyDescriptionUpdateResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            error_message: Some(Str::from_static(NO_PLUGIN)),
            ..Default::default()
        })
    }
}
