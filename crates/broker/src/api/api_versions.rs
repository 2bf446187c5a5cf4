//! ApiVersions, versions 0 to 4.
//!
//! The response to a newer version is UNSUPPORTED_VERSION in a body of version 0 (KIP-511).

use ottla_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use ottla_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ApiKey, ErrorCode, Str, Versions};

use super::{Answered, Api, Cx, HANDLED, Outcome, Software, told};
use crate::core::Core;
use crate::release::Release;

/// From here on features may begin at 0.
const FIRST_WITH_ZERO: i16 = 4;

impl Api for ApiVersionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ApiVersionsResponse> {
        // Since version 3 a client sends its name and version, under the same rule as in Kafka
        // (KIP-511).
        if cx.version >= 3
            && !(is_software(&self.client_software_name)
                && is_software(&self.client_software_version))
        {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        cx.client.session.lock().versions_told();
        if cx.version >= 3 {
            *cx.client.software.lock() = Software {
                name: self.client_software_name,
                version: self.client_software_version,
            };
        }
        Outcome::Answer(ApiVersionsResponse {
            api_keys: keys(cx.core, cx.core.asks_for_metrics()),
            ..features(cx.core.release(), cx.version)
        })
    }

    fn answer_unknown_version(cx: &Cx<'_>, correlation_id: i32) -> Outcome<Answered> {
        let answer = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            // A client sends the request again, and then gets all.
            api_keys: keys(cx.core, false),
            ..Default::default()
        };
        Outcome::Answer(Answered::new(answer, None, 0, correlation_id))
    }
}

/// The features of the cluster that clients look at (KIP-584): which groups (KIP-848, KIP-932) and transactions
/// (KIP-890) it has.
fn features(release: Release, version: i16) -> ApiVersionsResponse {
    let levels = levels(release);
    if levels.is_empty() {
        return ApiVersionsResponse::default();
    }
    let supported = levels.iter().map(|(name, level)| SupportedFeatureKey {
        name: Str::from_static(name),
        min_version: 0,
        max_version: *level,
        ..Default::default()
    });
    let finalized = levels.iter().map(|(name, level)| FinalizedFeatureKey {
        name: Str::from_static(name),
        min_version_level: *level,
        max_version_level: *level,
        ..Default::default()
    });
    ApiVersionsResponse {
        // Clients of the version before cannot read features that begin at 0 (KIP-1022).
        supported_features: match version {
            FIRST_WITH_ZERO.. => supported.collect(),
            _ => Vec::new(),
        },
        finalized_features_epoch: 0,
        finalized_features: finalized.collect(),
        ..Default::default()
    }
}

/// The features with their levels.
pub(super) fn levels(release: Release) -> Vec<(&'static str, i16)> {
    let levels = [
        ("group.version", release.group_version()),
        ("share.version", release.share_version()),
        ("transaction.version", release.transaction_version()),
    ];
    let levels = levels.into_iter();
    levels
        .filter_map(|(name, level)| Some((name, level?)))
        .collect()
}

/// The APIs of telemetry are named only where it is wanted, as in Kafka.
fn keys(core: &Core, telemetry: bool) -> Vec<ApiVersion> {
    let is_named = |api: ApiKey| {
        telemetry
            || !matches!(
                api,
                ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
            )
    };
    let named = HANDLED.iter().filter(|(api, _)| is_named(*api));
    let told = named.filter_map(|(api, handled)| Some((api, told(core, *api, *handled)?)));
    told.map(|(api, versions)| ApiVersion {
        api_key: api.as_i16(),
        min_version: versions.min,
        max_version: versions.max,
        ..Default::default()
    })
    .collect()
}

/// Letters and digits with dots and dashes between them.
fn is_software(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    is_end(text.bytes().next()) && is_end(text.bytes().next_back()) && text.bytes().all(is_legal)
}
