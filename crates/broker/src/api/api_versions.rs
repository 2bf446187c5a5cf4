//! ApiVersions, versions 0 to 4.
//!
//! The response to a newer version is UNSUPPORTED_VERSION in a body of version 0 (KIP-511).

use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ErrorCode, Frame, Versions, header};

use super::{ADVERTISED, Api, Cx, Outcome};

impl Api for ApiVersionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ApiVersionsResponse> {
        // From version 3 a client says what it is, under the same rule as in Kafka (KIP-511).
        if cx.version >= 3
            && !(is_software(&self.client_software_name)
                && is_software(&self.client_software_version))
        {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        Outcome::Answer(ApiVersionsResponse {
            api_keys: keys(),
            ..Default::default()
        })
    }

    fn answer_unknown_version(_version: i16, correlation_id: i32) -> Outcome<Frame> {
        let answer = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            api_keys: keys(),
            ..Default::default()
        };
        match header::encode_response(&answer, 0, correlation_id) {
            Ok(frame) => Outcome::Answer(frame),
            Err(error) => Outcome::Close(error.to_string()),
        }
    }
}

fn keys() -> Vec<ApiVersion> {
    let key = |(api, versions): &(ottla_protocol::ApiKey, Versions)| ApiVersion {
        api_key: api.as_i16(),
        min_version: versions.min,
        max_version: versions.max,
        ..Default::default()
    };
    ADVERTISED.iter().map(key).collect()
}

/// Letters and digits with dots and dashes between them.
fn is_software(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    is_end(text.bytes().next()) && is_end(text.bytes().next_back()) && text.bytes().all(is_legal)
}
