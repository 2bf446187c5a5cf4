//! DescribeDelegationToken, versions 0 to 3 (KIP-48): those of some owners, or all that the client may see.

use bytes::Bytes;
use ottla_protocol::messages::describe_delegation_token_response::{
    DescribedDelegationToken, DescribedDelegationTokenRenewer,
};
use ottla_protocol::messages::{DescribeDelegationTokenRequest, DescribeDelegationTokenResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource, ResourceType};
use crate::security::tokens::Token;

/// The only type of principals.
const USER: Str = Str::from_static("User");

impl Api for DescribeDelegationTokenRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeDelegationTokenResponse> {
        if !cx.client.session.lock().may_delegate() {
            let code = ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED;
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let is_asked = |token: &Token| {
            let owners = self.owners.as_ref();
            owners.is_none_or(|owners| {
                owners
                    .iter()
                    .any(|owner| *owner.principal_name == *token.owner)
            })
        };
        let tokens = cx
            .core
            .security
            .verifiers
            .tokens
            .valid(cx.core.wall.at(cx.now));
        let seen = tokens
            .into_iter()
            .filter(|token| is_asked(token) && may_see(cx, token));
        Outcome::Answer(DescribeDelegationTokenResponse {
            tokens: seen.map(|token| described(cx.version, token)).collect(),
            ..Default::default()
        })
    }
}

fn may_see(cx: &Cx<'_>, token: &Token) -> bool {
    let owner = format!("User:{}", token.owner);
    let by_token = Resource {
        kind: ResourceType::DelegationToken,
        name: &token.id,
    };
    let by_user = Resource {
        kind: ResourceType::User,
        name: &owner,
    };
    token.is_of(&cx.who.principal.0)
        || cx.may(Operation::Describe, by_token)
        || cx.may(Operation::DescribeTokens, by_user)
}

fn described(version: i16, token: Token) -> DescribedDelegationToken {
    let renewers = token.renewers.into_iter();
    let renewers = renewers.map(|name| DescribedDelegationTokenRenewer {
        principal_type: USER,
        principal_name: name.into(),
        ..Default::default()
    });
    let mut described = DescribedDelegationToken {
        principal_type: USER,
        principal_name: token.owner.into(),
        issue_timestamp: token.issued_ms,
        expiry_timestamp: token.expires_ms,
        max_timestamp: token.max_ms,
        token_id: token.id.into(),
        hmac: Bytes::copy_from_slice(token.hmac.bytes()),
        renewers: renewers.collect(),
        ..Default::default()
    };
    if version >= 3 {
        described.token_requester_principal_type = USER;
        described.token_requester_principal_name = token.requester.into();
    }
    described
}
