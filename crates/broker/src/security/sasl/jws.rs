//! Signed JSON: compact JWS (RFC 7515) under the keys of a JWKS (RFC 7517) or a shared key.
//!
//! A key decides which algorithms are taken for it, not the token: a public key never serves as a shared one, and "none" is
//! taken only where there are no keys at all.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{hmac, signature};
use serde_json::{Map, Value};

use crate::security::secret::Secret;

/// The keys that may have signed a token.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Shared(Secret),
}

impl Keys {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add_shared(&mut self, key: Secret) {
        self.0.push(Key {
            id: None,
            algorithm: None,
            material: Material::Shared(key),
        });
    }

    /// # Errors
    /// A sentence about the key that cannot be used.
    pub(super) fn add_jwks(&mut self, text: &str) -> Result<(), String> {
        let set: Value =
            serde_json::from_str(text).map_err(|error| format!("the JWKS is no JSON: {error}"))?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("the JWKS has no list \"keys\"")?;
        for (at, key) in keys.iter().enumerate() {
            let text = |name| key.get(name).and_then(Value::as_str);
            if text("use").is_some_and(|purpose| purpose != "sig") {
                continue;
            }
            let material = material(&text).ok_or_else(|| {
                format!(
                    "key {at} of the JWKS: only RSA, P-256, P-384, Ed25519 and oct keys are known"
                )
            })?;
            self.0.push(Key {
                id: text("kid").map(str::to_owned),
                algorithm: text("alg").map(str::to_owned),
                material,
            });
        }
        if self.is_empty() {
            return Err("the JWKS has no key that signs".to_owned());
        }
        Ok(())
    }

    /// The claims of a token that one of the keys has signed.
    ///
    /// # Errors
    /// Why it is not taken; no part of the token is in it.
    pub(super) fn claims(&self, token: &str) -> Result<Map<String, Value>, &'static str> {
        let (signed, signature) = token.rsplit_once('.').ok_or("it is not a JWT")?;
        let (header, claims) = signed.split_once('.').ok_or("it is not a JWT")?;
        let header = object(header).ok_or("its header is not JSON in base64url")?;
        let claims = object(claims).ok_or("its claims are not JSON in base64url")?;
        let text = |name| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").ok_or("its header names no algorithm")?;
        if header.contains_key("crit") {
            return Err("its header has critical extensions");
        }
        if self.is_empty() {
            return match (algorithm, signature) {
                ("none", "") => Ok(claims),
                _ => {
                    Err("it is signed, and the broker has no key: only unsecured tokens are taken")
                }
            };
        }
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| "its signature is not base64url")?;
        let named = |key: &&Key| match (text("kid"), &key.id) {
            (Some(asked), Some(id)) => asked == id,
            _ => true,
        };
        let is_signed = self
            .0
            .iter()
            .filter(named)
            .filter(|key| key.algorithm.as_deref().is_none_or(|own| own == algorithm))
            .any(|key| {
                key.material
                    .has_signed(algorithm, signed.as_bytes(), &signature)
            });
        if is_signed {
            Ok(claims)
        } else {
            Err("no key of the broker has signed it")
        }
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn material<'a>(text: &impl Fn(&'static str) -> Option<&'a str>) -> Option<Material> {
    let bytes = |name| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let point = || Some([vec![4], bytes("x")?, bytes("y")?].concat());
    match (text("kty")?, text("crv")) {
        ("RSA", _) => Some(Material::Rsa {
            n: bytes("n")?,
            e: bytes("e")?,
        }),
        ("EC", Some("P-256")) => point().map(Material::P256),
        ("EC", Some("P-384")) => point().map(Material::P384),
        ("OKP", Some("Ed25519")) => bytes("x").map(Material::Ed25519),
        ("oct", _) => bytes("k").map(|key| Material::Shared(Secret::new(key))),
        _ => None,
    }
}

impl Material {
    fn has_signed(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        let verified = |how: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(how, key)
                .verify(text, signature)
                .is_ok()
        };
        let shared = |how: hmac::Algorithm, key: &Secret| {
            hmac::verify(&hmac::Key::new(how, key.bytes()), text, signature).is_ok()
        };
        match (self, algorithm) {
            (Self::Rsa { n, e }, _) => {
                let how = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                let key = signature::RsaPublicKeyComponents { n, e };
                key.verify(how, text, signature).is_ok()
            }
            (Self::P256(key), "ES256") => verified(&signature::ECDSA_P256_SHA256_FIXED, key),
            (Self::P384(key), "ES384") => verified(&signature::ECDSA_P384_SHA384_FIXED, key),
            (Self::Ed25519(key), "EdDSA") => verified(&signature::ED25519, key),
            (Self::Shared(key), "HS256") => shared(hmac::HMAC_SHA256, key),
            (Self::Shared(key), "HS384") => shared(hmac::HMAC_SHA384, key),
            (Self::Shared(key), "HS512") => shared(hmac::HMAC_SHA512, key),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515, appendix A.1.
    const A1: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const A1_KEY: &str =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    /// RFC 7515, appendix A.3.
    const A3: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    const A3_KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    fn keys(jwk: &str) -> Keys {
        let mut keys = Keys::default();
        keys.add_jwks(&format!("{{\"keys\":[{jwk}]}}")).unwrap();
        keys
    }

    #[test]
    fn the_published_tokens_are_taken_by_their_keys_alone() {
        let shared = keys(&format!("{{\"kty\":\"oct\",\"k\":\"{A1_KEY}\"}}"));
        let elliptic = keys(A3_KEY);
        assert_eq!(shared.claims(A1).unwrap()["iss"], "joe");
        assert_eq!(elliptic.claims(A3).unwrap()["iss"], "joe");
        for (keys, token) in [(&shared, A3), (&elliptic, A1)] {
            assert_eq!(
                keys.claims(token),
                Err("no key of the broker has signed it")
            );
        }
        for token in [A1, A3] {
            let keys = if token == A1 { &shared } else { &elliptic };
            let damaged = token
                .replacen("joe", "jo", 1)
                .replace("eyJpc3Mi", "eyJpc3Mj");
            assert!(keys.claims(&damaged).is_err());
            assert!(
                Keys::default()
                    .claims(token)
                    .unwrap_err()
                    .contains("has no key")
            );
        }
    }

    #[test]
    fn unsecured_tokens_are_taken_only_without_keys() {
        let unsecured = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode(r#"{"sub":"alice"}"#)
        );
        assert_eq!(Keys::default().claims(&unsecured).unwrap()["sub"], "alice");
        assert!(keys(A3_KEY).claims(&unsecured).is_err());
        for bad in [
            "",
            ".",
            "..",
            "a.b.c",
            "e30.e30.",
            "eyJhbGciOiJub25lIn0.e30.x",
        ] {
            assert!(Keys::default().claims(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_public_key_is_no_shared_key() {
        let public = URL_SAFE_NO_PAD
            .decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
            .unwrap();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#),
            URL_SAFE_NO_PAD.encode(r#"{"sub":"mallory"}"#)
        );
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, &public),
            signed.as_bytes(),
        );
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert!(keys(A3_KEY).claims(&token).is_err());
    }

    #[test]
    fn a_jwks_that_cannot_be_used_is_refused() {
        for (text, reason) in [
            ("", "no JSON"),
            ("{}", "\"keys\""),
            (r#"{"keys":[]}"#, "no key"),
            (
                r#"{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}"#,
                "key 0",
            ),
            (r#"{"keys":[{"kty":"RSA","use":"enc"}]}"#, "no key"),
        ] {
            let error = Keys::default().add_jwks(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
