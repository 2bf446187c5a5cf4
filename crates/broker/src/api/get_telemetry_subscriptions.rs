//! GetTelemetrySubscriptions, version 0: what `telemetry.metrics` requests of every client, and the subscriptions that match it
//! (KIP-714).

use ottla_protocol::compression::Compression;
use ottla_protocol::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};
use ottla_protocol::{ErrorCode, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::telemetry::{
    Attributes, CLIENT_ID, CLIENT_INSTANCE_ID, CLIENT_SOFTWARE_NAME, CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS, CLIENT_SOURCE_PORT,
};

impl Api for GetTelemetrySubscriptionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<GetTelemetrySubscriptionsResponse> {
        let id = match self.client_instance_id {
            Uuid::ZERO => cx.core.new_uuid(),
            given => given,
        };
        let Some(wanted) = cx.core.wanted(&attributes(cx, id)) else {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        };
        cx.core.pushes.lock().welcome(cx.now.instant, id, &wanted);
        let codecs = Compression::ALL.iter().rev();
        Outcome::Answer(GetTelemetrySubscriptionsResponse {
            client_instance_id: id,
            subscription_id: wanted.id(),
            accepted_compression_types: codecs
                .filter(|codec| **codec != Compression::None)
                .filter_map(|codec| i8::try_from(codec.id()).ok())
                .collect(),
            push_interval_ms: i32::try_from(wanted.interval.as_millis()).unwrap_or(i32::MAX),
            telemetry_max_bytes: i32::try_from(wanted.max_bytes).unwrap_or(i32::MAX),
            delta_temporality: wanted.delta,
            requested_metrics: wanted
                .prefixes
                .iter()
                .map(|prefix| prefix.as_str().into())
                .collect(),
            ..Default::default()
        })
    }
}

/// What subscriptions match of a client.
pub(super) fn attributes(cx: &Cx<'_>, instance: Uuid) -> Attributes {
    let software = cx.client.software.lock();
    Attributes::from([
        (CLIENT_INSTANCE_ID, instance.to_string()),
        (CLIENT_ID, cx.client_id.as_deref().unwrap_or("").to_owned()),
        (CLIENT_SOFTWARE_NAME, software.name.to_string()),
        (CLIENT_SOFTWARE_VERSION, software.version.to_string()),
        (CLIENT_SOURCE_ADDRESS, cx.client.host.to_string()),
        (CLIENT_SOURCE_PORT, cx.client.port.to_string()),
    ])
}
