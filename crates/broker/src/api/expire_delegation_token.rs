//! ExpireDelegationToken, versions 0 to 2 (KIP-48): a token ends sooner, or at once.

use ottla_protocol::messages::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};

impl Api for ExpireDelegationTokenRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ExpireDelegationTokenResponse> {
        let tokens = &cx.core.security.verifiers.tokens;
        let user = &*cx.who.principal.0;
        let done = if cx.client.session.lock().may_delegate() {
            tokens.expire(
                &self.hmac,
                user,
                self.expiry_time_period_ms,
                cx.core.wall.at(cx.now),
            )
        } else {
            Err(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        };
        Outcome::Answer(match done {
            Ok(expiry_timestamp_ms) => ExpireDelegationTokenResponse {
                expiry_timestamp_ms,
                ..Default::default()
            },
            Err(code) => self.refuse(cx.version, code),
        })
    }
}
