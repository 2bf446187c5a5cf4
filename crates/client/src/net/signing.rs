//! Signatures of assertions (RFC 7515), for requests to a token endpoint by JWT bearer grant (RFC
//! 7523).

use ottla_engine::{Error, Kind};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};

/// Signs `message` with a private key in PKCS #8 (DER), by `RS256` or `ES256`.
///
/// # Errors
/// `Kind::Config`: the key is not one for this algorithm. The error shows nothing of it.
pub fn sign(algorithm: &str, key: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    let random = SystemRandom::new();
    let unusable = |cause: &dyn std::fmt::Display| {
        let text = format!(
            "the private key is not one for {algorithm} in PKCS #8 without a passphrase: {cause}"
        );
        Error::new(Kind::Config, text)
    };
    match algorithm {
        "RS256" => {
            let pair = RsaKeyPair::from_pkcs8(key).map_err(|cause| unusable(&cause))?;
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                .map_err(|cause| unusable(&cause))?;
            Ok(signature)
        }
        "ES256" => {
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random)
                .map_err(|cause| unusable(&cause))?;
            let signature = pair
                .sign(&random, message)
                .map_err(|cause| unusable(&cause))?;
            Ok(signature.as_ref().to_vec())
        }
        _ => {
            let text = format!("{algorithm} is not known here: RS256 and ES256 are");
            Err(Error::new(Kind::Config, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};

    use super::*;

    #[test]
    fn what_is_signed_is_verified_by_the_public_key() {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let signature = sign("ES256", made.as_ref(), b"header.claims").unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random)
                .unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        public.verify(b"header.claims", &signature).unwrap();
        for (algorithm, key) in [
            ("RS256", made.as_ref()),
            ("ES256", b"no key"),
            ("HS256", b""),
        ] {
            assert_eq!(sign(algorithm, key, b"").unwrap_err().kind(), Kind::Config);
        }
    }
}
