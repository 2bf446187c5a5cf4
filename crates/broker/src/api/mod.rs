//! The APIs, one file each: a request in, an answer out, no socket and no clock.
//!
//! [`handle`] reads the header of a frame and finds the API in the table at the end. An API outside the table is not
//! advertised, and a request for it closes the connection, as in Kafka.

mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ottla_protocol::header::{self, RequestHeader};
use ottla_protocol::messages::{
    ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest,
    DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest,
    FetchRequest, FindCoordinatorRequest, HeartbeatRequest, InitProducerIdRequest,
    JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    SyncGroupRequest,
};
use ottla_protocol::refusal::{Refusal, Refuse};
use ottla_protocol::{ApiKey, ErrorCode, Frame, Reader, Str, Versions};

use crate::core::{Core, Now};
use crate::storage::log::Watcher;

/// The context of a request.
pub(crate) struct Cx<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) now: Now,
    pub(crate) version: i16,
    pub(crate) client_id: Option<Str>,
    pub(crate) client_host: IpAddr,
}

/// The outcome of a request.
pub(crate) enum Outcome<R> {
    /// The response.
    Answer(R),
    /// No response: the client does not expect one.
    Silent,
    /// The broker closes the connection for this reason.
    Close(String),
    /// The response comes after another event.
    Later(Pin<Box<dyn Future<Output = Outcome<R>> + Send>>),
    /// The response is built when more records arrive, or at the deadline.
    Wait(Wait<R>),
}

/// A long poll.
pub(crate) struct Wait<R> {
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) deadline: Instant,
    pub(crate) resume: Box<dyn FnOnce(Now) -> Outcome<R> + Send>,
}

impl<R: Send + 'static> Outcome<R> {
    fn map<S: Send + 'static>(
        self,
        then: impl FnOnce(R) -> Outcome<S> + Send + 'static,
    ) -> Outcome<S> {
        match self {
            Outcome::Answer(answer) => then(answer),
            Outcome::Silent => Outcome::Silent,
            Outcome::Close(reason) => Outcome::Close(reason),
            Outcome::Later(answer) => Outcome::Later(Box::pin(async { answer.await.map(then) })),
            Outcome::Wait(Wait {
                watcher,
                deadline,
                resume,
            }) => Outcome::Wait(Wait {
                watcher,
                deadline,
                resume: Box::new(|now| resume(now).map(then)),
            }),
        }
    }
}

/// One API: a file beside this one.
pub(crate) trait Api: Refuse {
    /// The versions that are fully handled.
    const HANDLED: Versions;

    /// The versions named in ApiVersions.
    const ADVERTISED: Versions = Self::HANDLED;

    /// Handles the request.
    fn answer(self, cx: &Cx<'_>) -> Outcome<Self::Response>;

    /// Does the client wait for a response?
    fn is_answered(&self) -> bool {
        true
    }

    /// Answers a version that is not in [`Self::HANDLED`]: the connection ends.
    fn answer_unknown_version(version: i16, _correlation_id: i32) -> Outcome<Frame> {
        let name = Self::KEY.name();
        Outcome::Close(format!("{name} version {version} is not handled"))
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

/// Whether to handle or to refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Answer,
    Refuse(ErrorCode),
}

/// A frame with a decoded header.
pub(crate) struct Opened {
    pub(crate) api: ApiKey,
    header: RequestHeader,
    body: Reader,
}

/// Reads the header of a frame.
///
/// # Errors
/// Why the connection must be closed.
pub(crate) fn open(frame: Bytes) -> Result<Opened, String> {
    let (header, body) = header::decode_request_header(frame)
        .map_err(|error| format!("it sent no request header: {error}"))?;
    match ApiKey::from_i16(header.api_key) {
        Some(api) => Ok(Opened { api, header, body }),
        None => Err(format!("there is no API {}", header.api_key)),
    }
}

/// Handles an opened frame.
pub(crate) fn handle(
    core: &Arc<Core>,
    opened: Opened,
    client_host: IpAddr,
    now: Now,
    ask: Ask,
) -> Outcome<Frame> {
    let Opened { api, header, body } = opened;
    let cx = Cx {
        core,
        now,
        version: header.api_version,
        client_id: header.client_id,
        client_host,
    };
    dispatch(api, &cx, body, header.correlation_id, ask)
}

fn run<A: Api>(cx: &Cx<'_>, mut body: Reader, correlation_id: i32, ask: Ask) -> Outcome<Frame> {
    let version = cx.version;
    if !A::HANDLED.contains(version) {
        return A::answer_unknown_version(version, correlation_id);
    }
    let request = match A::decode(version, &mut body) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let outcome = match ask {
        Ask::Answer => request.answer(cx),
        Ask::Refuse(code) if request.is_answered() => {
            Outcome::Answer(request.refuse(version, code))
        }
        // The end of the connection is all that its sender can be told, as with Kafka.
        Ask::Refuse(code) => Outcome::Close(format!("{code}, and nobody waits for an answer")),
    };
    outcome.map(
        move |answer| match header::encode_response(&answer, version, correlation_id) {
            Ok(frame) => Outcome::Answer(frame),
            Err(error) => Outcome::Close(error.to_string()),
        },
    )
}

macro_rules! apis {
    ($($key:ident => $request:ty,)*) => {
        fn dispatch(api: ApiKey, cx: &Cx<'_>, body: Reader, correlation_id: i32, ask: Ask) -> Outcome<Frame> {
            match api {
                $(ApiKey::$key => run::<$request>(cx, body, correlation_id, ask),)*
                other => Outcome::Close(format!("{} is not served here", other.name())),
            }
        }

        /// Every API with the versions named in ApiVersions, by key.
        const ADVERTISED: &[(ApiKey, Versions)] = &[$((ApiKey::$key, <$request>::ADVERTISED),)*];
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
    ApiVersions => ApiVersionsRequest,
    CreateTopics => CreateTopicsRequest,
    DeleteTopics => DeleteTopicsRequest,
    InitProducerId => InitProducerIdRequest,
    OffsetForLeaderEpoch => OffsetForLeaderEpochRequest,
    DescribeConfigs => DescribeConfigsRequest,
    CreatePartitions => CreatePartitionsRequest,
    DeleteGroups => DeleteGroupsRequest,
    DescribeCluster => DescribeClusterRequest,
}

/// Operations on a resource that a client is told it may do: all of them, as there is no authorizer (KIP-430).
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
    /// Read, delete, describe.
    pub(crate) const GROUP: i32 = bits(&[3, 6, 8]);
    /// Create, alter, describe, cluster action, describe and alter configs, idempotent write.
    pub(crate) const CLUSTER: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);
}
