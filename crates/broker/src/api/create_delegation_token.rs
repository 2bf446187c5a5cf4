//! CreateDelegationToken, versions 0 to 3 (KIP-48); from version 3 also for another user (KIP-373).

use bytes::Bytes;
use ottla_protocol::messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource, ResourceType};
use crate::security::tokens::Token;

/// The only type of principals.
const USER: &str = "User";

impl Api for CreateDelegationTokenRequest {
    const HANDLED: Versions = Versions { min: 0, max: 3 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<CreateDelegationTokenResponse> {
        let requester = cx.who.principal.0.clone();
        let owner = self
            .owner_principal_name
            .clone()
            .filter(|name| !name.is_empty());
        let owner = owner.unwrap_or_else(|| requester.clone());
        Outcome::Answer(match create(cx, &self, &owner) {
            Ok(token) => CreateDelegationTokenResponse {
                issue_timestamp_ms: token.issued_ms,
                expiry_timestamp_ms: token.expires_ms,
                max_timestamp_ms: token.max_ms,
                token_id: token.id.into(),
                hmac: Bytes::copy_from_slice(token.hmac.bytes()),
                ..answer(cx, owner, requester, ErrorCode::NONE)
            },
            Err(code) => answer(cx, owner, requester, code),
        })
    }
}

fn create(
    cx: &Cx<'_>,
    request: &CreateDelegationTokenRequest,
    owner: &Str,
) -> Result<Token, ErrorCode> {
    if !cx.client.session.lock().may_delegate() {
        return Err(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED);
    }
    let requester = &cx.who.principal.0;
    if owner != requester {
        let name = format!("{USER}:{owner}");
        let resource = Resource {
            kind: ResourceType::User,
            name: &name,
        };
        if !cx.may(Operation::CreateTokens, resource) {
            return Err(ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED);
        }
    }
    if request
        .renewers
        .iter()
        .any(|renewer| &*renewer.principal_type != USER)
    {
        return Err(ErrorCode::INVALID_PRINCIPAL_TYPE);
    }
    let renewers = request.renewers.iter();
    let renewers = renewers.map(|renewer| renewer.principal_name.to_string());
    let verifiers = &cx.core.security.verifiers;
    Ok(verifiers.tokens.create(
        owner.to_string(),
        requester.to_string(),
        renewers.collect(),
        request.max_lifetime_ms,
        cx.core.wall.at(cx.now),
        &verifiers.nonces,
    ))
}

fn answer(
    cx: &Cx<'_>,
    owner: Str,
    requester: Str,
    code: ErrorCode,
) -> CreateDelegationTokenResponse {
    let mut answer = CreateDelegationTokenResponse {
        error_code: code.0,
        principal_type: Str::from_static(USER),
        principal_name: owner,
        ..Default::default()
    };
    if cx.version >= 3 {
        answer.token_requester_principal_type = Str::from_static(USER);
        answer.token_requester_principal_name = requester;
    }
    answer
}
