//! Users: their passwords, and their SCRAM credentials, which are no passwords.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use parking_lot::RwLock;
use ring::{digest, hmac, pbkdf2};

use super::nonce::Nonces;
use super::secret::Secret;

/// The hash of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScramHash {
    Sha256 = 1,
    Sha512 = 2,
}

/// Iterations of credentials made from a password here; also the fewest that Kafka allows.
pub(crate) const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// The most that Kafka allows.
pub(crate) const MOST_ITERATIONS: u32 = 16_384;

impl ScramHash {
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// By the number that the SCRAM APIs have for it (KIP-554).
    pub(crate) fn from_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| *hash as i8 == code)
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    pub(crate) fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac(), key), text)
            .as_ref()
            .to_vec()
    }

    pub(crate) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        digest::digest(self.digest(), bytes).as_ref().to_vec()
    }
}

/// What a SCRAM server keeps of a user (RFC 5802, section 3).
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) salt: Vec<u8>,
    pub(crate) iterations: u32,
    pub(crate) stored_key: Secret,
    pub(crate) server_key: Secret,
}

impl Credential {
    pub(crate) fn of_password(
        hash: ScramHash,
        password: &[u8],
        salt: Vec<u8>,
        iterations: NonZeroU32,
    ) -> Self {
        let mut salted = vec![0; hash.digest().output_len()];
        pbkdf2::derive(hash.pbkdf2(), iterations, &salt, password, &mut salted);
        Self::of_salted(hash, &salted, salt, iterations.get())
    }

    pub(crate) fn of_salted(
        hash: ScramHash,
        salted_password: &[u8],
        salt: Vec<u8>,
        iterations: u32,
    ) -> Self {
        let client_key = hash.sign(salted_password, b"Client Key");
        Self {
            salt,
            iterations,
            stored_key: Secret::new(hash.hash(&client_key)),
            server_key: Secret::new(hash.sign(salted_password, b"Server Key")),
        }
    }
}

#[derive(Debug, Default)]
struct User {
    password: Option<Secret>,
    scram: BTreeMap<ScramHash, Credential>,
}

/// All users, by name.
#[derive(Debug, Default)]
pub(crate) struct Users(RwLock<BTreeMap<String, User>>);

impl Users {
    pub(crate) fn new(given: &[(String, Secret)], nonces: &Nonces) -> Self {
        let user = |password: &Secret| User {
            password: Some(password.clone()),
            scram: ScramHash::ALL
                .into_iter()
                .map(|hash| {
                    let salt = nonces.bytes().to_vec();
                    let credential =
                        Credential::of_password(hash, password.bytes(), salt, ITERATIONS);
                    (hash, credential)
                })
                .collect(),
        };
        let users = given
            .iter()
            .map(|(name, password)| (name.clone(), user(password)));
        Self(RwLock::new(users.collect()))
    }

    /// Is that the password of `name`? An unknown user has none.
    pub(crate) fn has_password(&self, name: &str, claimed: &[u8]) -> bool {
        let users = self.0.read();
        let password = users.get(name).and_then(|user| user.password.as_ref());
        password.is_some_and(|password| password.is(claimed))
    }

    pub(crate) fn credential(&self, name: &str, hash: ScramHash) -> Option<Credential> {
        self.0.read().get(name)?.scram.get(&hash).cloned()
    }

    /// Sets or replaces a SCRAM credential.
    pub(crate) fn set(&self, name: &str, hash: ScramHash, credential: Credential) {
        let mut users = self.0.write();
        let user = users.entry(name.to_owned()).or_default();
        user.scram.insert(hash, credential);
    }

    /// Removes a SCRAM credential; false if there was none.
    pub(crate) fn remove(&self, name: &str, hash: ScramHash) -> bool {
        let mut users = self.0.write();
        let removed = users
            .get_mut(name)
            .is_some_and(|user| user.scram.remove(&hash).is_some());
        users.retain(|_, user| user.password.is_some() || !user.scram.is_empty());
        removed
    }

    /// The SCRAM credentials of all users, or of one, as (hash, iterations).
    pub(crate) fn describe(&self, name: Option<&str>) -> Vec<(String, Vec<(ScramHash, u32)>)> {
        let users = self.0.read();
        let wanted = users
            .iter()
            .filter(|(user, _)| name.is_none_or(|name| name == *user))
            .filter(|(_, user)| !user.scram.is_empty());
        wanted
            .map(|(name, user)| {
                let infos = user.scram.iter();
                (
                    name.clone(),
                    infos.map(|(hash, c)| (*hash, c.iterations)).collect(),
                )
            })
            .collect()
    }
}
