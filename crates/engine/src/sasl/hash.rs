//! The hashes of SCRAM's mechanisms, and what is made with them.

use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};

/// The hash of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub(super) fn hmac(self) -> hmac::Algorithm {
        match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        }
    }

    pub(super) fn digest(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        }
    }

    /// `SaltedPassword` of RFC 5802: PBKDF2 with as many bytes as the hash has.
    pub(super) fn stretch(self, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Hash::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut stretched = vec![0; self.digest().output_len()];
        pbkdf2::derive(algorithm, iterations, salt, password, &mut stretched);
        stretched
    }

    pub(super) fn sign(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.hmac(), key), message)
    }
}
