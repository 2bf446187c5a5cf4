//! PushTelemetry, version 0: keeps what a client pushes, for [`crate::Broker::telemetry`] (KIP-714).

use ottla_protocol::messages::{PushTelemetryRequest, PushTelemetryResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};

impl Api for PushTelemetryRequest {
    const HANDLED: Versions = Versions { min: 0, max: 0 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<PushTelemetryResponse> {
        let wanted = &cx.core.settings.telemetry;
        if !wanted.is_on() {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        let mut pushes = cx.core.pushes.lock();
        let taken = pushes.take(cx.now.instant, wanted, cx.client_id.clone(), &self);
        Outcome::Answer(match taken {
            Ok(()) => PushTelemetryResponse::default(),
            Err(code) => self.refuse(cx.version, code),
        })
    }
}
