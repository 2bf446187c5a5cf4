//! The controllers (KIP-595, KIP-853): DescribeQuorum, AddRaftVoter, RemoveRaftVoter; and brokers and controllers that
//! are gone for good: UnregisterBroker (KIP-631), UnregisterController.

use ottla_protocol::messages::add_raft_voter_request;
use ottla_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use ottla_protocol::messages::describe_quorum_response::{Node, ReplicaState};
use ottla_protocol::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest, UnregisterBrokerRequest,
    UnregisterControllerRequest,
};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use serde::{Deserialize, Serialize};

use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::{left_out, only};
use crate::call::{About, Asked, Call, Retry, Target, controller, values};
use crate::error::Error;

verbs! {
    describe_metadata_quorum: DescribeMetadataQuorum,
    add_raft_voter: AddRaftVoter,
    remove_raft_voter: RemoveRaftVoter,
    unregister_broker: UnregisterBroker,
    unregister_controller: UnregisterController,
}

/// The topic of the cluster's metadata.
const METADATA: &str = "__cluster_metadata";

/// A controller, or a broker, that copies the cluster's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuorumReplica {
    /// Its id.
    pub id: i32,
    /// The id of its folder; `None` where brokers have none (before Kafka 3.9).
    #[serde(serialize_with = "values::topic_id")]
    pub directory_id: [u8; 16],
    /// The offset after its last record.
    pub log_end_offset: i64,
    /// When it last fetched, in ms since 1970 UTC, if known.
    pub last_fetch_timestamp: Option<i64>,
    /// When it had last caught up, in ms since 1970 UTC, if known.
    pub last_caught_up_timestamp: Option<i64>,
}

/// Where a controller can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftEndpoint {
    /// The listener's name.
    pub name: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A controller with its listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuorumNode {
    /// Its id.
    pub id: i32,
    /// Where it can be reached.
    pub endpoints: Vec<RaftEndpoint>,
}

/// The quorum of the controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuorumInfo {
    /// The id of the leader.
    pub leader_id: i32,
    /// Its epoch.
    pub leader_epoch: i32,
    /// The offset up to which a majority has the metadata.
    pub high_watermark: i64,
    /// The controllers that vote.
    pub voters: Vec<QuorumReplica>,
    /// Those that only copy.
    pub observers: Vec<QuorumReplica>,
    /// The voters' listeners; empty where brokers do not return them (before Kafka 3.9).
    pub nodes: Vec<QuorumNode>,
}

/// Describes the quorum.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeMetadataQuorum;

impl Call for DescribeMetadataQuorum {
    type Found = QuorumInfo;
    type Answer = QuorumInfo;
    const API: ApiKey = ApiKey::DescribeQuorum;

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::DescribeQuorum(DescribeQuorumRequest {
            topics: vec![TopicData {
                topic_name: METADATA.into(),
                partitions: vec![PartitionData::default()],
                ..Default::default()
            }],
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeQuorum(answer) = response else {
            return Vec::new();
        };
        let refused = |code: i16, text: Option<&str>| match ErrorCode(code) {
            code if code.is_error() => Err(Error::from_code(code, text)),
            _ => Ok(()),
        };
        if let Err(error) = refused(answer.error_code, answer.error_message.as_deref()) {
            return vec![Err(error)];
        }
        let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let Some(row) = rows.into_iter().next() else {
            return vec![Err(left_out("the quorum"))];
        };
        if let Err(error) = refused(row.error_code, row.error_message.as_deref()) {
            return vec![Err(error)];
        }
        let known = |time: i64| Some(time).filter(|time| *time >= 0);
        let replica = |row: &ReplicaState| QuorumReplica {
            id: row.replica_id,
            directory_id: row.replica_directory_id.0,
            log_end_offset: row.log_end_offset,
            last_fetch_timestamp: known(row.last_fetch_timestamp),
            last_caught_up_timestamp: known(row.last_caught_up_timestamp),
        };
        let node = |node: &Node| QuorumNode {
            id: node.node_id,
            endpoints: node
                .listeners
                .iter()
                .map(|row| RaftEndpoint {
                    name: row.name.to_string(),
                    host: row.host.to_string(),
                    port: row.port,
                })
                .collect(),
        };
        vec![Ok(QuorumInfo {
            leader_id: row.leader_id,
            leader_epoch: row.leader_epoch,
            high_watermark: row.high_watermark,
            voters: row.current_voters.iter().map(replica).collect(),
            observers: row.observers.iter().map(replica).collect(),
            nodes: answer.nodes.iter().map(node).collect(),
        })]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the quorum")
    }
}

/// Reads an id of 16 bytes.
fn id(bytes: &[u8]) -> Uuid {
    Uuid(bytes.try_into().unwrap_or([0; 16]))
}

/// Declares the calls that change the quorum or a registration: each with its fields and its request.
macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$of:meta])* $field:ident: $type:ty,)*
    } = |$this:ident, $about:ident| $request:expr, $what:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
        }

        impl Call for $name {
            type Found = ();
            type Answer = ();
            const API: ApiKey = ApiKey::$name;

            fn target(&self, _: usize) -> Target {
                Target::Controller
            }

            fn request(&self, _: &[usize], about: &About<'_>) -> Request {
                let ($this, $about) = (self, about);
                Request::$name($request)
            }

            fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
                let Response::$name(answer) = response else {
                    return Vec::new();
                };
                vec![match ErrorCode(answer.error_code) {
                    code if code.is_error() => {
                        Err(Error::from_code(code, answer.error_message.as_deref()))
                    }
                    _ => Ok(()),
                }]
            }

            fn changes(&self) -> bool {
                true
            }

            fn retry(&self, error: &Error, _: u32) -> Retry {
                controller::retry(error)
            }

            fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
                only(found, $what)
            }
        }
    )* };
}

changes! {
    /// Makes a controller vote.
    AddRaftVoter {
        /// Its id.
        voter_id: i32,
        /// The id of its folder: 16 bytes.
        #[serde(deserialize_with = "values::byte_string")]
        directory_id: bytes::Bytes,
        /// Where it can be reached.
        endpoints: Vec<RaftEndpoint>,
        /// The cluster's id, which is then compared.
        cluster_id: Option<String>,
    } = |this, about| AddRaftVoterRequest {
        cluster_id: this.cluster_id.as_deref().map(Into::into),
        timeout_ms: about.timeout_ms,
        voter_id: this.voter_id,
        voter_directory_id: id(&this.directory_id),
        listeners: this.endpoints.iter().map(|row| add_raft_voter_request::Listener {
            name: row.name.as_str().into(),
            host: row.host.as_str().into(),
            port: row.port,
            ..Default::default()
        }).collect(),
        ..Default::default()
    }, "the voter";
    /// Removes a controller from the voters.
    RemoveRaftVoter {
        /// Its id.
        voter_id: i32,
        /// The id of its folder: 16 bytes.
        #[serde(deserialize_with = "values::byte_string")]
        directory_id: bytes::Bytes,
        /// The cluster's id, which is then compared.
        cluster_id: Option<String>,
    } = |this, _about| RemoveRaftVoterRequest {
        cluster_id: this.cluster_id.as_deref().map(Into::into),
        voter_id: this.voter_id,
        voter_directory_id: id(&this.directory_id),
        ..Default::default()
    }, "the voter";
    /// Forgets a controller that is gone for good (Kafka 4.4).
    UnregisterController {
        /// Its id.
        controller: i32,
    } = |this, _about| UnregisterControllerRequest {
        controller_id: this.controller,
        ..Default::default()
    }, "the controller";
    /// Forgets a broker that is gone for good.
    UnregisterBroker {
        /// Its id.
        broker: i32,
    } = |this, _about| UnregisterBrokerRequest {
        broker_id: this.broker,
        ..Default::default()
    }, "the broker";
}
