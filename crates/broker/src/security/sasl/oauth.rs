//! OAUTHBEARER (RFC 7628): `n,[a=NAME],^Aauth=Bearer TOKEN^A[KEY=VALUE^A...]^A`, where ^A is the byte 1.
//!
//! A token that is not accepted gets JSON as a challenge. The client confirms that with one byte 1,
//! and then the exchange has failed.
//!
//! With AWS keys it also takes the tokens of Amazon's signer libraries: a presigned URL in base64url.

use serde_json::{Map, Value, json};

use super::iam;
use super::jws::Keys;
use super::step::{Authenticated, Step};
use crate::security::secret::Secret;
use crate::security::settings::TokenKeys;

const SEPARATOR: char = '\u{1}';

/// What a token must say, by the broker's settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) issuer: Option<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) principal_claim: String,
    pub(crate) clock_skew_ms: i64,
}

/// Decides about tokens.
#[derive(Debug)]
pub(crate) struct Verifier {
    keys: Keys,
    rules: Rules,
}

impl Verifier {
    pub(super) fn new(given: &TokenKeys, rules: Rules) -> Result<Self, String> {
        let mut keys = Keys::default();
        if let Some(jwks) = &given.jwks {
            keys.add_jwks(jwks)?;
        }
        if let Some(shared) = &given.shared {
            keys.add_shared(shared.clone());
        }
        Ok(Self { keys, rules })
    }

    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    fn verify(&self, token: &str, now_ms: i64) -> Result<Authenticated, String> {
        let claims = self.keys.claims(token)?;
        let rules = &self.rules;
        let expires_ms = time(&claims, "exp")?.ok_or("it does not say when it expires (exp)")?;
        if now_ms.saturating_sub(rules.clock_skew_ms) >= expires_ms {
            return Err("it has expired".to_owned());
        }
        let issued_ms = time(&claims, "iat")?;
        if issued_ms.is_some_and(|issued| issued > expires_ms) {
            return Err("it expires (exp) before it was issued (iat)".to_owned());
        }
        if time(&claims, "nbf")?
            .is_some_and(|from| now_ms.saturating_add(rules.clock_skew_ms) < from)
        {
            return Err("it is not valid yet (nbf)".to_owned());
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if let Some(issuer) = rules
            .issuer
            .as_deref()
            .filter(|ours| text("iss") != Some(ours))
        {
            return Err(format!("its issuer (iss) is not \"{issuer}\""));
        }
        if !rules.audiences.is_empty() {
            let is_ours = |value: &Value| {
                let value = value.as_str();
                value.is_some_and(|value| rules.audiences.iter().any(|ours| ours == value))
            };
            let is_for_us = match claims.get("aud") {
                Some(Value::Array(all)) => all.iter().any(is_ours),
                Some(one) => is_ours(one),
                None => false,
            };
            if !is_for_us {
                return Err(format!(
                    "its audience (aud) is not \"{}\"",
                    rules.audiences.join("\", \"")
                ));
            }
        }
        let claim = &rules.principal_claim;
        match text(claim) {
            Some(name) if !name.is_empty() => Ok(Authenticated {
                name: name.to_owned(),
                expires_ms: Some(expires_ms),
                by_token: false,
            }),
            _ => Err(format!("it names no principal ({claim})")),
        }
    }
}

/// A time of a claim, which is in seconds, in ms.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            // Out of range for any calendar, and exact enough below that.
            #[allow(clippy::cast_possible_truncation)]
            Some(seconds) if (0.0..1e12).contains(&seconds) => Ok(Some((seconds * 1000.0) as i64)),
            _ => Err(format!("its {name} is not a time in seconds since 1970")),
        },
    }
}

/// The server's side of one exchange.
#[derive(Debug, Default)]
pub(crate) struct Server {
    refused: Option<String>,
}

impl Server {
    pub(super) fn step(
        &mut self,
        message: &[u8],
        verifier: &Verifier,
        aws_keys: &[(String, Secret)],
        now_ms: i64,
    ) -> Step {
        if let Some(why) = self.refused.take() {
            return Step::Failed(why);
        }
        let Some(asked) = ClientFirst::parse(message) else {
            return Step::Failed(
                "Authentication failed: the client's message is not OAUTHBEARER's".to_owned(),
            );
        };
        let verified = match iam::presigned(asked.token) {
            Some(url) if !aws_keys.is_empty() => iam::verify_url(&url, aws_keys, now_ms),
            _ => verifier.verify(asked.token, now_ms),
        };
        let verified = verified.and_then(|who| match asked.acts_as {
            Some(name) if name != who.name => Err(format!(
                "Client requested an authorization id ({name}) that is different from the token's principal name ({})",
                who.name
            )),
            _ => Ok(who),
        });
        match verified {
            Ok(who) => Step::Done(Vec::new(), who),
            Err(why) => {
                self.refused = Some(format!(
                    "Authentication failed: the token is not taken: {why}"
                ));
                Step::Continue(json!({"status": "invalid_token"}).to_string().into_bytes())
            }
        }
    }
}

struct ClientFirst<'a> {
    acts_as: Option<&'a str>,
    token: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (header, pairs) = text.split_once(SEPARATOR)?;
        let acts_as = header.strip_prefix("n,")?.strip_suffix(',')?;
        let acts_as = if acts_as.is_empty() {
            None
        } else {
            Some(acts_as.strip_prefix("a=")?)
        };
        let pairs = pairs.strip_suffix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
        let mut token = None;
        for pair in pairs.split(SEPARATOR) {
            let (key, value) = pair.split_once('=')?;
            let is_value = |byte: u8| matches!(byte, 0x21..=0x7E | b' ' | b'\t' | b'\r' | b'\n');
            if key.is_empty()
                || !key.bytes().all(|byte| byte.is_ascii_alphabetic())
                || !value.bytes().all(is_value)
            {
                return None;
            }
            if key == "auth" {
                let (scheme, value) = value.split_once(' ')?;
                if !scheme.eq_ignore_ascii_case("bearer") || token.replace(value).is_some() {
                    return None;
                }
            }
        }
        Some(Self {
            acts_as,
            token: token?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    const NOW: i64 = 1_700_000_000_000;

    fn rules() -> Rules {
        Rules {
            principal_claim: "sub".to_owned(),
            ..Rules::default()
        }
    }

    fn token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({"alg": "none"})), part(claims))
    }

    fn verify(rules: Rules, claims: &Value) -> Result<Authenticated, String> {
        Verifier::new(&TokenKeys::default(), rules)?.verify(&token(claims), NOW)
    }

    #[test]
    fn claims_are_checked_by_the_rules() {
        let later = NOW / 1000 + 60;
        let alice = verify(rules(), &json!({"sub": "alice", "exp": later})).unwrap();
        assert_eq!(
            (alice.name.as_str(), alice.expires_ms),
            ("alice", Some(later * 1000))
        );
        let strict = || Rules {
            issuer: Some("us".to_owned()),
            audiences: vec!["kafka".to_owned()],
            clock_skew_ms: 1000,
            ..rules()
        };
        let good = json!({"sub": "a", "exp": later, "iss": "us", "aud": ["x", "kafka"], "nbf": NOW / 1000 + 1});
        assert!(verify(strict(), &good).is_ok());
        for (change, reason) in [
            (json!({"exp": null}), "exp"),
            (json!({"exp": NOW / 1000 - 2}), "expired"),
            (json!({"iat": later + 1}), "before it was issued"),
            (json!({"nbf": NOW / 1000 + 2}), "not valid yet"),
            (json!({"iss": "them"}), "iss"),
            (json!({"aud": "spark"}), "aud"),
            (json!({"sub": ""}), "sub"),
            (json!({"exp": 1e300}), "exp"),
            (json!({"exp": "soon"}), "exp"),
        ] {
            let mut claims = good.clone();
            for (name, value) in change.as_object().unwrap() {
                claims[name] = value.clone();
            }
            let why = verify(strict(), &claims).unwrap_err();
            assert!(why.contains(reason), "{why}");
        }
    }

    #[test]
    fn a_refusal_is_a_challenge_first_and_a_failure_then() {
        let verifier = Verifier::new(&TokenKeys::default(), rules()).unwrap();
        let step = |server: &mut Server, message: &str| {
            server.step(message.as_bytes(), &verifier, &[], NOW)
        };
        let good = token(&json!({"sub": "alice", "exp": NOW / 1000 + 60}));
        let message =
            |header: &str| format!("{header}\u{1}auth=Bearer {good}\u{1}traceId=7\u{1}\u{1}");
        for header in ["n,,", "n,a=alice,"] {
            assert!(matches!(
                step(&mut Server::default(), &message(header)),
                Step::Done(..)
            ));
        }
        let mut server = Server::default();
        let first = step(&mut server, &message("n,a=root,"));
        assert_eq!(
            first,
            Step::Continue(br#"{"status":"invalid_token"}"#.to_vec())
        );
        assert!(matches!(step(&mut server, "\u{1}"), Step::Failed(why) if why.contains("root")));
        for bad in [
            "",
            "n,,",
            "n,,\u{1}\u{1}",
            "n,,\u{1}auth=Basic x\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}",
            "n,,\u{1}a b=c\u{1}\u{1}",
        ] {
            assert!(
                matches!(step(&mut Server::default(), bad), Step::Failed(_)),
                "{bad:?}"
            );
        }
    }
}
