//! Delegation tokens (KIP-48, KIP-373): CreateDelegationToken, RenewDelegationToken,
//! ExpireDelegationToken and DescribeDelegationToken. Any broker handles them.
//!
//! A token is a name and a password for SCRAM (`tokenauth=true`): its HMAC is a secret, which no `Debug` here shows.

use std::fmt;

use bytes::Bytes;
use ottla_protocol::messages::create_delegation_token_request::CreatableRenewers;
use ottla_protocol::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use ottla_protocol::messages::describe_delegation_token_response::DescribedDelegationToken;
use ottla_protocol::messages::{
    CreateDelegationTokenRequest, DescribeDelegationTokenRequest, ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::only;
use crate::call::{About, Asked, Call, Target, values};
use crate::error::Error;

verbs! {
    create_delegation_token: CreateDelegationToken,
    renew_delegation_token: RenewDelegationToken,
    expire_delegation_token: ExpireDelegationToken,
    describe_delegation_tokens: DescribeDelegationTokens,
}

const THE_TOKEN: &str = "the token";
/// The version of CreateDelegationToken from which on a token may be for another owner (KIP-373).
const OWNERS: i16 = 3;

/// The owner or renewer of a token, such as `User` and `alice`. For callers it is a pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub struct Principal {
    /// The type; Kafka's own authorizer knows `User`.
    pub kind: String,
    /// The name.
    pub name: String,
}

impl From<(String, String)> for Principal {
    fn from((kind, name): (String, String)) -> Principal {
        Principal { kind, name }
    }
}

impl From<Principal> for (String, String) {
    fn from(principal: Principal) -> (String, String) {
        (principal.kind, principal.name)
    }
}

/// A delegation token as brokers describe it. Times are in ms since 1970 UTC.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct DelegationToken {
    /// Its id, which is the user name of who authenticates with it.
    pub id: String,
    /// Its HMAC, which in base64 is the password.
    #[serde(serialize_with = "values::bytes")]
    pub hmac: Bytes,
    /// Whom it stands for.
    pub owner: Principal,
    /// The principal that requested it; brokers before version 3 do not return it.
    pub requester: Option<Principal>,
    /// The principals that may renew it, besides its owner; known only of tokens that were
    /// described.
    pub renewers: Vec<Principal>,
    /// When it was made.
    #[serde(rename = "issued")]
    pub issued_ms: i64,
    /// When it ends, unless it is renewed.
    #[serde(rename = "expires")]
    pub expires_ms: i64,
    /// When it ends at the latest.
    #[serde(rename = "ends")]
    pub ends_ms: i64,
}

impl fmt::Debug for DelegationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegationToken")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .field("expires_ms", &self.expires_ms)
            .finish_non_exhaustive()
    }
}

fn requester(kind: &str, name: &str) -> Option<Principal> {
    (!name.is_empty()).then(|| Principal {
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

fn checked<T>(code: i16, api: ApiKey, found: impl FnOnce() -> T) -> Result<T, Error> {
    let code = ErrorCode(code);
    let advice = match code {
        ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED => {
            "the brokers have no delegation.token.secret.key, so they issue no delegation tokens"
        }
        ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED => {
            "tokens are made and renewed over connections with SASL or mutual TLS that were not made by a token themselves"
        }
        ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH => "only the owner and the renewers may do that",
        _ => "",
    };
    if code.is_error() {
        return Err(Error::from_code(code, Some(advice)).calling(api.name()));
    }
    Ok(found())
}

/// Creates a token.
#[derive(Clone, Debug, Deserialize)]
pub struct CreateDelegationToken {
    /// The owner of the token; `None` for the requester itself (KIP-373: another owner needs a
    /// permission, and brokers since 3.3).
    pub owner: Option<Principal>,
    /// The principals that may renew it, besides its owner.
    pub renewers: Vec<Principal>,
    /// The longest that it may live, in ms; -1 leaves it to the broker.
    pub max_lifetime_ms: i64,
}

impl Call for CreateDelegationToken {
    type Found = DelegationToken;
    type Answer = DelegationToken;
    const API: ApiKey = ApiKey::CreateDelegationToken;

    fn changes(&self) -> bool {
        true
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let renewers = self.renewers.iter().map(|principal| CreatableRenewers {
            principal_type: principal.kind.as_str().into(),
            principal_name: principal.name.as_str().into(),
            ..Default::default()
        });
        let mut request = CreateDelegationTokenRequest {
            renewers: renewers.collect(),
            max_lifetime_ms: self.max_lifetime_ms,
            ..Default::default()
        };
        let owner = self.owner.as_ref();
        // Older versions have no owner; a requested one is not dropped silently.
        if owner.is_some() || about.version >= OWNERS {
            request.owner_principal_type = owner.map(|owner| owner.kind.as_str().into());
            request.owner_principal_name = owner.map(|owner| owner.name.as_str().into());
        }
        Request::CreateDelegationToken(request)
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<DelegationToken, Error>> {
        let Response::CreateDelegationToken(answer) = response else {
            return Vec::new();
        };
        vec![checked(answer.error_code, Self::API, || DelegationToken {
            id: answer.token_id.to_string(),
            hmac: answer.hmac.clone(),
            owner: Principal {
                kind: answer.principal_type.to_string(),
                name: answer.principal_name.to_string(),
            },
            requester: requester(
                &answer.token_requester_principal_type,
                &answer.token_requester_principal_name,
            ),
            renewers: self.renewers.clone(),
            issued_ms: answer.issue_timestamp_ms,
            expires_ms: answer.expiry_timestamp_ms,
            ends_ms: answer.max_timestamp_ms,
        })]
    }

    fn merge(self, found: Vec<Result<DelegationToken, Error>>) -> Result<DelegationToken, Error> {
        only(found, THE_TOKEN)
    }
}

/// Declares the calls that set the end of a token: each with its request and the field of its
/// period.
macro_rules! periods {
    ($($(#[$doc:meta])* $name:ident($request:ident . $field:ident);)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Deserialize)]
        pub struct $name {
            /// The token's HMAC.
            #[serde(deserialize_with = "values::byte_string")]
            pub hmac: Bytes,
            /// From now, in ms; or -1.
            pub period_ms: i64,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({} ms)"), self.period_ms)
            }
        }

        impl Call for $name {
            type Found = i64;
            /// When the token ends, in ms since 1970 UTC.
            type Answer = i64;
            const API: ApiKey = ApiKey::$name;

            fn changes(&self) -> bool {
                true
            }

            fn target(&self, _: usize) -> Target {
                Target::Any
            }

            fn request(&self, _: &[usize], _: &About<'_>) -> Request {
                Request::$name($request {
                    hmac: self.hmac.clone(),
                    $field: self.period_ms,
                    ..Default::default()
                })
            }

            fn take(&self, _: &[Asked], response: Response) -> Vec<Result<i64, Error>> {
                let Response::$name(answer) = response else {
                    return Vec::new();
                };
                let expiry = answer.expiry_timestamp_ms;
                vec![checked(answer.error_code, Self::API, || expiry)]
            }

            fn merge(self, found: Vec<Result<i64, Error>>) -> Result<i64, Error> {
                only(found, THE_TOKEN)
            }
        }
    )* };
}

periods! {
    /// Makes a token live longer, for this period; -1 leaves it to the broker.
    RenewDelegationToken(RenewDelegationTokenRequest.renew_period_ms);
    /// Makes a token end sooner, after this period; -1 ends it at once.
    ExpireDelegationToken(ExpireDelegationTokenRequest.expiry_time_period_ms);
}

/// Describes the tokens that the client may see.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeDelegationTokens {
    /// Only those of these owners; `None` for all.
    pub owners: Option<Vec<Principal>>,
}

impl Call for DescribeDelegationTokens {
    type Found = Vec<DelegationToken>;
    type Answer = Vec<DelegationToken>;
    const API: ApiKey = ApiKey::DescribeDelegationToken;

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let owners = self.owners.as_ref().map(|owners| {
            let rows = owners.iter().map(|owner| DescribeDelegationTokenOwner {
                principal_type: owner.kind.as_str().into(),
                principal_name: owner.name.as_str().into(),
                ..Default::default()
            });
            rows.collect()
        });
        Request::DescribeDelegationToken(DescribeDelegationTokenRequest {
            owners,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeDelegationToken(answer) = response else {
            return Vec::new();
        };
        vec![checked(answer.error_code, Self::API, || {
            answer.tokens.iter().map(described).collect()
        })]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the tokens")
    }
}

fn described(row: &DescribedDelegationToken) -> DelegationToken {
    let renewers = row.renewers.iter().map(|renewer| Principal {
        kind: renewer.principal_type.to_string(),
        name: renewer.principal_name.to_string(),
    });
    DelegationToken {
        id: row.token_id.to_string(),
        hmac: row.hmac.clone(),
        owner: Principal {
            kind: row.principal_type.to_string(),
            name: row.principal_name.to_string(),
        },
        requester: requester(
            &row.token_requester_principal_type,
            &row.token_requester_principal_name,
        ),
        renewers: renewers.collect(),
        issued_ms: row.issue_timestamp,
        expires_ms: row.expiry_timestamp,
        ends_ms: row.max_timestamp,
    }
}
