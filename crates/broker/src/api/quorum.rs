//! DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterBroker and UpdateFeatures. They respond
//! as a cluster whose nodes are brokers and controllers with a static quorum, and whose features
//! stay.

use ottla_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use ottla_protocol::messages::update_features_response::UpdatableFeatureResult;
use ottla_protocol::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, DescribeQuorumRequest, DescribeQuorumResponse,
    RemoveRaftVoterRequest, RemoveRaftVoterResponse, UnregisterBrokerRequest,
    UnregisterBrokerResponse, UnregisterControllerRequest, UnregisterControllerResponse,
    UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::api_versions::levels;
use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

const METADATA: &str = "__cluster_metadata";

/// The first version of DescribeQuorum with listeners and texts.
const NODES: i16 = 2;

impl Api for DescribeQuorumRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeQuorumResponse> {
        if let Err(code) = cx.check(Operation::Describe, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let now = cx.core.wall.at(cx.now);
        let end = cx.core.metadata_end();
        let leader = cx.core.controller_node();
        let nodes = cx.nodes();
        let voter = |id: i32| ReplicaState {
            replica_id: id,
            log_end_offset: end,
            last_fetch_timestamp: if cx.version >= 1 { now } else { -1 },
            last_caught_up_timestamp: if cx.version >= 1 { now } else { -1 },
            ..Default::default()
        };
        let topics = self.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().map(|row| {
                let is_known = &*topic.topic_name == METADATA && row.partition_index == 0;
                if !is_known {
                    return PartitionData {
                        partition_index: row.partition_index,
                        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                        ..Default::default()
                    };
                }
                PartitionData {
                    partition_index: row.partition_index,
                    leader_id: leader,
                    leader_epoch: 1,
                    high_watermark: end,
                    current_voters: nodes.iter().map(|(id, _)| voter(*id)).collect(),
                    ..Default::default()
                }
            });
            TopicData {
                topic_name: topic.topic_name.clone(),
                partitions: rows.collect(),
                ..Default::default()
            }
        });
        let listeners = nodes.iter().filter(|_| cx.version >= NODES);
        let listeners = listeners.map(|(id, address)| Node {
            node_id: *id,
            listeners: vec![Listener {
                name: Str::from_static("CONTROLLER"),
                host: address.host.clone(),
                port: u16::try_from(address.port).unwrap_or(0),
                ..Default::default()
            }],
            ..Default::default()
        });
        Outcome::Answer(DescribeQuorumResponse {
            topics: topics.collect(),
            nodes: listeners.collect(),
            ..Default::default()
        })
    }
}

/// The response to a change of the voters, which a static quorum does not have.
const STATIC: &str = "Cluster doesn't support voters that change: its quorum is static";

impl Api for AddRaftVoterRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AddRaftVoterResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        Outcome::Answer(AddRaftVoterResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            error_message: Some(Str::from_static(STATIC)),
            ..Default::default()
        })
    }
}

impl Api for RemoveRaftVoterRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<RemoveRaftVoterResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        Outcome::Answer(RemoveRaftVoterResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            error_message: Some(Str::from_static(STATIC)),
            ..Default::default()
        })
    }
}

impl Api for UnregisterBrokerRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<UnregisterBrokerResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let text = format!("Broker ID {} is not currently registered", self.broker_id);
        Outcome::Answer(UnregisterBrokerResponse {
            error_code: ErrorCode::BROKER_ID_NOT_REGISTERED.0,
            error_message: Some(text.into()),
            ..Default::default()
        })
    }
}

impl Api for UnregisterControllerRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<UnregisterControllerResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let text = format!(
            "Controller ID {} is not currently registered",
            self.controller_id
        );
        Outcome::Answer(UnregisterControllerResponse {
            error_code: ErrorCode::CONTROLLER_ID_NOT_REGISTERED.0,
            error_message: Some(text.into()),
            ..Default::default()
        })
    }
}

/// The first version of UpdateFeatures that changes all features or none, and has one error.
const ALL_OR_NONE: i16 = 2;

impl Api for UpdateFeaturesRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<UpdateFeaturesResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let levels = levels(cx.core.release());
        let result = |feature: &str, wanted: i16| {
            let known = levels.iter().find(|(name, _)| *name == feature);
            match known {
                Some((_, level)) if *level == wanted => (ErrorCode::NONE, String::new()),
                known => {
                    let there = known.map_or(0, |(_, level)| *level);
                    let text = format!(
                        "Invalid update version {wanted} for feature {feature}: this cluster has {there}, and its features stay"
                    );
                    (ErrorCode::INVALID_UPDATE_VERSION, text)
                }
            }
        };
        let results = self.feature_updates.iter().map(|update| {
            let (code, text) = result(&update.feature, update.max_version_level);
            UpdatableFeatureResult {
                feature: update.feature.clone(),
                error_code: code.0,
                error_message: (code != ErrorCode::NONE).then(|| text.into()),
                ..Default::default()
            }
        });
        let results: Vec<_> = results.collect();
        if cx.version < ALL_OR_NONE {
            return Outcome::Answer(UpdateFeaturesResponse {
                results,
                ..Default::default()
            });
        }
        let failed = results.into_iter().find(|row| row.error_code != 0);
        Outcome::Answer(match failed {
            Some(row) => UpdateFeaturesResponse {
                error_code: row.error_code,
                error_message: row.error_message,
                ..Default::default()
            },
            None => UpdateFeaturesResponse::default(),
        })
    }
}
