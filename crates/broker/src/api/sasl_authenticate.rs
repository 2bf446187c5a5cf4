//! SaslAuthenticate, versions 0 to 2: one token of the mechanism. Since version 1 the last response
//! has the lifetime of the session (KIP-368).

use ottla_protocol::Versions;
use ottla_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use super::{Api, Cx, Outcome};

impl Api for SaslAuthenticateRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<SaslAuthenticateResponse> {
        let mut session = cx.client.session.lock();
        let reply = cx.core.authenticate(&mut session, &self.auth_bytes, cx.now);
        Outcome::Answer(match reply {
            Ok(reply) => SaslAuthenticateResponse {
                auth_bytes: reply.token.into(),
                session_lifetime_ms: reply.lifetime_ms,
                ..Default::default()
            },
            Err((code, why)) => SaslAuthenticateResponse {
                error_code: code.0,
                error_message: Some(why.into()),
                ..Default::default()
            },
        })
    }
}
