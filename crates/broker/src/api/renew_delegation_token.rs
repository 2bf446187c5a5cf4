//! RenewDelegationToken, versions 0 to 2 (KIP-48): a token lives longer.

use ottla_protocol::messages::{RenewDelegationTokenRequest, RenewDelegationTokenResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};

impl Api for RenewDelegationTokenRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<RenewDelegationTokenResponse> {
        let tokens = &cx.core.security.verifiers.tokens;
        let user = &*cx.who.principal.0;
        let done = if cx.client.session.lock().may_delegate() {
            tokens.renew(
                &self.hmac,
                user,
                self.renew_period_ms,
                cx.core.wall.at(cx.now),
            )
        } else {
            Err(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        };
        Outcome::Answer(match done {
            Ok(expiry_timestamp_ms) => RenewDelegationTokenResponse {
                expiry_timestamp_ms,
                ..Default::default()
            },
            Err(code) => self.refuse(cx.version, code),
        })
    }
}
