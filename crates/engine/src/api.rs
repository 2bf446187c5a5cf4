//! The requests that a client sends and their responses, with the versions that it supports.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::form::FormError;
use ottla_protocol::header;
use ottla_protocol::json::Json;
use ottla_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use ottla_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, AddRaftVoterRequest, AddRaftVoterResponse,
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterConfigsRequest, AlterConfigsResponse,
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, ApiVersionsRequest, ApiVersionsResponse,
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, CreateAclsRequest, CreateAclsResponse,
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, CreatePartitionsRequest,
    CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteAclsRequest,
    DeleteAclsResponse, DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeAclsRequest, DescribeAclsResponse,
    DescribeClientQuotasRequest, DescribeClientQuotasResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeProducersRequest, DescribeProducersResponse, DescribeQuorumRequest,
    DescribeQuorumResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, ElectLeadersRequest, ElectLeadersResponse, EndTxnRequest,
    EndTxnResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, FetchRequest,
    FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, HeartbeatRequest,
    HeartbeatResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, ListConfigResourcesRequest, ListConfigResourcesResponse,
    ListGroupsRequest, ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, ListTransactionsRequest,
    ListTransactionsResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest,
    ProduceResponse, PushTelemetryRequest, PushTelemetryResponse, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse, RenewDelegationTokenRequest, RenewDelegationTokenResponse,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, SyncGroupRequest,
    SyncGroupResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse, UnregisterBrokerRequest,
    UnregisterBrokerResponse, UnregisterControllerRequest, UnregisterControllerResponse,
    UpdateFeaturesRequest, UpdateFeaturesResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use ottla_protocol::{ApiKey, DecodeError, EncodeError, Frame};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::error::{Error, Kind};
use crate::release::{self, Era};

/// Declares both enums from one list: the API, the lowest and highest version that this crate
/// supports, and, if responses can carry a throttle time, the version from which the client itself
/// keeps that pause (KIP-219; before it, the broker did).
macro_rules! apis {
    ($($api:ident: $request:ident => $response:ident, $min:literal..=$max:literal $(, throttles from $throttle:literal)?;)*) => {
        /// A request of any API.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "named by API")]
        pub enum Request {
            $($api($request),)*
        }

        /// A response of any API.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "named by API")]
        pub enum Response {
            $($api($response),)*
        }

        impl Request {
            /// The API.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Request::$api(_) => ApiKey::$api,)*
                }
            }

            pub(crate) fn encode(&self, version: i16, correlation: i32, client: &str) -> Result<Frame, EncodeError> {
                match self {
                    $(Request::$api(body) => header::encode_request(body, version, correlation, Some(client)),)*
                }
            }
        }

        impl Response {
            /// The API.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Response::$api(_) => ApiKey::$api,)*
                }
            }

            /// The pause that the broker requests of the client, if any.
            pub(crate) fn throttle(&self, version: i16) -> Option<Duration> {
                let (millis, from) = match self {
                    $(Response::$api(_body) => apis!(@throttle _body $($throttle)?),)*
                };
                let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
                (version >= from).then_some(Duration::from_millis(millis))
            }

            /// Decodes the response to a request of `api` at `version`; `None` for an API that no
            /// request here has. Also returns how many bytes follow the response in its frame.
            pub(crate) fn decode(api: ApiKey, version: i16, frame: Bytes) -> Option<Result<(Response, usize), DecodeError>> {
                match api {
                    $(ApiKey::$api => Some(
                        header::decode_response_prefix::<$response>(version, frame)
                            .map(|(_, body, left)| (Response::$api(body), left)),
                    ),)*
                    _ => None,
                }
            }
        }

        impl Response {
            /// The response in the JSON of Kafka's own converters.
            pub(crate) fn to_json(&self, version: i16) -> Value {
                match self {
                    $(Response::$api(body) => body.to_json(version),)*
                }
            }
        }

        /// The request of `api` with these fields, in the JSON of Kafka's own converters. Fields of the message itself that are left
        /// out have their defaults. `None` for an API that no request here has.
        pub(crate) fn from_json(api: ApiKey, fields: &Value, version: i16) -> Option<Result<Request, FormError>> {
            match api {
                $(ApiKey::$api => Some({
                    let fields = over(<$request>::default().to_json(version), fields);
                    <$request>::from_json(&fields, version).map(Request::$api)
                }),)*
                _ => None,
            }
        }

        /// Each API with the highest version that this crate can speak.
        #[cfg(test)]
        pub(crate) const HIGHEST: &[(ApiKey, i16)] = &[$((ApiKey::$api, $max),)*];

        /// The versions of `api` that this crate can speak.
        pub(crate) fn spoken(api: ApiKey) -> Option<(i16, i16)> {
            match api {
                $(ApiKey::$api => Some(($min, $max)),)*
                _ => None,
            }
        }
    };
    (@throttle $answer:ident $from:literal) => { ($answer.throttle_time_ms, $from) };
    (@throttle $answer:ident) => { (0, 0) };
}

apis! {
    // Batches of magic 2 begin with Produce 3 and Fetch 4, timestamps with Produce 2 and Fetch 2.
    Produce: ProduceRequest => ProduceResponse, 0..=13, throttles from 6;
    Fetch: FetchRequest => FetchResponse, 0..=17, throttles from 8;
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse, 0..=11, throttles from 3;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse, 0..=4, throttles from 3;
    Metadata: MetadataRequest => MetadataResponse, 0..=13, throttles from 6;
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse, 0..=4, throttles from 2;
    CreateTopics: CreateTopicsRequest => CreateTopicsResponse, 0..=7, throttles from 3;
    DeleteTopics: DeleteTopicsRequest => DeleteTopicsResponse, 0..=6, throttles from 2;
    DescribeGroups: DescribeGroupsRequest => DescribeGroupsResponse, 0..=6, throttles from 2;
    DescribeCluster: DescribeClusterRequest => DescribeClusterResponse, 0..=2, throttles from 0;
    DescribeProducers: DescribeProducersRequest => DescribeProducersResponse, 0..=0, throttles from 0;
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse, 0..=6, throttles from 2;
    JoinGroup: JoinGroupRequest => JoinGroupResponse, 0..=9, throttles from 3;
    SyncGroup: SyncGroupRequest => SyncGroupResponse, 0..=5, throttles from 2;
    Heartbeat: HeartbeatRequest => HeartbeatResponse, 0..=4, throttles from 2;
    LeaveGroup: LeaveGroupRequest => LeaveGroupResponse, 0..=5, throttles from 2;
    ConsumerGroupDescribe: ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse, 0..=1, throttles from 0;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse, 0..=1, throttles from 0;
    // Their version 0 is a preview in Kafka 4.0 that later brokers do not speak (KIP-932).
    ShareGroupHeartbeat: ShareGroupHeartbeatRequest => ShareGroupHeartbeatResponse, 1..=1, throttles from 1;
    ShareFetch: ShareFetchRequest => ShareFetchResponse, 1..=2, throttles from 1;
    ShareAcknowledge: ShareAcknowledgeRequest => ShareAcknowledgeResponse, 1..=2, throttles from 1;
    // Version 10 has topic ids instead of names.
    OffsetCommit: OffsetCommitRequest => OffsetCommitResponse, 0..=10, throttles from 4;
    OffsetFetch: OffsetFetchRequest => OffsetFetchResponse, 0..=10, throttles from 4;
    // Version 6 is not final.
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse, 0..=6, throttles from 1;
    // From version 4 on it is for brokers (KIP-890).
    AddPartitionsToTxn: AddPartitionsToTxnRequest => AddPartitionsToTxnResponse, 0..=3, throttles from 1;
    AddOffsetsToTxn: AddOffsetsToTxnRequest => AddOffsetsToTxnResponse, 0..=4, throttles from 1;
    EndTxn: EndTxnRequest => EndTxnResponse, 0..=5, throttles from 1;
    // Version 6 has topic ids instead of names.
    TxnOffsetCommit: TxnOffsetCommitRequest => TxnOffsetCommitResponse, 0..=6, throttles from 1;
    WriteTxnMarkers: WriteTxnMarkersRequest => WriteTxnMarkersResponse, 0..=2;
    ListGroups: ListGroupsRequest => ListGroupsResponse, 0..=5, throttles from 2;
    DescribeTransactions: DescribeTransactionsRequest => DescribeTransactionsResponse, 0..=0, throttles from 0;
    ListTransactions: ListTransactionsRequest => ListTransactionsResponse, 0..=2, throttles from 0;
    CreateDelegationToken: CreateDelegationTokenRequest => CreateDelegationTokenResponse, 0..=3, throttles from 1;
    RenewDelegationToken: RenewDelegationTokenRequest => RenewDelegationTokenResponse, 0..=2, throttles from 1;
    ExpireDelegationToken: ExpireDelegationTokenRequest => ExpireDelegationTokenResponse, 0..=2, throttles from 1;
    DescribeDelegationToken: DescribeDelegationTokenRequest => DescribeDelegationTokenResponse, 0..=3, throttles from 1;
    CreatePartitions: CreatePartitionsRequest => CreatePartitionsResponse, 0..=3, throttles from 2;
    DeleteRecords: DeleteRecordsRequest => DeleteRecordsResponse, 0..=2, throttles from 1;
    DescribeConfigs: DescribeConfigsRequest => DescribeConfigsResponse, 0..=4, throttles from 2;
    AlterConfigs: AlterConfigsRequest => AlterConfigsResponse, 0..=2, throttles from 1;
    IncrementalAlterConfigs: IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse, 0..=1, throttles from 0;
    ListConfigResources: ListConfigResourcesRequest => ListConfigResourcesResponse, 0..=1, throttles from 0;
    ShareGroupDescribe: ShareGroupDescribeRequest => ShareGroupDescribeResponse, 1..=1, throttles from 1;
    StreamsGroupDescribe: StreamsGroupDescribeRequest => StreamsGroupDescribeResponse, 0..=1, throttles from 0;
    StreamsGroupHeartbeat: StreamsGroupHeartbeatRequest => StreamsGroupHeartbeatResponse, 0..=1, throttles from 0;
    DescribeTopicPartitions: DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse, 0..=0, throttles from 0;
    DeleteGroups: DeleteGroupsRequest => DeleteGroupsResponse, 0..=3, throttles from 1;
    OffsetDelete: OffsetDeleteRequest => OffsetDeleteResponse, 0..=0, throttles from 0;
    DescribeShareGroupOffsets: DescribeShareGroupOffsetsRequest => DescribeShareGroupOffsetsResponse, 0..=1, throttles from 0;
    AlterShareGroupOffsets: AlterShareGroupOffsetsRequest => AlterShareGroupOffsetsResponse, 0..=0, throttles from 0;
    DeleteShareGroupOffsets: DeleteShareGroupOffsetsRequest => DeleteShareGroupOffsetsResponse, 0..=0, throttles from 0;
    DescribeAcls: DescribeAclsRequest => DescribeAclsResponse, 0..=3, throttles from 1;
    CreateAcls: CreateAclsRequest => CreateAclsResponse, 0..=3, throttles from 1;
    DeleteAcls: DeleteAclsRequest => DeleteAclsResponse, 0..=3, throttles from 1;
    DescribeUserScramCredentials: DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse, 0..=0, throttles from 0;
    AlterUserScramCredentials: AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse, 0..=0, throttles from 0;
    DescribeClientQuotas: DescribeClientQuotasRequest => DescribeClientQuotasResponse, 0..=1, throttles from 0;
    AlterClientQuotas: AlterClientQuotasRequest => AlterClientQuotasResponse, 0..=1, throttles from 0;
    ElectLeaders: ElectLeadersRequest => ElectLeadersResponse, 0..=2, throttles from 0;
    AlterPartitionReassignments: AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse, 0..=1, throttles from 0;
    ListPartitionReassignments: ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse, 0..=0, throttles from 0;
    AlterReplicaLogDirs: AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse, 0..=2, throttles from 1;
    DescribeLogDirs: DescribeLogDirsRequest => DescribeLogDirsResponse, 0..=5, throttles from 1;
    UpdateFeatures: UpdateFeaturesRequest => UpdateFeaturesResponse, 0..=2, throttles from 0;
    DescribeQuorum: DescribeQuorumRequest => DescribeQuorumResponse, 0..=2;
    AddRaftVoter: AddRaftVoterRequest => AddRaftVoterResponse, 0..=1, throttles from 0;
    RemoveRaftVoter: RemoveRaftVoterRequest => RemoveRaftVoterResponse, 0..=0, throttles from 0;
    UnregisterBroker: UnregisterBrokerRequest => UnregisterBrokerResponse, 0..=0, throttles from 0;
    UnregisterController: UnregisterControllerRequest => UnregisterControllerResponse, 0..=0, throttles from 0;
    // SaslHandshake 1 puts the mechanism's bytes into SaslAuthenticate (KIP-152); after 0 they have no headers.
    SaslHandshake: SaslHandshakeRequest => SaslHandshakeResponse, 0..=1;
    SaslAuthenticate: SaslAuthenticateRequest => SaslAuthenticateResponse, 0..=2;
    // Their throttle time is about metrics, and the next push comes after the interval anyway (KIP-714).
    GetTelemetrySubscriptions: GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse, 0..=0;
    PushTelemetry: PushTelemetryRequest => PushTelemetryResponse, 0..=0;
}

/// The defaults with these fields over them.
fn over(defaults: Value, fields: &Value) -> Value {
    match (defaults, fields) {
        (Value::Object(mut all), Value::Object(fields)) => {
            all.extend(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
            Value::Object(all)
        }
        (_, fields) => fields.clone(),
    }
}

impl Request {
    /// Moves fields to where `version` has them, as far as it has them.
    pub(crate) fn fit(&mut self, version: i16) {
        match self {
            Request::Metadata(body) if version < 4 => fit_old_metadata(body, version),
            // Without transactions there is nothing to hide.
            Request::ListOffsets(body) if version < 2 => body.isolation_level = 0,
            Request::FindCoordinator(body) if version < 4 => {
                if let Some(key) = body.coordinator_keys.drain(..).next() {
                    body.key = key;
                }
            }
            Request::LeaveGroup(body) if version < 3 => fit_old_leave(body),
            Request::OffsetFetch(body) if version < 8 => fit_old_offset_fetch(body, version),
            // There is no expression that would have to be taken back.
            Request::ConsumerGroupHeartbeat(body) if version < 1 => {
                body.subscribed_topic_regex = None;
            }
            _ => {}
        }
    }
}

/// One member leaves, and has no instance id.
fn fit_old_leave(body: &mut LeaveGroupRequest) {
    if let Some(leaving) = body.members.drain(..).next() {
        body.member_id = leaving.member_id;
    }
}

/// Move the only group into the fields of old versions. Brokers that do not know `require_stable`
/// never withhold the offsets of open transactions.
fn fit_old_offset_fetch(body: &mut OffsetFetchRequest, version: i16) {
    if let Some(group) = body.groups.drain(..).next() {
        body.group_id = group.group_id;
        let topics = group.topics.map(|topics| {
            let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopic {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
                ..Default::default()
            });
            topics.collect()
        });
        body.topics = topics;
    }
    if version < 7 {
        body.require_stable = false;
    }
}

/// A broker that does not know `allow_auto_topic_creation` creates a topic that is requested by
/// name, if its own configuration allows that. If nothing may be created, request all topics
/// instead.
fn fit_old_metadata(body: &mut MetadataRequest, version: i16) {
    let names = body
        .topics
        .as_ref()
        .is_some_and(|topics| !topics.is_empty());
    if names && !body.allow_auto_topic_creation {
        body.topics = None;
    }
    body.allow_auto_topic_creation = true;
    // At version 0, no topics means all of them.
    if version == 0 {
        body.topics.get_or_insert_default();
    }
}

/// The versions of each API that one broker speaks: as it said, or as brokers of its age do that say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    apis: FxHashMap<i16, (i16, i16)>,
    /// The epoch of the cluster's features, and the level of `transaction.version` (KIP-584, KIP-890).
    transactions: Option<(i64, i16)>,
    /// The finalized level of `group.version` (KIP-848); 0 if the broker reported none.
    groups: i16,
}

impl Versions {
    pub(crate) fn new(answer: &ApiVersionsResponse) -> Versions {
        let rows = answer.api_keys.iter();
        let level = |name: &str| {
            let mut features = answer.finalized_features.iter();
            let found = features.find(|feature| &*feature.name == name);
            found.map_or(0, |feature| feature.max_version_level)
        };
        let epoch = answer.finalized_features_epoch;
        Versions {
            apis: rows
                .map(|row| (row.api_key, (row.min_version, row.max_version)))
                .collect(),
            transactions: (epoch >= 0).then_some((epoch, level(TRANSACTION_VERSION))),
            groups: if epoch >= 0 { level(GROUP_VERSION) } else { 0 },
        }
    }

    /// What brokers of `era` speak.
    pub(crate) fn of(era: Era) -> Versions {
        let rows = era.speaks().iter();
        Versions {
            apis: rows.map(|(api, max)| (api.as_i16(), (0, *max))).collect(),
            transactions: None,
            groups: 0,
        }
    }

    /// The epoch of the cluster's features, and the level of `transaction.version` in it; `None` if
    /// the broker reported none.
    pub(crate) fn transactions(&self) -> Option<(i64, i16)> {
        self.transactions
    }

    /// Whether groups of the consumer protocol are to be had (KIP-848): the broker speaks it, and the cluster has agreed on it.
    pub(crate) fn has_consumer_protocol(&self) -> bool {
        self.groups >= 1 && self.highest(ApiKey::ConsumerGroupHeartbeat).is_some()
    }

    /// Whether the versions are assumed, because the broker did not report them.
    pub(crate) fn is_assumed(&self) -> bool {
        !self.apis.contains_key(&ApiKey::ApiVersions.as_i16())
    }

    /// The release of Kafka that the broker resembles most.
    pub fn release(&self) -> &'static str {
        release::resembled(|api| self.apis.get(&api.as_i16()).map(|(_, max)| *max))
    }

    /// The error for what the broker cannot do: `what` needs the release `needed`, if one is known to have it.
    pub(crate) fn lacks(&self, what: &str, needed: Option<&str>) -> Error {
        let release = self.release();
        let text = match needed {
            Some(needed) => format!(
                "{what} needs brokers of Kafka {needed} or newer, and this one speaks as Kafka {release} does"
            ),
            None => format!("this broker speaks as Kafka {release} does, without {what}"),
        };
        Error::new(Kind::Unsupported, text)
    }

    /// The highest version of `api` that the broker speaks, whether or not this crate does.
    pub(crate) fn highest(&self, api: ApiKey) -> Option<i16> {
        self.apis.get(&api.as_i16()).map(|(_, max)| *max)
    }

    /// The highest version of `api`, at most `cap`, that both sides speak.
    ///
    /// # Errors
    /// `Kind::Unsupported`, with the broker's release and the one that is needed, or both sides' versions.
    pub fn choose(&self, api: ApiKey, cap: i16) -> Result<i16, Error> {
        let unsupported =
            |reason: String| Error::new(Kind::Unsupported, reason).calling(api.name());
        let (our_min, our_max) = spoken(api).unwrap_or((0, -1));
        let our_max = our_max.min(cap);
        let Some(&(min, max)) = self.apis.get(&api.as_i16()) else {
            let needed = release::first_with(api);
            if release::is_before(self.release(), needed) {
                return Err(self.lacks(api.name(), Some(needed)).calling(api.name()));
            }
            return Err(unsupported(format!(
                "the broker does not serve {}, which Kafka has since {needed}: it may be a controller, or no Kafka",
                api.name()
            )));
        };
        let best = max.min(our_max);
        if best < min.max(our_min) {
            let age = if max < our_min { "older" } else { "newer" };
            let needed = release::first_with_version(api, our_min)
                .filter(|_| max < our_min)
                .map_or_else(String::new, |needed| format!(" (Kafka {needed})"));
            return Err(unsupported(format!(
                "the broker is {age} than this client can use: it speaks as Kafka {} does, versions {min} to {max} of {}, \
                 needed is {our_min} to {our_max}{needed}",
                self.release(),
                api.name()
            )));
        }
        Ok(best)
    }
}

/// The feature whose level determines a cluster's transaction protocol (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";

/// The feature whose level determines whether a cluster supports the consumer group protocol
/// (KIP-848).
const GROUP_VERSION: &str = "group.version";

/// The first version of Produce, and of Fetch, whose topics have ids instead of names (KIP-516).
pub(crate) const TOPIC_IDS: i16 = 13;

/// The highest version of ApiVersions to begin with.
pub(crate) const API_VERSIONS_MAX: i16 = 4;

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::api_versions_response::ApiVersion;
    use ottla_protocol::messages::metadata_request::MetadataRequestTopic;

    use super::*;

    fn versions(rows: &[(ApiKey, i16, i16)]) -> Versions {
        let api_keys = rows
            .iter()
            .map(|&(api, min_version, max_version)| ApiVersion {
                api_key: api.as_i16(),
                min_version,
                max_version,
                ..Default::default()
            })
            .collect();
        Versions::new(&ApiVersionsResponse {
            api_keys,
            ..Default::default()
        })
    }

    #[test]
    fn takes_the_highest_that_both_speak() {
        let broker = versions(&[(ApiKey::Produce, 0, 9), (ApiKey::Metadata, 99, 100)]);
        assert_eq!(broker.choose(ApiKey::Produce, i16::MAX), Ok(9));
        assert_eq!(broker.choose(ApiKey::Produce, 5), Ok(5));
        assert!(
            broker
                .choose(ApiKey::Metadata, i16::MAX)
                .unwrap_err()
                .message()
                .contains("newer")
        );
        assert_eq!(
            broker
                .choose(ApiKey::ListOffsets, i16::MAX)
                .unwrap_err()
                .kind(),
            Kind::Unsupported
        );
    }

    #[test]
    fn what_a_broker_lacks_names_its_release_and_the_one_needed() {
        for (era, release) in [(Era::V0_8, "0.8"), (Era::V0_9, "0.9")] {
            let versions = Versions::of(era);
            assert!(versions.is_assumed());
            let error = versions.choose(ApiKey::CreateTopics, i16::MAX).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert_eq!(error.api(), Some("CreateTopics"));
            assert_eq!(
                error.message(),
                format!(
                    "CreateTopics needs brokers of Kafka 0.10.1 or newer, and this one speaks as Kafka {release} does"
                )
            );
            assert_eq!(versions.choose(ApiKey::Metadata, i16::MAX), Ok(0));
        }
        assert_eq!(Versions::of(Era::V0_8).choose(ApiKey::Produce, 13), Ok(0));
        assert_eq!(Versions::of(Era::V0_9).choose(ApiKey::Produce, 13), Ok(1));
    }

    #[test]
    fn a_lower_bound_that_is_no_truth_does_no_harm() {
        // Brokers since 4.0 list Produce 0 for the sake of other clients, and reject it
        // (KAFKA-18659).
        let broker = versions(&[(ApiKey::Produce, 0, 12), (ApiKey::ApiVersions, 0, 4)]);
        assert_eq!(broker.choose(ApiKey::Produce, i16::MAX), Ok(12));
        assert_eq!((broker.release(), broker.is_assumed()), ("4.0", false));
    }

    #[test]
    fn old_brokers_are_not_asked_by_name_for_what_they_must_not_create() {
        let request = |names: &[&str], may_create| {
            let topics = names.iter().map(|name| MetadataRequestTopic {
                name: Some((*name).into()),
                ..Default::default()
            });
            MetadataRequest {
                topics: Some(topics.collect()),
                allow_auto_topic_creation: may_create,
                ..Default::default()
            }
        };
        let asked = |version, names: &[&str], may_create| {
            let mut fitted = Request::Metadata(request(names, may_create));
            fitted.fit(version);
            fitted.encode(version, 1, "test").unwrap();
            let Request::Metadata(body) = fitted else {
                panic!("another request")
            };
            body.topics.map(|topics| topics.len())
        };
        for version in 0..4 {
            let all = if version == 0 { Some(0) } else { None };
            assert_eq!(asked(version, &["t"], false), all);
            assert_eq!(asked(version, &["t"], true), Some(1));
            assert_eq!(asked(version, &[], false), Some(0));
        }
        assert_eq!(asked(4, &["t"], false), Some(1));
    }
}
