//! The requests a client sends and their answers, with the versions it can speak.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::header;
use ottla_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeProducersRequest, DescribeProducersResponse,
    FetchRequest, FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, DecodeError, EncodeError, Frame};
use rustc_hash::FxHashMap;

use crate::error::{Error, Kind};

/// Declares both enums from one list: API, lowest and highest version whose meaning this crate knows, and, if answers
/// can carry a throttle time, the version from which the client itself keeps that pause (KIP-219; before it, the broker
/// did).
macro_rules! apis {
    ($($api:ident: $request:ident => $response:ident, $min:literal..=$max:literal $(, throttles from $throttle:literal)?;)*) => {
        /// A request of any API.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "named by API")]
        pub enum Request {
            $($api($request),)*
        }

        /// An answer of any API.
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

            /// The pause that the broker asks the client to keep, if it does.
            pub(crate) fn throttle(&self, version: i16) -> Option<Duration> {
                let (millis, from) = match self {
                    $(Response::$api(_body) => apis!(@throttle _body $($throttle)?),)*
                };
                let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
                (version >= from).then_some(Duration::from_millis(millis))
            }

            /// Decodes the answer to a request of `api` at `version`; `None` for an API that no request here has.
            /// With it comes how many bytes follow it in its frame.
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

        /// Each API with the highest version that this crate can speak.
        #[cfg(test)]
        pub(crate) const HIGHEST: &[(ApiKey, i16)] = &[$((ApiKey::$api, $max),)*];

        /// The versions of `api` that this crate can speak.
        fn spoken(api: ApiKey) -> Option<(i16, i16)> {
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
    // Batches of magic 2 begin with Produce 3 and Fetch 4.
    Produce: ProduceRequest => ProduceResponse, 3..=13, throttles from 6;
    Fetch: FetchRequest => FetchResponse, 4..=17, throttles from 8;
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse, 1..=10, throttles from 3;
    Metadata: MetadataRequest => MetadataResponse, 1..=13, throttles from 6;
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse, 0..=4, throttles from 2;
    CreateTopics: CreateTopicsRequest => CreateTopicsResponse, 2..=7, throttles from 3;
    DeleteTopics: DeleteTopicsRequest => DeleteTopicsResponse, 1..=6, throttles from 2;
    DescribeProducers: DescribeProducersRequest => DescribeProducersResponse, 0..=0, throttles from 0;
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse, 0..=6, throttles from 2;
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse, 0..=5, throttles from 1;
    // SaslHandshake 1 puts the mechanism's bytes into SaslAuthenticate (KIP-152).
    SaslHandshake: SaslHandshakeRequest => SaslHandshakeResponse, 1..=1;
    SaslAuthenticate: SaslAuthenticateRequest => SaslAuthenticateResponse, 0..=2;
}

impl Request {
    /// Moves fields to where `version` has them, as far as it has them.
    pub(crate) fn fit(&mut self, version: i16) {
        match self {
            // Older brokers create topics as their own configuration says.
            Request::Metadata(body) if version < 4 => body.allow_auto_topic_creation = true,
            Request::FindCoordinator(body) if version < 4 => {
                body.key = body.coordinator_keys.drain(..).next().unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// The versions of each API that one broker said it speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions(FxHashMap<i16, (i16, i16)>);

impl Versions {
    pub(crate) fn new(answer: &ApiVersionsResponse) -> Versions {
        Versions(
            answer
                .api_keys
                .iter()
                .map(|row| (row.api_key, (row.min_version, row.max_version)))
                .collect(),
        )
    }

    /// The highest version of `api`, at most `cap`, that both sides speak.
    ///
    /// # Errors
    /// `Kind::Unsupported`, with both sides' versions.
    pub fn choose(&self, api: ApiKey, cap: i16) -> Result<i16, Error> {
        let unsupported =
            |reason: String| Error::new(Kind::Unsupported, reason).calling(api.name());
        let (our_min, our_max) = spoken(api).unwrap_or((0, -1));
        let our_max = our_max.min(cap);
        let Some(&(min, max)) = self.0.get(&api.as_i16()) else {
            return Err(unsupported(format!(
                "the broker does not know {}: it is too old for this call",
                api.name()
            )));
        };
        let best = max.min(our_max);
        if best < min.max(our_min) {
            let age = if max < our_min { "older" } else { "newer" };
            return Err(unsupported(format!(
                "the broker is {age} than this client can use: it speaks versions {min} to {max} of {}, needed is {our_min} \
                 to {our_max}",
                api.name()
            )));
        }
        Ok(best)
    }
}

/// The highest version of ApiVersions to begin with.
pub(crate) const API_VERSIONS_MAX: i16 = 4;

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::api_versions_response::ApiVersion;

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
        let broker = versions(&[
            (ApiKey::Produce, 0, 9),
            (ApiKey::Fetch, 0, 3),
            (ApiKey::Metadata, 99, 100),
        ]);
        assert_eq!(broker.choose(ApiKey::Produce, i16::MAX), Ok(9));
        assert_eq!(broker.choose(ApiKey::Produce, 5), Ok(5));
        let old = broker.choose(ApiKey::Fetch, i16::MAX).unwrap_err();
        assert!(
            old.message().contains("older") && old.message().contains("0 to 3"),
            "{old}"
        );
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
}
