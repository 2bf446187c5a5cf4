//! Delegation tokens (KIP-48).

use std::time::Duration;

use bytes::Bytes;
use ottla_engine::Error;
use ottla_engine::call::{
    CreateDelegationToken, DescribeDelegationTokens, ExpireDelegationToken, RenewDelegationToken,
};
pub use ottla_engine::call::{DelegationToken, Principal};

use crate::admin::handle::Admin;

impl Admin {
    /// Creates a token. `owner` is whom it stands for (`None`: who asks); it lives for `max_lifetime_ms` at most, where -1 leaves
    /// that to the broker.
    ///
    /// # Errors
    /// The broker issues no tokens, or not to this client; no answer by the deadline.
    pub async fn create_delegation_token(
        &self,
        owner: Option<Principal>,
        renewers: Vec<Principal>,
        max_lifetime_ms: i64,
        timeout: Option<Duration>,
    ) -> Result<DelegationToken, Error> {
        let call = CreateDelegationToken {
            owner,
            renewers,
            max_lifetime_ms,
        };
        self.ask(call, timeout).await
    }

    /// Makes a token live for `period_ms` from now, and tells when it ends, in ms since 1970 UTC.
    ///
    /// # Errors
    /// The token is not known or not this client's; no answer by the deadline.
    pub async fn renew_delegation_token(
        &self,
        hmac: Bytes,
        period_ms: i64,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        self.ask(RenewDelegationToken { hmac, period_ms }, timeout)
            .await
    }

    /// Makes a token end in `period_ms`, or at once for -1, and tells when it ends, in ms since 1970 UTC.
    ///
    /// # Errors
    /// The token is not known or not this client's; no answer by the deadline.
    pub async fn expire_delegation_token(
        &self,
        hmac: Bytes,
        period_ms: i64,
        timeout: Option<Duration>,
    ) -> Result<i64, Error> {
        self.ask(ExpireDelegationToken { hmac, period_ms }, timeout)
            .await
    }

    /// The tokens that the client may see: of these owners, or all.
    ///
    /// # Errors
    /// The broker issues no tokens; no answer by the deadline.
    pub async fn describe_delegation_tokens(
        &self,
        owners: Option<Vec<Principal>>,
        timeout: Option<Duration>,
    ) -> Result<Vec<DelegationToken>, Error> {
        self.ask(DescribeDelegationTokens { owners }, timeout).await
    }
}
