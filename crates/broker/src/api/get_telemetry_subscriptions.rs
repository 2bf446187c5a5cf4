//! GetTelemetrySubscriptions, version 0: what `telemetry.metrics` requests of every client
//! (KIP-714).

use ottla_protocol::compression::Compression;
use ottla_protocol::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};
use ottla_protocol::{ErrorCode, Uuid, Versions};

use super::{Api, Cx, Outcome};

impl Api for GetTelemetrySubscriptionsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<GetTelemetrySubscriptionsResponse> {
        let wanted = &cx.core.settings.telemetry;
        if !wanted.is_on() {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        let id = match self.client_instance_id {
            Uuid::ZERO => cx.core.new_uuid(),
            given => given,
        };
        cx.core.pushes.lock().welcome(cx.now.instant, id);
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
