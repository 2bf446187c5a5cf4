//! PushTelemetry, version 0: keeps what a client pushes, for [`crate::Broker::telemetry`] (KIP-714).

use ottla_protocol::messages::{PushTelemetryRequest, PushTelemetryResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::get_telemetry_subscriptions::attributes;
use super::{Api, Cx, Outcome};

impl Api for PushTelemetryRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<PushTelemetryResponse> {
        let Some(wanted) = cx.core.wanted(&attributes(cx, self.client_instance_id)) else {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        };
        let mut pushes = cx.core.pushes.lock();
        let taken = pushes.take(cx.now.instant, &wanted, cx.client_id.clone(), &self);
        Outcome::Answer(match taken {
            Ok(()) => PushTelemetryResponse::default(),
            Err(code) => self.refuse(cx.version, code),
        })
    }
}
