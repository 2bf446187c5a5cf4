//! Finds out which versions of each API a broker supports (KIP-35, KIP-511).
//!
//! ```text
//!  Ask     ApiVersions 4 ── error 35 ──▶ ApiVersions at a version it knows ── response ──▶ its versions
//!             │ closed, or no response in time: may be a broker before 0.10, a TLS port, a fault of the network
//!             ▼ on a connection of its own
//!  Probe   ListOffsets 0 ──▶ ListGroups 0 ──▶ ApiVersions 0 ── response ──▶ its versions
//!             │                 │                │ no response in time ──▶ it is 0.9
//!             │                 │ closed ──▶ it is 0.8
//!             │ closed ──▶ it is no old broker
//!             ▼ on the next connection
//!  Assume  ListOffsets 0 ── response ──▶ the versions of 0.8 or 0.9
//! ```
//!
//! A broker that does not know the requested version of ApiVersions responds with an error in
//! version 0, with the versions it knows; then the client sends another request. Brokers before
//! 0.10 do not know ApiVersions at all: 0.8 closes the connection, 0.9 responds neither to this
//! request nor to any later one. Their versions must be known before the first Produce, since 0.8
//! appends one of a version that it does not know, and responds in another layout. No request of a
//! probe changes anything: offsets of no partition, and the groups that 0.9 and newer list.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, ListGroupsRequest, ListOffsetsRequest,
};
use ottla_protocol::{ApiKey, ErrorCode, header};

use crate::api::{API_VERSIONS_MAX, Request, Response, Versions};
use crate::error::{Error, Evidence, Kind};
use crate::release::{Approach, Era};

/// A broker that has just responded to two requests, and does not respond to a third one within
/// this time, does not know it.
const PROOF: Duration = Duration::from_secs(2);
/// On a slow network that time must be this many times as long as the slower of the two responses
/// took.
const PATIENCE: u32 = 4;
/// A broker that does not return its versions within this time is worth a probe.
const BRIEFLY: Duration = Duration::from_secs(2);

/// The last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Versions,
    Offsets,
    Groups,
    /// Sent after the responses to other requests.
    VersionsAtLast,
}

/// One broker's negotiation.
#[derive(Debug)]
pub(super) struct Negotiation {
    approach: Approach,
    step: Step,
    /// How long ApiVersions may take.
    within: Duration,
    /// The longest time that a response took so far.
    slowest: Duration,
}

/// What follows after a response.
#[derive(Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one at a time for a connection")]
pub(super) enum Negotiated {
    /// Send this, at this version.
    Ask(Request, i16),
    /// These are the broker's versions.
    Done(Versions),
}

impl Negotiation {
    /// A negotiation in which ApiVersions may take `within`.
    pub(super) fn new(approach: Approach, within: Duration) -> Negotiation {
        let within = match approach {
            Approach::AskBriefly => within.min(BRIEFLY),
            _ => within,
        };
        let step = match approach {
            Approach::Ask | Approach::AskBriefly => Step::Versions,
            Approach::Probe | Approach::Assume(_) => Step::Offsets,
        };
        Negotiation {
            approach,
            step,
            within,
            slowest: Duration::ZERO,
        }
    }

    /// The first request, and its version.
    pub(super) fn begin(&self) -> (Request, i16) {
        match self.approach {
            Approach::Ask | Approach::AskBriefly => (versions(), API_VERSIONS_MAX),
            Approach::Probe | Approach::Assume(_) => (offsets(), 0),
        }
    }

    /// Whether the first request is for versions.
    pub(super) fn asks_for_versions(&self) -> bool {
        self.step == Step::Versions
    }

    /// How long the response to the last request may take, if not as long as the whole set-up.
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.step {
            Step::Versions => Some(self.within),
            Step::VersionsAtLast => Some(self.within.min(PROOF)),
            Step::Offsets | Step::Groups => None,
        }
    }

    /// Handles the response to the last request, which was sent at version `asked` and took `took`;
    /// also returns how many bytes follow it in its frame.
    ///
    /// # Errors
    /// The response does not decode, or refuses.
    pub(super) fn take(
        &mut self,
        api: ApiKey,
        asked: i16,
        frame: Bytes,
        took: Duration,
    ) -> Result<(Negotiated, usize), Error> {
        self.slowest = self.slowest.max(took);
        match self.step {
            Step::Versions | Step::VersionsAtLast => take_versions(asked, frame),
            Step::Offsets | Step::Groups => {
                let left = self.check(api, asked, frame)?;
                Ok((self.go_on(), left))
            }
        }
    }

    fn go_on(&mut self) -> Negotiated {
        if let Approach::Assume(era) = self.approach {
            return Negotiated::Done(Versions::of(era));
        }
        if self.step == Step::Offsets {
            self.step = Step::Groups;
            return Negotiated::Ask(Request::ListGroups(ListGroupsRequest::default()), 0);
        }
        self.step = Step::VersionsAtLast;
        Negotiated::Ask(versions(), 0)
    }

    /// The content of the response does not matter if it decodes.
    fn check(&self, api: ApiKey, asked: i16, frame: Bytes) -> Result<usize, Error> {
        match Response::decode(api, asked, frame) {
            Some(Ok((_, left))) => Ok(left),
            _ => {
                let text = format!("the response to {} does not decode", api.name());
                Err(Error::new(Kind::NotKafka, text).telling(self.refuted()))
            }
        }
    }

    /// The error if the peer closed the connection now, between two responses.
    pub(super) fn closed(&self) -> Error {
        let (text, evidence) = match (self.approach, self.step) {
            (Approach::Ask | Approach::AskBriefly, _) => (
                "the connection was closed when it asked for the broker's versions: the port wants TLS \
                 (security.protocol=SSL), the broker is older than 0.10, or it is not a Kafka broker",
                Some(Evidence::Suspect),
            ),
            (Approach::Probe, Step::Groups) => (
                "the broker closed the connection on ListGroups, as brokers of Kafka 0.8 do",
                Some(Evidence::Proven(Era::V0_8)),
            ),
            (Approach::Probe, Step::Versions | Step::VersionsAtLast) => (
                "the broker closed the connection on ApiVersions, after it had responded to other requests",
                None,
            ),
            (Approach::Probe, Step::Offsets) => (
                "the connection was closed when it asked for the broker's versions, and another when it asked for offsets as \
                 clients of Kafka 0.8 do: the port wants TLS (security.protocol=SSL), or it is not a Kafka broker",
                None,
            ),
            (Approach::Assume(_), _) => (
                "the connection was closed when it asked for offsets as clients of Kafka 0.8 and 0.9 do: the broker is \
                 newer, the port wants TLS (security.protocol=SSL), or it is not a Kafka broker",
                self.refuted(),
            ),
        };
        Error::new(Kind::Unreachable, text).telling(evidence)
    }

    /// The error if the last request got no response in time. `api` is the API of the request,
    /// `had` its time, `setup` the time for the whole set-up.
    pub(super) fn silent(&self, api: ApiKey, had: Duration, setup: Duration) -> Error {
        let (text, evidence) = match (self.approach, self.step) {
            (Approach::Ask | Approach::AskBriefly, _) => (
                format!(
                    "connected, but no response to ApiVersions within {} ms (api.version.request.timeout.ms and \
                     socket.connection.setup.timeout.ms): not a Kafka broker, one older than 0.10, or one that is \
                     overloaded",
                    self.within.min(setup).as_millis()
                ),
                Some(Evidence::Suspect),
            ),
            (Approach::Probe, _) if self.step == Step::VersionsAtLast && had < self.slowest * PATIENCE => (
                format!(
                    "the broker responds slowly, and not to ApiVersions within the {} ms that were left of \
                     socket.connection.setup.timeout.ms",
                    had.as_millis()
                ),
                None,
            ),
            (Approach::Probe, Step::Versions | Step::VersionsAtLast) => (
                "the broker responds to other requests but not to ApiVersions, as brokers of Kafka 0.9 do".to_owned(),
                Some(Evidence::Proven(Era::V0_9)),
            ),
            (Approach::Probe | Approach::Assume(_), _) => (
                format!(
                    "connected, but no response to {} within {} ms (socket.connection.setup.timeout.ms), nor to ApiVersions \
                     before: not a Kafka broker, or one that is overloaded",
                    api.name(),
                    setup.as_millis()
                ),
                None,
            ),
        };
        Error::new(Kind::Unreachable, text).telling(evidence)
    }

    fn refuted(&self) -> Option<Evidence> {
        matches!(self.approach, Approach::Assume(_)).then_some(Evidence::Refuted)
    }
}

/// The first version that names the intended receiver of the connection (KIP-1242).
pub(super) const EXPECTING: i16 = 5;

/// The request that also names the cluster and the broker that it is meant for.
pub(super) fn question_to(cluster_id: &str, node_id: i32) -> Request {
    match versions() {
        Request::ApiVersions(request) => Request::ApiVersions(ApiVersionsRequest {
            cluster_id: Some(cluster_id.into()),
            node_id,
            ..request
        }),
        other => other,
    }
}

/// The request for versions, which also names the client's software.
fn versions() -> Request {
    Request::ApiVersions(ApiVersionsRequest {
        client_software_name: "ottla".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    })
}

/// A request to which every broker before 4.0 responds, with an empty result.
fn offsets() -> Request {
    Request::ListOffsets(ListOffsetsRequest {
        replica_id: -1,
        ..Default::default()
    })
}

fn take_versions(asked: i16, frame: Bytes) -> Result<(Negotiated, usize), Error> {
    let refused = frame.get(4..6) == Some(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes()[..]);
    let version = if refused { 0 } else { asked };
    let (_, answer, left) = header::decode_response_prefix::<ApiVersionsResponse>(version, frame)
        .map_err(|cause| {
        Error::new(
            Kind::NotKafka,
            format!("the response to ApiVersions does not decode: {cause}"),
        )
    })?;
    if refused && asked > 0 {
        let mut rows = answer.api_keys.iter();
        let row = rows.find(|row| row.api_key == ApiKey::ApiVersions.as_i16());
        let lower = row.map_or(0, |row| row.max_version).clamp(0, asked - 1);
        return Ok((Negotiated::Ask(versions(), lower), left));
    }
    let code = ErrorCode(answer.error_code);
    if code == ErrorCode::REBOOTSTRAP_REQUIRED {
        let text = "the broker there is not the one that the client knew, or is of another cluster";
        let error = Error::from_code(code, Some(text)).with_retriable(true);
        return Err(error.calling(ApiKey::ApiVersions.name()));
    }
    if code.is_error() {
        return Err(Error::from_code(code, None).calling(ApiKey::ApiVersions.name()));
    }
    Ok((Negotiated::Done(Versions::new(&answer)), left))
}
