//! The APIs, one file each: a request in, a response out, no socket and no clock.
//!
//! [`handle`] reads the header of a frame and finds the API in the table at the end. An API outside the table is not
//! advertised, and a request for it closes the connection, as in Kafka.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_share_group_offsets;
mod alter_user_scram_credentials;
mod api_versions;
mod config_changes;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod coordinated;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod expire_delegation_token;
mod fetch;
mod find_coordinator;
mod get_telemetry_subscriptions;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod offsets;
mod produce;
mod push_telemetry;
mod quorum;
mod renew_delegation_token;
mod sasl_authenticate;
mod sasl_handshake;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod shared;
mod streams_group_describe;
mod streams_group_heartbeat;
mod sync_group;
#[cfg(test)]
mod tests;
mod throttled;
mod txn_offset_commit;
mod withheld;
mod write_txn_markers;

use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use ottla_protocol::header::{self, RequestHeader};
use ottla_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddRaftVoterRequest,
    AlterClientQuotasRequest, AlterConfigsRequest, AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest, AlterShareGroupOffsetsRequest, AlterUserScramCredentialsRequest,
    ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    CreateAclsRequest, CreateDelegationTokenRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteAclsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteShareGroupOffsetsRequest,
    DeleteTopicsRequest, DescribeAclsRequest, DescribeClientQuotasRequest, DescribeClusterRequest,
    DescribeConfigsRequest, DescribeDelegationTokenRequest, DescribeGroupsRequest,
    DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeShareGroupOffsetsRequest, DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, EndTxnRequest,
    ExpireDelegationTokenRequest, FetchRequest, FindCoordinatorRequest,
    GetTelemetrySubscriptionsRequest, HeartbeatRequest, IncrementalAlterConfigsRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListConfigResourcesRequest,
    ListGroupsRequest, ListOffsetsRequest, ListPartitionReassignmentsRequest,
    ListTransactionsRequest, MetadataRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest, PushTelemetryRequest,
    RemoveRaftVoterRequest, RenewDelegationTokenRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest, ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest, StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest, SyncGroupRequest, TxnOffsetCommitRequest,
    UnregisterBrokerRequest, UnregisterControllerRequest, UpdateFeaturesRequest,
    WriteTxnMarkersRequest,
};
use ottla_protocol::refusal::{Refusal, Refuse};
use ottla_protocol::{ApiKey, ErrorCode, Frame, Reader, Response, Str, Versions};
use parking_lot::Mutex;

use self::throttled::Throttled;
use crate::bell::{Awaited, Slot};
use crate::cluster::controller::Asked;
use crate::cluster::image::Address;
use crate::core::{Core, Ticket};
use crate::now::Now;
use crate::release::Manner;
use crate::security::Throttle;
use crate::security::acl::{Operation, Resource, ResourceType};
use crate::security::session::{Session, Who};

/// One connection's client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    /// The index of its listener.
    pub(crate) listener: usize,
    pub(crate) session: Mutex<Session>,
    /// Wakes whoever drives its connection.
    pub(crate) waker: Waker,
    /// The share sessions that began on its connection.
    pub(crate) shares: Mutex<Vec<u64>>,
    pub(crate) software: Mutex<Software>,
}

/// The name and version that a client sends (KIP-511).
#[derive(Debug)]
pub(crate) struct Software {
    pub(crate) name: Str,
    pub(crate) version: Str,
}

impl Default for Software {
    /// Kafka's word for a client that has sent neither.
    fn default() -> Self {
        let unknown = Str::from_static("unknown");
        Self {
            name: unknown.clone(),
            version: unknown,
        }
    }
}

/// The context of a request.
pub(crate) struct Cx<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) client: &'a Client,
    pub(crate) who: Who,
    pub(crate) now: Now,
    pub(crate) version: i16,
    pub(crate) client_id: Option<Str>,
}

impl Cx<'_> {
    /// Where the group coordinator puts a reply for this client.
    pub(crate) fn ticket(&self) -> Ticket {
        Arc::new(Slot::new(self.client.waker.clone()))
    }

    /// Where a transaction coordinator puts a reply for this client.
    pub(crate) fn question(&self) -> Asked {
        Arc::new(Slot::new(self.client.waker.clone()))
    }

    /// May the client do this?
    pub(crate) fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.core
            .security
            .authorizes(&self.who, operation, resource)
    }

    /// As [`Cx::may`].
    ///
    /// # Errors
    /// The code that clients get if not.
    pub(crate) fn check(
        &self,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), ErrorCode> {
        if self.may(operation, resource) {
            Ok(())
        } else {
            Err(unauthorized(resource.kind))
        }
    }

    /// As [`Cx::check`] of a group, which this node must coordinate too.
    pub(crate) fn check_group(&self, operation: Operation, group: &str) -> Result<(), ErrorCode> {
        self.check(operation, Resource::group(group))?;
        self.core.coordinates(group)
    }

    /// Where clients of this listener reach the nodes that are up.
    pub(crate) fn nodes(&self) -> Vec<(i32, Address)> {
        nodes(self.core, self.client.listener)
    }

    /// The operations, among `all`, that the client may do, as bits (KIP-430).
    pub(crate) fn operations(&self, resource: Resource<'_>, all: i32) -> i32 {
        if self.core.security.acls.is_none() {
            return all;
        }
        let allowed = Operation::ALL.iter().filter(|operation| {
            let bit = 1 << **operation as i8;
            all & bit != 0 && self.may(**operation, resource)
        });
        allowed.fold(0, |bits, operation| bits | 1 << *operation as i8)
    }
}

/// Where clients of a listener reach the nodes that are up.
fn nodes(core: &Core, listener: usize) -> Vec<(i32, Address)> {
    let hosts = core.hosts().into_iter();
    let addresses = hosts.filter_map(|(id, host)| Some((id, host.get(listener)?.clone())));
    addresses.collect()
}

/// The code for what may not be done to a resource.
pub(crate) fn unauthorized(kind: ResourceType) -> ErrorCode {
    match kind {
        ResourceType::Topic => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        ResourceType::Group => ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ResourceType::TransactionalId => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ResourceType::DelegationToken => ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ResourceType::Cluster | ResourceType::User => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
    }
}

/// The outcome of a request.
pub(crate) enum Outcome<R> {
    /// The response.
    Answer(R),
    /// The response, and what is done to it last.
    Finish(R, Finish<R>),
    /// No response: the client does not expect one.
    Silent,
    /// The broker closes the connection for this reason.
    Close(String),
    /// The response is built when what it waits for has come, or at the deadline.
    Wait(Wait<R>),
}

/// Completes a response when it is known what quotas say of it, right before it is encoded.
pub(crate) type Finish<R> = Box<dyn FnOnce(&mut R, Throttle) + Send>;

/// A response that waits for what quotas say.
pub(crate) struct Answered {
    /// Bytes of records in it.
    pub(crate) fetched: usize,
    /// Makes the frame.
    pub(crate) encode: Box<dyn FnOnce(Throttle) -> Result<Frame, String> + Send>,
}

impl Answered {
    fn new<R: Response + Throttled + Send + 'static>(
        mut response: R,
        finish: Option<Finish<R>>,
        version: i16,
        correlation_id: i32,
    ) -> Self {
        Self {
            fetched: response.record_bytes(),
            encode: Box::new(move |throttle| {
                if throttle != Throttle::default() {
                    response.throttle(throttle);
                }
                if let Some(finish) = finish {
                    finish(&mut response, throttle);
                }
                header::encode_response(&response, version, correlation_id)
                    .map_err(|error| error.to_string())
            }),
        }
    }
}

/// A parked response.
pub(crate) struct Wait<R> {
    pub(crate) awaited: Arc<dyn Awaited>,
    /// `None`: the event comes for certain.
    pub(crate) deadline: Option<Instant>,
    pub(crate) resume: Box<dyn FnOnce(Now) -> Outcome<R> + Send>,
}

impl<R: Send + 'static> Outcome<R> {
    fn map<S: Send + 'static>(
        self,
        then: impl FnOnce(R, Option<Finish<R>>) -> S + Send + 'static,
    ) -> Outcome<S> {
        match self {
            Outcome::Answer(answer) => Outcome::Answer(then(answer, None)),
            Outcome::Finish(answer, finish) => Outcome::Answer(then(answer, Some(finish))),
            Outcome::Silent => Outcome::Silent,
            Outcome::Close(reason) => Outcome::Close(reason),
            Outcome::Wait(Wait {
                awaited,
                deadline,
                resume,
            }) => Outcome::Wait(Wait {
                awaited,
                deadline,
                resume: Box::new(|now| resume(now).map(then)),
            }),
        }
    }
}

/// One API: a file next to this one.
pub(crate) trait Api: Refuse<Response: Throttled> {
    /// The versions that are fully handled. A release takes some of them.
    const HANDLED: Versions;

    /// Handles the request.
    fn answer(self, cx: &Cx<'_>) -> Outcome<Self::Response>;

    /// Does the client wait for a response?
    fn is_answered(&self) -> bool {
        true
    }

    /// Handles a version that is not taken: the connection ends.
    fn answer_unknown_version(cx: &Cx<'_>, _correlation_id: i32) -> Outcome<Answered> {
        not_taken(cx.core, Self::KEY, cx.version)
    }

    /// The response with `code` and its name in every place that this API has for them.
    fn refuse(&self, version: i16, code: ErrorCode) -> Self::Response {
        let refusal = Refusal {
            code,
            message: Some(Str::from_static(code.name())),
            throttle_time_ms: 0,
        };
        self.error_response(version, &refusal)
    }
}

/// The code for a fenced producer before there was one of its own (KIP-588).
fn old_fencing(code: ErrorCode, is_old: bool) -> ErrorCode {
    match code {
        ErrorCode::PRODUCER_FENCED if is_old => ErrorCode::INVALID_PRODUCER_EPOCH,
        code => code,
    }
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Answer,
    /// Nothing, and return this code.
    Refuse(ErrorCode),
    /// What it requests, and still return this code.
    AnswerAndRefuse(ErrorCode),
    /// What it requests, and leave out of the response what it may leave out.
    AnswerWithLess,
}

/// A frame with a decoded header.
pub(crate) struct Opened {
    pub(crate) api: ApiKey,
    /// Its length.
    pub(crate) bytes: usize,
    header: RequestHeader,
    body: Reader,
}

impl Opened {
    /// What the client calls itself; empty if it does not.
    pub(crate) fn client_id(&self) -> Str {
        self.header.client_id.clone().unwrap_or_default()
    }
}

/// Reads the header of a frame.
///
/// # Errors
/// Why the connection must be closed.
pub(crate) fn open(frame: Bytes) -> Result<Opened, String> {
    let bytes = frame.len();
    let (header, body) = header::decode_request_header(frame)
        .map_err(|error| format!("it sent no request header: {error}"))?;
    match ApiKey::from_i16(header.api_key) {
        Some(api) => Ok(Opened {
            api,
            bytes,
            header,
            body,
        }),
        None => Err(format!("there is no API {}", header.api_key)),
    }
}

/// Handles an opened frame.
pub(crate) fn handle(
    core: &Arc<Core>,
    opened: Opened,
    client: &Client,
    now: Now,
    ask: Ask,
) -> Outcome<Answered> {
    let Opened {
        api, header, body, ..
    } = opened;
    let is_told = told_by_release(core, api).is_some_and(|it| it.contains(header.api_version));
    let manner = match core.release().manner(api, header.api_version) {
        Manner::Close if is_told && core.settings.unstable_versions => {
            Manner::Take(header.api_version)
        }
        manner => manner,
    };
    let version = match manner {
        Manner::Take(version) => version,
        Manner::Ignore => return Outcome::Silent,
        Manner::Close => return not_taken(core, api, header.api_version),
    };
    let cx = Cx {
        core,
        client,
        who: Who {
            principal: client.session.lock().principal().clone(),
            host: client.host,
        },
        now,
        version,
        client_id: header.client_id,
    };
    dispatch(api, &cx, body, header.correlation_id, ask)
}

fn not_taken<R>(core: &Core, api: ApiKey, version: i16) -> Outcome<R> {
    let (name, release) = (api.name(), core.release());
    let what = match release.versions(api) {
        Some(_) => format!("{name} version {version}"),
        None => name.to_owned(),
    };
    let release = release.name();
    Outcome::Close(format!(
        "{what} is not taken by a broker of release {release}"
    ))
}

fn told_by_release(core: &Core, api: ApiKey) -> Option<Versions> {
    let release = core.release();
    if core.settings.unstable_versions {
        release.versions_with_unstable(api)
    } else {
        release.versions(api)
    }
}

/// The versions of an API that the broker advertises and takes, among those that it handles.
fn told(core: &Core, api: ApiKey, handled: Versions) -> Option<Versions> {
    let told = told_by_release(core, api)?;
    Some(Versions {
        min: told.min.max(handled.min),
        max: told.max.min(handled.max),
    })
}

fn run<A: Api>(cx: &Cx<'_>, mut body: Reader, correlation_id: i32, ask: Ask) -> Outcome<Answered> {
    let version = cx.version;
    if !told(cx.core, A::KEY, A::HANDLED).is_some_and(|told| told.contains(version)) {
        return A::answer_unknown_version(cx, correlation_id);
    }
    let request = match A::decode(version, &mut body) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let outcome = match ask {
        Ask::Answer | Ask::AnswerWithLess => request.answer(cx),
        Ask::AnswerAndRefuse(code) => {
            let refusal = request.refuse(version, code);
            request.answer(cx).map(|_, _| refusal)
        }
        Ask::Refuse(code) if request.is_answered() => {
            Outcome::Answer(request.refuse(version, code))
        }
        // The sender gets only the end of the connection, as with Kafka.
        Ask::Refuse(code) => Outcome::Close(format!("{code}, and nobody waits for a response")),
    };
    outcome.map(move |mut response, finish| {
        if ask == Ask::AnswerWithLess {
            withheld::withhold(&mut response);
        }
        Answered::new(response, finish, version, correlation_id)
    })
}

macro_rules! apis {
    ($($key:ident => $request:ty,)*) => {
        fn dispatch(api: ApiKey, cx: &Cx<'_>, body: Reader, correlation_id: i32, ask: Ask) -> Outcome<Answered> {
            match api {
                $(ApiKey::$key => run::<$request>(cx, body, correlation_id, ask),)*
                other => Outcome::Close(format!("{} is not served here", other.name())),
            }
        }

        /// Every API with the versions that are handled, by key.
        const HANDLED: &[(ApiKey, Versions)] = &[$((ApiKey::$key, <$request>::HANDLED),)*];
    };
}

apis! {
    Produce => ProduceRequest,
    Fetch => FetchRequest,
    ListOffsets => ListOffsetsRequest,
    Metadata => MetadataRequest,
    OffsetCommit => OffsetCommitRequest,
    OffsetFetch => OffsetFetchRequest,
    FindCoordinator => FindCoordinatorRequest,
    JoinGroup => JoinGroupRequest,
    Heartbeat => HeartbeatRequest,
    LeaveGroup => LeaveGroupRequest,
    SyncGroup => SyncGroupRequest,
    DescribeGroups => DescribeGroupsRequest,
    ListGroups => ListGroupsRequest,
    SaslHandshake => SaslHandshakeRequest,
    ApiVersions => ApiVersionsRequest,
    CreateTopics => CreateTopicsRequest,
    DeleteTopics => DeleteTopicsRequest,
    DeleteRecords => DeleteRecordsRequest,
    InitProducerId => InitProducerIdRequest,
    OffsetForLeaderEpoch => OffsetForLeaderEpochRequest,
    AddPartitionsToTxn => AddPartitionsToTxnRequest,
    AddOffsetsToTxn => AddOffsetsToTxnRequest,
    EndTxn => EndTxnRequest,
    WriteTxnMarkers => WriteTxnMarkersRequest,
    TxnOffsetCommit => TxnOffsetCommitRequest,
    DescribeAcls => DescribeAclsRequest,
    CreateAcls => CreateAclsRequest,
    DeleteAcls => DeleteAclsRequest,
    DescribeConfigs => DescribeConfigsRequest,
    SaslAuthenticate => SaslAuthenticateRequest,
    CreatePartitions => CreatePartitionsRequest,
    CreateDelegationToken => CreateDelegationTokenRequest,
    RenewDelegationToken => RenewDelegationTokenRequest,
    ExpireDelegationToken => ExpireDelegationTokenRequest,
    DescribeDelegationToken => DescribeDelegationTokenRequest,
    DeleteGroups => DeleteGroupsRequest,
    IncrementalAlterConfigs => IncrementalAlterConfigsRequest,
    OffsetDelete => OffsetDeleteRequest,
    DescribeClientQuotas => DescribeClientQuotasRequest,
    AlterClientQuotas => AlterClientQuotasRequest,
    DescribeUserScramCredentials => DescribeUserScramCredentialsRequest,
    AlterUserScramCredentials => AlterUserScramCredentialsRequest,
    DescribeCluster => DescribeClusterRequest,
    DescribeProducers => DescribeProducersRequest,
    DescribeTransactions => DescribeTransactionsRequest,
    ListTransactions => ListTransactionsRequest,
    ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribe => ConsumerGroupDescribeRequest,
    GetTelemetrySubscriptions => GetTelemetrySubscriptionsRequest,
    PushTelemetry => PushTelemetryRequest,
    ShareGroupHeartbeat => ShareGroupHeartbeatRequest,
    ShareGroupDescribe => ShareGroupDescribeRequest,
    ShareFetch => ShareFetchRequest,
    ShareAcknowledge => ShareAcknowledgeRequest,
    DescribeShareGroupOffsets => DescribeShareGroupOffsetsRequest,
    AlterShareGroupOffsets => AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsets => DeleteShareGroupOffsetsRequest,
    ListConfigResources => ListConfigResourcesRequest,
    DescribeLogDirs => DescribeLogDirsRequest,
    AlterReplicaLogDirs => AlterReplicaLogDirsRequest,
    ElectLeaders => ElectLeadersRequest,
    AlterPartitionReassignments => AlterPartitionReassignmentsRequest,
    ListPartitionReassignments => ListPartitionReassignmentsRequest,
    DescribeQuorum => DescribeQuorumRequest,
    AddRaftVoter => AddRaftVoterRequest,
    RemoveRaftVoter => RemoveRaftVoterRequest,
    UnregisterBroker => UnregisterBrokerRequest,
    UnregisterController => UnregisterControllerRequest,
    UpdateFeatures => UpdateFeaturesRequest,
    StreamsGroupDescribe => StreamsGroupDescribeRequest,
    AlterConfigs => AlterConfigsRequest,
    DescribeTopicPartitions => DescribeTopicPartitionsRequest,
    StreamsGroupHeartbeat => StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdate => StreamsGroupTopologyDescriptionUpdateRequest,
}

/// The operations that there are on a resource, as bits (KIP-430).
pub(crate) mod operations {
    const fn bits(codes: &[i32]) -> i32 {
        let mut bits = 0;
        let mut rest = codes;
        while let [code, tail @ ..] = rest {
            bits |= 1 << *code;
            rest = tail;
        }
        bits
    }

    /// The value for "not requested".
    pub(crate) const UNKNOWN: i32 = i32::MIN;
    /// Read, write, create, delete, alter, describe, describe and alter configs.
    pub(crate) const TOPIC: i32 = bits(&[3, 4, 5, 6, 7, 8, 10, 11]);
    /// Read, delete, describe, describe and alter configs.
    pub(crate) const GROUP: i32 = bits(&[3, 6, 8, 10, 11]);
    /// Create, alter, describe, cluster action, describe and alter configs, idempotent write.
    pub(crate) const CLUSTER: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);
}
