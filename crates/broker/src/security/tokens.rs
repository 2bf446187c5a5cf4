//! Delegation tokens (KIP-48, KIP-373): a user's stand-in, which authenticates by SCRAM with its id for a name and its HMAC, in
//! base64, for a password.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ottla_protocol::ErrorCode;
use parking_lot::Mutex;

use super::nonce::Nonces;
use super::secret::Secret;
use super::users::{Credential, ITERATIONS, ScramHash};

/// How long tokens last, in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lifetimes {
    /// Until a token that is not renewed expires.
    pub(crate) expiry_ms: i64,
    /// Until it cannot be renewed any more.
    pub(crate) max_ms: i64,
}

/// One token. Names are those of users.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) id: String,
    pub(crate) hmac: Secret,
    pub(crate) owner: String,
    pub(crate) requester: String,
    pub(crate) renewers: Vec<String>,
    pub(crate) issued_ms: i64,
    pub(crate) expires_ms: i64,
    pub(crate) max_ms: i64,
}

impl Token {
    /// May `user` renew it, end it and see it?
    pub(crate) fn is_of(&self, user: &str) -> bool {
        self.owner == user
            || self.requester == user
            || self.renewers.iter().any(|renewer| renewer == user)
    }
}

/// All tokens, by id.
#[derive(Debug)]
pub(crate) struct Tokens {
    lifetimes: Lifetimes,
    tokens: Mutex<BTreeMap<String, Token>>,
}

/// The longest that is given when nothing is asked for; below any overflow.
const LONGEST_MS: i64 = i64::MAX / 4;

impl Tokens {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            tokens: Mutex::new(BTreeMap::new()),
        }
    }

    /// Makes a token; `lifetime_ms` below 1 requests the longest.
    pub(crate) fn create(
        &self,
        owner: String,
        requester: String,
        renewers: Vec<String>,
        lifetime_ms: i64,
        now_ms: i64,
        nonces: &Nonces,
    ) -> Token {
        let longest = self.lifetimes.max_ms.min(LONGEST_MS);
        let lifetime = if lifetime_ms > 0 {
            lifetime_ms.min(longest)
        } else {
            longest
        };
        let max_ms = now_ms.saturating_add(lifetime);
        let id: Vec<u8> = nonces.bytes().into_iter().take(16).collect();
        let token = Token {
            id: URL_SAFE_NO_PAD.encode(id),
            hmac: Secret::new([nonces.bytes(), nonces.bytes()].concat()),
            owner,
            requester,
            renewers,
            issued_ms: now_ms,
            expires_ms: self.expiry(-1, max_ms, now_ms),
            max_ms,
        };
        self.tokens.lock().insert(token.id.clone(), token.clone());
        token
    }

    /// Gives a token until `period_ms` from now; below 0 is the usual time.
    pub(crate) fn renew(
        &self,
        hmac: &[u8],
        user: &str,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let mut tokens = self.tokens.lock();
        let token = find(&mut tokens, hmac, user)?;
        if token.expires_ms < now_ms || token.max_ms < now_ms {
            return Err(ErrorCode::DELEGATION_TOKEN_EXPIRED);
        }
        token.expires_ms = self.expiry(period_ms, token.max_ms, now_ms);
        Ok(token.expires_ms)
    }

    /// Ends a token `period_ms` from now; below 0 is at once.
    pub(crate) fn expire(
        &self,
        hmac: &[u8],
        user: &str,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let mut tokens = self.tokens.lock();
        let token = find(&mut tokens, hmac, user)?;
        if period_ms < 0 {
            let id = token.id.clone();
            tokens.remove(&id);
            return Ok(now_ms);
        }
        if token.expires_ms < now_ms || token.max_ms < now_ms {
            return Err(ErrorCode::DELEGATION_TOKEN_EXPIRED);
        }
        token.expires_ms = self.expiry(period_ms, token.max_ms, now_ms);
        Ok(token.expires_ms)
    }

    /// The tokens that have not expired.
    pub(crate) fn valid(&self, now_ms: i64) -> Vec<Token> {
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, token| token.expires_ms >= now_ms);
        tokens.values().cloned().collect()
    }

    /// What SCRAM checks a token by, and whom it stands for until when.
    pub(crate) fn credential(
        &self,
        id: &str,
        hash: ScramHash,
        nonces: &Nonces,
        now_ms: i64,
    ) -> Option<(Credential, Token)> {
        let token = self.tokens.lock().get(id).cloned();
        let token = token.filter(|token| token.expires_ms >= now_ms)?;
        let password = STANDARD.encode(token.hmac.bytes());
        let iterations: NonZeroU32 = ITERATIONS;
        let salt = nonces.bytes().to_vec();
        let credential = Credential::of_password(hash, password.as_bytes(), salt, iterations);
        Some((credential, token))
    }

    fn expiry(&self, period_ms: i64, max_ms: i64, now_ms: i64) -> i64 {
        let period = if period_ms < 0 {
            self.lifetimes.expiry_ms
        } else {
            period_ms
        };
        now_ms.saturating_add(period).min(max_ms)
    }
}

fn find<'a>(
    tokens: &'a mut BTreeMap<String, Token>,
    hmac: &[u8],
    user: &str,
) -> Result<&'a mut Token, ErrorCode> {
    let mut all = tokens.values_mut();
    let token = all
        .find(|token| token.hmac.is(hmac))
        .ok_or(ErrorCode::DELEGATION_TOKEN_NOT_FOUND)?;
    if token.owner == user || token.renewers.iter().any(|renewer| renewer == user) {
        Ok(token)
    } else {
        Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_until_it_is_ended_or_no_longer_renewed() {
        let nonces = Nonces::new([1; 32]);
        let tokens = Tokens::new(Lifetimes {
            expiry_ms: 100,
            max_ms: 1000,
        });
        let make = |lifetime| {
            tokens.create(
                "alice".into(),
                "alice".into(),
                vec!["bob".into()],
                lifetime,
                0,
                &nonces,
            )
        };
        let token = make(-1);
        assert_eq!((token.expires_ms, token.max_ms), (100, 1000));
        assert_eq!(make(50).expires_ms, 50);
        let hmac = token.hmac.bytes();
        assert_eq!(tokens.renew(hmac, "bob", 500, 60), Ok(560));
        assert_eq!(tokens.renew(hmac, "alice", 5000, 500), Ok(1000));
        assert_eq!(
            tokens.renew(hmac, "carol", -1, 500),
            Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH)
        );
        assert_eq!(
            tokens.renew(b"x", "alice", -1, 500),
            Err(ErrorCode::DELEGATION_TOKEN_NOT_FOUND)
        );
        assert_eq!(
            tokens.renew(hmac, "alice", -1, 1001),
            Err(ErrorCode::DELEGATION_TOKEN_EXPIRED)
        );
        assert_eq!(tokens.valid(1000).len(), 1);
        let of = |now| tokens.credential(&token.id, ScramHash::Sha256, &nonces, now);
        assert!(of(1000).is_some_and(|(_, token)| token.owner == "alice") && of(1001).is_none());
        assert_eq!(tokens.expire(hmac, "alice", 10, 900), Ok(910));
        assert_eq!(tokens.expire(hmac, "alice", -1, 901), Ok(901));
        assert!(tokens.valid(901).is_empty());
    }
}
