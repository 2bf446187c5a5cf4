//! What quotas change in a response: its throttle time, and for Fetch the records.

use bytes::Bytes;
use ottla_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, AddRaftVoterResponse,
    AlterClientQuotasResponse, AlterConfigsResponse, AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsResponse, AlterShareGroupOffsetsResponse, AlterUserScramCredentialsResponse,
    ApiVersionsResponse, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse,
    CreateAclsResponse, CreateDelegationTokenResponse, CreatePartitionsResponse,
    CreateTopicsResponse, DeleteAclsResponse, DeleteGroupsResponse, DeleteRecordsResponse,
    DeleteShareGroupOffsetsResponse, DeleteTopicsResponse, DescribeAclsResponse,
    DescribeClientQuotasResponse, DescribeClusterResponse, DescribeConfigsResponse,
    DescribeDelegationTokenResponse, DescribeGroupsResponse, DescribeLogDirsResponse,
    DescribeProducersResponse, DescribeQuorumResponse, DescribeShareGroupOffsetsResponse,
    DescribeTopicPartitionsResponse, DescribeTransactionsResponse,
    DescribeUserScramCredentialsResponse, ElectLeadersResponse, EndTxnResponse,
    ExpireDelegationTokenResponse, FetchResponse, FindCoordinatorResponse,
    GetTelemetrySubscriptionsResponse, HeartbeatResponse, IncrementalAlterConfigsResponse,
    InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse, ListConfigResourcesResponse,
    ListGroupsResponse, ListOffsetsResponse, ListPartitionReassignmentsResponse,
    ListTransactionsResponse, MetadataResponse, OffsetCommitResponse, OffsetDeleteResponse,
    OffsetFetchResponse, OffsetForLeaderEpochResponse, ProduceResponse, PushTelemetryResponse,
    RemoveRaftVoterResponse, RenewDelegationTokenResponse, SaslAuthenticateResponse,
    SaslHandshakeResponse, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupDescribeResponse, ShareGroupHeartbeatResponse, StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatResponse, StreamsGroupTopologyDescriptionUpdateResponse,
    SyncGroupResponse, TxnOffsetCommitResponse, UnregisterBrokerResponse,
    UnregisterControllerResponse, UpdateFeaturesResponse, WriteTxnMarkersResponse,
};

use crate::security::Throttle;

/// A response that can be throttled; some have no place to say so.
pub(crate) trait Throttled {
    /// Bytes of records in it.
    fn record_bytes(&self) -> usize {
        0
    }

    fn throttle(&mut self, throttle: Throttle);
}

fn milliseconds(throttle: Throttle) -> i32 {
    // At least 1, so that a client that is throttled sees it.
    i32::try_from(throttle.time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

macro_rules! throttled {
    ($($response:ty,)*) => {
        $(impl Throttled for $response {
            fn throttle(&mut self, throttle: Throttle) {
                self.throttle_time_ms = milliseconds(throttle);
            }
        })*
    };
}

throttled! {
    AlterConfigsResponse,
    DescribeTopicPartitionsResponse,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateResponse,
    ListConfigResourcesResponse,
    DescribeLogDirsResponse,
    AlterReplicaLogDirsResponse,
    ElectLeadersResponse,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
    AddRaftVoterResponse,
    RemoveRaftVoterResponse,
    UnregisterBrokerResponse,
    UnregisterControllerResponse,
    UpdateFeaturesResponse,
    StreamsGroupDescribeResponse,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    EndTxnResponse,
    ListTransactionsResponse,
    TxnOffsetCommitResponse,
    CreateDelegationTokenResponse,
    RenewDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    AlterClientQuotasResponse,
    AlterUserScramCredentialsResponse,
    ApiVersionsResponse,
    CreateAclsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteAclsResponse,
    DeleteGroupsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeUserScramCredentialsResponse,
    FindCoordinatorResponse,
    GetTelemetrySubscriptionsResponse,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    IncrementalAlterConfigsResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
    PushTelemetryResponse,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponse,
    ShareAcknowledgeResponse,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatResponse,
    SyncGroupResponse,
}

impl Throttled for FetchResponse {
    fn record_bytes(&self) -> usize {
        let partitions = self.responses.iter().flat_map(|topic| &topic.partitions);
        let records = partitions.filter_map(|partition| partition.records.as_ref());
        records.map(Bytes::len).sum()
    }

    /// A client that is over its quota gets no partitions, and sends the request again later
    /// (KIP-219).
    fn throttle(&mut self, throttle: Throttle) {
        self.throttle_time_ms = milliseconds(throttle);
        if throttle.withholds {
            self.responses.clear();
        }
    }
}

impl Throttled for ShareFetchResponse {
    fn record_bytes(&self) -> usize {
        let partitions = self.responses.iter().flat_map(|topic| &topic.partitions);
        let records = partitions.filter_map(|partition| partition.records.as_ref());
        records.map(Bytes::len).sum()
    }

    /// The records are acquired already, so that the client gets them.
    fn throttle(&mut self, throttle: Throttle) {
        self.throttle_time_ms = milliseconds(throttle);
    }
}

impl Throttled for DescribeQuorumResponse {
    fn throttle(&mut self, _: Throttle) {}
}

impl Throttled for SaslHandshakeResponse {
    fn throttle(&mut self, _: Throttle) {}
}

/// What brokers ask of each other is not held back.
impl Throttled for WriteTxnMarkersResponse {
    fn throttle(&mut self, _: Throttle) {}
}

impl Throttled for SaslAuthenticateResponse {
    fn throttle(&mut self, _: Throttle) {}
}
