//! The broker's side of an authentication, sound or false: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, and again before the session
//! ends (KIP-368).

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ottla_protocol::ErrorCode;
use ottla_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use ring::{hmac, pbkdf2};

use crate::answers::Chance;

pub(crate) const USER: &str = "user";
pub(crate) const PASSWORD: &str = "pencil";
/// What clients of different seeds authenticate with; the first with nothing.
pub(crate) static MECHANISMS: [&str; 4] = ["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// Names that a broker may send, and that mean nothing.
static NAMES: [&[&str]; 3] = [&["PLAIN"], &[], &["", "GSSAPI", "PLAIN\r\n\x1b[2J"]];

const SALT: &[u8] = b"a salt of the test";
/// As few as clients take.
const ROUNDS: u32 = 4096;

/// One authentication of a connection.
#[derive(Default)]
pub(crate) struct Login {
    mechanism: String,
    /// What both have said, until the client has proved itself.
    said: Option<String>,
}

impl Login {
    pub(crate) fn handshake(
        &mut self,
        chance: &mut Chance,
        request: &SaslHandshakeRequest,
        falsified: bool,
    ) -> SaslHandshakeResponse {
        self.mechanism = request.mechanism.to_string();
        self.said = None;
        let names = if falsified {
            chance.of(&NAMES)
        } else {
            &MECHANISMS[1..]
        };
        SaslHandshakeResponse {
            error_code: if falsified { chance.code() } else { 0 },
            mechanisms: names.iter().map(|name| (*name).into()).collect(),
        }
    }

    pub(crate) fn answer(
        &mut self,
        chance: &mut Chance,
        request: &SaslAuthenticateRequest,
        falsified: bool,
    ) -> SaslAuthenticateResponse {
        let said = String::from_utf8_lossy(&request.auth_bytes).into_owned();
        let sound = match (self.mechanism == "PLAIN", self.said.take()) {
            (true, _) => (said == format!("\0{USER}\0{PASSWORD}")).then(String::new),
            (_, None) => self.challenge(&said),
            (_, Some(before)) => self.prove(&before, &said),
        };
        let mut answer = SaslAuthenticateResponse {
            // Some sessions end soon, so that the client comes again in the middle of its requests.
            session_lifetime_ms: chance.of(&[0, 0, 0, 250]),
            ..Default::default()
        };
        match sound {
            Some(bytes) => answer.auth_bytes = bytes.into_bytes().into(),
            None => answer.error_code = ErrorCode::SASL_AUTHENTICATION_FAILED.0,
        }
        if falsified {
            falsify(chance, &mut answer);
        }
        answer
    }

    /// The server's first message of SCRAM (RFC 5802).
    fn challenge(&mut self, first: &str) -> Option<String> {
        let bare = first.strip_prefix("n,,")?;
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
        let challenge = format!("r={nonce}more,s={},i={ROUNDS}", STANDARD.encode(SALT));
        self.said = Some(format!("{bare},{challenge}"));
        Some(challenge)
    }

    /// Its last one. The client's proof is another test's concern.
    fn prove(&self, before: &str, last: &str) -> Option<String> {
        let (without_proof, _) = last.rsplit_once(",p=")?;
        let (derivation, code) = match self.mechanism.as_str() {
            "SCRAM-SHA-256" => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256),
            _ => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512),
        };
        let mut salted = vec![0; code.digest_algorithm().output_len()];
        let rounds = NonZeroU32::new(ROUNDS)?;
        pbkdf2::derive(derivation, rounds, SALT, PASSWORD.as_bytes(), &mut salted);
        let server = hmac::sign(&hmac::Key::new(code, &salted), b"Server Key");
        let key = hmac::Key::new(code, server.as_ref());
        let signature = hmac::sign(&key, format!("{before},{without_proof}").as_bytes());
        Some(format!("v={}", STANDARD.encode(signature)))
    }
}

fn falsify(chance: &mut Chance, answer: &mut SaslAuthenticateResponse) {
    let text = String::from_utf8_lossy(&answer.auth_bytes).into_owned();
    let with = |from: &str, to: &str| text.replacen(from, to, 1).into_bytes();
    let said = match chance.below(12) {
        0 => with("r=", "r=x"),
        1 => with("more", ""),
        2 => with(",i=4096", ",i=2147483647"),
        3 => with(",i=4096", ",i=0"),
        4 => with(",i=4096", ",i=-1"),
        5 => with(",s=", ",s=*"),
        6 => with("v=", "v=AAAA"),
        7 => b"e=other-error".to_vec(),
        8 => b"m=what,r=is,s=this".to_vec(),
        9 => vec![b','; 70_000],
        10 => (0..=chance.below(64))
            .map(|_| chance.below(256) as u8)
            .collect(),
        _ => Vec::new(),
    };
    answer.auth_bytes = said.into();
    answer.error_code = chance.code();
    answer.error_message = chance
        .of(&[None, Some(""), Some("no \x1b[2J such user")])
        .map(Into::into);
    answer.session_lifetime_ms = chance.of(&[0, -1, 1, i64::MIN, i64::MAX]);
}
