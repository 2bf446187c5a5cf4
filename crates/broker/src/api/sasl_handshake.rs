//! SaslHandshake, versions 0 and 1: the client names a mechanism. After version 0 tokens come without headers (KIP-43), after
//! version 1 in SaslAuthenticate (KIP-152). On an open connection it begins re-authentication (KIP-368).

use ottla_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};

impl Api for SaslHandshakeRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<SaslHandshakeResponse> {
        let mut session = cx.client.session.lock();
        let code = session.handshake(&self.mechanism, cx.version, cx.now);
        let mechanisms = if code == ErrorCode::ILLEGAL_SASL_STATE {
            Vec::new()
        } else {
            let names = session.mechanism_names().into_iter();
            names.map(Str::from_static).collect()
        };
        Outcome::Answer(SaslHandshakeResponse {
            error_code: code.0,
            mechanisms,
        })
    }
}
